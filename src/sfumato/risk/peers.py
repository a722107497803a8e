"""What protects each person: others who share what is known, and not what is sensitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.same_values import TOLERANCE
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Mask
from sfumato.measure import AT_WORST, Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._persons import choose_audience
from sfumato.risk.disclosure.united import WorstReading
from sfumato.risk.known import require_records
from sfumato.risk.protection.distinct_records import read_threshold
from sfumato.risk.protection.domains import count_unused_values
from sfumato.risk.protection.gains import rank_gains
from sfumato.risk.protection.groups import group_by_protection
from sfumato.risk.protection.matching import (
    BUDGET,
    PeerQuestion,
    PeerSearch,
    find_peers,
    read_costs,
    resolve_variables,
)
from sfumato.risk.protection.sampling import LEVEL, population_interval
from sfumato.risk.protection.united import PeerReading, search_readings

Threshold = Annotated[float, Field(ge=0, lt=1)]
Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Flag = Callable[[PeerSearch, int], Mask]
"""Which of the distinct records are in danger, with regard to one sensitive variable."""
_SHARES = ("downward", "npp_below")
_LISTED = 10
"""Combinations that are named; of more, only the number is given."""
_VISITED = 20_000
"""Combinations that are gone through to find those that were left out."""
_CODES = 20
"""Up to so many different numbers with decimals may be codes, such as 0.0 and 1.0."""
AND = " + "
"""Stands between the variables of a combination."""


@parameters
class Peers(Measure):
    """Share of records whose sensitive value somebody could learn from some of what is known.

    Question: whose secret is safe among others who look the same, whatever an outsider knows?
    Assumes: peers are the records that match what the outsider knows. They protect a person if
    their sensitive value differs. A record is breached if, for some combination of the known
    variables, at most a share p of its peers protect it (upward privacy, Definition 3 of the
    reference). Beside it, each for the worst sensitive variable: `downward`, the share of records
    for which some other value can be ruled out (Definition 4), and `npp_below`, the share of those
    with fewer than m protective peers. The table has all three for each sensitive variable.
    Values match if they are equal, or within a tolerance. Ranges, sets, masks and wildcards match
    what they stand for: who matches for sure protects, who may match does not, so that the share
    of protective peers is a bound from below (`exact` says where it is the share itself).

    Where a person has several rows (role "person"), peers are persons. Somebody protects another if
    one of their rows matches what is known, and none of those that match has the sensitive value.
    A person is breached if any of their rows is. Values that can be ruled out are not looked for.

    Parameters
    ----------
    known : what an outsider may know, in any combination. Default: all whose role is "quasi".
    sensitive : the variables to protect, each in turn. Default: all whose role is "sensitive", or
        if there is none, all that are known. One that is also known is not known while it is its
        turn.
    p : share of protective peers that is still a breach (p).
    q : share of peers up to which a value counts as ruled out (q). "from_p" is p divided by the
        number of other values of the variable, so that two values have q = p.
    m : number of protective peers that are enough, for npp_below.
    domains : which values can be ruled out: "observed", those that occur, or "declared", all of
        the domain in the schema (categories and whole numbers). One that nobody has can be ruled
        out of everybody.
    most : most variables in a combination that is looked at.
    effort : most effort of a combination that is looked at: each variable costs 1 less its
        accessibility in the schema, and a combination the sum.
    budget : most steps that may be taken: rows times combinations.
    tolerance : how far numbers may be apart and still match, by variable; dates in days.
    relative_tolerance : tolerance as a share of the record's own number.
    same_within : sensitive numbers that count as the same: without a tolerance, those that differ
        by less than this share are one value, and texts that differ only in spelling are. Whose
        secret is missing protects nobody. Targets are checked against the worst of these readings
        (`peers_at_worst`).
    individuals : most records looked at, drawn at random, among all others. The value is then an
        estimate with an interval, and a target is checked against its bad end. Which records are
        drawn follows from the data, so nobody can draw again until a target is met.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame(
    ...     {
    ...         "age": ["45-54", "35-44", "35-44", "55-64", "45-54"],
    ...         "gender": ["f", "m", "f", "m", "f"],
    ...         "diagnosis": ["cancer", "cancer", "cancer", "arthrosis", "diabetes"],
    ...     }
    ... )
    >>> schema = sf.Schema({"age": "quasi", "gender": "quasi", "diagnosis": "sensitive"})
    >>> found = Peers().measure(sf.Dataset(frame, schema))
    >>> found.value, found.records["diagnosis"].round(2).to_list()
    (0.6, [0.33, 0.0, 0.0, 0.0, 0.5])

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2).
    """

    name = "peers"
    runs_on = ("local", "streaming", "spark")
    counts_persons = True
    picture = "protection"
    odd = {"one row": 1, "all missing": 1}
    examples = (
        {"known": ["sex", "region", "education"], "sensitive": ["smoking", "diagnosis"]},
        {
            "known": ["sex", "region", "marital_status", "smoking"],
            "sensitive": ["smoking", "education"],
            "p": 0.2,
            "q": "from_p",
            "m": 5,
            "domains": "declared",
            "most": 2,
        },
        {
            "known": ["sex", "height", "birth_date"],
            "sensitive": ["smoking", "systolic"],
            "tolerance": {"birth_date": 365, "systolic": 10},
            "relative_tolerance": {"height": 0.02},
            "individuals": 100,
        },
    )
    numbers = (
        Number.share("peers"),
        Number.count("breached_records"),
        Number.class_size("fewest_protective_peers", counts="units alike", lowest=0.0),
        Number.share("downward"),
        Number.share("npp_below"),
    )
    known: list[str] | None = None
    sensitive: list[str] | None = None
    p: Threshold = 0.0
    q: Threshold | Literal["from_p"] = 0.0
    m: Annotated[int, Field(ge=1)] = 3
    domains: Literal["observed", "declared"] = "observed"
    most: Annotated[int, Field(ge=1)] | None = None
    effort: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    budget: Annotated[int, Field(ge=1, le=2**62)] = BUDGET
    tolerance: dict[str, Tolerance] | None = None
    relative_tolerance: dict[str, Tolerance] | None = None
    same_within: Annotated[float, Field(ge=0, lt=1)] = TOLERANCE
    individuals: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _require_one_tolerance(self) -> Self:
        for name in {*(self.tolerance or {})} & {*(self.relative_tolerance or {})}:
            msg = f"variable '{name}' has a tolerance and a relative one; one of them is enough."
            raise ValueError(msg)
        return self

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Go through every combination, and keep the worst for each record."""
        question = self._pose_question(data, subject)
        rows = engine.tabulate(data, question.names)
        require_records(rows.total)
        if self.domains == "declared":
            unseen = {name: count_unused_values(rows.data, name) for name in question.sensitive}
            question = replace(question, unseen=unseen)
        search = find_peers(rows.data, question, rows.units)
        table = _tabulate(search)
        united = WorstReading(max)
        for reading in search_readings(rows, question, self.same_within):
            risks = _list_risks_of_reading(search, reading)
            if reading.united is None:
                united.add_reading_without_missing(_list_risks(search), risks, reading.secret)
            else:
                united.add_united_reading(_list_risks(search), risks, reading.united)
        omitted = _list_omissions(search, data)
        details = self._collect_details(search, table, omitted, subject)
        in_turn = self.sensitive is None and not data.schema.having("sensitive")
        ends, records = _bound_breaches(search), search.records
        return Evidence(
            name=self.name,
            subject=subject,
            value=max(table[self.name]),
            direction=self.direction,
            interval=None if ends is None else (ends[0] / records, ends[1] / records),
            records=rows.show_records(_tabulate_records(search)),
            table=data.like(table),
            details=details | _judge_worst(united, details, search),
            assumptions=(
                *_list_assumptions(search),
                *united.assumptions,
                *search.units.describe(),
            ),
            warnings=(
                *_list_warnings(search, omitted, rows.data, in_turn=in_turn),
                *united.warnings,
            ),
            audience=choose_audience(data, subject, search.units),
            sampled=(int(search.counts.sum()), records) if search.sampled else None,
        )

    def _pose_question(self, data: Dataset, subject: Subject) -> PeerQuestion:
        known, sensitive = resolve_variables(self.known, self.sensitive, data, subject)
        return PeerQuestion(
            known=known,
            sensitive=sensitive,
            p=self.p,
            q=self.q,
            m=self.m,
            most=self.most,
            effort=self.effort,
            budget=self.budget,
            tolerance=_select_present(self.tolerance, data, subject),
            relative_tolerance=_select_present(self.relative_tolerance, data, subject),
            individuals=self.individuals,
        )

    def _collect_details(
        self,
        search: PeerSearch,
        table: pl.DataFrame,
        omitted: OmittedCombinations | None,
        subject: Subject,
    ) -> dict[str, Any]:
        fewest = int(search.peers.fewest_protective.min())
        question = search.question
        details: dict[str, Any] = {
            "breached_records": max(table["breached_records"]),
            # The least of a sample says nothing of those who were not drawn.
            "fewest_protective_peers": math.nan if search.sampled else fewest,
            **_describe_ruled_out(search, table),
            "npp_below": max(table["npp_below"]),
            "m": question.m,
            "worst_variable": table["variable"][table[self.name].arg_max() or 0],
            "combinations": int(max(search.peers.combinations)),
            "combinations_left_out": int(max(search.peers.left_out)),
            "known": tuple(question.known),
            "sensitive": tuple(question.sensitive),
            "exact": bool(search.exact.all()),
        }
        if omitted is not None:
            details["left_out"] = omitted.describe()
        ends = _bound_breaches(search)
        if ends is not None:
            details |= {
                "individuals": int(search.counts.sum()),
                "fewest_protective_peers_of_drawn": fewest,
                f"{self.name}{AT_WORST}": ends[1] / search.records,
                f"breached_records{AT_WORST}": ends[1],
            }
            risks = _list_risks(search)
            details |= {f"{name}{AT_WORST}": risks[name] for name in _SHARES if name in risks}
        # They may name rare combinations of the original: not for the public.
        if subject != "released":
            details["breaching_combinations"] = _list_breaching(search)
        details["groups"] = group_by_protection(
            search.peers.least_ppp.T, search.counts, question.sensitive, self.p
        )
        details |= search.units.details()
        codes = search.matched.codes
        if codes is not None and not search.sampled and search.units.one_row_each:
            details["gains"] = rank_gains(
                codes,
                search.counts,
                search.matched.names,
                details["worst_variable"],
                question.known,
                read_threshold(self.p, "p"),
            )
        return details


