"""Whose released values lie close to the original ones, the closer the less they stand out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.orders import order_by_content
from sfumato.measure import AT_WORST, Measure
from sfumato.numbers import Number
from sfumato.pairs.standardisation import StandardisedPair, chance_shifts, standardise_pair
from sfumato.parameters import ParameterError, parameters
from sfumato.units import Units

Finite = Annotated[float, Field(allow_inf_nan=False)]

_SAME = 1e-12
"""Standard deviations apart that are nothing but rounding."""
_NARROW = 0.05
"""The constant that R's function puts before the distance."""

_ASSUMPTIONS = (
    "Record by record, the released data belong to the original.",
    "Each is standardised by its own mean and standard deviation; the original's are beside it.",
    "How much a person stands out follows from the robust covariance (MCD) of complete records.",
)
_READING = {
    "sdcmicro": "At risk is who lies inside the interval in any variable; its half-width is "
    "w1 · 0.05 · the robust distance from the mean.",
    "paper": "At risk is who lies inside the interval in all variables; its half-width is w1 · "
    "the squared robust distance from the mean.",
}

_MATTERS = 1.1
"""Counts on the two scales that differ by less are not worth a warning; both are reported."""


@parameters
class Mahalanobis(Measure):
    """Share of records released so close to their original that they could be recognised.

    Question: who is hardly moved, and has nobody near to be mistaken for?
    Assumes: who stands out needs a wider berth: around each original lies an interval that grows
    with its robust Mahalanobis distance from the mean. A record is at risk (risk1, the value) if
    its released value lies in there; it is unsafe (risk2) if it is at risk and fewer than m other
    released records lie within w2 of it. The baseline is risk1 when records are paired by chance.

    Definition "sdcmicro" is what R's function `dRiskRMD` computes: half-width w1 · 0.05 · distance,
    at risk if inside in any variable. Definition "paper" is how the paper words it: half-width
    w1 · squared distance, at risk if inside in all variables. It leaves open whether w1 scales
    the interval or half of it, and whether exactly m others suffice; read here: half, and they
    do. Both count distances between standardised values.

    Where a person has several rows (role "person"), persons are counted: one is at risk if any of
    their rows is, and unsafe if any such row has fewer than m other persons near.

    Parameters
    ----------
    variables : the numbers to compare. Default: all numbers that are in both data sets.
    definition : definition: "sdcmicro" (comparable with published numbers) or "paper".
    w1 : width of the intervals around the originals.
    w2 : how near another released record must be to be mistaken: in standard deviations.
    m : number of such others that make a record safe.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi", "bmi": "sensitive"})
    >>> age, bmi = [31, 35, 42, 47, 54, 58, 63], [24, 31, 22, 27, 35, 21, 26]
    >>> frame = pl.DataFrame({"age": age, "bmi": bmi})
    >>> original = sf.Dataset(frame, schema)
    >>> Mahalanobis().measure(original, original).value
    1.0
    >>> moved = frame.select(pl.col("age") + pl.Series([0, 2, -2, 3, -3, 1, -1]), pl.col("bmi") * 2)
    >>> found = Mahalanobis().measure(original, sf.Dataset(moved, schema))
    >>> found.details["risk1_records"], found.details["risk1_records_on_original_scale"]
    (7, 1)

    References: Templ & Meindl (2008), Robust statistics meets SDC; R's `sdcMicro::dRiskRMD`;
    Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in sensitive
    personal data.
    """

    name = "mahalanobis"
    picture = "at_risk"
    examples = ({}, {"variables": ["height", "glucose"], "definition": "paper", "m": 2})
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("mahalanobis"),
        Number.share("risk1"),
        Number.count("risk1_records"),
        Number.share("risk2"),
        Number.count("risk2_records"),
        Number.share("risk1_on_original_scale"),
        Number.count("risk1_records_on_original_scale"),
        Number.share("risk2_on_original_scale"),
        Number.count("risk2_records_on_original_scale"),
    )
    variables: list[str] | None = None
    definition: Literal["sdcmicro", "paper"] = "sdcmicro"
    w1: Annotated[Finite, Field(gt=0)] = 0.01
    w2: Annotated[Finite, Field(ge=0)] = 0.05
    m: Annotated[int, Field(ge=1)] = 1

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """See who lies inside the intervals, and who has nobody near."""
        del engine  # all records are in memory
        ready = standardise_pair(original, released, self.variables, owner=self.name)
        unit, units = self._unit(ready.distance), original.units
        on_own_scale = self._judge(ready.original, ready.on_own_scale, unit, units)
        same = ready.on_original_scale is ready.on_own_scale
        on_original_scale = (
            on_own_scale
            if same
            else self._judge(ready.original, ready.on_original_scale, unit, units)
        )
        risks = {
            **self._risks(on_own_scale),
            **self._risks(on_original_scale, "_on_original_scale"),
        }
        risks |= _choose_worst(risks)
        return Evidence(
            name=self.name,
            subject="pair",
            value=risks["risk1"],
            direction=self.direction,
            baseline=self._by_chance(ready, unit, units),
            records=original.like(_records(on_own_scale, on_original_scale)),
            table=original.like(self._table(ready, unit, on_own_scale, on_original_scale)),
            details={
                **risks,
                "records": len(unit),
                **units.details(),
                "comparable_records": on_own_scale.comparable,
                "definition": self.definition,
                "w1": self.w1,
                "w2": self.w2,
                "m": self.m,
                "variables": tuple(ready.names),
            },
            assumptions=(
                *_ASSUMPTIONS,
                _READING[self.definition],
                *units.describe(),
            ),
            warnings=(*ready.warnings, *_warn_of_scales(risks)),
        )

    def curve(
        self,
        original: Dataset,
        released: Dataset,
        *,
        w1: Sequence[float] | None = None,
        w2: Sequence[float] | None = None,
    ) -> pl.DataFrame:
        """Both risks for all pairs of some `w1` and `w2`: columns w1, w2, risk1 and risk2.

        Each data set is on its own scale, as for the value. The covariance is computed once.
        """
        factors = [self.w1] if w1 is None else [float(factor) for factor in w1]
        radii = [self.w2] if w2 is None else [float(factor) for factor in w2]
        for name, values in (("w1", factors), ("w2", radii)):
            if not values or not all(0 <= factor < math.inf for factor in values):
                wrong = "must be some numbers of at least 0."
                raise ParameterError(f"{type(self).__name__}.curve", [(name, wrong)])
        ready = standardise_pair(original, released, self.variables, owner=self.name)
        units = original.units
        critical = self._critical(ready.original, ready.on_own_scale, self._unit(ready.distance))
        distance_to_others = self._distance_to_others(
            critical, ready.on_own_scale, max(factors), max(radii), units
        )
        count = units.count_among(~np.isnan(critical))
        rows = [
            (
                factor,
                radius,
                units.count_among(risky) / count,
                units.count_among(risky & (distance_to_others > radius)) / count,
            )
            for factor in factors
            for risky in [critical <= factor]
            for radius in radii
        ]
        return pl.DataFrame(rows, schema=["w1", "w2", "risk1", "risk2"], orient="row")

    def _unit(self, distance: Floats) -> Floats:
        """Half the width of each record's interval at w1 = 1."""
        return _NARROW * distance if self.definition == "sdcmicro" else distance**2

    def _critical(self, values: Floats, moved: Floats, unit: Floats) -> Floats:
        """The smallest w1 at which each record is at risk; NaN where nothing can be compared."""
        # sdcMicro counts a record at risk if any variable is inside; the paper if all are.
        pick = np.fmin if self.definition == "sdcmicro" else np.fmax  # in any, or in all
        critical = np.full(len(unit), np.nan)
        for before, after in zip(values, moved, strict=True):
            pick(critical, _reach(before, after, unit), out=critical)
        return critical

    def _distance_to_others(
        self, critical: Floats, moved: Floats, w1: float, w2: float, units: Units
    ) -> Floats:
        """How far the m-th nearest other is from those at risk; infinite beyond w2."""
        from sfumato.kernels.trees.nearest_other import distance_to_other

        risky = np.flatnonzero(critical <= w1)
        distance_to_others = np.zeros(len(critical))
        distance_to_others[risky] = distance_to_other(moved, risky, self.m, w2, units)
        return distance_to_others

    def _judge(self, values: Floats, moved: Floats, unit: Floats, units: Units) -> _JudgedRecords:
        critical = self._critical(values, moved, unit)
        distance_to_others = self._distance_to_others(critical, moved, self.w1, self.w2, units)
        at_risk = critical <= self.w1
        unsafe = at_risk & (distance_to_others > self.w2)
        inside_counts = [
            units.count_among(_reach(before, after, unit) <= self.w1)
            for before, after in zip(values, moved, strict=True)
        ]
        return _JudgedRecords(critical, at_risk, unsafe, inside_counts, units)

    def _risks(self, judged: _JudgedRecords, scale: str = "") -> dict[str, Any]:
        at_risk, unsafe = map(judged.units.count_among, (judged.at_risk, judged.unsafe))
        return {
            f"risk1{scale}": at_risk / judged.comparable,
            f"risk1_records{scale}": at_risk,
            f"risk2{scale}": unsafe / judged.comparable,
            f"risk2_records{scale}": unsafe,
        }

    def _by_chance(self, ready: StandardisedPair, unit: Floats, units: Units) -> float | None:
        """The share at risk when a released record is paired with any but one of its own."""
        order = order_by_content(np.concatenate([ready.original, ready.on_own_scale]))
        values, moved = ready.original[:, order], ready.on_own_scale[:, order]
        units = units.take(order)
        risky = comparable = 0
        for shift in chance_shifts(len(order)):
            critical = self._critical(values, np.roll(moved, shift, axis=1), unit[order])
            if not units.one_row_each:
                critical[units.numbers == np.roll(units.numbers, shift)] = np.nan
            risky += units.count_among(critical <= self.w1)
            comparable += units.count_among(~np.isnan(critical))
        return risky / comparable if comparable else None

    def _table(
        self,
        ready: StandardisedPair,
        unit: Floats,
        on_own_scale: _JudgedRecords,
        on_original_scale: _JudgedRecords,
    ) -> pl.DataFrame:
        known = ~np.isnan(ready.original) & ~np.isnan(ready.on_own_scale)
        counts = np.array([on_own_scale.units.count_among(has) for has in known])
        return pl.DataFrame(
            {
                "variable": ready.names,
                "mahalanobis": on_own_scale.inside_counts / counts,
                "on_original_scale": on_original_scale.inside_counts / counts,
                "median_half_width_sd": [self.w1 * float(np.median(unit[has])) for has in known],
            }
        )


