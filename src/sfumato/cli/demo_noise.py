"""The other half of the demo: a release with noise, and a model that takes it out again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.methods.noise import Noise
from sfumato.plan import Plan
from sfumato.progress import Progress
from sfumato.run import protect
from sfumato.schema import Schema
from sfumato.storage.opened import CUSTODY

FORMULA = "systolic ~ height + weight_kg + sex"
_KEPT = ["sex", "height", "weight_kg", "systolic"]
_SHARE = 0.25


@dataclass(frozen=True)
class Noised:
    """A row per coefficient: from the original, with the noise ignored, and taken out."""

    rows: list[dict[str, Any]]


def noised(data: Dataset, folder: Path, tell: Progress) -> Noised:
    """Release four variables with noise on two of them, and fit a model to the release."""
    from sfumato.analysis.fit import fit

    frame = data.batch(_KEPT).drop_nulls()
    roles: Any = {"sex": "other", "height": "quasi", "weight_kg": "quasi", "systolic": "sensitive"}
    plan = Plan(
        schema=Schema(roles),
        steps=[Noise(variables=["height", "weight_kg"], variance_share=_SHARE, whole=False)],
    )
    earlier = folder / CUSTODY / "key"
    made = protect(Dataset(frame, plan.schema), plan, key=earlier if earlier.is_file() else None)
    made.write(folder, overwrite=True)
    tell("fitting a model", 0, 1)
    found = fit(FORMULA, folder, seed=1).summary()
    truth = _truth(frame)
    return Noised(
        [
            {
                "term": str(term),
                "original": truth[at],
                "naive": float(found.loc[term, "naive"]),
                "fit": float(found.loc[term, "mean"]),
                "low": float(found.loc[term, "low"]),
                "high": float(found.loc[term, "high"]),
            }
            for at, term in enumerate(found.index[: len(truth)])
        ]
    )


def _truth(frame: pl.DataFrame) -> list[float]:
    """The coefficients of the original data, by least squares."""
    import numpy as np

    design = np.column_stack(
        [
            np.ones(len(frame)),
            frame["height"],
            frame["weight_kg"],
            (frame["sex"] != min(frame["sex"])).cast(pl.Float64),
        ]
    )
    return [float(one) for one in np.linalg.lstsq(design, frame["systolic"], rcond=None)[0]]
