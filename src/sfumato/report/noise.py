"""The noise of a release in words, and what averaging several releases would reveal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sfumato.cells.noise.averaging import averaged

RELEASES = (2, 4, 10)
"""How many releases under other keys are told of."""
_SHAPES = {"gaussian": "Normal noise", "laplace": "Laplace noise"}
_SCALES = {
    "log": "on the scale of logarithms",
    "square_root": "on the scale of square roots",
    "logit": "on the scale of logits",
    "rank_normal": "on the scale of normal scores",
}
_ENDS = {
    "clip": "what lies beyond the outer codes is set to them",
    "round": "the nearest level is released",
    "free": "released as numbers, wherever they lie",
}
_TOGETHER = ("correlated_gaussian", "stratified_gaussian")


def noise_view(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the page says of noise, a row for each variable that has some; None: there is none."""
    told = manifest.get("noise", {}).get("variables", {})
    if not told:
        return None
    rows = [_row(name, one) for name, one in told.items()]
    return {
        "releases": RELEASES,
        "rows": rows,
        "numbers": any(row["left"] for row in rows),
        "exchanged": any(one.get("distribution") == "misclassification" for one in told.values()),
        "withheld": manifest["noise"].get("withheld", ""),
    }


def _row(name: str, told: Mapping[str, Any]) -> dict[str, Any]:
    said = f"{_said(told)}."
    if later := told.get("then"):
        said += f" Changed again afterwards ({', '.join(later)}), so this alone does not tell it."
    variance = _variance(name, told)
    left = [math.sqrt(averaged(variance, many)) for many in (1, *RELEASES)] if variance else []
    return {
        "name": name,
        "said": said,
        "scale": _SCALES.get(told.get("scale", {}).get("name"), ""),
        "left": [f"{one:.3g}" for one in left],
    }


def _variance(name: str, told: Mapping[str, Any]) -> float | None:
    """The variance of the noise where it is one number, and told."""
    found = told.get("variance")
    if told.get("distribution") == "correlated_gaussian":
        at = told["variables"].index(name)
        found = told["covariance"][at][at]
    return float(found) if isinstance(found, (int, float)) else None


def _said(told: Mapping[str, Any]) -> str:
    """A description in words, as far as it is told."""
    kind = str(told.get("distribution"))
    if kind in _SHAPES:
        return _added(told)
    if kind in _TOGETHER:
        within = " within each stratum" if "strata" in told else ""
        return (
            f"{told['weight']:.3g} times the true value, and normal noise that keeps means and "
            f"covariances of {', '.join(told['variables'])}{within}"
        )
    if kind == "code_noise":
        size = _numbers(told["variance"])
        count = len(told["levels"])
        return f"Normal noise of variance {size} on the codes of {count} levels; " + _ENDS.get(
            str(told.get("ends")), ""
        )
    if kind == "misclassification":
        return _exchanged(told)
    return "It has noise, described for accredited analysts only"


def _added(told: Mapping[str, Any]) -> str:
    said = _SHAPES[told["distribution"]]
    variance = told.get("variance")
    if variance is None:
        said += " whose variance grows with the value"
    else:
        said += f" of variance {variance:.3g} (standard deviation {math.sqrt(variance):.3g})"
    if scale := told.get("scale"):
        said += f" {_SCALES.get(scale['name'], '')}"
    if told.get("whole"):
        said += ", then rounded to whole numbers"
        if variance and not scale:
            said += f", which leaves about {_unmoved(told):.0%} of the values as they were"
    ends = [
        f"what lies {where} {told[name]:,.12g} is set to it"
        for name, where in (("at_least", "below"), ("at_most", "above"))
        if name in told
    ]
    return "; ".join([said, *ends])


def _unmoved(told: Mapping[str, Any]) -> float:
    """How likely rounding takes the noise of a whole number away again."""
    sd = math.sqrt(told["variance"])
    if told["distribution"] == "laplace":
        return 1 - math.exp(-0.5 * math.sqrt(2) / sd)
    return math.erf(0.5 / (sd * math.sqrt(2)))


def _exchanged(told: Mapping[str, Any]) -> str:
    if told.get("matrix") is not None:
        every = [told["matrix"]]
    else:
        every = [one["matrix"] for one in told["strata"]]
    least = min(matrix[at][at] for matrix in every for at in range(len(matrix)))
    within = "" if "matrix" in told else ", in a way of its own within each stratum"
    return (
        f"Each of {len(told['levels'])} levels stays with a probability of at least {least:.3g}, "
        f"or is exchanged for another{within}"
    )


def _numbers(told: Any) -> str:
    return ", ".join(f"{one:.3g}" for one in told) if isinstance(told, list) else f"{told:.3g}"
