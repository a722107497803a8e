"""Tables whose rules count persons or groups, and not records."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.aggregation import count_distinct
from sfumato.outputs.tables.lattice import Lattice


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
    open_rules, by_firm = (
        Rules(zeros="show", full="show"),
        Rules(unit="groups", zeros="show", full="show"),
    )
    plain = sf.tables.crosstab(data, "region", "sex", rules=open_rules)
    strict = sf.tables.crosstab(data, "region", "sex", rules=by_firm)
    hidden = read_hidden(strict)
    assert all(hidden[f"north {sex}"] for sex in ("f", "m"))
    assert not any(read_hidden(plain).values())


def test_one_person_with_many_records_is_hidden_where_persons_count():
    rows = {"person": ["a"] * 20 + [f"p{n}" for n in range(40)], "ward": ["x"] * 20 + ["y"] * 40}
    data = sf.Dataset(pl.DataFrame(rows), sf.Schema({"person": "person", "ward": "quasi"}))
    by_person = Rules(unit="persons", zeros="show", full="show")
    assert read_hidden(sf.tables.crosstab(data, "ward", rules=by_person))["x"]
    shown = sf.tables.crosstab(data, "ward", rules=Rules(zeros="show", full="show"))
    assert not read_hidden(shown)["x"]


def test_sums_and_figures_are_refused():
    data = make_workers()
    rules = Rules(unit="groups")
    with pytest.raises(OutputRefused, match="The rules count groups"):
        sf.tables.crosstab(data, "region", values="wage", aggregate="mean", rules=rules)
    numbers = data.with_columns(data.frame.select(age=pl.col("wage") + 1))
    for plot in (sf.plots.histogram, sf.plots.box, sf.plots.heatmap, sf.plots.scatter):
        names = ["wage"] if plot in (sf.plots.histogram, sf.plots.box) else ["wage", "age"]
        with pytest.raises(OutputRefused, match="a figure counts records") as refused:
            plot(numbers, *names, rules=rules)
        assert "one record of each of the groups" in refused.value.hint
    one_each = data.frame.with_columns(firm=pl.int_range(len(data)))
    assert sf.plots.histogram(sf.Dataset(one_each, data.schema), "wage", rules=rules)


def test_without_the_role_records_count():
    data = make_workers().with_schema({"firm": "other"})
    rules = Rules(unit="groups", zeros="show", full="show")
    plain = sf.tables.crosstab(data, "region", "sex", rules=Rules(zeros="show", full="show"))
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
    counted = count_distinct(lattice, cells, table[:, 2]).reshape(lattice.shape)
    for row in range(3):
        for column in range(4):
            units = {u for r, c, u in rows if row in (r, 2) and column in (c, 3)}
            assert counted[row, column] == len(units)
