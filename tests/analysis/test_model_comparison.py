"""Likelihoods by record with true values integrated out, and models compared by them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student
from tests.analysis.general_problems import curved_case, level_case, linear_case

import sfumato as sf
from sfumato.analysis.problem import Problem
from sfumato.analysis.samplers.metropolis.chain import Chain
from sfumato.analysis.samplers.metropolis.pointwise import PointwisePredictor
from sfumato.analysis.samplers.metropolis.start import prepare_start
from sfumato.kernels.arrays import Floats

pytestmark = pytest.mark.filterwarnings("ignore")
NOISE = {"x": sf.Gaussian(variance=0.5)}


def count_outcome(problem: Problem) -> Problem:
    """The same with counts for its outcome."""
    y = np.minimum(np.floor(np.exp(problem.y / 3)), 30.0)
    return replace(problem, y=y, family="poisson", link="log")


def level_outcome(problem: Problem) -> Problem:
    """The same with three levels for its outcome, a predictor for each but the first."""
    y = np.digitize(problem.y, np.quantile(problem.y, [0.3, 0.7])).astype(float)
    levels = ("a", "b", "c")
    return replace(problem, y=y, family="multinomial", link="logit", outcome_levels=levels)


PROBLEMS = {
    "linear": linear_case("plain", 60, 1).problem,
    "linear in counts": count_outcome(linear_case("plain", 60, 2).problem),
    "missing": count_outcome(linear_case("missing", 60, 3).problem),
    "laplace": linear_case("laplace", 60, 4).problem,
    "clipped": count_outcome(linear_case("clipped", 60, 5).problem),
    "rounded": linear_case("rounded", 60, 6).problem,
    "logarithm": linear_case("log", 60, 7).problem,
    "square": curved_case(60, 8).problem,
    "level": level_case(60, 9).problem,
    "level by levels": level_outcome(level_case(60, 10).problem),
    "level in counts": count_outcome(level_case(60, 9).problem),
}


def integrate_on_grid(chain: Chain) -> Floats:
    """The same integral on a fine grid of the true number, level by level."""
    problem, outcome, model = chain.problem, chain.outcome, chain.numbers
    released, latent, codes = chain.start.released[0], chain.latent.copy(), chain.codes.copy()
    grid = np.linspace(latent.min() - 6, latent.max() + 6, 1001)
    joint, marginal = np.zeros(problem.records), np.zeros(problem.records)
    for level in range(chain.levels[0].count if chain.levels else 1):
        share = np.ones(problem.records)
        if chain.levels:
            chain.codes[:] = level
            chain.write_levels()
            share = np.exp(chain.levels[0].log_posterior()[level])
        for x in grid:
            values = np.full((problem.records, 1), x)
            weight = share * np.exp(model.log(values - model.centre()))
            weight *= np.exp(released.evaluate(values[:, 0]).log)
            eta = (problem.design(values, chain.codes) @ chain.beta.T).T
            marginal += weight
            joint += weight * np.exp(outcome.evaluate(eta).log)
    chain.latent[:], chain.codes[:] = latent, codes
    chain.write_levels()
    return np.log(joint / marginal) + outcome.log_constants()


@pytest.mark.parametrize("name", PROBLEMS)
def test_true_values_are_integrated_out(name: str) -> None:
    chain = Chain(prepare_start(PROBLEMS[name], 1), np.random.SeedSequence(1), 30)
    for _ in range(20):
        chain.step()
    state = chain.eta.copy(), chain.latent.copy(), chain.codes.copy(), chain.values()
    predicted = PointwisePredictor(chain, np.random.default_rng(2)).predict()
    for before, after in zip(
        state, (chain.eta, chain.latent, chain.codes, chain.values()), strict=True
    ):
        assert np.array_equal(before, after)  # the chain is left as it was
    # Laplace noise has an edge, which quadrature rounds off.
    precision = 0.05 if name == "laplace" else 2e-3
    assert predicted.log_likelihood == pytest.approx(integrate_on_grid(chain), abs=precision)


def simulate(records: int) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    z = rng.normal(size=records)
    x = 0.5 * z + rng.normal(size=records)
    y = 1 + x + 0.5 * z + rng.normal(size=records)
    noisy = x + 0.5**0.5 * rng.normal(size=records)
    return pl.DataFrame({"y": y, "x": noisy, "z": z, "useless": rng.normal(size=records)})


def leave_one_out_exactly(x: Floats, y: Floats) -> Floats:
    """The log predictive density of each outcome in a linear model with flat priors."""
    q = np.linalg.qr(x)[0]
    leverage = (q**2).sum(axis=1)
    residual = y - q @ (q.T @ y)
    freedom = len(y) - x.shape[1] - 1
    variance = (residual @ residual - residual**2 / (1 - leverage)) / freedom
    scale = np.sqrt(variance / (1 - leverage))
    log: Floats = student.logpdf(residual / (1 - leverage) / scale, freedom) - np.log(scale)
    return log


def test_leaving_one_out_is_exact_where_it_is_known() -> None:
    """Given released values a normal outcome is linear in them: a plain model of the release."""
    pytest.importorskip("arviz")
    frame = simulate(300)
    fits = {
        formula: sf.fit(formula, frame, noise=NOISE, draws=200, chains=2, pointwise=True)
        for formula in ("y ~ x + z", "y ~ z")
    }
    with pytest.raises(sf.SfumatoError, match="resamples|no likelihood by record"):
        sf.fit("y ~ x", frame, noise=NOISE, method="simex", pointwise=True)
    columns = np.column_stack([np.ones(300), frame.select("x", "z").to_numpy()])
    exact = leave_one_out_exactly(columns, frame["y"].to_numpy())
    best = fits["y ~ x + z"]
    found = best.loo()
    # In the order of the data, so that models compare record by record.
    assert found.loo_i.values == pytest.approx(exact, abs=0.15)
    assert float(found.elpd_loo) == pytest.approx(exact.sum(), abs=1.0)
    assert float(best.waic().elpd_waic) == pytest.approx(exact.sum(), abs=1.0)
    table = sf.compare_models(fits)
    assert list(table.index) == ["y ~ x + z", "y ~ z"]
    plain = leave_one_out_exactly(columns[:, [0, 2]], frame["y"].to_numpy())
    assert table.loc["y ~ z", "elpd_diff"] == pytest.approx((exact - plain).sum(), abs=1.5)


def test_the_export_has_what_arviz_asks_for() -> None:
    pytest.importorskip("arviz")
    rng = np.random.default_rng(5)
    frame = simulate(200).with_columns(
        counts=pl.Series(rng.poisson(2.0, 200)), level=pl.Series(rng.integers(0, 3, 200))
    )
    for outcome, family in (("counts", "negative_binomial"), ("level", "ordinal")):
        fit = sf.fit(
            f"{outcome} ~ x", frame, family=family, noise=NOISE, draws=60, chains=2, pointwise=True
        )
        exported = fit.to_arviz()
        assert dict(exported["log_likelihood"].sizes) == {"chain": 2, "draw": 60, "record": 200}
        predicted = exported["posterior_predictive"]["outcome"].values
        observed = exported["observed_data"]["outcome"].values
        assert observed == pytest.approx(frame[outcome].to_numpy())
        assert np.all(predicted == np.rint(predicted))
        assert predicted.mean() == pytest.approx(observed.mean(), abs=0.3)
        assert predicted.var() == pytest.approx(observed.var(), rel=0.3)


def test_what_does_not_compare_is_refused() -> None:
    frame = simulate(60).with_columns(counts=pl.col("y").abs().floor())
    fit = sf.fit("y ~ x", frame, noise=NOISE, draws=5, chains=2, pointwise=True)
    other = sf.fit("counts ~ x", frame, noise=NOISE, draws=5, chains=2, pointwise=True)
    fewer = sf.fit("y ~ x", frame[1:], noise=NOISE, draws=5, chains=2, pointwise=True)
    plain = sf.fit("y ~ x", frame, noise=NOISE, draws=5, chains=2)
    for fits, reason in (
        ({"a": fit, "b": other}, "different outcomes"),
        ({"a": fit, "b": fewer}, "different records"),
        ({"a": fit, "b": plain}, "kept no likelihood"),
        ({"a": fit}, "one model at most"),
    ):
        with pytest.raises(sf.SfumatoError, match=reason):
            sf.compare_models(fits)
    with pytest.raises(sf.SfumatoError, match="pointwise=True"):
        plain.loo()
