"""The role that a variable's name and values speak for, and the reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.schema import Role
from sfumato.schema.inference.formats import FORMATS, written_as
from sfumato.schema.inference.levels import SEXES
from sfumato.schema.inference.profile import FEW, Profile
from sfumato.schema.inference.signs import SIGNS, Sign

NAMELESS = "Nothing says what it is; decide by hand."

_BABY = 2  # kilograms
_BODY = (25, 200)  # kilograms, or pounds: the middle half of body weights lies here
_UNKNOWN = "Nothing in its name or values says what it is; decide by hand."
_OF_NAMES: dict[str, str] = {
    "direct": "Its name speaks of {what}, {note}.",
    "quasi": "Its name speaks of {what}; others may know it about a person{note}.",
    "sensitive": "Its name speaks of {what}; nobody should learn it about a person.",
    "weight": "Its name speaks of {what}, and its values are positive numbers.",
    "cluster": "Its name speaks of {what}, and records share its values ({distinct} groups).",
}
_OF_FORMATS: dict[str, str] = {
    "direct": "Its values look like {what}, which point to one person.",
    "quasi": "Its values look like {what}; others may know them about a person.",
    "sensitive": "Its values look like {what}; nobody should learn them about a person.",
}
_POINTING = tuple(one for one in FORMATS if one.role == "direct")
_OTHER = tuple(one for one in FORMATS if one.role != "direct")


@dataclass(frozen=True)
class SuggestedRole:
    """A role, the reason for it, and the sign in the name that led there."""

    role: Role | None
    reason: str
    sign: Sign | None = None


def suggest_role(signs: Sequence[Sign], profile: Profile, *, tall: bool) -> SuggestedRole:
    """Weigh values that point to a person first, then the name, then what values tell else.

    Parameters
    ----------
    signs : what the name speaks of, the likeliest first.
    profile : the values.
    tall : whether body heights stand beside this variable, so that a weight may be a body's.
    """
    found = written_as(_POINTING, profile.sample, distinct=profile.distinct)
    if found:
        return SuggestedRole(found.role, _OF_FORMATS[found.role].format(what=found.what))
    for sign in (_weighed(one, profile, tall=tall) for one in signs):
        if _holds(sign, profile):
            return SuggestedRole(sign.role, _why(sign, profile), sign)
    suggested = _role_of_values(profile)
    if signs and suggested.reason == _UNKNOWN:
        reason = f"Its name speaks of {signs[0].what}, but its values do not; decide by hand."
        return replace(suggested, reason=reason)
    return suggested


def _weighed(sign: Sign, profile: Profile, *, tall: bool) -> Sign:
    """Whether `weight` is that of a body or that of a record in a survey."""
    if sign.needs != "weight":
        return sign
    survey = SIGNS["a survey weight"]
    if profile.family != "number":
        return survey
    low, high = (profile.values.quantile(share, "nearest") or 0 for share in (0.25, 0.75))
    body = (_BODY[0] <= low and high <= _BODY[1]) or (tall and low > _BABY)
    return replace(sign, needs="") if body else survey


def _holds(sign: Sign, profile: Profile) -> bool:
    """Whether the values bear out what the name speaks of."""
    family, codes = profile.family, profile.family == "text" or profile.whole
    if family == "empty":
        return sign.needs in ("", "many", "text")
    if sign.needs:
        return {
            "own": codes and profile.own,
            "many": codes and (profile.own or profile.distinct > FEW),
            "text": family == "text" and not profile.few,
            "groups": codes and profile.distinct * 3 <= profile.records * 2,
            "positive": family == "number" and profile.values[0] > 0,
            "degrees": family == "text" or (family == "number" and profile.within(-180, 180)),
        }[sign.needs]
    if sign.role == "direct":
        said = family == "text" and not profile.flagged and not profile.dated
        return family == "other" or said or (profile.whole and not profile.few)
    return True


def _why(sign: Sign, profile: Profile) -> str:
    if sign.needs in ("own", "many") and profile.family != "empty":
        shared = "few records share a value" if profile.own else "it has many different values"
        return f"Looks identifier-like: its name speaks of {sign.what}, and {shared}."
    if sign.role == "direct":
        note = sign.note or "which points to one person"
    else:
        note = f"; {sign.note}" if sign.note else ""
    return _OF_NAMES[sign.role].format(what=sign.what, note=note, distinct=profile.distinct)


def _role_of_values(profile: Profile) -> SuggestedRole:
    """What the values alone speak for."""
    found = written_as(_OTHER, profile.sample, distinct=profile.distinct)
    if found:
        return SuggestedRole(found.role, _OF_FORMATS[found.role].format(what=found.what))
    if profile.levels in SEXES:
        return SuggestedRole(
            "quasi", "Its values are those of sex or gender; others may know it about a person."
        )
    dates = profile.family == "date" or profile.dated or profile.generalised == "date"
    if profile.distinct > 1 and dates:
        return SuggestedRole(
            "quasi", "Holds dates or times; others may know when something happened to a person."
        )
    # Ranges that few records share are a generalised number, not an identifier.
    if profile.measured or profile.generalised:
        return SuggestedRole(None, NAMELESS)
    if profile.telling and profile.own and (profile.family == "text" or profile.whole):
        return _identifying(profile)
    return SuggestedRole(None, _UNKNOWN)


def _identifying(profile: Profile) -> SuggestedRole:
    """Text that few share, a number that counts the records, or one that merely differs."""
    if profile.family == "text":
        return SuggestedRole(
            "direct", "Looks identifier-like: text of which few records share a value."
        )
    low, high = int(profile.values[0]), int(profile.values[-1])
    if profile.distinct == profile.records == high - low + 1:
        return SuggestedRole(
            "direct", "Looks identifier-like: a running number that no two records share."
        )
    return SuggestedRole(
        None, "Whole numbers that few records share: perhaps a record number; decide by hand."
    )
