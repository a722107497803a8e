"""The noise of a release in words, and what averaging several releases would reveal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sfumato.noise.description import averaged_variance
from sfumato.report.wording import format_numbers

RELEASES = (2, 4, 10)
"""The numbers of releases under different keys that the page shows."""
_SHAPES = {"gaussian": "Normal noise", "laplace": "Laplace noise"}
_SCALES = {
    "log": "on the scale of logarithms",
    "square_root": "on the scale of square roots",
    "logit": "on the scale of logits",
    "rank_normal": "on the scale of normal scores",
}
_ENDS = {
    "clip": "values beyond the outer codes are set to them",
    "round": "the nearest level is released",
    "free": "released as numbers, wherever they lie",
}
_JOINT = ("correlated_gaussian", "stratified_gaussian")
Noise = Mapping[str, Any]
"""The noise of a variable as the manifest describes it."""


def describe_noise(manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the page says of noise, a row for each noisy variable; None where there is none."""
    variables = manifest.get("noise", {}).get("variables", {})
    if not variables:
        return None
    rows = [_describe_variable(name, noise) for name, noise in variables.items()]
    kinds = {noise.get("distribution") for noise in variables.values()}
    return {
        "releases": RELEASES,
        "rows": rows,
        "numbers": any(row["left"] for row in rows),
        "misclassified": "misclassification" in kinds,
        "withheld": manifest["noise"].get("withheld", ""),
    }


def _describe_variable(name: str, noise: Noise) -> dict[str, Any]:
    text = f"{_describe(noise)}."
    if step := noise.get("steps", {}).get(name):
        text += f" Then rounded to {_name_step(step)}."
    if later := noise.get("then"):
        text += f" Changed again afterwards ({', '.join(later)}), so this is not the full story."
    # Noise under m keys averages out: its variance falls to 1/m.
    variance = _get_variance(name, noise)
    remaining = (
        [math.sqrt(averaged_variance(variance, count)) for count in (1, *RELEASES)]
        if variance
        else []
    )
    return {
        "name": name,
        "text": text,
        "scale": _SCALES.get(noise.get("scale", {}).get("name"), ""),
        "left": [f"{sd:.3g}" for sd in remaining],
    }


def _get_variance(name: str, noise: Noise) -> float | None:
    """The variance of the noise where it is one number and public."""
    variance = noise.get("variance")
    if noise.get("distribution") == "correlated_gaussian" and "covariance" in noise:
        # The diagonal of the common covariance matrix.
        index = noise["variables"].index(name)
        variance = noise["covariance"][index][index]
    return float(variance) if isinstance(variance, (int, float)) else None


def _describe(noise: Noise) -> str:
    """The noise in words, as far as the manifest describes it."""
    kind = str(noise.get("distribution"))
    if kind in _SHAPES:
        return _describe_added_noise(noise)
    if kind in _JOINT:
        within = " within each stratum" if kind == "stratified_gaussian" else ""
        return (
            f"{noise['weight']:.3g} times the true value, and normal noise that keeps means and "
            f"covariances of {', '.join(noise['variables'])}{within}"
        )
    if kind == "code_noise":
        variance, levels = format_numbers(noise["variance"]), len(noise["levels"])
        ends = _ENDS.get(str(noise.get("ends")), "")
        return f"Normal noise of variance {variance} on the codes of {levels} levels; {ends}"
    if kind == "misclassification":
        return _describe_misclassification(noise)
    return "It has noise, described for accredited analysts only"


def _describe_added_noise(noise: Noise) -> str:
    text = _SHAPES[noise["distribution"]]
    variance, scale = noise.get("variance"), noise.get("scale")
    if variance is None:
        text += " whose variance grows with the value"
    else:
        text += f" of variance {variance:.3g} (standard deviation {math.sqrt(variance):.3g})"
    if scale:
        text += f" {_SCALES.get(scale['name'], '')}"
    if noise.get("whole"):
        text += ", then rounded to whole numbers"
        if variance and not scale:
            share = _probability_of_no_change(noise)
            text += f", which leaves about {share:.0%} of the values as they were"
    elif step := noise.get("step"):
        text += f", then rounded to {_name_step(step)}"
    ends = [
        f"values {where} {noise[name]:,.12g} become {noise[name]:,.12g}"
        for name, where in (("at_least", "below"), ("at_most", "above"))
        if name in noise
    ]
    return "; ".join([text, *ends])


def _name_step(step: float) -> str:
    """The last digit of released numbers, in words."""
    decimals = max(round(-math.log10(step)), 0)
    names = {0: "whole numbers", 1: "one decimal"}
    return names.get(decimals, f"{decimals} decimals")


def _probability_of_no_change(noise: Noise) -> float:
    """How likely it is that rounding undoes the noise of a whole number: P(|noise| < 1/2)."""
    sd = math.sqrt(noise["variance"])
    if noise["distribution"] == "laplace":
        return 1 - math.exp(-0.5 * math.sqrt(2) / sd)
    return math.erf(0.5 / (sd * math.sqrt(2)))


def _describe_misclassification(noise: Noise) -> str:
    if noise.get("matrix") is not None:
        matrices = [noise["matrix"]]
    else:
        matrices = [stratum["matrix"] for stratum in noise["strata"]]
    # The diagonal holds the probabilities that a level stays.
    least = min(matrix[index][index] for matrix in matrices for index in range(len(matrix)))
    within = "" if "matrix" in noise else ", with probabilities of its own within each stratum"
    return (
        f"Each of {len(noise['levels'])} levels stays with a probability of at least {least:.3g}, "
        f"or is exchanged for another{within}"
    )
