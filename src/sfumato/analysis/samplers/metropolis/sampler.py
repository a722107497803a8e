"""Any model of noised data: Metropolis within Gibbs, every proposal with its Hastings ratio.

For what the fast engines cannot do: powers, products and functions of noised variables, variances
that grow with the value, noise on another scale, Laplace noise, values set to a constant or
rounded, generalised models of two levels, numbers known only as ranges (`cells`). True values are
drawn, all records at once, so that a draw costs more than in the other engines and says less. Draws
of true values are not kept.

In order: `start` prepares the problem and first values; each `chain` passes over latent values
(`latent`), coefficients (`coefficients`) and the model of true predictors (`covariates`), given the
densities of what was released (`likelihood`).

Priors: flat on coefficients (of levels: normal with 10 SD of the outcome, or 10 on the scale of the
link); 1 / σ² on the residual variance (1 / (σ² + noise) where the outcome is noised); uniform on
covariances between groups; uniform on the square root of the dispersion; normal with SD 10 on
the distance of thresholds from the first. For the model of true values see `covariates`. Where a
function such as a logarithm limits the true values, that model is truncated there without its
normalising constant: near the limit prefer noise on the logarithm.

Randomness is the analyst's own: numpy's generator under a seed, one stream for each chain. Records
are put into an order that depends on their values alone.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

import numpy as np

from sfumato.analysis.naive_fit import name_group_covariances
from sfumato.analysis.problem import (
    GeneralisedNumber,
    Pointwise,
    Posterior,
    Problem,
    Replicate,
    Sampling,
)
from sfumato.analysis.samplers.metropolis.chain import Chain
from sfumato.analysis.samplers.metropolis.pointwise import (
    OutcomePrediction,
    PointwisePredictor,
    require_pointwise,
)
from sfumato.analysis.samplers.metropolis.start import SharedStart, find_order, prepare_start
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import use_one_thread
from sfumato.progress import Progress, current_progress

_LINKS = {
    ("gaussian", "identity"),
    ("bernoulli", "logit"),
    ("bernoulli", "probit"),
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("poisson", "log"),
    ("negative_binomial", "log"),
    ("ordinal", "logit"),
    ("multinomial", "logit"),
}
_OF_LEVELS = ("bernoulli", "ordinal", "multinomial")
_MANY_RECORDS = 5_000
"""Records from which on chains run side by side: below, they would wait for each other."""
_MOST_VALUES = 20_000_000
"""Of likelihoods by record and draw; beyond, only every so-many-th draw has them."""
_REPLICATES = 80
"""Of the true numbers, for posterior predictive checks."""
_LOW_ACCEPTANCE = 0.2
"""A share of accepted proposals below which chains hardly move."""


def can(problem: Problem) -> bool:
    """Whether this engine takes the problem: all families, all terms, all noise that is known."""
    return (
        (problem.family, problem.link) in _LINKS
        and (problem.outcome_number is None or problem.family == "gaussian")
        and (problem.outcome_category is None or problem.family in _OF_LEVELS)
        and (problem.family != "binomial" or problem.trials is not None)
        and (problem.family != "multinomial" or _has_plain_levels(problem))
    )


def _has_plain_levels(problem: Problem) -> bool:
    """Whether a model with a predictor for each level has no groups, nor ranges."""
    ranges = [number for number in problem.numbers if isinstance(number, GeneralisedNumber)]
    return problem.groups is None and not ranges


def sample(problem: Problem, sampling: Sampling, progress: Progress | None = None) -> Posterior:
    """Draws of coefficients and variances, given all that was released.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many chains and draws. Nothing is tuned after the warm-up.
    progress : called with how far it is.
    """
    if not can(problem):
        msg = "There is no such model for noised data."
        raise MeasureError(msg, hint="ask `can` first.")
    if sampling.pointwise:
        require_pointwise(problem)
    with use_one_thread():
        start = prepare_start(problem, sampling.seed)
        seeds = np.random.SeedSequence(sampling.seed).spawn(sampling.chains)
        runs = [_Run(start, seed, sampling) for seed in seeds]
        complete = _run_chains(runs, progress or current_progress())
        while complete and sampling.needs_more(_collect_draws(runs)):
            for run in runs:
                run.extend(sampling.draws)
            complete = _run_chains(runs, progress or current_progress())
    draws = _collect_draws(runs)
    if not draws.shape[1]:
        raise KeyboardInterrupt
    acceptance = np.mean([run.acceptance for run in runs], axis=0)
    components = start.mixture.components
    return Posterior(
        engine="metropolis",
        parameters=name_parameters(problem),
        draws=draws,
        independent=False,
        shape="mixture" if components > 1 else "normal",
        components=components,
        notes=(*_write_notes(start, acceptance), *sampling.describe_length(draws)),
        complete=complete,
        replicates=_collect_replicates(problem, runs),
        pointwise=_collect_pointwise(problem, runs) if sampling.pointwise else None,
        details={
            **{
                f"accepted {number.name}": float(share)
                for number, share in zip(start.problem.numbers, acceptance, strict=True)
            },
            "accepted together": float(np.mean([run.joint_acceptance for run in runs])),
        },
    )


def name_parameters(problem: Problem) -> tuple[str, ...]:
    """The parameters in the order of the draws."""
    names = list(problem.coefficient_names)
    if problem.family == "gaussian":
        names.append("residual variance")
    for factor in problem.factors:
        names += name_group_covariances(problem, factor)
    return tuple(names)


class _Run:
    """A chain as it runs, with its draws so far."""

    def __init__(
        self, start: SharedStart, seed: np.random.SeedSequence, sampling: Sampling
    ) -> None:
        self.start, self.seed = start, seed
        self.warmup, self.total = sampling.warmup, sampling.warmup + sampling.draws
        self.done = 0
        self.values: Floats = np.zeros((self.total, len(name_parameters(start.problem))))
        self.acceptance: Floats = np.zeros(len(start.problem.numbers))
        self.joint_acceptance = 0.0
        self.replicates: list[Replicate] = []
        self._simulation = np.random.default_rng(seed.spawn(1)[0])
        self._interval = max(sampling.draws * sampling.chains // _REPLICATES, 1)
        values = sampling.draws * sampling.chains * start.problem.records
        self.thinning = -(-values // _MOST_VALUES) if sampling.pointwise else 0
        self.predictions: list[OutcomePrediction] = []
        self._predictor: PointwisePredictor | None = None
        self._chain: Chain | None = None

    def extend(self, draws: int) -> None:
        """Make room for more passes."""
        self.total += draws
        self.values = np.concatenate([self.values, np.zeros((draws, self.values.shape[1]))])

    def step(self) -> None:
        """One pass."""
        # Made by the thread that runs it, so that chains also start side by side.
        self._chain = self._chain or Chain(self.start, self.seed, self.warmup)
        self._chain.step()
        self.values[self.done] = self._chain.values()
        self.done += 1
        if self.done > self.warmup and self.done % self._interval == 0:
            true = self._chain.numbers.simulate(self._simulation)
            self.replicates.append(Replicate(true, self._chain.values()))
        if self.thinning and self.done > self.warmup:
            self._predictor = self._predictor or PointwisePredictor(self._chain, self._simulation)
            if (self.done - self.warmup) % self.thinning == 0:
                self.predictions.append(self._predictor.predict())
        self.acceptance = self._chain.accepted / self.done
        self.joint_acceptance = self._chain.joint_accepted / max(self._chain.joint_steps, 1)


def _collect_draws(runs: list[_Run]) -> Floats:
    """(chain, draw, parameter): as many draws of each chain as all have."""
    first, last = runs[0].warmup, min(run.done for run in runs)
    return np.stack([run.values[first : max(first, last)] for run in runs])


def _collect_replicates(problem: Problem, runs: list[_Run]) -> tuple[Replicate, ...]:
    """What the chains simulated, in the problem's own order of records."""
    if problem.group_level or problem.generalised:
        return ()
    back = np.argsort(find_order(problem))
    replicates = [replicate for run in runs for replicate in run.replicates]
    return tuple(Replicate(x.true[back], x.parameters) for x in replicates)


