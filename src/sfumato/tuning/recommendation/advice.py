"""What to make coarser in a plan: each variable alone, several together, and the plan with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sfumato.data import Dataset
from sfumato.parameters import write_short
from sfumato.plan import Plan
from sfumato.risk.peers import Peers, list_measured_numbers
from sfumato.tuning.recommendation.joint import JointRecommendation, recommend_jointly
from sfumato.tuning.recommendation.placement import Placement, insert_steps, list_names
from sfumato.tuning.recommendation.single import Recommendation, recommend


@dataclass(frozen=True, eq=False, kw_only=True)
class Advice:
    """What to make coarser so that a sensitive variable is protected.

    Parameters
    ----------
    plan : to which it belongs.
    placement : where in the plan the steps go.
    data : the records as the plan's first steps leave them.
    sensitive, known, p, enough : what was asked for; see `recommend_jointly`.
    alone : each variable by itself.
    joint : steps that go together.
    """

    plan: Plan
    placement: Placement
    data: Dataset = field(repr=False)
    sensitive: str
    known: Sequence[str] | None
    p: float
    enough: float
    alone: Recommendation
    joint: JointRecommendation

    __repr__ = write_short

    @property
    def extended(self) -> Plan:
        """The plan with the steps that go together."""
        return insert_steps(self.plan, self.placement, self.joint.steps)

    def list_remarks(self) -> Iterator[str]:
        """What a custodian should know before the plan is run."""
        before, fixed = self.placement.before, self.placement.fixed
        if before:
            first = ", ".join(dict.fromkeys(step.name for step in before))
            yield f"Measured after the plan's own first steps: {first}."
        coarse = [step for step in before if step.name == "coarsen"]
        if done := sorted({name for step in coarse for name in step.touches(self.data.schema)}):
            yield (
                f"The plan coarsens these already: {', '.join(done)}. To go on, change its own "
                "steps."
            )
        if fixed:
            yield f"Left as they are, since later steps need numbers: {', '.join(fixed)}."
        changed = {name for step in self.joint.steps for name in step.touches(self.data.schema)}
        for label, measure in self.plan.evaluate.items():
            if some := [name for name in list_names(measure, self.data) if name in changed]:
                yield f"{label} names {', '.join(some)}, which become coarser: does it still suit?"

    @property
    def is_measured_number(self) -> bool:
        """Whether the sensitive variable holds numbers that need a tolerance to be compared."""
        return bool(list_measured_numbers(self.data, [self.sensitive]))


def advise(  # noqa: PLR0913 - all but five by name only
    plan: Plan,
    placement: Placement,
    data: Dataset,
    sensitive: str,
    known: Sequence[str] | None = None,
    *,
    p: float | None = None,
    enough: float = 0.95,
    budget: int = 2_000_000_000,
) -> Advice:
    """Which variables give a secret away, and which generalisations would protect it.

    Question: what should be made coarser, and what does that buy?
    Assumes: as `recommend` and `recommend_jointly`. The plan's steps that treat each value by
    itself have been carried out.

    Parameters
    ----------
    plan : to which steps may be added.
    placement : where they go; see `find_placement`.
    data : the records as the plan's first steps leave them; see `Placement.reach`.
    sensitive : the variable to protect.
    known : what an outsider may know. Default: what the plan's own measure of peers says, else all
        whose role is "quasi".
    p : the share of protective peers that is still a breach. Default: the plan's, or 0.
    enough : the share of records that suffices.
    budget : how many generalisations times records times combinations may be looked at.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> from sfumato.tuning.recommendation.placement import find_placement
    >>> frame = pl.DataFrame({"age": [30, 31, 40, 41], "ill": [0, 1, 1, 0]})
    >>> plan = sf.Plan(schema={"age": "quasi", "ill": "sensitive"})
    >>> data = sf.Dataset(frame, plan.schema)
    >>> advice = advise(plan, find_placement(plan, data), data, "ill")
    >>> advice.joint.before, advice.joint.protected, len(advice.extended.steps)
    (0.0, 1.0, 1)
    """
    share, names = _resolve_settings(plan, sensitive, p, known)
    alone = recommend(data, sensitive, names, p=share, enough=enough, budget=budget)
    # A variable that the first steps leave out can be named by nobody after them.
    fixed, needed = (
        [name for name in some if name in data.schema]
        for some in (placement.fixed, placement.needed)
    )
    joint = recommend_jointly(
        data,
        sensitive,
        names,
        p=share,
        enough=enough,
        budget=budget,
        fixed=fixed,
        needed=needed,
    )
    return Advice(
        plan=plan,
        placement=placement,
        data=data,
        sensitive=sensitive,
        known=names,
        p=share,
        enough=enough,
        alone=alone,
        joint=joint,
    )


def _resolve_settings(
    plan: Plan, secret: str, p: float | None, known: Sequence[str] | None
) -> tuple[float, Sequence[str] | None]:
    """What the plan's own measure of peers says, where nothing else was said."""
    for measure in plan.measures.values():
        if isinstance(measure, Peers) and secret in (measure.sensitive or [secret]):
            return measure.p if p is None else p, measure.known if known is None else known
    return p or 0.0, known
