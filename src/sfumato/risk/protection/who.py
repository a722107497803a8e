"""Whose secret is in danger, and by what: a row per record and sensitive variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.risk.protection.distinct_records import find_distinct_records
from sfumato.risk.protection.domains import count_unused_values
from sfumato.risk.protection.matching import (
    BUDGET,
    PeerQuestion,
    PeerSearch,
    find_peers,
    resolve_variables,
)

_WIDEST = 1000
_TYPES = {
    "record": pl.Int64, "variable": pl.String, "ppp": pl.Float64, "npp": pl.Int64,
    "poac": pl.Float64, "least_ppp": pl.Float64, "least_by": pl.String, "breach_by": pl.String,
    "breach_size": pl.Int64, "upward": pl.Boolean, "downward": pl.Boolean, "exact": pl.Boolean,
}  # fmt: skip


def who(  # noqa: PLR0913 - the parameters of the measure, by name
    data: Dataset,
    sensitive: Sequence[str] | None = None,
    known: Sequence[str] | None = None,
    *,
    p: float = 0.0,
    q: float | Literal["from_p"] = 0.0,
    domains: Literal["observed", "declared"] = "observed",
    most: int | None = None,
    effort: float | None = None,
    tolerance: Mapping[str, float] | None = None,
    relative_tolerance: Mapping[str, float] | None = None,
    individuals: int | None = None,
    budget: int = BUDGET,
) -> Any:
    """What protects each record, what gives it away, and how little of that is enough.

    Question: whose secret is in danger, and by knowing what?
    Assumes: as the measure `peers`, whose parameters these are. It stays with the custodian.

    The columns: `record`, the position of the record, from 0; `variable`, the sensitive one; `ppp`
    and `npp`, share and number of protective peers with everything known; `poac`, the share of
    other values that peers have; `least_ppp`, the least share of protective peers over all
    combinations, and `least_by`, the combination that attains it; `breach_by`, the smallest
    combination that breaches, and its `breach_size`, missing where none does; `upward`, whether
    none does; `downward`, whether no value can be ruled out; `exact`, whether the numbers are not
    bounds. Records that were not drawn have missing values. Where a person has several rows, peers
    are persons, and each row has the numbers of its person.

    Parameters
    ----------
    data : the records.
    sensitive : the variables to protect. Default: by role, or all that are known, in turn.
    known : what an outsider may know, in any combination. Default: all whose role is "quasi".
    p : the share of protective peers that is still a breach.
    q : the share of peers up to which a value counts as ruled out; "from_p" is p over the number of
        other values.
    domains : which values can be ruled out: those that occur, or all of the declared domain.
    most : look only at combinations of at most so many variables.
    effort : look only at combinations that are easy enough to learn.
    tolerance : by variable, how far numbers may be apart and still match.
    relative_tolerance : the same as a share of the record's own number.
    individuals : look at so many records only; which of them follows from the data.
    budget : how many steps may be taken.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": [30, 31, 30], "sex": ["f", "f", "m"], "ill": [0, 1, 0]})
    >>> found = who(Dataset(frame), ["ill"], ["age", "sex"])
    >>> found.select("least_ppp", "least_by", "breach_by").rows()[:2]
    [(0.0, 'age', 'age'), (0.0, 'age', 'age')]

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2).
    """
    by, secrets = resolve_variables(known, sensitive, data, "original")
    question = PeerQuestion(
        known=by, sensitive=secrets, p=p, q=q, most=most, effort=effort, budget=budget,
        tolerance=tolerance or {}, relative_tolerance=relative_tolerance or {},
        individuals=individuals,
        unseen={name: count_unused_values(data, name) for name in secrets if domains == "declared"},
    )  # fmt: skip
    search = find_peers(data, question)
    parts = [_tabulate(search, index) for index in range(len(secrets))]
    return data.like(pl.concat(parts).sort("record", maintain_order=True))


def _tabulate(search: PeerSearch, index: int) -> pl.DataFrame:
    """The records with regard to one sensitive variable."""
    peers = search.peers
    # Each combination is spelt once, however many records it breaches.
    names = {
        int(mask): ", ".join(search.names_of(mask)) or None
        for mask in np.union1d(peers.least_mask[index], peers.breach_mask[index])
    }
    size = peers.breach_size[index]
    rows = pl.DataFrame(
        {
            "row": np.arange(len(search.counts)),
            "ppp": peers.ppp[index],
            "npp": (peers.peers - peers.same)[index],
            "poac": pl.Series(peers.poac[index]).fill_nan(None),
            "least_ppp": peers.least_ppp[index],
            "least_by": [names[mask] for mask in peers.least_mask[index].tolist()],
            "breach_by": [names[mask] for mask in peers.breach_mask[index].tolist()],
            "breach_size": pl.Series(size).cast(pl.Int64).set(pl.Series(size == 0), None),
            "upward": size == 0,
            "downward": pl.Series(peers.least_poac[index]).fill_nan(None) >= 1,
            "exact": search.exact,
        }
    )
    records = pl.DataFrame(
        {"record": np.arange(len(search.row_of)), "row": search.row_of.astype(np.int64)}
    ).with_columns(variable=pl.lit(search.question.sensitive[index]))
    joined = records.join(rows, on="row", how="left", maintain_order="left")
    return joined.select(pl.col(name).cast(dtype) for name, dtype in _TYPES.items())


def by_value(data: Dataset, sensitive: str, known: Sequence[str] | None = None) -> Any:
    """Of each record the share of peers that have each value: value-specific peer protection.

    Question: which values could somebody rule out for a person, knowing everything that is known?
    Assumes: peers are the records with equal cells. Missing is a value. It stays with the
    custodian: a column per value of the sensitive variable, a row per record.

    Parameters
    ----------
    data : the records.
    sensitive : the variable to protect.
    known : what an outsider knows. Default: all whose role is "quasi".

    Examples
    --------
    >>> frame = pl.DataFrame({"age": [30, 30, 31], "ill": ["yes", "no", "no"]})
    >>> by_value(Dataset(frame), "ill", ["age"]).rows()
    [(0.5, 0.5), (0.5, 0.5), (1.0, 0.0)]

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2).
    """
    from sfumato.kernels.lattice.peers import count_value_peers

    if not data.units.one_row_each:
        raise MeasureError(
            "Shares of records would count rows, of which a person has several.",
            hint="see `who`, which counts persons; or keep one row of each (`thin_rows`).",
        )
    records = find_distinct_records(data, sensitive, known)
    last = len(records.known)
    values = records.values[sensitive].unique().sort(nulls_last=True)
    if len(values) > _WIDEST:
        raise MeasureError(
            f"Variable '{sensitive}' has more than {_WIDEST:,} values.", hint="coarsen it first."
        )
    peers = count_value_peers(records.codes, records.counts, sensitive=last, known=range(last))
    shares = (peers / peers.sum(axis=1, keepdims=True))[records.row_of]
    labels = ["missing" if value is None else str(value) for value in values.to_list()]
    return data.like(pl.DataFrame(shares, schema=_make_unique(labels), orient="row"))


def _make_unique(names: list[str]) -> list[str]:
    """Names that differ: where a value is called "missing" too, it is marked."""
    return [
        f"{name} (value)" if name in names[index + 1 :] else name
        for index, name in enumerate(names)
    ]
