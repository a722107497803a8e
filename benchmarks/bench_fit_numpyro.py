"""Effective draws per CPU second beside NumPyro's NUTS, which draws the true values too.

Both get the same data in the same process; what compiling costs is left out (of NUTS with more than
a thousand records as measured with a hundred), all else that `sf.fit` does is counted.
The number is that of the slowest coefficient or variance, by the same estimator for both. NUTS has
one chain, non-centred, on one thread, and its levels are summed out: it cannot draw them.

`python -m benchmarks.bench_fit_numpyro` takes half an hour. Names of models ("linear", "level",
"exam", "logit", "poisson") and sizes choose among the rows: `... level 1000 10000`. "exam" needs
the exam data in the folder SFUMATO_DATA. With 100 000 records NUTS would take hours: there its cost
for a leapfrog step is measured, and as many effective draws for a step are granted as it had with
the size before, or with 10 000. More records need no fewer steps, so that this flatters NUTS; the
row is marked with a star.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.analysis.diagnostics import bulk_ess

# One thread for NUTS as for us: CPU seconds are counted, and threads that wait cost some.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
KINDS = ("linear", "level", "exam", "logit", "poisson")
WATCHED = ("beta", "residual", "between")
DRAWS, REPEATS = 1000, 3
LARGE = 50_000


@dataclass
class Cost:
    """What NUTS has for a second, and for a leapfrog step."""

    rate: float
    each: float


def data(kind: str, records: int) -> tuple[pl.DataFrame, dict[str, Any], str, str]:
    """A noised frame, the description of its noise, a formula and a family."""
    chance = np.random.default_rng(4)
    if kind == "exam":
        return exam(chance)
    both = chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], records)
    x, level = both[:, 0], (both[:, 1] > 0).astype(float)
    noise: dict[str, Any] = {"x": sf.Gaussian(variance=0.2)}
    frame = {"x": x + chance.normal(size=records) * np.sqrt(0.2)}
    formula, family = "y ~ x", "gaussian"
    if kind == "linear":
        y = 1 + x + chance.normal(size=records)
    elif kind == "level":
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


def exam(chance: np.random.Generator) -> tuple[pl.DataFrame, dict[str, Any], str, str]:
    """The exam data with noise as in Table 5 of paper 001."""
    found = pl.read_csv(Path(os.environ["SFUMATO_DATA"]) / "exam.csv")
    away = chance.normal(size=(2, found.height)) * np.sqrt(0.2)
    girl = (found["sex"] == "F").to_numpy()
    frame = pl.DataFrame(
        {
            "y": found["normexam"],
            "x": found["standLRT"].to_numpy() + away[0],
            "s": np.clip(girl + away[1], 0, 1),
            "school": found["school"].rank("dense").cast(pl.Int64) - 1,
        }
    )
    noise: dict[str, Any] = {
        "x": sf.Gaussian(variance=0.2),
        "s": sf.CodeNoise(variance=0.2, levels=[0, 1], ends="clip"),
    }
    return frame, noise, "y ~ x + s + (1 | school)", "gaussian"


def ours(frame: pl.DataFrame, noise: dict[str, Any], formula: str, family: str) -> float:
    """Effective draws per CPU second of `sf.fit`, all that it does included."""
    from sfumato.analysis.fit import fit

    def once(draws: int) -> Any:
        return fit(formula, frame, noise=noise, family=family, draws=draws, shape="normal",
                   clean=["school"] if "school" in frame else [])  # fmt: skip

    once(20)  # compiles
    rates = []
    for _ in range(REPEATS):
        start = time.process_time()
        found = once(DRAWS)
        spent = time.process_time() - start
        rates.append(float(found.summary()["ess"].min()) / spent)
    return float(np.median(rates))


def theirs(kind: str, frame: pl.DataFrame, known: Cost | None) -> Cost:
    """The same of NUTS on the coefficients and all true values."""
    import jax
    from numpyro.infer import MCMC, NUTS

    values = {name: frame[name].to_numpy() for name in frame.columns}
    if frame.height >= LARGE and known is not None:
        return Cost(known.each / _leapfrog(_model(kind), values), known.each)
    warmup, draws = (500, 1000) if frame.height <= DRAWS else (200, 200)

    def once(data: dict[str, Any], seed: int) -> tuple[Any, float]:
        start = time.process_time()
        sampler.run(jax.random.PRNGKey(seed), **data, extra_fields=("num_steps",))
        jax.block_until_ready(sampler.get_samples())
        return sampler.get_samples(True), time.process_time() - start

    sampler = MCMC(NUTS(_model(kind)), num_warmup=warmup, num_samples=draws, num_chains=1,
                   progress_bar=False)  # fmt: skip
    compiling = 0.0
    if frame.height <= DRAWS:
        once(values, 0)
    else:
        # What compiling costs does not depend on the records, so that a few show it.
        some = {name: one[:100] for name, one in values.items()}
        compiling = once(some, 0)[1] - once(some, 0)[1]
    found, spent = once(values, 1)
    drawn = {name: np.asarray(one).reshape(1, draws, -1) for name, one in found.items()}
    every = np.concatenate([drawn[name] for name in WATCHED if name in drawn], axis=2)
    effective = min(bulk_ess(every[..., at]) for at in range(every.shape[2]))
    steps = float(np.asarray(sampler.get_extra_fields()["num_steps"]).sum())
    # The steps of the warm-up are not told; they are taken to be as many for a draw.
    return Cost(effective / (spent - compiling), effective / (steps * (1 + warmup / draws)))


def _leapfrog(model: Callable[..., None], values: dict[str, Any], times: int = 20) -> float:
    """CPU seconds for a leapfrog step: it is one look at the gradient."""
    import jax
    from numpyro.infer.util import initialize_model

    made = initialize_model(jax.random.PRNGKey(0), model, model_kwargs=values)
    look = jax.jit(jax.grad(made.potential_fn))
    place = made.param_info.z
    jax.block_until_ready(look(place))  # compiles
    start = time.process_time()
    for _ in range(times):
        jax.block_until_ready(look(place))
    return (time.process_time() - start) / times


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

    def model(y: Any, x: Any, s: Any = None, school: Any = None) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 10).expand([2 if s is None else 3]))
        middle = numpyro.sample("middle", dist.Normal(0, 10).expand([1 if s is None else 2]))
        spread = numpyro.sample("spread", dist.HalfNormal(5))
        raw = numpyro.sample("raw", dist.Normal(0, 1).expand([len(y)]))
        if s is not None:
            residual = numpyro.sample("residual", dist.HalfNormal(5))
            odds = numpyro.sample("odds", dist.Logistic(0, 1))
            add, line = jnp.zeros((2, len(y))), odds
            if school is not None:  # effects on outcome, number and level of each school
                wide = numpyro.sample("between", dist.HalfNormal(5).expand([3]))
                own = numpyro.sample("own", dist.Normal(0, 1).expand([3, int(school.max()) + 1]))
                every = (wide[:, None] * own)[:, school]
                add, line = every[:2], odds + every[2]
            parts = []
            for code in (0.0, 1.0):
                true = middle[int(code)] + add[1] + spread * raw
                part = -jnp.logaddexp(0.0, line * (1 - 2 * code)) + level_density(s, code)
                part += dist.Normal(true, jnp.sqrt(0.2)).log_prob(x)
                eta = beta[0] + beta[1] * true + beta[2] * code + add[0]
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
    kinds = [one for one in sys.argv[1:] if one in KINDS] or list(KINDS)
    sizes = [int(one) for one in sys.argv[1:] if one.isdigit()] or [1000, 10_000, 100_000]
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"load average {load}; * : steps of NUTS granted from the size before")
    print(f"{'model':8} {'records':>9} {'ours/s':>9} {'NUTS/s':>9} {'ratio':>8}")
    for kind in kinds:
        known: Cost | None = None
        for records in [0] if kind == "exam" else sizes:
            frame, noise, formula, family = data(kind, records)
            mine = ours(frame, noise, formula, family)
            granted = frame.height >= LARGE
            if granted and known is None:
                known = theirs(kind, data(kind, 10_000)[0], None)
            known = theirs(kind, frame, known)
            print(
                f"{kind:8} {frame.height:9,} {mine:9.0f} {known.rate:9.3f} "
                f"{mine / known.rate:8.0f}{'*' if granted else ''}",
                flush=True,
            )


if __name__ == "__main__":
    main()
