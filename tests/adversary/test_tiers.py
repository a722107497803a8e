"""Does somebody who has all tiers of a plan learn more than from the best of them?

The claim (docs/how-to/tiers.md): the error of an attacker who has all tiers is never below that of
the best tier, but for the share that rounding has in it (1 % at most) and for chance.

Three attackers try it. One weighs the tiers in the best way, with weights found by means of the
truth. One fits curves to every tier and to the differences between them, again and again, on
people whose truth is known, and is tested on others. One counts, for categories, which true level
goes with which levels of all tiers. Each is tried on independent noise too, where it must succeed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.noise.nesting import ROUNDING

RECORDS = 4000
CHANCE = 40 / RECORDS
"""Weights fitted to n records gain a share of about 1 / n each by chance; 20 times that counts."""
TIERS = ("internal", "accredited", "public")
RELEASE = {"accept_attacks": "tried in the tests"}


def people() -> pl.DataFrame:
    draw = np.random.default_rng(5)
    bmi = draw.gamma(6, 4, RECORDS).round(2)
    return pl.DataFrame(
        {
            "id": [f"p{number}" for number in range(RECORDS)],
            "bmi": bmi,
            "glucose": (bmi / 5 + draw.normal(0, 1, RECORDS)).round(2),
            "smoking": draw.choice(["never", "former", "current"], RECORDS, p=[0.5, 0.3, 0.2]),
        }
    )


SCHEMA: dict[str, Any] = {
    "id": "direct",
    "bmi": "sensitive",
    "glucose": "sensitive",
    "smoking": sf.Column(role="quasi", kind="ordinal", domain=("never", "former", "current")),
}
FRAME = people()
DATA = sf.Dataset(FRAME, sf.Schema(SCHEMA))


def release_tiers(
    step: Any, sizes: Sequence[dict[str, Any]], key: bytes
) -> dict[str, pl.DataFrame]:
    plan = sf.Plan(
        schema=SCHEMA,
        steps=[sf.methods.Drop(), step],
        tiers={tier: {step.name: size} for tier, size in zip(TIERS, sizes, strict=True)},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiers = sf.protect_tiers(DATA, plan, key=key)
    return {name: release.data for name, release in tiers.items()}


def weigh_best(versions: Sequence[np.ndarray], truth: np.ndarray) -> float:
    """The error variance of the best unbiased weighted mean (BLUE)."""
    errors = np.stack(versions) - truth
    errors = errors - errors.mean(axis=1, keepdims=True)
    others = errors[1:] - errors[0]
    weights = np.linalg.lstsq(others.T, -errors[0], rcond=1e-12)[0]
    return float(np.var(errors[0] + weights @ others))


def learn_curves(parts: Sequence[np.ndarray], truth: np.ndarray, rounds: int = 8) -> float:
    """The error variance, on people not learned from, of curves fitted in turn (backfitting)."""
    learned = np.arange(len(truth)) % 2 == 0
    bins = []
    for part in parts:
        edges = np.quantile(part[learned], np.linspace(0, 1, 41)[1:-1])
        bins.append(np.digitize(part, edges))
    fitted = np.zeros((len(parts), len(truth)))
    for _ in range(rounds):
        for number, where in enumerate(bins):
            rest = truth - fitted.sum(axis=0) + fitted[number]
            counts = np.bincount(where[learned], minlength=40)
            sums = np.bincount(where[learned], rest[learned], minlength=40)
            fitted[number] = (sums / np.maximum(counts, 1))[where]
            fitted[number] -= fitted[number][learned].mean() if number else 0.0
    return float(np.var((truth - fitted.sum(axis=0))[~learned]))


def differences(versions: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [versions[0], *(b - a for a, b in pairwise(versions))]


sizes = st.tuples(
    st.floats(0.05, 0.3), st.floats(1.05, 4.0), st.floats(1.05, 4.0), st.integers(0, 2**32)
)


@given(sizes)
@settings(max_examples=12, deadline=None)
def test_all_tiers_tell_no_more_of_a_number_than_the_best(drawn):
    share, wider, widest, seed = drawn
    shares = [share, min(share * wider, 0.9), min(share * wider * widest, 0.95)]
    key = seed.to_bytes(32, "big")
    frames = release_tiers(
        sf.methods.Noise(variables=["bmi"], variance_share=shares[0]),
        [{"variance_share": size} for size in shares],
        key,
    )
    truth = FRAME["bmi"].to_numpy()
    versions = [frame["bmi"].to_numpy() for frame in frames.values()]
    best = float(np.var(versions[0] - truth))
    assert weigh_best(versions, truth) >= best * (1 - ROUNDING - CHANCE)
    for first, second in ((0, 2), (1, 2)):
        pair = [versions[first], versions[second]]
        alone = float(np.var(pair[0] - truth))
        assert weigh_best(pair, truth) >= alone * (1 - ROUNDING - CHANCE)


def test_an_attacker_who_fits_again_and_again_gains_nothing_from_further_tiers():
    frames = release_tiers(
        sf.methods.Noise(variables=["bmi"], variance_share=0.1),
        [{"variance_share": size} for size in (0.1, 0.2, 0.4)],
        bytes(32),
    )
    truth = FRAME["bmi"].to_numpy()
    versions = [frame["bmi"].to_numpy() for frame in frames.values()]
    alone = learn_curves(versions[:1], truth)
    assert learn_curves(differences(versions), truth) >= alone * (1 - ROUNDING - CHANCE)


def test_both_attackers_succeed_on_noise_that_is_drawn_anew():
    truth = FRAME["bmi"].to_numpy()
    versions = [
        sf.methods.Noise(variables=["bmi"], variance_share=size)
        .apply(DATA, key=bytes([number]) * 32)
        .frame["bmi"]
        .to_numpy()
        for number, size in enumerate((0.1, 0.2, 0.4))
    ]
    best = float(np.var(versions[0] - truth))
    assert weigh_best(versions, truth) < best * 0.65  # 1 / (1 + 1/2 + 1/4) is 0.57
    assert learn_curves(differences(versions), truth) < learn_curves(versions[:1], truth) * 0.8


def test_correlated_noise_of_several_shares_is_that_of_the_smallest():
    frames = release_tiers(
        sf.methods.CorrelatedNoise(variables=["bmi", "glucose"], noise_share=0.1, partly=True),
        [{"noise_share": size} for size in (0.1, 0.3, 0.6)],
        bytes(32),
    )
    names = ("bmi", "glucose")
    columns = {
        tier: np.stack([frame[name].to_numpy() for name in names]) for tier, frame in frames.items()
    }
    for name in names:
        truth = FRAME[name].to_numpy()

        def predict(tiers: Sequence[str], truth: np.ndarray = truth) -> float:
            known = np.vstack([*(columns[tier] for tier in tiers), np.ones(RECORDS)]).T
            weights = np.linalg.lstsq(known, truth, rcond=None)[0]
            return float(np.var(truth - known @ weights))

        # With everything that the tiers show of both variables.
        assert predict(TIERS) >= predict(TIERS[:1]) * (1 - ROUNDING - CHANCE)
        assert predict(TIERS[1:]) >= predict(TIERS[1:2]) * (1 - ROUNDING - CHANCE)


def guess_levels(versions: Sequence[pl.Series], truth: pl.Series) -> float:
    """How often the most frequent true level behind the same released ones is right, on others."""
    shown = pl.DataFrame([series.alias(str(number)) for number, series in enumerate(versions)])
    learned = np.arange(len(truth)) % 2 == 0
    table = shown.with_columns(truth=truth)
    names = list(shown.columns)
    guesses = (
        table.filter(pl.Series(learned))
        .group_by([*names, "truth"])
        .len()
        .sort("len", "truth")
        .group_by(names, maintain_order=True)
        .last()
    )
    tested = table.filter(pl.Series(~learned)).join(guesses, on=names, how="left", suffix="_guess")
    right = tested["truth"] == tested["truth_guess"]
    return int(right.sum()) / len(right)


CATEGORIES: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "all alike": (
        sf.methods.Misclassify(variables=["smoking"], retention=0.8),
        [{"retention": size} for size in (0.8, 0.7, 0.5)],
    ),
    "neighbours": (
        sf.methods.Misclassify(variables=["smoking"], retention=0.8, towards="near"),
        [{}, {"again": True}, {"again": True, "retention": 0.7}],
    ),
    "frequencies kept": (
        sf.methods.Misclassify(variables=["smoking"], retention=0.8, invariant=True),
        [{}, {"again": True}, {"again": True}],
    ),
    "written down": (
        sf.methods.Misclassify(
            variables=["smoking"],
            matrix={"smoking": [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.2, 0.8]]},
        ),
        [{}, {"again": True}, {"again": True}],
    ),
    "codes": (
        sf.methods.NoisyCodes(variables=["smoking"], variance=0.3, ends="round"),
        [{}, {"variance": 1.0}, {"variance": 4.0}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CATEGORIES)
def test_all_tiers_tell_no_more_of_a_category_than_the_best(case):
    step, changes = CATEGORIES[case]
    frames = release_tiers(step, changes, bytes(range(32)))
    truth = FRAME["smoking"]
    shown = [frame["smoking"] for frame in frames.values()]
    error = 4 * np.sqrt(0.25 / (RECORDS / 2))
    assert guess_levels(shown, truth) <= guess_levels(shown[:1], truth) + error
    # Given the finer tier, the coarser one knows nothing of the true level.
    for finer, coarser in pairwise(shown):
        table = pl.DataFrame({"finer": finer, "coarser": coarser, "truth": truth})
        for _, some in table.group_by("finer"):
            counts = some.pivot("coarser", index="truth", values="finer", aggregate_function="len")
            observed = counts.drop("truth").fill_null(0).to_numpy().astype(float)
            expected = observed.sum(1, keepdims=True) * observed.sum(0) / observed.sum()
            statistic = float(((observed - expected) ** 2 / np.maximum(expected, 0.5)).sum())
            freedom = (observed.shape[0] - 1) * (observed.shape[1] - 1)
            assert statistic < freedom + 6 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("case", CATEGORIES)
def test_every_tier_has_the_matrix_that_it_states(case):
    step, changes = CATEGORIES[case]
    plan = sf.Plan(
        schema=SCHEMA,
        steps=[sf.methods.Drop(), step],
        tiers={tier: {step.name: size} for tier, size in zip(TIERS, changes, strict=True)},
    )
    from sfumato.noise.nesting import round_codes

    for release in sf.protect_tiers(DATA, plan, key=bytes(range(32))).values():
        noise: Any = release.noise["smoking"]
        stated = round_codes(noise) if case == "codes" else np.array(noise.matrix)
        levels = list(noise.levels)
        for row, level in enumerate(levels):
            some = release.data["smoking"].filter(FRAME["smoking"] == level)
            shares = np.array([(some == other).mean() for other in levels])
            allowed = 4.5 * np.sqrt(stated[row] * (1 - stated[row]) / len(some)) + 1e-9
            assert (np.abs(shares - stated[row]) <= allowed).all()


def test_categories_that_are_exchanged_under_two_keys_tell_more_than_one():
    step = sf.methods.Misclassify(variables=["smoking"], retention=0.6)
    shown = [step.apply(DATA, key=bytes([n]) * 32).frame["smoking"] for n in range(3)]
    truth = FRAME["smoking"]
    assert guess_levels(shown, truth) > guess_levels(shown[:1], truth) + 0.05


def test_free_codes_of_several_sizes_tell_no_more_than_the_smallest():
    frames = release_tiers(
        sf.methods.NoisyCodes(variables=["smoking"], variance=0.3, ends="free"),
        [{"variance": size} for size in (0.3, 0.6, 2.0)],
        bytes(32),
    )
    order = {"never": 0.0, "former": 1.0, "current": 2.0}
    truth = FRAME["smoking"].replace_strict(order).to_numpy()
    versions = [frame["smoking"].to_numpy() for frame in frames.values()]
    best = float(np.var(versions[0] - truth))
    assert weigh_best(versions, truth) >= best * (1 - CHANCE)