def _collect_pointwise(problem: Problem, runs: list[_Run]) -> Pointwise:
    """Likelihoods and predictions of all chains, in the problem's own order of records."""
    back = np.argsort(find_order(problem))
    thinning, count = runs[0].thinning, min(len(run.predictions) for run in runs)
    predictions = [run.predictions[:count] for run in runs]
    return Pointwise(
        log_likelihood=np.array([[x.log_likelihood[back] for x in chain] for chain in predictions]),
        predicted=np.array([[x.drawn[back] for x in chain] for chain in predictions]),
        interval=thinning,
    )


def _run_in_turns(runs: list[_Run], stop: Event) -> None:
    """All passes of some chains, until stopped: then all have come as far."""
    while runs[-1].done < runs[-1].total:
        for run in runs:
            if stop.is_set():
                return
            run.step()


def _run_chains(runs: list[_Run], progress: Progress) -> bool:
    """Run all chains; whether none was interrupted."""
    stop = Event()
    total = sum(run.total for run in runs)
    many = runs[0].start.problem.records >= _MANY_RECORDS
    workers = max(1, min(len(runs), os.cpu_count() or 1)) if many else 1
    with ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(_run_in_turns, runs[i::workers], stop) for i in range(workers)}
        try:
            while pending:
                state = wait(pending, timeout=0.2)
                pending = state.not_done
                for finished in state.done:
                    finished.result()
                progress("drawing coefficients", sum(run.done for run in runs), total)
        except KeyboardInterrupt:
            stop.set()
            return False
        except BaseException:
            stop.set()
            raise
    return True


def _write_notes(start: SharedStart, acceptance: Floats) -> tuple[str, ...]:
    problem, notes = start.problem, []
    noised = [x for x in start.released if not isinstance(x.number, GeneralisedNumber)]
    missing = np.logical_or.reduce([number.missing for number in noised] or [np.zeros(1, bool)])
    if missing.any():
        count = int(missing.sum())
        notes.append(f"{count} records have missing values, drawn as missing at random.")
    if problem.groups is not None and not problem.clustered:
        notes.append(
            "True values were taken not to differ by group. If they do, coefficients are biased."
        )
    for number, share in zip(problem.numbers, acceptance, strict=True):
        if share < _LOW_ACCEPTANCE:
            notes.append(
                f"Only {share:.0%} of the proposed true values of '{number.name}' were accepted: "
                "draw more, and look at the chains."
            )
    return tuple(notes)
