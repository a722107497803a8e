"""What changes where values that say the same, in other spellings or digits, are united."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.cells.same_values import UnitedReading
from sfumato.measure import AT_WORST

Numbers = Mapping[str, float]

IN_SPELLING = (
    "Values that differ only in spelling, or numbers in their last digits, are also taken as one: "
    "targets are held against the worse."
)


@dataclass
class WorstReading:
    """The worse of several readings, number by number.

    Parameters
    ----------
    worse : picks the worse of two numbers.
    """

    worse: Callable[[float, float], float]
    numbers: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, plain: Numbers, united: Numbers, reading: UnitedReading) -> None:
        """Take in what one reading of one variable gives, beside the variable as it stands."""
        worse = any(self.worse(plain[name], united[name]) != plain[name] for name in united)
        # Nearly every measured variable has neighbours; that is a warning only where it matters.
        if worse or reading.how == "spelling":
            text = reading.describe()
            self.warnings += [text] if text not in self.warnings else []
        for name, value in united.items():
            self.numbers[name] = self.worse(self.numbers.get(name, value), value)

    def judge(self, plain: Numbers) -> dict[str, Any]:
        """The details against which targets are held; none where nothing was united."""
        return {
            f"{name}{AT_WORST}": self.worse(value, self.numbers[name])
            for name, value in plain.items()
            if name in self.numbers
        }

    def assumptions(self) -> Iterable[str]:
        """What is assumed where something was united."""
        return (IN_SPELLING,) if self.numbers else ()
