"""One true number whose shape is a sum of many narrow normals with smoothly varying weights.

A mixture of few normals comes near a skewed shape but has too thin a tail, which biases the
coefficients of counts; with more components and free places it has several modes and hardly known
parts. Here places and widths are fixed: knots lie closer where the density is high and reach far
into the tails, and only the weights are parameters. Second differences of their logs are small,
so tails go on as they are, exponentially. The posterior has one mode and is nearly normal.

References: Ghidey, Lesaffre & Eilers (2004), Biometrics 60:945.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.samplers.marginal.model import THREADS, Density
from sfumato.analysis.samplers.marginal.values import log_weights
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.samplers.marginal.arrays import Arrays


KNOTS = 10
_WIDTH = 0.7
"""The standard deviation of a component, in distances of knots."""
_ROUGH, _RIDGE = 1.0, 10.0
"""Standard deviations of second differences of log weights, and of those themselves."""
_PLACES, _POWER = 2001, 1 / 3
"""Places at which the density is looked at; knots are as dense as this power of it."""


class Smooth(Density):
    """The log posterior with fixed components.

    Parameters
    ----------
    arrays : the data, with one noised number.
    knots : where components lie, on the standardised scale, the covariates' part apart.
    family : another family than the data's, such as NOTHING.
    threads : see there.
    """

    def __init__(
        self,
        arrays: Arrays,
        knots: Floats,
        *,
        family: int | None = None,
        threads: int = THREADS,
    ) -> None:
        super().__init__(arrays, len(knots), family=family, threads=threads)
        self.knots = knots
        fixed = {name: np.zeros(shape) for name, shape in self.sizes.items()}
        free = {name: np.ones(shape, bool) for name, shape in self.sizes.items()}
        fixed["centre"][0, 0] = knots[0]
        fixed["move"][:, 0] = knots[1:] - knots[0]
        fixed["factor"][:, 0] = np.log(_WIDTH * np.gradient(knots))
        free["centre"][0, 0] = False
        free["move"][:], free["factor"][:] = False, False
        self._fixed = super().join(fixed)
        self._free = super().join({name: one.astype(float) for name, one in free.items()}) > 0
        second = np.diff(np.eye(len(knots)), 2, axis=0)
        self.bend = second.T @ second / _ROUGH**2 + np.eye(len(knots)) / _RIDGE**2

    def like(self, arrays: Arrays, *, family: int | None = None) -> Smooth:
        """The same model of other records."""
        return Smooth(arrays, self.knots, family=family, threads=self._threads)

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return int(self._free.sum())

    def split(self, theta: Floats) -> dict[str, Floats]:
        """The parameters by name, with those that are fixed."""
        if theta.shape[-1] < len(self._fixed):
            theta = self._whole(theta)
        return super().split(theta)

    def join(self, parts: dict[str, Floats]) -> Floats:
        """The free parameters as one list."""
        return super().join(parts)[self._free]

    def _whole(self, theta: Floats) -> Floats:
        made = np.repeat(self._fixed.reshape(1, -1), int(np.prod(theta.shape[:-1])), axis=0)
        made = made.reshape(*theta.shape[:-1], -1)
        made[..., self._free] = theta
        return made

    def _evaluate(self, theta: Floats, *, sloped: bool) -> tuple[Floats, Floats]:
        value, slopes = super()._evaluate(self._whole(theta), sloped=sloped)
        return value, slopes[:, self._free]

    def _prior(self, split: dict[str, Floats]) -> tuple[Floats, dict[str, Floats]]:
        value, slopes = self._spread(split, ("beta", "centre", "shift", "odds"))
        logs = np.concatenate([np.zeros((len(value), 1)), split["weight"]], axis=1)
        pull = logs @ self.bend
        value -= 0.5 * (pull * logs).sum(axis=1)
        slopes["weight"] = -pull[:, 1:]
        for name in ("factor", "move"):
            slopes[name] = np.zeros_like(split[name])
        return value, slopes


def placed(mixture: Density, theta: Floats) -> tuple[Floats, Floats]:
    """Knots for the shape that a mixture of few found, and the log weights that come near it.

    Their density goes with a root of that of true values: closer where those are many, and reaching
    far beyond where a mixture of few has its last ones.
    """
    parts = mixture.split(theta)
    means = parts["centre"][0, 0] + np.append(0.0, parts["move"][:, 0])
    widths = np.exp(parts["factor"][:, 0])
    shares = np.exp(log_weights(parts["weight"][None])[0])
    places = np.linspace((means - 5 * widths).min(), (means + 5 * widths).max(), _PLACES)
    heights = _heights(places, means, widths, shares)
    total = np.cumsum(heights**_POWER)
    total /= total[-1]
    ends = (np.arange(KNOTS) + 0.5) / KNOTS
    knots = np.interp(ends, total, places)
    logs = np.log(_heights(knots, means, widths, shares) * np.gradient(knots) + 1e-9)
    return knots, logs[1:] - logs[0]


def _heights(places: Floats, means: Floats, widths: Floats, shares: Floats) -> Floats:
    away = (places[:, None] - means) / widths
    made: Floats = np.exp(-0.5 * away**2) @ (shares / widths / math.sqrt(2 * math.pi))
    return made
