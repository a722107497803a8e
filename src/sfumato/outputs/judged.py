"""What was made, under which rule, and the verdict on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from sfumato.errors import PlanError, SfumatoError

Verdict = Literal["pass", "review", "refuse"]
_ORDER: tuple[Verdict, ...] = get_args(Verdict)


class OutputRefused(SfumatoError):  # noqa: N818 - a verdict, not a fault
    """An output was refused; nothing of it was made. The log, where there is one, knows it."""

    exit_code = 3


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several findings together.

    Examples
    --------
    >>> worst(["pass", "review"]), worst([])
    ('review', 'pass')
    """
    return max(verdicts, key=_ORDER.index, default="pass")


@dataclass(frozen=True, kw_only=True)
class Output:
    """One figure or table: what it shows, how it was protected, and whether it may leave.

    Parameters
    ----------
    kind : "histogram", "crosstab", …
    title : what it is called.
    variables : the variables it shows.
    groups : the variables that split the records into groups.
    rule : the protection and its parameters. Never the key.
    verdict : "pass", "review" or "refuse".
    reasons : why, in sentences. They never quote a value of the data.
    population : which records are behind it, as a keyed fingerprint; the log writes it.
    digest : of the protected table; see `digest_of`.
    """

    kind: str
    title: str
    variables: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    rule: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict = "pass"
    reasons: tuple[str, ...] = ()
    population: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in _ORDER:
            raise PlanError(f"A verdict is one of {', '.join(_ORDER)}.")
        if "key" in self.rule:
            raise PlanError("The rule of an output never holds the key.")
        for name in ("variables", "groups", "reasons"):
            value = getattr(self, name)
            listed = (value,) if isinstance(value, str) else tuple(map(str, value))
            object.__setattr__(self, name, listed)
        told = {str(name): _plain(value) for name, value in self.rule.items()}
        object.__setattr__(self, "rule", MappingProxyType(told))

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return told | {
            "variables": list(self.variables),
            "groups": list(self.groups),
            "rule": dict(self.rule),
            "reasons": list(self.reasons),
        }


_SETTINGS = {"deterministic": "k", "noise": "sd_share", "round": "base"}
_WHERE_ONLY_HIDDEN = ("suppress", "generalise", "none")


def another_way(output: Output, entry: Mapping[str, Any]) -> bool:
    """Whether an earlier output shows values of the same variables, moved by other amounts.

    Cells that are only hidden are compared cell by cell; this is for values that were moved:
    noise of two sizes can be averaged, and centres of three and of four neighbours differ by
    the fourth.

    Examples
    --------
    >>> three = Output(kind="scatter", title="", variables=("x", "y"),
    ...                rule={"protection": "deterministic", "k": 3})
    >>> another_way(three, three.plain() | {"rule": {"protection": "deterministic", "k": 4}})
    True
    >>> another_way(three, three.plain())
    False
    """
    mine, other = output.rule, entry["rule"]
    way = mine.get("protection")
    if way in (None, *_WHERE_ONLY_HIDDEN) or way != other.get("protection"):
        return False
    shared = set(output.variables) & set(entry["variables"])
    if way in ("deterministic", "round"):
        # Neighbours, and sums, depend on all variables together.
        shared = shared if set(output.variables) == set(entry["variables"]) else set()
    if not shared:
        return False
    setting = _SETTINGS.get(str(way), "method")
    if mine.get(setting) != other.get(setting):
        return True
    # The same figure with the same settings looks the same, unless the key was another.
    alike = (output.kind, output.variables, output.groups) == (
        entry["kind"], tuple(entry["variables"]), tuple(entry["groups"]),
    )  # fmt: skip
    same = dict(mine) == dict(other)
    return way == "noise" and alike and same and output.digest != entry["digest"]


def _plain(value: Any) -> Any:
    """A value as JSON knows it; whatever else as text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def digest_of(table: pl.DataFrame) -> str:
    """SHA-256 of a protected table: what left can be told from what was checked."""
    told = {name: table[name].to_list() for name in table.columns}
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()
