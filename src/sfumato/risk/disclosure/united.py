"""What changes where values that say the same are united, and missing ones are filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.cells.confidential import ConfidentialVariable
from sfumato.cells.same_values import UnitedReading
from sfumato.measure import AT_WORST

Numbers = Mapping[str, float]

IN_SPELLING = (
    "Values that differ only in spelling, or numbers in their last digits, are also taken as one: "
    "targets are checked against the worse."
)
IF_MISSING = (
    "Missing in a confidential variable protects nobody: targets are checked against the worst "
    "value "
    "that it may hide, and t also against the records that have a value."
)


def describe_missing(name: str, missing: int) -> str:
    """A warning that missing values make a number worse."""
    return (
        f"'{name}' is missing in {missing:,} records, and what is missing may be any value: it "
        "protects nobody. Targets are checked against the worst."
    )


@dataclass
class WorstReading:
    """The worse of several readings, number by number.

    Parameters
    ----------
    worse : picks the worse of two numbers.
    numbers : the worst so far.
    assumptions : what was assumed.
    warnings : what made a number worse.
    """

    worse: Callable[[float, float], float]
    numbers: dict[str, float] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(
        self,
        numbers: Numbers,
        other: Numbers,
        warning: str,
        assumption: str,
        *,
        always: bool = False,
    ) -> None:
        """Take in what another reading of one variable gives, beside the variable as it stands.

        Parameters
        ----------
        numbers, other : the numbers by both readings.
        warning : what to say where the other reading is worse, or `always`.
        assumption : what the other reading assumes.
        """
        worse = any(self.worse(numbers[name], other[name]) != numbers[name] for name in other)
        if (worse or always) and warning not in self.warnings:
            self.warnings.append(warning)
        if assumption not in self.assumptions:
            self.assumptions.append(assumption)
        for name, value in other.items():
            self.numbers[name] = self.worse(self.numbers.get(name, value), value)

    def add_united_reading(self, numbers: Numbers, united: Numbers, reading: UnitedReading) -> None:
        """Take in a reading in which values that say the same are one."""
        # Nearly every measured variable has neighbours; that is a warning only where it matters.
        always = reading.how == "spelling"
        self.add(numbers, united, reading.describe(), IN_SPELLING, always=always)

    def add_reading_without_missing(
        self, numbers: Numbers, filled: Numbers, variable: ConfidentialVariable
    ) -> None:
        """Take in a reading in which missing values protect nobody."""
        warning = describe_missing(variable.name, variable.missing_records)
        self.add(numbers, filled, warning, IF_MISSING)

    def judge(self, numbers: Numbers) -> dict[str, Any]:
        """The details against which targets are held; none where there is one reading only."""
        return {
            f"{name}{AT_WORST}": self.worse(value, self.numbers[name])
            for name, value in numbers.items()
            if name in self.numbers
        }
