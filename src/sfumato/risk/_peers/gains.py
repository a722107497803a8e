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
from sfumato.risk._peers.cuts import is_above
from sfumato.risk._peers.rows import Rows, distinct_rows, share_of


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
    above, likely = share_of(p, "p"), share_of(q, "q")
    rows = distinct_rows(data, sensitive, known)
    everything = _Seen.of(rows, range(len(rows.known)), above, likely)
    table, peers, alternatives = [], {}, {}
    for at, name in enumerate(rows.known):
        seen = _Seen.of(rows, [c for c in range(len(rows.known)) if c != at], above, likely)
        peers[name], alternatives[name] = seen.peers[rows.of], seen.alternatives[rows.of]
        table.append(
            {
                "variable": name,
                "protected": everything.protected / rows.records,
                "without": seen.protected / rows.records,
                "gain": (seen.protected - everything.protected) / rows.records,
                "gained_records": seen.protected - everything.protected,
                "mean_ppp": _mean(everything.peers, rows),
                "mean_ppp_without": _mean(seen.peers, rows),
                "mean_poac": _mean(everything.alternatives, rows),
                "mean_poac_without": _mean(seen.alternatives, rows),
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
class _Seen:
    """Protective peers and alternatives of each distinct record, and how many are protected."""

    peers: Any
    alternatives: Any
    protected: int

    @classmethod
    def of(cls, rows: Rows, known: Sequence[int], p: Fraction, q: Fraction) -> _Seen:
        from sfumato.kernels.lattice.groups import at_maximum

        last = len(rows.known)
        peers, same, others = at_maximum(rows.codes, rows.counts, last, known, q)
        protective = peers - same
        values = len(np.unique(rows.codes[:, last]))
        return cls(
            protective / peers,
            others / (values - 1 if values > 1 else math.nan),
            int(rows.counts[is_above(protective, peers, p)].sum()),
        )


def _mean(values: Any, rows: Rows) -> float:
    # An exact sum does not depend on the order of the records.
    return math.fsum((values * rows.counts).tolist()) / rows.records
