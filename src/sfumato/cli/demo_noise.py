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
from sfumato.storage.contents import CUSTODY

FORMULA = "systolic ~ height + weight_kg + sex"
_KEPT = ["sex", "height", "weight_kg", "systolic"]
_SHARE = 0.25


@dataclass(frozen=True)
class NoiseDemo:
    """A row per coefficient: from the original, with the noise ignored, and taken out."""

    rows: list[dict[str, Any]]


def release_with_noise(data: Dataset, folder: Path, tell: Progress) -> NoiseDemo:
    """Release four variables with noise on two of them, and fit a model to the release."""
    from sfumato.analysis.fit import fit

    frame = data.batch(_KEPT).drop_nulls()
    roles: Any = {"sex": "other", "height": "quasi", "weight_kg": "quasi", "systolic": "sensitive"}
    plan = Plan(
        schema=Schema(roles),
        steps=[Noise(variables=["height", "weight_kg"], variance_share=_SHARE, whole=False)],
    )
    earlier = folder / CUSTODY / "key"
    release = protect(Dataset(frame, plan.schema), plan, key=earlier if earlier.is_file() else None)
    release.write(folder, overwrite=True, ledger=False)  # nobody is in it
    tell("fitting a model", 0, 1)
    summary = fit(FORMULA, folder, seed=1).summary()
    truth = _fit_original(frame)
    return NoiseDemo(
        [
            {
                "term": str(term),
                "original": truth[index],
                "naive": float(summary.loc[term, "naive"]),
                "fit": float(summary.loc[term, "mean"]),
                "low": float(summary.loc[term, "low"]),
                "high": float(summary.loc[term, "high"]),
            }
            for index, term in enumerate(summary.index[: len(truth)])
        ]
    )


def _fit_original(frame: pl.DataFrame) -> list[float]:
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
    return [
        float(coefficient)
        for coefficient in np.linalg.lstsq(design, frame["systolic"], rcond=None)[0]
    ]
