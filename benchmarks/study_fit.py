"""Bias and coverage of `fit` over simulated data sets, one study by one command.

`python -m benchmarks.study_fit table_4 --sets 400` fits 400 data sets and prints the table. Each
data set has a seed of its own and a line in a file under `--into`, so that a run that was stopped
goes on where it was; without `--into` nothing is kept. `--first 500` begins with other seeds.
`... list` names the studies.

Bias is relative to the true coefficient and paired with the fit to the data without noise, with
its Monte Carlo error; coverage is that of 95 % intervals of the draws, with 95 % binomial bounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.analysis.linear_problems import build_level_problem, fit_least_squares, simulate_table_4
from tests.golden.goldstein_farms import PARAMETERS, farms

from benchmarks.bench_fit_generalised import made, plain
from sfumato.analysis.estimators import choose_engine
from sfumato.analysis.problem import NoisyNumber, Posterior, Problem, Sampling, Term
from sfumato.kernels.arrays import Floats
from sfumato.progress import silent

SAMPLING = Sampling(chains=4, draws=250, warmup=100)
TRUE = {"bernoulli": (0.2, 0.5, 0.7), "poisson": (0.2, 0.3, 0.4), "gaussian": (0.2, 0.5, 0.7)}
"""Coefficients of Poisson models are smaller: exp(0.7 x) has no variance when x is exponential."""


@dataclass(frozen=True, eq=False)
class Case:
    """A data set: the problem, what is true, and two fits that need no model of the noise."""

    problem: Problem
    names: tuple[str, ...]
    true: Floats
    clean: Floats
    naive: Floats


def published(seed: int) -> Case:
    """Table 4: a number and a code of two levels, both noised."""
    (first, second, y), released = simulate_table_4(np.random.default_rng([400, seed]))
    return Case(
        problem=build_level_problem(y, *released, 0.2),
        names=("intercept", "x1", "x2", "residual variance"),
        true=np.ones(4),
        clean=fit_least_squares([np.ones(1000), first, second], y)[0],
        naive=fit_least_squares([np.ones(1000), *released], y)[0],
    )


def one_noised(seed: int, *, family: Any, skewed: bool, records: int = 1000) -> Case:
    """A clean and a noised predictor, whose true values are normal or exponential."""
    true = np.array(TRUE[family])
    if family == "gaussian":
        return _linear(1000 + seed, true, skewed=skewed, records=records)
    noised, exact = made(records, family, 1000 + seed, skewed=skewed, true=true)
    return Case(noised, ("intercept", "clean", "noised"), true, plain(exact), plain(noised))


def _linear(seed: int, true: Floats, *, skewed: bool, records: int) -> Case:
    chance = np.random.default_rng(seed)
    clean = chance.normal(size=records)
    x = 0.4 * clean + (chance.exponential if skewed else chance.normal)(size=records)
    seen = x + np.sqrt(0.5) * chance.normal(size=records)
    y = true[0] + true[1] * clean + true[2] * x + chance.normal(size=records)
    ones = np.ones(records)
    problem = Problem(
        family="gaussian",
        link="identity",
        y=y,
        numbers=(NoisyNumber(name="x", observed=seen, variance=0.5),),
        error=np.array([[0.5]]),
        terms=(
            Term(name="1"),
            Term(name="clean", clean=clean),
            Term(name="x", numbers=((0, None),)),
        ),
        covariates=np.column_stack([ones, clean]),
    )
    return Case(
        problem=problem,
        names=("intercept", "clean", "noised", "residual variance"),
        true=np.append(true, 1.0),
        clean=fit_least_squares([ones, clean, x], y)[0],
        naive=fit_least_squares([ones, clean, seen], y)[0],
    )


def farmed(seed: int, *, share: float, outcome: bool) -> Case:
    """Tables 6a and 6b in kind."""
    made = farms(np.random.default_rng([333, seed]), share, outcome=outcome)
    return Case(made.problem, tuple(PARAMETERS), made.true, made.clean, made.naive)


STUDIES: dict[str, Callable[[int], Case]] = {
    "table_4": published,
    **{
        f"{name}_{shape}": partial(one_noised, family=family, skewed=shape == "skewed")
        for name, family in (("linear", "gaussian"), ("logit", "bernoulli"), ("poisson", "poisson"))
        for shape in ("normal", "skewed")
    },
    **{
        f"table_{table}_{round(100 * share)}": partial(farmed, share=share, outcome=table == "6b")
        for table in ("6a", "6b")
        for share in (0.05, 0.17)
    },
}


def fitted(case: Case) -> dict[str, Any]:
    """What is kept of one data set."""
    start = time.process_time()
    found: Posterior = choose_engine(case.problem).sample(case.problem, SAMPLING, silent)
    draws = found.draws.reshape(-1, found.draws.shape[-1])[:, : len(case.true)]
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    return {
        "names": case.names,
        "true": case.true.tolist(),
        "clean": case.clean.tolist(),
        "naive": case.naive.tolist(),
        "mean": draws.mean(axis=0).tolist(),
        "spread": draws.std(axis=0).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "components": found.components,
        "independent": found.independent,
        "seconds": time.process_time() - start,
    }


def run(name: str, wanted: range, into: Path | None) -> list[dict[str, Any]]:
    """The data sets of a study; those in the file are not fitted again."""
    kept: dict[int, dict[str, Any]] = {}
    path = None if into is None else into / f"{name}.jsonl"
    if path is not None and path.exists():
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        kept = {one["set"]: one for one in lines}
    for at in wanted:
        if at in kept:
            continue
        kept[at] = {"set": at, **fitted(STUDIES[name](at))}
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(kept[at]) + "\n")
    return [kept[at] for at in wanted]


def table(name: str, found: list[dict[str, Any]]) -> None:
    """Print a row for each parameter."""
    from scipy.stats import binomtest

    def column(key: str) -> Floats:
        return np.array([one[key] for one in found])

    true = column("true")
    away = (column("mean") - column("clean")) / true
    inside = (column("low") < true) & (true < column("high"))
    many = len(found)
    walked = sum(not one["independent"] for one in found)
    components = np.bincount([one["components"] for one in found])
    print(
        f"{name}: {many} data sets, {column('seconds').mean():.2f} CPU s each, "
        f"components {dict(enumerate(components.tolist()))}, drawn by a chain {walked}"
    )
    print(f"{'':>18} {'true':>8} {'naive':>8} {'mean':>8} {'bias':>8} {'its MC':>7} {'cover':>6}")
    for at, parameter in enumerate(found[0]["names"]):
        hits = int(inside[:, at].sum())
        bounds = binomtest(hits, many).proportion_ci()
        print(
            f"{parameter:>18} {true[0, at]:>8.4g} {column('naive')[:, at].mean():>8.4g} "
            f"{column('mean')[:, at].mean():>8.4g} {away[:, at].mean():>+8.2%} "
            f"{away[:, at].std(ddof=1) / np.sqrt(many):>7.2%} {hits / many:>6.3f} "
            f"({bounds.low:.3f}-{bounds.high:.3f})",
            flush=True,
        )


def main() -> None:
    """Run one study, or several, and print their tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("studies", nargs="+", choices=[*STUDIES, "all", "list"])
    options.add_argument("--sets", type=int, default=100)
    options.add_argument("--first", type=int, default=0, help="the seed of the first data set")
    options.add_argument("--into", type=Path)
    asked = options.parse_args()
    if "list" in asked.studies:
        print("\n".join(STUDIES))
        return
    if asked.into is not None:
        asked.into.mkdir(parents=True, exist_ok=True)
    for name in STUDIES if "all" in asked.studies else asked.studies:
        table(name, run(name, range(asked.first, asked.first + asked.sets), asked.into))


if __name__ == "__main__":
    main()
