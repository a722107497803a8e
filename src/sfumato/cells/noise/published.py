"""Which part of a description everybody may read, and which only accredited analysts.

Some of a description tells about values. A variance that grows with the value says of a released
record how large its true value may be; the knots of a scale by ranks are averages of the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sfumato.cells.noise.described import Noise, written

Level = Literal["all", "safe", "none"]
_ASK = (
    "Parts of it are kept for accredited analysts: ask the custodian for accredited/manifest.json."
)
_ALL = "all"


def whole(noise: Mapping[str, Noise], then: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Every description in full; `then` names the steps that changed a variable afterwards.

    Examples
    --------
    >>> from sfumato.cells.noise.described import Gaussian
    >>> whole({"age": Gaussian(variance=4.0)}, {"age": ["coarsen"]})["variables"]["age"]["then"]
    ['coarsen']
    """
    made = written(noise)
    for name, later in then.items():
        made["variables"][name]["then"] = list(later)
    return made


def public(told: Mapping[str, Any], level: Level) -> dict[str, Any]:
    """The part for everybody; `withheld` names what is left out of it.

    Examples
    --------
    >>> from sfumato.cells.noise.described import Gaussian
    >>> public(whole({"age": Gaussian(variance=4.0)}, {}), "none")["variables"]
    {'age': {'withheld': ['all']}}
    """
    made = {name: _part(one, level) for name, one in told["variables"].items()}
    kept = any("withheld" in one for one in made.values())
    return {**told, "variables": made} | ({"withheld": _ASK} if kept else {})


def _part(told: Mapping[str, Any], level: Level) -> dict[str, Any]:
    later = {name: told[name] for name in ("then",) if name in told}
    if level == "none":
        return {"withheld": [_ALL], **later}
    if level == "all":
        return dict(told)
    part, kept = dict(told), []
    if "growth" in part:
        del part["growth"]
        kept.append("growth")
    scale = part.get("scale", {})
    if hidden := [name for name in ("values", "scores") if name in scale]:
        part["scale"] = {name: value for name, value in scale.items() if name not in hidden}
        kept += [f"scale.{name}" for name in hidden]
    return part | ({"withheld": kept} if kept else {})


def belongs(accredited: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether an accredited manifest is that of this public one: the same, but for more noise.

    Examples
    --------
    >>> belongs({"records": 7}, {"records": 8})
    False
    """
    ours, theirs = ({**one, "noise": None} for one in (accredited, manifest))
    full, part = (one.get("noise", {}).get("variables", {}) for one in (accredited, manifest))
    return ours == theirs and any(
        part == public({"variables": full}, level)["variables"] for level in ("safe", "none")
    )
