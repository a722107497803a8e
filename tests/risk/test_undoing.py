"""Working back from centres of neighbours: how far one gets, and that it is said."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, PlanError
from sfumato.kernels.trees.neighbours import centroids
from sfumato.release import align_original
from sfumato.risk.attacks.reconstruction import reconstruct
from sfumato.run.measuring import choose_measures


def numbers(values: np.ndarray) -> sf.Dataset:
    names = [f"x{at}" for at in range(values.shape[1])]
    frame = pl.DataFrame({name: values[:, at] for at, name in enumerate(names)})
    return sf.Dataset(frame, sf.Schema(dict.fromkeys(names, "quasi")))


def attacked(data, k, **more):
    names = [name for name in data.columns if data.schema[name].kind == "continuous"]
    method = sf.methods.Deterministic(variables=names, k=k, pairs=k == 2, **more)
    one = sf.risk.Undoing(variables=names, k=k, **more)
    return one.measure(data, method.apply(data))


@pytest.mark.parametrize("shape", ["normal", "lognormal"])
def test_one_variable_is_taken_back_to_a_large_part(shape):
    values = getattr(np.random.default_rng(1), shape)(size=(1000, 1))
    found = attacked(numbers(values), 3)
    assert found.details["undoing_error_left"] < 0.7
    assert found.baseline == found.details["released_as_it_is"]
    assert found.value > found.details["released_as_it_is"]
    assert found.value > found.details["centre_itself"] - 0.03
    assert found.details["undoing_correlation"] > 0.98
    assert "can be taken back" in " ".join(found.warnings)


def test_many_variables_together_resist_better():
    rng = np.random.default_rng(2)
    few, many = (attacked(numbers(rng.normal(size=(600, p))), 5) for p in (1, 5))
    assert many.value < 0.2
    assert few.value > 0.9
    assert many.details["undoing_error"] > 5 * few.details["undoing_error"]


def test_a_larger_k_hides_less_than_it_moves():
    """What the attacker is left with grows far slower than the displacement."""
    values = np.random.default_rng(3).normal(size=(800, 2))
    small, large = (attacked(numbers(values), k) for k in (3, 10))
    assert large.details["plain_error"] > 1.5 * small.details["plain_error"]
    assert large.details["undoing_error_left"] < small.details["undoing_error_left"]


def test_a_little_noise_afterwards_stops_it():
    data = numbers(np.random.default_rng(8).lognormal(size=(800, 1)))
    blurred = sf.methods.Deterministic(variables=["x0"], k=3).apply(data)
    noise = sf.methods.Noise(variables=["x0"], variance_share=0.01)
    one = sf.risk.Undoing(variables=["x0"], k=3)
    bare, noised = (
        one.measure(data, made) for made in (blurred, noise.apply(blurred, key=bytes(32)))
    )
    assert bare.value > 0.9
    assert noised.value < 0.2


def test_the_truth_is_an_answer_that_fits():
    """Started from the release, the misfit only falls; the truth itself has none."""
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(200, 2))
    means, spreads = truth.mean(axis=0), truth.std(axis=0, ddof=1)
    starts = np.array([0, 200])

    def centred(values: np.ndarray) -> np.ndarray:
        return centroids(values, 1 / spreads, starts, 4)

    centres = centred(truth)
    release = means + (centres - means) * spreads / centres.std(axis=0, ddof=1)
    found = reconstruct(release, means, spreads, centred, rounds=20)
    assert found.misfit < 0.6 * found.before
    again = reconstruct(release, means, spreads, lambda _: centred(truth), rounds=1)
    assert again.misfit < 1e-9


def test_strata_and_mahalanobis_are_followed():
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 400),
            "x0": rng.normal(size=400),
            "x1": rng.lognormal(size=400),
        }
    )
    data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "x0": "quasi", "x1": "quasi"}))
    right = attacked(data, 3, strata=["sex"])
    wrong = sf.risk.Undoing(variables=["x0", "x1"], k=3).measure(
        data, sf.methods.Deterministic(variables=["x0", "x1"], k=3, strata=["sex"]).apply(data)
    )
    assert right.details["misfit"] < wrong.details["misfit"]
    assert attacked(data, 3, distance="mahalanobis").details["undoing_error_left"] < 0.95


@settings(max_examples=20)
@given(
    st.lists(st.floats(-100, 100).map(lambda x: round(x, 2)), min_size=6, max_size=30), st.data()
)
def test_order_of_rows_is_no_matter(values, draw):
    table = np.array(values)[:, None]
    if table.std() < 1e-6:
        return
    data = numbers(table)
    try:
        released = sf.methods.Deterministic(variables=["x0"], k=3).apply(data)
    except sf.SfumatoError:
        return
    order = draw.draw(st.permutations(range(len(values))))
    one = sf.risk.Undoing(variables=["x0"], k=3, rounds=5)
    found = one.measure(data, released)
    again = one.measure(data.take(np.array(order)), released.take(np.array(order)))
    assert found.plain() == again.plain()
    assert again.records.equals(found.records[order])
    assert found.details["misfit"] <= found.details["misfit_of_release"]


def test_missing_values_and_small_strata_are_told():
    rng = np.random.default_rng(6)
    x = [None, *rng.normal(size=40).tolist()]
    frame = pl.DataFrame({"x": x, "group": ["a"] * 39 + ["b"] * 2})
    data = sf.Dataset(frame, sf.Schema({"x": "quasi", "group": "quasi"}))
    method = sf.methods.Deterministic(
        variables=["x"], strata=["group"], k=3, missing="median", small="suppress"
    )
    released = method.apply(data)
    one = sf.risk.Undoing(variables=["x"], strata=["group"], k=3)
    found = one.measure(align_original(data, released), released)
    assert any("lack a value" in line for line in found.warnings)
    assert found.records["worked_out"].null_count() == 1
    whole = one.measure(data, data)
    assert any("too small" in line for line in whole.warnings)


def test_an_unprotected_release_is_recovered_as_it_is():
    data = numbers(np.random.default_rng(7).normal(size=(100, 2)))
    found = sf.risk.Undoing(variables=["x0", "x1"], k=3).measure(data, data)
    assert found.baseline == 1.0
    assert found.details["undoing_error_left"] == 1.0


def test_values_that_were_never_blurred_are_read_without_work():
    # A target such as undoing.max = 0.2 must not be met by data that nobody has protected.
    data = numbers(np.random.default_rng(5).normal(size=(300, 2)))
    found = sf.risk.Undoing(variables=["x0", "x1"], k=3).measure(data, data)
    assert found.baseline == 1
    assert found.value == 1
    assert found.details["worked_out"] < 0.5
    assert found.details["undoing_error"] == 0


def test_what_cannot_be_undone_says_so():
    data = numbers(np.ones((10, 1)))
    with pytest.raises(MeasureError, match="vary"):
        sf.risk.Undoing(variables=["x0"], k=3).measure(data, data)
    few = numbers(np.arange(2.0)[:, None])
    with pytest.raises(MeasureError, match="no stratum"):
        sf.risk.Undoing(variables=["x0"], k=3).measure(few, few)
    with pytest.raises(PlanError, match="'k' parameter"):
        sf.risk.Undoing(variables=["x0"])
    with pytest.raises(PlanError, match="among the variables"):
        sf.risk.Undoing(variables=["x0"], strata=["x0"], k=3)


def test_it_is_not_run_unless_asked_for():
    # Both must be told what was done: on another release they would mean nothing.
    by_default = set(choose_measures(None))
    assert not {"undoing", "averaging"} & by_default
    assert {"singling_out", "mixed_linkage", "attribute_inference"} <= by_default


def test_exam_scores_and_passengers(shared_data):
    """Data of the papers: the blur is taken back in part on both, at every k."""
    exam = pl.read_csv(shared_data / "exam.csv").select("normexam", "standLRT").cast(pl.Float64)
    data = sf.Dataset(exam, sf.Schema(dict.fromkeys(exam.columns, "quasi")))
    for k, left in ((3, 0.676), (10, 0.471)):
        assert attacked(data, k).details["undoing_error_left"] == pytest.approx(left, abs=0.003)
    raw = pl.read_csv(shared_data / "titanic.csv")
    family = ((pl.col("SibSp") + pl.col("Parch")) > 0).cast(pl.String)
    frame = raw.select("Sex", pl.col("Pclass").cast(pl.String), family.alias("Family"))
    frame = frame.with_columns(raw["Age"].fill_null(28.0), raw["Fare"].cast(pl.Float64))
    people = sf.Dataset(frame, sf.Schema(dict.fromkeys(frame.columns, "quasi")))
    found = attacked(people, 3, strata=["Pclass", "Sex", "Family"])
    assert found.details["undoing_error_left"] == pytest.approx(0.377, abs=0.003)
    assert found.value > 2 * found.details["released_as_it_is"]


def test_the_table_counts_each_variable_in_its_own_deviations():
    values = np.random.default_rng(8).normal(size=(200, 2)) * [3.0, 0.5]
    data = numbers(values)
    blurred = sf.methods.Deterministic(variables=["x0", "x1"], k=3).apply(data)
    found = sf.risk.Undoing(variables=["x0", "x1"], k=3, tolerance=0.2).measure(data, blurred)
    moved = np.abs(np.column_stack([blurred.frame[name] for name in ("x0", "x1")]) - values)
    near = (moved <= 0.2 * values.std(axis=0, ddof=1)).mean(axis=0)
    assert 0.02 < near.min() < near.max() < 0.98
    assert found.table["released_as_it_is"].to_list() == near.tolist()
    for label, of_all in {
        "undoing": "worked_out",
        "released_as_it_is": "released_as_it_is",
    }.items():
        assert found.table[label].mean() == pytest.approx(found.details[of_all], rel=1e-12)
    shares = found.table.select(pl.max_horizontal("undoing", "released_as_it_is")).to_series()
    assert found.details["undoing_at_worst"] == shares.max()
    assert found.details["worst_variable"] == f"x{shares.arg_max()}"
