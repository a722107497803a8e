"""How much of its noise a variable loses to others that measure the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import standard_deviation
from sfumato.measure import AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.pairs.alignment import find_numeric_variables, quote_names
from sfumato.parameters import parameters
from sfumato.risk.attacks.knowledge import knowledge, require_pairs

_ASSUMPTIONS = (
    "The attacker knows from the manifest what noise each variable has, and how they go together.",
    "They take the linear combination of all readings that comes nearest to the truth.",
    "The control is the same with the one variable alone: its spread is known to both.",
)
_NEAR = 0.05
"""Of two readings of one quantity, the part of an SD within which a value is called found."""
_MOST = 12
"""Readings that are averaged: more hardly help."""
_ROWS_A_READING = 10


@dataclass(frozen=True)
class _Averaged:
    """What is left of the noise in one variable."""

    variable: str
    readings: tuple[str, ...]
    taken_off: float = 0.0
    near: float = 0.0
    near_alone: float = 0.0


@parameters
class RepeatedReadings(Measure):
    """Share of the noise of a variable that other readings of the same quantity take off.

    Question: blood pressure was measured three times, and each reading has noise of its own. How
    much of it is left in their average?
    Assumes: readings of one quantity are numbers of the release that correlate by more than
    `correlation` in the original, whether they have noise or not. The attacker knows the size of
    the noise and how readings go together, and takes their best linear combination. The value is 1
    - its mean squared error over that of the best guess from the variable alone, for the worst
    variable: 2/3 for three equal readings with little noise. Where a variable has no other reading
    it is 0. `readings_near` and `readings_near_alone` are the shares of values found to a twentieth
    of a standard deviation, with and without the other readings.

    Values count each, whoever's they are: rows of one person too.

    Parameters
    ----------
    variables : the numbers that have noise.
    correlation : from which on two variables are readings of one quantity; of either sign.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> random = np.random.default_rng(1)
    >>> pressure = random.normal(130, 15, 400)
    >>> frame = pl.DataFrame({name: pressure + random.normal(0, 1, 400) for name in "abc"})
    >>> data = sf.Dataset(frame, dict.fromkeys("abc", "sensitive"))
    >>> noise = sf.methods.Noise(variables=["a", "b", "c"], sd_share=0.3)
    >>> released = noise.apply(data, key=bytes(32))
    >>> found = RepeatedReadings(variables=["a", "b", "c"]).measure(data, released)
    >>> found.value > 0.5, sorted(found.details["worst_readings"])
    (True, ['a', 'b', 'c'])

    References: Fuller (1993), Masking procedures for microdata disclosure limitation, J. Official
    Statistics 9:383.
    """

    name = "repeated_readings"
    attack = AttackWording(
        title="Averaging readings of the same",
        control="one reading",
        sentence="Together, {worst_readings_list} take {success} of the noise in {worst_variable} "
        "off. {readings_near_percent} of its values are then found to a twentieth of a standard "
        "deviation, from one reading {readings_near_alone_percent}.",
        against_release=True,
        remedy="Give all readings one noise (`correlated_noise` over all of them), or release one "
        "of them, or their mean.",
    )
    # Half of the variance: two equal readings.
    trial = Trial(
        exploits=("repeated readings",),
        acceptable=0.5,
        unremarkable=0.2,
        seconds=0.3,
        in_sample="as it is",
    )
    examples = ({"variables": ["systolic", "glucose"]},)
    of = "pair"
    counts_persons = True  # it counts values
    as_written = True
    odd = {"one row": 0}
    numbers = (
        Number.share("repeated_readings"),
        Number.share("readings_near"),
    )
    variables: Annotated[list[str], Field(min_length=1)]
    correlation: Annotated[float, Field(gt=0, lt=1)] = 0.95

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Average each variable with all that measure the same."""
        del engine  # all records are in memory
        require_pairs(original, released, self.name)
        knowledge(original, released, self.variables, owner=self.name)
        numeric = [
            name
            for name in find_numeric_variables(original)
            if name in released.schema and released.dtype(name).is_numeric()
        ]
        columns = {name: _read(original, name) for name in numeric}
        averaged = [self._average(name, columns, released) for name in self.variables]
        worst = max(averaged, key=lambda one: one.taken_off)
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst.taken_off,
            direction=self.direction,
            baseline=0.0,
            table=original.like(
                pl.DataFrame(
                    [(one.variable, one.taken_off, ", ".join(one.readings)) for one in averaged],
                    schema=["variable", self.name, "readings"],
                    orient="row",
                )
            ),
            details={
                "worst_variable": worst.variable,
                "worst_readings": worst.readings,
                "readings_near": worst.near,
                "readings_near_alone": worst.near_alone,
                "finding": f"{quote_names(worst.readings)} measure nearly the same."
                if len(worst.readings) > 1
                else "",
                "variables": tuple(self.variables),
            },
            assumptions=_ASSUMPTIONS,
        )

    def _average(self, name: str, columns: dict[str, Floats], released: Dataset) -> _Averaged:
        truth = columns[name]
        close = {
            other: abs(_correlate(truth, values))
            for other, values in columns.items()
            if other != name
        }
        others = [other for other, strength in close.items() if strength > self.correlation]
        others = sorted(others, key=lambda other: -close[other])[:_MOST]
        readings = (name, *others)
        if not others:
            return _Averaged(name, readings)
        shown = np.column_stack([_read(released, reading) for reading in readings])
        complete = np.isfinite(truth) & np.isfinite(shown).all(axis=1)
        if complete.sum() < _ROWS_A_READING * len(readings):
            return _Averaged(name, readings)
        truth, shown = truth[complete], shown[complete]
        # Sums of floats depend on their order, which is not to matter.
        rows = np.lexsort((*shown.T, truth))
        truth, shown = truth[rows], shown[rows]
        alone, together = (_guess(truth, shown[:, :count]) for count in (1, len(readings)))
        errors = [
            float(np.square(guess - truth).sum()) / (len(truth) - 1 - count)
            for guess, count in ((alone, 1), (together, len(readings)))
        ]
        reach = _NEAR * standard_deviation(truth)
        near = [float((np.abs(guess - truth) <= reach).mean()) for guess in (together, alone)]
        taken_off = max(0.0, 1 - errors[1] / errors[0]) if errors[0] > 0 else 0.0
        return _Averaged(name, readings, taken_off, *near)


def _read(data: Dataset, name: str) -> Floats:
    values: Floats = data.column(name).cast(pl.Float64).fill_null(np.nan).to_numpy()
    return values


def _correlate(one: Floats, other: Floats) -> float:
    """The correlation of the values that both have; 0 where one of them does not vary."""
    both = np.isfinite(one) & np.isfinite(other)
    if both.sum() < _ROWS_A_READING:
        return 0.0
    one, other = one[both] - one[both].mean(), other[both] - other[both].mean()
    spread = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / spread if spread > 0 else 0.0


def _guess(truth: Floats, readings: Floats) -> Floats:
    """The best linear guess of the truth from some readings."""
    centred = readings - readings.mean(axis=0)
    coefficients = np.linalg.lstsq(centred, truth - truth.mean(), rcond=None)[0]
    guess: Floats = truth.mean() + centred @ coefficients
    return guess
