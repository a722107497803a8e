"""Blur numbers by the centre of the k nearest records: paper 000."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, cast

import polars as pl
from pydantic import Field, model_validator

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine, engine_for
from sfumato.errors import MethodError, WeakProtectionWarning
from sfumato.method import Fitted, Method, Strength, is_integer, require_numbers
from sfumato.methods._publishing.digits import fit_steps, round_like_original
from sfumato.methods._strata.centres import (
    GAP,
    MoveSettings,
    PreparedRecords,
    Stages,
    choose_k,
    find_centres,
    fit_spread,
    fit_weights,
    move_elsewhere,
    move_records,
)
from sfumato.methods._strata.imputation import (
    Guess,
    fill_missing,
    fit_fills,
    impute_by_model,
    impute_categories,
    mark_missing,
    refuse_empty,
    refuse_missing,
    require_within_domain,
    resolve_missing_codes,
    take_complete,
    take_records,
)
from sfumato.methods._strata.strata import (
    Merged,
    find_large_strata,
    merge_small_strata,
    rename_levels,
    require_large,
)
from sfumato.methods.persons import refuse_persons
from sfumato.parameters import parameters
from sfumato.schema import Schema

Share = Annotated[float, Field(ge=0, lt=1)]
_PAIRS = 2
_GUESSES = ("distribution", "model")
_FINE = 10_000
"""Steps of a standard deviation: with 100, rounding brought 8 times as many records back."""
_WEAK = (
    "k = 2: anyone who knows one of two records, and the mean and variance of their neighbours, "
    "can work out the other. Take k = 3 or more."
)


@parameters
class Deterministic(Method):
    """Replace the numbers of each record by the centre of itself and its nearest neighbours.

    Question: how can measured numbers be blurred while means, spreads and relations stay?
    Assumes: what hides a person is the distance to the neighbours. Where records lie close
    together they hardly move: state `at_most`, and set a target on `stayed`.

    The numbers are standardised. Within each stratum (records with the same categories) a record
    becomes the mean of itself and its k - 1 nearest. Then every variable is stretched back to
    its original spread. Nothing is random: the same data give the same release.

    Parameters
    ----------
    variables : the numbers to blur, together.
    strata : the categories within which neighbours are sought. They are released as they are.
    k : records that share a centre, the record itself counted.
    pairs : allow k = 2, which protects little.
    distance : kind of distance: "euclidean" on standardised numbers, or "mahalanobis", which takes
        out correlation.
    small : what to do with strata of fewer than k records: "refuse", "suppress" the records, or
        "merge" levels until all are large enough (along the hierarchy, the order, or by likeness).
    missing : what to do with missing numbers: "refuse", "drop" the records, fill in the "median"
        or the "mean", or the mean of several imputations by chained equations ("model").
    missing_strata : what to do with missing categories: "refuse", "drop" the records, take
        missing as a "level" of its own, or fill it in by a draw: from the "distribution" of the
        known ones, or from what a "model" (logistic regression on the numbers and the other
        strata) predicts. What is filled in is released: a gap would be a stratum of its own.
    release_imputed : release filled-in numbers. Otherwise they are missing again in the release.
    bounds : numbers that stretching pushes out of the declared domain: "report" them (see the
        measure displacement), or "keep" them inside, with the mean and the spread of the original
        as far as possible. With `whole`, codes (at most 50 different whole numbers, each shared by
        10 records on average) always stay among the codes.
    whole : keep whole numbers whole, however few. All others are rounded to the original's
        decimals, or to a ten-thousandth of its standard deviation where that is finer: more
        rounding would bring values back that hardly moved.
    at_most : share of records that may stay near their original: within `within` of it, in any one
        variable; what the measure `displacement` calls `stayed`. The smallest k from `k` upwards is
        taken that meets it, up to ten times `k`, and what that costs is said. Refused where a
        stratum would keep fewer than 10 distinct values of a variable (or than a third of those it
        has), or where its mean would move by more than 0.25 standard deviations. Numbers that
        hardly move at any k, such as codes and counts, want noise instead.
    within : distance that counts as near, in standard deviations; for `at_most`.
    k_by : records for which that k is chosen: "all" at once, or each "stratum".

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"sex": list("ffffmmmm"), "age": [30, 31, 35, 60, 41, 45, 49, 70]})
    >>> data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "age": "quasi"}))
    >>> released = Deterministic(variables=["age"], strata=["sex"], k=3, whole=True).apply(data)
    >>> released.frame["age"].to_list()
    [23, 23, 23, 40, 45, 45, 45, 61]

    References: Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in
    sensitive personal data, doi:10.21203/rs.3.rs-344334/v1.
    """

    name = "deterministic"
    keeps_groups = False
    strength = Strength("k")
    preserves = ("centres",)
    runs_on = ("local", "streaming", "spark")
    reports = ("displacement",)
    odd = {
        "empty": "refused",
        "one row": "refused",
        "all missing": "refused",
        "constant": "refused",
    }
    examples = (
        {"variables": ["height", "weight_kg"], "strata": ["sex"], "k": 5, "missing": "median"},
        {
            "variables": ["systolic", "glucose", "hdl"],
            "strata": ["sex", "smoking"],
            "k": 4,
            "small": "merge",
            "missing": "mean",
            "missing_strata": "level",
            "distance": "mahalanobis",
            "release_imputed": True,
            "bounds": "keep",
            "whole": True,
        },
        {
            "variables": ["height"],
            "strata": ["region"],
            "missing": "median",
            "missing_strata": "model",
            "small": "merge",
            "at_most": 0.6,
            "k_by": "stratum",
        },
    )
    variables: Annotated[list[str], Field(min_length=1)]
    strata: list[str] = Field(default_factory=list)
    k: Annotated[int, Field(ge=2)] = 3
    pairs: bool = False
    distance: Literal["euclidean", "mahalanobis"] = "euclidean"
    small: Literal["refuse", "suppress", "merge"] = "refuse"
    missing: Literal["refuse", "drop", "median", "mean", "model"] = "refuse"
    missing_strata: Literal["refuse", "drop", "level", "distribution", "model"] = "refuse"
    release_imputed: bool = False
    bounds: Literal["report", "keep"] = "report"
    whole: bool = False
    at_most: Share | None = None
    within: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    k_by: Literal["all", "stratum"] = "all"

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if self.k == _PAIRS and not self.pairs:
            msg = "k = 2 protects little; take 3 or more, or say pairs = true."
            raise ValueError(msg)
        if self.k_by == "stratum" and self.at_most is None:
            msg = "k_by chooses how k is found for at_most; give at_most too."
            raise ValueError(msg)
        both = set(self.variables) & set(self.strata)
        if both:
            msg = f"'{min(both)}' cannot be both blurred and a stratum."
            raise ValueError(msg)
        return self

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The numbers, and the categories where levels may be joined or filled in."""
        del schema
        changed = self.small == "merge" or self.missing_strata in _GUESSES
        return (*self.variables, *(self.strata if changed else ()))

    def explain_refusal(self, engine: Engine) -> str:
        """A model of gaps, and the k for `at_most`, need all records in memory."""
        del engine
        if self.missing_strata in _GUESSES:
            return (
                "The deterministic method fills in missing categories only where one machine holds "
                'the records in memory; say missing_strata = "level" or "drop".'
            )
        if self.missing != "model" and self.at_most is None:
            return ""
        return (
            'The deterministic method takes missing = "model" and `at_most` only where one machine '
            'holds the records in memory; fill in the "median" or the "mean", and name the k that '
            "a sample suggests."
        )

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Decide what is filled in, which levels are merged, and k."""
        refuse_persons(
            data,
            "The deterministic method takes the nearest rows for other people: it",
            hint="keep one row of each person (`thin_rows`), or use `k_anonymity` or `noise`.",
        )
        if self.k == _PAIRS:
            warnings.warn(_WEAK, WeakProtectionWarning, stacklevel=3)
        self._check(data, engine)
        complete = self._take_usable(data, engine)
        filling = {}
        if self.missing in ("median", "mean"):
            filling = fit_fills(complete, self.variables, self.missing, engine)
        full = self._impute(complete, filling, engine)
        merged = {}
        if self.small == "merge":
            spread = fit_spread(full, self.variables, engine)
            merged = merge_small_strata(full, self.strata, spread, self.k, engine)
        records = self._prepare(data, {"fill": filling, "joined": merged}, engine)
        spread = fit_spread(records.full, self.variables, engine)
        fitted: dict[str, Any] = {
            "fill": filling,
            "joined": merged,
            "spread": spread,
            "weights": fit_weights(records.full, spread, self.distance, engine),
            # Finer than the distance at which a record counts as moved, or it would be undone.
            "steps": fit_steps(data, self.variables, engine, steps=_FINE),
            "incomplete": engine.count(data) - engine.count(complete),
            "suppressed": engine.count(complete) - engine.count(records.full),
        }
        return {**fitted, **choose_k(records, self._settings(fitted), engine)}

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Move every record, then check that the strata are as large as promised."""
        del chance
        records = self._prepare(data, fitted, engine)
        # Means of whole numbers are not whole, unless they are rounded.
        integers = [name for name in self.variables if is_integer(records.original, name)]
        broken = [] if self.whole else integers
        schema = records.original.schema.changed(broken, kind="continuous").changed(
            fitted["joined"], kind="nominal", domain=None, hierarchy=None
        )
        settings = self._settings(fitted)
        if records.elsewhere:
            moved = move_elsewhere(records, settings, fitted["k"], engine)
            released = replace(moved, schema=schema)
        else:
            values = move_records(records, settings, fitted["k"], engine)
            strata = [records.full.column(name) for name in fitted["joined"]]
            released = records.original.with_columns(pl.DataFrame([*values, *strata]), schema)
        released = round_like_original(data, released, self.variables, engine, steps=_FINE)
        schema = released.schema
        # A promise is checked on what leaves, not on what was planned.
        require_large(released, self.strata, self.k, engine)
        # Codes for "missing" in the strata are released as they are, so they keep their meaning.
        coded = {
            name: replace(schema[name], missing=data.schema[name].missing)
            for name in self.strata
            if name not in fitted["joined"]
        }
        return replace(released, schema=schema.with_columns(coded))

    def stages(self, data: Dataset) -> Stages:
        """The values after each step, for a picture. They show the original: keep them inside."""
        engine = engine_for(data.frame)
        fitted = self.fit(data, engine)
        records = self._prepare(data, fitted, engine)
        settings = self._settings(fitted)
        return Stages(
            variables=tuple(self.variables),
            strata=records.slim.batch(self.strata),
            original=records.slim.batch(self.variables),
            centres=find_centres(records, settings, fitted["k"], engine).batch(self.variables),
            released=pl.DataFrame(move_records(records, settings, fitted["k"], engine)),
        )

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter, with the k that was chosen and the levels that were merged."""
        described = super().public(fitted)
        if self.at_most is not None:
            sizes = [row[-1] for row in fitted["k"]["strata"]] or [fitted["k"]["all"]]
            described["k"] = min(sizes) if min(sizes) == max(sizes) else [min(sizes), max(sizes)]
        if fitted["joined"]:
            described["joined"] = {
                name: _list_merged_levels(levels) for name, levels in fitted["joined"].items()
            }
        return described

    def _check(self, data: Dataset, engine: Engine) -> None:
        data.schema.require([*self.variables, *self.strata])
        refuse_empty(data, self.variables, engine)
        require_numbers(
            data, tuple(self.variables), "The deterministic method", dates=False, engine=engine
        )
        if not engine.count(data):
            raise MethodError("There is no record to protect.", hint="is it the right file?")
        if self.bounds == "keep":
            require_within_domain(data, self.variables, engine)
        if self.missing == "refuse":
            hint = 'say what to do: missing = "drop", "median", "mean" or "model".'
            refuse_missing(data, self.variables, engine, hint=hint)
        if self.missing_strata == "refuse":
            hint = 'say what to do: missing_strata = "drop", "level", "distribution" or "model".'
            refuse_missing(data, self.strata, engine, hint=hint)

    def _take_usable(self, data: Dataset, engine: Engine) -> Dataset:
        """The records that are not dropped for missing values, with those values in view."""
        names = [
            *(self.variables if self.missing == "drop" else ()),
            *(self.strata if self.missing_strata == "drop" else ()),
        ]
        usable = take_complete(data, names, engine) if names else data
        if self.missing_strata in _GUESSES:
            how = cast("Guess", self.missing_strata)
            usable = impute_categories(usable, self.strata, how, self.variables)
        return resolve_missing_codes(usable, self.variables, self.strata, engine)

    def _impute(self, records: Dataset, filling: dict[str, float], engine: Engine) -> Dataset:
        if not engine.in_memory:
            return mark_missing(records, self.variables, filling, GAP, engine)
        if self.missing == "model":
            return impute_by_model(records, self.variables, self.strata)
        return fill_missing(records, filling)

    def _prepare(self, data: Dataset, fitted: Fitted, engine: Engine) -> PreparedRecords:
        """The records that will be released: with their gaps, and without."""
        original = self._take_usable(data, engine)
        full = self._impute(original, fitted["fill"], engine)
        merged = fitted["joined"]
        if merged:
            full = self._rename(full, merged, engine)
        if self.small == "suppress":
            is_large = find_large_strata(full, self.strata, self.k, engine)
            original, full = (
                take_records(records, is_large, self.strata, engine) for records in (original, full)
            )
            if not engine.count(full):
                raise MethodError(
                    f"Every stratum of {', '.join(self.strata)} has fewer than k = {self.k} "
                    "records.",
                    hint="use fewer variables in `strata`, or a smaller k.",
                )
        else:
            require_large(full, self.strata, self.k, engine)
        return PreparedRecords(
            original=original,
            full=full,
            variables=tuple(self.variables),
            by=tuple(self.strata),
            codes={name: data.schema[name].missing for name in self.variables},
            elsewhere=not engine.in_memory,
        )

    def _rename(self, data: Dataset, merged: Merged, engine: Engine) -> Dataset:
        """The records with levels under their new names."""

        def rename(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
            del draws
            return pl.DataFrame(
                [rename_levels(batch[name], levels) for name, levels in merged.items()]
            )

        renamed = engine.map_rows(data, rename, reads=list(merged))
        schema = data.schema.changed(merged, kind="nominal", domain=None, hierarchy=None)
        return replace(renamed, schema=schema)

    def _settings(self, fitted: Fitted) -> MoveSettings:
        return MoveSettings(
            k=self.k,
            spread=fitted["spread"],
            weights=fitted["weights"],
            within_bounds=self.bounds == "keep",
            round_integers=self.whole,
            steps=fitted.get("steps", {}),
            keep_gaps=not self.release_imputed,
            at_most=self.at_most,
            within=self.within,
            by_stratum=self.k_by == "stratum",
        )


def _list_merged_levels(levels: Sequence[tuple[str | None, str]]) -> list[str]:
    """The names of levels that stand for more than one."""
    names = Counter(name for _, name in levels)
    return sorted(name for name, count in names.items() if count > 1)
