"""Numbers that stand for "no value": `-9`, `999` far above all others, and codes labelled so.

A cell that holds such a code is left as it is by every step. So a number is suggested only where
many records share it and it stands far from all others, as no measurement does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.io.missing_words import is_word_for_missing
from sfumato.schema.inference.profile import FEW, ValueProfile

_HEAP = 5
"""Records that must share a code."""
_TIMES = 3
"""How many times as often as an ordinary value it stands there."""
_FAR = 5
"""How many times as large as the largest ordinary value it is."""
_ALONE = 10
"""How far below all others a negative code lies where nothing else is negative."""
_LOWEST = -9
_YEARS = (1850, 2100)
_HIGH = frozenset(
    int(code)
    for digits in range(1, 10)
    for code in (*(f"{'9' * (digits - 1)}{last}" for last in "6789"), "8" * digits, "7" * digits)
) - {6}
_LOW = frozenset(range(_LOWEST, 0)) | {-code for code in _HIGH}
_LEADING = re.compile(r"^[-\s\d.:()\[\]]+")


def find_missing_codes(
    profile: ValueProfile, labels: Mapping[str, str] | None
) -> dict[int | float, int]:
    """Codes for "no value" among numbers, each with how many records have it.

    Parameters
    ----------
    profile : the values.
    labels : what codes stand for, where the file says it.
    """
    if profile.family != "number":
        return {}
    codes: set[Any] = set()
    if labels:
        codes |= _find_labelled_codes(profile, labels)
    elif profile.ends[0] in _LOW or profile.ends[1] in _HIGH:
        codes |= _find_far_codes(profile)
    counts = zip(profile.values.to_list(), profile.counts.to_list(), strict=True) if codes else ()
    return {_simplify(code): count for code, count in counts if code in codes}


def says_missing(label: str) -> bool:
    """Whether a label says that there is no value, with or without its code in front.

    Examples
    --------
    >>> says_missing("9. Refused"), says_missing("Married")
    (True, False)
    """
    return is_word_for_missing(_LEADING.sub("", label) or label)


def _find_labelled_codes(profile: ValueProfile, labels: Mapping[str, str]) -> set[Any]:
    missing = {code for code, label in labels.items() if says_missing(label)}
    if not missing:
        return set()
    return {value for value in profile.values.to_list() if str(_simplify(value)) in missing}


def _find_far_codes(profile: ValueProfile) -> set[Any]:
    values, counts = profile.values.to_numpy().astype(float), profile.counts.to_numpy()
    if not profile.integral and len(values) <= FEW:
        return set()
    low = _take_low(values, counts)
    high = _take_high(values[low:], counts[low:])
    return set(values[:low]) | set(values[len(values) - high :] if high else ())


def _take_low(values: np.ndarray, counts: np.ndarray) -> int:
    """How many of the smallest values are codes: negative ones where nothing else is negative."""
    low = int(np.searchsorted(values, 0))
    others, often = values[low:], counts[low:]
    if not low or len(others) <= 1 or not all(value in _LOW for value in values[:low]):
        return 0
    if counts[:low].max() < _HEAP:
        return 0
    gaps = low < -values[0]  # -9 and -1 leave out what lies between; -3 to -1 may be a scale
    if len(others) <= FEW:
        return low if gaps or others[0] >= 1 else 0
    heaped = counts[:low].max() > _TIMES * np.median(often)
    # Measurements that are nowhere near 0: ages, weights, pressures.
    alone = others[0] - values[low - 1] >= _ALONE and others[0] >= 1
    return low if heaped or alone else 0


def _take_high(values: np.ndarray, counts: np.ndarray) -> int:
    """How many of the largest values are codes: nines, eights and sevens far above all others."""
    high = 0
    while high < len(values) and values[-1 - high] in _HIGH:
        high += 1
    for codes in range(high, 0, -1):
        others, often = values[:-codes], counts[:-codes]
        if len(others) > 1 and _is_far(others, often, values[-codes:], counts[-codes:]):
            return codes
    return 0


def _is_far(others: np.ndarray, often: np.ndarray, codes: np.ndarray, counts: np.ndarray) -> bool:
    if counts.max() < _HEAP:
        return False
    digits = set(str(int(codes[-1])))
    if len(digits) > 1 or (digits != {"9"} and len(others) <= FEW):
        return False
    if len(others) <= FEW:
        return bool(codes[0] - others[-1] > others[-1] - others[0])
    years = _YEARS[0] <= others[0] and others[-1] <= _YEARS[1]
    far = codes[0] >= _FAR * others[-1] or (years and codes[0] > _YEARS[1])
    farther = codes[0] >= 2 * _FAR * others[-1] > 0
    return bool(farther or (far and counts.max() > _TIMES * np.median(often)))


def _simplify(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value
