"""Effective draws per CPU second beside NumPyro's NUTS, which draws the true values too.

`pip install numpyro` first: it is no part of Sfumato. Both get the same data in the same process;
what is compiled is compiled before the clock starts. The number is that of the slowest coefficient.
`python -m benchmarks.bench_fit_numpyro 1000 10000` names other sizes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf

DRAWS, WARMUP = 1000, 500


def data(kind: str, records: int) -> tuple[pl.DataFrame, dict[str, Any], str, str]:
    """A noised frame, the description of its noise, a formula and a family."""
    chance = np.random.default_rng(4)
    both = chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], records)
    x, level = both[:, 0], (both[:, 1] > 0).astype(float)
    noise: dict[str, Any] = {"x": sf.Gaussian(variance=0.2)}
    frame = {"x": x + chance.normal(size=records) * np.sqrt(0.2)}
    formula, family = "y ~ x", "gaussian"
    if kind == "linear":
        y = 1 + x + chance.normal(size=records)
    elif kind == "linear and binary":
        y = 1 + x + level + chance.normal(size=records)
        frame["s"] = np.clip(level + chance.normal(size=records) * np.sqrt(0.2), 0, 1)
        noise["s"] = sf.CodeNoise(variance=0.2, levels=[0, 1], ends="clip")
        formula = "y ~ x + s"
    elif kind == "logit":
        y = (chance.random(records) < 1 / (1 + np.exp(-0.5 - x))).astype(float)
        family = "bernoulli"
    else:
        y = chance.poisson(np.exp(0.2 + 0.5 * x)).astype(float)
        family = "poisson"
    return pl.DataFrame({"y": y, **frame}), noise, formula, family


def ours(frame: pl.DataFrame, noise: dict[str, Any], formula: str, family: str) -> float:
    """Effective draws per CPU second of `sf.fit`."""
    from sfumato.analysis.fit import fit

    fit(formula, frame.head(200), noise=noise, family=family, draws=20)  # compiles
    start = time.process_time()
    found = fit(formula, frame, noise=noise, family=family, draws=DRAWS, shape="normal")
    spent = time.process_time() - start
    table = found.summary()
    return float(table["ess"].min()) / spent


def theirs(kind: str, frame: pl.DataFrame) -> float:
    """Effective draws per CPU second of NUTS on the coefficients and all true values."""
    import jax
    import numpyro
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC, NUTS

    values = {name: frame[name].to_numpy() for name in frame.columns}
    sampler = MCMC(
        NUTS(_model(kind)), num_warmup=WARMUP, num_samples=DRAWS, num_chains=1, progress_bar=False
    )
    numpyro.set_host_device_count(1)
    sampler.run(jax.random.PRNGKey(0), **values)  # compiles
    start = time.process_time()
    sampler.run(jax.random.PRNGKey(1), **values)
    drawn = sampler.get_samples(group_by_chain=True)
    spent = time.process_time() - start
    return float(np.min(effective_sample_size(np.asarray(drawn["beta"])))) / spent


def _model(kind: str) -> Callable[..., None]:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import log_ndtr, logsumexp
    from jax.scipy.stats import norm

    def level_density(seen: Any, code: float) -> Any:
        away, spread = seen - code, jnp.sqrt(0.2)
        inside = norm.logpdf(away / spread) - jnp.log(spread)
        ends = jnp.where(seen <= 0, log_ndtr(-code / spread), log_ndtr((code - 1) / spread))
        return jnp.where((seen <= 0) | (seen >= 1), ends, inside)

    def model(y: Any, x: Any, s: Any = None) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 10).expand([2 if s is None else 3]))
        middle = numpyro.sample("middle", dist.Normal(0, 10).expand([1 if s is None else 2]))
        spread = numpyro.sample("spread", dist.HalfNormal(5))
        raw = numpyro.sample("raw", dist.Normal(0, 1).expand([len(y)]))
        if s is not None:
            residual = numpyro.sample("residual", dist.HalfNormal(5))
            share = numpyro.sample("share", dist.Beta(1, 1))
            parts = []
            for code in (0.0, 1.0):
                true = middle[int(code)] + spread * raw
                part = jnp.log(jnp.where(code == 1, share, 1 - share)) + level_density(s, code)
                part += dist.Normal(true, jnp.sqrt(0.2)).log_prob(x)
                eta = beta[0] + beta[1] * true + beta[2] * code
                parts.append(part + dist.Normal(eta, residual).log_prob(y))
            numpyro.factor("records", logsumexp(jnp.stack(parts), axis=0).sum())
            return
        true = middle[0] + spread * raw
        numpyro.sample("x", dist.Normal(true, jnp.sqrt(0.2)), obs=x)
        eta = beta[0] + beta[1] * true
        if kind == "linear":
            residual = numpyro.sample("residual", dist.HalfNormal(5))
            numpyro.sample("y", dist.Normal(eta, residual), obs=y)
        elif kind == "logit":
            numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)
        else:
            numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y)

    return model


def main() -> None:
    """Print a row per model and size."""
    try:
        import numpyro  # noqa: F401
    except ImportError:
        print("NumPyro is not installed, so there is nothing to compare with: pip install numpyro")
        return
    sizes = [int(one) for one in sys.argv[1:]] or [1000, 10_000]
    print(f"{'model':20} {'records':>9} {'ours/s':>9} {'NUTS/s':>9} {'ratio':>8}")
    for kind in ("linear", "linear and binary", "logit", "poisson"):
        for records in sizes:
            frame, noise, formula, family = data(kind, records)
            mine = ours(frame, noise, formula, family)
            other = theirs(kind, frame)
            print(
                f"{kind:20} {records:9,} {mine:9.0f} {other:9.2f} {mine / other:8.0f}", flush=True
            )


if __name__ == "__main__":
    main()
