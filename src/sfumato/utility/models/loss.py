"""How much larger standard errors become when noise is known and taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.utility.models.sandwich import variance

_UNRELATED = 1e-8
"""A calibration this near to singular: the noise has drowned a term."""


@dataclass(frozen=True, eq=False)
class Known:
    """A model of the original.

    Parameters
    ----------
    terms : the names of its terms.
    x, y : its terms and its outcome, a row per record.
    beta : its coefficients.
    """

    terms: Sequence[str]
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    beta: Floats = field(repr=False)


@dataclass(frozen=True, eq=False)
class Loss:
    """Standard errors before and after, by term, and the paper's determinant ratio."""

    table: pl.DataFrame = field(repr=False)
    determinant_ratio: float


def loss(family: str, known: Known, noisy: Sequence[tuple[Floats, Floats]]) -> Loss:
    """What noise costs, given what the terms and the outcome look like with it.

    Noise may shrink or shift a term on average (categories, a logarithm, a bound). A line through
    all terms takes that out, as an analyst would who knows the noise.

    Parameters
    ----------
    family : "linear", "logistic" or "poisson".
    known : the model of the original.
    noisy : for each draw of the noise the terms and the outcome, a row per record.
    """
    terms = _calibrated(known.x, [one[0] for one in noisy])
    ones = np.ones(len(known.y))
    outcome = [known.y] * len(noisy)
    if any((one[1] != known.y).any() for one in noisy):
        clean = np.column_stack([ones, known.y])
        seen = _calibrated(clean, [np.column_stack([ones, one[1]]) for one in noisy])
        outcome = [one[:, 1] for one in seen]
    apart = [one - known.x for one in terms]
    sigma = np.asarray(sum(one.T @ one for one in apart) / (len(known.x) * len(noisy)))
    plain = [(known.x, known.y)]
    exact = np.diag(variance(family, known.x, plain, known.beta, np.zeros_like(sigma)))
    both = list(zip(terms, outcome, strict=True))
    after = np.diag(variance(family, known.x, both, known.beta, sigma))
    gram = known.x.T @ known.x / len(known.x)
    ratio = np.exp(np.linalg.slogdet(gram)[1] - np.linalg.slogdet(gram + sigma)[1])
    return Loss(_table(known, exact, after), float(ratio))


def _table(known: Known, exact: Floats, after: Floats) -> pl.DataFrame:
    inflation = np.sqrt(after / exact)
    return pl.DataFrame(
        {
            "term": list(known.terms),
            "estimate": known.beta,
            "se_original": np.sqrt(exact),
            "se_predicted": np.sqrt(after),
            "inflation": inflation,
            "efficiency": 1 / inflation**2,
        }
    )


def _calibrated(clean: Floats, noisy: Sequence[Floats]) -> list[Floats]:
    """The noisy columns, moved and stretched so that on average they are the clean ones."""
    mean = sum(noisy) / len(noisy)
    turned, *_ = np.linalg.lstsq(clean, mean, rcond=None)
    if np.linalg.cond(turned) > 1 / _UNRELATED:
        raise MeasureError(
            "The noise drowns a term of the model: nothing of it is left to be estimated.",
            hint="add less noise to the variables of this model.",
        )
    back = np.linalg.inv(turned)
    return [one @ back for one in noisy]
