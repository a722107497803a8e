"""Survey weights on a few levels, with their totals kept."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.data.identity import digest
from sfumato.engines import Engine, Starts
from sfumato.engines.summaries import Minimum, Quantile, Summary
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats, Integers, Mask, Positions
from sfumato.method import Fitted, Grouped, require_draws, require_numbers
from sfumato.methods.persons import (
    BY_PERSON,
    describe_draws_by,
    draw_for_variable,
    list_once,
    mark_constant,
)
from sfumato.parameters import parameters
from sfumato.randomness import Draws, encrypt, fold_name
from sfumato.schema import Schema

_OUTER = 0.01
"""The share of weights beyond each outer level: these are cut off, since extremes stand out."""
_DIGITS = 2


@parameters
class Weights(Grouped):
    """Round survey weights at random to a few levels, so that totals stay.

    Question: how can weights be used that do not tell who somebody is?
    Assumes: a weight is a number above 0. Exact weights are often unique, or stand for a stratum of
    the sample: region and household size can be read off them. Here a weight becomes one of the two
    levels around it: the upper one the more often, the nearer it lies. Within each combination of
    `domains`, the number of weights that are rounded up is fixed, not left to chance, so the total
    of the weights stays within a few steps. Weights beyond the outer levels (about one in a
    hundred on either side) are cut off.

    Who is rounded up follows the record and its weight. Under the same key, a record that comes or
    goes moves at most one other weight between the same two levels of its domain, so that many
    versions tell hardly more than one: over 20 versions of 2,000 records, of which a hundredth is
    replaced each time, 3 % of the weights move, and the best guess from all versions is 2 % closer
    than from one (`tests/adversary/test_noise_does_not_average.py`). A weight that was computed
    anew is rounded anew. Where rows belong to persons (role "person"), a weight that is constant
    within every person is rounded once for each, and stays constant.

    Levels lie at even shares of the weights and are rounded to two digits, so that no level is
    somebody's weight. Measure what it changes with `weighted_estimates`.

    Parameters
    ----------
    variables : the weights. Default: all whose role is "weight".
    levels : most levels of the weight.
    domains : keep totals within: combinations of these variables, such as region. Levels are the
        same everywhere, so they do not give a domain away.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"w": [1.13, 1.94, 1.27, 2.86, 2.51, 1.78, 1.66, 2.05] * 4})
    >>> data = sf.Dataset(frame, sf.Schema({"w": "weight"}))
    >>> released = Weights(levels=3).apply(data, key=bytes(32)).frame["w"]
    >>> released.n_unique(), abs(released.sum() - frame["w"].sum()) < 2
    (3, True)

    References: Willenborg & de Waal (2001), Elements of Statistical Disclosure Control, section 5.7
    (sampling weights); Rosén (1997), On sampling with probability proportional to size, J.
    Statistical Planning and Inference 62:159; Ohlsson (1995), Coordination of samples using
    permanent random numbers.
    """

    name = "weights"
    runs_on = ("local", "streaming", "spark")
    odd = {"empty": "refused", "all missing": "refused"}
    examples = ({}, {"levels": 4, "domains": ["region"]})
    keyed = True
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    levels: Annotated[int, Field(ge=2, le=100)] = 6
    domains: list[str] = Field(default_factory=list)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The weights."""
        return tuple(self.variables) if self.variables is not None else schema.having("weight")

    def by(self, schema: Schema) -> tuple[str, ...]:
        """The domains."""
        del schema
        return tuple(self.domains)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The weights and the domains, and whose they are."""
        named = (*self.touches(schema), *self.domains)
        return (*named, *(name for name in schema.having("person", "cluster") if name not in named))

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Find the levels of each weight."""
        names = self.touches(data.schema)
        if not names:
            raise MethodError(
                "There is no weight to round.",
                hint='give a variable the role "weight", or name it in `variables`.',
            )
        data.schema.require([*names, *self.domains])
        require_numbers(data, names, "Rounding weights", dates=False, engine=engine)
        shares = np.linspace(_OUTER, 1 - _OUTER, self.levels)
        wanted: dict[str, list[Summary]] = {
            name: [Minimum(), *(Quantile(float(share)) for share in shares)] for name in names
        }
        quantiles = engine.aggregate(data, wanted)
        fitted = {name: {"levels": _choose_levels(name, quantiles[name])} for name in names}
        return mark_constant(fitted, data, engine, strata=self.domains)

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Which weights, and that they were rounded at random. The file shows the levels."""
        described = {"method": self.name, "variables": list(fitted), "domains": list(self.domains)}
        return described | list_once(fitted)

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """The levels and the domains: around other levels, weights are rounded anew."""
        return {
            name: {
                "method": self.name,
                "levels": fit["levels"],
                "domains": list(self.domains),
                **describe_draws_by(fit),
            }
            for name, fit in fitted.items()
        }

    def groups(
        self, batch: pl.DataFrame, starts: Starts, fitted: Fitted, draws: Draws | None
    ) -> pl.DataFrame:
        """Round the weights of some domains."""
        draws = require_draws(draws, "Rounding weights")
        return pl.DataFrame(
            [
                _round_weights(
                    batch[name],
                    np.array(fitted[name]["levels"]),
                    starts,
                    batch.select(self.domains),
                    draw_for_variable(draws, batch, fitted[name].get(BY_PERSON)),
                )
                for name in fitted
            ]
        )


def _choose_levels(name: str, quantiles: dict[str, float]) -> list[float]:
    least, *values = quantiles.values()
    if any(math.isnan(value) for value in values):
        raise MethodError(f"Variable '{name}' has no weights.", hint="leave it out.")
    if least <= 0:
        raise MethodError(
            f"Variable '{name}' has weights of 0 or below.",
            hint="is it a weight? Give it another role, or remove these records.",
        )
    # Two digits for the smallest step as well, where all weights are large and close together.
    size = max(values) - min(values) or max(values)
    digits = _DIGITS - 1 - math.floor(math.log10(size))
    return sorted({round(value, digits) for value in values})


def _round_weights(
    values: pl.Series, levels: Floats, starts: Starts, domains: pl.DataFrame, draws: Draws
) -> pl.Series:
    exact = values.cast(pl.Float64).fill_null(math.nan).to_numpy()
    known = ~np.isnan(exact)
    clipped = np.clip(exact, levels[0], levels[-1])
    if len(levels) == 1:
        released = np.where(known, levels[0], math.nan)
        return pl.Series(values.name, released).fill_nan(None)
    step = np.clip(np.searchsorted(levels, clipped, side="right") - 1, 0, len(levels) - 2)
    share = (clipped - levels[step]) / (levels[step + 1] - levels[step])
    domain = np.searchsorted(starts, np.arange(len(exact)), side="right") - 1
    # Draws that belong to the record and its weight, and others that belong to the group's name:
    # who comes or goes changes neither.
    chance = draws.lasting(values.name, "weights", exact)
    spare = _draw_for_groups(values.name, domains, levels[step], draws)
    up = _round_by_order(share, domain * len(levels) + step, chance, spare, known)
    released = np.where(known, levels[step + up], math.nan)
    return pl.Series(values.name, released).fill_nan(None)


def _draw_for_groups(name: str, domains: pl.DataFrame, level: Floats, draws: Draws) -> Floats:
    """A number from 0 to 1 for each combination of domain and level, the same for all its records.

    It decides whether a sum of shares goes up to a whole number, more often the nearer it is.
    """
    labels = [pl.Series("level", level), *domains]
    subkey = draws.key.subkey("totals of rounded weights", fold_name(name))
    words = encrypt(digest(labels), subkey)[:, 0]
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _round_by_order(
    share: Floats, group: Integers, chance: Floats, spare: Floats, known: Mask
) -> Positions:
    """1 where a weight goes up: within a group as many as the shares add up to.

    Pareto sampling (Rosén 1997) with permanent random numbers (Ohlsson 1995): records are put in
    the order of odds of their draw to odds of their share, and the first ones go up. Somebody more
    or less shifts the end of those by one place.
    """
    up = np.zeros(len(share), np.intp)
    rows = np.flatnonzero(known)
    with np.errstate(divide="ignore"):
        ratio = chance / (1 - chance) * (1 - share) / share
    rows = rows[np.lexsort((chance[rows], ratio[rows], group[rows]))]
    if not len(rows):
        return up
    first = np.flatnonzero(np.diff(group[rows], prepend=-1))
    # Added up in that order, so that the sum does not depend on the order of the file.
    sums = np.add.reduceat(share[rows], first)
    ends = first + np.floor(sums + spare[rows[first]]).astype(np.intp)
    sizes = np.diff([*first, len(rows)])
    # Rows of one person have one draw, and go up together.
    ranks = np.arange(len(rows))
    begins = np.diff(chance[rows], prepend=-1) != 0
    begins[first] = True
    ranks = np.maximum.accumulate(np.where(begins, ranks, 0))
    up[rows] = ranks < np.repeat(ends, sizes)
    return up
