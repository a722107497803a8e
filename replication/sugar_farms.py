"""The sugar cane farms in kind: Tables 6 and 7 of Goldstein & Shlomo (2020) on invented farms.

The records of the real ones cannot be had. What the paper says of them can be held against farms
that do not exist: as many, with skewed harvests and costs, and with receipts that follow the model
that was published for the records without noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from replication.comparison import ERRORS, Bound, Row, bound_by_scatter
from sfumato.analysis.fit import fit
from sfumato.data import Dataset
from sfumato.kernels.arrays import Floats
from sfumato.method import Method
from sfumato.methods.code_noise import NoisyCodes
from sfumato.methods.correlated_noise import CorrelatedNoise
from sfumato.methods.noise import Noise
from sfumato.noise.description import CodeNoise, Gaussian
from sfumato.progress import current_progress
from sfumato.risk.h_index import HIndex
from sfumato.schema import Column, Schema
from sfumato.tuning.redraws import redrawn

FARMS = 333
TRUE = (-7.89, 11.35, 0.022, 0.00013, 146.2)
"""Intercept, region, harvest, cost and residual variance as published for the original records."""
SHARES = (0.05, 0.17)
SETS = 40
"""Sets of farms of which each number is the mean."""
FITS = 6
"""Of these, the sets that are fitted with the noise taken out."""
ATTACKED = 10
"""Of these, the sets that are attacked."""
DRAWS = 300
"""Of each chain of a fit."""
REDRAWS = 4
"""Draws of the noise of each set that is attacked."""
PREDICTORS = ["region", "harvest", "cost"]
VARIABLES = [*PREDICTORS, "receipts"]
_MANY = 10**9
"""Draws of a mean that has no error of its own."""
_QUANTILES = (0.05, 0.1, 0.5, 0.9, 0.95)
_ABOUT = (-0.02, -0.01, 0.0, 0.01, 0.02)
"""Farms about a quantile of which its numbers are the mean."""
_FORMULA = "receipts ~ region + harvest + cost"
_LABELS = ("intercept", *PREDICTORS, "residual variance")
_SAFE = 0.3
"""Share of attackers who find their target, away from the right tail; the paper has up to 0.12."""
_ALIKE = 0.1
"""Within which two shares, or two standard errors in parts of each other, are much the same."""
_FARMS = (
    "invented farms, not the real ones: as many as in the paper, and drawn from its printed model. "
)
_WHY_CLEAN = f"{_FARMS}The bound is about the parameters that they were drawn with."
_WHY_KEPT = (
    f"{_FARMS}The paper says that estimates and standard errors are similar to those without "
    "noise. The bound is about these: four standard errors of the mean difference; 10 % of a "
    "standard error."
)
_WHY_WEAKER = (
    f"{_FARMS}The paper says that these are biased, with large standard errors. The bound is about "
    "what must come out: slopes times the root of 1 less the share, and the share of the explained "
    "variance added to the residual one; standard errors that follow from it, within 10 %."
)
_WHY_ADJUSTED = (
    f"{_FARMS}The paper says that these have no bias. The bound is about those from the same farms "
    "without noise: four times what the noise adds to the standard error."
)
_WHY_TEXT = f"{_FARMS}The bound is what the paper says in words."
_WHY_SAFE = (
    f"{_FARMS}The paper says that protection is good except in the far right tail. The bound is "
    "what we "
    "take for that, away from the tail."
)


class Estimates(NamedTuple):
    """Coefficients and the residual variance, with their standard errors."""

    value: Floats
    error: Floats


def invent_farms(chance: np.random.Generator) -> pl.DataFrame:
    """Draw farms: SDs of about 2000 tonnes and 22,000 dollars, correlation about 0.65."""
    relation = [[1.0, 0.7, 0.3], [0.7, 1.0, 0.2], [0.3, 0.2, 1.0]]
    latent = chance.multivariate_normal(np.zeros(3), relation, FARMS)
    harvest, cost = 2500 * np.exp(0.6 * latent[:, 0]), 34_000 * np.exp(0.55 * latent[:, 1])
    region = (latent[:, 2] > 0).astype(float)
    receipts = np.column_stack([np.ones(FARMS), region, harvest, cost]) @ TRUE[:4]
    receipts = receipts + math.sqrt(TRUE[4]) * chance.normal(size=FARMS)
    return pl.DataFrame({"region": region, "harvest": harvest, "cost": cost, "receipts": receipts})


def compare_rows() -> Iterator[Row]:
    """Tables 6a and 6b, then 7a and 7b, and what the text says of them."""
    farms = [invent_farms(np.random.default_rng([6, number])) for number in range(SETS)]
    yield from _compare_models(farms)
    yield from _compare_risks(farms[:ATTACKED])


# Tables 6a and 6b: the model, fitted to noised records


def _compare_models(farms: Sequence[pl.DataFrame]) -> Iterator[Row]:
    clean = [fit_least_squares(frame) for frame in farms]
    for table, noised in (("6a", PREDICTORS), ("6b", VARIABLES)):
        passage = f"Table {table}, in kind"
        errors = [np.mean([estimates.error for estimates in clean[:FITS]], axis=0)]
        yield from _compare(passage, "no noise", clean, np.tile(TRUE, (SETS, 1)), None, _WHY_CLEAN)
        for share in SHARES:
            mixed = [
                fit_least_squares(mix_noise(frame, share, noised, seed))
                for seed, frame in enumerate(farms)
            ]
            expected = clean if noised == VARIABLES else _expect_weaker(farms, clean, share)
            why = _WHY_KEPT if noised == VARIABLES else _WHY_WEAKER
            values, limits = (np.array(part) for part in zip(*expected, strict=True))
            what = f"correlated noise, {share:.0%}"
            yield from _compare(passage, what, mixed, values, limits, why)
            adjusted = list(_adjust_sets(farms[:FITS], share, noised))
            yield from _compare_adjusted_estimates(passage, share, clean[:FITS], adjusted)
            errors.append(np.mean([estimates.error for estimates in adjusted], axis=0))
        falls = sum(int((after < before).sum()) for before, after in pairwise(errors))
        what = "adjusted: standard errors that fall as noise grows"
        yield Row(place=passage, what=what, ours=falls, why=_WHY_TEXT, bound=Bound(0, 0, of="ours"))


def fit_least_squares(frame: pl.DataFrame) -> Estimates:
    """The model on the values as they are."""
    design = np.column_stack([np.ones(frame.height), frame.select(PREDICTORS).to_numpy()])
    y = frame["receipts"].to_numpy()
    beta, *_ = np.linalg.lstsq(design, y, rcond=None)
    freedom = frame.height - design.shape[1]
    residual = float(((y - design @ beta) ** 2).sum()) / freedom
    errors = np.sqrt(residual * np.diag(np.linalg.inv(design.T @ design)))
    return Estimates(
        np.append(beta, residual), np.append(errors, residual * math.sqrt(2 / freedom))
    )


def mix_noise(frame: pl.DataFrame, share: float, names: list[str], seed: int) -> pl.DataFrame:
    """Noise that keeps the covariances of the variables named, among themselves."""
    method = CorrelatedNoise(variables=names, noise_share=share, partly=True)
    return _read_frame(method.apply(_declare(frame), key=_choose_key(seed)))


def add_noise(
    frame: pl.DataFrame, share: float, names: list[str], seed: int
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Independent noise on the variables named, and its description."""
    sizes = _size_noise(frame, share, names)
    described: dict[str, Any] = {name: Gaussian(variance=size) for name, size in sizes.items()}
    region = sizes.pop("region")
    described["region"] = CodeNoise(variance=region, levels=[0, 1], ends="clip")
    data, key = _declare(frame), _choose_key(seed)
    data = data.with_schema(data.schema.changed(["region"], kind="nominal"))
    numbers = Noise(variables=list(sizes), variance=sizes).apply(data, key=key)
    codes = NoisyCodes(variables=["region"], variance=region).apply(numbers, key=key)
    return _read_frame(codes), described


