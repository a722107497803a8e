"""Linear models with noised categories, missing values, groups, or true values of any shape.

A Gibbs sampler from which the true numbers are gone: given levels, components of the mixture and
group effects, outcome and released numbers are normal, so that levels and components are drawn
from probabilities with the true numbers integrated out, and so are group effects. Coefficients
and variances follow from cross products alone (`sfumato.kernels.gibbs_linear`).

The model of true predictors: levels given all clean columns, earlier categories and the group
(a table where clean columns have few combinations, else logistic splits); numbers given all clean
columns, levels and the group, with normal residuals or a mixture of normals whose shares differ by
level. Group effects in it are independent of those of the model of interest, as that model has it.

Priors: flat on coefficients (of levels: normal with 10 SD of the outcome); 1 / σ² on the residual
variance (1 / (σ² + noise) where the outcome is noised); uniform on covariances between groups and
on the covariance of true numbers.

Chance is the analyst's own: numpy's generator under a seed, one stream for each chain, not the
custodian's keyed randomness. Records are put into an order that depends on their values alone.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sfumato.analysis.engines.collapsed_layout import Layout, fits, laid_out
from sfumato.analysis.engines.collapsed_start import fixed_of, prior_of, shape_of, state_of
from sfumato.analysis.engines.mixture import Mixture
from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.progress import Progress, silent

if TYPE_CHECKING:
    from sfumato.kernels.gibbs_arrays import Data

Floats = npt.NDArray[np.float64]
_SLICE_S = 2e7
"""Records looked at between two looks at whether to stop."""


def can(problem: Problem) -> bool:
    """Whether the model is linear in true numbers, levels and clean columns, with normal noise."""
    return problem.family == "gaussian" and problem.outcome_category is None and fits(problem)


def sample(problem: Problem, sampling: Sampling, say: Progress | None = None) -> Posterior:
    """Draws of coefficients and variances, from chains that run side by side.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many chains and draws.
    say : told how far it is.
    """
    layout = laid_out(problem)
    mixture = shape_of(problem, layout) if problem.numbers else _nothing()
    data, prior = fixed_of(problem, layout), prior_of(mixture)
    seeds = np.random.SeedSequence(sampling.seed).spawn(sampling.chains)
    chains = [_Chain(data, mixture, prior, seed, sampling) for seed in seeds]
    complete = _run(chains, sampling, say or silent)
    done = min(chain.done for chain in chains) - sampling.warmup
    if done < 1:
        raise KeyboardInterrupt
    kept = np.stack([one.kept[sampling.warmup : sampling.warmup + done] for one in chains])
    names, draws = _back(problem, layout, kept)
    return Posterior(
        engine="collapsed",
        parameters=names,
        draws=draws,
        independent=False,
        shape="mixture" if mixture.components > 1 else "normal",
        components=mixture.components,
        complete=complete,
        notes=_notes(problem, layout),
    )


@dataclass
class _Chain:
    data: Data
    mixture: Mixture
    prior: Floats
    seed: np.random.SeedSequence
    sampling: Sampling
    done: int = 0
    kept: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def run(self, stop: Event) -> None:
        """All passes, unless told to stop."""
        from sfumato.kernels.gibbs_chain import Passes

        chance = np.random.default_rng(self.seed)
        state = state_of(self.data, self.mixture, chance)
        chain = Passes(self.data, state, self.prior, chance)
        q = self.data.random.shape[1]
        total = self.sampling.warmup + self.sampling.draws
        wide = len(state.beta) + len(state.slope) + 1 + q * (q + 1) // 2
        self.kept = np.zeros((total, wide))
        step = int(min(max(_SLICE_S // len(self.data.clean), 1), 100))
        while self.done < total and not stop.is_set():
            passes = min(step, total - self.done)
            chain.run(self.kept[self.done : self.done + passes])
            self.done += passes


def _run(chains: list[_Chain], sampling: Sampling, say: Progress) -> bool:
    """Run all chains; whether none was interrupted."""
    stop = Event()
    total = len(chains) * (sampling.warmup + sampling.draws)
    workers = max(1, min(len(chains), os.cpu_count() or 1))
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(one.run, stop) for one in chains]
        try:
            left = set(running)
            while left:
                left = wait(left, timeout=0.2).not_done
                say("drawing coefficients", sum(one.done for one in chains), total)
        except KeyboardInterrupt:
            stop.set()
            return False
    for one in running:
        one.result()
    return True


def _back(problem: Problem, layout: Layout, kept: Floats) -> tuple[tuple[str, ...], Floats]:
    """Names and draws on the scales of the terms."""
    terms, d, q = len(layout.plain), len(layout.numbers), layout.random.shape[1]
    outcome = layout.scales[-1]
    variances = q * (q + 1) // 2
    made = np.zeros((*kept.shape[:2], terms + d + 1 + variances))
    slope = kept[..., terms : terms + d] * outcome / layout.scales[:-1]
    plain = kept[..., :terms] @ layout.rotation.T * outcome
    if layout.constant is not None:
        level = layout.centers[-1] - slope @ layout.centers[:-1]
        plain += level[..., None] * layout.constant
    made[..., layout.plain] = plain
    for at in layout.numbers:
        made[..., at] = slope[..., problem.terms[at].numbers[0][0]]
    made[..., terms + d] = kept[..., terms + d] * outcome**2
    names = [one.name for one in problem.terms] + ["residual variance"]
    random = [problem.terms[at].name for at in problem.random]
    place = terms + d + 1
    own, shared = [], []
    for a in range(q):
        for b in range(a + 1):
            scale = outcome**2 / layout.random_scales[a] / layout.random_scales[b]
            value = kept[..., place] * scale
            place += 1
            if a == b:
                own.append((f"variance of {random[a]} by group", value))
            else:
                shared.append((f"covariance of {random[b]} and {random[a]} by group", value))
    for at, (name, value) in enumerate(own + shared):
        names.append(name)
        made[..., terms + d + 1 + at] = value
    return tuple(names), made


def _nothing() -> Mixture:
    """The shape of no numbers."""
    return Mixture(np.ones(1), np.zeros((1, 0)), np.zeros((1, 0, 0)), 0.0)


def _notes(problem: Problem, layout: Layout) -> tuple[str, ...]:
    made = []
    missing = int((layout.present[layout.pattern] == 0).any(axis=1).sum())
    if missing:
        made.append(
            f"{missing} records have missing values; they are integrated out as missing at random."
        )
    if problem.groups is not None and not problem.clustered:
        made.append(
            "True values were taken not to differ by group. If they do, coefficients are biased."
        )
    return tuple(made)
