"""The peers of the records of a data set, by whichever kernel gives them with least work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Subject
from sfumato.kernels.arrays import AnyIntegers, Mask
from sfumato.progress import current_progress
from sfumato.risk._known import known_variables
from sfumato.risk._peers.match_cells import Matched, matched
from sfumato.risk._peers.match_sample import drawn

if TYPE_CHECKING:
    from sfumato.kernels.lattice.lattice import Effort
    from sfumato.kernels.lattice.lattice import Peers as Counted

_EASY = 1.0
"""How accessible a variable is of which nobody has said it."""
BUDGET = 500_000_000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The question, with the names that the data have; see the measure `peers`."""

    known: tuple[str, ...]
    sensitive: tuple[str, ...]
    p: float = 0.0
    q: float = 0.0
    most: int | None = None
    effort: float | None = None
    budget: int = BUDGET
    tolerance: Mapping[str, float] = field(default_factory=dict)
    relative_tolerance: Mapping[str, float] = field(default_factory=dict)
    individuals: int | None = None
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """All variables, each once."""
        return tuple(dict.fromkeys((*self.known, *self.sensitive)))


@dataclass(frozen=True, eq=False)
class Found:
    """Peers of the distinct records that were looked at.

    asked : the question.
    peers : what protects them: arrays of sensitive variables x distinct records looked at.
    counts : how many records looked at each of these is.
    of : which of them each record is, -1 where a record was not drawn.
    exact : for each of them, whether its numbers are not bounds but the numbers themselves.
    matched : how records match.
    """

    asked: Asked
    peers: Counted
    counts: AnyIntegers
    of: AnyIntegers
    exact: Mask
    matched: Matched

    @property
    def sampled(self) -> bool:
        """Whether only some records were looked at."""
        return bool((self.of < 0).any())

    def names_of(self, mask: int) -> tuple[str, ...]:
        """The variables of a combination."""
        return tuple(name for bit, name in enumerate(self.asked.names) if int(mask) >> bit & 1)

    def breached(self, at: int) -> Mask:
        """Which of the distinct records some combination breaches, for a sensitive variable."""
        found: Mask = self.peers.breach_mask[at] > 0
        return found


