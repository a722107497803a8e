"""The outcome of each record given what was released of its predictors, at the state of a chain.

True values are integrated out: log ∫ p(y | x) p(x | released, clean values) dx, for one draw of all
parameters. Leaving a record's outcome out then leaves its true values to what was released of them,
as for a new record. At drawn true values, which know the outcome, it would look too good. True
values and effects of groups are those of the draw: other records say what they are.

Given levels and a component of the model of true numbers, and with normal noise, these are normal.
Where the predictor is linear in them it is normal too, and one integral by adaptive Gauss-Hermite
quadrature is left (Pinheiro & Bates 1995, J. Comput. Graph. Stat. 4:12), which is exact in linear
models. Else there are points in the space of the numbers, weighted by the measurement model where
noise is not normal. Levels and components are summed over.

References: Vehtari, Gelman & Gabry (2017), Statistics and Computing 27:1413; Merkle, Furr &
Rabe-Hesketh (2019), Psychometrika 84:802 (integrated against conditional likelihoods).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.analysis.problem import GeneralisedNumber, Problem
from sfumato.analysis.samplers.metropolis.coefficients import Generator, draw_category
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.samplers.metropolis.chain import Chain

_NODES = 15
_GRID, _POINTS = 41, 256
"""Points where the predictor is not linear, for one number and for several."""
_MODE_STEPS = 4
_MOST_CELLS = 24
_UNINFORMATIVE = 1e8
_NO_NOISE = 1e-10


class OutcomePrediction(NamedTuple):
    """Of each record: the log-likelihood of its released outcome, and a new draw of it."""

    log_likelihood: Floats
    drawn: Floats


class _Piece(NamedTuple):
    """A part of the sum over levels, components and points: log weights, and where they are.

    Parameters
    ----------
    log_weight : of each record, with the density of what was released of the predictors.
    eta, sd : the linear predictor, normal with this SD; None for no spread.
    """

    log_weight: Floats
    eta: Floats
    sd: Floats | None = None


def require_pointwise(problem: Problem) -> None:
    """Refuse models whose outcome cannot be predicted record by record; an error says why."""
    reason = ""
    if ranges := [x.name for x in problem.numbers if isinstance(x, GeneralisedNumber)]:
        reason = f"'{ranges[0]}' is known as a range or up to a limit only"
    elif problem.outcome_number is not None and not problem.outcome_number.is_homoscedastic_normal:
        reason = "the noise of the outcome is not plain"
    elif problem.weights is not None:
        reason = "sampling weights make a likelihood of records that were not drawn"
    elif math.prod(len(x.levels) for x in problem.categories if not x.by_group) > _MOST_CELLS:
        reason = f"noised categories have more than {_MOST_CELLS} combinations of levels"
    if reason:
        raise MeasureError(
            f"There is no likelihood by record for this model: {reason}.",
            hint="fit it without pointwise=True, or leave the variable out.",
        )


@dataclass(eq=False)
class PointwisePredictor:
    """Predicts outcomes at the present state of a chain, which is left as it was.

    Parameters
    ----------
    chain : the chain.
    rng : for new outcomes, apart from the chain's own.
    """

    chain: Chain
    rng: Generator

    def __post_init__(self) -> None:
        problem = self.chain.problem
        self.numbers = self.chain.start.record_numbers
        self.record_categories = [
            i for i, category in enumerate(problem.categories) if not category.by_group
        ]
        released = self.chain.start.released[: self.numbers]
        self.normal = all(x.number.growth is None and not len(x.intervals) for x in released)
        self.normal &= not any(x.number.laplace for x in released)
        linear = all(
            all(terms.linear) for terms in self.chain.predictor.number_terms[: self.numbers]
        )
        single = all(sum(i < self.numbers for i, _ in term.numbers) <= 1 for term in problem.terms)
        # Several predictors, one for each level, are not integrated over in one dimension.
        several = problem.family == "multinomial"
        self.linear = self.normal and linear and single and not several
        self.released = np.column_stack(
            [x.values for x in released] or [np.zeros((problem.records, 0))]
        )
        self.noise = self._find_noise()
        if self.numbers and not self.linear:
            self.points, self.log_weights = _place_points(self.numbers)

    def _find_noise(self) -> Floats:
        """(record, number, number) the covariance of normal noise that says about as much."""
        problem, size = self.chain.problem, self.chain.start.size[: self.numbers]
        noise = np.zeros((problem.records, self.numbers, self.numbers))
        if self.normal:
            noise += problem.error[: self.numbers, : self.numbers]
        for i, x in enumerate(self.chain.start.released[: self.numbers]):
            variance = noise[:, i, i] if self.normal else x.variance(x.values) + x.number.width**2
            unknown = x.missing | x.clipped
            noise[unknown, i, :] = noise[unknown, :, i] = 0.0
            variance = np.where(unknown, _UNINFORMATIVE * size[i] ** 2, variance)
            noise[:, i, i] = np.maximum(variance, _NO_NOISE * size[i] ** 2)
        return noise[:1] if (noise == noise[:1]).all() else noise

    def predict(self) -> OutcomePrediction:
        """The log-likelihood of each outcome, and a new draw of it."""
        chain, outcome = self.chain, self.chain.outcome
        codes, latent, eta = chain.codes.copy(), chain.latent.copy(), chain.eta
        weights: list[Floats] = []
        logs: list[Floats] = []
        etas: list[Floats] = []
        for piece in self._list_pieces():
            weights.append(piece.log_weight)
            drawn_eta, log = piece.eta, self._log_likelihood(piece)
            if piece.sd is not None:
                drawn_eta = drawn_eta + piece.sd * self.rng.standard_normal(len(drawn_eta))
            logs.append(piece.log_weight + log)
            etas.append(drawn_eta)
        chain.codes[:], chain.latent[:] = codes, latent
        chain.write_levels()
        chain.predictor.refresh()
        chain.eta = eta
        stacked = np.stack(weights)
        log_likelihood = np.logaddexp.reduce(logs) - np.logaddexp.reduce(stacked)
        records = np.arange(stacked.shape[1])
        drawn = np.stack(etas)[draw_category(stacked, self.rng), ..., records].T
        return OutcomePrediction(
            log_likelihood + outcome.log_constants(), outcome.draw(drawn, self.rng)
        )

    def _list_pieces(self) -> Iterator[_Piece]:
        """All combinations of levels, components and points."""
        chain = self.chain
        counts = [range(chain.levels[i].count) for i in self.record_categories]
        for cell in itertools.product(*counts):
            chain.codes[:, self.record_categories] = cell
            chain.write_levels()
            log_prior = np.zeros(chain.problem.records)
            for i, level in zip(self.record_categories, cell, strict=True):
                log_prior = log_prior + chain.levels[i].log_posterior()[level]
            if not self.numbers:
                chain.predictor.refresh()
                yield _Piece(log_prior, chain.compute_eta())
                continue
            for log_weight, mean, covariance in self._condition_numbers():
                if self.linear:
                    yield self._project(log_prior + log_weight, mean, covariance)
                else:
                    yield from self._evaluate_points(log_prior + log_weight, mean, covariance)

    def _condition_numbers(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """By component: log weight, mean and covariance of true numbers given released ones."""
        model = self.chain.numbers
        centre, spread = model.centre(), model.spread
        for k in range(model.components):
            mean = centre + spread * model.means[k]
            covariance = model.covariances[k] * spread[:, :, None] * spread[:, None, :]
            total = covariance + self.noise
            distance = self.released - mean
            lower = np.linalg.cholesky(total)
            z = np.linalg.solve(lower, distance[:, :, None])[:, :, 0]
            log = -0.5 * (z**2).sum(1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
            gain = np.swapaxes(
                np.linalg.solve(total, np.broadcast_to(covariance, total.shape)), 1, 2
            )
            mean = mean + np.einsum("nij,nj->ni", gain, distance)
            yield model.log_shares(k) + log, mean, covariance - gain @ covariance

    def _project(self, log_weight: Floats, mean: Floats, covariance: Floats) -> _Piece:
        """The linear predictor, which is normal as the numbers are."""
        chain = self.chain
        coefficients = chain.coefficients()
        slopes = np.zeros((len(mean), self.numbers))
        for i in range(self.numbers):
            for weight in chain.predictor.function_weights(i, coefficients):
                slopes[:, i] += weight
        chain.latent[:, : self.numbers] = mean
        chain.predictor.refresh()
        variance = np.einsum("ni,nij,nj->n", slopes, covariance, slopes)
        return _Piece(log_weight, chain.compute_eta(), np.sqrt(np.maximum(variance, 0.0)))

    def _evaluate_points(
        self, log_weight: Floats, mean: Floats, covariance: Floats
    ) -> Iterator[_Piece]:
        """Points of a normal distribution, with the measurement model put right."""
        chain = self.chain
        ridge = _NO_NOISE * np.diag(chain.start.size[: self.numbers] ** 2)
        lower = np.linalg.cholesky(covariance + ridge)
        for point, log in zip(self.points, self.log_weights, strict=True):
            x = mean + np.einsum("nij,j->ni", lower, point)
            chain.latent[:, : self.numbers] = x
            chain.predictor.refresh()
            weight = log_weight + log
            if not self.normal:
                weight = weight + self._correct_noise(x)
            with np.errstate(all="ignore"):
                eta = chain.compute_eta()
            # Where a function of the formula has no value the model has no mass.
            defined = np.isfinite(np.atleast_2d(eta)).all(axis=0)
            yield _Piece(np.where(defined, weight, -np.inf), np.where(defined, eta, 0.0))

    def _correct_noise(self, x: Floats) -> Floats:
        """Log density of what was released at true numbers, over that of normal noise."""
        log = np.zeros(len(x))
        for i, number in enumerate(self.chain.start.released[: self.numbers]):
            variance = self.noise[:, i, i]
            distance = self.released[:, i] - x[:, i]
            log += number.evaluate(x[:, i]).log + 0.5 * distance**2 / variance
            log += 0.5 * np.log(variance)
        return log

    def _log_likelihood(self, piece: _Piece) -> Floats:
        """Of the outcome, the spread of the linear predictor integrated out."""
        outcome, eta, sd = self.chain.outcome, piece.eta, piece.sd
        if sd is None:
            return outcome.log_released_outcome(eta)
        if outcome.linear:
            variance = outcome.variance + sd**2
            log: Floats = -0.5 * (outcome.true - eta) ** 2 / variance
            return log - 0.5 * np.log(variance / outcome.variance)
        # Nodes about the mode of outcome and predictor together: z is the predictor in its SD.
        z = np.zeros(len(eta))
        for _ in range(_MODE_STEPS):
            density = outcome.evaluate(eta + sd * z)
            step = (sd * density.gradient - z) / (1 + sd**2 * density.curvature)
            z = z + np.clip(step, -2.0, 2.0)
        width = 1 / np.sqrt(1 + sd**2 * outcome.evaluate(eta + sd * z).curvature)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        logs = []
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            at_node = z + width * node
            log = outcome.evaluate(eta + sd * at_node).log - 0.5 * (at_node**2 - node**2)
            logs.append(log + math.log(weight) + np.log(width))
        return np.asarray(np.logaddexp.reduce(logs), float)


def _place_points(numbers: int) -> tuple[Floats, Floats]:
    """(point, number) standard normal points, and their log weights."""
    if numbers == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(_GRID)
        return nodes[:, None], np.log(weights / weights.sum())
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    points = ndtri(Sobol(numbers, seed=0).random(_POINTS))
    return points, np.full(_POINTS, -math.log(_POINTS))
