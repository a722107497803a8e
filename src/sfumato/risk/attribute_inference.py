"""How well a secret can be guessed from the release, beyond what people alike give away."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.confidential import select_confidential
from sfumato.cells.same_values import unite_texts
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import AT_WORST, AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk.attacks.attacker_view import (
    OrderedView,
    VariableView,
    sample_units,
    view_release,
)
from sfumato.risk.attacks.inference import (
    SecretOwners,
    find_averaged_classes,
    infer_secrets,
    rate_of_best_guess,
)
from sfumato.risk.attacks.outcomes import bound_share, mean_of
from sfumato.risk.known import known_variables, require_records
from sfumato.units import COUNTS_PERSONS, Units

_TWO_SIDED = 1.959963984540054
_FEWEST = 2
_GROUP = 20
"""Fewest persons of a group whose gain is looked at by itself."""
_PARTS = 5
"""Groups of a number: so many parts of its values, as large as each other."""
_TAIL = 0.025
_LEAST_SPREAD = 0.01
"""A variance that a group has at least: of few persons all may gain the same by chance."""
_LEFT_OUT = (
    "The control guesses for the same persons, and may not use their own released record. Where a "
    "secret was averaged over a class, it may use none of the class: all its records show what the "
    "own one contributed to."
)
_OTHERS = "The control guesses for persons who were never in the release."
_BY_ROWS = (
    "The control may use no row of the person. The gain is that of the best row of each person, or "
    "of all their rows on average, whichever is larger."
)
_ASSUMPTIONS = (
    "The guess is the most frequent category of the nearest released records, or their median.",
    "A record that shows several values, or none, gives no category away.",
)


@parameters
class AttributeInference(Measure):
    """Share of persons whose secret is guessed right by whoever knows them otherwise.

    Question: does being in the release give a person's secret away, beyond what can be said of
    anybody like them?
    Assumes: the attacker knows `known` exactly, looks for the nearest released records (in
    numbers, categories and ranges together, as `mixed_linkage`) and guesses the secret from them.
    A category must be hit; a number must lie within `tolerance` standard deviations. Where secrets
    are spelt in several ways, targets are checked against the worse of hitting the spelling and of
    hitting the value.

    The baseline is a control: the same guess for the same persons, but without their own released
    record. Where a secret was averaged over classes (a mean, a mode, a range in all k records), the
    control leaves out the whole class: k - 1 copies of a record would say what it says. `averaged`
    names these secrets. Inside a measure nobody can be held out before protection, so this stands
    in for it: the others' records were made with the person's among them. With persons who were
    never in the release, use `against`. The value is the rate for the secret with the largest gain,
    and `inference_gain` the rate less its control; the interval of the value is Wilson's, 95 %,
    that of the gain a paired normal one. A mean over all may hide what is given away of few: the
    gain is also taken for those who have each category, or a fifth of the numbers, where these are
    20 at least; `worst_group_gain` is the lower end of its interval for the worst-off group, with a
    margin for their number. Targets on the gain are held against it too. A right guess without gain
    is a finding about people, not about a person. Targets are checked against the better of two
    attackers: the other one knows how values were changed, and weighs what is known by it
    (`…_by_noise`), as in `mixed_linkage`.

    Parameters
    ----------
    known : the variables the attacker knows. Default: all whose role is "quasi".
    confidential : the variables nobody should learn. Default: all whose role is "sensitive".
    tolerance : how near a number must be guessed: in standard deviations of the original.
    nearest : released records that a guess is made from; equally near ones are added.
    individuals : most persons guessed for, picked without pattern. A target is then held against
        the upper end of the interval, so that one of 0 takes all persons.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi", "ill": "sensitive"})
    >>> frame = pl.DataFrame({"age": [30, 31, 50, 51], "ill": ["no", "yes", "no", "no"]})
    >>> data = sf.Dataset(frame, schema)
    >>> found = AttributeInference().measure(data, data)
    >>> found.value, found.baseline, found.details["inference_gain"]
    (1.0, 0.5, 0.5)

    References: Giomi, Boenisch, Wehmeyer & Tasnádi (2023), A unified framework for quantifying
    privacy risk in synthetic data, PoPETs 2023:312.
    """

    name = "attribute_inference"
    attack = AttackWording(
        title="Guessing a secret",
        control="without that person's record",
        sentence="Somebody who knows everything else about a person guesses '{worst_secret}' "
        "correctly for {success} of the people, and for {control} without help from that person's "
        "own record.",
    )
    trial = Trial(
        needs=("quasi", "sensitive"),
        number="inference_gain",
        acceptable="by k",
        # 43 % against a control of 23 % at k = 5 is within the limit, and no good news.
        unremarkable_share=0.7,
        seconds=9.0,
        looks_for="individuals",
    )
    examples = (
        {},
        {
            "known": ["sex", "region", "height"],
            "confidential": ["diagnosis", "income"],
            "nearest": 3,
            "individuals": 60,
        },
    )
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("attribute_inference"),
        Number.share("inference_gain", lowest=-1.0),
    )
    known: list[str] | None = None
    confidential: list[str] | None = None
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.05
    nearest: Annotated[int, Field(ge=1)] = 1
    individuals: Annotated[int, Field(ge=2)] = 1000

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Guess with and without the person's own record."""
        del engine  # all records are in memory
        if len(original) < _FEWEST:
            raise MeasureError(
                f"'{self.name}' needs somebody to compare with: at least two records.",
                hint="are these all the data?",
            )
        evidence = self._guess(original, released)
        united, warnings = self._unite_spellings(original, released)
        if not united:
            return evidence
        again = self._guess(
            original.with_columns(pl.DataFrame([values for values, _ in united])),
            released.with_columns(pl.DataFrame([values for _, values in united])),
        )
        judged = [f"{number}{AT_WORST}" for number in (self.name, "inference_gain")]
        worst = {name: max(evidence.details[name], again.details[name]) for name in judged}
        return replace(
            evidence,
            details={**evidence.details, **worst},
            warnings=(*evidence.warnings, *warnings),
        )

    def _unite_spellings(
        self, original: Dataset, released: Dataset
    ) -> tuple[list[tuple[pl.Series, pl.Series]], list[str]]:
        """The secrets of both with one spelling for each value, where there are several."""
        require_records(len(original))
        known = known_variables(self.known, original, "original")
        united, warnings = [], []
        for name in select_confidential(self.confidential, known, original, "original"):
            if name not in released.columns or released.schema[name].generalised:
                continue
            values, now = original.column(name), released.column(name)
            if values.dtype != pl.String or now.dtype != pl.String:
                continue
            spellings = unite_texts(pl.concat([values, now]), original.schema[name])
            if spellings:
                united.append((values.replace(spellings), now.replace(spellings)))
                warnings.append(
                    f"'{name}' has {len(spellings)} spellings of values that are written in "
                    "another way too. Targets are checked against guessing the value."
                )
        return united, warnings

    def _guess(self, original: Dataset, released: Dataset) -> Evidence:
        views, secrets, warnings = self._view(original, released)
        members = self._members(views, secrets, original.units)
        by_distance, by_noise = (
            self._evidence(
                original,
                secrets,
                members,
                *self._infer(views, secrets, members, by_noise=weighs),
                (_LEFT_OUT, warnings),
            )
            for weighs in (False, True)
        )
        evidence = _hold_against_both(by_distance, by_noise)
        averaged = [secrets[which].name for which in find_averaged_classes(views, secrets)]
        if not averaged:
            return evidence
        return replace(evidence, details={**evidence.details, "averaged": tuple(averaged)})

    def against(self, original: Dataset, released: Dataset, control: Dataset) -> Evidence:
        """The same, with persons as the control who were held out before the release was made."""
        if not len(control):
            raise MeasureError("There is nobody in the control.", hint="hold some records out.")
        views, secrets, warnings = self._view(original, released)
        members = self._members(views, secrets, original.units)
        known, truths = ([view.read(control) for view in group] for group in (views, secrets))
        others = SecretOwners(
            known, truths, np.arange(len(control)), members=False, units=Units(len(control))
        )
        by_distance, by_noise = (
            self._evidence(
                original,
                secrets,
                members,
                self._infer(views, secrets, members, by_noise=weighs)[0],
                self._infer(views, secrets, others, by_noise=weighs)[0],
                (_OTHERS, warnings),
            )
            for weighs in (False, True)
        )
        return _hold_against_both(by_distance, by_noise)

    def _view(
        self, original: Dataset, released: Dataset
    ) -> tuple[list[VariableView], list[VariableView], tuple[str, ...]]:
        known = known_variables(self.known, original, "original")
        names = select_confidential(self.confidential, known, original, "original")
        select_confidential(self.confidential, known, released, "released")
        views, warnings = view_release(original, released, known, owner=self.name)
        secrets, more = view_release(original, released, names, owner=self.name)
        return views, secrets, (*warnings, *more)

    def _members(
        self, views: list[VariableView], secrets: list[VariableView], units: Units
    ) -> SecretOwners:
        rows = sample_units([*views, *secrets], units, self.individuals)
        known, truths = ([view.persons for view in group] for group in (views, secrets))
        return SecretOwners(known, truths, rows, members=True, units=units)

    def _infer(
        self,
        views: list[VariableView],
        secrets: list[VariableView],
        persons: SecretOwners,
        *,
        by_noise: bool,
    ) -> tuple[Floats, Floats]:
        return infer_secrets(
            views,
            secrets,
            persons,
            nearest=self.nearest,
            tolerance=self.tolerance,
            by_noise=by_noise,
        )

    def _evidence(
        self,
        original: Dataset,
        secrets: list[VariableView],
        members: SecretOwners,
        rates: Floats,
        controls: Floats,
        texts: tuple[str, tuple[str, ...]],
    ) -> Evidence:
        paired = texts[0] is _LEFT_OUT
        rows, total = members.rows, members.units.count
        targets = members.units.take(rows)
        count = targets.count
        table = [
            self._row(view, mine, theirs, total, targets, rows, paired=paired)
            for view, mine, theirs in zip(secrets, rates, controls, strict=True)
            if not np.isnan(mine).all() and not np.isnan(theirs).all()
        ]
        if not table:
            raise MeasureError(
                f"'{self.name}' finds nobody whose secret is known, or nobody to compare with: in "
                "each secret all released records may be one averaged class.",
                hint="are the secrets all missing? Else hold persons out, and use `against`.",
            )
        worst = max(table, key=lambda row: row["gain"])
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst[self.name],
            interval=(worst["low"], worst["high"]),
            direction=self.direction,
            baseline=worst["control"],
            records=original.like(_records(len(original), rows, secrets, rates)),
            table=original.like(pl.DataFrame(table)),
            sampled=(count, total) if count < total else None,
            details={
                "inference_gain": worst["gain"],
                "inference_gain_low": worst["gain_low"],
                # Of a sample, that of the secret whose gain may be largest among all persons.
                "inference_gain_high": max(row["gain_high"] for row in table)
                if count < total
                else worst["gain_high"],
                "worst_group_gain": max(
                    (row["group_gain_low"] for row in table if row["group_gain_low"] > 0),
                    default=0.0,
                ),
                "worst_secret": worst["variable"],
                "by_guess": worst["by_guess"],
                "targets": count,
                "tolerance": self.tolerance,
                "nearest": self.nearest,
            },
            assumptions=(
                texts[0],
                *targets.describe(COUNTS_PERSONS, _BY_ROWS),
                *_ASSUMPTIONS,
            ),
            warnings=(*texts[1], *_list_warnings(worst)),
        )

    def _row(
        self,
        view: VariableView,
        rates: Floats,
        controls: Floats,
        total: int,
        units: Units,
        rows: Positions,
        *,
        paired: bool,
    ) -> dict[str, Any]:
        of_rows = rates, controls
        rates = units.reduce(np.fmax, rates)
        controls = units.reduce(np.fmax, controls) if paired else controls
        mine, theirs = rates[~np.isnan(rates)], controls[~np.isnan(controls)]
        rate, control = mean_of(mine), mean_of(theirs)
        # Of those whose secret is not known nobody can say whether it would be guessed.
        persons = total - len(rates) + len(mine)
        low, high = bound_share(exact_sum(mine), len(mine), persons)
        # A normal interval: paired where the control guesses for the same persons.
        reach = _TWO_SIDED * _error(mine, theirs, paired=paired)
        # Where the sample shows no gain at all, those who were not drawn may have one.
        beyond = rate - control
        if len(mine) < persons and not reach:
            beyond += bound_share(0.0, len(mine), persons)[1]
        gain = rate - control
        if paired and not units.one_row_each:
            # With many rows somebody else's best guess is right too: that must not hide the gain.
            known = ~np.isnan(of_rows[0]) & ~np.isnan(of_rows[1])
            by_row = units.take(known).average((of_rows[0] - of_rows[1])[known])
            gain = max(gain, mean_of(by_row)) if len(by_row) else gain
        return {
            "variable": view.name,
            "persons": len(mine),
            self.name: rate,
            "low": low,
            "high": high,
            "control": control,
            "gain": gain,
            "gain_low": max(-1.0, gain - reach),
            "gain_high": min(1.0, max(gain + reach, beyond)),
            **self._judge_groups(view, (rates, controls), units, rows, paired=paired),
            "by_guess": rate_of_best_guess(view, view.persons, self.tolerance),
        }

    def _judge_groups(
        self,
        view: VariableView,
        arms: tuple[Floats, Floats],
        units: Units,
        rows: Positions,
        *,
        paired: bool,
    ) -> dict[str, float]:
        """The gain for those who have the secret that is given away most, and its lower end.

        Groups are the levels of a category, and parts of a number. The lower end holds for all
        groups together: the worst of many is far out by chance. Of persons with several rows nobody
        can say which group they are in.
        """
        nobody = {"group_gain": math.nan, "group_gain_low": math.nan}
        if not paired or not units.one_row_each:
            return nobody
        gains = arms[0] - arms[1]
        known = ~np.isnan(gains)
        groups = _number_groups(view, rows)[known]
        gains = gains[known]
        members = [gains[groups == group] for group in np.unique(groups)]
        members = [group for group in members if len(group) >= _GROUP]
        if not members:
            return nobody
        reach = NormalDist().inv_cdf(1 - _TAIL / len(members))
        lows = [
            mean_of(group) - reach * math.sqrt(max(_variance(group), _LEAST_SPREAD) / len(group))
            for group in members
        ]
        worst = int(np.argmax(lows))
        return {"group_gain": mean_of(members[worst]), "group_gain_low": lows[worst]}


