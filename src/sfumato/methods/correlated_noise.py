"""Noise that keeps means and covariances: Kim (1986), Shlomo (2010)."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.codes import (
    encode_strata,
    sort_strata,
    to_plain,
)
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.method import Fitted, RowWise, Strength, require_draws, require_numbers
from sfumato.methods._noise.covariances import (
    UnperturbedWarning,
    describe_noise,
    draw_correlated_noise,
    fit_moments,
    noise_per_signal,
)
from sfumato.methods._noise.drawing import require_large_strata, select_draws
from sfumato.methods._publishing.digits import (
    fit_steps,
    list_sizes,
    round_digits,
    round_to_step,
)
from sfumato.methods.persons import BY_PERSON, ONCE, draw_for_variable, find_constant
from sfumato.noise.description import CorrelatedGaussian, NoiseDescription, StratifiedGaussian
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import IDENTIFYING, Schema

_NUMBERS = ("continuous", "integer")
_MOMENTS = "__sfumato_moments__"
_APART = (*IDENTIFYING, "weight", "cluster")


@parameters
class CorrelatedNoise(RowWise):
    """Mix numbers with noise that has their own means and covariances.

    Question: how can numbers be blurred so that regressions on the release alone stay right?
    Assumes: models rest on means and covariances, as linear regression does, and all their
    variables are perturbed here together. Relations with variables that stay as they are become
    weaker, by the root of 1 - `noise_share`; so do curved relations and interactions. For other
    models take "noise", and the noise out again. Missing stays missing. Variables that are constant
    within every person (role "person"), with no value missing beside others, and the strata too,
    get their noise once for each person, and stay constant.

    released = weight * true + noise, with weight = root of (1 - noise_share), and normal noise of
    mean (1 - weight) * mean and covariance noise_share * covariance of the variables. Means and
    covariances of the release are expected to be those of the original; shapes become more normal.

    Parameters
    ----------
    variables : the numbers to perturb, together.
    noise_share : share of noise in the released variance, between 0 and 1.
    strata : within groups of: variables within whose combinations means and covariances are taken,
        and kept. They are released as they are.
    fewest : fewest records in a stratum: of the data, where there are no strata. Accredited
        analysts get means and covariances (everybody, if the plan says noise = "all"), and those of
        few records would reveal each.
    partly : do not warn that other numbers stay as they are.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": range(20, 70), "stay": [n % 7 for n in range(50)]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "stay": "sensitive"}))
    >>> noise = CorrelatedNoise(variables=["age", "stay"], noise_share=0.2)
    >>> released = noise.apply(data, key=bytes(32))
    >>> abs(released.frame["age"].mean() - frame["age"].mean()) < 5
    True

    References: Kim (1986), A method for limiting disclosure in microdata based on random noise and
    transformation, Proc. ASA Survey Research Methods, 370; Shlomo (2010), Releasing microdata:
    disclosure risk estimation, data masking and assessing utility, J. Privacy and
    Confidentiality 2(1):7.
    """

    name = "correlated_noise"
    runs_on = ("local", "streaming", "spark")
    strength = Strength("noise_share")
    tiered = ("noise_share",)
    preserves = ("repeated readings", "support points", "extremes", "sums")
    odd = {
        "empty": "refused",
        "one row": "refused",
        "all missing": "refused",
        "constant": "refused",
    }
    examples = (
        {"variables": ["height", "weight_kg"], "noise_share": 0.2, "partly": True},
        {
            "variables": ["systolic", "glucose", "hdl", "exam_score"],
            "noise_share": 0.5,
            "strata": ["sex"],
            "partly": True,
        },
    )
    reports = ("correlations",)
    keyed = True
    variables: Annotated[list[str], Field(min_length=1)]
    noise_share: Annotated[float, Field(gt=0, lt=1)]
    strata: list[str] = Field(default_factory=list)
    fewest: Annotated[int, Field(ge=2)] = 10
    partly: bool = False

    @model_validator(mode="after")
    def _check_strata(self) -> Self:
        both = set(self.variables) & set(self.strata)
        if both:
            msg = f"'{min(both)}' cannot be both perturbed and a stratum."
            raise ValueError(msg)
        return self

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The numbers and the strata, and whose they are."""
        named = (*self.variables, *self.strata)
        return (*named, *(name for name in schema.having("person") if name not in named))

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Means and covariances in each stratum."""
        data.schema.require(self.reads(data.schema))
        require_numbers(
            data, self.touches(data.schema), "Correlated noise", dates=False, engine=engine
        )
        for name in self.variables:
            if data.schema[name].kind in ("nominal", "ordinal"):
                raise MethodError(
                    f"Variable '{name}' is declared as categories, whose codes have no covariance.",
                    hint='use "code_noise" or "misclassify", or declare another kind.',
                )
        self._warn_of_others(data.schema)
        require_large_strata(engine.distinct(data, self.strata).counts, self.fewest, self.strata)
        slim = data.without(set(data.columns) - set(self.reads(data.schema)))
        groups = engine.map_groups(slim, self._fit_strata, by=self.strata, reads=self.variables)
        rows = engine.distinct(groups, [*self.strata, _MOMENTS]).values.iter_rows()
        moments = {tuple(map(to_plain, row[:-1])): json.loads(row[-1]) for row in rows}
        strata = [
            {"where": dict(zip(self.strata, row, strict=True)), **moments[row]}
            for row in sort_strata(list(moments))
        ]
        integers = [name for name in self.variables if not data.dtype(name).is_float()]
        steps = fit_steps(data, self.variables, engine)
        fitted = {"strata": strata, "whole": integers, "steps": steps}
        return fitted | self._find_constant(data, engine)

    def _find_constant(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """The variables that are drawn once for each person, and what says whose a row is."""
        names = [*self.variables, *self.strata]
        constant = find_constant(data, names, engine, missing_differs=True)
        once = [name for name in self.variables if name in constant]
        if not once or not set(self.strata) <= set(constant):
            return {}
        return {ONCE: once, BY_PERSON: data.schema.person or ""}

    def _fit_strata(
        self, batch: pl.DataFrame, starts: Integers, draws: Draws | None
    ) -> pl.DataFrame:
        """The moments of each stratum as text, beside each of its records."""
        del draws
        texts = [
            json.dumps(fit_moments(batch[low:high], self.variables, self.fewest))
            for low, high in pairwise(starts.tolist())
        ]
        stratum = np.repeat(np.arange(len(texts)), np.diff(starts))
        return pl.DataFrame([pl.Series(_MOMENTS, texts, dtype=pl.String).gather(stratum)])

    def _warn_of_others(self, schema: Schema) -> None:
        others = [
            name
            for name, column in schema.items()
            if column.kind in _NUMBERS
            and column.role not in _APART
            and name not in (*self.variables, *self.strata)
        ]
        if others and not self.partly:
            weight = math.sqrt(1 - self.noise_share)
            warnings.warn(
                f"These variables stay as they are: {', '.join(others)}. Their covariances with "
                f"the perturbed ones are multiplied by {weight:.2f}. Perturb all variables of a "
                "model together, or say partly = true.",
                UnperturbedWarning,
                stacklevel=4,
            )

    def describes(self, fitted: Fitted, schema: Schema) -> dict[str, NoiseDescription]:
        """One description of all variables together, under the name of each."""
        del schema
        weight = math.sqrt(1 - self.noise_share)
        strata = [
            {"where": moments["where"], **describe_noise(moments, self.noise_share)}
            for moments in fitted["strata"]
        ]
        steps = {name: step for name, step in fitted["steps"].items() if step} or None
        noise: NoiseDescription
        if self.strata:
            noise = StratifiedGaussian(
                variables=self.variables, weight=weight, strata=strata, steps=steps
            )
        else:
            noise = CorrelatedGaussian(
                variables=self.variables,
                weight=weight,
                mean=strata[0]["mean"],
                covariance=strata[0]["covariance"],
                steps=steps,
            )
        return dict.fromkeys(self.variables, noise)

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Which variables have noise; what noise stands in the manifest under `noise`."""
        described = {"method": self.name, "variables": list(self.variables)}
        once = {ONCE: fitted[ONCE]} if ONCE in fitted else {}
        return described | ({"strata": list(self.strata)} if self.strata else {}) | once

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """The covariances: a share of others mixes other draws."""
        strata = [
            {part: moments[part] for part in ("where", "sd", "relation")}
            for moments in fitted["strata"]
        ]
        path = {"method": self.name, "variables": list(self.variables), "strata": strata}
        if ONCE in fitted:
            path[BY_PERSON] = fitted[ONCE]
        return dict.fromkeys(self.variables, path)

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Noisy numbers for a batch of records."""
        draws = require_draws(draws, "Noise")
        true = [batch[name].cast(pl.Float64).to_numpy() for name in self.variables]
        released = [np.full(batch.height, np.nan) for _ in self.variables]
        stratum = encode_strata(batch, self.strata, fitted["strata"])
        once = fitted.get(ONCE, ())
        by_person = draw_for_variable(draws, batch, fitted.get(BY_PERSON))
        sources = [by_person if name in once else draws for name in self.variables]
        for number, moments in enumerate(fitted["strata"]):
            rows = np.flatnonzero(stratum == number)
            if not len(rows):
                continue
            some = [select_draws(source, rows) for source in sources]
            noisy = self._add_noise(moments, [x[rows] for x in true], some, once)
            for column, values in zip(released, noisy, strict=True):
                column[rows] = values
        columns = zip(self.variables, released, strict=True)
        return pl.DataFrame([pl.Series(name, x, nan_to_null=True) for name, x in columns])

    def _add_noise(
        self,
        moments: Mapping[str, Any],
        true: list[Floats],
        draws: Sequence[Draws],
        once: Sequence[str],
    ) -> list[Floats]:
        """The numbers of the records of one stratum."""
        # Shares of one covariance are on one path. Noise of another covariance must be
        # independent: the difference of two that mix the same draws would give the value away.
        named = [self.variables, moments["sd"], moments["relation"]]
        path = json.dumps([*named, list(once)] if once else named)
        weight, variance = math.sqrt(1 - self.noise_share), noise_per_signal(self.noise_share)
        paths = [
            source.path(name, path, np.nan_to_num(x), variance)
            for name, x, source in zip(self.variables, true, draws, strict=True)
        ]
        order = sorted(range(len(paths)), key=lambda column: self.variables[column] not in once)
        noise = draw_correlated_noise(moments, paths, self.noise_share, order)
        return [weight * x + e for x, e in zip(true, noise, strict=True)]

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Add the noise, and round to digits that tell nothing of it."""
        noised = super().transform(data, fitted, engine=engine, chance=chance)
        sizes = engine.aggregate(noised, dict.fromkeys(self.variables, list_sizes(relative=False)))
        schema, steps, integers = noised.schema, fitted["steps"], _list_integers(fitted)

        def round_batch(batch: pl.DataFrame, draws: Draws | None) -> pl.DataFrame:
            del draws
            columns = []
            for name, values in zip(self.variables, batch, strict=True):
                if steps[name]:
                    rounded = round_to_step(values, steps[name], schema[name])
                    columns.append(rounded.cast(pl.Int64 if name in integers else values.dtype))
                else:
                    columns.append(round_digits(values, sizes[name], relative=False))
            return pl.DataFrame(columns)

        return engine.map_rows(noised, round_batch, reads=self.variables)

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """Numbers that no declared domain bounds; measured ones unless rounded to whole ones."""
        changed = schema.changed(self.variables, kind="continuous", domain=None, hierarchy=None)
        # A code for missing survives only where the type does.
        changed = changed.changed(fitted["whole"], missing=())
        return changed.changed(_list_integers(fitted), kind="integer")


def _list_integers(fitted: Fitted) -> list[str]:
    """The variables that are whole numbers before and after."""
    return [name for name in fitted["whole"] if fitted["steps"][name] >= 1]
