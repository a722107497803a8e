"""The scale on which noise is added, and variances that grow with the value."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from sfumato.kernels.arrays import Floats, Mask
from sfumato.parameters import parameters

Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@parameters
class Scale:
    """A transformation under which noise is added.

    Parameters
    ----------
    name : "log" is log(x + shift); "square_root" is the root of x + shift; "logit" is the log of
        (x - low) / (high - x); "rank_normal" reads the normal score off straight lines between
        the knots, and goes on beyond them with the slope of the outermost line.
    shift : added before a logarithm or a root is taken.
    low, high : the open ends of a logit.
    values, scores : the knots of "rank_normal", both rising.

    Examples
    --------
    >>> scale = Scale(name="log", shift=1)
    >>> scale.back(scale.forth(np.array([0.0, 9.0]))).round(9)
    array([0., 9.])
    """

    name: Literal["log", "square_root", "logit", "rank_normal"]
    shift: Finite = 0.0
    low: Finite | None = None
    high: Finite | None = None
    values: list[Finite] | None = None
    scores: list[Finite] | None = None

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if self.name == "logit" and not (
            self.low is not None and self.high is not None and self.low < self.high
        ):
            msg = "a logit needs low and high, low below high."
            raise ValueError(msg)
        if self.name == "rank_normal":
            values, scores = self.values or [], self.scores or []
            if len(values) != len(scores) or len(values) < 2:  # noqa: PLR2004
                msg = "rank_normal needs values and scores, as many of each, at least two."
                raise ValueError(msg)
            if (np.diff(values) <= 0).any() or (np.diff(scores) <= 0).any():
                msg = "the values and scores of rank_normal rise."
                raise ValueError(msg)
        return self

    @model_serializer(mode="wrap")
    def _serialise(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _drop_unset(serialise(self))

    def holds(self, x: Floats) -> Mask:
        """Which values the scale is defined for."""
        if self.name == "logit":
            return (x > (self.low or 0.0)) & (x < (self.high or 0.0))
        if self.name == "log":
            return x + self.shift > 0
        return x + self.shift >= 0 if self.name == "square_root" else np.isfinite(x)

    def forth(self, x: Floats) -> Floats:
        """The values on the scale."""
        if self.name == "log":
            return np.log(x + self.shift)
        if self.name == "square_root":
            return np.sqrt(x + self.shift)
        if self.name == "logit":
            return np.log(x - self._low) - np.log(self._high - x)
        return _interpolate(x, self.values or [], self.scores or [])

    def back(self, y: Floats) -> Floats:
        """The values themselves."""
        if self.name == "log":
            return np.exp(y) - self.shift
        if self.name == "square_root":
            # Below zero there is no root: such a value is the square of its distance, mirrored.
            return np.square(y) - self.shift
        if self.name == "logit":
            # Written for either sign, so that no exponential overflows.
            share = np.where(y >= 0, 1 / (1 + np.exp(-np.abs(y))), 0.0)
            share = np.where(y < 0, np.exp(-np.abs(y)) / (1 + np.exp(-np.abs(y))), share)
            return self._low + (self._high - self._low) * share
        return _interpolate(y, self.scores or [], self.values or [])

    @property
    def _low(self) -> float:
        return 0.0 if self.low is None else self.low

    @property
    def _high(self) -> float:
        return 1.0 if self.high is None else self.high


def _drop_unset(fields: dict[str, Any]) -> dict[str, Any]:
    """Only what was given: a plan file and a manifest have no word for nothing."""
    return {name: value for name, value in fields.items() if value is not None}


def _interpolate(x: Floats, knots_x: list[float], knots_y: list[float]) -> Floats:
    """Straight lines between knots, and on beyond the outermost, where `np.interp` is flat."""
    knots, heights = np.asarray(knots_x, float), np.asarray(knots_y, float)
    piece = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    slope = np.diff(heights) / np.diff(knots)
    line: Floats = heights[piece] + (x - knots[piece]) * slope[piece]
    return line


@parameters
class Growth:
    """How the variance of the noise depends on the true value x, on the scale of the noise.

    Parameters
    ----------
    form : "linear" is `constant + slope * x`; "power" is `constant + slope * |x| ** power`;
        "step" is constant between breaks.
    constant, slope, power : of "linear" and "power". The variance is never below zero.
    breaks, variances : of "step": one variance more than there are breaks; a value at a break
        has the variance above it.

    Examples
    --------
    >>> Growth(form="step", breaks=[10], variances=[1, 4]).variance(np.array([9.0, 10.0]))
    array([1., 4.])
    """

    form: Literal["linear", "power", "step"]
    constant: NotNegative = 0.0
    slope: Finite = 0.0
    power: NotNegative = 1.0
    breaks: list[Finite] | None = None
    variances: list[NotNegative] | None = None

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if self.form != "step":
            return self
        breaks, variances = self.breaks or [], self.variances or []
        if not breaks or len(variances) != len(breaks) + 1 or (np.diff(breaks) <= 0).any():
            msg = "step needs rising breaks, and one variance more than there are breaks."
            raise ValueError(msg)
        return self

    @model_serializer(mode="wrap")
    def _serialise(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _drop_unset(serialise(self))

    def variance(self, x: Floats) -> Floats:
        """The variance of the noise of each true value."""
        if self.form == "step":
            step = np.searchsorted(np.asarray(self.breaks, float), x, side="right")
            steps: Floats = np.asarray(self.variances, float)[step]
            return steps
        grown = x if self.form == "linear" else np.abs(x) ** self.power
        return np.maximum(self.constant + self.slope * grown, 0.0)
