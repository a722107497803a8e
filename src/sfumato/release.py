"""What is released, and what stays inside as evidence."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato import __version__
from sfumato.cells.vocabulary import restrict_vocabulary, vocabulary_to_json
from sfumato.data import Dataset
from sfumato.data.identity import digest, digest_buckets, match_identities
from sfumato.data.stream import digest_values
from sfumato.engines import engine_for
from sfumato.errors import PlanError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.kernels.arrays import Positions
from sfumato.method import Fitted
from sfumato.noise import description as noise_parts
from sfumato.noise.description import NoiseDescription
from sfumato.parameters import list_settings
from sfumato.plan import WHOLE, Plan
from sfumato.plan.targets import Judgement
from sfumato.progress import Progress
from sfumato.randomness import Key, keyed_order

if TYPE_CHECKING:
    from sfumato.risk.composition import EarlierRelease
    from sfumato.run.case import Case
    from sfumato.run.dossier import Dossier
    from sfumato.run.lights import Lights
    from sfumato.run.tables import LinkedRelease

FORMAT = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """The protected data with the verdict, the public manifest and the custody record.

    In memory the records stay in the order of the original, so that the two can be compared.
    On disk they are in a random order that only the key can reproduce.

    Parameters
    ----------
    dataset : the protected records; `data` is their frame, in your own library.
    plan : what was done, and what must hold.
    evidence : by label, what was measured.
    verdict : each target with the number measured, and whether it is met.
    original : the records before.
    key : the secret behind all that was drawn.
    fitted : by step, what was learnt from the data. It stays inside.
    earlier : earlier releases of the same records with which it was measured together.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"name": [f"p{i}" for i in range(8)], "age": [20, 21] * 4})
    >>> plan = sf.Plan(
    ...     schema={"name": "direct", "age": "quasi"}, steps=[sf.methods.Drop()],
    ...     targets={"k.min": 4})
    >>> release = sf.protect(sf.Dataset(people, plan.schema), plan)
    >>> release.data.columns, [judgement.met for judgement in release.verdict]
    (['age'], [True])
    """

    dataset: Dataset
    plan: Plan
    evidence: Mapping[str, Evidence]
    verdict: Sequence[Judgement]
    original: Dataset = field(repr=False)
    key: Key = field(repr=False)
    fitted: Sequence[Fitted] = field(repr=False)
    earlier: Sequence[EarlierRelease] = field(default=(), repr=False)

    def __repr__(self) -> str:
        met = sum(judgement.met for judgement in self.verdict)
        size = f"{len(self.dataset):,} records, {len(self.dataset.columns)} variables"
        return f"Release({size}, {met} of {len(self.verdict)} targets met)"

    def __post_init__(self) -> None:
        self._noise()  # noise that cannot be described is no release

    @property
    def data(self) -> Any:
        """The protected data as a frame of the user's own library."""
        return self.dataset.frame

    @property
    def tables(self) -> dict[str, Release]:
        """The release of each table by its name; of one table, that is this release."""
        return {WHOLE: self}

    @property
    def records(self) -> int:
        """How many records are released."""
        return len(self.dataset)

    @property
    def all_judgements(self) -> Sequence[Judgement]:
        """The verdict; of several tables also that on each of them."""
        return self.verdict

    @property
    def all_evidence(self) -> Mapping[str, Evidence]:
        """What was measured; of several tables also of each of them."""
        return self.evidence

    @cached_property
    def case(self) -> Case:
        """All that was found out about it, each taken when first asked for, and once."""
        from sfumato.run.case import Case

        return Case(self)

    @property
    def attacks(self) -> dict[str, Evidence]:
        """The ledger of variables and every attack that applies, tried when first asked for."""
        return self.case.attacks

    @property
    def lights(self) -> Lights:
        """Whether the targets hold, and what attacks achieve: green, amber or red, and why."""
        return self.case.lights

    @property
    def dossier(self) -> Dossier | None:
        """The rules of the plan's profile, each with what was measured and tried; None: none."""
        return self.case.dossier

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What an analyst needs and everybody may see. The same plan and data give the same."""
        return {
            "format": FORMAT,
            "made_by": f"sfumato {__version__}",
            "records": len(self.dataset),
            "variables": {
                name: facts | {"steps": self.steps.get(name, [])}
                for name, facts in self._public_columns.items()
            },
            "methods": [
                step.public(fitted)
                for step, fitted in zip(self.plan.steps, self.fitted, strict=True)
            ],
            **self._noise_for(self.plan.release.noise or "safe"),
            "targets": [judgement.public() for judgement in self.verdict],
            "evidence": {
                label: evidence.public().plain()
                for label, evidence in self.evidence.items()
                if evidence.audience == "public"
            },
            "order_of_rows": "as given" if self.plan.release.keep_order else "random",
            **({"parties": parties} if (parties := self.plan.release.describe_parties()) else {}),
            **({"tier": tier.name, "tiers": list(tier.names)} if (tier := self.plan.tier) else {}),
            "key_commitment": self.key.commitment,
        }

    @cached_property
    def steps(self) -> dict[str, list[str]]:
        """By variable, the methods that treat it. By the plan alone: no record shows in it."""
        steps: dict[str, list[str]] = {}
        for step in self.plan.steps:
            for name in step.touches(self.original.schema):
                steps.setdefault(name, []).append(step.name)
        return steps

    @cached_property
    def accredited(self) -> dict[str, Any] | None:
        """The manifest with the noise in full, for accredited analysts; None: all is public."""
        full = self._noise_for("all")
        return None if full.get("noise") == self.manifest.get("noise") else self.manifest | full

    @property
    def noise(self) -> dict[str, NoiseDescription]:
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

    def _noise(self) -> dict[str, tuple[NoiseDescription, list[str]]]:
        """Each noised variable that is released, and the steps that changed it afterwards."""
        schema, noised = self.original.schema, dict[str, tuple[NoiseDescription, list[str]]]()
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
            "arrangement": self.arrangement,
            **({"tier": tier.plain() | {"set": self.tier_set}} if (tier := self.plan.tier) else {}),
            "input": {
                "file": source.path.name if source and source.path else None,
                "format": source.format if source else None,
                "records": len(self.original),
                "records_digest": self.original.identity.total(),
                "content_digest": content_digest(self.original),
                "values_digest": self._values_digest,
                "identity": self.original.identity.basis,
                "identity_columns": list(self.original.identity.columns),
                "notes": list(source.notes) if source else [],
                "roles": {name: column.role for name, column in self.original.schema.items()},
            },
            "steps": [
                {"method": step.name, "fitted": dict(fitted)}
                for step, fitted in zip(self.plan.steps, self.fitted, strict=True)
            ],
            "noise_paths": self.noise_paths,
            "targets": [judgement.plain() for judgement in self.verdict],
            "evidence": {label: evidence.plain() for label, evidence in self.evidence.items()},
        }

    @property
    def tier_set(self) -> str:
        """What all tiers of one plan, of the same data under the same key, have in common."""
        if self.plan.tier is None:
            return ""
        parts = (self.plan.tier.plan, self._values_digest, self.key.commitment)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def noise_paths(self) -> dict[str, dict[str, Any]]:
        """By what the draws of each released variable are known under the key: never by a size.

        A release under the same key in which something of it differs draws anew for the same
        values; see `Method.follows`.
        """
        paths: dict[str, dict[str, Any]] = {}
        before: dict[str, list[str]] = {}
        for step, fitted in zip(self.plan.steps, self.fitted, strict=True):
            for name, path in step.follows(fitted).items():
                paths[name] = {**path, "before": list(before.get(name, ()))}
            # Which other variables a step treats changes nothing for this one.
            settings = {**list_settings(step), "method": step.name, "variables": None}
            text = json.dumps(settings, sort_keys=True, default=str)
            for name in step.touches(self.original.schema):
                before.setdefault(name, []).append(hashlib.sha256(text.encode()).hexdigest())
        released = {name: path for name, path in paths.items() if name in self.dataset.schema}
        # As it reads in the custody record, with which it is compared.
        plain: dict[str, dict[str, Any]] = json.loads(json.dumps(released, default=str))
        return plain

    def order(self) -> Positions | None:
        """Where each row of the file comes from; None when the plan keeps the order."""
        if self.plan.release.keep_order:
            return None
        return keyed_order(self.dataset.identity.ids(self.key), self.key, self.arrangement)

    @cached_property
    def arrangement(self) -> str:
        """What the order of rows is derived from besides the key: the plan and the original.

        The plan alone would not do: one plan for this year's and last year's data would put the
        persons of both into one order, and a few rows inserted do not hide that.
        """
        parts = (self.plan.digest, self.original.identity.total(), self._values_digest)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @cached_property
    def _values_digest(self) -> str:
        return values_digest(self.original)

    @cached_property
    def _public_columns(self) -> dict[str, dict[str, Any]]:
        return {name: public_column(self.dataset, name) for name in self.dataset.columns}

    def write(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        ledger: str | Path | Literal[False] | None = None,
        draft: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Write data, manifest, report and custody record into a new folder, all or nothing.

        The targets are measured again on the file as it is on the disk before the folder
        appears under its name. Where the ledger, or a folder beside this one, shows earlier
        releases of the same records, what all of them disclose together is checked against the
        targets too.

        Parameters
        ----------
        folder : where to.
        overwrite : replace the release in the folder. It still counts, since somebody may have it;
            a draft never does.
        ledger : the folder of the ledger; by default `$SFUMATO_LEDGER`, else that of the user.
            False neither looks into it nor adds to it.
        draft : write a draft, to look at and to throw away: it says so in its files, and is held
            against no other release. As many as one likes.
        """
        return write_to_disk(
            self, folder, overwrite=overwrite, ledger=ledger, draft=draft, progress=progress
        )


