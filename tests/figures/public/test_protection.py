"""Which protections are allowed, what they refuse, and what they make of the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import DataError, MethodError, PlanError, SchemaError
from sfumato.figures.public.protected_values import protect_values
from sfumato.figures.public.protection import Protection, resolve_protection
from sfumato.figures.public.subjects import select_subjects
from sfumato.figures.sheet.text import format_records, format_rough_share
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules

RULES = Rules()
KEY = bytes(range(32))


def frame(records: int = 200, seed: int = 1) -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    x = chance.normal(10, 2, records)
    return pl.DataFrame({"x": x, "y": x + chance.normal(size=records)})


def resolved(protection: Any, *, records: int = 200, k: int = 3, **more: Any) -> Protection:
    options: dict[str, Any] = {"sd_share": 0.25, "key": KEY, "rules": RULES, **more}
    return resolve_protection(
        protection, default="suppress", why="Why.", records=records, k=k, **options
    )


def test_what_is_asked_for_and_what_is_chosen() -> None:
    assert resolved(None).name == "suppress"
    assert resolved(None).reason == "Why."
    assert resolved("generalise").reason == ""
    assert resolved("noise").rule() == {"protection": "noise", "k": 3, "sd_share": 0.25}
    assert resolved("suppress").cells
    assert not resolved("deterministic").cells


def test_no_key_no_pass() -> None:
    assert resolved("noise").concerns == ()
    assert "averaged" in resolved("noise", key=None).concerns[0]
    by_hand = resolved(sf.methods.Deterministic(variables=["x"]))
    assert "by hand" in by_hand.concerns[0]
    assert "key" not in by_hand.rule()


@pytest.mark.parametrize(("k", "records"), [(2, 200), (198, 200), (0, 200), (5, 7)])
def test_k_out_of_range_is_refused(k: int, records: int) -> None:
    with pytest.raises(OutputRefused, match="out of the range") as refused:
        resolved("suppress", k=k, records=records)
    assert "197" not in refused.value.hint  # the exact number of records stays inside


def test_other_refusals() -> None:
    with pytest.raises(OutputRefused, match="noise is less"):
        resolved("noise", sd_share=0.1)
    with pytest.raises(OutputRefused, match="noise is less"):
        resolved("noise", sd_share=float("nan"))
    with pytest.raises(PlanError) as unknown:
        resolved("deterministc")
    assert "deterministic" in unknown.value.hint
    with pytest.raises(PlanError, match="whole number"):
        resolved("suppress", k=True)


@given(st.integers(0, 10_000), st.sampled_from(["deterministic", "noise"]))
@settings(max_examples=20)
def test_points_do_not_depend_on_the_order_of_records(seed: int, name: str) -> None:
    data = frame(40, seed)
    way = resolved(name, records=40)
    one = protect_values(sf.Dataset(data), ["x", "y"], way)
    two = protect_values(
        sf.Dataset(data.sample(fraction=1, shuffle=True, seed=seed)), ["x", "y"], way
    )
    assert one.values.equals(two.values)
    assert (one.coinciding == two.coinciding).all()


def test_points_are_sorted_and_nobodys() -> None:
    data = frame()
    for name in ("deterministic", "noise"):
        made = protect_values(sf.Dataset(data), ["x", "y"], resolved(name))
        assert made.values.equals(made.values.sort(["x", "y"]))
        assert not np.isin(made.column("x"), data["x"].to_numpy()).any()
        assert made.left_out == 0


def test_coinciding_centroids_are_known() -> None:
    # Three records far from all others are each other's neighbours: one centre for all three.
    near = pl.DataFrame({"x": [1.0, 1.1, 1.2], "y": [1.0, 1.1, 1.2]})
    made = protect_values(
        sf.Dataset(pl.concat([frame() + 50, near])), ["x", "y"], resolved("deterministic")
    )
    lowest = made.values["x"] == made.values["x"].min()
    assert made.coinciding[lowest.to_numpy()].sum() == 3


def test_declared_domain_is_kept_and_said() -> None:
    chance = np.random.default_rng(4)
    data = pl.DataFrame({"share": chance.beta(0.5, 0.5, 300)})
    told = sf.Schema({"share": sf.Column(kind="continuous", domain=(0.0, 1.0))})
    made = protect_values(sf.Dataset(data, told), ["share"], resolved("noise"))
    assert made.outside > 0
    assert 0 <= made.column("share").min() < made.column("share").max() <= 1
    assert "mirrored" in made.notes()[0]
    plain = protect_values(sf.Dataset(data), ["share"], resolved("noise"))
    assert plain.column("share").min() >= 0, "nobody had less than nothing"
    assert plain.column("share").max() > 1
    centred = protect_values(sf.Dataset(data - 0.5), ["share"], resolved("noise"))
    assert centred.outside == 0


def test_a_method_must_protect_what_is_drawn() -> None:
    data = sf.Dataset(frame())
    with pytest.raises(MethodError, match="'y'"):
        protect_values(data, ["x", "y"], resolved(sf.methods.Deterministic(variables=["x"])))
    text = sf.methods.Coarsen(variables=["x"], intervals=4, edges="observed")
    with pytest.raises(MethodError, match="no numbers"):
        protect_values(data, ["x"], resolved(text))


def test_values_a_method_leaves_as_they_are_stay_out() -> None:
    """Top-coding changes the tail only; everybody else would be drawn as is."""
    data = frame()
    high = float(data["x"].quantile(0.9) or 0)
    way = resolved(sf.methods.Topcode(variables=["x"], top=high))
    made = protect_values(sf.Dataset(data), ["x"], way)
    assert made.column("x").tolist() == [round(high, 2)] * 20
    assert made.left_out == pytest.approx(0.9)
    assert "left as they were" in made.notes()[0]


def test_whole_numbers_get_noise_that_is_not_rounded_back() -> None:
    data = pl.DataFrame({"age": np.random.default_rng(2).integers(20, 60, 300)})
    made = protect_values(sf.Dataset(data), ["age"], resolved("noise"))
    # Shown to two digits after the point, where one in a hundred is whole by chance.
    assert (made.column("age") != np.round(made.column("age"))).mean() > 0.95


def test_subjects_name_what_is_wrong_and_no_value() -> None:
    data = frame().with_columns(text=pl.lit("secret"), day=pl.lit("2020-01-01").str.to_date())
    with pytest.raises(SchemaError, match="'z'"):
        select_subjects(data, ["z"], rules=RULES)
    for name in ("text", "day"):
        with pytest.raises(DataError, match=f"'{name}'") as wrong:
            select_subjects(data, [name], rules=RULES)
        assert "secret" not in str(wrong.value)
    odd = data.with_columns(x=pl.when(pl.col("x") > 12).then(float("inf")).otherwise(pl.col("x")))
    with pytest.raises(DataError, match="infinite"):
        select_subjects(odd, ["x"], rules=RULES)
    with pytest.raises(OutputRefused, match="does not vary"):
        select_subjects(data.with_columns(x=pl.lit(3.0)), ["x"], rules=RULES)


@pytest.mark.parametrize("records", [0, 1, 9])
def test_few_records_are_refused(records: int) -> None:
    with pytest.raises(OutputRefused, match="Fewer than 10"):
        select_subjects(frame(records), ["x", "y"], rules=RULES)


def test_missing_values_are_left_out_and_said() -> None:
    data = frame().with_columns(x=pl.when(pl.col("x") > 12).then(None).otherwise(pl.col("x")))
    found = select_subjects(data, ["x", "y"], rules=RULES)
    assert found.records == data["x"].count()
    assert "missing: about 9 %" in found.notes[0]
    everything = data.with_columns(x=pl.lit(None, dtype=pl.Float64))
    with pytest.raises(OutputRefused, match="Fewer than 10"):
        select_subjects(everything, ["x"], rules=RULES)


def test_small_groups_and_groups_of_one_value_are_left_out_without_a_name() -> None:
    labels = ["few"] * 5 + ["same"] * 45 + ["large"] * 150
    data = frame().with_columns(group=pl.Series(labels))
    data = data.with_columns(x=pl.when(pl.col("group") == "same").then(7.0).otherwise(pl.col("x")))
    found = select_subjects(data, ["x"], "group", rules=RULES)
    assert [one.label for one in found.groups] == ["large"]
    assert "few" not in found.notes[0].replace("few records", "")
    many = data.with_columns(group=pl.Series([f"{at // 10}" for at in range(200)]))
    with pytest.raises(DataError, match="more groups"):
        select_subjects(many, ["x"], "group", rules=RULES)
    with pytest.raises(OutputRefused, match="No group"):
        select_subjects(many, ["x"], "group", rules=RULES, k=9)


@given(st.floats(0, 1), st.integers(10, 10_000), st.integers(3, 20))
def test_shares_never_stand_for_fewer_than_k(share: float, records: int, k: int) -> None:
    said = format_rough_share(share, records=records, k=k)
    number = float(said.split()[-2])
    assert number / 100 * records >= k or number == 100


@given(st.integers(10, 10**7))
def test_numbers_of_records_are_rounded_down(records: int) -> None:
    told = int(format_records(records).split()[2].replace(",", ""))
    assert told <= records
    assert told % 5 == 0
