"""Models of noised data, with the noise taken out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.analysis.cautions import of_checks, of_draws, of_problem, reliabilities, unbounded
from sfumato.analysis.choice import Engine, engine_for
from sfumato.analysis.formula import read_model
from sfumato.analysis.modelled import Modelled, missing, modelled
from sfumato.analysis.naive import Estimates, released_design
from sfumato.analysis.posed import family_and_link
from sfumato.analysis.problem import Posterior, Problem, Sampling, Shape
from sfumato.analysis.realised import determinant_ratio, realised
from sfumato.analysis.received import received, require_known
from sfumato.analysis.result import Fit, Method
from sfumato.errors import MeasureError
from sfumato.kernels.canonical import one_thread
from sfumato.progress import Progress, current_progress

_METHODS = ("posterior", "moments", "calibration", "simex")
_SHAPES = ("auto", "normal", "mixture")
_LEAST = 100
"""Draws for a comparison: enough to see whether half an SD lies between two means."""


def fit(  # noqa: PLR0913 - a model has as many parts
    formula: str,
    release: Any,
    *,
    family: str = "gaussian",
    link: str | None = None,
    noise: Mapping[str, Any] | None = None,
    clean: Collection[str] = (),
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    method: Method = "posterior",
    shape: Shape = "auto",
    clustered: bool = True,
    level: float = 0.95,
    measured: Mapping[str, float] | None = None,
    trials: str | None = None,
    accredited: Any = None,
) -> Fit:
    """Fit a model to released data as if the noise had not been added.

    Question: what would the original have shown, and how sure can one be of it?
    Assumes: the noise is as described. True values of noised variables depend on the clean ones,
    on each other and on the groups; their shape is tested, and a mixture of normals is used where
    a normal one is rejected.

    Parameters
    ----------
    formula : the model, such as "y ~ x + C(sex) + (1 | school)". Powers, products, log( ), sqrt( )
        and exp( ) of noised variables are those of their true values.
    release : what `protect` returned, the folder of a release, a file, or a frame with `noise`.
    family : "gaussian", "bernoulli", "binomial" or "poisson".
    link : "logit" or "probit" of a "bernoulli" or "binomial" model.
    noise : descriptions by variable, where no manifest has them.
    clean : variables to take as they are, though some method changed them.
    draws, chains, seed : how much to draw, and from which seed: the same seed, the same draws.
    method : "posterior" draws from the distribution of the coefficients given all that was
        released; "moments", "calibration" and "simex" are quick looks.
    shape : of true values given clean ones: "normal", "mixture", or "auto" to let the data say.
    clustered : whether true values may differ by group; turn it off only to compare with others.
    level : of the intervals.
    measured : the variance of the error that measurements had before any noise, by variable.
    trials : the variable that says how many trials each record of a "binomial" model has.
    accredited : the manifest for accredited analysts, or where it lies, where the public one
        keeps a part of the noise back.

    Examples
    --------
    >>> import numpy as np, pandas as pd, sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=2000)
    >>> y = 1 + 2 * x + rng.normal(size=2000)
    >>> frame = pd.DataFrame({"y": y, "x": x + rng.normal(scale=0.7, size=2000)})
    >>> found = fit("y ~ x", frame, noise={"x": sf.Gaussian(variance=0.49)}, method="moments")
    >>> found.summary().loc["x", ["mean", "naive"]].round(1).to_list()
    [2.0, 1.3]

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation and analysis
    of perturbed datasets; Fuller (1987), Measurement error models; Carroll, Ruppert, Stefanski &
    Crainiceanu (2006), Measurement error in nonlinear models.
    """
    _check(method, shape, draws, chains, level)
    read = read_model(formula)
    kind = family_and_link(family, link)
    every = [*read.variables, *([trials] if trials else [])]
    got = received(release, noise, every, accredited)
    require_known(got, every, read.group, clean)
    current_progress()("preparing", 0, 1)
    # Chains have threads of their own; those of linear algebra would only get in their way.
    with one_thread():
        model = modelled(
            read, got, kind, measured=measured or {}, trials=trials, shape=shape,
            clustered=clustered,
        )  # fmt: skip
        if method == "posterior":
            return _posterior(model, Sampling(chains=chains, draws=draws, warmup=max(draws // 2, 1),
                                              seed=seed), level)  # fmt: skip
        from sfumato.analysis.quick import quick

        estimates, notes = quick(model, method, seed)
        return _finished(model, method, estimates, level, notes=notes)


def _check(method: str, shape: str, draws: int, chains: int, level: float) -> None:
    for name, value, known in (("method", method, _METHODS), ("shape", shape, _SHAPES)):
        if value not in known:
            raise MeasureError(
                f"There is no {name} '{value}'.", hint=f"there are {', '.join(known)}."
            )
    if draws < 1 or chains < 1:
        raise MeasureError("`draws` and `chains` are 1 or more.")
    if not 0 < level < 1:
        raise MeasureError("`level` lies between 0 and 1.", hint="level=0.95.")


def _posterior(model: Modelled, sampling: Sampling, level: float) -> Fit:
    say = current_progress()
    problem = model.problem
    engine = engine_for(problem)
    found = engine.sample(problem, sampling, say)
    if not found.draws.size or not found.draws.shape[1]:
        raise MeasureError("It was interrupted before there was a draw.", hint="fit again.")
    normal, said = None, tuple[str, ...]()
    alike = replace(problem, shape="normal")
    mixed = problem.shape == "auto" and found.shape == "mixture" and found.complete
    if mixed and engine.can(alike):
        normal = _compared(engine, alike, sampling, say)
        if normal is None:
            said = ("The comparison with a normal shape was interrupted; the fit itself was not.",)
    gone = int(missing(problem).sum())
    if gone and not any("missing" in note for note in found.notes):
        said += (f"{gone:,} records lack a noised value; it is part of the model.",)
    return _finished(
        model, "posterior", _summed(found), level, posterior=found, normal=normal, notes=said
    )


def _compared(
    engine: Engine, alike: Problem, sampling: Sampling, say: Progress
) -> dict[str, float] | None:
    """Means with true values taken as normal; None where that was interrupted.

    What was drawn before is finished by then, and must not be lost.
    """
    fewer = replace(sampling, draws=max(sampling.draws // 4, _LEAST))
    try:
        other = engine.sample(alike, fewer, say)
    except KeyboardInterrupt:
        return None
    if not other.complete:
        return None
    return dict(zip(other.parameters, other.draws.mean(axis=(0, 1)).tolist(), strict=True))


def _summed(found: Posterior) -> Estimates:
    draws = found.draws.reshape(-1, found.draws.shape[-1])
    sd = draws.std(axis=0, ddof=1) if len(draws) > 1 else np.full(draws.shape[1], np.nan)
    return Estimates(
        value=dict(zip(found.parameters, draws.mean(axis=0).tolist(), strict=True)),
        error=dict(zip(found.parameters, sd.tolist(), strict=True)),
    )


def _finished(
    model: Modelled,
    method: Method,
    estimates: Estimates,
    level: float,
    *,
    posterior: Posterior | None = None,
    normal: Mapping[str, float] | None = None,
    notes: tuple[str, ...] = (),
) -> Fit:
    problem, corrected, shift = model.problem, model.corrected, model.shift
    estimates = estimates.shifted(shift)
    moments = corrected.estimates.shifted(shift) if corrected else None
    sampled = None
    if posterior is not None:
        sampled = posterior.draws + np.array([shift.get(one, 0.0) for one in posterior.parameters])
    made = Fit(
        formula=model.formula,
        family=problem.family,
        link=problem.link,
        method=method,
        engine=posterior.engine if posterior else "",
        records=problem.records,
        left_out=model.ready.left_out,
        level=level,
        terms=tuple(one.name for one in problem.terms),
        estimates=estimates,
        naive=model.naive.shifted(shift),
        moments=moments,
        normal=normal and {name: one + shift.get(name, 0.0) for name, one in normal.items()},
        sampled=sampled,
        shape=posterior.shape if posterior else "",
        components=posterior.components if posterior else 1,
        notes=(*model.notes, *(posterior.notes if posterior else ()), *notes),
        efficiency_rows=realised(problem, corrected, estimates),
        determinant_ratio=determinant_ratio(corrected),
        complete=posterior.complete if posterior else True,
        data=model.data,
    )
    wary = of_problem(problem, reliabilities(problem, model.levels), model.naive)
    if posterior is not None:
        wary += of_draws(made.rows, posterior) + of_checks(made.rows, moments)
        wary += unbounded(problem, released_design(problem, model.ready.columns), made.rows)
    return replace(made, warnings=tuple(wary))