def _number_groups(view: VariableView, rows: Positions) -> Integers:
    """The group of each person by their own secret; -1 where it is not known."""
    truth = view.persons[rows]
    groups = np.full(len(truth), -1, np.int64)
    known = ~np.isnan(truth)
    if isinstance(view, OrderedView) and len(np.unique(truth[known])) > _PARTS:
        cuts = np.quantile(truth[known], np.arange(1, _PARTS) / _PARTS)
        groups[known] = np.searchsorted(cuts, truth[known], side="left")
    else:
        groups[known] = np.unique(truth[known], return_inverse=True)[1].ravel()
    return groups


def _hold_against_both(by_distance: Evidence, by_noise: Evidence) -> Evidence:
    """The evidence of the plain attacker, with what targets see: the better one of both."""
    details = {
        "attribute_inference_by_noise": by_noise.value,
        "inference_gain_by_noise": by_noise.details["inference_gain"],
    }
    for name in (by_distance.name, "inference_gain"):
        numbers = []
        for evidence in (by_distance, by_noise):
            ends = evidence.interval_of(name) or (0.0, 0.0)
            # Of a sample the bad end of the interval counts.
            numbers.append(evidence.number(name) if evidence.sampled is None else ends[1])
            if name == "inference_gain":
                # What is given away of few may hide in the mean of all.
                numbers.append(evidence.details["worst_group_gain"])
        details[f"{name}{AT_WORST}"] = max(numbers)
    return replace(by_distance, details={**by_distance.details, **details})


