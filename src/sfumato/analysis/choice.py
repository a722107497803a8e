"""Which engine fits a problem: the first in order of speed that can."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.analysis.samplers.by_record import require
from sfumato.analysis.stratified import by_record
from sfumato.errors import MeasureError
from sfumato.progress import Progress

ENGINES = {
    "saturated": "sfumato.analysis.samplers.exact",
    "collapsed": "sfumato.analysis.samplers.gibbs.sampler",
    "marginal": "sfumato.analysis.samplers.marginal.sampler",
    "metropolis": "sfumato.analysis.samplers.metropolis.sampler",
}


class Engine(Protocol):
    """What draws coefficients from their distribution given all that was released."""

    can: Callable[[Problem], bool]
    sample: Callable[[Problem, Sampling, Progress], Posterior]


def available() -> dict[str, Engine]:
    """The engines that are installed, in the order in which they are tried."""
    return {name: cast("Engine", import_module(home)) for name, home in ENGINES.items()}


def engine_for(problem: Problem) -> Engine:
    """The engine for a problem; an error says what to do where there is none."""
    if by_record(problem):
        require(problem)
        return cast("Engine", import_module("sfumato.analysis.samplers.by_record"))
    for one in available().values():
        if one.can(problem):
            return one
    raise MeasureError(
        "There is no engine yet for a model of this kind with noise of this kind.",
        hint='try method="simex" or method="calibration"; or leave out powers and products of '
        "noised variables, and variables whose noise grows with the value.",
    )
