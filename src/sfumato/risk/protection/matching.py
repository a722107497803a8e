"""How records match on each variable, and the peers of each record under every combination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset, find_missing_codes
from sfumato.errors import MeasureError
from sfumato.evidence import Subject
from sfumato.kernels.arrays import AnyIntegers, Integers, Mask
from sfumato.progress import current_progress
from sfumato.risk.known import known_variables
from sfumato.risk.protection.distinct_records import code_rows
from sfumato.risk.protection.persons import PersonMembers, keep_worst_rows
from sfumato.risk.protection.sampling import draw_individuals, draw_persons
from sfumato.schema import Column, Schema
from sfumato.units import Units

if TYPE_CHECKING:
    from sfumato.kernels.lattice.matches import Relation
    from sfumato.kernels.lattice.peers import Effort, PeerCounts

BUDGET = 500_000_000
_ACCESSIBLE = 1.0
"""How accessible a variable is unless the schema says so."""
_SLACK = 2.0**-40
"""A computer holds decimals such as 0.1 inexactly: so much of the numbers compared is forgiven."""
_DAY = 86_400_000_000
"""Microseconds."""
_BY_SECRET = (
    "combinations", "left_out", "values", "peers", "same", "alternatives", "least_protective",
    "least_peers", "least_mask", "fewest_protective", "fewest_alternatives", "breach_mask",
    "breach_size",
)  # fmt: skip
"""The results that have a row for each secret."""


@dataclass(frozen=True, eq=False)
class MatchedRecords:
    """The distinct records, and how they match each other on each variable.

    names : the variables.
    relations : one for each.
    counts : how many records each row stands for.
    row_of : which row each record is.
    tolerated : the variables with a tolerance.
    generalised : the variables with cells that stand for several values.
    """

    names: tuple[str, ...]
    relations: tuple[Relation, ...]
    counts: AnyIntegers
    row_of: AnyIntegers
    tolerated: tuple[str, ...]
    generalised: tuple[str, ...]

    @property
    def codes(self) -> AnyIntegers | None:
        """The rows as codes if all that matters is whether they are equal."""
        if any(relation.kind != "equal" for relation in self.relations):
            return None
        return np.column_stack([relation.low for relation in self.relations])


def match_records(
    data: Dataset,
    names: Sequence[str],
    tolerance: Mapping[str, float],
    relative: Mapping[str, float],
    records: Integers | None = None,
) -> MatchedRecords:
    """Read variables; tolerances by name, absolute or relative to the record's own value.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": [30, 31, 40], "sex": ["f", "{f;m}", "m"]})
    >>> data = Dataset(frame, Schema({"sex": Column(cells="generalised")}))
    >>> matched = match_records(data, ["age", "sex"], {"age": 1}, {})
    >>> [relation.kind for relation in matched.relations], matched.tolerated, matched.generalised
    (['near', 'boxed'], ('age',), ('sex',))
    """
    from sfumato.kernels.lattice.matches import match_equal

    rows = code_rows(data, names, records)
    relations, tolerated, generalised = [], [], []
    for index, name in enumerate(names):
        column, values, codes = data.schema[name], rows.values[name], rows.codes[:, index]
        if tolerance.get(name) or relative.get(name):
            tolerated.append(name)
            relations.append(
                _match_within(values, column, tolerance.get(name, 0.0), relative.get(name, 0.0))
            )
            continue
        relation = _match_cells(values, codes, column)
        if relation is not None:
            generalised.append(name)
        relations.append(match_equal(codes) if relation is None else relation)
    return MatchedRecords(
        tuple(names), tuple(relations), rows.counts, rows.row_of, tuple(tolerated),
        tuple(generalised),
    )  # fmt: skip


def _match_cells(values: pl.Series, codes: AnyIntegers, column: Column) -> Relation | None:
    """The relation of cells that stand for several values; None where all are single values.

    Cells that are equal or disjoint match like values, whatever they stand for.
    """
    from sfumato.cells.boxes import read_boxes
    from sfumato.kernels.lattice.matches import match_cells, match_equal

    levels = values.drop_nulls().unique().sort()
    if not _has_ranges(levels, column):
        return None
    if values.null_count():
        levels = levels.extend_constant(None, 1)
    boxes = read_boxes(Dataset(levels.to_frame(), Schema({values.name: column})), [values.name])
    if boxes.exact[0]:
        return None
    cells, table = boxes.cells[0][codes], boxes.tables[0]
    return match_equal(cells) if table.disjoint else match_cells(cells, table)


def _has_ranges(levels: pl.Series, column: Column) -> bool:
    """Whether some cell may stand for several values."""
    from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD

    if levels.dtype.is_numeric() or levels.dtype.is_temporal() or levels.dtype == pl.Boolean:
        return bool(column.hierarchy) and column.kind in ("nominal", "ordinal")
    if levels.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    if column.hierarchy:
        return True
    if not column.generalised:
        return False
    forms = (RANGE, SET, MASK)
    texts = levels.cast(pl.String).to_list()
    return any(text == WILDCARD or any(form.fullmatch(text) for form in forms) for text in texts)


def _match_within(values: pl.Series, column: Column, absolute: float, relative: float) -> Relation:
    """Numbers match within a tolerance of the record's own; missing only the same missing."""
    from sfumato.kernels.lattice.matches import match_near

    numbers, unit = _to_numbers(values, relative)
    known = numbers.is_not_null()
    absent = find_missing_codes(values, column)
    if absent is not None:
        known &= ~absent
    real = known.to_numpy()
    levels = np.unique(numbers.filter(known).to_numpy())
    # What is missing, and by which code, is a position of its own beyond all numbers.
    position = np.empty(len(values), np.int64)
    position[~real] = len(levels) + encode(numbers.filter(~known)).missing_last
    low, high = position.copy(), position.copy()
    exact = numbers.filter(known).to_numpy()
    position[real] = np.searchsorted(levels, exact)
    low[real], high[real] = _find_bounds(levels, exact, absolute * unit, relative)
    return match_near(position, low, high)