def _error(rates: Floats, controls: Floats, *, paired: bool) -> float:
    """The standard error of the difference of two rates."""
    if paired:
        return math.sqrt(_variance(rates - controls) / len(rates))
    return math.sqrt(_variance(rates) / len(rates) + _variance(controls) / len(controls))


def _variance(values: Floats) -> float:
    if len(values) < _FEWEST:
        return 0.0
    apart = values - mean_of(values)
    return mean_of(apart * apart) * len(values) / (len(values) - 1)


def _records(
    count: int, rows: Positions, secrets: list[VariableView], rates: Floats
) -> pl.DataFrame:
    """How likely each secret of each person is guessed; null where that was not tried."""
    columns = {}
    for view, share in zip(secrets, rates, strict=True):
        column = np.full(count, np.nan)
        column[rows] = share
        columns[view.name] = pl.Series(column).fill_nan(None)
    return pl.DataFrame(columns)


def _list_warnings(worst: dict[str, Any]) -> tuple[str, ...]:
    if not worst["gain_low"] > 0:
        return ()
    warning = (
        f"'{worst['variable']}' is guessed right for {worst['attribute_inference']:.1%} of the "
        f"persons, without their own record for {worst['control']:.1%}: being in the release "
        "gives it away."
    )
    return (warning,)