def adjust(frame: pl.DataFrame, share: float, names: list[str], seed: int) -> Estimates:
    """The model on values with independent noise, which is taken out again."""
    noised, described = add_noise(frame, share, names, seed)
    table = fit(_FORMULA, noised, noise=described, draws=DRAWS, seed=seed).summary()
    return Estimates(table["mean"].to_numpy(), table["sd"].to_numpy())


def _adjust_sets(
    farms: Sequence[pl.DataFrame], share: float, names: list[str]
) -> Iterator[Estimates]:
    report = current_progress()
    for seed, frame in enumerate(farms):
        report(f"fitting invented farms, {share:.0%} noise", seed, len(farms))
        yield adjust(frame, share, names, seed)


def _size_noise(frame: pl.DataFrame, share: float, names: Sequence[str]) -> dict[str, float]:
    return {name: share * float(np.var(frame[name].to_numpy())) for name in names}


def _declare(frame: pl.DataFrame) -> Dataset:
    # With all digits: the paper does not round.
    number = Column(role="quasi", kind="continuous", digits=15)
    return Dataset(frame, Schema(dict.fromkeys(frame.columns, number)))


def _read_frame(data: Dataset) -> pl.DataFrame:
    return pl.DataFrame({name: data.column(name) for name in data.columns})