@dataclass(frozen=True, eq=False)
class _JudgedRecords:
    """What was found on one scale, record by record."""

    critical: Floats
    at_risk: Mask
    unsafe: Mask
    inside_counts: list[int]
    units: Units

    @property
    def comparable(self) -> int:
        return self.units.count_among(~np.isnan(self.critical))


def _reach(before: Floats, after: Floats, unit: Floats) -> Floats:
    """The w1 at which an interval reaches the released value; NaN where one is missing."""
    gap = np.abs(after - before)
    gap[gap <= _SAME * (1 + np.abs(before))] = 0.0
    with np.errstate(divide="ignore", over="ignore"):  # who is at the mean has no interval
        return np.divide(gap, unit, out=gap, where=gap != 0)


def _records(on_own_scale: _JudgedRecords, on_original_scale: _JudgedRecords) -> pl.DataFrame:
    """Null where there was nothing to compare: not known is not safe."""
    columns: dict[str, Any] = {}
    for judged, scale in ((on_own_scale, ""), (on_original_scale, "_on_original_scale")):
        columns[f"at_risk{scale}"] = judged.at_risk
        columns[f"unsafe{scale}"] = judged.unsafe
        columns[f"critical_w1{scale}"] = judged.critical
    known = pl.Series(~np.isnan(on_own_scale.critical))
    return pl.DataFrame(columns).select(
        pl.when(known).then(pl.col(name)).alias(name) for name in columns
    )


