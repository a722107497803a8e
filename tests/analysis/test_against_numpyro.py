"""The same posterior by NumPyro's NUTS: an independent reference.

It draws all true values of generalised models, and integrates them out of linear ones. Each model
has the priors that the engine states, so that means and SDs differ by chance alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis.diagnostics import mcse

pytest.importorskip("numpyro")
pytestmark = [
    # JAX and NumPyro announce what later versions will change; it is nothing of ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
VARIANCE, DRAWS, WARMUP = 0.3, 1200, 300
# Spread of nothing and a slope without end fit no datum, yet a chain that starts there stays.
START = {"=x": 0.5, "=Intercept": 0.5, "s": 1.0, "middle": 0.0}
Draws = dict[str, np.ndarray]


def drawn(model: Callable[..., None], dense: Any, **values: np.ndarray) -> Draws:
    """Draws (chain, draw) of each parameter of interest; steps of `dense` ones go together."""
    import jax
    from numpyro.infer import MCMC, NUTS, init_to_value

    sampler = MCMC(
        NUTS(model, dense_mass=dense, init_strategy=init_to_value(values=START)),
        num_warmup=WARMUP, num_samples=DRAWS, progress_bar=False,
    )  # fmt: skip
    sampler.run(jax.random.PRNGKey(7), **values)
    found = sampler.get_samples(group_by_chain=True)
    made = {name: np.asarray(one, float) for name, one in found.items() if name.startswith("=")}
    return {name[1:]: one for name, one in made.items()}


def flat(name: str, *, positive: bool = False) -> Any:
    """A parameter of which nothing is known."""
    import numpyro
    import numpyro.distributions as dist

    support = dist.constraints.positive if positive else dist.constraints.real
    return numpyro.sample(name, dist.ImproperUniform(support, (), ()))


def true_values(middle: Any, spread: Any, seen: Any) -> Any:
    """The true values, each a parameter, and what they say of the released ones."""
    import numpyro
    import numpyro.distributions as dist

    raw = numpyro.sample("raw", dist.Normal(0, 1).expand([len(seen)]).to_event(1))
    true = middle + spread * raw
    numpyro.sample("seen", dist.Normal(true, VARIANCE**0.5).to_event(1), obs=seen)
    return true


def both(line: tuple[Any, Any], middle: Any, spread: Any, residual: Any, y: Any, seen: Any) -> Any:
    """The log density of outcome and released value, true values normal and integrated out."""
    import numpyro.distributions as dist

    first, slope = line
    wide = spread + VARIANCE
    share = slope * spread / wide
    mean = first + slope * middle + share * (seen - middle)
    left = residual + slope**2 * spread - share * slope * spread
    said = dist.Normal(middle, wide**0.5).log_prob(seen)
    return said + dist.Normal(mean, left**0.5).log_prob(y)


def assert_alike(made: sf.Fit, other: Draws) -> None:
    """Means and SDs within four Monte Carlo errors, which are small beside the SD."""
    assert made.sampled is not None
    for name, theirs in other.items():
        ours = made.sampled[:, :, made.parameters.index(name)]
        sd = float(ours.std())
        error = np.hypot(mcse(ours), mcse(theirs))
        assert abs(ours.mean() - theirs.mean()) < 4 * error < 0.3 * sd, name
        # An SD of a skewed posterior is less sure than one of a normal one; the draws tell.
        error = np.hypot(of_sd(ours), of_sd(theirs))
        assert abs(sd - theirs.std()) < 4 * error < 0.4 * sd, name


def of_sd(draws: np.ndarray) -> float:
    """The Monte Carlo error of a standard deviation."""
    return float(mcse((draws - draws.mean()) ** 2) / (2 * draws.std()))


def chance(records: int, seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=records)
    return rng, x, x + VARIANCE**0.5 * rng.normal(size=records)


NOISE = {"x": sf.Gaussian(variance=VARIANCE)}


def test_linear():
    import jax.numpy as jnp
    import numpyro

    rng, x, seen = chance(200, 1)
    y = 1 + x + rng.normal(size=200)

    def model(y: Any, seen: Any) -> None:
        first, slope, middle = flat("=Intercept"), flat("=x"), flat("middle")
        residual, spread = flat("=residual variance", positive=True), flat("s", positive=True)
        numpyro.factor("y", both((first, slope), middle, spread, residual, y, seen).sum())
        # 1 / |covariance of what was seen|, and how that covariance follows from these.
        whole = (slope**2 * spread + residual) * (spread + VARIANCE) - (slope * spread) ** 2
        numpyro.factor("prior", jnp.log(spread) - jnp.log(whole))

    made = sf.fit("y ~ x", pl.DataFrame({"y": y, "x": seen}), noise=NOISE)
    assert made.engine == "saturated"
    assert_alike(made, drawn(model, True, y=y, seen=seen))


@pytest.mark.study  # `test_linear` and the Poisson model are the short version
def test_linear_with_noisy_codes():
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import logsumexp

    rng, _, _ = chance(1, 2)
    level = rng.integers(0, 2, 250)
    x = 0.8 * level + rng.normal(size=250)
    y = 1 + x + level + rng.normal(size=250)
    seen = x + VARIANCE**0.5 * rng.normal(size=250)
    code = np.clip(level + 0.2**0.5 * rng.normal(size=250), 0, 1)
    noise = {**NOISE, "s": sf.CodeNoise(variance=0.2, levels=[0, 1], ends="clip")}
    made = sf.fit(
        "y ~ x + s", pl.DataFrame({"y": y, "x": seen, "s": code}), noise=noise, shape="normal"
    )
    assert made.engine == "collapsed"
    wide = 10 * float(np.std(y))

    def said(code: Any, at: float) -> Any:
        normal = dist.Normal(at, 0.2**0.5)
        ends = jnp.where(code <= 0, jnp.log(normal.cdf(0.0)), jnp.log(1 - normal.cdf(1.0)))
        return jnp.where((code <= 0) | (code >= 1), ends, normal.log_prob(code))

    def model(y: Any, seen: Any, code: Any) -> None:
        first, slope = flat("=Intercept"), flat("=x")
        step = numpyro.sample("=s", dist.Normal(0, wide))
        residual, spread = flat("=residual variance", positive=True), flat("t", positive=True)
        numpyro.factor("prior", -jnp.log(residual))
        share = numpyro.sample("share", dist.Beta(0.5, 0.5))
        middle = [flat("m0"), flat("m1")]
        parts = []
        for at, chosen in enumerate((1 - share, share)):
            line = first + step * at, slope
            part = both(line, middle[at], spread, residual, y, seen)
            parts.append(jnp.log(chosen) + said(code, at) + part)
        numpyro.factor("records", logsumexp(jnp.stack(parts), axis=0).sum())

    assert_alike(made, drawn(model, True, y=y, seen=seen, code=code))


@pytest.mark.parametrize("family", [pytest.param("bernoulli", marks=pytest.mark.study), "poisson"])
def test_generalised(family):
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng, x, seen = chance(160, 3)
    line = 0.3 + 0.7 * x
    counts = rng.poisson(np.exp(line))
    y = counts if family == "poisson" else rng.random(160) < 1 / (1 + np.exp(-line))
    y = np.asarray(y, float)

    def model(y: Any, seen: Any) -> None:
        first, slope, middle = flat("=Intercept"), flat("=x"), flat("middle")
        line = first + slope * true_values(middle, flat("s", positive=True), seen)
        of = dist.Poisson(jnp.exp(line)) if family == "poisson" else dist.Bernoulli(logits=line)
        numpyro.sample("y", of, obs=y)

    frame = pl.DataFrame({"y": y, "x": seen})
    made = sf.fit("y ~ x", frame, noise=NOISE, family=family, shape="normal")
    assert made.engine == "marginal likelihood"
    assert_alike(made, drawn(model, [("=Intercept", "=x", "middle", "s")], y=y, seen=seen))


@pytest.mark.study
def test_two_levels():
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(5)
    group = np.arange(240) % 30
    x = 0.6 * rng.normal(size=30)[group] + rng.normal(size=240)
    y = 1 + x + 0.7 * rng.normal(size=30)[group] + rng.normal(size=240)
    seen = x + VARIANCE**0.5 * rng.normal(size=240)
    names = ("=residual variance", "=variance of Intercept by group", "spread", "among")

    def model(y: Any, seen: Any) -> None:
        first, slope, middle = flat("=Intercept"), flat("=x"), flat("middle")
        residual, between, spread, among = (flat(name, positive=True) for name in names)
        numpyro.factor("prior", -jnp.log(residual))
        effects, shifts = (
            numpyro.sample(name, dist.Normal(0, 1).expand([30]).to_event(1))
            for name in ("effects", "shifts")
        )
        middle = middle + jnp.sqrt(among) * shifts[group]
        line = first + jnp.sqrt(between) * effects[group], slope
        numpyro.factor("y", both(line, middle, spread, residual, y, seen).sum())

    frame = pl.DataFrame({"y": y, "x": seen, "g": group})
    made = sf.fit("y ~ x + (1 | g)", frame, noise=NOISE, shape="normal", draws=2000)
    assert made.engine == "collapsed"
    assert_alike(made, drawn(model, [("=Intercept", "=x", "middle", *names)], y=y, seen=seen))
