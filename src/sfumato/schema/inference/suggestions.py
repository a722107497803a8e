"""Suggests a `Column` for every variable of a frame: a role and a kind, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw

from sfumato.io import frames
from sfumato.io.missing_words import is_word_for_missing
from sfumato.schema import CellForm, Column, Kind, Role
from sfumato.schema.inference.coordinates import (
    HIGHEST_LATITUDE,
    HIGHEST_LONGITUDE,
    Coordinates,
    find_coordinates,
)
from sfumato.schema.inference.formats import FORMATS, are_prefix_codes, find_format
from sfumato.schema.inference.missing_codes import find_missing_codes
from sfumato.schema.inference.names import SIGNS, Sign, find_label_signs, find_signs
from sfumato.schema.inference.profile import FEW, ValueProfile, describe_ranges, read_profiles
from sfumato.schema.inference.repeats import describe_person, find_person
from sfumato.schema.inference.scales import SEXES, normalise_levels, sort_levels
from sfumato.schema.inference.survey_codes import add_survey_signs
from sfumato.schema.inference.values import is_balanced_pair, is_code_name, recognise_values

CLOSED = "Its values are of a type that cannot be looked into."

_ORDER = 3  # two levels declared in an order are as good as none
_GROUPS = 20  # text with so few different values may name groups
_LABELLED = 0.8  # share of the whole numbers that have a label where they are codes
_NUMERIC = r"^[+-]?\d+(?:[.,]\d+)?$"


@dataclass(frozen=True)
class SuggestedKind:
    """A kind, and a remark on it ("" where there is none)."""

    kind: Kind | None
    remark: str = ""


_READ_AS_LISTS = ";"  # what measures and methods of lists expect unless told otherwise
_LISTS = {
    ";": 'Its cells hold lists of codes, `;` between them: suggested as cells = "lists", so that '
    "the measure k_of_items and the method km_anonymity see every code by itself.",
    "|": "Its cells look like lists of codes with `|` between them: if so, declare "
    'cells = "lists", and say delimiter = "|" to k_of_items and km_anonymity.',
}
_BY_FAMILY: dict[str, SuggestedKind] = {
    "empty": SuggestedKind(None, "It holds no values."),
    "other": SuggestedKind(None, CLOSED),
    "flag": SuggestedKind("nominal"),
    "date": SuggestedKind("date"),
}


def infer_kind(
    role: Role | None, sign: Sign | None, profile: ValueProfile, *, labels: Sequence[str] = ()
) -> SuggestedKind:
    """Read the kind off the values, given the role and the sign in the name that led there.

    `labels` are those of the values, in the order of the values, where they have any.
    """
    if profile.family in _BY_FAMILY:
        return _BY_FAMILY[profile.family]
    if profile.ordered and profile.distinct >= _ORDER:
        return SuggestedKind("ordinal", "Its levels were declared in an order.")
    if labels and role != "direct":
        ranked = (sign and sign.kind == "ordinal") or _rise(labels)
        as_what = "an order" if ranked else "groups"
        return SuggestedKind(
            "ordinal" if ranked else "nominal", f"The labels of its codes are those of {as_what}."
        )
    of_values = _infer_number_kind if profile.family == "number" else _infer_text_kind
    return of_values(role, sign, profile)


def _rise(labels: Sequence[str]) -> bool:
    """Whether labels, by their codes, come in the order of a known scale or in its reverse."""
    return sort_levels(labels) in (tuple(labels), tuple(labels[::-1]))


def _infer_number_kind(
    role: Role | None, sign: Sign | None, profile: ValueProfile
) -> SuggestedKind:
    if not profile.integral:
        unique = "Nearly every value is different, so anyone who knows it could find the person."
        return SuggestedKind(
            "continuous", unique if profile.is_measurement and role != "weight" else ""
        )
    kind = sign.kind if sign else None
    if kind in ("nominal", "integer") or (kind == "ordinal" and sign and sign.coded):
        return SuggestedKind(kind)
    if profile.few and role not in ("direct", "weight"):
        ranked = kind == "ordinal"
        as_what = "codes in an order" if ranked else "codes for groups"
        remark = f"Only {profile.distinct} different whole numbers: taken as {as_what}."
        return SuggestedKind("ordinal" if ranked else "nominal", remark)
    return SuggestedKind("integer")


def _infer_text_kind(role: Role | None, sign: Sign | None, profile: ValueProfile) -> SuggestedKind:
    if profile.holds_dates:
        return SuggestedKind("date", "Its values are dates written as text.")
    if role == "direct":
        return SuggestedKind("text")
    if profile.range_kind or profile.list_delimiter:
        return _infer_cell_kind(profile)
    if profile.order:
        return SuggestedKind("ordinal", "Its levels have an order.")
    if role == "quasi" and profile.distinct > FEW and are_prefix_codes(profile.values):
        return SuggestedKind("text", "Codes of one length: what they begin with is broader.")
    # Values that recur often, or are few, name groups; all else is free text.
    often = profile.distinct * 5 <= profile.records or role == "cluster"
    few = profile.distinct <= _GROUPS and (sign or profile.distinct * 2 <= profile.records)
    all_of_them = profile.sample is profile.values
    numeric = (
        profile.count_matches(_NUMERIC) == profile.distinct
        if all_of_them
        else bool(profile.sample.str.contains(_NUMERIC).all())
    )
    remark = "Its values are numbers written as text." if numeric else ""
    if profile.nearly_unique and profile.has_enough_records:
        remark = remark or "Few records share a value."
    return SuggestedKind("nominal" if often or few else "text", remark)


def _infer_cell_kind(profile: ValueProfile) -> SuggestedKind:
    """The kind of cells that hold more than a value: ranges, or lists of codes."""
    if profile.range_kind:
        return SuggestedKind(profile.range_kind, describe_ranges(profile.range_kind))
    return SuggestedKind("text", _LISTS[profile.list_delimiter])


NAMELESS = "Nothing says what it is; decide by hand."

_OLDEST = 130
_BABY = 2  # kilograms
_BODY = (25, 200)  # kilograms, or pounds: the middle half of body weights lies here
_BATTERY = 20  # codes of few levels from which on they may be answers to questions
_FEW_CODES = (
    "A code of few levels, as groups have that others can see; taken as known to them until you "
    "say what it stands for."
)
_ANSWERS = "One of {} codes of few levels, as answers to questions have; decide by hand."
_SENTENCES = (
    "Holds free text, in which people may be named: it cannot be released unchanged. Drop it, or "
    "use the method deidentify_text."
)
_UNKNOWN = "Nothing in its name or values says what it is; decide by hand."
_OF_NAMES: dict[str, str] = {
    "direct": "{says} {what}, {note}.",
    "quasi": "{says} {what}; others may know it about a person{note}.",
    "sensitive": "{says} {what}; nobody should learn it about a person.",
    "weight": "{says} {what}, and its values are {positive}.",
    "cluster": "{says} {what}, and records share its values ({distinct} groups).",
    "other": "{says} {what}, which says nothing about a single person.",
}
_OF_FORMATS: dict[str, str] = {
    "direct": "Its values look like {what}, which point to one person.",
    "quasi": "Its values look like {what}; others may know them about a person.",
    "sensitive": "Its values look like {what}; nobody should learn them about a person.",
}
_POINTING = tuple(known for known in FORMATS if known.role == "direct")
_OTHER = tuple(known for known in FORMATS if known.role != "direct")


@dataclass(frozen=True)
class SuggestedRole:
    """A role, the reason for it, and the sign in the name that led there."""

    role: Role | None
    reason: str
    sign: Sign | None = None


def infer_role(
    name: str,
    signs: Sequence[Sign],
    profile: ValueProfile,
    *,
    tall: bool,
    labels: Sequence[str] = (),
) -> SuggestedRole:
    """Weigh values that point to a person first, then the name, then what values tell else.

    Parameters
    ----------
    name : what the variable is called; where that is only a code, its values speak.
    signs : what the name speaks of, the likeliest first.
    profile : the values.
    tall : whether body heights stand beside this variable, so that a weight may be a body's.
    labels : the labels of its values.
    """
    matching = find_format(_POINTING, profile)
    if matching:
        return SuggestedRole(matching.role, _OF_FORMATS[matching.role].format(what=matching.what))
    if profile.holds_free_text:
        signs = [sign for sign in signs if sign.role == "direct"]
    for sign in (_resolve_weight(sign, profile, tall=tall) for sign in signs):
        if _is_borne_out(sign, profile):
            return SuggestedRole(sign.role, _explain_role(sign, profile), sign)
    suggested = _infer_role_from_values(profile, labels)
    if suggested.role is None and is_code_name(name):
        if look := recognise_values(profile):
            return SuggestedRole(look.role, _OF_FORMATS[look.role].format(what=look.what), look)
        if not (signs or labels) and suggested.reason == _UNKNOWN and _holds_few_codes(profile):
            return SuggestedRole("quasi", _FEW_CODES)
    if signs and suggested.reason == _UNKNOWN:
        reason = f"{signs[0].says} {signs[0].what}, but its values do not; decide by hand."
        return replace(suggested, reason=reason)
    return suggested


def _holds_few_codes(profile: ValueProfile) -> bool:
    """Whether the values are codes of a few groups; 0 and 1 say yes or no to something."""
    if not (profile.integral and profile.few and profile.has_enough_records):
        return False
    return profile.distinct > 1 and not profile.within(0, 1)


def _resolve_weight(sign: Sign, profile: ValueProfile, *, tall: bool) -> Sign:
    """Whether `weight` is that of a body or that of a record in a survey."""
    if sign.needs != "weight":
        return sign
    survey = SIGNS["a survey weight"]
    if profile.family != "number":
        return survey
    low, high = (profile.values.quantile(share, "nearest") or 0 for share in (0.25, 0.75))
    body = (_BODY[0] <= low and high <= _BODY[1]) or (tall and low > _BABY)
    return replace(sign, needs="") if body else survey


def _is_borne_out(sign: Sign, profile: ValueProfile) -> bool:
    """Whether the values bear out what the name speaks of."""
    family, codes = profile.family, profile.family == "text" or profile.integral
    if family == "empty":
        return sign.needs in ("", "many", "text")
    if sign.needs:
        return {
            "own": codes and profile.nearly_unique,
            "many": codes and (profile.nearly_unique or profile.distinct > FEW),
            "text": family == "text" and not profile.few,
            "groups": codes and profile.distinct * 3 <= profile.records * 2,
            "positive": family == "number" and profile.ends[0] > 0,
            "degrees": family == "text" or (family == "number" and profile.within(-180, 180)),
            "age": family == "text" or (family == "number" and profile.within(0, _OLDEST)),
            "weights": family == "number" and profile.ends[0] >= 0,
        }[sign.needs]
    if sign.role == "direct":
        named = family == "text" and not profile.is_yes_or_no and not profile.holds_dates
        return family == "other" or named or (profile.integral and not profile.few)
    return True


def _explain_role(sign: Sign, profile: ValueProfile) -> str:
    if sign.needs in ("own", "many") and profile.family != "empty":
        shared = (
            "few records share a value" if profile.nearly_unique else "it has many different values"
        )
        return f"Looks identifier-like: {sign.says.lower()} {sign.what}, and {shared}."
    if sign.role == "direct":
        note = sign.note or "which points to one person"
    else:
        note = f"; {sign.note}" if sign.note else ""
    return _OF_NAMES[sign.role].format(
        says=sign.says,
        what=sign.what,
        note=note,
        distinct=profile.distinct,
        positive="positive numbers" if sign.needs == "positive" else "numbers from 0 on",
    )


def _infer_role_from_values(profile: ValueProfile, labels: Sequence[str]) -> SuggestedRole:
    """What the values alone speak for."""
    matching = find_format(_OTHER, profile)
    if matching:
        return SuggestedRole(matching.role, _OF_FORMATS[matching.role].format(what=matching.what))
    if profile.levels in SEXES or (labels and normalise_levels(labels) in SEXES):
        return SuggestedRole(
            "quasi", "Its values are those of sex or gender; others may know it about a person."
        )
    dates = profile.family == "date" or profile.holds_dates or profile.range_kind == "date"
    if profile.distinct > 1 and dates:
        return SuggestedRole(
            "quasi", "Holds dates or times; others may know when something happened to a person."
        )
    # Ranges or lists that few records share are no identifier.
    if profile.is_measurement or profile.range_kind or profile.list_delimiter:
        return SuggestedRole(None, NAMELESS)
    identifies = profile.has_enough_records and profile.nearly_unique
    if profile.holds_free_text or (identifies and (profile.family == "text" or profile.integral)):
        return _infer_identifier(profile)
    return SuggestedRole(None, _UNKNOWN)


def _infer_identifier(profile: ValueProfile) -> SuggestedRole:
    """Text that few share, a number that counts the records, or one that merely differs."""
    if profile.family == "text":
        few = "Looks identifier-like: text of which few records share a value."
        return SuggestedRole("direct", _SENTENCES if profile.holds_free_text else few)
    low, high = int(profile.values[0]), int(profile.values[-1])
    if profile.distinct == profile.records == high - low + 1:
        return SuggestedRole(
            "direct", "Looks identifier-like: a running number that no two records share."
        )
    return SuggestedRole(
        None, "Whole numbers that few records share: perhaps a record number; decide by hand."
    )


_MIXED = "Holds values of several types; make them one type and look again."


def suggest(frame: Any, known: Mapping[str, Column] | None = None) -> dict[str, Column]:
    """Suggest a `Column` for every variable of an eager frame, with the reason for it.

    Parameters
    ----------
    frame : the records.
    known : what the file itself declares of its variables: labels, and codes for missing.

    Examples
    --------
    >>> import polars as pl
    >>> columns = suggest(pl.DataFrame({"eMail": ["a@b.org"], "Alter": [50], "x": [0.5]}))
    >>> [column.role for column in columns.values()]
    ['direct', 'quasi', None]
    """
    table = frames.wrap(frame)
    signs = add_survey_signs({name: find_signs(name) for name in table.columns})
    tall = any(sign.what == "body height" for named in signs.values() for sign in named)
    patterns = [*dict.fromkeys(known_format.regex for known_format in FORMATS), _NUMERIC]
    columns: dict[str, Column] = {}
    codes: list[str] = []
    pairs: list[str] = []
    shared: dict[str, float] = {}
    coordinates = find_coordinates(table.columns)
    for name, profile in read_profiles(table, patterns):
        if profile is None:
            several = table[name].dtype == nw.Object
            columns[name] = Column(reason=_MIXED if several else f"{NAMELESS} {CLOSED}")
            shared[name] = 0.0
            continue
        coordinates = [
            pair for pair in coordinates if name not in pair or _can_be_in(pair, name, profile)
        ]
        shared[name] = profile.repeated_share
        declared = known[name] if known and name in known else _NOTHING_KNOWN
        columns[name] = _infer_column(name, profile, signs[name], declared, tall=tall)
        if _FEW_CODES in columns[name].reason:
            codes.append(name)
            pairs += [name] if is_balanced_pair(profile) else []
    if len(pairs) == 1 and not any(_SEX in column.reason for column in columns.values()):
        columns[pairs[0]] = replace(columns[pairs[0]], role="quasi", reason=_PAIR)
        codes.remove(pairs[0])
    if len(codes) >= _BATTERY:
        for name in codes:
            reason = columns[name].reason.replace(_FEW_CODES, _ANSWERS.format(len(codes)))
            columns[name] = replace(columns[name], role=None, reason=reason)
    for pair in coordinates:
        reason = _PLACE.format(*pair)
        columns |= {name: replace(columns[name], role="quasi", reason=reason) for name in pair}
    if (person := find_person(columns, signs, shared, table)) is not None:
        values = frames.get_column(frame, person).drop_nulls()
        reason = describe_person(signs[person][0], len(values), values.n_unique())
        columns[person] = replace(columns[person], role="person", reason=reason)
    return columns


_NOTHING_KNOWN = Column()
_PLACE = (
    "'{}' and '{}' are latitude and longitude of one place, and may point to a home: treat both in "
    "one step, such as displace_coordinates or grid_coordinates."
)


def _can_be_in(pair: Coordinates, name: str, profile: ValueProfile) -> bool:
    """Whether a variable can be the latitude or the longitude of a place by its values."""
    most = HIGHEST_LATITUDE if name == pair.latitude else HIGHEST_LONGITUDE
    return profile.family == "number" and profile.within(-most, most)


_SEX = "sex or gender"
_PAIR = (
    "It has the codes 1 and 2, each of about half the records, as sex or gender often has; others "
    "may know it about a person."
)


def _infer_column(
    name: str, profile: ValueProfile, signs: Sequence[Sign], declared: Column, *, tall: bool
) -> Column:
    if declared.missing:
        profile = profile.without(declared.missing)
    codes = find_missing_codes(profile, declared.labels)
    if codes:
        profile = profile.without(codes)
    if declared.label:
        signs = [*signs, *find_label_signs(declared.label)]
    described = _describe_codes(codes, declared.labels)
    levels = _list_labels(profile, declared.labels)
    suggested = infer_role(name, signs, profile, tall=tall, labels=levels)
    kind = infer_kind(suggested.role, suggested.sign, profile, labels=levels)
    if suggested.role == "weight" and profile.ends[0] == 0:
        # Such as those in homes, who have no weight as a household.
        codes = {**codes, 0: int(profile.counts[0])}
        described = f"{codes[0]:,} records have the weight 0, which is declared as missing."
    cells: CellForm | None = "generalised" if profile.range_kind else None
    if profile.list_delimiter == _READ_AS_LISTS and suggested.role != "direct":
        cells = "lists"
    order = _find_order(profile) if kind.kind == "ordinal" else None
    remarks = [suggested.reason, kind.remark, described]
    remarks += profile.describe_text() if cells is None else ()
    return Column(
        role=suggested.role,
        kind=kind.kind,
        domain=order.levels if order else None,
        missing=(*declared.missing, *codes, *(order.unknown if order else ())),
        cells=cells,
        # Nobody is told apart by a text, and different people may have the same.
        identity=False if profile.holds_free_text and suggested.role == "direct" else None,
        reason=" ".join(remark for remark in remarks if remark),
    )


def _list_labels(profile: ValueProfile, labels: Mapping[str, str] | None) -> tuple[str, ...]:
    """The labels of whole numbers, in the numbers' order; none where most have no label."""
    if not labels or not profile.integral:
        return ()
    texts = [labels.get(str(int(value))) for value in profile.values.to_list()]
    named = [text for text in texts if text and not text.strip().isdigit()]
    return tuple(named) if len(named) >= max(2, _LABELLED * len(texts)) else ()


@dataclass(frozen=True)
class _Order:
    """Levels in their order, and those that say "not known", which have no place in it."""

    levels: tuple[str, ...]
    unknown: tuple[str, ...]


def _find_order(profile: ValueProfile) -> _Order | None:
    if profile.order is None or profile.ordered:
        return None
    values = profile.values.to_list()
    levels = sort_levels(values, profile.order)
    unknown = tuple(value for value in values if value not in levels)
    return _Order(levels, unknown) if levels and all(map(is_word_for_missing, unknown)) else None


def _describe_codes(codes: Mapping[Any, int], labels: Mapping[str, str] | None) -> str:
    if not codes:
        return ""
    several = len(codes) > 1
    what = f"{len(codes)} codes for missing, which" if several else "a code for missing, which"
    why = ("is labelled so", "are labelled so") if labels else _FAR
    return f"{sum(codes.values()):,} records have {what} {why[several]}: check `missing`."


_FAR = ("stands far from all others", "stand far from all others")