def _choose_worst(risks: Mapping[str, Any]) -> dict[str, Any]:
    """The larger of both scales: what a target is checked against."""
    names = ("risk1", "risk1_records", "risk2", "risk2_records")
    worst = {
        f"{name}{AT_WORST}": max(risks[name], risks[f"{name}_on_original_scale"]) for name in names
    }
    return {**worst, f"mahalanobis{AT_WORST}": worst[f"risk1{AT_WORST}"]}


def _warn_of_scales(risks: dict[str, Any]) -> tuple[str, ...]:
    """Where it matters by which mean and standard deviation the release is standardised."""
    on_own_scale = [risks["risk1_records"], risks["risk2_records"]]
    on_original_scale = [risks[f"risk{number}_records_on_original_scale"] for number in (1, 2)]
    alike = [
        max(pair) <= _MATTERS * min(pair)
        for pair in zip(on_own_scale, on_original_scale, strict=True)
    ]
    if all(alike):
        return ()
    if alike[0]:
        why = "How many others lie within w2 depends on the standard deviation it is counted in."
    elif on_own_scale[0] < on_original_scale[0]:
        why = "The release's own mean and spread hide values that hardly moved."
    else:
        why = "A variable shifted or stretched as a whole protects nobody: that can be undone."
    warning = (
        f"On the original's scale {on_original_scale[0]} records are at risk and "
        f"{on_original_scale[1]} unsafe; by the release's own mean and standard deviation "
        f"{on_own_scale[0]} and {on_own_scale[1]}. {why} Go by the larger."
    )
    return (warning,)