def _find_bounds(
    levels: Any, numbers: Any, absolute: float, relative: float
) -> tuple[AnyIntegers, AnyIntegers]:
    """The first and the last level within the tolerance of each number.

    What is infinite is near to nothing but itself.
    """
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore", invalid="ignore"):
        within = absolute + relative * np.abs(numbers)
        # Rounding must not decide whether 0.3 lies within 0.1 of 0.2.
        within = within + _SLACK * (np.abs(numbers) + within)
        low = np.maximum(numbers - within, -largest)
        high = np.minimum(numbers + within, largest)
    infinite = np.isinf(numbers)
    low, high = np.where(infinite, numbers, low), np.where(infinite, numbers, high)
    return np.searchsorted(levels, low, "left"), np.searchsorted(levels, high, "right") - 1


def _to_numbers(values: pl.Series, relative: float) -> tuple[pl.Series, float]:
    """The values as floats, and what a tolerance of 1 is among them: for dates, a day."""
    dtype = values.dtype
    if (dtype == pl.Date or isinstance(dtype, pl.Datetime)) and not relative:
        if dtype == pl.Date:
            return values.to_physical().cast(pl.Float64), 1.0
        return values.dt.cast_time_unit("us").to_physical().cast(pl.Float64), float(_DAY)
    if not dtype.is_numeric():
        what = "relative tolerance" if relative else "tolerance"
        raise MeasureError(
            f"Variable '{values.name}' has a {what}, but does not hold single numbers"
            + ("." if relative else " or dates."),
            hint="leave the tolerance out; ranges, sets and wildcards are matched as they are.",
        )
    numbers = values.cast(pl.Float64)
    if numbers.n_unique() != values.n_unique():
        raise MeasureError(
            f"Variable '{values.name}' has numbers too long to be compared within a tolerance.",
            hint="round them, or leave the tolerance out.",
        )
    return numbers, 1.0


