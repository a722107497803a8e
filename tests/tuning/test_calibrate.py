"""The least noise that suffices: met, least, repeatable, and honest where none does."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError


def _normal(records: int = 300, seed: int = 1, tail: float | None = None) -> sf.Dataset:
    chance = np.random.default_rng(seed)
    covariance = np.full((3, 3), 0.25) + 0.75 * np.eye(3)
    values = chance.multivariate_normal(np.zeros(3), covariance, records)
    if tail is not None:
        values[0] = tail
    schema = sf.Schema(dict.fromkeys("abc", sf.Column(role="quasi", kind="continuous")))
    return sf.Dataset(pl.DataFrame(values, schema=list("abc")), schema)


def _measured(data: sf.Dataset, found: Any, draws: int = 30) -> tuple[float, float]:
    """Mean of h and share below 3, by the measure and by fresh draws of the method itself."""
    seen = []
    for at in range(draws):
        released = found.step.apply(data, key=bytes([at + 1]) * 32)
        one = sf.risk.HIndex(p=3).measure(data, released)
        seen.append((one.details["mean_h"], one.value))
    return tuple(np.mean(seen, axis=0))


def test_the_mean_is_reached_and_hardly_exceeded() -> None:
    data = _normal()
    found = sf.calibrate(data, mean_h=3)
    assert found.met
    assert found.achieved - 2 * found.error >= 3
    assert found.achieved < 3.8
    assert _measured(data, found)[0] == pytest.approx(found.achieved, rel=0.12)


def test_the_share_below_is_kept() -> None:
    data = _normal()
    found = sf.calibrate(data, below=3, at_most=0.5)
    assert found.met
    assert found.achieved + 2 * found.error <= 0.5
    assert _measured(data, found)[1] == pytest.approx(found.achieved, abs=0.04)


def test_more_asked_for_is_more_noise() -> None:
    data = _normal(200)
    sizes = [sf.calibrate(data, mean_h=one, draws=4).share for one in (1, 3, 9)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
    table = sf.calibrate(data, mean_h=3, draws=4).table
    assert table["achieved"].is_sorted()


def test_it_repeats_whatever_the_order() -> None:
    data = _normal(120)
    order = np.random.default_rng(0).permutation(120)
    shuffled = sf.Dataset(data.frame[order], data.schema)
    first, second = (sf.calibrate(one, mean_h=2, draws=3) for one in (data, shuffled))
    assert (first.share, first.achieved) == (second.share, second.achieved)


def test_every_tenth_needs_more_than_all_together() -> None:
    data = _normal(300)
    together = sf.calibrate(data, mean_h=3, draws=4)
    apart = sf.calibrate(data, mean_h=3, who="deciles", by="distance", draws=4)
    assert apart.share > together.share
    assert len(apart.groups) == 10
    assert apart.groups["achieved"].min() == apart.achieved


def test_the_most_exposed_need_more_than_all() -> None:
    data = _normal(300)
    together = sf.calibrate(data, at_most=0.6, draws=4)
    exposed = sf.calibrate(data, at_most=0.6, who=0.1, draws=4)
    assert exposed.share > together.share
    assert exposed.groups["records"].to_list() == [30]


def test_weights_set_the_proportion() -> None:
    found = sf.calibrate(_normal(150), mean_h=2, weights={"a": 0.5, "b": 2}, draws=3)
    shares = found.step.variance_share
    assert isinstance(shares, dict)
    assert shares["b"] == pytest.approx(4 * shares["a"], rel=0.01)
    assert shares["c"] == pytest.approx(2 * shares["a"], rel=0.01)


def test_an_outlier_in_all_variables_cannot_be_hidden_and_is_told_so() -> None:
    found = sf.calibrate(_normal(200, tail=40.0), at_most=0.5, who=0.005, draws=3)
    assert not found.met
    assert "far from all others" in found.reason
    assert not found.offers  # cut off in each variable, it still is the one in the corner


def test_an_outlier_in_one_variable_is_hidden_by_cutting_the_tail_off() -> None:
    data = _normal(500, tail=40.0)
    asked = {"at_most": 0.5, "below": 1, "who": 0.002, "draws": 40}
    found = sf.calibrate(data, ["a"], known=["a"], **asked)  # type: ignore[arg-type]
    assert not found.met
    assert [one.met for one in found.offers] == [True]
    assert found.offers[0].step.at_most is not None


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "Set a goal"),
        ({"mean_h": 3, "at_most": 0.1}, "Set a goal"),
        ({"mean_h": 0}, "above 0"),
        ({"at_most": 1.5}, "share"),
        ({"mean_h": 3, "who": 2.0}, "who"),
        ({"mean_h": 3, "who": "deciles", "by": "z"}, "'z'"),
        ({"mean_h": 3, "draws": 1}, "two draws"),
        ({"mean_h": 3, "largest": 4}, "share"),
        ({"mean_h": 3, "weights": {"z": 1}}, "'z'"),
        ({"mean_h": 3, "weights": {"a": 0}}, "above 0"),
        ({"mean_h": 3, "known": ["c"], "variables": ["a"]}, "none of the variables"),
    ],
)
def test_nonsense_is_refused(told: dict[str, Any], said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        sf.calibrate(_normal(50), **told)


def test_one_record_cannot_be_hidden() -> None:
    with pytest.raises(MeasureError):
        sf.calibrate(_normal(1), mean_h=3)


@pytest.mark.parametrize("seed", range(8))
def test_two_draws_of_two_records_prove_nothing(seed: int) -> None:
    # Of two records the mean of h is a half at most, however much noise there is.
    found = sf.calibrate(_normal(2, seed), ["a"], mean_h=0.6, draws=2)
    assert not found.met


def test_more_than_a_pick_by_chance_is_told_to_be_impossible() -> None:
    found = sf.calibrate(_normal(50), mean_h=40, draws=2)
    assert not found.met
    assert "24.5 persons off on average" in found.reason


def _visits(persons: int = 60, rows: int = 3) -> sf.Dataset:
    chance = np.random.default_rng(4)
    person = np.repeat(np.arange(persons), rows)
    frame = pl.DataFrame(
        {
            "patient": person,
            "height": chance.normal(170, 9, persons)[person],
            "pressure": chance.normal(130, 15, persons * rows),
        }
    )
    quasi = sf.Column(role="quasi", kind="continuous")
    return sf.Dataset(frame, sf.Schema({"patient": "person", "height": quasi, "pressure": quasi}))


def test_noise_is_calibrated_for_persons() -> None:
    data = _visits()
    found = sf.calibrate(data, mean_h=2, attacker="plain", draws=6)
    assert found.met
    assert found.groups["records"].to_list() == [60]
    # By the measure, on fresh draws of the method itself, which draws the height once a person.
    assert _measured(data, found, draws=12)[0] == pytest.approx(found.achieved, rel=0.15)
    rows = sf.Dataset(data.frame, data.schema.changed(["patient"], role="other"))
    by_rows = sf.calibrate(rows, mean_h=2, attacker="plain", draws=6)
    assert found.share > by_rows.share, "three rows of a person are three chances to find them"


def test_the_most_exposed_persons_have_few_other_persons_around() -> None:
    data = _visits(20, 3)
    far = pl.when(pl.col("patient") == 7).then(400.0).otherwise(pl.col("height")).alias("height")
    near = pl.when(pl.col("patient") == 7).then(130.0).otherwise(pl.col("pressure"))
    lonely = sf.Dataset(data.frame.with_columns(far, near.alias("pressure")), data.schema)
    found = sf.calibrate(lonely, mean_h=0.5, who=0.05, attacker="plain", draws=3)
    assert found.groups["records"].to_list() == [1], "their own rows are no company"


def _mixed(records: int = 150, seed: int = 4) -> sf.Dataset:
    chance = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "x": chance.normal(size=records),
            "y": chance.normal(size=records),
            "town": chance.choice(["a", "b", "c"], records, p=[0.5, 0.3, 0.2]),
            "school": chance.choice(["low", "mid", "high"], records),
        }
    )
    school = sf.Column(role="quasi", kind="ordinal", domain=("low", "mid", "high"))
    numbers = dict.fromkeys("xy", sf.Column(role="quasi", kind="continuous"))
    town = sf.Column(role="quasi", kind="nominal")
    return sf.Dataset(frame, sf.Schema({**numbers, "town": town, "school": school}))


def test_the_attack_by_categories_is_that_of_the_measure() -> None:
    """Noise as calibrated, on fresh draws, held against `mixed_h_index`, which shares no code."""
    data = _mixed()
    known = ["x", "y", "town", "school"]
    found = sf.calibrate(data, ["x", "y"], known=known, at_most=0.6, attacker="plain", draws=8)
    assert found.met
    seen = []
    for at in range(20):
        released = found.step.apply(data, key=bytes([at + 1]) * 32)
        # Nobody is ruled out by a category that fits: the plain attacker weighs all alike.
        plain = sf.risk.MixedHIndex(known=known, p=3, errors={"town": 1e-12, "school": 1e-12})
        seen.append(plain.measure(data, released).value)
    assert np.mean(seen) == pytest.approx(found.achieved, abs=0.06)


def test_who_knows_categories_too_needs_more_noise() -> None:
    data = _mixed()
    numbers = sf.calibrate(data, ["x", "y"], known=["x", "y"], mean_h=2, draws=4)
    with_town = sf.calibrate(data, ["x", "y"], known=["x", "y", "town"], mean_h=2, draws=4)
    changed = sf.calibrate(
        data,
        ["x", "y"],
        known=["x", "y", "town"],
        misclassified={"town": 0.5},
        mean_h=2,
        draws=4,
    )
    assert numbers.share < with_town.share
    assert changed.share < with_town.share


def test_categories_repeat_whatever_the_order() -> None:
    data = _mixed(100)
    order = np.random.default_rng(0).permutation(100)
    known = ["x", "town", "school"]
    first, second = (
        sf.calibrate(
            one, ["x"], known=known, misclassified={"town": 0.7}, mean_h=2, draws=3, who=0.2
        )
        for one in (data, data.take(order))
    )
    assert (first.share, first.achieved) == (second.share, second.achieved)


def test_two_levels_are_as_far_apart_as_the_likelihood_says() -> None:
    from sfumato.tuning.calibrate import KnownCategory

    entry = KnownCategory("town", np.eye(3), np.full(3, np.sqrt(0.5)), ordered=False, retention=0.8)
    changed = 0.2
    gap = (np.eye(3)[0] - np.eye(3)[1]) * entry.weigh_change(changed)
    # Pr(the same level) = 0.8, of either other 0.1.
    assert (gap**2).sum() == pytest.approx(2 * np.log(0.8 / 0.1))
    assert entry.weigh_change(0.0) > 1e5


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"misclassified": {"school": 0.5}}, "'school' is said to be misclassified"),
        ({"misclassified": {"town": 0}}, "keep their 'town'"),
    ],
)
def test_mistakes_about_categories_are_told(more: Any, expected: str) -> None:
    with pytest.raises(MeasureError, match=expected):
        sf.calibrate(_mixed(40), ["x"], known=["x", "town"], mean_h=2, **more)


def test_an_attacker_without_errors_is_that_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow way gives the same as the trees where nothing is wrong and everybody is there."""
    from sfumato.tuning import calibrate as module

    data = _mixed(80)
    known = ["x", "y", "town"]
    fast = sf.calibrate(data, ["x", "y"], known=known, mean_h=2, draws=3)
    monkeypatch.setattr(module.DistanceAttack, "is_imperfect", True)
    slow = sf.calibrate(data, ["x", "y"], known=known, mean_h=2, draws=3)
    assert slow.share == fast.share
    assert slow.achieved == pytest.approx(fast.achieved)


def test_who_knows_less_needs_less_noise() -> None:
    data = _mixed(120)
    known = ["x", "y", "town"]
    cases: list[dict[str, Any]] = [{}, {"errors": 0.3}, {"sampling_fraction": 0.4}]
    sizes = [
        sf.calibrate(data, ["x", "y"], known=known, at_most=0.5, draws=3, **more).share
        for more in cases
    ]
    assert sizes[1] < sizes[0]
    assert sizes[2] < sizes[0]


def test_imperfect_attackers_are_refused_where_they_cannot_be_tried() -> None:
    with pytest.raises(MeasureError, match="are shares"):
        sf.calibrate(_mixed(40), ["x"], known=["x"], mean_h=2, errors=2)
    many = sf.Dataset(pl.DataFrame({"x": np.arange(6000.0)}), sf.Schema({"x": "quasi"}))
    with pytest.raises(MeasureError, match="at most 5000 records"):
        sf.calibrate(many, ["x"], mean_h=2, errors=0.1)
