"""Direct identifiers of people who do not exist: unique where a register's would be.

Uniqueness never rests on luck: a number is a permutation of the record's counter.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.datasets.names import (
    FEMALE_NAMES,
    MAIL_DOMAINS,
    MALE_NAMES,
    STREET_KINDS,
    STREETS,
    SURNAMES,
)
from sfumato.kernels.arrays import Floats, Integers
from sfumato.randomness import encrypt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.randomness import Draws, Key


ROUNDS = 6
MODULUS = 11
RESERVED = (1_000, 900)
"""Room for 900 000 numbers that begin with 999: kept for tests, never issued to a patient."""
UNISSUED = (9_900, 9_000)
"""Room for 89 100 000 more that begin with 900 to 998, which no health service issues today."""
LARGEST = 90_000_000
"""So many records can have a health number of their own."""


def health_number(counter: Integers, key: Key) -> pl.Series:
    """A ten-digit number with a valid check digit, different for every counter below `LARGEST`.

    After any eight digits at least nine of the ten possible ninth digits have a check digit, so
    (eight digits, which of the nine) counts valid numbers without a gap and without a repeat.
    """
    first = np.prod(RESERVED)
    reserved = permuted(np.minimum(counter, first - 1), RESERVED, key)
    unissued = permuted(np.maximum(counter - first, 0), UNISSUED, key)
    early = counter < first
    serial = np.where(early, reserved, unissued)
    eight = serial // 9 + np.where(early, 99_900_000, 90_000_000)
    ninth = _ninth_digit(eight, serial % 9)
    nine = eight * 10 + ninth
    return pl.Series(nine * 10 + _check_digit(nine)).cast(pl.String)


def permuted(counter: Integers, room: tuple[int, int], key: Key) -> Integers:
    """A keyed permutation of 0 … room[0]·room[1] − 1 (an unbalanced Feistel network)."""
    left, right = np.divmod(counter, room[1])
    for turn in range(ROUNDS):
        # Adding a function of the one half to the other can be undone: so no two counters meet.
        if turn % 2 == 0:
            left = (left + _round(turn, room[1], key)[right]) % room[0]
        else:
            right = (right + _round(turn, room[0], key)[left]) % room[1]
    return np.asarray(left * room[1] + right, np.int64)


def _round(turn: int, size: int, key: Key) -> Integers:
    blocks = np.zeros((size, 2), np.uint64)
    blocks[:, 0] = np.arange(size)
    words = encrypt(blocks, key.subkey("health number", turn, size))[:, 0]
    return (words >> np.uint64(32)).astype(np.int64)


def _weighted_sum(nine: Integers) -> Integers:
    return sum(
        (nine // 10 ** (weight - 2) % 10 * weight for weight in range(2, 11)), np.zeros_like(nine)
    )


def _check_digit(nine: Integers) -> Integers:
    """Modulus 11; 10 stands for "this number is not used"."""
    return (MODULUS - _weighted_sum(nine) % MODULUS) % MODULUS


def _ninth_digit(eight: Integers, which: Integers) -> Integers:
    """The ninth digit number `which` (0 to 8) of those that have a check digit."""
    # The ninth digit weighs 2. The sum must not leave 1, so the digit is not (1 − sum)/2; and
    # one half is 6 modulo 11. A forbidden digit of 10 forbids nothing.
    forbidden = (1 - _weighted_sum(eight * 10)) * 6 % MODULUS
    return which + (which >= forbidden)


def record_number(counter: Integers) -> pl.Series:
    """A running number, as a study gives one at recruitment."""
    return "C" + pl.Series(counter + 1).cast(pl.String).str.zfill(7)


def names(draws: Draws, counter: Integers, female: npt.NDArray[np.bool_]) -> dict[str, pl.Series]:
    """A name, and an e-mail address that goes with it and occurs once."""
    rank = draws.uniform("first name")
    women = _skewed(rank, len(FEMALE_NAMES))
    men = _skewed(rank, len(MALE_NAMES)) + len(FEMALE_NAMES)
    first = np.where(female, women, men)
    last = _skewed(draws.uniform("surname"), len(SURNAMES))
    forenames = FEMALE_NAMES + MALE_NAMES
    domain = _skewed(draws.uniform("mail domain"), len(MAIL_DOMAINS))
    return {
        "name": _picked(forenames, first) + " " + _picked(SURNAMES, last),
        "email": _picked([f"{_folded(name)}." for name in forenames], first)
        + _picked([_folded(name) for name in SURNAMES], last)
        + pl.Series(counter + 1).cast(pl.String)
        + _picked([f"@{name}" for name in MAIL_DOMAINS], domain),
    }


def address(draws: Draws) -> pl.Series:
    """A house number and a made-up street."""
    house = 1 + _skewed(draws.uniform("house"), 240)
    street = _skewed(draws.uniform("street"), len(STREETS))
    kind = _skewed(draws.uniform("street kind"), len(STREET_KINDS))
    words = _picked(STREETS, street) + " " + _picked(STREET_KINDS, kind)
    return pl.Series(house).cast(pl.String) + " " + words


def postcode(draws: Draws, prefix: pl.Series) -> pl.Series:
    """Five digits that begin with the region's two, so that some begin with a zero."""
    local = _skewed(draws.uniform("postcode"), 1000)
    return prefix + pl.Series(local).cast(pl.String).str.zfill(3)


def _skewed(uniform: Floats, size: int) -> Integers:
    """Positions in a list whose first entries are the most common."""
    return (uniform**1.5 * size).astype(np.int64)


def _picked(words: Sequence[str], positions: Integers) -> pl.Series:
    return pl.Series(words, dtype=pl.String).gather(positions)


def _folded(name: str) -> str:
    """A name as it is spelt in an e-mail address: no accent, no apostrophe."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return plain.replace("'", "").lower()
