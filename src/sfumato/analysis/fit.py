"""Models of noised or generalised data, as of the original: `fit` lists the stages in order."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.analysis.estimators import Estimation, draw_posterior, estimate_quickly
from sfumato.analysis.fit_warnings import (
    check_agreement,
    check_draws,
    check_mismatches,
    check_problem,
    detect_separation,
    estimate_reliabilities,
)
from sfumato.analysis.formula import read_model_formula
from sfumato.analysis.group_level import require_separate_draws
from sfumato.analysis.model import Model, fit_references
from sfumato.analysis.naive_fit import build_released_design
from sfumato.analysis.problem import Pointwise, Posterior, Sampling, Shape
from sfumato.analysis.problem_building import build_problem, resolve_family
from sfumato.analysis.realised_efficiency import compute_realised_efficiency, determinant_ratio
from sfumato.analysis.release_input import open_once, read_release_input, require_descriptions
from sfumato.analysis.result import Fit, Method
from sfumato.analysis.survey_weights import (
    add_weights,
    describe_weights,
    find_weight_variable,
    require_usable_weights,
)
from sfumato.analysis.variables import prepare_variables
from sfumato.errors import MeasureError
from sfumato.kernels.exact_sums import use_one_thread
from sfumato.progress import Progress, current_progress, send_progress_to

_METHODS = ("posterior", "moments", "calibration", "simex")
_SHAPES = ("auto", "normal", "mixture")
_ENOUGH, _LONGER = 1000, 4
"""Draws of a chain from which on R-hat tells whether chains agree; they go on to so many times as
many if not. Who asks for fewer is in a hurry."""


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
    offset: str | None = None,
    pointwise: bool = False,
    weights: str | None = None,
    accredited: Any = None,
    progress: Progress | None = None,
) -> Fit:
    """Fit a model to released data as if the noise had not been added.

    Question: what would the original have shown, and how certain is that?
    Assumes: the noise is as described. True values of noised variables depend on the clean ones,
    on each other and on the groups; their shape is tested, and a mixture of normals is used where
    a normal one is rejected. Variables that were released as ranges, sets or `*` lie in their
    cells; wide ranges leave some bias, of which a warning tells.

    Parameters
    ----------
    formula : the model, such as "y ~ x + C(sex) + (1 | school)". Powers, products, log( ), sqrt( )
        and exp( ) of noised variables are those of their true values.
    release : what `protect` returned, the folder of a release, a file, or a frame with `noise`.
    family : "gaussian", "bernoulli", "binomial", "poisson", "negative_binomial" (counts that vary
        more than Poisson ones), "ordinal" (levels in order: cumulative logit) or "multinomial"
        (levels without order: logit of each against the first).
    link : "logit" or "probit" of a "bernoulli" or "binomial" model.
    noise : descriptions by variable, where no manifest has them.
    clean : variables to take as they are, though some method changed them.
    draws, chains, seed : how much to draw, and from which seed: the same seed, the same draws.
        Chains of 1000 draws or more that do not agree go on by themselves, to four times as many
        at most; a note says so.
    method : "posterior" draws from the distribution of the coefficients given all that was
        released; "moments", "calibration" and "simex" are quick looks.
    shape : distribution of true values, given clean ones: "normal", "mixture", or "auto" to let
        the data say.
    clustered : whether true values may differ by group; turn it off only to compare with others.
    level : probability level of the intervals.
    measured : the variance of the error that measurements had before any noise, by variable.
    trials : the variable that says how many trials each record of a "binomial" model has.
    offset : what is added to the linear predictor with a coefficient of 1, such as "log(years)";
        the same as `+ offset(log(years))` in the formula.
    pointwise : whether to keep the log-likelihood and a prediction of each record, for `loo`,
        `waic` and `sf.compare_models`. True values are then drawn (engine "metropolis").
    weights : the variable of the survey weights, or "role" for the one whose role is "weight".
        Then the model is that of the population: a record counts as often as its weight says, and
        errors are those of the sample's design. For models of one level.
    accredited : the manifest for accredited analysts, or where it lies, where the public one
        keeps a part of the noise back.
    progress : called with what is being done, how much of it is done, and how much there is.

    An interrupt (Ctrl-C) returns what was drawn until then, with a warning that says how much.

    Examples
    --------
    >>> import numpy as np, pandas as pd, sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=2000)
    >>> y = 1 + 2 * x + rng.normal(size=2000)
    >>> frame = pd.DataFrame({"y": y, "x": x + rng.normal(scale=0.7, size=2000)})
    >>> result = fit("y ~ x", frame, noise={"x": sf.Gaussian(variance=0.49)}, method="moments")
    >>> result.summary().loc["x", ["mean", "naive"]].round(1).to_list()
    [2.0, 1.3]

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation and analysis
    of perturbed datasets; Fuller (1987), Measurement error models; Carroll, Ruppert, Stefanski &
    Crainiceanu (2006), Measurement error in nonlinear models.
    """
    _check_options(method, shape, draws, chains, level)
    if pointwise and method != "posterior":
        raise MeasureError(
            f"A quick look by '{method}' has no likelihood by record.",
            hint='use method="posterior".',
        )
    formula = f"{formula} + offset({offset})" if offset else formula
    model_formula = read_model_formula(formula)
    model_family, model_link = resolve_family(family, link)
    if weights is not None:
        release = open_once(release)
        weights = find_weight_variable(weights, getattr(release, "dataset", release).schema)
    names = [*model_formula.variables, *(name for name in (trials, weights) if name)]
    records = read_release_input(release, noise, names, accredited, clean)
    if weights is not None:
        require_usable_weights(weights, records, clean)
        names.remove(weights)
    require_descriptions(records, names, model_formula.group_variables, clean)
    # Chains have threads of their own; those of linear algebra would only get in their way.
    with send_progress_to(progress), use_one_thread(), _explain_failures():
        current_progress()("preparing", 0, 1)
        variables = prepare_variables(records, model_formula, measured or {}, trials, weights)
        problem, shift = build_problem(
            model_formula,
            variables,
            records.noise,
            family=model_family,
            link=model_link,
            shape=shape,
            clustered=clustered,
        )
        if weights is not None:
            problem = add_weights(problem, weights, records, variables.rows)
        require_separate_draws(problem, records.noise)
        model = fit_references(formula, records, variables, problem, shift)
        model = replace(model, notes=(*model.notes, *describe_weights(weights, records)))
        if method == "posterior":
            sampling = Sampling(
                chains=chains,
                draws=draws,
                warmup=max(draws // 2, 1),
                seed=seed,
                longest=_LONGER * draws if draws >= _ENOUGH else 0,
                pointwise=pointwise,
            )
            estimation = draw_posterior(model, sampling)
        else:
            estimation = estimate_quickly(model, method, seed)
        return _report(model, method, estimation, level)


@contextmanager
def _explain_failures() -> Iterator[None]:
    """Say what to do where numbers run out: the cause is in the data and the formula."""
    try:
        # Sums that overflow, and roots of what rounding left below zero, end in an error below.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except (np.linalg.LinAlgError, ArithmeticError, ValueError, IndexError) as error:
        raise MeasureError(
            "The model cannot be computed from these records: some terms say nearly the same, "
            "hardly vary, or have nearly all of their variance from noise.",
            hint="leave one term out after the other to find which; or take a variable in another "
            "unit.",
        ) from error


def _check_options(method: str, shape: str, draws: int, chains: int, level: float) -> None:
    for name, value, known in (("method", method, _METHODS), ("shape", shape, _SHAPES)):
        if value not in known:
            raise MeasureError(
                f"There is no {name} '{value}'.", hint=f"there are {', '.join(known)}."
            )
    if draws < 1 or chains < 1:
        raise MeasureError("`draws` and `chains` are 1 or more.")
    if not 0 < level < 1:
        raise MeasureError("`level` lies between 0 and 1.", hint="level=0.95.")


def _arrange_pointwise(model: Model, posterior: Posterior | None) -> Pointwise | None:
    """Outcomes record by record in the order of the released data, so that models compare."""
    if posterior is None or posterior.pointwise is None:
        return None
    pointwise, problem, rows = posterior.pointwise, model.problem, model.variables.rows
    added = np.zeros(problem.records) if problem.subtracted is None else problem.subtracted
    order = np.argsort(rows)
    return replace(
        pointwise,
        log_likelihood=pointwise.log_likelihood[..., order],
        predicted=(pointwise.predicted + added)[..., order],
        observed=(problem.y + added)[order],
        rows=rows[order],
    )


def _report(model: Model, method: Method, estimation: Estimation, level: float) -> Fit:
    """The estimates with the reference fits, the efficiency and the warnings beside them."""
    problem, corrected, shift = model.problem, model.corrected, model.shift
    posterior, normal = estimation.posterior, estimation.normal
    estimates = estimation.estimates.add_shift(shift)
    moments = corrected.estimates.add_shift(shift) if corrected else None
    sampled = None
    if posterior is not None:
        sampled = posterior.draws + np.array(
            [shift.get(name, 0.0) for name in posterior.parameters]
        )
    fit = Fit(
        formula=model.formula,
        family=problem.family,
        link=problem.link,
        method=method,
        engine=posterior.engine if posterior else "",
        records=problem.records,
        left_out=model.variables.left_out,
        level=level,
        terms=problem.coefficient_names,
        estimates=estimates,
        naive=model.naive.add_shift(shift),
        moments=moments,
        normal=normal and {name: mean + shift.get(name, 0.0) for name, mean in normal.items()},
        sampled=sampled,
        shape=posterior.shape if posterior else "",
        components=posterior.components if posterior else 1,
        notes=(*model.notes, *(posterior.notes if posterior else ()), *estimation.notes),
        efficiency_rows=compute_realised_efficiency(problem, corrected, estimates),
        determinant_ratio=determinant_ratio(corrected),
        complete=posterior.complete if posterior else True,
        data=model.release.data,
        pointwise=_arrange_pointwise(model, posterior),
    )
    reliabilities = estimate_reliabilities(problem, model.level_scores)
    warnings = check_problem(problem, reliabilities, model.naive)
    if posterior is not None:
        design = build_released_design(problem, model.variables.columns)
        warnings += check_draws(fit.rows, posterior) + check_agreement(fit.rows, moments)
        warnings += detect_separation(problem, design, fit.rows)
        warnings += check_mismatches(estimation.mismatches)
    return replace(fit, warnings=tuple(warnings))
