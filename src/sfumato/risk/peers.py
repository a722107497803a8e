"""What protects each person: others who share what is known, and not what is sensitive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.lattice import Effort, lattice
from sfumato.kernels.lattice import Peers as Found
from sfumato.known import known_variables
from sfumato.measure import Measure
from sfumato.parameters import parameters
from sfumato.peering.rows import coded_rows

Threshold = Annotated[float, Field(ge=0, lt=1)]
_EASY = 1.0
"""How accessible a variable is of which nobody has said it."""
_ASSUMPTIONS = (
    (
        "The outsider knows that the person is in the data, and the exact cells of some of the "
        "known variables; which, nobody can say, so the worst combination counts."
    ),
    "The outsider knows nothing of other persons. Missing is a value of its own.",
    (
        "Numbers count as different as soon as they are not equal, and ranges as soon as they are "
        "not the same range."
    ),
)


@parameters
class Peers(Measure):
    """Share of records whose sensitive value somebody could learn from some of what is known.

    Question: whose secret is safe among others who look the same, whatever an outsider knows?
    Assumes: peers are the records that share what the outsider knows. They protect a person if
    their sensitive value differs. A record is breached if, for some combination of the known
    variables, at most a share p of its peers protect it. The table has, for each sensitive
    variable, also the share of records for which some other value can be ruled out (`downward`).

    Parameters
    ----------
    known : what an outsider may know, in any combination. Default: all whose role is "quasi".
    sensitive : the variables to protect, each in turn. Default: all whose role is "sensitive". One
        that is also known is not known while it is its turn.
    p : the share of protective peers that is still a breach.
    q : the share of peers up to which a value counts as ruled out.
    most : look only at combinations of at most so many variables.
    effort : look only at combinations that are easy enough: each variable costs 1 less its
        accessibility in the schema, and a combination the sum.
    budget : how many rows times combinations may be looked at.

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
    budget: Annotated[int, Field(ge=1, le=2**62)] = 500_000_000

    def look(self, data: Dataset, subject: Subject) -> Evidence:
        """Go through every combination, and keep the worst for each record."""
        known = known_variables(self.known, data, subject)
        sensitive = self._sensitive(data, subject)
        names = tuple(dict.fromkeys((*known, *sensitive)))
        _, rows, counts, of = coded_rows(data, names)
        try:
            found = lattice(
                rows,
                counts,
                sensitive=[names.index(name) for name in sensitive],
                known=[names.index(name) for name in known],
                most=self.most,
                effort=self._effort(data, names),
                budget=self.budget,
                q=self.q,
                p=self.p,
            )
        except ValueError as error:
            raise MeasureError(
                f"Peers cannot be counted: {error}",
                hint="name fewer variables in `known`, a smaller `most`, or a larger `budget`.",
            ) from None
        table = _table(found, sensitive, names, counts, self.p)
        return Evidence(
            name=self.name,
            subject=subject,
            value=max(table[self.name]),
            direction=self.direction,
            records=data.like(
                pl.DataFrame(dict(zip(sensitive, found.least_ppp[:, of], strict=True)))
            ),
            table=data.like(table),
            details={
                "breached_records": max(table["breached_records"]),
                "fewest_protective_peers": int(found.fewest_protective.min()),
                "worst_variable": table["variable"][table[self.name].arg_max() or 0],
                "combinations": int(max(found.combinations)),
                "combinations_left_out": int(max(found.left_out)),
                "known": ", ".join(known),
                "sensitive": ", ".join(sensitive),
            },
            assumptions=_ASSUMPTIONS,
            warnings=() if found.complete else (_left_out(found),),
            audience="public" if subject == "released" else "custodian",
        )

    def _sensitive(self, data: Dataset, subject: Subject) -> tuple[str, ...]:
        named = data.schema.having("sensitive") if self.sensitive is None else self.sensitive
        if subject == "released":
            # What the release left out, nobody can learn from it.
            named = [name for name in named if name in data.schema]
        data.schema.require(named)
        if not named:
            raise MeasureError(
                "No variable is declared as sensitive.",
                hint='give some the role "sensitive", or name them: sensitive = [...].',
            )
        return tuple(named)

    def _effort(self, data: Dataset, names: Sequence[str]) -> Effort | None:
        if self.effort is None:
            return None
        easy = [data.schema[name].accessibility for name in names]
        costs = [1 - (_EASY if one is None else one) for one in easy]
        return Effort(costs, self.effort)


def _table(
    found: Found, sensitive: Sequence[str], names: Sequence[str], counts: Any, p: float
) -> pl.DataFrame:
    """A row per sensitive variable."""
    records = int(counts.sum())
    rows = []
    for at, name in enumerate(sensitive):
        least = found.least_ppp[at]
        # The share itself decides: 1 of 5 is not above 0.2, whatever a float makes of it.
        breached = found.least_protective[at] <= p * found.least_peers[at] * (1 + 1e-12)
        sizes = found.breach_size[at][found.breach_size[at] > 0]
        rows.append(
            {
                "variable": name,
                "peers": int(counts[breached].sum()) / records,
                "breached_records": int(counts[breached].sum()),
                "downward": int(counts[~(found.least_poac[at] >= 1)].sum()) / records,
                "mean_least_ppp": math.fsum(np.sort(least * counts)) / records,
                "fewest_known": int(sizes.min()) if len(sizes) else None,
                "often_by": _often(found.breach_mask[at], counts, names),
            }
        )
    return pl.DataFrame(rows, schema_overrides={"fewest_known": pl.Int64, "often_by": pl.String})


def _often(masks: Any, counts: Any, names: Sequence[str]) -> str | None:
    """The smallest combination that breaches most records."""
    used, at = np.unique(masks, return_inverse=True)
    totals = np.bincount(at.ravel(), counts)
    totals[used == 0] = 0
    if not totals.any():
        return None
    mask = int(used[int(np.argmax(totals))])
    return ", ".join(name for bit, name in enumerate(names) if mask >> bit & 1)


def _left_out(found: Found) -> str:
    return (
        f"Only {int(max(found.combinations)):,} combinations were looked at; "
        f"{int(max(found.left_out)):,} were left out and may breach more."
    )
