"""Linear models with noised categories, missing values, groups, or true values of any shape.

A collapsed Gibbs sampler: true numbers are integrated out. In models of one level with few
parameters levels are summed out as well, and an independence sampler draws nothing but parameters
(`independence`). Otherwise a sweep is, in this order (`steps`):

1. level and mixture component of every record, given all but the true numbers; random effects of
   every group; probabilities of the levels;
2. coefficients, residual variance, means and covariances of the mixture components, a few times,
   from cross products alone;
3. covariances between groups;
4. with groups, the coefficient of a noised level once more, levels summed out (`independence`).

The model (`model`): levels given all clean columns, earlier categories and the group (a table where
clean columns have few combinations, else sequential logits); numbers given all clean columns,
levels and the group, with normal residuals or a mixture of normals whose shares differ by level.
Random effects in it are independent of those of the model of interest.

Priors: flat on coefficients (of levels: normal with 10 SD of the outcome); 1 / σ² on the residual
variance (1 / (σ² + noise) where the outcome is noised); uniform on covariances between groups and
on the covariance of true numbers.

Randomness is the analyst's own: numpy's generator under a seed, not the custodian's keyed
randomness. Records are put into an order that depends on their values alone.

References: Liu (1994), JASA 89:958; Gelman et al. (2013), Bayesian Data Analysis, chapter 11.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np

from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.analysis.samplers.gibbs.independence import (
    ChainDraws,
    LevelCoefficientStep,
    has_level_step,
    sample_independently,
)
from sfumato.analysis.samplers.gibbs.model import (
    LinearModel,
    build_model,
    is_linear,
    start_chains,
)
from sfumato.analysis.samplers.gibbs.steps import (
    CoefficientStep,
    RecordStep,
    draw_between_covariances,
)
from sfumato.kernels.arrays import Floats
from sfumato.progress import Progress, silent

_REPORT_SECONDS = 0.2
"""Between two reports of progress."""
_KERNELS = (
    "sfumato.kernels.sampling.gibbs_records",
    "sfumato.kernels.sampling.gibbs_coefficients",
)


def can(problem: Problem) -> bool:
    """Whether the model is linear in true numbers, levels and clean columns, with normal noise."""
    normal = problem.family == "gaussian" and problem.outcome_category is None
    one_spread = problem.exposure is None
    plain_groups = not problem.group_level and not problem.more_factors
    return normal and one_spread and is_linear(problem) and plain_groups


def sample(problem: Problem, sampling: Sampling, progress: Progress | None = None) -> Posterior:
    """Draws of coefficients and variances, from chains that run side by side.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many chains and draws.
    progress : called with how far it is.
    """
    progress = progress or silent
    model = build_model(problem)
    _load_kernels(progress)
    result = sample_independently(model, sampling, progress)
    if result is None:
        result = _run_gibbs(problem, model, sampling, progress)
    if result.draws.shape[1] < 1:
        raise KeyboardInterrupt
    names, draws = _restore_scales(problem, model, result.draws)
    return Posterior(
        engine="collapsed",
        parameters=names,
        draws=draws,
        independent=False,
        shape="mixture" if model.components > 1 else "normal",
        components=model.components,
        complete=result.complete,
        notes=(*_describe_assumptions(problem, model), *sampling.describe_length(draws)),
        details={} if result.accepted is None else {"accepted": result.accepted},
    )


def _load_kernels(progress: Progress) -> None:
    """Import the compiled parts. The first time on a machine that takes some ten seconds."""
    missing = [name for name in _KERNELS if name not in sys.modules]
    for i, name in enumerate(missing):
        progress("compiling, once", i, len(missing))
        import_module(name)
    if missing:
        progress("compiling, once", len(missing), len(missing))


def _run_gibbs(
    problem: Problem, model: LinearModel, sampling: Sampling, progress: Progress
) -> ChainDraws:
    """Warm up, sweep, and collect β, δ, σ² and the covariances between groups.

    All chains take each step together: what does not look at the records costs little more for
    four than for one.
    """
    chains, total = sampling.chains, sampling.warmup + sampling.draws
    rng = np.random.default_rng(sampling.seed)
    state = start_chains(model, chains, rng)
    below = np.tril_indices(len(model.random_design))
    draws: list[Floats] = []
    complete, reported = True, time.monotonic()
    with ThreadPoolExecutor(max(1, min(chains, os.cpu_count() or 1))) as pool:
        records = RecordStep(model, chains, rng, pool)
        coefficients = CoefficientStep(model, rng)
        level_step = None
        if has_level_step(model):
            level_step = LevelCoefficientStep(model, chains, sampling.warmup, rng)
        try:
            sweep = 0
            while sweep < total:
                products = records.draw(state)
                coefficients.draw(state, products)
                draw_between_covariances(model, state, rng)
                if level_step is not None:
                    level_step.draw(state)
                if sweep >= sampling.warmup:
                    between = state.outcome_between[:, below[0], below[1]]
                    residual = state.residual_variance[:, None]
                    parts = [state.beta, state.slope, residual, between]
                    draws.append(np.concatenate(parts, axis=1))
                sweep += 1
                if sweep == total or time.monotonic() - reported > _REPORT_SECONDS:
                    progress("drawing coefficients", chains * sweep, chains * total)
                    reported = time.monotonic()
                if sweep == total:
                    _, restored = _restore_scales(problem, model, np.stack(draws, axis=1))
                    total += sampling.draws if sampling.needs_more(restored) else 0
        except KeyboardInterrupt:
            if not draws:  # nothing to return yet: callers must know
                raise
            complete = False
    return ChainDraws(np.stack(draws, axis=1), complete)


def _restore_scales(
    problem: Problem, model: LinearModel, draws: Floats
) -> tuple[tuple[str, ...], Floats]:
    """Names and draws on the scales of the terms."""
    scaling = model.scaling
    terms, d, q = len(scaling.fixed_terms), model.numbers, len(model.random_design)
    y_scale = scaling.scales[-1]
    restored = np.zeros((*draws.shape[:2], terms + d + 1 + q * (q + 1) // 2))
    slope = draws[..., terms : terms + d] * y_scale / scaling.scales[:-1]
    fixed = draws[..., :terms] @ scaling.rotation.T * y_scale
    if scaling.constant is not None:
        level = scaling.centers[-1] - slope @ scaling.centers[:-1]
        fixed += level[..., None] * scaling.constant
    restored[..., scaling.fixed_terms] = fixed
    for i in scaling.number_terms:
        restored[..., i] = slope[..., problem.terms[i].numbers[0][0]]
    restored[..., terms + d] = draws[..., terms + d] * y_scale**2
    names = [term.name for term in problem.terms] + ["residual variance"]
    random = [problem.terms[i].name for i in problem.random]
    column = terms + d + 1
    variances, covariances = [], []
    for a in range(q):
        for b in range(a + 1):
            scale = y_scale**2 / scaling.random_scales[a] / scaling.random_scales[b]
            value = draws[..., column] * scale
            column += 1
            if a == b:
                variances.append((f"variance of {random[a]} by group", value))
            else:
                covariances.append((f"covariance of {random[b]} and {random[a]} by group", value))
    for i, (name, value) in enumerate(variances + covariances):
        names.append(name)
        restored[..., terms + d + 1 + i] = value
    return tuple(names), restored


def _describe_assumptions(problem: Problem, model: LinearModel) -> tuple[str, ...]:
    notes = []
    missing = int((model.present[model.index[:, 0]] == 0).any(axis=1).sum())
    if missing:
        notes.append(
            f"{missing} records have missing values; they are integrated out as missing at random."
        )
    if problem.groups is not None and not problem.clustered:
        notes.append(
            "True values were taken not to differ by group. If they do, coefficients are biased."
        )
    return tuple(notes)
