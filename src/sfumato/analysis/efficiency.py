"""What noise will cost an analyst: the standard errors to be expected, before anything is out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.analysis.simulated import draws_of, simulated
from sfumato.cells.noise.described import CodeNoise, Misclassification
from sfumato.cells.noise.described import Noise as Described
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.canonical import one_thread
from sfumato.utility.models.covariates import Covariates, covariates
from sfumato.utility.models.formula import Formula, read_formula
from sfumato.utility.models.loss import Known, loss
from sfumato.utility.models.regression import Family, estimated, matrices


@dataclass(frozen=True, eq=False, kw_only=True)
class Efficiency:
    """What an analyst loses by noise that is taken out again.

    Parameters
    ----------
    formula, family : the model.
    table : a row per term: its estimate and standard error without noise, the standard error to be
        expected after noise was added and taken out again, how many times larger that is
        (`inflation`), and the share of records that would give the same without noise
        (`efficiency`).
    determinant_ratio : the paper's overall measure. It is optimistic: it knows nothing of what
        taking the noise out costs. It stands here beside the table to be compared with papers.
    records : how many complete records the model has.
    """

    formula: str
    family: str
    table: Any = field(repr=False)
    determinant_ratio: float
    records: int


def efficiency(
    data: Dataset,
    noise: Mapping[str, Described],
    formula: str,
    family: Family = "linear",
    *,
    draws: int = 20,
) -> Efficiency:
    """Predict the standard errors of a model fitted to noised data with the noise taken out.

    Question: how much do the analysts lose, and on which coefficient?
    Assumes: the analyst knows the noise and corrects for it. The prediction is that of corrected
    moments and scores in large samples; exact for normal noise on terms that enter as they are,
    an approximation for categories, transformed scales and products of noised variables. Of code
    noise only the nearest category is used, so an analyst who uses the number itself loses less.

    Parameters
    ----------
    data : the original records.
    noise : the description of the noise of each noised variable.
    formula : the model, such as "systolic ~ height + C(smoking)".
    family : "linear", "logistic" or "poisson".
    draws : how often the noise is drawn; the same draws each time.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(1000), sf.datasets.cohort_schema())
    >>> found = efficiency(data, {"height": sf.Gaussian(variance=20.0)}, "systolic ~ height")
    >>> found.table["inflation"].round(1).to_list()
    [1.1, 1.1]

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation and analysis
    of perturbed datasets; Fuller (1987), Measurement error models; Nakamura (1990); Stefanski &
    Carroll (1987).
    """
    try:
        read = read_formula(formula)
    except ValueError as error:
        raise MeasureError(f"The formula {error}") from None
    if draws < 1:
        raise MeasureError("`draws` is 1 or more.")
    told = {name: one for name, one in noise.items() if name in read.variables}
    if not told:
        raise MeasureError(
            "No variable of the formula has noise.", hint="name a noised variable in the formula."
        )
    if family != "linear" and read.outcome in told:
        raise MeasureError(
            f"Noise in the outcome of a {family} model is not predicted here.",
            hint="leave the outcome as it is, or predict a linear model.",
        )
    with one_thread():
        model = _Model.of(data, read, family)
        chance = draws_of(len(model.x))
        found = loss(
            model.family,
            Known(model.terms, model.x, model.y, model.beta),
            [model.drawn(told, chance, at) for at in range(draws)],
        )
    return Efficiency(
        formula=formula,
        family=family,
        table=data.like(found.table),
        determinant_ratio=found.determinant_ratio,
        records=len(model.y),
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """A model fitted to the original, and its variables under aliases."""

    formula: Formula
    prepared: Covariates
    family: Family
    terms: list[str]
    x: Floats
    y: Floats
    beta: Floats

    @classmethod
    def of(cls, data: Dataset, formula: Formula, family: Family) -> _Model:
        prepared = covariates(data, data, formula, binary=family == "logistic")
        outcome, terms = matrices(formula, prepared)["original"]
        y, x, beta = estimated(outcome, terms, formula, family)
        names = [formula.named(column, prepared.labels) for column in terms.columns]
        return cls(formula, prepared, family, names, x, y, beta)

    def drawn(self, noise: Mapping[str, Described], chance: Any, at: int) -> tuple[Floats, Floats]:
        """The model's terms and outcome, as they would be released."""
        frame = self.prepared.original.copy()
        alias = {name: f"v{place}" for place, name in enumerate(self.formula.variables)}
        columns = {name: self._numbers(name, alias[name], one) for name, one in noise.items()}
        for name, values in simulated(noise, columns, chance, at).items():
            frame[alias[name]] = self._like(alias[name], values)
        again = Covariates(self.prepared.original, frame, self.prepared.labels)
        outcome, terms = matrices(self.formula, again)["released"]
        return terms.to_numpy(dtype=float), outcome.to_numpy(dtype=float)[:, 0]

    def _numbers(self, name: str, alias: str, one: Described) -> Floats:
        """The true values as numbers: of a category the place of its level in the description."""
        values = self.prepared.original[alias]
        if not isinstance(one, (CodeNoise, Misclassification)):
            if name in self.prepared.labels:
                raise MeasureError(
                    f"Variable '{name}' is a category, but its noise is that of numbers.",
                    hint="describe it as CodeNoise or Misclassification.",
                )
            return values.to_numpy(dtype=float)
        labels = self.prepared.labels.get(name)
        told = [_label(level) for level in one.levels]
        if labels is None or told != list(labels):
            raise MeasureError(
                f"The levels of variable '{name}' are not those of its description, in that order.",
                hint=f"declare its levels in the schema, and write C({name}) in the formula.",
            )
        return np.asarray(values.astype(int), float)

    def _like(self, alias: str, values: Floats) -> Any:
        import pandas as pd

        was = self.prepared.original[alias]
        if not isinstance(was.dtype, pd.CategoricalDtype):
            return values
        return pd.Categorical.from_codes(values.astype(int), categories=was.cat.categories)


def _label(level: object) -> str:
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)
