"""Linear models with noised categories, missing values, groups, or true values of any shape.

A Gibbs sampler from which the true numbers are gone: given levels, components of the mixture and
group effects, outcome and released numbers are normal, so that levels and components are drawn
from probabilities with the true numbers integrated out, and so are group effects. Coefficients
and variances follow from cross products alone (`collapsed_coefficients`). In models of one level
with few parameters levels are summed out instead, and nothing is drawn but the parameters
(`collapsed_leaps`); with groups that is done for the coefficient of a level (`collapsed_line`).

The model of true predictors: levels given all clean columns, earlier categories and the group
(a table where clean columns have few combinations, else logistic splits); numbers given all clean
columns, levels and the group, with normal residuals or a mixture of normals whose shares differ by
level. Group effects in it are independent of those of the model of interest, as that model has it.

Priors: flat on coefficients (of levels: normal with 10 SD of the outcome); 1 / σ² on the residual
variance (1 / (σ² + noise) where the outcome is noised); uniform on covariances between groups and
on the covariance of true numbers.

Chance is the analyst's own: numpy's generator under a seed, not the custodian's keyed
randomness. Records are put into an order that depends on their values alone.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np

from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.analysis.samplers.gibbs.coefficients import Coefficients
from sfumato.analysis.samplers.gibbs.groups import draw_covariances
from sfumato.analysis.samplers.gibbs.layout import Layout, fits, laid_out
from sfumato.analysis.samplers.gibbs.leaps import leaps
from sfumato.analysis.samplers.gibbs.line import Line, worth_a_line
from sfumato.analysis.samplers.gibbs.passes import Passes
from sfumato.analysis.samplers.gibbs.start import fixed_of, shape_of, state_of
from sfumato.analysis.samplers.gibbs.state import Data
from sfumato.analysis.samplers.mixture import Mixture
from sfumato.kernels.arrays import Floats
from sfumato.progress import Progress, silent

_TOLD_S = 0.2
"""Seconds between two words on how far it is."""
_HOME = "sfumato.kernels.sampling"
_KERNELS = ("gibbs_total", "gibbs_steps", "gibbs_two", "gibbs_splits", "gibbs")


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
    say = say or silent
    layout = laid_out(problem)
    _compiled(say)
    mixture = shape_of(problem, layout) if problem.numbers else _nothing()
    data = fixed_of(problem, layout, mixture)
    details: dict[str, float] = {}
    found = leaps(data, sampling, say)
    if found is not None:
        kept, details["accepted"], complete = found
    else:
        kept, complete = _run(data, mixture, sampling, say)
    if kept.shape[1] < 1:
        raise KeyboardInterrupt
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
        details=details,
    )


def _compiled(say: Progress) -> None:
    """Bring the compiled parts in. The first time on a machine that takes some ten seconds."""
    missing = [one for one in _KERNELS if f"{_HOME}.{one}" not in sys.modules]
    for at, one in enumerate(missing):
        say("compiling, once", at, len(missing))
        import_module(f"{_HOME}.{one}")
    if missing:
        say("compiling, once", len(missing), len(missing))


def _run(data: Data, mixture: Mixture, sampling: Sampling, say: Progress) -> tuple[Floats, bool]:
    """Draws (chain, draw, value) after the warm-up, and whether none was interrupted.

    All chains take each step together: what does not look at the records costs little more for
    four than for one.
    """
    chains, total = sampling.chains, sampling.warmup + sampling.draws
    chance = np.random.default_rng(sampling.seed)
    state = state_of(data, mixture, chains, chance)
    below = np.tril_indices(len(data.random))
    kept: list[Floats] = []
    told = time.monotonic()
    with ThreadPoolExecutor(max(1, min(chains, os.cpu_count() or 1))) as pool:
        passes, coefficients = Passes(data, chains, chance, pool), Coefficients(data, chance)
        line = Line(data, chains, sampling.warmup, chance) if worth_a_line(data) else None
        try:
            for at in range(total):
                coefficients.draw(state, passes.run(state))
                draw_covariances(data, state, chance)
                if line is not None:
                    line.draw(state)
                between = state.between[:, below[0], below[1]]
                if at >= sampling.warmup:
                    parts = [state.beta, state.slope, state.residual[:, None], between]
                    kept.append(np.concatenate(parts, axis=1))
                if at == total - 1 or time.monotonic() - told > _TOLD_S:
                    say("drawing coefficients", chains * (at + 1), chains * total)
                    told = time.monotonic()
        except KeyboardInterrupt:
            if not kept:  # nothing to return yet: those who called are to know
                raise
            return np.array(kept).reshape(len(kept), chains, -1).swapaxes(0, 1), False
    return np.stack(kept, axis=1), True


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
