"""A problem as the arrays of the marginal likelihood: in a canonical order and on a common scale.

Columns are made orthogonal and numbers standardised, so that one prior and one tolerance suit
all problems. `Arrays.back` takes the coefficients to the scale of the problem.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.problem import Problem
    from sfumato.kernels.sampling.quadrature_records import Records


CELLS = 24
"""The most combinations of the levels of noised categories that are summed over."""
_ALIKE = 1e-9
"""A column this close to what the others give, relative to its size, adds nothing."""


@dataclass(frozen=True, eq=False)
class Arrays:
    """What the likelihood needs.

    Parameters
    ----------
    family : see `kernels.quadrature`.
    records : what is seen of each record.
    clean : the places of the clean terms.
    loads : (number, term) 1 where the term is that number.
    levels : (cell, term) 1 where the term is a level of that cell.
    dummies : (cell, level) 1 for every level but the first of each category.
    missing : (pattern, number) whether the number is missing.
    error : the covariance of the noise.
    back : (term, term) takes coefficients to the problem's scale.
    """

    family: int
    records: Records
    clean: list[int]
    loads: Floats
    levels: Floats
    dummies: Floats
    missing: npt.NDArray[np.bool_]
    error: Floats
    back: Floats

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self.records.y)

    def thinned(self, most: int) -> Arrays:
        """Evenly spaced records, at most so many; all of them where there are not more."""
        if self.count <= most:
            return self
        kept = np.linspace(0, self.count - 1, most).astype(np.int64)
        parts: list[Any] = [part[kept] if len(part) else part for part in self.records]
        return replace(self, records=type(self.records)(*parts))


def arrange(problem: Problem) -> Arrays:
    """The arrays of a problem that `can` took."""
    from sfumato.kernels.sampling.quadrature_records import Records

    family, y, trials = _outcome(problem)
    clean = [at for at, term in enumerate(problem.terms) if not term.noised]
    columns = _columns(problem, clean)
    seen = np.column_stack([one.seen for one in problem.numbers] or [np.zeros((len(y), 0))])
    cells = list(itertools.product(*[range(len(one.levels)) for one in problem.categories]))
    released = _released(problem)
    density = _density(problem, cells)
    # The same order whatever that of the rows: every sum below is then the same to the last bit.
    keys = [*density.T, *problem.covariates.T, *columns.T, *seen.T, trials, y]
    order = np.lexsort([*released.T, *keys] if len(released) else keys)
    y, trials, seen, density = y[order], trials[order], seen[order], density[order]
    released = released[order] if len(released) else released
    design, turned = _orthogonal(columns[order], [problem.terms[at].name for at in clean])
    missing, pattern = _patterns(seen)
    centre, scale = _scales(problem, seen)
    if not _constant(design):
        centre = np.zeros_like(centre)
    seen -= centre
    seen /= scale
    np.nan_to_num(seen, copy=False)
    covariates = _spanning(problem.covariates[order])
    return Arrays(
        family=family,
        records=Records(design, covariates, seen, pattern, y, trials, released, density),
        clean=clean,
        loads=_places(problem, len(problem.numbers)),
        levels=_levels(problem, cells),
        dummies=_dummies(problem, cells),
        missing=missing,
        error=_error(problem) / np.outer(scale, scale),
        back=_back(problem, clean, turned, design, centre, scale),
    )


def _outcome(problem: Problem) -> tuple[int, Floats, Floats]:
    from sfumato.kernels.sampling import quadrature

    y = np.asarray(problem.y, float)
    trials = np.ones(len(y)) if problem.trials is None else np.asarray(problem.trials, float)
    known = {
        ("bernoulli", "logit"): quadrature.LOGIT,
        ("bernoulli", "probit"): quadrature.PROBIT,
        ("binomial", "logit"): quadrature.BINOMIAL_LOGIT,
        ("binomial", "probit"): quadrature.BINOMIAL_PROBIT,
        ("poisson", "log"): quadrature.POISSON,
    }
    if len(y) == 0:
        raise MeasureError("There are no records to fit.", hint="check the filter before the fit.")
    if problem.outcome_category is None and not _fits(problem.family, y, trials):
        msg = f"The outcome is not what a {problem.family} model describes."
        hint = "bernoulli takes 0 and 1, binomial at most the trials, poisson whole counts."
        raise MeasureError(msg, hint=f"{hint} Missing outcomes are left out before the fit.")
    return known[problem.family, problem.link], y, trials


def _fits(family: str, y: Floats, trials: Floats) -> bool:
    whole = np.isfinite(y).all() and (y >= 0).all() and (y == np.floor(y)).all()
    most = trials if family == "binomial" else np.array([1.0 if family == "bernoulli" else np.inf])
    return bool(whole and np.isfinite(trials).all() and (y <= most).all())


def _columns(problem: Problem, clean: list[int]) -> Floats:
    ones = np.ones(problem.records)
    made = [problem.terms[at].clean for at in clean]
    columns = np.column_stack(
        [ones if one is None else one for one in made] or [np.zeros((problem.records, 0))]
    )
    if not (np.isfinite(columns).all() and np.isfinite(problem.covariates).all()):
        msg = "A clean predictor has missing or infinite values."
        raise MeasureError(msg, hint="leave those records out, or impute before the release.")
    return columns


def _released(problem: Problem) -> Floats:
    """The chances of the released outcome given the true one, over the larger of both."""
    if problem.outcome_category is None:
        return np.zeros((0, 2))
    logs = problem.outcome_category.density
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)), float)


def _density(problem: Problem, cells: list[tuple[int, ...]]) -> Floats:
    total = np.zeros((problem.records, len(cells)))
    for at, one in enumerate(problem.categories):
        total += one.density[:, [cell[at] for cell in cells]]
    if not (total.max(axis=1, initial=-np.inf) > -np.inf).all():
        msg = "A released category fits none of its levels."
        raise MeasureError(msg, hint="the noise's description does not belong to these data.")
    return total


def _orthogonal(columns: Floats, names: list[str]) -> tuple[Floats, Floats]:
    """Columns of mean square 1 at right angles, and the matrix that made them."""
    count = len(columns)
    size = np.sqrt((columns**2).mean(axis=0))
    made, upper = np.linalg.qr(columns / np.where(size > 0, size, 1.0))
    small = np.abs(np.diag(upper)) < _ALIKE * np.sqrt(count)
    if small.any() or len(upper) < len(names):
        which = [name for name, bad in zip(names, small, strict=False) if bad] or names
        msg = f"The predictors tell the same: {', '.join(which)} adds nothing to the others."
        raise MeasureError(msg, hint="leave it out of the formula.")
    turned = np.linalg.solve(upper, np.eye(len(upper))) * np.sqrt(count)
    return np.ascontiguousarray(made * np.sqrt(count)), turned / size[:, None]


def _spanning(covariates: Floats) -> Floats:
    """The constant, then what else the covariates can tell, at right angles."""
    count = len(covariates)
    columns = np.column_stack([np.ones(count), covariates])
    size = np.sqrt((columns**2).mean(axis=0))
    columns = columns[:, size > 0] / size[size > 0]
    upper = np.linalg.qr(columns, mode="r")
    kept = np.zeros(columns.shape[1], bool)
    kept[: len(upper)] = np.abs(np.diag(upper)) >= _ALIKE * np.sqrt(count)
    made = np.linalg.qr(columns[:, kept])[0] * np.sqrt(count)
    return np.ascontiguousarray(made * np.sign(made[:1, 0]))


def _patterns(seen: Floats) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    gone = np.isnan(seen)
    if not gone.any():
        return np.zeros((1, seen.shape[1]), bool), np.zeros(len(seen), np.int64)
    missing, pattern = np.unique(gone, axis=0, return_inverse=True)
    return missing, pattern.reshape(-1).astype(np.int64)


def _scales(problem: Problem, seen: Floats) -> tuple[Floats, Floats]:
    for at, one in enumerate(problem.numbers):
        if np.isnan(seen[:, at]).all() or np.isinf(seen[:, at]).any():
            msg = f"{one.name} has no released values, or infinite ones."
            raise MeasureError(msg, hint="leave the variable out of the formula.")
    scale = np.nanstd(seen, axis=0)
    return np.nanmean(seen, axis=0), np.where(scale > 0, scale, 1.0)


def _constant(design: Floats) -> bool:
    """Whether the clean columns give the constant."""
    share = design.mean(axis=0)
    return bool(abs(share @ share - 1) < _ALIKE)


def _error(problem: Problem) -> Floats:
    if problem.error.shape == (len(problem.numbers),) * 2:
        return problem.error
    return np.diag([float(one.variance or 0.0) for one in problem.numbers])


def _places(problem: Problem, numbers: int) -> Floats:
    made = np.zeros((numbers, len(problem.terms)))
    for at, term in enumerate(problem.terms):
        for number, _ in term.numbers:
            made[number, at] = 1.0
    return made


def _levels(problem: Problem, cells: list[tuple[int, ...]]) -> Floats:
    made = np.zeros((len(cells), len(problem.terms)))
    for at, term in enumerate(problem.terms):
        for category, level in term.levels:
            made[:, at] = [cell[category] == level for cell in cells]
    return made


def _dummies(problem: Problem, cells: list[tuple[int, ...]]) -> Floats:
    made = [
        [float(cell[at] == level) for cell in cells]
        for at, one in enumerate(problem.categories)
        for level in range(1, len(one.levels))
    ]
    return np.array(made, float).reshape(len(made), len(cells)).T


def _back(
    problem: Problem,
    clean: list[int],
    turned: Floats,
    design: Floats,
    centre: Floats,
    scale: Floats,
) -> Floats:
    made = np.eye(len(problem.terms))
    made[np.ix_(clean, clean)] = turned
    constant = turned @ design.mean(axis=0)
    for at, term in enumerate(problem.terms):
        for number, _ in term.numbers:
            made[at, at] = 1 / scale[number]
            made[clean, at] = -constant * centre[number] / scale[number]
    return made