def _list_risks(search: PeerSearch) -> dict[str, float]:
    """The numbers on which a target may be set, at their bad end; each is worse if it is larger."""
    breached = _count_most(search, PeerSearch.mark_breaches)
    ruled_out = _count_most(search, is_ruled_out) if _knows_values(search) else None
    return {
        "peers": breached / search.records,
        "breached_records": breached,
        "fewest_protective_peers": -int(search.peers.fewest_protective.min()),
        "npp_below": _count_most(search, has_few_peers) / search.records,
        **({} if ruled_out is None else {"downward": ruled_out / search.records}),
    }


def is_ruled_out(search: PeerSearch, variable: int) -> Mask:
    """Of which of the distinct records some other value can be ruled out: PoAC is below 1."""
    ruled_out: Mask = ~(search.peers.least_poac[variable] >= 1)
    return ruled_out


def has_few_peers(search: PeerSearch, variable: int) -> Mask:
    """Which of the distinct records have fewer than m protective peers under some combination."""
    few: Mask = search.peers.fewest_protective[variable] < search.question.m
    return few


def _knows_values(search: PeerSearch) -> bool:
    """Whether it is known of every secret which of its values can be ruled out."""
    unknown = [name for name, unseen in search.question.unseen.items() if unseen < 0]
    return not unknown and not (search.peers.fewest_alternatives < 0).any()