@dataclass(frozen=True, kw_only=True)
class PeerQuestion:
    """The question, with the names that the data have; see the measure `peers`."""

    known: tuple[str, ...]
    sensitive: tuple[str, ...]
    p: float = 0.0
    q: float | Literal["from_p"] = 0.0
    most: int | None = None
    effort: float | None = None
    budget: int = BUDGET
    tolerance: Mapping[str, float] = field(default_factory=dict)
    relative_tolerance: Mapping[str, float] = field(default_factory=dict)
    individuals: int | None = None
    m: int = 1
    unseen: Mapping[str, int] = field(default_factory=dict)
    """By variable, how many values of its domain no record has; -1 where that is not known."""

    @property
    def names(self) -> tuple[str, ...]:
        """All variables, each once."""
        return tuple(dict.fromkeys((*self.known, *self.sensitive)))


@dataclass(frozen=True, eq=False)
class PeerSearch:
    """Peers of the distinct records that were looked at.

    question : what was asked.
    peers : what protects them: arrays of sensitive variables x distinct records looked at.
    counts : how many records looked at each of these is.
    row_of : which of them each row of the data is, -1 where a record was not drawn.
    exact : for each of them, whether its numbers are not bounds but the numbers themselves.
    matched : how records match.
    units : whom each row of the data is about. Where a person may have several, all above is about
        persons: peers are persons, and a person is looked at.
    """

    question: PeerQuestion
    peers: PeerCounts
    counts: AnyIntegers
    row_of: AnyIntegers
    exact: Mask
    matched: MatchedRecords
    units: Units

    @property
    def records(self) -> int:
        """How many records there are, or persons."""
        return self.units.count

    @property
    def sampled(self) -> bool:
        """Whether only some records were looked at."""
        return bool((self.row_of < 0).any())

    def names_of(self, combination: int) -> tuple[str, ...]:
        """The variables of a combination, which is a bit mask."""
        names = enumerate(self.question.names)
        return tuple(name for bit, name in names if int(combination) >> bit & 1)

    def mark_breaches(self, variable: int) -> Mask:
        """Which of the distinct records some combination breaches, for a sensitive variable."""
        breached: Mask = self.peers.breach_mask[variable] > 0
        return breached


