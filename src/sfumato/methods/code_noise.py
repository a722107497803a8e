"""Normal noise on the codes of categories: paper 001, Eq. 4."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.codes import (
    count_rare_levels,
    decode_levels,
    encode_levels,
    find_levels,
    report_observed_levels,
    require_common_levels,
    restore_categories,
)
from sfumato.data import Dataset, drop_missing_codes
from sfumato.engines import Chance, Engine
from sfumato.errors import PlanError
from sfumato.method import Fitted, RowWise, require_draws
from sfumato.methods._publishing.digits import round_to_step
from sfumato.methods.noise_tiers import chain_matrices, describe_chain, exchange_again
from sfumato.methods.persons import (
    BY_PERSON,
    describe_draws_by,
    draw_for_variable,
    list_once,
    mark_constant,
)
from sfumato.noise import description as described
from sfumato.noise.nesting import round_codes
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema

Variance = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_DECIMALS = 0.001
"""Of released codes, whose levels are 1 apart: far below what an analysis notices."""
MOST = 10_000
"""Levels that a manifest can list."""
_OTHERWISE = 'take ends = "free", or the method "misclassify" with again = true.'


@parameters
class NoisyCodes(RowWise):
    """Add normal noise to the codes of categories.

    Question: how can a category be blurred so that an analyst can still take the blur out?
    Assumes: anyone who analyses the release reads the description of the noise; taken as they are,
    noisy codes bias every estimate. The noise follows the code, so neighbouring levels are taken
    for each other most, also where the order of the levels means nothing.

    Codes are the levels themselves where these are whole numbers one apart, else 0, 1, 2, ... in
    the order that the schema declares; without a declaration, of nominal levels in alphabetical and
    of numbers in rising order, which the manifest says. Missing stays missing. A variable that is
    constant within every person (role "person") gets its noise once for each, and stays constant.

    Parameters
    ----------
    variables : the categories: nominal, ordinal, yes/no, or whole numbers with few values.
    variance : variance of the noise: in squared steps from one code to the next; one number for
        all, or by variable a number, or a list with one for each level in their order.
    ends : what lies beyond the outer codes: "clip" sets it to the first or last code, so that a
        value far out does not give an outer level away, and releases numbers; "round" releases the
        category with the nearest code; "free" releases numbers, wherever they lie.
    finer : variances of the more trusted tiers, as a plan writes them. Categories are then those of
        the tier before, exchanged again.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> wealth = sf.Column(role="quasi", kind="ordinal", domain=("low", "middle", "high"))
    >>> frame = pl.DataFrame({"wealth": ["low", "high", "low", None]})
    >>> data = sf.Dataset(frame, sf.Schema({"wealth": wealth}))
    >>> noisy = NoisyCodes(variables=["wealth"], variance=0.2).apply(data, key=bytes(32))
    >>> noisy.frame["wealth"].dtype, noisy.frame["wealth"].null_count()
    (Float64, 1)
    >>> rounded = NoisyCodes(variables=["wealth"], variance=0.2, ends="round")
    >>> set(rounded.apply(data, key=bytes(32)).frame["wealth"]) <= {"low", "middle", "high", None}
    True

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation, for
    assessing the risk of disclosure and for the analysis of perturbed data sets, J. Official
    Statistics 36:89, Eq. 4 and appendix.
    """

    name = "code_noise"
    examples = (
        {"variables": ["education", "smoking"], "variance": 0.3},
        {"variables": ["sex"], "variance": {"sex": [0.2, 0.4]}, "ends": "free"},
        {"variables": ["region", "children"], "variance": 1, "ends": "round"},
    )
    keyed = True
    runs_on = ("local", "streaming", "spark")
    tiered = ("variance",)
    variables: Annotated[list[str], Field(min_length=1)]
    variance: Variance | dict[str, Variance | list[Variance]]
    ends: Literal["clip", "round", "free"] = "clip"
    finer: list[dict[str, Any]] | None = None

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Find the levels of each variable."""
        data.schema.require(self.variables)
        if isinstance(self.variance, Mapping) and set(self.variance) != set(self.variables):
            raise PlanError(
                "A variance by variable needs one for each of `variables`, and for no other.",
                hint="add what is missing, or give one variance for all.",
            )
        fitted = {}
        for name in self.variables:
            distinct = engine.distinct(data, [name])
            levels, declared = find_levels(
                name, data.schema[name], distinct, most=MOST, ordered=True
            )
            stated = self.variance
            variance = stated[name] if isinstance(stated, Mapping) else stated
            if isinstance(variance, Sequence) and len(variance) != len(levels):
                raise PlanError(
                    f"{len(variance)} variances are given for variable '{name}', which has "
                    f"{len(levels)} levels.",
                    hint="give one for each level, in their order.",
                )
            fitted[name] = {
                "levels": levels,
                "declared": declared,
                "rare": count_rare_levels(name, data.schema[name], distinct),
                "variance": variance,
            }
            if self.finer is not None and self.ends == "round":
                fitted[name]["chain"] = self._chain_exchanges(name, levels, variance)
        return mark_constant(fitted, data, engine)

    def _chain_exchanges(
        self, name: str, levels: Sequence[Any], variance: float | Sequence[float]
    ) -> list[Any]:
        """The variance of the first tier, and the matrices by which each later one follows it."""
        stated = [tier["variance"] for tier in self.finer or ()]
        sizes = [size[name] if isinstance(size, Mapping) else size for size in stated]
        noises = [
            described.CodeNoise(variance=size, levels=list(levels), ends="round")
            for size in (*sizes, variance)
        ]
        further = chain_matrices([round_codes(noise) for noise in noises], name, _OTHERWISE)
        return [noises[0].variance, *(matrix.tolist() for matrix in further)]

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The categories, and whose they are."""
        return tuple(dict.fromkeys((*self.variables, *schema.having("person", "cluster"))))

    def describes(self, fitted: Fitted, schema: Schema) -> dict[str, described.NoiseDescription]:
        """The noise on each variable."""
        del schema
        require_common_levels(fitted)
        return {name: self._describe_levels(fitted[name]) for name in self.variables}

    def _describe_levels(self, fit: Mapping[str, Any]) -> described.CodeNoise:
        return described.CodeNoise(variance=fit["variance"], levels=fit["levels"], ends=self.ends)

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Which variables have noise; what noise stands in the manifest under `noise`."""
        return {
            "method": self.name,
            "variables": list(self.variables),
            **report_observed_levels(fitted),
            **list_once(fitted),
        }

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """The codes of each variable, and variances that differ between them."""
        return {
            name: {
                "method": self.name,
                "levels": list(fit["levels"]),
                "growth": fit["variance"] if isinstance(fit["variance"], Sequence) else None,
                **describe_chain(fit.get("chain")),
                **describe_draws_by(fit),
            }
            for name, fit in fitted.items()
        }

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Noisy codes for a batch of records."""
        draws = require_draws(draws, "Noise")
        return pl.DataFrame(
            [
                self._add_noise(
                    batch[name],
                    self._describe_levels(fit),
                    draw_for_variable(draws, batch, fit.get(BY_PERSON)),
                    fit.get("chain"),
                )
                for name, fit in fitted.items()
            ]
        )

    def _add_noise(
        self,
        values: pl.Series,
        noise: described.CodeNoise,
        draws: Draws,
        chain: Sequence[Any] | None,
    ) -> pl.Series:
        level = encode_levels(values, noise.levels)
        if chain:
            noise = replace(noise, variance=chain[0])
        codes = noise.codes
        # However the ends are treated, the noise is the same: so nothing is gained by having both.
        path, variances = _describe_path(noise), noise.variances[level]
        # Goldstein & Shlomo (2020), Eq. 4: released code = true code + N(0, variance).
        noisy = codes[level] + draws.path(values.name, path, codes[level], variances)
        if self.ends == "round":
            # Codes are one apart, so the nearest is found by counting from the first.
            nearest = np.clip(np.floor(noisy - codes[0] + 0.5), 0, len(codes) - 1)
            released = np.where(level < 0, -1, nearest.astype(np.int64))
            further = [np.array(matrix, float) for matrix in (chain or [0])[1:]]
            released = exchange_again(values.name, released, noise.levels, further, draws)
            return decode_levels(released, noise.levels, values)
        if self.ends == "clip":
            noisy = np.clip(noisy, codes[0], codes[-1])
        # The last digits of a sum would give away whether the true code was 0.
        rounded = round_to_step(pl.Series(values.name, noisy), _DECIMALS, Column())
        return rounded.set(pl.Series(level < 0), None)

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """Noisy codes are numbers; between the outer codes where they were clipped."""
        if self.ends == "round":
            return schema
        changed = schema
        for name in self.variables:
            codes = described.level_codes(fitted[name]["levels"])
            ends = (float(codes[0]), float(codes[-1])) if self.ends == "clip" else None
            changed = changed.changed(
                [name], kind="continuous", domain=ends, hierarchy=None, missing=()
            )
        return changed

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Add the noise; categories keep their type, and noisy codes hold no code for missing."""
        if self.ends == "round":
            released = super().transform(data, fitted, engine=engine, chance=chance)
            return restore_categories(data, released, self.variables)
        # A noisy code may be the very number that meant "missing" before.
        before, schema = data.schema, data.schema.changed(self.variables, missing=())
        bare = replace(data, schema=schema, given_identity=data.identity)

        def add_noise(batch: pl.DataFrame, draws: Draws | None) -> pl.DataFrame:
            return self.rows(drop_missing_codes(batch, before), fitted, draws)

        released = engine.map_rows(bare, add_noise, reads=self.reads(schema), chance=chance)
        return replace(released, schema=self.reschema(schema, fitted))


def _describe_path(noise: described.CodeNoise) -> str:
    """What the noise is added to: other levels have other codes, and independent noise."""
    # Codes that are the levels themselves are numbers as they are, as for the method "noise".
    bare = all(type(level) is not bool for level in noise.levels) and list(noise.levels) == list(
        noise.codes
    )
    return json.dumps(None if bare else noise.levels)
