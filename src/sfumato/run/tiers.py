"""Carry out a plan with tiers: a release for each group of users, each the one before and more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import PlanError, ReleaseError, TargetError
from sfumato.method import Method
from sfumato.noise.nesting import explain_not_nested
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.plan.tiers import list_tiered_parameters
from sfumato.progress import Progress, send_progress_to
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.run import protect
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class TieredRelease(Mapping[str, Release]):
    """The releases of all tiers, by name, from the most trusted users to the least.

    Parameters
    ----------
    plan : the plan with the tiers.
    releases : by tier.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> people = pl.DataFrame({"name": [f"p{i}" for i in range(40)], "age": range(20, 60)})
    >>> plan = sf.Plan(
    ...     schema={"name": "direct", "age": "quasi"},
    ...     steps=[sf.methods.Drop(), sf.methods.Noise(variables=["age"], variance_share=0.1)],
    ...     tiers={"room": {"noise": {"variance_share": 0.1}},
    ...            "web": {"noise": {"variance_share": 0.4}}})
    >>> list(sf.protect_tiers(sf.Dataset(people, plan.schema), plan))
    ['room', 'web']
    """

    plan: Plan
    releases: Mapping[str, Release] = field(repr=False)

    def __repr__(self) -> str:
        return f"TieredRelease({', '.join(self)})"

    def __getitem__(self, tier: str) -> Release:
        return self.releases[tier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def write(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        ledger: str | Path | Literal[False] | None = None,
        draft: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Path]:
        """Write a release folder for each tier into the folder; see `Release.write`.

        Nothing is written before every tier has met its targets and withstood its attacks.
        """
        targets = {name: Path(folder) / name for name in self.releases}
        for path in targets.values():
            if path.exists() and not overwrite:
                raise ReleaseError(
                    f"'{path}' exists already.", hint="choose another folder, or overwrite it."
                )
        with send_progress_to(progress):
            for name, release in self.releases.items():
                with _name_tier(name):
                    release.case.require_attacks_held()
        for name, path in targets.items():
            with _name_tier(name):
                self.releases[name].write(
                    path, overwrite=overwrite, ledger=ledger, draft=draft, progress=progress
                )
        return targets


def protect_tiers(
    data: Dataset,
    plan: Plan,
    *,
    key: Key | bytes | str | Path | None = None,
    earlier: Iterable[Release | str | Path] = (),
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> TieredRelease:
    """Carry out a plan with tiers under one key: a release for each of them.

    The noise of each tier is that of the tier before it, and more. So who has several tiers learns
    no more than from the best of them. What is not so is refused.

    Parameters
    ----------
    data, plan, key, earlier : as for `protect`. The plan has `tiers`.

    Raises
    ------
    TargetError : a tier misses a target.
    PlanError : the tiers are not nested.
    """
    if not plan.tiers:
        raise PlanError(
            "The plan has no tiers.", hint="name some: [tiers.internal] and [tiers.public]."
        )
    secret, before = Key.of(key), list(earlier)
    _require_nothing_after(plan, plan.declare(data).schema)
    releases: dict[str, Release] = {}
    for name in plan.tiers:
        with _name_tier(name):
            releases[name] = protect(
                data,
                plan.for_tier(name),
                key=secret,
                earlier=before,
                engine=engine,
                progress=progress,
            )
    for finer, coarser in pairwise(releases):
        _require_nested_noise(releases[finer], releases[coarser], finer, coarser)
    return TieredRelease(plan, releases)


@contextmanager
def _name_tier(name: str) -> Iterator[None]:
    """Say which tier missed a target."""
    try:
        yield
    except TargetError as error:
        named = TargetError(f"Tier '{name}': {error.what}", hint=error.hint)
        named.evidence, named.verdict = error.evidence, error.verdict
        raise named from None


def _require_nothing_after(plan: Plan, schema: Schema) -> None:
    """Refuse steps that look at what differs between the tiers: they would not be nested then."""
    differing: set[str] = set()
    for step, changed in zip(plan.steps, list_tiered_parameters(plan), strict=True):
        common = differing & _list_read(step, schema)
        if common and step.name != "drop":
            raise PlanError(
                f"The step '{step.name}' looks at '{min(common)}' after the tiers have given it "
                "noise of different size, so the tiers would not be nested.",
                hint="put this step before the noise, or leave the variable out of it.",
            )
        if changed:
            differing |= set(step.touches(schema))


def _list_read(step: Method, schema: Schema) -> set[str]:
    """The variables that a step looks at; all of them where that is not known."""
    if hasattr(step, "reads"):
        groups = step.by(schema) if hasattr(step, "by") else ()
        return {*step.touches(schema), *step.reads(schema), *groups}
    settings = list_settings(step)
    if not type(step).__module__.startswith("sfumato.") or settings.get("missing") == "model":
        return set(schema)
    named = {name for name in _list_texts(settings) if name in schema}
    secret = schema.having("sensitive") if hasattr(step, "confidential") else ()
    return {*step.touches(schema), *named, *secret}


def _list_texts(value: Any) -> Iterator[str]:
    """Every text in the settings of a step, keys of tables included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from map(str, value)
        for part in value.values():
            yield from _list_texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _list_texts(part)


def _require_nested_noise(finer: Release, coarser: Release, before: str, after: str) -> None:
    theirs, mine = finer.noise, coarser.noise
    for name, noise in mine.items():
        why, hint = explain_not_nested(theirs[name], noise)
        if why and theirs[name].plain() != noise.plain():
            raise PlanError(
                f"The tiers '{before}' and '{after}' are not nested: variable '{name}' {why}.",
                hint=hint,
            )