def resolve_variables(
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


def find_peers(data: Dataset, question: PeerQuestion, units: Units | None = None) -> PeerSearch:
    """Count the peers of all records, or of those drawn.

    `units` says how many records each row stands for, where that is not told by the data.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"age": [30, 31, 40], "ill": ["y", "n", "n"]}))
    >>> question = PeerQuestion(known=("age",), sensitive=("ill",), tolerance={"age": 1})
    >>> search = find_peers(data, question)
    >>> search.peers.least_ppp[:, search.row_of]
    array([[0.5, 0.5, 0. ]])
    """
    _check_tolerances(data, question)
    units = units or data.units
    rows = match_records(
        data, question.names, question.tolerance, question.relative_tolerance, units.counts
    )
    if not units.one_row_each:
        return _find_peers_of_persons(data, question, rows, units)
    row_of, counts, targets = rows.row_of, rows.counts, None
    if question.individuals is not None and units.counts is not None:
        raise MeasureError(
            "Individuals are drawn from records in memory only.",
            hint="leave `individuals` out: all are looked at.",
        )
    if question.individuals is not None and question.individuals < len(data):
        sample = draw_individuals(data, question.individuals)
        # Equal records have equal peers, so distinct rows of the sample suffice.
        targets, target_of, counts = np.unique(
            rows.row_of[sample], return_inverse=True, return_counts=True
        )
        row_of = np.full(len(data), -1, np.int64)
        row_of[sample] = target_of.ravel()
    with _explain_failure():
        peers, exact = _count_peers(rows, question, _read_effort(data, question), targets)
    return PeerSearch(question, peers, counts, row_of, exact, rows, units)


@contextmanager
def _explain_failure() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise MeasureError(
            f"Peers cannot be counted: {error}",
            hint="name fewer variables in `known`, a smaller `most`, a larger `budget`, or look "
            "at a sample: individuals = 1000.",
        ) from None


def _find_peers_of_persons(
    data: Dataset, question: PeerQuestion, rows: MatchedRecords, units: Units
) -> PeerSearch:
    """Count the persons who protect each person, or those drawn."""
    from sfumato.kernels.lattice.matches import count_person_matches

    members = PersonMembers.of(units.numbers, rows.row_of)
    drawn = np.arange(len(members))
    if question.individuals is not None and question.individuals < len(members):
        drawn = np.searchsorted(members.numbers, draw_persons(data, question.individuals))
    looked = members.select(drawn)
    effort = _read_effort(data, question)
    _require_known_variables(question, effort)
    with _explain_failure():
        matches = count_person_matches(
            rows.relations,
            members.rows,
            members.starts,
            targets=np.unique(looked.rows),
            # Which values can be ruled out is not told of persons, so that q changes nothing.
            **_set_limits(question, effort, question.sensitive, 0.0),
        )
    peers = keep_worst_rows(matches, looked)
    peers = replace(peers, values=_count_domains(peers.values, question))
    person_of = np.full(int(members.numbers[-1]) + 1, -1, np.int64)
    person_of[looked.numbers] = np.arange(len(looked))
    counts = np.ones(len(looked), np.int64)
    return PeerSearch(question, peers, counts, person_of[units.numbers], peers.exact, rows, units)


def _count_peers(
    rows: MatchedRecords,
    question: PeerQuestion,
    effort: Effort | None,
    targets: AnyIntegers | None,
) -> tuple[PeerCounts, Mask]:
    """Peers of the target rows, for secrets with the same q together."""
    _require_known_variables(question, effort)
    by_q: dict[float, list[str]] = {}
    for name in question.sensitive:
        by_q.setdefault(_find_q(rows, question, name), []).append(name)
    counted = {
        name: (peers, exact, index)
        for q, names in by_q.items()
        for peers, exact in [_count_peers_of(rows, question, effort, targets, names, q)]
        for index, name in enumerate(names)
    }
    peers, exact = _join_secrets([counted[name] for name in question.sensitive])
    return replace(peers, values=_count_domains(peers.values, question)), exact


def _find_q(rows: MatchedRecords, question: PeerQuestion, name: str) -> float:
    """The share of peers up to which a value of a secret counts as ruled out."""
    if question.q != "from_p":
        return question.q
    relation = rows.relations[rows.names.index(name)]
    if relation.kind != "equal":
        return question.p
    # Kroes et al. (2021), after Definition 4: q = p / (|dom(s)| - 1).
    values = len(np.unique(relation.low)) + max(question.unseen.get(name, 0), 0)
    return question.p / max(values - 1, 1)


def _count_domains(observed: AnyIntegers, question: PeerQuestion) -> AnyIntegers:
    """How many values each secret can have: those that occur, and those that only the domain has.

    No peer has the latter, so they can be ruled out of everybody.
    """
    unseen = [max(question.unseen.get(name, 0), 0) for name in question.sensitive]
    values: AnyIntegers = observed + np.array(unseen)
    return values


def _join_secrets(parts: Sequence[tuple[PeerCounts, Mask, int]]) -> tuple[PeerCounts, Mask]:
    """The results of all secrets, which may have been counted apart from each other."""
    from sfumato.kernels.lattice.matches import Matches

    if all(peers is parts[0][0] for peers, _, _ in parts):
        return parts[0][0], parts[0][1]
    # Of two ways to count, this one also says what it did not count.
    first = next((peers for peers, _, _ in parts if isinstance(peers, Matches)), parts[0][0])
    joined: dict[str, Any] = {
        "sensitive": tuple(peers.sensitive[index] for peers, _, index in parts),
        "complete": all(peers.complete for peers, _, _ in parts),
    }
    for name in _BY_SECRET:
        joined[name] = np.stack([getattr(peers, name)[index] for peers, _, index in parts])
    return replace(first, **joined), np.logical_and.reduce([exact for _, exact, _ in parts])


def _count_peers_of(
    rows: MatchedRecords,
    question: PeerQuestion,
    effort: Effort | None,
    targets: AnyIntegers | None,
    secrets: Sequence[str],
    q: float,
) -> tuple[PeerCounts, Mask]:
    """Peers with regard to some secrets; for equal values by a lattice, if that is no more work."""
    from sfumato.kernels.lattice.matches import count_matches
    from sfumato.kernels.lattice.peers import count_peers

    limits = _set_limits(question, effort, secrets, q)
    codes = rows.codes
    if codes is not None and (
        targets is None or _lattice_is_cheaper(rows, question, effort, len(targets), q)
    ):
        peers = count_peers(codes, rows.counts, **limits)
        peers = peers if targets is None else _select_rows(peers, targets)
        return peers, np.ones(peers.peers.shape[1], bool)
    matches = count_matches(rows.relations, rows.counts, targets=targets, **limits)
    return matches, matches.exact


def _set_limits(
    question: PeerQuestion, effort: Effort | None, secrets: Sequence[str], q: float
) -> dict[str, Any]:
    """The question as the kernels take it."""
    columns = dict(zip(question.names, range(len(question.names)), strict=True))
    return {
        "most": question.most,
        "effort": effort,
        "budget": question.budget,
        "sensitive": [columns[name] for name in secrets],
        "known": [columns[name] for name in question.known],
        "p": question.p,
        "q": q,
        "say": current_progress(),
    }


def _require_known_variables(question: PeerQuestion, effort: Effort | None) -> None:
    """Something must be known from which each secret could be learned, or nothing is measured."""
    from sfumato.kernels.lattice.combinations import set_limits

    limits = set_limits(len(question.names), question.most, effort)
    for secret in question.sensitive:
        others = [question.names.index(name) for name in question.known if name != secret]
        if not others:
            raise MeasureError(
                f"Nothing that an outsider may know is in the data besides '{secret}', which is "
                "sensitive.",
                hint='give other variables the role "quasi", or name them: known = [...].',
            )
        if not sum(limits.sizes(others)):
            raise MeasureError(
                f"Every variable from which '{secret}' could be learned takes more than the effort "
                f"of {question.effort:g}, so that nothing would be looked at.",
                hint="allow more `effort`, or say that a variable is easier to learn: "
                "`accessibility` in the schema.",
            )


def _lattice_is_cheaper(
    rows: MatchedRecords, question: PeerQuestion, effort: Effort | None, targets: int, q: float
) -> bool:
    """Whether looking at all rows by a lattice is no more work than at some by pairs."""
    from sfumato.kernels.lattice.combinations import set_limits
    from sfumato.kernels.lattice.matches import MatchQuestion, find_cheapest

    limits = set_limits(len(question.names), question.most, effort)
    known = tuple(question.names.index(name) for name in question.known)
    secrets = tuple(question.names.index(name) for name in question.sensitive)
    number, size = sum(limits.sizes(known)), len(rows.counts)
    # Alternatives need more than counts when q is positive or combinations are left out.
    follow = q > 0 or number < (1 << len(known)) - 1
    pairs = MatchQuestion(rows.relations, secrets, known, size, targets, follow=follow)
    return number * size <= find_cheapest(pairs, limits)[1]


def _select_rows(peers: PeerCounts, targets: AnyIntegers) -> PeerCounts:
    """The results of some rows."""
    by_row = {
        array.name: getattr(peers, array.name)[:, targets]
        for array in fields(peers)
        if getattr(getattr(peers, array.name), "ndim", 0) > 1
    }
    return replace(peers, **by_row)


def _read_effort(data: Dataset, question: PeerQuestion) -> Effort | None:
    from sfumato.kernels.lattice.peers import Effort

    if question.effort is None:
        return None
    return Effort(list(read_costs(data, question.names).values()), question.effort)


def read_costs(data: Dataset, names: Sequence[str]) -> dict[str, float]:
    """What it costs to learn each variable: 1 less its accessibility in the schema."""
    accessibility = {name: data.schema[name].accessibility for name in names}
    return {
        name: 1 - (_ACCESSIBLE if value is None else value) for name, value in accessibility.items()
    }


def _check_tolerances(data: Dataset, question: PeerQuestion) -> None:
    """Tolerances belong to variables that are looked at; a typing error must not go unnoticed."""
    named = (*question.tolerance, *question.relative_tolerance)
    data.schema.require(named)
    idle = [name for name in named if name not in question.names]
    if idle:
        raise MeasureError(
            f"There is a tolerance for '{idle[0]}', which is neither known nor sensitive.",
            hint="leave it out, or name the variable in `known` or `sensitive`.",
        )
