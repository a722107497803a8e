"""What each known variable takes from people's privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.kernels.arrays import AnyIntegers
from sfumato.parameters import write_short
from sfumato.risk.protection.distinct_records import (
    DistinctRecords,
    find_distinct_records,
    read_threshold,
)
from sfumato.risk.protection.equal_widths import is_above

_DIGITS = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Gains:
    """What would be gained if one variable were unknown.

    Parameters
    ----------
    sensitive : the variable to protect.
    p : the share of protective peers above which a record counts as protected.
    table : a row per known variable: the share of records that are protected with everything
        known (`protected`) and with all but this variable (`without`), the `gain`, and means.
    peers : a row per record, a column per variable: the share of protective peers (PPP) if this
        variable alone were unknown.
    alternatives : the same of the possible alternative values (PoAC); NaN where there is one value.
    """

    sensitive: str
    p: float
    table: Any = field(repr=False)
    peers: Any = field(repr=False)
    alternatives: Any = field(repr=False)

    __repr__ = write_short


def gains(
    data: Dataset,
    sensitive: str,
    known: Sequence[str] | None = None,
    p: float = 0.0,
    q: float = 0.0,
) -> Gains:
    """The privacy of every record if one variable were unknown and all others known.

    Question: which variable gives people away, so that generalising it would help?
    Assumes: the outsider knows the exact cells of all other variables. Missing is a value.

    Parameters
    ----------
    data : the records.
    sensitive : the variable to protect.
    known : what an outsider may know. Default: all whose role is "quasi".
    p : the share of protective peers that is still a breach.
    q : the share of peers up to which an alternative value counts as ruled out.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": [30, 31, 30], "sex": ["f", "f", "m"], "ill": [0, 1, 0]})
    >>> found = gains(Dataset(frame), "ill", ["age", "sex"])
    >>> found.table.select("variable", "gain").rows()
    [('age', 0.6666666666666666), ('sex', 0.0)]

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 3.
    """
    above, likely = read_threshold(p, "p"), read_threshold(q, "q")
    records = find_distinct_records(data, sensitive, known)
    columns = range(len(records.known))
    complete = _Protection.of(records, columns, above, likely)
    table, peers, alternatives = [], {}, {}
    for column, name in enumerate(records.known):
        others = [other for other in columns if other != column]
        without = _Protection.of(records, others, above, likely)
        peers[name] = without.peers[records.row_of]
        alternatives[name] = without.alternatives[records.row_of]
        table.append(
            {
                "variable": name,
                "protected": complete.protected / records.records,
                "without": without.protected / records.records,
                "gain": (without.protected - complete.protected) / records.records,
                "gained_records": without.protected - complete.protected,
                "mean_ppp": _mean(complete.peers, records),
                "mean_ppp_without": _mean(without.peers, records),
                "mean_poac": _mean(complete.alternatives, records),
                "mean_poac_without": _mean(without.alternatives, records),
            }
        )
    return Gains(
        sensitive=sensitive,
        p=p,
        table=data.like(pl.DataFrame(table)),
        peers=data.like(pl.DataFrame(peers)),
        alternatives=data.like(pl.DataFrame(alternatives)),
    )


@dataclass(frozen=True, eq=False)
class _Protection:
    """Protective peers and alternatives of each distinct record, and how many are protected."""

    peers: Any
    alternatives: Any
    protected: int

    @classmethod
    def of(
        cls, records: DistinctRecords, known: Sequence[int], p: Fraction, q: Fraction
    ) -> _Protection:
        from sfumato.kernels.lattice.peers import count_at_maximum

        last = len(records.known)
        # With everything known, the equivalence class of a record is its set of peers.
        peers, same, others = count_at_maximum(records.codes, records.counts, last, known, q)
        protective = peers - same
        values = len(np.unique(records.codes[:, last]))
        return cls(
            protective / peers,
            others / (values - 1 if values > 1 else math.nan),
            int(records.counts[is_above(protective, peers, p)].sum()),
        )


def _mean(values: Any, records: DistinctRecords) -> float:
    # An exact sum does not depend on the order of the records.
    return math.fsum((values * records.counts).tolist()) / records.records


def rank_gains(
    codes: AnyIntegers,
    counts: AnyIntegers,
    names: Sequence[str],
    sensitive: str,
    known: Sequence[str],
    p: Fraction,
) -> list[dict[str, Any]]:
    """What would be gained for one variable if one of those that are known were unknown.

    Question: which variable should be made coarser first?
    Assumes: the outsider knows exact cells: all of those known, or all but one.

    Parameters
    ----------
    codes : distinct records x variables, values numbered from 0.
    counts : how many records each row stands for.
    names : the variables, in the order of the columns.
    sensitive : the variable to protect.
    known : the variables that an outsider knows.
    p : the share of protective peers that is still a breach.

    Returns rows for JSON, what gains most first: `variable`, and the shares of records that
    are `protected` when everything is known, `without` this variable, and the `gain`.

    Examples
    --------
    >>> codes = np.array([[0, 0, 0], [1, 0, 1], [0, 1, 0]])
    >>> names = ["age", "sex", "ill"]
    >>> rank_gains(codes, np.ones(3, int), names, "ill", names[:2], Fraction(0))
    [{'variable': 'age', 'protected': 0.0, 'without': 0.667, 'gain': 0.667}, \
{'variable': 'sex', 'protected': 0.0, 'without': 0.0, 'gain': 0.0}]
    """
    from sfumato.kernels.lattice.peers import count_at_maximum

    secret, people = list(names).index(sensitive), int(counts.sum())
    columns = [list(names).index(name) for name in known if name != sensitive]

    def count_safe(columns: Sequence[int]) -> int:
        peers, same, _ = count_at_maximum(codes, counts, secret, columns, Fraction(0))
        return int(counts[is_above(peers - same, peers, p)].sum())

    complete = count_safe(columns)
    rows = []
    for column in columns:
        without = count_safe([other for other in columns if other != column])
        rows.append((without - complete, column, without))
    return [
        {
            "variable": names[column],
            "protected": round(complete / people, _DIGITS),
            "without": round(without / people, _DIGITS),
            "gain": round(gain / people, _DIGITS),
        }
        for gain, column, without in sorted(rows, key=lambda row: (-row[0], row[1]))
    ]