def _choose_key(seed: int) -> bytes:
    return seed.to_bytes(32, "big")


def _expect_weaker(
    farms: Sequence[pl.DataFrame], clean: Sequence[Estimates], share: float
) -> Iterator[Estimates]:
    """What must come out where the predictors are mixed with noise, and the outcome is not."""
    weight = math.sqrt(1 - share)
    for frame, (value, error) in zip(farms, clean, strict=True):
        y = frame["receipts"].to_numpy()
        weaker = weight * value
        weaker[0] += (1 - weight) * y.mean()
        weaker[-1] = value[-1] + share * (y.var(ddof=1) - value[-1])
        ratio = weaker[-1] / value[-1]
        wider = np.full(len(value), math.sqrt(ratio))
        wider[-1] = ratio
        yield Estimates(weaker, wider * error)


def _compare(
    passage: str,
    what: str,
    estimates_of_sets: Sequence[Estimates],
    expected: Floats,
    errors: Floats | None,
    why: str,
) -> Iterator[Row]:
    """Means over sets of farms, each with its standard error, beside what is expected."""
    values = np.array([estimates.value for estimates in estimates_of_sets])
    for index, label in enumerate(_LABELS):
        scatter = bound_by_scatter((values - expected)[:, index].tolist(), published=_MANY)
        reach, middle = (scatter.high - scatter.low) / 2, float(expected[:, index].mean())
        yield Row(place=passage, what=f"{what}: {label}", ours=float(values[:, index].mean()),
                  why=why, bound=Bound(middle - reach, middle + reach, of="ours"))  # fmt: skip
        error = float(np.mean([estimates.error[index] for estimates in estimates_of_sets]))
        limits = None
        if errors is not None:
            middle = float(errors[:, index].mean())
            limits = Bound((1 - _ALIKE) * middle, (1 + _ALIKE) * middle, of="ours")
        yield Row(place=passage, what=f"{what}: {label}, standard error", ours=error, why=why,
                  bound=limits)  # fmt: skip


def _compare_adjusted_estimates(
    passage: str, share: float, clean: Sequence[Estimates], adjusted: Sequence[Estimates]
) -> Iterator[Row]:
    """Estimates with the noise taken out, beside those of the same farms without noise."""
    before, after = (
        [np.array(part) for part in zip(*estimates, strict=True)] for estimates in (clean, adjusted)
    )
    added = np.maximum(after[1] ** 2 - before[1] ** 2, 0).sum(axis=0)
    reach = ERRORS * np.sqrt(added) / len(clean)
    for index, label in enumerate(_LABELS):
        what, middle = f"independent noise, {share:.0%}, adjusted: {label}", before[0][:, index]
        bound = Bound(middle.mean() - reach[index], middle.mean() + reach[index], of="ours")
        yield Row(place=passage, what=what, ours=float(after[0][:, index].mean()),
                  why=_WHY_ADJUSTED, bound=bound)  # fmt: skip
        yield Row(place=passage, what=f"{what}, standard error",
                  ours=float(after[1][:, index].mean()), why=_WHY_ADJUSTED)  # fmt: skip


