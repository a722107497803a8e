"""What a measured number means, said once by the measure that yields it.

Targets, limits of attacks, hints, words, figures, searches and the studio read it here. Nobody
guesses from a name: a number of somebody else's measure may be called anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

Way = Literal["more", "less", "neither"]
Counts = Literal[
    "units in a class",
    "one in a class",
    "units alike",
    "values in a class",
    "share",
    "units",
    "distance",
    "loss",
    "score",
]


@dataclass(frozen=True, kw_only=True)
class Number:
    """What a measured number means; whoever judges, words or draws it reads this.

    Parameters
    ----------
    name : as targets and reports call it; that of the measure itself, for its value.
    safer : which way protects people. "neither": it says nothing of risk.
    useful : which way serves the analyst. "neither": it says nothing of use.
    counts : what it counts. "units in a class": the smallest class of those who share all
        quasi-identifiers, a promise that limits what attacks may achieve. "one in a class": the
        reciprocal of that. "units alike": the same for other knowledge (items, trajectories,
        members of a household).
    lowest, highest : where it can lie. A target there could not be missed.
    meaning : a line for people, where the first line of the measure does not say it.
    also : what others call it, for the hint to who looks for that.
    usual : whether plans often ask for it: forms offer it before the others.
    joined : whether a target can be set on it for the joined view of several tables. "held": the
        strictest target of a table holds there too, unless the plan sets one.

    Examples
    --------
    >>> k = Number.class_size("k")
    >>> k.better, k.is_share, Number.share("uniqueness").is_share
    ('higher', False, True)
    """

    name: str
    safer: Way = "neither"
    useful: Way = "neither"
    counts: Counts = "score"
    lowest: float = -math.inf
    highest: float = math.inf
    meaning: str = ""
    also: tuple[str, ...] = ()
    usual: bool = False
    joined: Literal["no", "measured", "held"] = "no"

    @property
    def better(self) -> Literal["lower", "higher"]:
        """Which way its own reader wants it: the analyst, where it says something of use."""
        wanted = self.safer if self.useful == "neither" else self.useful
        return "higher" if wanted == "more" else "lower"

    @property
    def is_share(self) -> bool:
        """Whether it lies between 0 and 1 by its nature, so that it reads best in per cent."""
        return self.lowest == 0 and self.highest == 1

    @classmethod
    def share(cls, name: str, **facts: Any) -> Self:
        """A share of units who are found, or at risk: less is safer."""
        stated: dict[str, Any] = {"safer": "less", "counts": "share", "lowest": 0.0, "highest": 1.0}
        return cls(name=name, **{**stated, **facts})

    @classmethod
    def count(cls, name: str, **facts: Any) -> Self:
        """A number of units who are found, or at risk."""
        stated: dict[str, Any] = {"safer": "less", "counts": "units", "lowest": 0.0}
        return cls(name=name, **{**stated, **facts})

    @classmethod
    def class_size(cls, name: str, **facts: Any) -> Self:
        """The units in the smallest class: more is safer."""
        stated: dict[str, Any] = {"safer": "more", "counts": "units in a class", "lowest": 1.0}
        return cls(name=name, **{**stated, **facts})

    @classmethod
    def distance(cls, name: str, **facts: Any) -> Self:
        """How far an attacker lands from the person: more is safer."""
        stated: dict[str, Any] = {"safer": "more", "counts": "distance", "lowest": 0.0}
        return cls(name=name, **{**stated, **facts})

    @classmethod
    def loss(cls, name: str, **facts: Any) -> Self:
        """What a release loses for the analyst: less is more useful."""
        stated: dict[str, Any] = {"useful": "less", "counts": "loss", "lowest": 0.0}
        return cls(name=name, **{**stated, **facts})

    @classmethod
    def score(cls, name: str, **facts: Any) -> Self:
        """What a release keeps for the analyst: more is more useful."""
        stated: dict[str, Any] = {"useful": "more", "counts": "score"}
        return cls(name=name, **{**stated, **facts})
