"""The fit of somebody who takes released values for true ones: what noise does to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sfumato.analysis.mixed import mixed
from sfumato.analysis.mixed_generalised import MOST, Grouped, mixed_generalised
from sfumato.analysis.problem import Problem, Term
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats

_ROUNDS, _SMALL = 100, 1e-10
_CERTAIN = 1e-8
_COLLINEAR = 1e-9
_TWO = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimates:
    """Estimates and standard errors by parameter.

    Parameters
    ----------
    value, error : by the name of the parameter; no error where there is none.
    covariance : of the coefficients, in the order of the terms.
    note : what is to be known of it.
    certain : whether terms predict some outcomes with certainty, so that estimates run away.
    complete : whether the work ran to its end; an interrupt leaves what is there.
    left : what coefficients leave of each record, see `residuals.residuals`; None where not known.
    """

    value: Mapping[str, float]
    error: Mapping[str, float] = field(default_factory=dict)
    covariance: Floats | None = field(default=None, repr=False)
    note: str = ""
    certain: bool = False
    complete: bool = True
    left: Callable[[Mapping[str, float]], Mapping[str, Floats]] | None = field(
        default=None, repr=False
    )

    def shifted(self, shift: Mapping[str, float]) -> Estimates:
        """The same with something added to some."""
        if not shift:
            return self
        return replace(
            self, value={name: one + shift.get(name, 0.0) for name, one in self.value.items()}
        )


def released_design(problem: Problem, released: Mapping[str, Floats]) -> Floats:
    """The columns of the model with released values in the place of true ones.

    Of a noisy code between two levels the number itself is taken, of more levels the nearest.
    """
    return np.column_stack([_column(one, problem, released) for one in problem.terms])


def _column(term: Term, problem: Problem, released: Mapping[str, Floats]) -> Floats:
    made = np.ones(problem.records) if term.clean is None else term.clean
    for at, of in term.numbers:
        one = problem.numbers[at]
        true = one.true(one.seen)
        made = made * (true if of is None else of(true))
    for at, level in term.levels:
        made = made * level_column(problem, released, at, level)
    return np.asarray(made, float)


def level_column(problem: Problem, released: Mapping[str, Floats], at: int, level: int) -> Floats:
    """A level of a category as released."""
    one = problem.categories[at]
    place = released[one.name]
    if len(one.levels) == _TWO:
        return place if level else 1 - place
    nearest = np.clip(np.rint(place), 0, len(one.levels) - 1)
    return np.where(np.isnan(place), np.nan, nearest == level)


def naive(problem: Problem, released: Mapping[str, Floats]) -> Estimates:
    """The fit without any correction, on the records that have all values."""
    x = released_design(problem, released)
    known = np.isfinite(x).all(axis=1) & np.isfinite(problem.y)
    return fitted(problem, x, known)


def fitted(
    problem: Problem,
    x: Floats,
    known: npt.NDArray[np.bool_] | None = None,
    start: Estimates | None = None,
) -> Estimates:
    """The plain fit of given columns.

    Parameters
    ----------
    problem : the family, the link, the groups.
    x : the columns.
    known : which records to use.
    start : a fit of nearly the same, where a search may begin.
    """
    kept = np.ones(len(x), bool) if known is None else known
    y = problem.y
    x, y = (x, y) if kept.all() else (x[kept], y[kept])
    names = [one.name for one in problem.terms]
    _require_estimable(x, names)
    groups = None if problem.groups is None else problem.groups[kept]
    if problem.family == "gaussian":
        return _linear(x, y, names) if groups is None else _two_level(problem, x, y, groups, names)
    trials = np.ones(len(y)) if problem.trials is None else problem.trials[kept]
    if groups is None:
        return _generalised(problem, x, y, trials, names)
    if len(problem.random) > MOST:
        return Estimates(
            value={},
            note=f"no plain fit of a two-level {problem.family} model with more than {MOST} "
            "effects of each group",
        )
    first = start or _generalised(problem, x, y, trials, names)
    records = Grouped(
        link=problem.link, x=x, y=y, trials=trials, groups=groups, random=problem.random
    )
    return _two_level_generalised(problem, records, first)


def _require_estimable(x: Floats, names: list[str]) -> None:
    """Fail when there are too few records, or a term is a combination of those before it."""
    if len(x) <= len(names):
        raise MeasureError(
            f"There are {len(x)} complete records for {len(names)} terms.",
            hint="leave some terms out of the formula.",
        )
    size = np.sqrt((x * x).sum(axis=0))
    gram = (x / np.where(size > 0, size, 1.0)).T @ (x / np.where(size > 0, size, 1.0))
    wrong = []
    for at, name in enumerate(names):
        left = gram[at, at]
        if left <= _COLLINEAR:
            wrong.append(name)
            continue
        rest = gram[at + 1 :, at] / left
        gram[at + 1 :, at + 1 :] -= np.outer(rest, gram[at, at + 1 :])
    if wrong:
        # Levels are values of somebody, and no words for an error.
        said = dict.fromkeys(one.partition("[")[0] for one in wrong)
        raise MeasureError(
            f"These terms say nothing that the others do not say: {', '.join(said)}.",
            hint="leave them out of the formula.",
        )


def _linear(x: Floats, y: Floats, names: list[str]) -> Estimates:
    q, r = np.linalg.qr(x)
    beta = np.linalg.solve(r, q.T @ y)
    left = y - x @ beta
    variance = float(left @ left) / (len(y) - len(names))
    inverse = np.linalg.inv(r)
    covariance = variance * inverse @ inverse.T
    values = dict(zip(names, beta.tolist(), strict=True)) | {"residual variance": variance}
    errors = dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True))
    return Estimates(value=values, error=errors, covariance=covariance)


def _two_level(
    problem: Problem, x: Floats, y: Floats, groups: npt.NDArray[np.int64], names: list[str]
) -> Estimates:
    found = mixed(x, y, groups, problem.random)
    values = dict(zip(names, found.beta.tolist(), strict=True))
    values["residual variance"] = found.variance
    values |= {name: float(found.between[at]) for name, at in between_names(problem).items()}
    errors = dict(zip(names, np.sqrt(np.diag(found.covariance)).tolist(), strict=True))
    return Estimates(value=values, error=errors, covariance=found.covariance)


def between_names(problem: Problem) -> dict[str, tuple[int, int]]:
    """The names of variances and covariances between groups, and their places."""
    names = [problem.terms[place].name for place in problem.random]
    own, shared = {}, {}
    for at, name in enumerate(names):
        own[f"variance of {name} by group"] = (at, at)
        for other in range(at):
            shared[f"covariance of {names[other]} and {name} by group"] = (at, other)
    return own | shared


def between_of(problem: Problem, value: Mapping[str, float]) -> Floats | None:
    """The covariance of the effects of groups; None where it is not known."""
    made = np.zeros((len(problem.random),) * 2)
    for name, (at, other) in between_names(problem).items():
        if name not in value:
            return None
        made[at, other] = made[other, at] = value[name]
    return made


def _two_level_generalised(problem: Problem, records: Grouped, start: Estimates) -> Estimates:
    names = [one.name for one in problem.terms]
    beta = np.array([start.value[name] for name in names])
    found = mixed_generalised(records, beta, between_of(problem, start.value))
    values = dict(zip(names, found.beta.tolist(), strict=True))
    values |= {name: float(found.between[at]) for name, at in between_names(problem).items()}
    return Estimates(
        value=values,
        error=dict(zip(names, np.sqrt(np.diag(found.covariance)).tolist(), strict=True)),
        covariance=found.covariance,
        certain=start.certain or not found.settled,
    )


def _generalised(
    problem: Problem, x: Floats, y: Floats, trials: Floats, names: list[str]
) -> Estimates:
    """Iteratively reweighted least squares."""
    beta: Floats = np.zeros(len(names))
    mean = (y + trials / 2) / 2 if problem.link != "log" else y + 0.1
    line = _link(problem.link, mean / trials)
    gram = np.eye(len(names))
    for _ in range(_ROUNDS):
        mean, slope = mean_of(problem.link, line)
        spread = mean if problem.link == "log" else mean * (1 - mean)
        weight = trials * slope**2 / np.maximum(spread, 1e-300)
        work = line + (y / trials - mean) / np.maximum(slope, 1e-300)
        weight = np.where(np.isfinite(work), weight, 0.0)
        work = np.where(np.isfinite(work), work, 0.0)
        gram = (x * weight[:, None]).T @ x
        try:
            new: Floats = np.asarray(np.linalg.solve(gram, x.T @ (weight * work)), float)
        except np.linalg.LinAlgError:
            break
        moved = float(np.abs(new - beta).max() / (1 + np.abs(new).max()))
        beta = new
        line = np.clip(x @ beta, -30.0, 30.0) if problem.link != "log" else x @ beta
        if moved < _SMALL:
            break
    mean, _ = mean_of(problem.link, line)
    certain = bool(mean.min() < _CERTAIN or (problem.link != "log" and mean.max() > 1 - _CERTAIN))
    covariance: Floats = np.asarray(np.linalg.pinv(gram), float)
    values = dict(zip(names, beta.tolist(), strict=True))
    errors = dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True))
    return Estimates(value=values, error=errors, covariance=covariance, certain=certain)


def _link(link: str, mean: Floats) -> Floats:
    from scipy.special import ndtri

    if link == "log":
        return np.log(mean)
    made: Floats = ndtri(mean) if link == "probit" else np.log(mean) - np.log1p(-mean)
    return made


def mean_of(link: str, line: Floats) -> tuple[Floats, Floats]:
    """The mean of the outcome at each linear predictor, and its slope."""
    from scipy.special import expit, ndtr

    if link == "log":
        made = np.exp(np.clip(line, -700, 700))
        return made, made
    if link == "probit":
        return ndtr(line), np.exp(-(line**2) / 2) / np.sqrt(2 * np.pi)
    made = expit(line)
    return made, made * (1 - made)
