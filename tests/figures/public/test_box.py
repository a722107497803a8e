"""Box plots: every line rests on k records, groups by themselves, ten million rows in seconds."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import DataError, PlanError, SchemaError
from sfumato.figures.public.box import compute_tukey_box, read_box_off_bins
from sfumato.outputs.output import OutputRefused

KEY = bytes(range(32))
NAMED = ("suppress", "generalise", "deterministic", "noise")


def cohort(n: int = 400) -> pl.DataFrame:
    chance = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "bmi": chance.normal(26, 4, n),
            "age": chance.integers(20, 80, n),
            "sex": chance.choice(["f", "m"], n),
        }
    )


def parts(made, part):
    return made.table.filter(pl.col("part") == part)["value"].to_list()


@pytest.mark.parametrize("protection", NAMED)
def test_the_middle_is_where_it_was(protection):
    frame = cohort()
    made = sf.plots.box(frame, "bmi", protection=protection, key=KEY)
    spread = float(frame["bmi"].to_numpy().std())
    for part, share in (("lower", 0.25), ("middle", 0.5), ("upper", 0.75)):
        assert parts(made, part) == pytest.approx([frame["bmi"].quantile(share)], abs=0.15 * spread)
    assert made.verdict == "pass"
    assert made.audience == "public"


def test_the_safe_box_ends_at_5_and_95_percent_and_has_no_outliers():
    frame = cohort(2000)
    made = sf.plots.box(frame, "bmi")
    assert made.rule["protection"] == "suppress"
    assert parts(made, "outlier") == []
    assert parts(made, "low") == pytest.approx([frame["bmi"].quantile(0.05)], abs=0.1)
    assert parts(made, "high") == pytest.approx([frame["bmi"].quantile(0.95)], abs=0.1)
    assert "5 and 95 %" in made.caption


def test_groups_are_protected_by_themselves():
    frame = cohort()
    whole = sf.plots.box(frame, "bmi", by="sex", protection="deterministic")
    for sex in ("f", "m"):
        alone = sf.plots.box(frame.filter(pl.col("sex") == sex), "bmi", protection="deterministic")
        shown = whole.table.filter(pl.col("group") == sex).drop("group")
        assert shown.equals(alone.table)


def test_small_groups_are_left_out_without_a_name_or_count():
    frame = cohort().with_columns(
        sex=pl.when(pl.int_range(pl.len()) < 15).then(pl.lit("rare")).otherwise("sex")
    )
    made = sf.plots.box(frame, "bmi", by="sex")
    assert set(made.table["group"]) == {"f", "m"}
    assert "Groups of few records are left out." in made.description
    assert "rare" not in made.description


def test_a_far_outlier_is_drawn_only_when_somebody_answers_for_it():
    frame = cohort()
    frame = frame.with_columns(
        bmi=pl.when(pl.int_range(pl.len()) == 0).then(400.0).otherwise("bmi")
    )
    for protection in ("deterministic", "noise"):
        made = sf.plots.box(frame, "bmi", protection=protection, key=KEY)
        assert max(made.table["value"]) < 200, protection
        shown = sf.plots.box(frame, "bmi", protection=protection, key=KEY, small="show")
        assert shown.verdict == "review"
        assert max(shown.table["value"]) > 100
    with pytest.raises(OutputRefused, match="never shown"):
        sf.plots.box(frame, "bmi", small="show")


@pytest.mark.parametrize("protection", NAMED)
def test_rows_in_any_order_and_any_library_give_the_same(protection):
    frame = cohort(120)
    first = sf.plots.box(frame, ["bmi", "age"], by="sex", protection=protection, key=KEY).table
    for other in (
        frame.sample(fraction=1.0, shuffle=True, seed=1),
        frame.to_pandas(),
        frame.to_arrow(),
    ):
        assert isinstance(other, (pl.DataFrame, pd.DataFrame, pa.Table))
        again = sf.plots.box(other, ["bmi", "age"], by="sex", protection=protection, key=KEY)
        assert again.table.equals(first)


def test_what_cannot_be_drawn_is_refused_with_what_would_be():
    with pytest.raises(OutputRefused, match="at least 17 are needed"):
        sf.plots.box(cohort(16), "bmi")
    with pytest.raises(OutputRefused, match="at least 10 records"):
        sf.plots.box(cohort(9), "bmi")
    with pytest.raises(SchemaError, match="did you mean 'bmi'"):
        sf.plots.box(cohort(), "bmj")
    with pytest.raises(DataError, match="'sex'"):
        sf.plots.box(cohort(), "sex")
    with pytest.raises(PlanError, match="not known"):
        sf.plots.box(cohort(), "bmi", protection="nois")  # type: ignore[arg-type]
    with pytest.raises(OutputRefused, match="does not vary"):
        sf.plots.box(pl.DataFrame({"x": [1.0] * 50}), "x")
    with pytest.raises(DataError, match="infinite"):
        sf.plots.box(pl.DataFrame({"x": [*map(float, range(50)), float("inf")]}), "x")


def test_missing_values_are_left_out_and_said():
    frame = cohort().with_columns(
        bmi=pl.when(pl.int_range(pl.len()) % 5 == 0).then(None).otherwise("bmi")
    )
    assert "a value is missing: about 20 %" in sf.plots.box(frame, "bmi").description


def test_limits_that_are_the_datas_own_extremes_ask_for_a_second_look():
    frame = cohort()
    ends = (float(frame["bmi"].min()), 60.0)  # type: ignore[arg-type]
    assert sf.plots.box(frame, "bmi", limits=ends).verdict == "review"
    assert sf.plots.box(frame, "bmi", limits=(0.0, 60.0)).verdict == "pass"


def test_the_picture_has_the_house_look(tmp_path):
    made = sf.plots.box(cohort(), ["bmi", "age"], by="sex", title="Odd <b> & $names$")
    text = made.save(tmp_path / "box.svg").read_text()
    assert "Odd &lt;b&gt; &amp; $names$" in text
    assert len(made.axes) == 2
    assert made.axes[0].get_xlabel() == "bmi"


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=12, max_size=80), st.integers(3, 5))
def test_boxes_from_bins_and_from_protected_values_rise(values, k):
    array = np.array(values)
    cuts = np.linspace(-1e6, 1e6, 6)
    try:
        made = read_box_off_bins(array, cuts, k)
    except OutputRefused:
        assert np.histogram(array, cuts)[0].max() < k
    else:
        assert made.low <= made.lower <= made.middle <= made.upper <= made.high
    if len(array) >= 3 * k + 2:
        box = compute_tukey_box(array, k)
        assert box.low <= box.lower <= box.middle <= box.upper <= box.high
        assert all(one < box.low or one > box.high for one in box.outliers)
        close = 0.5 * array.std() + 0.01 * (box.upper - box.lower)
        assert all((np.abs(array - one) <= close).sum() >= k for one in box.outliers)
        assert len(box.outliers) <= len(compute_tukey_box(array, k, lonely=True).outliers) + k


def test_ten_million_rows_take_seconds_and_bounded_memory():
    values = np.random.default_rng(1).normal(size=10_000_000)
    frame = pl.DataFrame({"x": values})
    sf.plots.box(cohort(), "bmi")  # imports are not what is measured
    tracemalloc.start()
    start = time.process_time()
    for protection in ("suppress", "generalise"):
        sf.plots.box(frame, "x", protection=protection)
    took = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 20
    assert peak < 350 * 2**20
