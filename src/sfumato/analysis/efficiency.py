"""Predicted efficiency: what noise will cost an analyst, before anything is released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.analysis.noise_simulation import make_fixed_draws, simulate_noise
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import use_one_thread
from sfumato.noise.description import CodeNoise, Misclassification
from sfumato.noise.description import NoiseDescription as Described
from sfumato.parameters import write_short
from sfumato.utility.models.covariates import Covariates, align_covariates, format_level
from sfumato.utility.models.fitting import Family
from sfumato.utility.models.formula import Formula, read_formula
from sfumato.utility.models.regression import build_matrices, estimate_original
from sfumato.utility.models.sandwich import OriginalModel, compute_loss


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictedEfficiency:
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

    __repr__ = write_short


def efficiency(
    data: Dataset,
    noise: Mapping[str, Described],
    formula: str,
    family: Family = "linear",
    *,
    draws: int = 20,
) -> PredictedEfficiency:
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
    described = {name: description for name, description in noise.items() if name in read.variables}
    if not described:
        raise MeasureError(
            "No variable of the formula has noise.", hint="name a noised variable in the formula."
        )
    if family != "linear" and read.outcome in described:
        raise MeasureError(
            f"Noise in the outcome of a {family} model is not predicted here.",
            hint="leave the outcome as it is, or predict a linear model.",
        )
    # The true values are known here, so the loss is that of corrected scores in large samples.
    with use_one_thread():
        model = _OriginalModel.fit(data, read, family)
        chance = make_fixed_draws(len(model.x))
        loss_table = compute_loss(
            model.family,
            OriginalModel(model.terms, model.x, model.y, model.beta),
            [model.simulate_release(described, chance, repeat) for repeat in range(draws)],
        )
    return PredictedEfficiency(
        formula=formula,
        family=family,
        table=data.like(loss_table.table),
        determinant_ratio=loss_table.determinant_ratio,
        records=len(model.y),
    )


@dataclass(frozen=True, eq=False)
class _OriginalModel:
    """A model fitted to the original, and its variables under aliases."""

    formula: Formula
    prepared: Covariates
    family: Family
    terms: list[str]
    x: Floats
    y: Floats
    beta: Floats

    @classmethod
    def fit(cls, data: Dataset, formula: Formula, family: Family) -> _OriginalModel:
        prepared = align_covariates(data, data, formula, binary=family == "logistic")
        outcome, terms = build_matrices(formula, prepared)["original"]
        y, x, beta = estimate_original(outcome, terms, formula, family)
        names = [formula.name_column(column, prepared.labels) for column in terms.columns]
        return cls(formula, prepared, family, names, x, y, beta)

    def simulate_release(
        self, noise: Mapping[str, Described], chance: Any, repeat: int
    ) -> tuple[Floats, Floats]:
        """The model's terms and outcome, as they would be released."""
        frame = self.prepared.original.copy()
        alias = {name: f"v{index}" for index, name in enumerate(self.formula.variables)}
        columns = {
            name: self._code_values(name, alias[name], description)
            for name, description in noise.items()
        }
        for name, values in simulate_noise(noise, columns, chance, repeat).items():
            frame[alias[name]] = self._restore_type(alias[name], values)
        again = Covariates(self.prepared.original, frame, self.prepared.labels)
        outcome, terms = build_matrices(self.formula, again)["released"]
        return terms.to_numpy(dtype=float), outcome.to_numpy(dtype=float)[:, 0]

    def _code_values(self, name: str, alias: str, description: Described) -> Floats:
        """The true values as numbers: of a category the place of its level in the description."""
        values = self.prepared.original[alias]
        if not isinstance(description, (CodeNoise, Misclassification)):
            if name in self.prepared.labels:
                raise MeasureError(
                    f"Variable '{name}' is a category, but its noise is that of numbers.",
                    hint="describe it as CodeNoise or Misclassification.",
                )
            return values.to_numpy(dtype=float)
        labels = self.prepared.labels.get(name)
        levels = [format_level(level) for level in description.levels]
        if labels is None or levels != list(labels):
            raise MeasureError(
                f"The levels of variable '{name}' are not those of its description, in that order.",
                hint=f"declare its levels in the schema, and write C({name}) in the formula.",
            )
        return np.asarray(values.astype(int), float)

    def _restore_type(self, alias: str, values: Floats) -> Any:
        import pandas as pd

        original = self.prepared.original[alias]
        if not isinstance(original.dtype, pd.CategoricalDtype):
            return values
        return pd.Categorical.from_codes(values.astype(int), categories=original.cat.categories)
