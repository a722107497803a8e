"""All attacks that apply to a plan, with what its manifest tells an outsider; and their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.data import Dataset
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.progress import Progress
from sfumato.release import Release


def attacks(
    plan: Plan | None = None, manifest: Mapping[str, Any] | None = None
) -> dict[str, Measure]:
    """The attacks to try on a release: those that apply to any, and those its steps invite.

    A step with noise invites averaging, the method `deterministic` undoing. Their parameters are
    those of the step, which the manifest publishes. A k that the method looks for (`at_most`) is
    known from the manifest only; one for each stratum is not published, and not attacked here.

    Put them into a plan, and every release reports them:
    `Plan(..., evaluate={**plan.evaluate, **attacks(plan)})`.

    Examples
    --------
    >>> import sfumato as sf
    >>> steps = [sf.methods.Deterministic(variables=["height", "weight_kg"], k=5)]
    >>> made = attacks(sf.Plan(steps=steps))
    >>> list(made), made["undoing"].k
    (['singling_out', 'mixed_linkage', 'attribute_inference', 'undoing'], 5)
    """
    from sfumato.risk.attribute_inference import AttributeInference
    from sfumato.risk.mixed_linkage import MixedLinkage
    from sfumato.risk.singling_out import SinglingOut

    found: dict[str, Measure] = {
        "singling_out": SinglingOut(),
        "mixed_linkage": MixedLinkage(),
        "attribute_inference": AttributeInference(),
    }
    steps = () if plan is None else plan.steps
    public = [{}] * len(steps) if manifest is None else manifest["methods"]
    for step, told in zip(steps, public, strict=True):
        one = _invited(step, told)
        if one is not None:
            found[_label(one.name, found)] = one
    return found


def _invited(step: Any, told: Mapping[str, Any]) -> Measure | None:
    """The attack on one step, with what is published of it."""
    from sfumato.risk.averaging import Averaging
    from sfumato.risk.undoing import Undoing

    if step.name in ("noise", "correlated_noise"):
        return Averaging(variables=list(step.variables))
    if step.name != "deterministic":
        return None
    k = step.k if step.at_most is None else told.get("k")
    if not isinstance(k, int):
        return None
    return Undoing(
        variables=list(step.variables), k=k, strata=list(step.strata), distance=step.distance
    )


def tried(
    original: Dataset,
    release: Release | Dataset | str | Path,
    *,
    plan: Plan | None = None,
    paired: bool = False,
    progress: Progress | None = None,
) -> dict[str, Evidence]:
    """Try every attack that applies to a release: name to evidence.

    Parameters
    ----------
    original : the original records.
    release : a `Release`, its folder, or protected records.
    plan : what was done. Default: that of the release. Without one, attacks that need to know the
        method are left out.
    paired : as for `evaluate`.
    progress : told how far it is.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    >>> found = tried(data, data, paired=True)
    >>> {name: round(one.value, 2) for name, one in found.items()}
    {'singling_out': 1.0, 'mixed_linkage': 1.0, 'attribute_inference': 1.0}
    """
    from sfumato.run import evaluate

    told = _told(release)
    measures = attacks(plan or told[0], told[1] if plan is None else None)
    return evaluate(original, release, measures, paired=paired, progress=progress)


def _told(
    release: Release | Dataset | str | Path,
) -> tuple[Plan | None, Mapping[str, Any] | None]:
    """The plan behind a release, and its manifest."""
    if isinstance(release, Release):
        return release.plan, release.manifest
    if isinstance(release, (str, Path)):
        from sfumato.storage.opened import open_release

        opened = open_release(Path(release))
        return opened.plan(), opened.manifest
    return None, None


def _label(name: str, taken: Mapping[str, Measure]) -> str:
    """A second step of the same kind has a label of its own."""
    many = sum(1 for label in taken if taken[label].name == name)
    return name if not many else f"{name}_{many + 1}"
