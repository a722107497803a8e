"""Protective peers of every record over every combination of variables an outsider may know.

One lattice of group counts serves all sensitive variables: the peers who share the sensitive value
are the group of the combination with that variable added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.kernels.lattice.groups import at_maximum, keys, value_peers
from sfumato.kernels.lattice.limits import Effort, Limits, check_budget, limits
from sfumato.kernels.lattice.rounds import Asked, Say, minima

__all__ = ["Effort", "Peers", "lattice", "value_peers"]


_COLUMNS = 56
"""A combination and its size share one 64-bit word."""
_RECORDS = 1 << 31
"""Below this, products of two counts are exact in 64 bits."""


@dataclass(frozen=True, eq=False)
class Peers:
    """What protects each row, for each sensitive variable: arrays of variables x rows.

    A combination is a bit mask: bit c is set where column c is known. Where several combinations
    do equally well, the one of fewest variables stands, then the lowest mask.

    sensitive, known : the columns, as asked for.
    complete : whether every non-empty combination was looked at.
    combinations : how many were, for each sensitive variable; `left_out` is how many were not.
    values : how many values each sensitive variable has.
    peers, same : records that share everything known with the row, and those of them that share
        the sensitive value too, at maximum information (all of `known`, whatever the limits).
    alternatives : other values that more than a share q of the peers have, at maximum information.
    least_protective, least_peers, least_mask : protective peers and all peers where their share
        is least over all combinations looked at, and that combination.
    fewest_protective : least number of protective peers over all combinations looked at.
    fewest_alternatives : least number of alternatives over all combinations looked at.
    breach_mask, breach_size : the smallest combination where the share of protective peers is at
        most p, and how many variables it has; 0 where there is none.
    """

    sensitive: tuple[int, ...]
    known: tuple[int, ...]
    complete: bool
    combinations: AnyIntegers
    left_out: AnyIntegers
    values: AnyIntegers
    peers: AnyIntegers
    same: AnyIntegers
    alternatives: AnyIntegers
    least_protective: AnyIntegers
    least_peers: AnyIntegers
    least_mask: AnyIntegers
    fewest_protective: AnyIntegers
    fewest_alternatives: AnyIntegers
    breach_mask: AnyIntegers
    breach_size: AnyIntegers

    @property
    def ppp(self) -> Floats:
        """Share of protective peers at maximum information."""
        return (self.peers - self.same) / self.peers

    @property
    def least_ppp(self) -> Floats:
        """Least share of protective peers."""
        return self.least_protective / self.least_peers

    @property
    def poac(self) -> Floats:
        """Share of alternatives at maximum information; NaN where a variable has one value only."""
        return _of_values(self.alternatives, self.values)

    @property
    def least_poac(self) -> Floats:
        """Least share of alternatives; NaN where a variable has one value only."""
        return _of_values(self.fewest_alternatives, self.values)


def _of_values(alternatives: AnyIntegers, values: AnyIntegers) -> Floats:
    others = np.where(values > 1, values - 1.0, np.nan)
    return alternatives / others[:, None]


def lattice(
    codes: AnyIntegers,
    counts: AnyIntegers,
    *,
    sensitive: Sequence[int],
    known: Sequence[int],
    most: int | None = None,
    effort: Effort | None = None,
    budget: int | None = None,
    q: float | Fraction = 0.0,
    p: float | Fraction = 0.0,
    say: Say | None = None,
) -> Peers:
    """Peers of every row, over every non-empty combination of the columns in `known`.

    A column is never known where it is the sensitive one. Rows need not be distinct in the columns
    used, but they may as well be.

    Parameters
    ----------
    codes : a row per distinct record, a column per variable, values numbered from 0.
    counts : how many records each row stands for.
    sensitive : columns to be protected, each in turn.
    known : columns an outsider may know.
    most : only combinations of at most so many columns.
    effort : only combinations that do not cost more.
    budget : the most rows times combinations that may be asked for; beyond it an error says which
        `most` would fit. Memory needs no such bound: it does not grow with the combinations.
    q, p : thresholds of alternatives and of breaches, read as the simplest fraction that rounds
        to them (0.29 is 29/100).
    say : told what is being done, how much is done, and how much there is.

    Examples
    --------
    >>> codes = np.array([[0, 0], [1, 0], [1, 1]])
    >>> found = lattice(codes, np.ones(3, int), sensitive=[0], known=[1])
    >>> found.least_ppp
    array([[0.5, 0.5, 0. ]])
    """
    codes, counts = _checked(codes, counts, sensitive, known)
    within = limits(codes.shape[1], most, effort)
    looked = _looked(within, sensitive, known)
    used = sorted({*sensitive, *known})
    back = None
    if len(used) < codes.shape[1]:
        _, first, back = np.unique(keys(codes, used), return_index=True, return_inverse=True)
        codes, back = codes[first], back.ravel()
        counts = np.bincount(back, counts, len(first)).astype(np.int64)
    if budget is not None:
        check_budget(len(codes), within.sizes(known), budget)
    asked = Asked(tuple(sensitive), tuple(known), within, _share(p, "p"), _share(q, "q"))
    found = _found(codes, counts, asked, say)
    if back is not None:
        found = {name: one[:, back] for name, one in found.items()}
    everything = np.array([2 ** len({*known} - {one}) - 1 for one in sensitive], object)
    return Peers(
        sensitive=asked.sensitive,
        known=asked.known,
        complete=bool((looked == everything).all()),
        combinations=looked,
        left_out=everything - looked,
        values=np.array([len(np.unique(codes[:, one])) for one in sensitive]),
        **found,
    )


def _found(
    codes: AnyIntegers, counts: AnyIntegers, asked: Asked, say: Say | None
) -> dict[str, AnyIntegers]:
    """Results of distinct rows, by name."""
    top = [at_maximum(codes, counts, one, asked.known, asked.q) for one in asked.sensitive]
    peers, same, alternatives = (np.stack(one) for one in zip(*top, strict=True))
    del top
    least = minima(codes, counts, asked, say)
    # What was not followed is at its least where most is known: more peers or values cannot vanish.
    protective = peers - same if least.fewest is None else least.fewest
    return {
        "peers": peers,
        "same": same,
        "alternatives": alternatives,
        "least_protective": least.protective,
        "least_peers": least.peers,
        "least_mask": least.mask,
        "fewest_protective": protective,
        "fewest_alternatives": alternatives if least.alternatives is None else least.alternatives,
        "breach_mask": least.breach,
        "breach_size": np.bitwise_count(least.breach),
    }


def _checked(
    codes: AnyIntegers, counts: AnyIntegers, sensitive: Sequence[int], known: Sequence[int]
) -> tuple[AnyIntegers, AnyIntegers]:
    """Codes and counts as whole numbers, if the question makes sense."""
    codes, counts = np.asarray(codes), np.asarray(counts)
    if codes.ndim != 2 or len(codes) != len(counts) or not len(codes):  # noqa: PLR2004
        raise ValueError("There is at least one row of codes, and a count for each.")
    if codes.shape[1] > _COLUMNS:
        raise ValueError(f"At most {_COLUMNS} columns; there are {codes.shape[1]}.")
    if not sensitive or not {*sensitive, *known} <= {*range(codes.shape[1])}:
        raise ValueError("Sensitive and known columns are columns of the codes, at least one each.")
    if len({*sensitive}) < len(sensitive) or len({*known}) < len(known):
        raise ValueError("A column is named once.")
    if codes.min() < 0 or counts.min() < 1:
        raise ValueError("Codes are 0 or more, counts 1 or more.")
    if counts.sum() >= _RECORDS:
        raise ValueError(f"At most {_RECORDS - 1:,} records.")
    if codes.dtype.kind not in "iu" or counts.dtype.kind not in "iu":
        raise ValueError("Codes and counts are whole numbers.")
    return codes, counts.astype(np.int64)


def _looked(within: Limits, sensitive: Sequence[int], known: Sequence[int]) -> AnyIntegers:
    """How many combinations are looked at for each sensitive column; never none."""
    sizes = [sum(within.sizes([c for c in known if c != one])) for one in sensitive]
    for column, number in zip(sensitive, sizes, strict=True):
        if not number:
            raise ValueError(f"No combination is left from which to learn about column {column}.")
    return np.array(sizes, object)


def _share(number: float | Fraction, name: str) -> Fraction:
    if not 0 <= number < 1:
        raise ValueError(f"{name} is 0 or more and below 1.")
    return Fraction(number).limit_denominator(_RECORDS - 1)
