"""Any model of noised data: Metropolis within Gibbs, every proposal with its Hastings ratio.

For what the fast engines cannot do: powers, products and functions of noised variables, variances
that grow with the value, noise on another scale, Laplace noise, values set to a constant or
rounded, generalised models of two levels. True values are drawn, all records at once, so that a
draw costs more than in the other engines and tells less. Draws of true values are not kept.

Priors: flat on coefficients (of levels: normal with 10 SD of the outcome, or 10 on the scale of the
link); 1 / σ² on the residual variance (1 / (σ² + noise) where the outcome is noised); uniform on
covariances between groups. For the model of true values see `metropolis_covariates` and
`metropolis_categories`. Where a function such as a logarithm limits the true values, that model is
cut off there and not put right for it: near the limit prefer noise on the logarithm.

Chance is the analyst's own: numpy's generator under a seed, one stream for each chain. Records are
put into an order that depends on their values alone.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import current_progress

if TYPE_CHECKING:
    from sfumato.analysis.problem import Posterior, Problem, Sampling
    from sfumato.analysis.samplers.metropolis.chain import Chain
    from sfumato.analysis.samplers.metropolis.start import Start
    from sfumato.progress import Progress

_LINKS = {
    ("gaussian", "identity"),
    ("bernoulli", "logit"),
    ("bernoulli", "probit"),
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("poisson", "log"),
}
_MANY = 5_000
"""Records from which on chains run side by side: below, they would wait for each other."""
_LOW = 0.2
"""A share of accepted proposals below which chains hardly move."""


def can(problem: Problem) -> bool:
    """Whether this engine takes the problem: all families, all terms, all noise that is known."""
    return (
        (problem.family, problem.link) in _LINKS
        and (problem.outcome_number is None or problem.family == "gaussian")
        and (problem.outcome_category is None or problem.family == "bernoulli")
        and (problem.family != "binomial" or problem.trials is not None)
    )


def sample(problem: Problem, sampling: Sampling, say: Progress | None = None) -> Posterior:
    """Draws of coefficients and variances, given all that was released.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many chains and draws. Nothing is tuned after the warm-up.
    say : told how far it is.
    """
    from sfumato.analysis.problem import Posterior
    from sfumato.analysis.samplers.metropolis.start import started
    from sfumato.kernels.canonical import one_thread

    if not can(problem):
        msg = "There is no such model for noised data."
        raise MeasureError(msg, hint="ask `can` first.")
    with one_thread():
        start = started(problem, sampling.seed)
        seeds = np.random.SeedSequence(sampling.seed).spawn(sampling.chains)
        runs = [_Run(start, seed, sampling) for seed in seeds]
        complete = _all(runs, sampling, say or current_progress())
    done = min(run.done for run in runs) - sampling.warmup
    if done < 1:
        raise KeyboardInterrupt
    accepted = np.mean([run.accepted for run in runs], axis=0)
    components = start.mixture.components
    return Posterior(
        engine="metropolis",
        parameters=names_of(problem),
        draws=np.stack([run.kept[sampling.warmup : sampling.warmup + done] for run in runs]),
        independent=False,
        shape="mixture" if components > 1 else "normal",
        components=components,
        notes=_notes(start, accepted),
        complete=complete,
        details={
            **{
                f"accepted {one.name}": float(share)
                for one, share in zip(problem.numbers, accepted, strict=True)
            },
            "accepted together": float(np.mean([run.together for run in runs])),
        },
    )


def names_of(problem: Problem) -> tuple[str, ...]:
    """The parameters in the order of the draws."""
    made = [one.name for one in problem.terms]
    if problem.family == "gaussian":
        made.append("residual variance")
    if problem.groups is not None:
        random = [problem.terms[at].name for at in problem.random]
        made += [f"variance of {name} by group" for name in random]
        made += [
            f"covariance of {random[b]} and {random[a]} by group"
            for a in range(len(random))
            for b in range(a)
        ]
    return tuple(made)


class _Run:
    """A chain as it runs."""

    def __init__(self, start: Start, seed: np.random.SeedSequence, sampling: Sampling) -> None:
        self.start, self.seed = start, seed
        self.warmup, self.total = sampling.warmup, sampling.warmup + sampling.draws
        self.done = 0
        self.kept: Floats = np.zeros((self.total, len(names_of(start.problem))))
        self.accepted: Floats = np.zeros(len(start.problem.numbers))
        self.together = 0.0
        self._chain: Chain | None = None

    def step(self) -> None:
        """One pass."""
        from sfumato.analysis.samplers.metropolis.chain import Chain

        self._chain = self._chain or Chain(self.start, self.seed, self.warmup)
        self._chain.step()
        self.kept[self.done] = self._chain.values()
        self.done += 1
        self.accepted = self._chain.accepted / self.done
        self.together = self._chain.woven_accepted / max(self._chain.woven, 1)


def _in_turns(runs: list[_Run], stop: Event) -> None:
    """All passes of some chains, unless told to stop: then all have come as far."""
    for _ in range(runs[0].total):
        for one in runs:
            if stop.is_set():
                return
            one.step()


def _all(runs: list[_Run], sampling: Sampling, say: Progress) -> bool:
    """Run all chains; whether none was interrupted."""
    stop = Event()
    total = len(runs) * (sampling.warmup + sampling.draws)
    many = runs[0].start.problem.records >= _MANY
    workers = max(1, min(len(runs), os.cpu_count() or 1)) if many else 1
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(_in_turns, runs[at::workers], stop) for at in range(workers)]
        try:
            left = set(running)
            while left:
                found = wait(left, timeout=0.2)
                left = found.not_done
                for one in found.done:
                    one.result()
                say("drawing coefficients", sum(one.done for one in runs), total)
        except KeyboardInterrupt:
            stop.set()
            return False
        except BaseException:
            stop.set()
            raise
    return True


def _notes(start: Start, accepted: Floats) -> tuple[str, ...]:
    problem = start.problem
    made = []
    missing = np.logical_or.reduce([one.missing for one in start.released] or [np.zeros(1, bool)])
    if missing.any():
        count = int(missing.sum())
        made.append(f"{count} records have missing values, drawn as missing at random.")
    if problem.groups is not None and not problem.clustered:
        made.append(
            "True values were taken not to differ by group. If they do, coefficients are biased."
        )
    for one, share in zip(problem.numbers, accepted, strict=True):
        if share < _LOW:
            made.append(
                f"Only {share:.0%} of the proposed true values of '{one.name}' were accepted: "
                "draw more, and look at the chains."
            )
    return tuple(made)
