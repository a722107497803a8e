"""Several releases under different keys: the shortcut against releases that were drawn."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, PlanError
from sfumato.risk.attacks import averaged_over
from sfumato.tuning.redraws import several

VARIABLES = ["systolic", "exam_score"]


@pytest.fixture(scope="module")
def people() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(1500), sf.datasets.cohort_schema())


@pytest.mark.parametrize("name", ["noise", "correlated_noise"])
def test_as_many_are_found_as_in_releases_that_were_drawn(people, name):
    method = (
        sf.methods.Noise(variables=VARIABLES, variance_share=0.2)
        if name == "noise"
        else sf.methods.CorrelatedNoise(variables=VARIABLES, noise_share=0.2, partly=True)
    )
    one = sf.risk.Averaging(variables=VARIABLES)
    found = one.measure(people, method.apply(people, key=bytes(32)))
    told = dict(zip(found.table["releases"], found.table["averaging"], strict=True))
    measure = sf.risk.HIndex(variables=VARIABLES)
    drawn = several(people, method, measure, releases=[1, 4, 10], key=bytes(32))
    for many, evidence in drawn.items():
        # Noise that keeps the spread is read by its factor; so does the rescaling attacker.
        truth = evidence.details["h_index_rescaled"]
        error = math.sqrt(2 * truth * (1 - truth) / 1500)
        assert abs(told[many] - truth) < 4 * error
    assert found.value > 3 * found.baseline


def test_one_key_has_nothing_to_average(people):
    noise = sf.methods.Noise(variables=VARIABLES, variance_share=0.2)
    one = noise.apply(people, key=bytes(32))
    same = averaged_over([one, noise.apply(people, key=bytes(32))])
    assert same.frame.equals(one.frame)


def test_noise_left_falls_with_the_root(people):
    noise = sf.methods.Noise(variables=["systolic"], variance_share=0.25)
    one = sf.risk.Averaging(variables=["systolic"], releases=[4, 9])
    table = one.measure(people, noise.apply(people, key=bytes(32))).table
    left = table["noise_sd_share_left"].to_list()
    assert left[0] == pytest.approx(0.5, abs=0.05)
    assert left[1] == pytest.approx(left[0] / 2)
    assert left[2] == pytest.approx(left[0] / 3)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-5, 5)), min_size=3, max_size=30), st.data()
)
def test_more_releases_never_need_other_rows(rows, draw):
    frame = pl.DataFrame({"x": [float(row[0]) for row in rows]})
    if frame["x"].n_unique() == 1:
        return
    schema = sf.Schema({"x": "quasi"})
    shown = frame.select(pl.col("x") + pl.Series([row[1] / 2 for row in rows]))
    original, released = sf.Dataset(frame, schema), sf.Dataset(shown, schema)
    order = np.array(draw.draw(st.permutations(range(len(rows)))))
    one = sf.risk.Averaging(variables=["x"], releases=[2, 1000])
    found = one.measure(original, released)
    again = one.measure(original.take(order), released.take(order))
    assert found.plain() == again.plain()
    assert all(0 <= rate <= 1 for rate in found.table["averaging"])


def test_nothing_to_average_is_told(people):
    found = sf.risk.Averaging(variables=VARIABLES).measure(people, people)
    assert found.value == 1.0
    assert any("no noise to average" in line for line in found.warnings)
    moved = people.frame.with_columns(pl.col("systolic") * 2 + 100)
    again = sf.risk.Averaging(variables=["systolic"]).measure(
        people, sf.Dataset(moved, people.schema)
    )
    assert again.value > 0.99  # a change of units is no noise


def test_categories_are_outvoted():
    frames = [pl.DataFrame({"ill": list(text)}) for text in ("abab", "aabb", "aacb")]
    made = averaged_over([sf.Dataset(frame) for frame in frames])
    assert made.frame["ill"].to_list() == ["a", "a", "a", "b"]


def test_what_cannot_be_averaged_says_so(people):
    with pytest.raises(PlanError, match="rising order"):
        sf.risk.Averaging(variables=["systolic"], releases=[4, 2])
    with pytest.raises(MeasureError, match="none in the original"):
        sf.risk.Averaging(variables=["sex"]).measure(people, people)
    method = sf.methods.Deterministic(variables=["systolic"], k=3)
    with pytest.raises(MeasureError, match="nothing to average"):
        several(people, method, sf.risk.HIndex(variables=["systolic"]))
    noise = sf.methods.Noise(variables=["systolic"], variance_share=0.2)
    with pytest.raises(MeasureError, match="number of releases"):
        several(people, noise, sf.risk.HIndex(variables=["systolic"]), releases=[])
