"""What protects each person: others who share what is known, and not what is sensitive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.data import Dataset
from sfumato.evidence import Evidence, Subject
from sfumato.measure import AT_WORST, Measure
from sfumato.parameters import parameters
from sfumato.risk._peers import match_told
from sfumato.risk._peers.groups import gains_of, groups_of
from sfumato.risk._peers.matching import BUDGET, Asked, Found, find, named
from sfumato.risk._peers.rows import share_of

Threshold = Annotated[float, Field(ge=0, lt=1)]
Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@parameters
class Peers(Measure):
    """Share of records whose sensitive value somebody could learn from some of what is known.

    Question: whose secret is safe among others who look the same, whatever an outsider knows?
    Assumes: peers are the records that match what the outsider knows. They protect a person if
    their sensitive value differs. A record is breached if, for some combination of the known
    variables, at most a share p of its peers protect it. The table has, for each sensitive
    variable, also the share of records for which some other value can be ruled out (`downward`).
    Values match if they are equal, or within a tolerance. Ranges, sets, masks and wildcards match
    what they stand for: who matches for sure protects, who may match does not, so that the share
    of protective peers is a bound from below (`exact` says where it is the share itself).

    Parameters
    ----------
    known : what an outsider may know, in any combination. Default: all whose role is "quasi".
    sensitive : the variables to protect, each in turn. Default: all whose role is "sensitive", or
        if there is none, all that are known. One that is also known is not known while it is its
        turn.
    p : the share of protective peers that is still a breach.
    q : the share of peers up to which a value counts as ruled out.
    most : look only at combinations of at most so many variables.
    effort : look only at combinations that are easy enough: each variable costs 1 less its
        accessibility in the schema, and a combination the sum.
    budget : how many steps may be taken: rows times combinations.
    tolerance : by variable, how far numbers may be apart and still match; dates in days.
    relative_tolerance : the same as a share of the record's own number.
    individuals : look only at so many records, drawn at random, among all others. The value is then
        an estimate with an interval.
    seed : another seed draws other records.

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
    examples = (
        {"known": ["sex", "region", "education"], "sensitive": ["smoking", "diagnosis"]},
        {
            "known": ["sex", "region", "marital_status", "smoking"],
            "sensitive": ["smoking", "education"],
            "p": 0.2,
            "q": 0.05,
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
    provides = ("breached_records", "fewest_protective_peers")
    reach = {  # noqa: RUF012 - a class variable by its base
        "peers": (0.0, 1.0),
        **dict.fromkeys(("breached_records", "fewest_protective_peers"), (0.0, math.inf)),
    }
    known: list[str] | None = None
    sensitive: list[str] | None = None
    p: Threshold = 0.0
    q: Threshold = 0.0
    most: Annotated[int, Field(ge=1)] | None = None
    effort: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    budget: Annotated[int, Field(ge=1, le=2**62)] = BUDGET
    tolerance: dict[str, Tolerance] | None = None
    relative_tolerance: dict[str, Tolerance] | None = None
    individuals: Annotated[int, Field(ge=1)] | None = None
    seed: int = 0

    @model_validator(mode="after")
    def _one_tolerance_each(self) -> Self:
        for name in {*(self.tolerance or {})} & {*(self.relative_tolerance or {})}:
            msg = f"variable '{name}' has a tolerance and a relative one; one of them is enough."
            raise ValueError(msg)
        return self

    def look(self, data: Dataset, subject: Subject) -> Evidence:
        """Go through every combination, and keep the worst for each record."""
        found = find(data, self._asked(data, subject))
        table = match_told.table(found)
        out = match_told.left_out(found, data)
        in_turn = self.sensitive is None and not data.schema.having("sensitive")
        return Evidence(
            name=self.name,
            subject=subject,
            value=max(table[self.name]),
            direction=self.direction,
            interval=_interval(found),
            records=data.like(_records(found)),
            table=data.like(table),
            details=self._details(found, table, out, subject),
            assumptions=tuple(match_told.assumptions(found)),
            warnings=tuple(match_told.warnings(found, out, data, in_turn=in_turn)),
            audience="public" if subject == "released" else "custodian",
        )

    def _asked(self, data: Dataset, subject: Subject) -> Asked:
        known, sensitive = named(self.known, self.sensitive, data, subject)
        return Asked(
            known=known,
            sensitive=sensitive,
            p=self.p,
            q=self.q,
            most=self.most,
            effort=self.effort,
            budget=self.budget,
            tolerance=_left(self.tolerance, data, subject),
            relative_tolerance=_left(self.relative_tolerance, data, subject),
            individuals=self.individuals,
            seed=self.seed,
        )

    def _details(
        self, found: Found, table: pl.DataFrame, out: match_told.LeftOut | None, subject: Subject
    ) -> dict[str, Any]:
        fewest = int(found.peers.fewest_protective.min())
        details: dict[str, Any] = {
            "breached_records": max(table["breached_records"]),
            # The least of a sample says nothing of those who were not drawn.
            "fewest_protective_peers": math.nan if found.sampled else fewest,
            "worst_variable": table["variable"][table[self.name].arg_max() or 0],
            "combinations": int(max(found.peers.combinations)),
            "combinations_left_out": int(max(found.peers.left_out)),
            "known": ", ".join(found.asked.known),
            "sensitive": ", ".join(found.asked.sensitive),
            "exact": bool(found.exact.all()),
        }
        if out is not None:
            details["left_out"] = out.said()
        ends = match_told.interval(found)
        if ends is not None:
            details |= {
                "individuals": int(found.counts.sum()),
                "fewest_protective_peers_of_drawn": fewest,
                f"{self.name}{AT_WORST}": ends[1] / len(found.of),
                f"breached_records{AT_WORST}": ends[1],
            }
        if subject != "released":
            details["breaching_combinations"] = match_told.breaching(found)
        details["groups"] = groups_of(
            found.peers.least_ppp.T, found.counts, found.asked.sensitive, self.p
        )
        codes = found.matched.codes
        if codes is not None and not found.sampled:
            details["gains"] = gains_of(
                codes,
                found.counts,
                found.matched.names,
                details["worst_variable"],
                found.asked.known,
                share_of(self.p, "p"),
            )
        return details


def _left(
    tolerance: Mapping[str, float] | None, data: Dataset, subject: Subject
) -> dict[str, float]:
    """Tolerances; of a release only those of the variables that it has left."""
    told = tolerance or {}
    return {
        name: value for name, value in told.items() if subject != "released" or name in data.schema
    }


def _records(found: Found) -> pl.DataFrame:
    """The least share of protective peers, a column per sensitive variable; NaN if not drawn."""
    least = np.where(found.of < 0, np.nan, found.peers.least_ppp[:, found.of])
    return pl.DataFrame(dict(zip(found.asked.sensitive, least, strict=True)))


def _interval(found: Found) -> tuple[float, float] | None:
    ends = match_told.interval(found)
    return None if ends is None else (ends[0] / len(found.of), ends[1] / len(found.of))
