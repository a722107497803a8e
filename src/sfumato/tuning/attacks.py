"""All attacks that apply to a plan, with what its manifest tells an outsider; and their outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.progress import Progress
from sfumato.release import Release

_ON_ANY_RELEASE = ("singling_out", "mixed_linkage", "attribute_inference")


def attacks(
    plan: Plan | None = None, manifest: Mapping[str, Any] | None = None
) -> dict[str, Measure]:
    """The attacks to try on a release: those that apply to any, and those its steps invite.

    A step with noise invites averaging, the method `deterministic` undoing: each method's class
    says which (`attacks`). Their parameters are those of the step, which the manifest publishes. A
    k that the method looks for (`at_most`) is known from the manifest only; one for each stratum
    is not published, and not attacked here.

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
    chosen: dict[str, Measure] = {name: catalogue.measure(name)() for name in _ON_ANY_RELEASE}
    steps = () if plan is None else plan.steps
    # Without a manifest an outsider knows the plan, and nothing that was fitted.
    published = [{}] * len(steps) if manifest is None else manifest["methods"]
    for step, public in zip(steps, published, strict=True):
        for attack in _attack_step(step, public):
            chosen[_label(attack.name, chosen)] = attack
    return chosen


def _attack_step(step: Method, published: Mapping[str, Any]) -> Iterator[Measure]:
    """The attacks that a step invites, with the parameters that it shares with each of them."""
    for name in step.attacks:
        attack = catalogue.measure(name)
        shared = {
            parameter.name: getattr(step, parameter.name)
            for parameter in fields(attack)  # type: ignore[arg-type]  # all are dataclasses
            if hasattr(step, parameter.name)
        }
        if getattr(step, "at_most", None) is not None:
            # The method looks for k in the data: an outsider knows it if it is published.
            shared["k"] = published.get("k")
        try:
            yield attack(**shared)
        except PlanError:
            continue  # something the attack needs is not known


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
    progress : is called with how far it is.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    >>> found = tried(data, data, paired=True)
    >>> {name: round(one.value, 2) for name, one in found.items()}
    {'singling_out': 1.0, 'mixed_linkage': 1.0, 'attribute_inference': 1.0}
    """
    from sfumato.run import evaluate

    carried_out, manifest = _read_plan(release)
    measures = attacks(plan) if plan is not None else attacks(carried_out, manifest)
    return evaluate(original, release, measures, paired=paired, progress=progress)


def _read_plan(
    release: Release | Dataset | str | Path,
) -> tuple[Plan | None, Mapping[str, Any] | None]:
    """The plan behind a release, and its manifest."""
    if isinstance(release, Release):
        return release.plan, release.manifest
    if isinstance(release, (str, Path)):
        from sfumato.storage.opening import open_release

        opened = open_release(Path(release))
        return opened.plan(), opened.manifest
    return None, None


def _label(name: str, taken: Mapping[str, Measure]) -> str:
    """A second step of the same kind has a label of its own."""
    count = sum(1 for label in taken if taken[label].name == name)
    return name if not count else f"{name}_{count + 1}"