def write_to_disk(
    release: Release | LinkedRelease,
    folder: str | Path,
    *,
    overwrite: bool,
    ledger: str | Path | Literal[False] | None,
    draft: bool = False,
    progress: Progress | None,
) -> Path:
    """Write a release of one table or of several; see `Release.write`."""
    from sfumato.storage.writing import write_release

    return write_release(
        release, Path(folder), overwrite=overwrite, ledger=ledger, draft=draft, progress=progress
    )


def content_digest(original: Dataset) -> str:
    """What tells an original from another one of the same persons: of a file its bytes."""
    source = original.source
    if source is not None and source.path is not None and source.path.is_file():
        with source.path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    return values_digest(original)


def values_digest(original: Dataset) -> str:
    """The same for the same values of the same variables, whatever the file and the order of rows.

    The digests of the records are sorted and hashed: unlike their sum, this cannot be met by
    choosing records that add up to it.
    """
    if frames.is_distributed(original.frame):
        return buckets_digest(original)
    if frames.is_lazy(original.frame):
        return f"values:{digest_values(original).hex()}"
    values = (frames.get_column(original.frame, name) for name in sorted(original.columns))
    records = digest(values).astype(">u8").view("S16").ravel()
    return f"values:{hashlib.sha256(np.sort(records).tobytes()).hexdigest()}"


