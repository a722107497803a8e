"""Tables whose rules count persons or groups, and not records."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.outputs.tables import attacker

import sfumato as sf
from sfumato.outputs.contributors import Contributors
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.aggregation import compute_quantiles, count_units_in
from sfumato.outputs.tables.lattice import Lattice

K = 3
OPEN: dict[str, Any] = {"zeros": "show", "full": "show"}


def make_workers() -> sf.Dataset:
    """In the north many workers of two firms, in the south as many of ten."""
    random = np.random.default_rng(1)
    north = ["A", "B"] * 20
    south = [f"F{number}" for number in range(10)] * 4
    frame = pl.DataFrame(
        {
            "firm": [*north, *south] * 2,
            "region": (["north"] * 40 + ["south"] * 40) * 2,
            "sex": random.choice(["f", "m"], 160),
            "wage": random.normal(3000, 300, 160).round(),
        }
    )
    return sf.Dataset(frame, sf.Schema({"firm": "cluster", "region": "quasi", "sex": "quasi"}))


def read_hidden(table) -> dict[str, bool]:
    """By cell, such as "north f", whether its count is hidden."""
    names = table.cells.columns[: table.cells.columns.index("statistic")]
    return {
        " ".join(row[name] for name in names): row["hidden"] for row in table.cells.rows(named=True)
    }


def test_a_cell_of_two_firms_is_hidden_where_firms_count():
    data = make_workers()
    plain = sf.tables.crosstab(data, "region", "sex", rules=Rules(**OPEN))
    strict = sf.tables.crosstab(data, "region", "sex", rules=Rules(unit="groups", **OPEN))
    hidden = read_hidden(strict)
    assert all(hidden[f"north {sex}"] for sex in ("f", "m"))
    assert not any(read_hidden(plain).values())


def test_one_person_with_many_records_is_hidden_and_persons_count_by_default():
    rows = {"person": ["a"] * 20 + [f"p{n}" for n in range(40)], "ward": ["x"] * 20 + ["y"] * 40}
    data = sf.Dataset(pl.DataFrame(rows), sf.Schema({"person": "person", "ward": "quasi"}))
    table = sf.tables.crosstab(data, "ward", rules=Rules(**OPEN))
    assert read_hidden(table)["x"]
    shown = sf.tables.crosstab(data, "ward", rules=Rules(unit="records", **OPEN))
    assert not read_hidden(shown)["x"]
    assert any("several records" in reason for reason in shown.reasons)
    assert not any("several records" in reason for reason in table.reasons)


def test_sums_are_hidden_where_one_firm_dominates_them():
    """No worker gives much of a sum; of the firm that pays half of the region, all do."""
    random = np.random.default_rng(2)
    firms = [*np.repeat("A", 200), *np.repeat([f"F{n}" for n in range(10)], 10)] * 2
    frame = pl.DataFrame(
        {
            "firm": firms,
            "region": ["north"] * 300 + ["south"] * 300,
            "wage": random.normal(3000, 300, 600).round(),
        }
    ).with_columns(
        firm=pl.when(pl.col("region") == "south")
        .then(pl.int_range(600).cast(pl.String) + "s")
        .otherwise(pl.col("firm"))
    )
    data = sf.Dataset(frame, sf.Schema({"firm": "cluster", "region": "quasi"}))
    rules = {unit: Rules(unit=unit, dominance=(1, 0.5), **OPEN) for unit in ("records", "groups")}
    for name in ("sum", "mean", "std"):
        by_unit = {
            unit: sf.tables.crosstab(data, "region", values="wage", aggregate=name, rules=of)
            for unit, of in rules.items()
        }
        assert read_hidden(by_unit["groups"])["north"], name
        assert not read_hidden(by_unit["records"])["north"], name
    # The number of workers is a contribution of the firm, too.
    assert read_hidden(sf.tables.crosstab(data, "region", rules=rules["groups"]))["north"]


def test_rounding_is_refused_where_it_would_show_one_person():
    rows = {"person": ["a"] * 20 + [f"p{n}" for n in range(40)], "ward": ["x"] * 20 + ["y"] * 40}
    data = sf.Dataset(pl.DataFrame(rows), sf.Schema({"person": "person", "ward": "quasi"}))
    with pytest.raises(OutputRefused, match="fewer than 3 persons"):
        sf.tables.crosstab(data, "ward", protection="round")
    many = data.with_columns(pl.DataFrame({"ward": (["x", "y", "z"] * 20)}))
    rounded = sf.tables.crosstab(many, "ward", protection="round").cells
    assert rounded["value"].to_list() == [20, 20, 20, 60]


def test_few_persons_with_many_records_have_no_table():
    frame = pl.DataFrame({"person": list(range(6)) * 20, "ward": ["x", "y"] * 60})
    data = sf.Dataset(frame, sf.Schema({"person": "person", "ward": "quasi"}))
    with pytest.raises(OutputRefused, match="at least 10 persons"):
        sf.tables.crosstab(data, "ward")
    assert sf.tables.crosstab(data, "ward", rules=Rules(unit="records"))


def test_without_the_role_records_count():
    data = make_workers().with_schema({"firm": "other"})
    rules = Rules(unit="groups", **OPEN)
    plain = sf.tables.crosstab(data, "region", "sex", rules=Rules(**OPEN))
    assert sf.tables.crosstab(data, "region", "sex", rules=rules).cells.equals(plain.cells)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30
    )
)
@settings(max_examples=80, deadline=None)
def test_distinct_units_are_counted_in_every_cell_and_margin(rows):
    lattice = Lattice((2, 3))
    table = np.array(rows)
    cells = np.ravel_multi_index((table[:, 0], table[:, 1]), lattice.shape)
    counted = count_units_in(lattice, cells, Contributors((table[:, 2],))).reshape(lattice.shape)
    for row in range(3):
        for column in range(4):
            units = {u for r, c, u in rows if row in (r, 2) and column in (c, 3)}
            assert counted[row, column] == len(units)


# Random persons and their visits -----------------------------------------------------------------

VISITS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(1, 60)),
            min_size=1,
            max_size=6,
        ),
        st.integers(0, 8),
    ),
    min_size=12,
    max_size=25,
)


def make_visits(persons) -> sf.Dataset:
    """Each person has some visits to a household of their own; rows are shuffled."""
    rows = [
        (number, household, ward, sex, cost)
        for number, (visits, household) in enumerate(persons)
        for ward, sex, cost in visits
    ]
    columns = ["person", "home", "ward", "sex", "cost"]
    frame = pl.DataFrame(rows, schema=columns, orient="row").sample(
        fraction=1, shuffle=True, seed=1
    )
    return sf.Dataset(frame, sf.Schema({"person": "person", "home": "cluster"}))


def list_contributors(data: sf.Dataset, unit: str) -> dict[tuple[str, str], int]:
    """By cell, margins among them, of how many persons (or homes) it holds rows."""
    columns = ["person"] if unit == "persons" else ["person", "home"]
    found: dict[tuple[str, str], dict[str, set[Any]]] = {}
    for row in data.frame.rows(named=True):
        for ward in (row["ward"], "All"):
            for sex in (row["sex"], "All"):
                of_cell = found.setdefault((ward, sex), {name: set() for name in columns})
                for name in columns:
                    of_cell[name].add(row[name])
    return {cell: min(map(len, kinds.values())) for cell, kinds in found.items()}


@given(VISITS, st.sampled_from(["persons", "groups"]), st.sampled_from(["count", "sum", "median"]))
@settings(max_examples=60, deadline=None)
def test_no_cell_of_few_persons_is_shown_or_follows_from_others(persons, unit, statistic):
    data = make_visits(persons)
    values = {} if statistic == "count" else {"values": "cost", "aggregate": statistic}
    try:
        table = sf.tables.crosstab(data, "ward", "sex", rules=Rules(unit=unit, **OPEN), **values)
    except OutputRefused:
        return
    contributors = list_contributors(data, unit)
    names = ["ward", "sex"]
    for row in table.cells.rows(named=True):
        if contributors.get((row["ward"], row["sex"]), K) < K:
            assert row["hidden"], row
    shown = table.known["count"].cells
    sizes, labels = table.lattice.sizes, table.labels
    found = attacker.linear(sizes, shown)
    for cell, number in contributors.items():
        index = tuple(labels[axis].index(cell[axis]) for axis in range(len(names)))
        low, high = found.get(int(np.ravel_multi_index(index, table.lattice.shape)), (0, 0))
        assert number >= K or high - low >= K, cell


@given(VISITS)
@settings(max_examples=40, deadline=None)
def test_rows_of_one_person_lift_no_cell(persons):
    """Whatever is hidden stays hidden when the persons in it come more often."""
    data = make_visits(persons)
    rules = Rules(dominance=None, p_percent=None, **OPEN)
    try:
        before = read_hidden(sf.tables.crosstab(data, "ward", "sex", rules=rules))
        contributors = list_contributors(data, "persons")
        few = [cell for cell, number in contributors.items() if number < K]
        often = pl.concat([data.frame] * 5)
        after = read_hidden(
            sf.tables.crosstab(sf.Dataset(often, data.schema), "ward", "sex", rules=rules)
        )
    except OutputRefused:
        return
    for cell in few:
        assert before[" ".join(cell)]
        assert after[" ".join(cell)]


def test_quantiles_rest_on_persons_and_each_counts_alike():
    values = np.arange(30.0)
    owner = np.array([0] * 10 + [1] * 10 + list(range(2, 12)))
    units = Contributors((owner,), "persons")
    (median,) = compute_quantiles(values, [0.5], 3, 0.0, units)
    # The nearest records of three persons: 9 is the first's, 10 to 19 the second's, 20 the third's.
    assert median == pytest.approx((9 + 14.5 + 20) / 3, rel=0.01)
    assert np.isnan(compute_quantiles(values, [0.1], 3, 0.0, units)[0])


def test_a_number_of_persons_that_nobody_declared_asks_for_a_second_look():
    frame = make_visits([([("a", "x", 1), ("b", "y", 2)], 0)] * 30).frame.rename(
        {"person": "patient_id"}
    )
    reasons = sf.tables.crosstab(frame, "ward", rules=Rules(**OPEN)).reasons
    assert any("'patient_id' stand in several rows" in reason for reason in reasons)
    said = sf.Dataset(frame, sf.Schema({"patient_id": "other"}))
    assert not sf.tables.crosstab(said, "ward", rules=Rules(**OPEN)).reasons
    once = frame.unique("patient_id").with_columns(ward=pl.Series(["a", "b"] * 15))
    assert not sf.tables.crosstab(once, "ward", rules=Rules(**OPEN)).reasons


def test_the_log_sees_that_one_person_was_left_out_with_all_their_rows():
    data = make_visits([([("a", "x", 1), ("b", "y", 2)] * 3, 0)] * 30)
    log = sf.outputs.Log(rules=Rules(**OPEN))
    assert sf.tables.crosstab(data, "ward", log=log).verdict == "pass"
    fewer = sf.Dataset(data.frame.filter(pl.col("person") != 7), data.schema)
    again = sf.tables.crosstab(fewer, "ward", log=log)
    assert again.verdict == "review"
    assert any("gives few people away" in reason for reason in again.reasons)
    half = sf.Dataset(data.frame.filter(pl.col("person") < 20), data.schema)
    assert sf.tables.crosstab(half, "ward", log=log).verdict == "pass"