def _count_most(search: PeerSearch, flag: Flag) -> int:
    """Records that are flagged in the worst variable; of a sample, the upper end for all."""
    ends = _bound_flagged_records(search, flag)
    if ends is not None:
        return ends[1]
    most = max(
        int(search.counts[flag(search, index)].sum())
        for index in range(len(search.question.sensitive))
    )
    return -(-most * search.records // int(search.counts.sum()))


def _list_risks_of_reading(search: PeerSearch, reading: PeerReading) -> dict[str, float]:
    """The same where a secret is read otherwise; who is breached in one search is breached."""
    records, again = search.records, [_list_risks(part) for _, part in reading.searches]
    flags: dict[str, Flag] = {"peers": PeerSearch.mark_breaches, "npp_below": has_few_peers}
    if _knows_values(search) and all(_knows_values(part) for _, part in reading.searches):
        flags["downward"] = is_ruled_out
    fewest = max(
        [risks["fewest_protective_peers"] for risks in again],
        default=_list_risks(search)["fewest_protective_peers"],
    )
    flagged = {}
    for number, flag in flags.items():
        if search.sampled:
            # Each search drew records of its own: the worst share is taken for that of all.
            share = max([risks[number] for risks in again], default=0.0)
            flagged[number] = math.ceil(share * records)
        else:
            flagged[number] = _count_in_any(search, reading, flag)
    return {
        "breached_records": flagged["peers"],
        "fewest_protective_peers": fewest,
        **{number: count / records for number, count in flagged.items()},
    }


def _count_in_any(search: PeerSearch, reading: PeerReading, flag: Flag) -> int:
    """Records, or persons, that are flagged as the secret stands or as it is read."""
    index = search.question.sensitive.index(reading.secret.name)
    flags = flag(search, index)[search.row_of]
    for rows, part in reading.searches:
        flags[rows] |= flag(part, 0)[part.row_of]
    return search.units.count_among(flags)


def _judge_worst(
    united: WorstReading, details: Mapping[str, Any], search: PeerSearch
) -> dict[str, Any]:
    """What targets are checked against: the worse of the values as they stand and united."""
    worst = united.judge(_list_risks(search))
    fewest = f"fewest_protective_peers{AT_WORST}"
    if fewest in worst:
        # Few is worse. Of a sample nothing is known of those who were not drawn.
        worst[fewest] = math.nan if search.sampled else -worst[fewest]
    return {
        name: max(value, details.get(name, value)) if name != fewest else value
        for name, value in worst.items()
    }


def _select_present(
    tolerance: Mapping[str, float] | None, data: Dataset, subject: Subject
) -> dict[str, float]:
    """Tolerances; of a release only those of the variables that it still has."""
    return {
        name: value
        for name, value in (tolerance or {}).items()
        if subject != "released" or name in data.schema
    }


def _tabulate_records(search: PeerSearch) -> pl.DataFrame:
    """The least share of protective peers, a column per sensitive variable; NaN if not drawn."""
    least = np.where(search.row_of < 0, np.nan, search.peers.least_ppp[:, search.row_of])
    return pl.DataFrame(dict(zip(search.question.sensitive, least, strict=True)))


def _tabulate(search: PeerSearch) -> pl.DataFrame:
    """A row per sensitive variable; of a sample also the ends of the interval."""
    rows = []
    records, looked = search.records, int(search.counts.sum())
    least_ppp = search.peers.least_ppp
    for index, name in enumerate(search.question.sensitive):
        breached = int(search.counts[search.mark_breaches(index)].sum())
        sizes = search.peers.breach_size[index]
        row = {
            "variable": name,
            "peers": breached / looked,
            # Of a sample, what it says of all records; never less than it says.
            "breached_records": -(-breached * records // looked),
            "downward": _share_ruled_out(search, index),
            "npp_below": int(search.counts[has_few_peers(search, index)].sum()) / looked,
            "mean_least_ppp": math.fsum(np.sort(least_ppp[index] * search.counts)) / looked,
            "fewest_known": int(sizes[sizes > 0].min()) if (sizes > 0).any() else None,
            "often_by": _name_most_breaching(search, index),
        }
        if search.sampled:
            ends = population_interval(breached, looked, records)
            row |= {"low": ends[0] / records, "high": ends[1] / records}
        rows.append(row)
    types = {"fewest_known": pl.Int64, "often_by": pl.String, "downward": pl.Float64}
    return pl.DataFrame(rows, schema_overrides=types)


def _share_ruled_out(search: PeerSearch, index: int) -> float | None:
    """The share of records of which some other value can be ruled out, if that is known."""
    undeclared = search.question.unseen.get(search.question.sensitive[index], 0) < 0
    if undeclared or (search.peers.fewest_alternatives[index] < 0).any():
        return None
    return int(search.counts[is_ruled_out(search, index)].sum()) / int(search.counts.sum())


def _describe_ruled_out(search: PeerSearch, table: pl.DataFrame) -> dict[str, Any]:
    """The worst share of records of which a value can be ruled out, or why it is not known."""
    shares = table["downward"]
    if not shares.null_count():
        return {"downward": max(shares)}
    names = table.filter(shares.is_null())["variable"].to_list()
    undeclared = [name for name in names if search.question.unseen.get(name, 0) < 0]
    why = (
        f"the schema declares no domain of single values for {', '.join(undeclared)}"
        if undeclared
        else f"which values can be ruled out is not told of {', '.join(names)}: values lie within "
        "a tolerance, overlap, are too many for the limits, or are of persons with several rows"
    )
    return {"downward": math.nan, "downward_reason": f"{why}."}


def _count_by_combination(search: PeerSearch, index: int) -> list[tuple[int, int]]:
    """The smallest combinations that breach somebody: records and mask, the most records first."""
    masks, mask_of = np.unique(search.peers.breach_mask[index], return_inverse=True)
    totals = np.bincount(mask_of.ravel(), search.counts, len(masks)).astype(np.int64)
    pairs = zip(totals.tolist(), masks.tolist(), strict=True)
    return sorted(
        ((total, mask) for total, mask in pairs if mask), key=lambda pair: (-pair[0], pair[1])
    )


def _name_most_breaching(search: PeerSearch, index: int) -> str | None:
    """The small combination that gives most records away."""
    most = _count_by_combination(search, index)[:1]
    return ", ".join(search.names_of(most[0][1])) if most else None


def _list_breaching(search: PeerSearch) -> list[dict[str, Any]]:
    """The combinations that breach most records, each record counted at its smallest."""
    combinations: list[dict[str, Any]] = [
        {"sensitive": name, "known": ", ".join(search.names_of(mask)), "records": number}
        for index, name in enumerate(search.question.sensitive)
        for number, mask in _count_by_combination(search, index)
    ]
    return sorted(combinations, key=lambda row: -int(row["records"]))[:_LISTED]


def _bound_breaches(search: PeerSearch) -> tuple[int, int] | None:
    """The least and the most records that may be breached in the worst variable."""
    return _bound_flagged_records(search, PeerSearch.mark_breaches)


def _bound_flagged_records(search: PeerSearch, flag: Flag) -> tuple[int, int] | None:
    """The least and the most records that may be flagged in the worst variable; None: all known.

    All variables are taken together: each interval is as wide as it must be for all to hold
    (Bonferroni).
    """
    if not search.sampled:
        return None
    records, looked = search.records, int(search.counts.sum())
    # The worst of several variables must be covered too.
    level = 1 - (1 - LEVEL) / len(search.question.sensitive)
    ends = [
        population_interval(int(search.counts[flag(search, index)].sum()), looked, records, level)
        for index in range(len(search.question.sensitive))
    ]
    return max(low for low, _ in ends), max(high for _, high in ends)


@dataclass(frozen=True)
class OmittedCombinations:
    """The combinations that were not looked at, in words.

    smallest : those that contain no smaller one that was left out, as far as they are listed.
    more : how many more there are at least.
    wide : the number of variables beyond which all were left out, if there is such a number.
    """

    smallest: tuple[str, ...]
    more: int
    wide: int | None

    def describe(self) -> str:
        """As a list, and everything that contains them."""
        parts = list(self.smallest)
        if self.more:
            parts.append(f"at least {self.more} more")
        listing = f"{', '.join(parts)} and what contains them" if parts else ""
        wide = ""
        if self.wide is not None:
            wide = f"all of more than {self.wide} variable{'s' if self.wide > 1 else ''}"
        return " and ".join(text for text in (wide, listing) if text)


def _list_omissions(search: PeerSearch, data: Dataset) -> OmittedCombinations | None:
    """Which combinations the limits leave out; None if none."""
    if search.peers.complete:
        return None
    question = search.question
    only = question.sensitive[0] if len(question.sensitive) == 1 else None
    known = [name for name in question.known if name != only]
    most = question.most if question.most is not None and question.most < len(known) else None
    if question.effort is None:
        return OmittedCombinations((), 0, most)
    sets = _find_too_costly(read_costs(data, known), question.effort, most or len(known))
    names = [AND.join(name for name in known if name in combination) for combination in sets]
    return OmittedCombinations(tuple(names[:_LISTED]), max(0, len(names) - _LISTED), most)


def _find_too_costly(costs: dict[str, float], limit: float, most: int) -> list[set[str]]:
    """The smallest combinations that cost too much, fewest variables first.

    Variables are added from dear to cheap. So what is too dear with its last one, and is not
    without it, has nothing smaller in it that is too dear.
    """
    from sfumato.kernels.lattice.combinations import Effort

    # In whole numbers, as the search itself counts: sums of floats may miss the limit.
    integers, dearest = Effort(list(costs.values()), limit).to_integers(len(costs))
    cost = dict(zip(costs, integers.tolist(), strict=True))
    order = sorted(cost, key=lambda name: -cost[name])
    too_costly: list[set[str]] = []
    level: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]
    visited = 0
    for _ in range(most):
        next_level = []
        for first, spent, names in level:
            for index in range(first, len(order)):
                visited += 1
                total = spent + cost[order[index]]
                if total > dearest:
                    too_costly.append({*names, order[index]})
                else:
                    next_level.append((index + 1, total, (*names, order[index])))
            if visited > _VISITED:
                return too_costly
        level = next_level
    return too_costly


def _list_assumptions(search: PeerSearch) -> Iterator[str]:
    """What must hold for the numbers to mean what they say."""
    yield (
        "The outsider knows that the person is in the data, and the exact cells of some of the "
        "known variables; which, nobody can say, so the worst combination counts."
    )
    yield "The outsider knows nothing of other persons. Missing is a value of its own."
    tolerated, generalised = search.matched.tolerated, search.matched.generalised
    if tolerated:
        yield (
            f"Numbers match within the tolerance: {', '.join(tolerated)}. A peer whose sensitive "
            "number lies within it does not protect."
        )
    yield (
        "Numbers without a tolerance count as different as soon as they are not equal."
        if tolerated
        else "Numbers count as different as soon as they are not equal."
    )
    if generalised:
        yield (
            "Ranges, sets, masks and wildcards match the values they stand for: "
            f"{', '.join(generalised)}."
        )


def list_measured_numbers(data: Dataset, secrets: Iterable[str]) -> tuple[str, ...]:
    """Secrets that are measured numbers: without a tolerance those nearly equal seem to protect.

    Examples
    --------
    >>> frame = pl.DataFrame({"kilos": [50 + at / 8 for at in range(40)], "ill": [0.0, 1.0] * 20})
    >>> list_measured_numbers(Dataset(frame), ["kilos", "ill"])
    ('kilos',)
    """
    continuous = [name for name in secrets if data.schema[name].kind == "continuous"]
    return tuple(name for name in continuous if data.column(name).n_unique() > _CODES)


def _list_warnings(
    search: PeerSearch, omitted: OmittedCombinations | None, data: Dataset, *, in_turn: bool
) -> Iterator[str]:
    """What makes the numbers less than they seem."""
    inexact = {*search.matched.tolerated, *search.matched.generalised}
    exact = [name for name in search.question.sensitive if name not in inexact]
    if measured := list_measured_numbers(data, exact):
        yield (
            f"Measured numbers without a tolerance: {', '.join(measured)}. Even who has nearly the "
            "same number counts as protective, so that people may be less safe than it seems."
        )
    if omitted is not None:
        yield (
            f"Only {int(max(search.peers.combinations)):,} combinations were looked at; "
            f"{int(max(search.peers.left_out)):,} were left out and may breach more: "
            f"{omitted.describe()}."
        )
    if in_turn:
        yield "No variable is declared as sensitive: each known one was taken in turn."
    looked = int(search.counts.sum())
    if search.sampled:
        yield (
            f"An estimate: {looked:,} of {search.records:,} records were drawn at random, and "
            "only these were looked at. The interval holds with 95 % confidence."
        )
    if not search.exact.all():
        share = int(search.counts[~search.exact].sum()) / looked
        yield (
            "Cells that stand for several values leave open who matches: the share of protective "
            f"peers is a bound from below for {share:.1%} of the records looked at."
        )
    if (search.peers.fewest_alternatives < 0).any():
        yield (
            "Which other values can be ruled out is not told where values lie within a tolerance, "
            "overlap, or are too many for these limits, nor where persons have several rows."
        )
