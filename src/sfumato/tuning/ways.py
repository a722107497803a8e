"""Ways to add noise of one size: as it is, cut off at the tails, or more of it there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.cells.noise.scales import Growth
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.engines.summaries import Deviation, Quantile
from sfumato.methods.noise import Noise

Way = Callable[[float], Noise]
_CUT = (0.01, 0.99)
_TAILS = (0.05, 0.95)
_MORE = 4.0
"""Times the variance of the noise in the tails."""


@dataclass(frozen=True, eq=False)
class Ways:
    """The variables that get noise, how much in proportion, and further options."""

    data: Dataset
    names: Sequence[str]
    weights: Mapping[str, float]
    options: Mapping[str, Any]

    def plain(self, share: float) -> Noise:
        """The same size everywhere."""
        return Noise(variables=list(self.names), variance_share=self._shares(share), **self.options)

    def tails(self) -> Iterator[Way]:
        """Ways that treat the tails otherwise, where the options do not say how already."""
        if not {"at_least", "at_most"} & set(self.options):
            low, high = self._limits(_CUT)
            yield lambda share: Noise(
                variables=list(self.names),
                variance_share=self._shares(share),
                at_least=low,
                at_most=high,
                **self.options,
            )
        if not {"growth", "scale"} & set(self.options):
            yield self._growing()

    def _shares(self, share: float) -> dict[str, float]:
        return {name: brief(share * self.weights[name]) for name in self.names}

    def _growing(self) -> Way:
        low, high = self._limits(_TAILS)
        found = engine_for(self.data.frame).aggregate(
            self.data, {name: [Deviation()] for name in self.names}
        )
        spread = {name: float(found[name][Deviation().name]) ** 2 for name in self.names}

        def way(share: float) -> Noise:
            sizes = {name: brief(one * spread[name]) for name, one in self._shares(share).items()}
            growth = {
                name: Growth(
                    form="step",
                    breaks=[low[name], high[name]],
                    variances=[_MORE * size, size, _MORE * size],
                )
                for name, size in sizes.items()
            }
            return Noise(variables=list(self.names), growth=growth, **self.options)

        return way

    def _limits(self, shares: tuple[float, float]) -> tuple[dict[str, float], dict[str, float]]:
        wanted = [Quantile(share) for share in shares]
        found = engine_for(self.data.frame).aggregate(
            self.data, {name: list(wanted) for name in self.names}
        )
        low, high = {}, {}
        for name in self.names:
            ends = [float(found[name][one.name]) for one in wanted]
            low[name], high[name] = _rounded(*ends)
        return low, high


def brief(number: float) -> float:
    """A size that people can read and copy: three digits."""
    return float(f"{number:.3g}")


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Limits to two digits of the distance between them, outwards, so that they stay apart."""
    apart = high - low
    unit = 10.0 ** (math.floor(math.log10(apart)) - 1) if apart > 0 else 1.0
    digits = max(0, -round(math.log10(unit)))
    return (
        round(math.floor(low / unit) * unit, digits),
        round((math.floor(high / unit) + 1) * unit, digits),
    )
