"""How well a secret can be guessed from the release, beyond what people alike give away."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.confidential import confidential_variables
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Positions
from sfumato.measure import Measure
from sfumato.parameters import parameters
from sfumato.risk._attacks.inferring import Persons, by_guess, inferred
from sfumato.risk._attacks.nearness import picked
from sfumato.risk._attacks.outcomes import mean_of
from sfumato.risk._attacks.sights import Sight, sights
from sfumato.risk._known import known_variables
from sfumato.risk.linkage import wilson

_TWO_SIDED = 1.959963984540054
_FEWEST = 2
_LEFT_OUT = "The control guesses for the same persons, and may not use their own released record."
_OTHERS = "The control guesses for persons who were never in the release."
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
    A category must be hit; a number must lie within `tolerance` standard deviations.

    The baseline is a control: the same guess for the same persons, but without their own released
    record. Inside a measure nobody can be held out before protection, so this stands in for it:
    the others' records were made with the person's among them. With persons who were never in the
    release, use `against`. The value is the rate for the secret with the largest gain, and
    `inference_gain` the rate less its control; the interval of the value is Wilson's, 95 %, that
    of the gain a paired normal one. A right guess without gain is a finding about people, not
    about a person.

    Parameters
    ----------
    known : the variables the attacker knows. Default: all whose role is "quasi".
    confidential : the secrets. Default: all whose role is "sensitive".
    tolerance : how near a number must be guessed, in standard deviations of the original.
    nearest : how many released records the guess is made from; equally near ones are added.
    individuals : guess for so many persons at most, picked without pattern.

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
    provides = ("inference_gain",)
    reach = {"attribute_inference": (0.0, 1.0), "inference_gain": (-1.0, 1.0)}  # noqa: RUF012
    known: list[str] | None = None
    confidential: list[str] | None = None
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.05
    nearest: Annotated[int, Field(ge=1)] = 1
    individuals: Annotated[int, Field(ge=2)] = 1000

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """Guess with and without the person's own record."""
        if len(original) < _FEWEST:
            raise MeasureError(
                f"'{self.name}' needs somebody to compare with: at least two records.",
                hint="are these all data?",
            )
        seen, secrets, warnings = self._sights(original, released)
        members = self._members(seen, secrets)
        own, left = self._guessed(seen, secrets, members)
        return self._evidence(original, secrets, members.rows, own, left, (_LEFT_OUT, warnings))

    def against(self, original: Dataset, released: Dataset, control: Dataset) -> Evidence:
        """The same, with persons as the control who were held out before the release was made."""
        if not len(control):
            raise MeasureError("There is nobody in the control.", hint="hold some records out.")
        seen, secrets, warnings = self._sights(original, released)
        members = self._members(seen, secrets)
        own, _ = self._guessed(seen, secrets, members)
        known, truths = ([one.read(control) for one in several] for several in (seen, secrets))
        others = Persons(known, truths, np.arange(len(control)), members=False)
        held_out, _ = self._guessed(seen, secrets, others)
        return self._evidence(original, secrets, members.rows, own, held_out, (_OTHERS, warnings))

    def _sights(
        self, original: Dataset, released: Dataset
    ) -> tuple[list[Sight], list[Sight], tuple[str, ...]]:
        known = known_variables(self.known, original, "original")
        names = confidential_variables(self.confidential, known, original, "original")
        confidential_variables(self.confidential, known, released, "released")
        seen, warnings = sights(original, released, known, owner=self.name)
        secrets, more = sights(original, released, names, owner=self.name)
        return seen, secrets, (*warnings, *more)

    def _members(self, seen: list[Sight], secrets: list[Sight]) -> Persons:
        rows = picked([*seen, *secrets], self.individuals)
        known, truths = ([one.persons for one in several] for several in (seen, secrets))
        return Persons(known, truths, rows, members=True)

    def _guessed(
        self, seen: list[Sight], secrets: list[Sight], persons: Persons
    ) -> tuple[Floats, Floats]:
        return inferred(seen, secrets, persons, nearest=self.nearest, tolerance=self.tolerance)

    def _evidence(
        self,
        original: Dataset,
        secrets: list[Sight],
        rows: Positions,
        own: Floats,
        other: Floats,
        words: tuple[str, tuple[str, ...]],
    ) -> Evidence:
        paired = words[0] is _LEFT_OUT
        table = [
            self._row(one, mine, theirs, paired=paired)
            for one, mine, theirs in zip(secrets, own, other, strict=True)
            if not np.isnan(mine).all() and not np.isnan(theirs).all()
        ]
        if not table:
            raise MeasureError(
                f"'{self.name}' finds nobody whose secret is known.",
                hint="are the confidential variables all missing?",
            )
        worst = max(table, key=lambda row: row["gain"])
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst[self.name],
            interval=(worst["low"], worst["high"]),
            direction=self.direction,
            baseline=worst["control"],
            records=original.like(_records(len(original), rows, secrets, own)),
            table=original.like(pl.DataFrame(table)),
            details={
                "inference_gain": worst["gain"],
                "inference_gain_low": worst["gain_low"],
                "inference_gain_high": worst["gain_high"],
                "worst_secret": worst["variable"],
                "by_guess": worst["by_guess"],
                "targets": len(rows),
                "tolerance": self.tolerance,
                "nearest": self.nearest,
            },
            assumptions=(words[0], *_ASSUMPTIONS),
            warnings=(*words[1], *_told(worst)),
        )

    def _row(self, one: Sight, own: Floats, other: Floats, *, paired: bool) -> dict[str, Any]:
        mine, theirs = own[~np.isnan(own)], other[~np.isnan(other)]
        rate, control = mean_of(mine), mean_of(theirs)
        low, high = wilson(rate, len(mine))
        reach = _TWO_SIDED * _error(mine, theirs, paired=paired)
        return {
            "variable": one.name,
            "persons": len(mine),
            self.name: rate,
            "low": low,
            "high": high,
            "control": control,
            "gain": rate - control,
            "gain_low": max(-1.0, rate - control - reach),
            "gain_high": min(1.0, rate - control + reach),
            "by_guess": by_guess(one, one.persons, self.tolerance),
        }


def _error(own: Floats, other: Floats, *, paired: bool) -> float:
    """The standard error of the difference of two rates."""
    if paired:
        return math.sqrt(_variance(own - other) / len(own))
    return math.sqrt(_variance(own) / len(own) + _variance(other) / len(other))


def _variance(values: Floats) -> float:
    if len(values) < _FEWEST:
        return 0.0
    apart = values - mean_of(values)
    return mean_of(apart * apart) * len(values) / (len(values) - 1)


def _records(count: int, rows: Positions, secrets: list[Sight], own: Floats) -> pl.DataFrame:
    """How likely each secret of each person is guessed; null where that was not tried."""
    columns = {}
    for one, share in zip(secrets, own, strict=True):
        each = np.full(count, np.nan)
        each[rows] = share
        columns[one.name] = pl.Series(each).fill_nan(None)
    return pl.DataFrame(columns)


def _told(worst: dict[str, Any]) -> tuple[str, ...]:
    if not worst["gain_low"] > 0:
        return ()
    told = (
        f"'{worst['variable']}' is guessed right for {worst['attribute_inference']:.1%} of the "
        f"persons, without their own record for {worst['control']:.1%}: being in the release "
        "gives it away."
    )
    return (told,)