def buckets_digest(original: Dataset) -> str:
    """The same for records on a cluster: sorted and hashed in 4096 buckets, then all of these."""
    if frames.is_distributed(original.frame):
        from sfumato.engines.spark import SparkEngine

        buckets = SparkEngine().digest_values(original)
    else:
        names = sorted(original.columns)
        buckets = digest_buckets(digest(frames.get_column(original.frame, n) for n in names))
    parts = (number.to_bytes(2, "big") + buckets[number] for number in sorted(buckets))
    return f"buckets:{hashlib.sha256(b''.join(parts)).hexdigest()}"


def public_column(data: Dataset, name: str) -> dict[str, Any]:
    """What an analyst may know of a variable, and needs to read its cells."""
    column = restrict_vocabulary(data.schema[name], lambda: list_values(data, name))
    facts: dict[str, Any] = {
        "role": column.role,
        "kind": column.kind,
        "missing_codes": list(column.missing),
        # Says whether `[24;28]`, `{a;b}`, `937**` and `*` stand for several values.
        "cells": column.cells or "values",
    }
    if column.formula:
        facts["formula"] = column.formula
    if tokens := _list_missing_tokens(data, name):
        facts["missing_tokens"] = tokens  # an empty cell was one of these in the original
    return facts | vocabulary_to_json(column)


def list_values(data: Dataset, name: str) -> pl.Series:
    """The values of a variable; of records that are not in memory, each once."""
    if frames.is_in_memory(data.frame):
        return frames.get_column(data.frame, name)
    return engine_for(data.frame).distinct(data, [name]).values[name]


def _list_missing_tokens(data: Dataset, name: str) -> list[str]:
    """The words that were declared to mean "no value" in the original, such as `N`."""
    declared = data.source.options.get("missing", {}) if data.source else {}
    return list(declared.get(name, ()) if isinstance(declared, Mapping) else declared)


def _versions() -> dict[str, str]:
    libraries = ("numpy", "polars", "pyarrow", "narwhals", "cryptography", "scipy", "numba")
    return {
        "sfumato": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in libraries},
    }


def align_original(original: Dataset, released: Dataset) -> Dataset:
    """The original records in the order of the released ones, which may be fewer."""
    if frames.is_distributed(original.frame):
        from sfumato.engines.spark import SparkEngine

        return SparkEngine().align(original, released)
    mine, theirs = original.identity.digests, released.identity.digests
    if mine is theirs or frames.is_lazy(original.frame):
        return original  # what is read batch by batch is paired when it is read
    if mine.shape == theirs.shape and bool((mine == theirs).all()):
        return original
    return original.take(match_identities(mine, theirs))
