"""The h-index against its definition, attackers of every kind, odd data, and re-draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, SfumatoError
from sfumato.parameters import ParameterError
from sfumato.plan.targets import judge, read_targets
from sfumato.risk.attacks import redrawn
from sfumato.risk.attacks.adjustments import Noise
from sfumato.risk.h_index import HIndex


def dataset(values, **columns) -> sf.Dataset:
    table = np.asarray(values, float).reshape(len(values), -1)
    frame = pl.DataFrame({f"x{at}": column for at, column in enumerate(table.T)} | columns)
    return sf.Dataset(frame, sf.Schema(dict.fromkeys(frame.columns, "quasi")))


def normal(rows=300, share=0.1, seed=1, columns=3):
    random = np.random.default_rng(seed)
    original = random.normal(size=(rows, columns)) * [1, 10, 100, 5][:columns]
    original[:, 1] += original[:, 0]
    noise = random.normal(size=original.shape) * np.sqrt(share) * original.std(axis=0)
    return original, original + noise


def slowly(original, released):
    """Mean rank over the ties, and the share of ranks 0."""
    means, zeros = [], []
    for target in original:
        near = ((released - target) ** 2).sum(axis=1)
        truth = ((original - target) ** 2).sum(axis=1)
        h = [(truth < truth[one]).sum() for one in np.flatnonzero(near == near.min())]
        means.append(np.mean(h))
        zeros.append(np.mean(np.array(h) == 0))
    return np.array(means), np.array(zeros)


@given(st.integers(2, 80), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_by_definition_with_ties(rows, columns, seed):
    random = np.random.default_rng(seed)
    original = random.integers(0, 5, (rows, columns)).astype(float)
    original[:2] = [[0] * columns, [4] * columns]  # every variable varies
    released = original + random.integers(-1, 2, original.shape)
    found = HIndex(standardise=False, p=2).measure(dataset(original), dataset(released))
    means, zeros = slowly(original, released)
    assert found.records["h"].to_numpy() == pytest.approx(means, rel=1e-12)
    assert found.details["mean_h"] == pytest.approx(means.mean(), rel=1e-12)
    assert found.details["pr_h_0"] == pytest.approx(zeros.mean(), rel=1e-12)
    assert found.value >= found.details["pr_h_0"] - 1e-12


@pytest.mark.parametrize(
    "how", [{}, {"distance": "mahalanobis"}, {"noise": "reliability"}, {"noise": "matrix"}]
)
def test_rows_in_another_order_give_the_same_bits(how):
    original, released = (np.round(side, 1) for side in normal())
    order = np.random.default_rng(3).permutation(len(original))
    one = HIndex(**how).measure(dataset(original), dataset(released))
    other = HIndex(**how).measure(dataset(original[order]), dataset(released[order]))
    assert other.plain() == one.plain()
    assert other.records.equals(one.records[order])


def test_standardised_distances_do_not_depend_on_units():
    original, released = normal()
    units = np.array([1000.0, 0.001, 1 / 3])
    one = HIndex().measure(dataset(original), dataset(released))
    other = HIndex().measure(dataset(original * units + 7), dataset(released * units + 7))
    assert other.records["h"].to_list() == one.records["h"].to_list()
    raw = HIndex(standardise=False).measure(dataset(original), dataset(released))
    assert raw.records["h"].to_list() != one.records["h"].to_list()


def test_mahalanobis_does_not_depend_on_any_linear_change():
    original, released = normal()
    mixed = np.array([[2.0, 0.3, 0], [0, 1, -0.4], [0.1, 0, 0.01]])
    measure = HIndex(distance="mahalanobis")
    one = measure.measure(dataset(original), dataset(released))
    other = measure.measure(dataset(original @ mixed), dataset(released @ mixed))
    assert other.records["h"].to_list() == one.records["h"].to_list()
    inverse = np.linalg.inv(np.cov(original.T))
    gap = released[None] - original[:, None]
    near = np.einsum("ijk,kl,ijl->ij", gap, inverse, gap).argmin(axis=1)
    truth = original[None] - original[:, None]
    apart = np.einsum("ijk,kl,ijl->ij", truth, inverse, truth)
    h = (apart < apart[np.arange(300), near][:, None]).sum(axis=1)
    assert one.records["h"].to_list() == h.tolist()


def test_eq_3_per_variable_and_by_the_matrix():
    original, released = normal(share=0.5)
    centre = released.mean(axis=0)
    reliable = original.var(axis=0) / released.var(axis=0)
    weights = np.linalg.solve(np.cov(released.T), np.cov(original.T))
    cases: list[tuple[Noise, Any]] = [
        ("reliability", centre + reliable * (released - centre)),
        ("matrix", centre + (released - centre) @ weights),
    ]
    for noise, values in cases:
        one = HIndex(noise=noise).measure(dataset(original), dataset(released))
        other = HIndex().measure(dataset(original), dataset(values))
        assert one.records["h"].to_list() == other.records["h"].to_list()


def test_published_noise_is_nearly_as_good_as_the_truth():
    original, released = normal(rows=2000, share=0.5)
    noise = {f"x{at}": 0.5 * original[:, at].var() for at in range(3)}
    told = HIndex(noise="matrix", noise_variances=noise)
    truth = HIndex(noise="matrix")
    pair = dataset(original), dataset(released)
    assert told.measure(*pair).value == pytest.approx(truth.measure(*pair).value, abs=0.02)
    with pytest.raises(MeasureError, match="vary more than the release does: 'x0'"):
        HIndex(noise="matrix", noise_variances={"x0": 1e6}).measure(*pair)
    with pytest.raises(MeasureError, match="not compared: 'y'"):
        HIndex(noise="matrix", noise_variances={"y": 1.0}).measure(*pair)


def test_targets_at_quantiles_are_those_records():
    original, released = normal()
    pair = dataset(original), dataset(released)
    every = HIndex(variables=["x0", "x1"]).measure(*pair).records["h"].to_numpy()
    z = (original - original.mean(axis=0)) / original.std(axis=0, ddof=1)
    orders = {
        "sum": z[:, 0] + z[:, 1],
        "distance": z[:, 0] ** 2 + z[:, 1] ** 2,
        "x1": original[:, 1],
    }
    for by, values in orders.items():
        found = HIndex(variables=["x0", "x1"], at=[0.1, 0.5, 1.0], by=by).measure(*pair)
        at = np.argsort(values)[[29, 149, 299]]
        assert found.records["h"].is_not_null().sum() == 3
        assert found.records["h"].to_numpy()[at].tolist() == every[at].tolist()
        assert found.table["mean_h"].to_list()[1:] == every[at].tolist()
        assert found.table["from_quantile"].to_list() == [0.0, 0.1, 0.5, 1.0]
        assert math.isnan(found.details["h_index_tail"])


def test_the_table_by_tenths_adds_up():
    original, released = normal()
    found = HIndex().measure(dataset(original), dataset(released))
    every, parts = found.table.row(0, named=True), found.table[1:]
    assert parts["targets"].to_list() == [30] * 10
    for column in ("mean_h", "pr_h_0", "h_index", "up_to_10"):
        assert parts[column].mean() == pytest.approx(every[column], rel=1e-12)
    assert found.details["h_index_worst_group"] == parts["h_index"].max()
    assert found.details["mean_h_worst_group"] == parts["mean_h"].min()
    assert found.table["up_to_2"].to_list() == found.table["h_index"].to_list()


def test_the_distribution_is_that_of_the_table():
    original, released = normal()
    pair = dataset(original), dataset(released)
    told = HIndex(at=[0.5, 0.9]).distribution(*pair, most=5)
    assert told.height == 3 * 6
    every = HIndex().distribution(*pair, most=400).filter(pl.col("to_quantile") == 0.1)
    assert every["share"].sum() == pytest.approx(1)
    assert every["cumulative"].to_list() == sorted(every["cumulative"])
    with pytest.raises(ParameterError, match="below the cap"):
        HIndex(cap=5).distribution(*pair, most=5)


def test_a_cap_gives_the_same_shares_and_no_mean():
    original, released = normal()
    pair = dataset(original), dataset(released)
    one, capped = HIndex().measure(*pair), HIndex(cap=3).measure(*pair)
    assert capped.value == one.value
    assert capped.details["pr_h_0"] == one.details["pr_h_0"]
    assert math.isnan(capped.details["mean_h"])
    assert "cap" in capped.details["mean_h_reason"]
    assert "up_to_2" in capped.table.columns
    assert "up_to_3" not in capped.table.columns


def test_unprotected_data_are_all_found():
    original, _ = normal()
    found = HIndex().measure(dataset(original), dataset(original))
    assert (found.value, found.details["mean_h"], found.details["pr_h_0"]) == (1.0, 0.0, 1.0)
    assert found.baseline == 3 / 300


@pytest.mark.parametrize(("factor", "shift"), [(1, 1000), (100, 0), (0.01, -3), (-1, 0)])
def test_another_unit_hides_nobody(factor, shift):
    original, _ = normal()
    found = HIndex().measure(dataset(original), dataset(original * factor + shift))
    assert found.value < 0.2
    assert found.details["h_index_rescaled"] == 1.0
    assert any("hides nobody" in one for one in found.warnings)
    targets = {
        "h_index.max": 0.9, "pr_h_0.max": 0.9, "h_index_worst_group.max": 0.9,
        "h_index_tail.max": 0.9, "mean_h.min": 1, "mean_h_worst_group.min": 1,
    }  # fmt: skip
    judged = judge(read_targets(targets), {"h_index": HIndex()}, {"h_index": found})
    assert not any(one.met for one in judged)


def test_a_target_on_a_mean_that_is_not_known_is_missed_with_the_reason():
    found = HIndex(cap=5).measure(*map(dataset, normal()))
    (judged,) = judge(
        read_targets({"mean_h.min": 1}), {"h_index": HIndex(cap=5)}, {"h_index": found}
    )
    assert not judged.met
    assert "cap" in judged.reason


def test_one_missing_value_leaves_one_record_out_and_says_so():
    original, released = normal()
    holed = original.copy()
    holed[7, 1] = np.nan
    found = HIndex().measure(dataset(holed), dataset(released))
    rest = HIndex().measure(
        dataset(np.delete(original, 7, axis=0)), dataset(np.delete(released, 7, axis=0))
    )
    assert found.value == rest.value
    assert found.records["h"].null_count() == 1
    assert found.records["h"][7] is None
    assert any("1 records lack a value" in one for one in found.warnings)


def test_a_variable_with_one_value_is_left_out_and_said():
    original, released = normal()
    pair = dataset(original, same=np.ones(300)), dataset(released, same=np.arange(300.0))
    found = HIndex().measure(*pair)
    assert found.value == HIndex().measure(dataset(original), dataset(released)).value
    assert any("one value only: 'same'" in one for one in found.warnings)
    with pytest.raises(MeasureError, match="one value only"):
        HIndex(variables=["same"]).measure(*pair)


def test_a_release_of_one_value_is_a_pick_by_chance():
    original, _ = normal()
    found = HIndex().measure(dataset(original), dataset(np.zeros_like(original)))
    assert found.value == pytest.approx(found.baseline)
    assert found.details["mean_h"] == pytest.approx(149.5)
    assert found.details["targets_with_ties"] == 300


def test_default_variables_are_quasi_numbers_or_sensitive_ones():
    original, released = normal()
    names: dict[str, Any] = {"x0": "quasi", "x1": "sensitive", "x2": "other"}
    pair = [sf.Dataset(dataset(side).frame, sf.Schema(names)) for side in (original, released)]
    assert HIndex().measure(*pair).details["variables"] == ("x0",)
    names["x0"] = "other"
    pair = [one.with_schema(sf.Schema(names)) for one in pair]
    assert HIndex().measure(*pair).details["variables"] == ("x1",)
    pair = [one.with_schema({"x1": "other"}) for one in pair]
    with pytest.raises(MeasureError, match="no number has the role"):
        HIndex().measure(*pair)


def test_ranges_and_text_are_refused_by_name_only():
    original, released = normal()
    text = dataset(released).frame.with_columns(pl.lit("20-39").alias("x1"))
    ranges = sf.Dataset(text, dataset(released).schema.changed(["x1"], kind="text"))
    with pytest.raises(MeasureError, match="'x1'") as error:
        HIndex(variables=["x0", "x1"]).measure(dataset(original), ranges)
    assert "20-39" not in str(error.value)
    found = HIndex().measure(dataset(original), ranges)
    assert found.details["variables"] == ("x0", "x2")
    assert any("no longer holds numbers there: 'x1'" in one for one in found.warnings)
    # An attacker reads the ranges too: what was measured is no promise.
    for wanted in ({"h_index.max": 1}, {"mean_h.min": 0}):
        (judged,) = judge(read_targets(wanted), {"h_index": HIndex()}, {"h_index": found})
        assert not judged.met
        assert "shows 'x1', but not as numbers" in judged.reason
    some = HIndex(variables=["x0", "x2"])
    named = some.measure(dataset(original), ranges)
    assert judge(read_targets({"h_index.max": 1}), {"h_index": some}, {"h_index": named})[0].met


@pytest.mark.parametrize(
    ("original", "released", "said"),
    [
        ([[1.0], [2.0]], [[1.0]], "belong together"),
        ([[np.nan], [np.nan]], [[1.0], [2.0]], "No record has a value"),
        ([[np.inf], [2.0]], [[1.0], [2.0]], "infinite"),
        ([[5.0]], [[5.0]], "one value only"),
        ([[1.0], [2.0]], [[1e200], [2.0]], "overflow"),
    ],
)
def test_odd_data_are_refused(original, released, said):
    with pytest.raises(SfumatoError, match=said):
        HIndex().measure(dataset(original), dataset(released))


def test_variables_that_follow_from_each_other_are_refused():
    original, _ = normal()
    original[:, 2] = original[:, 0] * 2 + original[:, 1]
    with pytest.raises(MeasureError, match="follow from each other"):
        HIndex(distance="mahalanobis").measure(dataset(original), dataset(original))


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"cap": 2, "p": 3}, "at least p"),
        ({"noise_variances": {"x0": 1.0}}, "needs noise"),
        ({"at": []}, "some quantiles"),
        ({"at": [0.1, 0.1]}, "each once"),
        ({"at": [1.1]}, "at"),
        ({"p": 0}, "p"),
        ({"noise": "known"}, "noise"),
    ],
)
def test_parameters_are_checked(given_, said):
    with pytest.raises(ParameterError, match=said):
        HIndex(**given_)


def test_orders_are_named():
    original, released = normal()
    with pytest.raises(MeasureError, match="'x9' is none of these"):
        HIndex(by="x9").measure(dataset(original), dataset(released))
    frames = [dataset(side).frame.rename({"x0": "sum"}) for side in (original, released)]
    schema = sf.Schema(dict.fromkeys(["sum", "x1", "x2"], "quasi"))
    with pytest.raises(MeasureError, match="a variable too"):
        HIndex().measure(*(sf.Dataset(frame, schema) for frame in frames))


def test_skewed_data_leave_the_tail_exposed_and_it_is_said():
    random = np.random.default_rng(5)
    original = np.exp(random.normal(size=(600, 2)))
    released = original + random.normal(size=original.shape) * np.sqrt(0.17) * original.std(axis=0)
    found = HIndex().measure(dataset(original), dataset(released))
    assert found.details["h_index_tail"] > 3 * found.value
    assert any("farthest from the centre" in one for one in found.warnings)


def test_redrawing_gives_means_with_errors():
    original, _ = normal()
    data = dataset(original)
    noise = sf.methods.Noise(variables=["x0", "x1", "x2"], variance_share=0.1)
    measure = HIndex(at=[0.1, 0.5])
    few, more = (redrawn(data, noise, measure, draws=n, key=bytes(32)) for n in (10, 40))
    again = redrawn(
        data, sf.Plan(schema=data.schema, steps=[noise]), measure, draws=10, key=bytes(32)
    )
    assert again.numbers.equals(few.numbers)
    assert again.table.equals(few.table)
    mean, error = few.number("mean_h")
    assert abs(mean - more.number("mean_h")[0]) < 4 * (error + more.number("mean_h")[1])
    assert more.number("mean_h")[1] < error
    assert few.table["from_quantile"].to_list() == [0.0, 0.1, 0.5]
    assert "h_index_error" in few.table.columns
    with pytest.raises(MeasureError, match="not measured"):
        few.number("nonsense")


def test_redrawing_needs_chance_and_draws():
    data = dataset(normal()[0])
    with pytest.raises(MeasureError, match="drawn by chance"):
        redrawn(data, sf.methods.Drop(variables=["x0"]), HIndex(variables=["x1"]))
    noise = sf.methods.Noise(variables=["x0"], variance_share=0.1)
    with pytest.raises(MeasureError, match="two draws"):
        redrawn(data, noise, HIndex(), draws=1)


def test_the_best_attacker_is_named_and_the_plain_one_where_none_is_better():
    random = np.random.default_rng(5)
    original = random.normal(size=(200, 2))
    # One variable is nearly exact, so that who weighs by the noise finds everybody.
    released = original + random.normal(size=original.shape) * [1e-4, 3.0]
    found = HIndex().measure(dataset(original), dataset(released)).details
    assert found["best_attacker"] == "weighs by the noise"
    assert found["h_index_by_noise"] > 0.9
    same = HIndex().measure(dataset(original), dataset(original))
    assert same.value == same.details["h_index_by_noise"] == 1
    assert same.details["best_attacker"] == "plain distance"
