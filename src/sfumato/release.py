"""What is released, and what stays inside as evidence."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.cells.noise import description as noise_parts
from sfumato.cells.noise.description import Noise
from sfumato.cells.vocabulary import restrict_vocabulary, vocabulary_to_json
from sfumato.data import Dataset
from sfumato.data.identity import Identity, digest, match_identities
from sfumato.errors import PlanError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.kernels.arrays import Positions
from sfumato.method import Fitted
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement
from sfumato.progress import Progress
from sfumato.randomness import Key, keyed_order

FORMAT = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """The protected data with the verdict, the public manifest and the custody record.

    In memory the records stay in the order of the original, so that the two can be compared.
    On disk they are in a random order that only the key can reproduce.
    """

    dataset: Dataset
    plan: Plan
    evidence: Mapping[str, Evidence]
    verdict: Sequence[Judgement]
    original: Dataset = field(repr=False)
    key: Key = field(repr=False)
    fitted: Sequence[Fitted] = field(repr=False)

    def __post_init__(self) -> None:
        self._noise()  # noise that cannot be described is no release

    @property
    def data(self) -> Any:
        """The protected data as a frame of the user's own library."""
        return self.dataset.frame

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What an analyst needs and everybody may see. The same plan and data give the same."""
        return {
            "format": FORMAT,
            "made_by": f"sfumato {__version__}",
            "records": len(self.dataset),
            "variables": {name: public_column(self.dataset, name) for name in self.dataset.columns},
            "methods": [
                step.public(fitted)
                for step, fitted in zip(self.plan.steps, self.fitted, strict=True)
            ],
            **self._noise_for(self.plan.release.noise or "safe"),
            "targets": [judgement.plain() for judgement in self.verdict],
            "evidence": {
                label: evidence.public().plain()
                for label, evidence in self.evidence.items()
                if evidence.audience == "public"
            },
            "order_of_rows": "as given" if self.plan.release.keep_order else "random",
            "key_commitment": self.key.commitment,
        }

    @cached_property
    def accredited(self) -> dict[str, Any] | None:
        """The manifest with the noise in full, for accredited analysts; None: all is public."""
        full = self._noise_for("all")
        return None if full.get("noise") == self.manifest.get("noise") else self.manifest | full

    @property
    def noise(self) -> dict[str, Noise]:
        """The noise in each released variable, in full."""
        return {name: noise for name, (noise, _) in self._noise().items()}

    def _noise_for(self, level: noise_parts.Detail) -> dict[str, Any]:
        noise = self._noise()
        if not noise:
            return {}
        then = {name: later for name, (_, later) in noise.items() if later}
        return {
            "noise": noise_parts.withhold(noise_parts.describe_in_full(self.noise, then), level)
        }

    def _noise(self) -> dict[str, tuple[Noise, list[str]]]:
        """Each noised variable that is released, and the steps that changed it afterwards."""
        schema, noised = self.original.schema, dict[str, tuple[Noise, list[str]]]()
        for step, fitted in zip(self.plan.steps, self.fitted, strict=True):
            described = step.describes(fitted, schema)
            for name in step.touches(schema):
                if name in noised and name in described:
                    raise PlanError(
                        f"Two steps add noise to variable '{name}', which cannot be taken out.",
                        hint="add it in one step: the variances of independent noise add up.",
                    )
                if name in noised:
                    noised[name][1].append(step.name)
            noised |= {name: (noise, []) for name, noise in described.items()}
        return {name: entry for name, entry in noised.items() if name in self.dataset.schema}

    @cached_property
    def custody(self) -> dict[str, Any]:
        """What stays inside: how it was made, and all the evidence. The key is kept apart."""
        source = self.original.source
        return {
            "format": FORMAT,
            "versions": _versions(),
            "key_commitment": self.key.commitment,
            "plan_digest": self.plan.digest,
            "input": {
                "file": source.path.name if source and source.path else None,
                "format": source.format if source else None,
                "records": len(self.original),
                "records_digest": self.original.identity.total(),
                "content_digest": content_digest(self.original),
                "identity": self.original.identity.basis,
                "notes": list(source.notes) if source else [],
                "roles": {name: column.role for name, column in self.original.schema.items()},
            },
            "steps": [
                {"method": step.name, "fitted": dict(fitted)}
                for step, fitted in zip(self.plan.steps, self.fitted, strict=True)
            ],
            "targets": [judgement.plain() for judgement in self.verdict],
            "evidence": {label: evidence.plain() for label, evidence in self.evidence.items()},
        }

    def order(self) -> Positions | None:
        """Where each row of the file comes from; None when the plan keeps the order."""
        if self.plan.release.keep_order:
            return None
        return keyed_order(self.dataset.identity.ids(self.key), self.key)

    def write(
        self, folder: str | Path, *, overwrite: bool = False, progress: Progress | None = None
    ) -> Path:
        """Write data, manifest, report and custody record into a new folder, all or nothing.

        The targets are measured again on the file as it is on the disk before the folder
        appears under its name.
        """
        from sfumato.storage.writing import write_release

        return write_release(self, Path(folder), overwrite=overwrite, progress=progress)


def content_digest(original: Dataset) -> str:
    """What tells an original from another one of the same persons: of a file its bytes."""
    source = original.source
    if source is not None and source.path is not None and source.path.is_file():
        with source.path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    values = (frames.get_column(original.frame, name) for name in sorted(original.columns))
    return f"records:{Identity('content', digest(values)).total()}"


def public_column(data: Dataset, name: str) -> dict[str, Any]:
    """What an analyst may know of a variable, and needs to read its cells."""
    column = restrict_vocabulary(data.schema[name], frames.get_column(data.frame, name))
    facts = {"role": column.role, "kind": column.kind, "missing_codes": list(column.missing)}
    return facts | vocabulary_to_json(column)


def _versions() -> dict[str, str]:
    libraries = ("numpy", "polars", "pyarrow", "narwhals", "cryptography", "scipy", "numba")
    return {
        "sfumato": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in libraries},
    }


def align_original(original: Dataset, released: Dataset) -> Dataset:
    """The original records in the order of the released ones, which may be fewer."""
    mine, theirs = original.identity.digests, released.identity.digests
    if mine.shape == theirs.shape and bool((mine == theirs).all()):
        return original
    return original.take(match_identities(mine, theirs))
