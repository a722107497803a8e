"""What noise that can be taken out again still costs."""

from __future__ import annotations

import math

from pydantic import field_validator

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.exact_sums import use_one_thread
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.utility.models.fitting import Family
from sfumato.utility.models.formula import read_formula

_CORRECTED = (
    "The analyst knows the noise, corrects for it (see `sf.fit`), and has as many records. The "
    "standard errors are those of corrected moments and scores in large samples."
)
_PLAIN = "Records are taken as independent; survey weights and clusters are not used."


@parameters
class Efficiency(Measure):
    """The share of records that would say as much without noise: the worst term of a model.

    Question: how much do analysts lose who take the noise out again, and on which coefficient?
    Assumes: the noise is known and corrected for. What it is, is read off the pairs of original
    and released values, so no description is needed. 0.8 on a coefficient says that four fifths of
    the records, without noise, would give the same standard error. Ranges and sets are refused:
    what they cost depends on a model of the values within them, which `sf.fit` makes.

    Parameters
    ----------
    formula : formula of the model: such as "systolic ~ height + C(smoking)".
    family : kind of model: "linear", "logistic" (the outcome is 0 or 1, or a category of two
        levels) or "poisson".

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(1000), sf.datasets.cohort_schema())
    >>> noise = sf.methods.Noise(variables=["height"], variance_share=0.2)
    >>> noised = noise.apply(data, key=b"k" * 32)
    >>> found = Efficiency(formula="systolic ~ height").measure(data, noised)
    >>> 0.7 < found.value < 0.9
    True

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation and analysis
    of perturbed datasets; Fuller (1987), Measurement error models; Nakamura (1990); Stefanski &
    Carroll (1987).
    """

    name = "efficiency"
    examples = (
        {"formula": "systolic ~ height + weight_kg + C(smoking)"},
        {"formula": "children ~ household_size", "family": "poisson"},
    )
    numbers = (
        Number.score("efficiency", lowest=0.0),
        Number.loss("largest_inflation"),
        Number.loss("mean_inflation"),
        Number.score("determinant_ratio", lowest=0.0),
    )
    of = "pair"
    formula: str
    family: Family = "linear"

    @field_validator("formula")
    @classmethod
    def _check_formula(cls, formula: str) -> str:
        read_formula(formula)
        return formula

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Hold the terms of the released records against those of the original ones."""
        del engine  # all records are in memory
        from sfumato.utility.models.covariates import align_covariates
        from sfumato.utility.models.regression import build_matrices, estimate_original
        from sfumato.utility.models.sandwich import OriginalModel, compute_loss

        if not len(original) or len(original) != len(released):
            raise MeasureError(
                "There must be a released record for each original one.",
                hint="evaluate a Release or its folder, so that the records can be paired.",
            )
        read = read_formula(self.formula)
        with use_one_thread():
            both = align_covariates(
                original, released, read, binary=self.family == "logistic", paired=True
            )
            sides = build_matrices(read, both)
            outcome, terms = sides["original"]
            y, x, beta = estimate_original(outcome, terms, read, self.family)
            noisy_matrices = sides["released"]
            noisy = (
                noisy_matrices[1].to_numpy(dtype=float),
                noisy_matrices[0].to_numpy(dtype=float)[:, 0],
            )
            if self.family != "linear" and (noisy[1] != y).any():
                raise MeasureError(
                    f"The outcome of a {self.family} model was changed, which is not judged here.",
                    hint="release the outcome as it is, or judge a linear model.",
                )
            names = [read.name_column(column, both.labels) for column in terms.columns]
            loss = compute_loss(self.family, OriginalModel(names, x, y, beta), [noisy])
        inflation = loss.table["inflation"]
        # Where terms lose alike, rounding must not name one: it differs between processors.
        least = int(loss.table["efficiency"].round_sig_figs(6).arg_min() or 0)
        return Evidence(
            name=self.name,
            subject="pair",
            value=float(loss.table["efficiency"][least]),
            direction=self.direction,
            table=original.like(loss.table.rename({"efficiency": self.name})),
            details={
                "largest_inflation": float(inflation.to_numpy().max()),
                "mean_inflation": math.fsum(inflation) / len(inflation),
                "determinant_ratio": loss.determinant_ratio,
                "worst_term": names[least],
                "records_used": len(y),
                "formula": self.formula,
            },
            assumptions=(_CORRECTED, _PLAIN),
        )
