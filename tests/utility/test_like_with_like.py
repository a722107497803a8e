"""Every release is scored on the same variables, however coarse its cells are."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.methods import KAnonymity
from sfumato.pairs.draws import align_variables

KINDS = [f"level {number:02d}" for number in range(12)]


def people(records, seed=0):
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 90, records)
    status = np.minimum(draw.poisson(4, records) + age // 30, 11)
    income = np.round(draw.lognormal(7 + age / 100, 0.5))
    frame = pl.DataFrame(
        {
            "age": age,
            "status": [KINDS[code] for code in status],
            "income": income,
            "area": [f"{draw.integers(10, 14)}{draw.integers(0, 100):02d}" for _ in range(records)],
        }
    )
    schema = sf.Schema(
        {
            "age": sf.Column(role="quasi", kind="integer"),
            "status": sf.Column(role="quasi", kind="nominal"),
            "income": sf.Column(role="quasi", kind="continuous"),
            "area": sf.Column(role="quasi", kind="text"),
        }
    )
    return sf.Dataset(frame, schema)


def draw(original, release, names):
    """Both sides of each variable, once."""
    aligned = align_variables(original, release, names)
    assert not any(isinstance(sides, str) for sides in aligned.values())
    return {name: sides[0] for name, sides in aligned.items() if not isinstance(sides, str)}


def released(data, **parameters):
    return KAnonymity(**parameters).apply(data)


@pytest.fixture(scope="module")
def data():
    return people(1200)


def test_sets_of_more_than_fifty_kinds_are_compared(data):
    """What was found: a variable was left out once its cells had more than 50 kinds."""
    names = ["age", "status", "income"]
    coarse = released(data, k=6, variables=names)
    kinds = pl.Series(coarse.frame["status"]).n_unique()
    assert kinds > 50
    found = sf.utility.Propensity().measure(data, coarse)
    assert set(names) <= set(found.details["variables"])
    # Not by luck of one release: the finer one is the nearer one.
    fine = sf.utility.Propensity().measure(data, released(data, k=3, variables=names))
    assert fine.value < found.value


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60), st.sampled_from(["range", "mode", "middle"]))
def test_no_measure_compares_less_of_a_coarser_release(seed, k, output):
    data = people(120, seed)
    outputs = output if output != "middle" else {"age": "middle", "income": "middle"}
    coarse = released(data, k=k, output=outputs)
    for measure in (sf.utility.Propensity(), sf.utility.Moments(), sf.utility.Marginals()):
        before, after = (measure.measure(data, side) for side in (data, coarse))
        assert after.details["variables"] == before.details["variables"], measure.name
        assert after.details.get("not_compared") == before.details.get("not_compared")
        assert after.value >= before.value - 1e-12


def test_what_is_gone_is_named_and_never_counts_as_alike(data):
    smaller = sf.methods.Drop(variables=["income"]).apply(data)
    for measure in (sf.utility.Propensity(), sf.utility.Moments(), sf.utility.Marginals()):
        assert "income" in measure.measure(data, smaller).details["not_compared"]


def test_a_release_that_suppresses_what_it_moved_does_not_gain(data):
    far = data.frame.with_columns(
        income=pl.when(pl.col("age") > 50).then(pl.col("income") * 3).otherwise(pl.col("income"))
    )
    hidden = far.with_columns(
        income=pl.when(pl.col("age") > 50).then(None).otherwise(pl.col("income"))
    )
    moved, suppressed = (
        sf.utility.Moments(variables=["income"]).measure(data, sf.Dataset(side, data.schema))
        for side in (far, hidden)
    )
    assert moved.value > 0
    assert suppressed.value > 0.1


def test_draws_lie_in_their_cells_and_do_not_follow_the_rows(data):
    coarse = released(data, k=20, ends="observed")
    names = list(data.schema)
    drawn = draw(data, coarse, names)
    ages = drawn["age"].released.to_numpy()
    for text, age in zip(coarse.frame["age"].to_list(), ages, strict=True):
        low, high = map(float, text.strip("[]").split(";")) if ";" in text else (float(text),) * 2
        assert low <= age <= high
        assert age == int(age)
    for text, level in zip(
        coarse.frame["status"].to_list(), drawn["status"].released.to_list(), strict=True
    ):
        assert level in text.strip("{}").split(";")
    order = np.random.default_rng(1).permutation(len(data))
    turned = draw(data.take(order), coarse.take(order), names)
    rows = [
        sorted(zip(*(side[name].released.to_list() for name in names), strict=True), key=str)
        for side in (drawn, turned)
    ]
    assert rows[0] == rows[1]
    # Person by person too, also among equal records.
    found, again = (
        sf.utility.Propensity(permutations=0).measure(*pair).records
        for pair in ((data, coarse), (data.take(order), coarse.take(order)))
    )
    assert again.equals(found[order])


def test_draws_of_one_cell_are_spread_evenly_and_are_not_tied_to_another_variable():
    frame = pl.DataFrame({"x": ["[0;99]"] * 400, "y": list(range(400))})
    schema = sf.Schema({"x": sf.Column(kind="integer", cells="generalised"), "y": "other"})
    original = sf.Dataset(
        pl.DataFrame({"x": [50] * 400, "y": list(range(400))}),
        sf.Schema({"x": sf.Column(kind="integer"), "y": "other"}),
    )
    x = draw(original, sf.Dataset(frame, schema), ["x", "y"])["x"].released.to_numpy()
    assert np.bincount(x.astype(int), minlength=100).tolist() == [4] * 100
    assert abs(np.corrcoef(x, np.arange(400))[0, 1]) < 0.15


def test_masks_groups_and_new_names_are_drawn_from_what_they_stand_for(data):
    groups = {name: (f"group {int(name[-2:]) // 4}",) for name in KINDS}
    with_groups = sf.Dataset(data.frame, data.schema.changed(["status"], hierarchy=groups))
    recoded = sf.methods.Recode(variables=["status"], level=1).apply(with_groups)
    masked = released(data, k=5, variables=["area"])
    rare = sf.methods.Recode(variables=["status"], fewest=150).apply(data)
    for original, release, name in (
        (with_groups, recoded, "status"), (data, masked, "area"), (data, rare, "status"),
    ):  # fmt: skip
        drawn = draw(original, release, [name])[name]
        assert set(drawn.released.drop_nulls()) <= set(drawn.original)


def test_a_model_is_computed_on_ranges_sets_and_groups(data):
    formula = "income ~ age + C(status)"
    for k in (3, 10):
        coarse = released(data, k=k, variables=["age", "status"])
        found = sf.utility.Coefficients(formula=formula).measure(data, coarse)
        assert math.isfinite(found.value)
        slope = found.table.filter(pl.col("term") == "age").row(0, named=True)
        assert slope["overlap"] > 0.3
        assert any("'age', 'status'" in text for text in found.assumptions)


def test_the_middle_of_a_range_is_what_a_linear_model_sees():
    """Ten draws spread over the cell average to its middle, whatever the records."""
    draw = np.random.default_rng(2)
    x = draw.integers(0, 100, 300)
    y = 2.0 * x + draw.normal(0, 5, 300)
    original = sf.Dataset(
        pl.DataFrame({"x": x, "y": y}), sf.Schema({"x": sf.Column(kind="integer")})
    )
    low = x // 10 * 10
    frame = pl.DataFrame({"x": [f"[{a};{a + 9}]" for a in low.tolist()], "y": y})
    cells = sf.Schema({"x": sf.Column(kind="integer", cells="generalised")})
    found = sf.utility.Coefficients(formula="y ~ x").measure(original, sf.Dataset(frame, cells))
    slope = found.table.filter(pl.col("term") == "x")["released"][0]
    middle = low + 4.5
    assert slope == pytest.approx(np.polyfit(middle, y, 1)[0], rel=1e-3)
