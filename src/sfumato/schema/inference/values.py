"""What the values of a variable look like whose name is only a code: ages, years, areas, money.

Used where the name says nothing. Scores and percentages can look like ages: a reason says what was
seen, and a person decides.
"""

from __future__ import annotations

import re

import numpy as np

from sfumato.schema.inference.names import Sign
from sfumato.schema.inference.profile import ValueProfile

_CODE_NAME = re.compile(
    r"(?:[a-z]{1,3}|var|col|column|item|field|frage|feld|spalte)_?\d{1,6}(?:_?[a-z0-9]{1,3})?"
    r"|[bcdfghjklmnpqrstvwxz]{2,6}",
    re.ASCII | re.IGNORECASE,
)
_AGES = 30  # different ages that people of a sample have at least
_MIDDLE_AGES = (18, 80)  # where the middle half of them lies
_OLD = 90
_OLDEST = 115
_FEW_OLD = 0.03  # share of people above 90
_YEARS = (1890, 2035)
_FEWEST_YEARS = 5
_BIRTHS = 30  # years that the births of a sample span
_AMOUNT = 1000
_LARGE = 10_000
_ROUND = 0.6  # share of amounts that are round
_FEWEST = 20
_AREAS = 10  # different codes
_ZEROS = r"^0|-"
_AREA = r"^(?:\d{4,8}|\d{2}-\d{3,5})$"
_NUTS = (
    r"^(?:AT|BE|BG|CH|CY|CZ|DE|DK|EE|EL|ES|FI|FR|HR|HU|IE|IT|LT|LU|LV|MT|NL|NO|PL|PT|RO|SE|SI|SK|UK)"
    r"[0-9A-Z]{1,3}$"
)


_LOOKS = {
    sign.what: sign
    for sign in (
        Sign(role="quasi", what="ages", phrases=(), kind="integer"),
        Sign(role="quasi", what="years", phrases=(), kind="integer"),
        Sign(role="quasi", what="years of birth", phrases=(), kind="integer"),
        Sign(role="quasi", what="codes of areas or of occupations", phrases=(), kind="nominal"),
        Sign(role="sensitive", what="amounts of money, mostly in whole hundreds", phrases=()),
    )
}


def is_code_name(name: str) -> bool:
    """Whether a name is a code that no word explains, such as `V12`, `q5_a` or `PB190`.

    Examples
    --------
    >>> is_code_name("V12"), is_code_name("HB030"), is_code_name("change")
    (True, True, False)
    """
    return _CODE_NAME.fullmatch(name) is not None


def recognise_values(profile: ValueProfile) -> Sign | None:
    """What the values alone look like, where the name is a code."""
    if not profile.has_enough_records:
        return None
    what = ""
    if profile.family == "text":
        what = _recognise_areas(profile)
    elif profile.integral:
        what = _recognise_years(profile)
        if not what and not profile.few:
            what = _recognise_ages(profile) or _recognise_money(profile)
    return _LOOKS.get(what)


def is_balanced_pair(profile: ValueProfile) -> bool:
    """Whether the values are the codes 1 and 2, each of about half the records, as sex often is."""
    pair = profile.family == "number" and profile.distinct == 2 and profile.within(1, 2)  # noqa: PLR2004
    return (
        pair
        and profile.has_enough_records
        and bool(
            profile.counts.min() >= 0.4 * profile.records  # type: ignore[operator]
        )
    )


def _recognise_years(profile: ValueProfile) -> str:
    if not profile.within(*_YEARS) or profile.distinct < _FEWEST_YEARS:
        return ""
    return "years of birth" if profile.ends[1] - profile.ends[0] >= _BIRTHS else "years"


def _recognise_ages(profile: ValueProfile) -> str:
    if profile.distinct < _AGES or not profile.within(0, _OLDEST):
        return ""
    ages, counts = profile.values.to_numpy(), profile.counts.to_numpy()
    share = np.cumsum(counts) / counts.sum()
    low, middle, high = (ages[np.searchsorted(share, part)] for part in (0.05, 0.5, 0.95))
    dense = np.count_nonzero((ages >= low) & (ages <= high)) >= 0.9 * (high - low + 1)
    old = counts[(ages > _OLD)].sum() <= _FEW_OLD * counts.sum()
    adult = _MIDDLE_AGES[0] <= middle <= _MIDDLE_AGES[1] and ages[-1] >= _MIDDLE_AGES[1] - 20
    # A heap at 0 speaks for a count.
    heap = ages[0] == 0 and counts[0] > 3 * np.median(counts)
    return "ages" if dense and old and adult and not heap else ""


def _recognise_money(profile: ValueProfile) -> str:
    if max(-profile.ends[0], profile.ends[1]) < _LARGE:
        return ""
    amounts, counts = np.abs(profile.values.to_numpy().astype(float)), profile.counts.to_numpy()
    large = amounts >= _AMOUNT
    records = counts[large].sum()
    if records < _FEWEST:
        return ""
    in_hundreds = counts[large & (amounts % 100 == 0)].sum() >= _ROUND * records
    return "amounts of money, mostly in whole hundreds" if in_hundreds else ""


def _recognise_areas(profile: ValueProfile) -> str:
    values = profile.values
    if profile.distinct < _AREAS or values.str.len_chars().n_unique() > 2:  # noqa: PLR2004
        return ""
    nuts = values.str.contains(_NUTS).all() and values.str.contains(r"\d").any()
    digits = values.str.contains(_AREA).all() and values.str.contains(_ZEROS).any()
    return "codes of areas or of occupations" if nuts or digits else ""
