"""Guessing secrets against a control: brute force, a real hold-out, and odd data."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.risk.attacks.attacker_view import view_release
from sfumato.risk.attacks.inference import rate_of_best_guess

KNOWN = ["sex", "region", "education", "children", "height"]


@pytest.fixture(scope="module")
def people() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())


def test_data_as_they_are_give_all_away(people):
    found = sf.risk.AttributeInference(known=KNOWN).measure(people, people)
    assert found.value > 0.97
    assert found.baseline < 0.2
    assert found.details["inference_gain_low"] > 0.8
    assert found.warnings
    assert set(found.records.columns) == set(found.table["variable"])


def test_shuffled_secrets_have_no_gain(people):
    rng = np.random.default_rng(2)
    secrets = people.schema.having("sensitive")
    new = [people.frame[name].gather(rng.permutation(500)) for name in secrets]
    released = sf.Dataset(people.frame.with_columns(new), people.schema)
    found = sf.risk.AttributeInference(known=KNOWN).measure(people, released)
    # Eight secrets were tried, and the luckiest of them is told.
    assert abs(found.details["inference_gain"]) < 0.1
    assert max(abs(gain) for gain in found.table["gain"]) < 0.1


def test_shuffled_knowledge_has_no_gain(people):
    rng = np.random.default_rng(2)
    new = [people.frame[name].gather(rng.permutation(500)) for name in KNOWN]
    released = sf.Dataset(people.frame.with_columns(new), people.schema)
    found = sf.risk.AttributeInference(known=KNOWN).measure(people, released)
    assert abs(found.details["inference_gain"]) < 0.02
    assert not found.warnings


def test_a_real_control_group_is_no_better_informed_than_the_one_left_out(people):
    """Leave-one-out stands in for persons held out before protection: both see only others."""
    order = np.random.default_rng(7).permutation(500)
    members, others = people.take(np.sort(order[:300])), people.take(np.sort(order[300:]))
    noise = sf.methods.Noise(variables=["height"], variance_share=0.05)
    released = noise.apply(members, key=bytes(32))
    one = sf.risk.AttributeInference(known=["height", "sex", "region"], tolerance=0.2)
    left_out, held_out = one.measure(members, released), one.against(members, released, others)
    for mine, theirs in zip(left_out.table["control"], held_out.table["control"], strict=True):
        assert abs(mine - theirs) < 0.12
    assert held_out.table["attribute_inference"].equals(left_out.table["attribute_inference"])
    assert any("never in the release" in line for line in held_out.assumptions)
    assert held_out.details["inference_gain_low"] > 0
    with pytest.raises(MeasureError, match="nobody in the control"):
        one.against(members, released, others.take(np.arange(0)))


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("xyz")),
        min_size=3,
        max_size=14,
    ),
    st.integers(1, 3),
)
def test_the_same_as_the_slow_way(rows, nearest):
    schema = sf.Schema({"age": "quasi", "ill": sf.Column(role="sensitive", kind="nominal")})
    original = sf.Dataset(
        pl.DataFrame({"age": [float(r[0]) for r in rows], "ill": [r[2] for r in rows]}), schema
    )
    shown = pl.DataFrame({"age": [r[1] + 0.25 for r in rows], "ill": [r[2] for r in rows]})
    one = sf.risk.AttributeInference(nearest=nearest)
    found = one.measure(original, sf.Dataset(shown, schema))

    def right(at: int, others: list[int]) -> float:
        apart = {i: abs(rows[at][0] - rows[i][1] - 0.25) for i in others}
        limit = sorted(apart.values())[min(nearest, len(apart)) - 1]
        pool = [rows[i][2] for i, far in apart.items() if far <= limit]
        most = max(pool.count(level) for level in pool)
        modes = {level for level in pool if pool.count(level) == most}
        return (rows[at][2] in modes) / len(modes)

    every = range(len(rows))
    own = [right(at, list(every)) for at in every]
    left = [right(at, [i for i in every if i != at]) for at in every]
    assert found.records["ill"].to_list() == pytest.approx(own)
    assert found.value == pytest.approx(sum(own) / len(rows))
    assert found.baseline == pytest.approx(sum(left) / len(rows))


def test_numbers_count_within_the_tolerance():
    schema = sf.Schema({"age": "quasi", "pay": sf.Column(role="sensitive", kind="continuous")})
    frame = pl.DataFrame({"age": [1, 2, 3, 4], "pay": [10.0, 20.0, 30.0, 40.0]})
    shown = frame.with_columns(pl.col("pay") + pl.Series([0.0, 0.5, 2.0, 9.0]))
    original, released = sf.Dataset(frame, schema), sf.Dataset(shown, schema)
    spread = float(np.std(frame["pay"].to_numpy(), ddof=1))
    for tolerance, share in ((0.0, 0.25), (0.6 / spread, 0.5), (3 / spread, 0.75), (1.0, 1.0)):
        one = sf.risk.AttributeInference(tolerance=tolerance)
        assert one.measure(original, released).value == share


def test_a_suppressed_secret_is_no_guess():
    schema = sf.Schema({"age": "quasi", "ill": sf.Column(role="sensitive", kind="nominal")})
    frame = pl.DataFrame({"age": [1, 2, 3, 4], "ill": ["a", "a", "b", "b"]})
    shown = frame.with_columns(ill=pl.Series(["a", "*", "{a;b}", None]))
    found = sf.risk.AttributeInference().measure(
        sf.Dataset(frame, schema), sf.Dataset(shown, schema)
    )
    assert found.records["ill"].to_list() == [1.0, 0.0, 0.0, 0.0]


def test_the_one_best_guess_for_everybody():
    schema = sf.Schema({"pay": sf.Column(kind="continuous"), "ill": sf.Column(kind="nominal")})
    frame = pl.DataFrame({"pay": [1.0, 1.1, 1.2, 9.0], "ill": ["a", "a", "b", "a"]})
    data = sf.Dataset(frame, schema)
    (pay, ill), _ = view_release(data, data, ["pay", "ill"], owner="test")
    assert rate_of_best_guess(pay, pay.persons, 0.11 / 3.9508) == 0.75
    assert rate_of_best_guess(ill, ill.persons, 0.0) == 0.75


def test_what_cannot_be_tried_says_so(people):
    with pytest.raises(MeasureError, match="confidential"):
        sf.risk.AttributeInference(known=["sex"], confidential=["sex"]).measure(people, people)
    one = sf.risk.AttributeInference(known=["sex"], confidential=["income"])
    with pytest.raises(MeasureError, match="None of the confidential"):
        one.measure(people, people.without(["income"]))
    alone = people.take(np.arange(1))
    with pytest.raises(MeasureError, match="at least two records"):
        sf.risk.AttributeInference().measure(alone, alone)


def test_missing_truths_are_left_out_and_counted(people):
    found = sf.risk.AttributeInference(known=KNOWN).measure(people, people)
    income = found.table.filter(pl.col("variable") == "income")
    assert income["persons"][0] == 500 - people.column("income").null_count()
    assert math.isfinite(found.value)


def linked_secrets(records: int, seed: int) -> sf.Dataset:
    """Ages, areas and a number, and secrets that follow them in part."""
    draw = np.random.default_rng(seed)
    age, area = draw.integers(18, 90, records), draw.integers(0, 6, records)
    status = (age // 20 + draw.integers(0, 4, records)) % 5
    pay = np.round(200 * age + 300 * area + draw.normal(0, 4000, records))
    frame = pl.DataFrame(
        {"age": age, "area": area.astype(str), "status": status.astype(str), "pay": pay}
    )
    schema = sf.Schema(
        {
            "age": sf.Column(role="quasi", kind="integer"),
            "area": sf.Column(role="quasi", kind="nominal"),
            "status": sf.Column(role="sensitive", kind="nominal"),
            "pay": sf.Column(role="sensitive", kind="continuous"),
        }
    )
    return sf.Dataset(frame, schema)


@pytest.mark.parametrize("output", [{"status": "mode", "age": "mode", "pay": "mean"}, "mode"])
def test_the_control_is_not_blind_where_a_secret_is_averaged(output):
    """Four copies of a mode would guess for the control what the own record says."""
    people = linked_secrets(1500, 1)
    data, outside = people.take(np.arange(900)), people.take(np.arange(900, 1500))
    outputs = output if output == "mode" else {**output, "area": "mode"}
    released = sf.methods.KAnonymity(
        k=5, variables=["age", "area", "status", "pay"], output=outputs
    ).apply(data)
    measure = sf.risk.AttributeInference(tolerance=0.2, individuals=400)
    found = measure.measure(data, released)
    assert set(found.details["averaged"]) == {"status", "pay"}
    held_out = measure.against(data, released, outside)
    gains = {row["variable"]: row for row in found.table.rows(named=True)}
    for row in held_out.table.rows(named=True):
        # Persons who were never in the release are the control that nobody can argue with.
        assert gains[row["variable"]]["gain_high"] > row["gain"]
    assert found.details["inference_gain_low"] > 0


def test_secrets_that_were_not_averaged_lose_their_own_record_only():
    data = linked_secrets(600, 2)
    ranges = sf.methods.KAnonymity(k=5).apply(data)
    exchanged = sf.methods.Misclassify(variables=["status"], retention=0.7).apply(
        ranges, key=bytes(32)
    )
    noisy = sf.methods.Noise(variables=["pay"], variance_share=0.2).apply(data, key=bytes(32))
    for released in (data, ranges, exchanged, noisy):
        assert "averaged" not in sf.risk.AttributeInference().measure(data, released).details


def test_one_class_for_all_leaves_nobody_to_compare_with():
    data = linked_secrets(40, 3)
    released = sf.methods.KAnonymity(
        k=40, variables=["age", "area", "status", "pay"], output="mode"
    ).apply(data)
    with pytest.raises(MeasureError, match="one averaged class"):
        sf.risk.AttributeInference().measure(data, released)


def test_the_mean_does_not_hide_whom_it_is_about():
    # The 40 who are ill have a code of their own; all others share theirs with a hundred.
    codes = [f"c{number}" for number in range(40)] + [f"many{n % 9}" for n in range(900)]
    frame = pl.DataFrame({"code": codes, "ill": ["yes"] * 40 + ["no"] * 900})
    data = sf.Dataset(frame, sf.Schema({"code": "quasi", "ill": "sensitive"}))
    found = sf.risk.AttributeInference().measure(data, data)
    assert found.details["inference_gain"] < 0.06
    assert found.details["worst_group_gain"] > 0.9
    assert found.number("inference_gain_at_worst") > 0.9


@pytest.mark.parametrize("seed", range(4))
def test_of_many_groups_none_is_worst_by_chance(seed):
    random = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "age": random.integers(0, 12, 900),
            "ill": random.choice([f"d{number}" for number in range(20)], 900),
            "pay": random.normal(0, 1, 900),
        }
    )
    data = sf.Dataset(frame, sf.Schema({"age": "quasi", "ill": "sensitive", "pay": "sensitive"}))
    found = sf.risk.AttributeInference().measure(data, data)
    assert found.details["worst_group_gain"] < 0.1