def named(
    known: Sequence[str] | None, sensitive: Sequence[str] | None, data: Dataset, subject: Subject
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that are known, and those to protect: by name, by role, or all in turn."""
    by = known_variables(known, data, subject)
    secrets = data.schema.having("sensitive") if sensitive is None else tuple(sensitive)
    if subject == "released":
        # What the release left out, nobody can learn from it.
        secrets = tuple(name for name in secrets if name in data.schema)
    data.schema.require(secrets)
    if not secrets and sensitive is None:
        secrets = by
    if not secrets:
        raise MeasureError(
            "None of the sensitive variables is in the data.",
            hint="name those that are: sensitive = [...].",
        )
    return by, secrets


def find(data: Dataset, asked: Asked) -> Found:
    """Count the peers of all records, or of those drawn.

    Examples
    --------
    >>> import polars as pl
    >>> data = Dataset(pl.DataFrame({"age": [30, 31, 40], "ill": ["y", "n", "n"]}))
    >>> asked = Asked(known=("age",), sensitive=("ill",), tolerance={"age": 1})
    >>> found = find(data, asked)
    >>> found.peers.least_ppp[:, found.of]
    array([[0.5, 0.5, 0. ]])
    """
    _check(data, asked)
    rows = matched(data, asked.names, asked.tolerance, asked.relative_tolerance)
    of, counts, targets = rows.of, rows.counts, None
    if asked.individuals is not None and asked.individuals < len(data):
        some = drawn(data, asked.individuals, asked.seed)
        targets, at, counts = np.unique(rows.of[some], return_inverse=True, return_counts=True)
        of = np.full(len(data), -1, np.int64)
        of[some] = at.ravel()
    try:
        peers, exact = _counted(rows, asked, _effort(data, asked), targets)
    except ValueError as error:
        raise MeasureError(
            f"Peers cannot be counted: {error}",
            hint="name fewer variables in `known`, a smaller `most`, a larger `budget`, or look "
            "at a sample: individuals = 1000.",
        ) from None
    return Found(asked, peers, counts, of, exact, rows)


def _counted(
    rows: Matched, asked: Asked, effort: Effort | None, targets: AnyIntegers | None
) -> tuple[Counted, Mask]:
    """Peers of the target rows; for equal values by a lattice, where a sample is no less work."""
    from sfumato.kernels.lattice.lattice import lattice
    from sfumato.kernels.lattice.matches import matches

    columns = dict(zip(asked.names, range(len(asked.names)), strict=True))
    sensitive, known = ([columns[name] for name in some] for some in (asked.sensitive, asked.known))
    limits: dict[str, Any] = {"most": asked.most, "effort": effort, "budget": asked.budget}
    limits |= {
        "sensitive": sensitive,
        "known": known,
        "p": asked.p,
        "q": asked.q,
        "say": current_progress(),
    }
    _require_known(asked, effort)
    codes = rows.codes
    if codes is not None and (targets is None or _lattice_pays(rows, asked, effort, len(targets))):
        found = lattice(codes, rows.counts, **limits)
        found = found if targets is None else _some(found, targets)
        return found, np.ones(found.peers.shape[1], bool)
    met = matches(rows.relations, rows.counts, targets=targets, **limits)
    return met, met.exact


def _require_known(asked: Asked, effort: Effort | None) -> None:
    """Something must be known from which each secret could be learned, or nothing is measured."""
    from sfumato.kernels.lattice.limits import limits

    within = limits(len(asked.names), asked.most, effort)
    for secret in asked.sensitive:
        others = [asked.names.index(name) for name in asked.known if name != secret]
        if not others:
            raise MeasureError(
                f"Nothing that an outsider may know is in the data besides '{secret}', which is "
                "sensitive.",
                hint='give other variables the role "quasi", or name them: known = [...].',
            )
        if not sum(within.sizes(others)):
            raise MeasureError(
                f"Every variable from which '{secret}' could be learned takes more than the effort "
                f"of {asked.effort:g}, so that nothing would be looked at.",
                hint="allow more `effort`, or say that a variable is easier to learn: "
                "`accessibility` in the schema.",
            )


def _lattice_pays(rows: Matched, asked: Asked, effort: Effort | None, targets: int) -> bool:
    """Whether looking at all rows by a lattice is no more work than at some by pairs."""
    from sfumato.kernels.lattice.limits import limits
    from sfumato.kernels.lattice.matches_cost import Question, cheapest

    within = limits(len(asked.names), asked.most, effort)
    known = tuple(asked.names.index(name) for name in asked.known)
    secrets = tuple(asked.names.index(name) for name in asked.sensitive)
    number, size = sum(within.sizes(known)), len(rows.counts)
    follow = asked.q > 0 or number < (1 << len(known)) - 1
    question = Question(rows.relations, secrets, known, size, targets, follow=follow)
    return number * size <= cheapest(question, within)[1]


def _some(found: Counted, targets: AnyIntegers) -> Counted:
    """The results of some rows."""
    from dataclasses import fields, replace

    by_row = {
        one.name: getattr(found, one.name)[:, targets]
        for one in fields(found)
        if getattr(getattr(found, one.name), "ndim", 0) > 1
    }
    return replace(found, **by_row)


def _effort(data: Dataset, asked: Asked) -> Effort | None:
    from sfumato.kernels.lattice.lattice import Effort

    if asked.effort is None:
        return None
    easy = [data.schema[name].accessibility for name in asked.names]
    return Effort([1 - (_EASY if one is None else one) for one in easy], asked.effort)


def _check(data: Dataset, asked: Asked) -> None:
    """Tolerances belong to variables that are looked at; a typing error must not go unnoticed."""
    told_of = (*asked.tolerance, *asked.relative_tolerance)
    data.schema.require(told_of)
    idle = [name for name in told_of if name not in asked.names]
    if idle:
        raise MeasureError(
            f"There is a tolerance for '{idle[0]}', which is neither known nor sensitive.",
            hint="leave it out, or name the variable in `known` or `sensitive`.",
        )
