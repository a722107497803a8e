"""An output: what it shows, under which rule it was protected, and the verdict on it."""

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
from sfumato.parameters import write_short

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

    __repr__ = write_short

    def __post_init__(self) -> None:
        if self.verdict not in _ORDER:
            raise PlanError(f"A verdict is one of {', '.join(_ORDER)}.")
        if "key" in self.rule:
            raise PlanError("The rule of an output never holds the key.")
        for name in ("variables", "groups", "reasons"):
            value = getattr(self, name)
            texts = (value,) if isinstance(value, str) else tuple(map(str, value))
            object.__setattr__(self, name, texts)
        rule = {str(name): _convert_to_json(value) for name, value in self.rule.items()}
        object.__setattr__(self, "rule", MappingProxyType(rule))

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return fields | {
            "variables": list(self.variables),
            "groups": list(self.groups),
            "rule": dict(self.rule),
            "reasons": list(self.reasons),
        }


_SETTINGS = {
    "deterministic": "k", "mahalanobis": "k", "noise": "sd_share", "growing_noise": "sd_share",
    "round": "base",
}  # fmt: skip
_ALIKE = ({"deterministic", "mahalanobis"}, {"noise", "growing_noise"})
_ONLY_HIDING = ("suppress", "generalise", "none")


def differs_in_settings(output: Output, entry: Mapping[str, Any]) -> bool:
    """Whether an earlier output shows values of the same variables, moved by other amounts.

    Cells that are only hidden are compared cell by cell; this is for values that were moved:
    noise of two sizes can be averaged, and centres of three and of four neighbours differ by
    the fourth.

    Examples
    --------
    >>> three = Output(kind="scatter", title="", variables=("x", "y"),
    ...                rule={"protection": "deterministic", "k": 3})
    >>> four = three.plain() | {"rule": {"protection": "deterministic", "k": 4}}
    >>> differs_in_settings(three, four), differs_in_settings(three, three.plain())
    (True, False)
    """
    rule, earlier = output.rule, entry["rule"]
    protection = rule.get("protection")
    hiding = protection in (None, *_ONLY_HIDING)
    if hiding or not _are_alike(protection, earlier.get("protection")):
        return False
    shared = set(output.variables) & set(entry["variables"])
    if protection in ("deterministic", "mahalanobis", "round"):
        # Neighbours, and sums, depend on all variables together.
        shared = shared if set(output.variables) == set(entry["variables"]) else set()
    if not shared:
        return False
    setting = _SETTINGS.get(str(protection), "method")
    if protection != earlier.get("protection") or rule.get(setting) != earlier.get(setting):
        return True
    # The same figure with the same settings looks the same, unless the key was another.
    same_figure = (output.kind, output.variables, output.groups) == (
        entry["kind"], tuple(entry["variables"]), tuple(entry["groups"]),
    ) and dict(rule) == dict(earlier)  # fmt: skip
    return (
        protection in ("noise", "growing_noise")
        and same_figure
        and output.digest != entry["digest"]
    )


def _are_alike(first: Any, second: Any) -> bool:
    """Whether two protections move values in the same way: by neighbours, or by noise."""
    return first == second or any({first, second} <= alike for alike in _ALIKE)


def _convert_to_json(value: Any) -> Any:
    """A value as JSON knows it; whatever else as text."""
    if isinstance(value, Mapping):
        return {str(name): _convert_to_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert_to_json(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def digest_of(table: pl.DataFrame) -> str:
    """SHA-256 of a protected table: whether what left is what was checked."""
    columns = {name: table[name].to_list() for name in table.columns}
    return hashlib.sha256(json.dumps(columns, default=str).encode()).hexdigest()
