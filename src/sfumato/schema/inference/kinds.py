"""The kind that a variable's values speak for, with a remark where it is not plain to see."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.schema import Kind, Role
from sfumato.schema.inference.cells import ranges_said
from sfumato.schema.inference.orders import in_order
from sfumato.schema.inference.profile import Profile
from sfumato.schema.inference.signs import Sign

CLOSED = "Its values are of a type that cannot be looked into."

_ORDER = 3  # two levels declared in an order are as good as none
_GROUPS = 20  # text with so few different values may name groups
_NUMERIC = r"^[+-]?\d+(?:[.,]\d+)?$"


@dataclass(frozen=True)
class SuggestedKind:
    """A kind, and a remark on it ("" where there is none)."""

    kind: Kind | None
    remark: str = ""


_PLAIN: dict[str, SuggestedKind] = {
    "empty": SuggestedKind(None, "It holds no values."),
    "other": SuggestedKind(None, CLOSED),
    "flag": SuggestedKind("nominal"),
    "date": SuggestedKind("date"),
}


def suggest_kind(role: Role | None, sign: Sign | None, profile: Profile) -> SuggestedKind:
    """Read the kind off the values, given the role and the sign in the name that led there."""
    if profile.family in _PLAIN:
        return _PLAIN[profile.family]
    if profile.ordered and profile.distinct >= _ORDER:
        return SuggestedKind("ordinal", "Its levels were declared in an order.")
    of_values = _kind_of_numbers if profile.family == "number" else _kind_of_text
    return of_values(role, sign, profile)


def _kind_of_numbers(role: Role | None, sign: Sign | None, profile: Profile) -> SuggestedKind:
    if not profile.whole:
        own = "Nearly every value is different, so who knows it exactly could find the person."
        return SuggestedKind("continuous", own if profile.measured and role != "weight" else "")
    told = sign.kind if sign else None
    if told in ("nominal", "integer"):
        return SuggestedKind(told)
    if profile.few and role not in ("direct", "weight"):
        ranked = told == "ordinal"
        as_what = "codes in an order" if ranked else "codes for groups"
        remark = f"Only {profile.distinct} different whole numbers: taken as {as_what}."
        return SuggestedKind("ordinal" if ranked else "nominal", remark)
    return SuggestedKind("integer")


def _kind_of_text(role: Role | None, sign: Sign | None, profile: Profile) -> SuggestedKind:
    if profile.dated:
        return SuggestedKind("date", "Its values are dates written as text.")
    if role == "direct":
        return SuggestedKind("text")
    if profile.generalised:
        return SuggestedKind(profile.generalised, ranges_said(profile.generalised))
    if in_order(profile.levels):
        return SuggestedKind("ordinal", "Its levels have an order.")
    often = profile.distinct * 5 <= profile.records or role == "cluster"
    few = profile.distinct <= _GROUPS and (sign or profile.distinct * 2 <= profile.records)
    numeric = bool(profile.sample.str.contains(_NUMERIC).all())
    remark = "Its values are numbers written as text." if numeric else ""
    if profile.own and profile.telling:
        remark = remark or "Few records share a value."
    return SuggestedKind("nominal" if often or few else "text", remark)