# Tables 7a and 7b: attackers who know farms


def _compare_risks(farms: Sequence[pl.DataFrame]) -> Iterator[Row]:
    tables = {
        (kind, share): _attack(farms, kind, share, VARIABLES)
        for kind in ("correlated", "independent")
        for share in SHARES
    }
    partly = [_attack(farms, "independent", share, PREDICTORS)[1].mean() for share in SHARES]
    none, text = Bound(0, 0, of="ours"), "text on Tables 7a and 7b, in kind"
    for table, kind in (("7a", "correlated"), ("7b", "independent")):
        passage = f"Table {table}, in kind"
        less, more = (tables[kind, share] for share in SHARES)
        for share, (h, zero) in zip(SHARES, (less, more), strict=True):
            for index, quantile in enumerate(_QUANTILES):
                what = f"{share:.0%} noise, quantile {quantile:.0%}"
                middle = index < _QUANTILES.index(0.9)
                yield Row(
                    place=passage, what=f"{what}: h", ours=float(h[index]), why=_FARMS.strip()
                )
                yield Row(place=passage, what=f"{what}: share of h = 0", ours=float(zero[index]),
                          why=_WHY_SAFE,
                          bound=Bound(0, _SAFE, of="ours") if middle else None)  # fmt: skip
        for what, number in (
            ("quantiles at which more noise lowers h", (more[0] <= less[0]).sum()),
            ("shares of noise at which the right tail is not found more often than the middle",
             sum(zero[-1] <= zero[2] for _, zero in (less, more))),
        ):  # fmt: skip
            yield Row(place=passage, what=what, ours=float(number), why=_WHY_TEXT, bound=none)
    higher = [tables["correlated", share][0] - tables["independent", share][0] for share in SHARES]
    yield Row(place=text, what="h: correlated noise less independent noise, mean", why=_WHY_TEXT,
              ours=float(np.mean(higher)), bound=Bound(0, FARMS, of="ours"))  # fmt: skip
    for share, exposed in zip(SHARES, partly, strict=True):
        mixed, added = (tables[kind, share][1].mean() for kind in ("correlated", "independent"))
        for what, number, low, high in (
            ("correlated noise less independent noise", mixed - added, -_ALIKE, _ALIKE),
            ("receipts without noise less receipts with it", exposed - added, 0, 1),
        ):
            yield Row(place=text, what=f"{share:.0%} noise, share of h = 0: {what}", why=_WHY_TEXT,
                      ours=float(number), bound=Bound(low, high, of="ours"))  # fmt: skip


def _attack(
    farms: Sequence[pl.DataFrame], kind: str, share: float, names: list[str]
) -> tuple[Floats, Floats]:
    """Mean h, and the share of h = 0, of the farms at some quantiles of the distance."""
    report, tables = current_progress(), []
    positions = [round(quantile + offset, 2) for quantile in _QUANTILES for offset in _ABOUT]
    measure = HIndex(at=positions, by="distance", standardise=True)
    for seed, frame in enumerate(farms):
        report(f"attacking invented farms, {kind} noise of {share:.0%}", seed, len(farms))
        noise: Method = (
            CorrelatedNoise(variables=names, noise_share=share, partly=True)
            if kind == "correlated"
            else Noise(variables=names, variance=_size_noise(frame, share, names))
        )
        attack = redrawn(_declare(frame), noise, measure, draws=REDRAWS, key=_choose_key(seed))
        tables.append(attack.table.select("mean_h", "pr_h_0").to_numpy()[1:])
    h, zero = np.mean(tables, axis=0).reshape(len(_QUANTILES), len(_ABOUT), 2).mean(axis=1).T
    return h, zero
