"""SECURITY.md: "A range of numbers or dates ends on a grid that does not follow the data: nothing
that is released changes when a value moves within its cell of the grid, and an end is nobody's
value except by chance."

The attackers hold the file and make statements: "cells of this class, and the birth date is its
end". They are plain Python over rows and share nothing with the measures.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sfumato as sf

RANGE = re.compile(r"\[([^;]*);([^;]*)\]")


# The attacker ------------------------------------------------------------------------------------


def holds(value: Any, cell: Any) -> bool:
    """Whether a cell of numbers, dates, names or codes includes a value."""
    text = value.isoformat() if isinstance(value, dt.date) else str(value)
    shown = str(cell)
    if shown == "*" or value is None or cell is None:
        return shown == "*" or value is cell
    number = isinstance(value, (int, float))
    if match := RANGE.fullmatch(shown):
        low, high = match.groups()
        # Days of four-digit years sort as text.
        return float(low) <= value <= float(high) if number else low <= text <= high
    if shown.startswith("{"):
        return text in shown[1:-1].split(";")
    if shown.endswith("*"):
        return len(text) == len(shown) and text.startswith(shown.rstrip("*"))
    return shown == text or (number and float(shown) == value)


def find_ends(cells: Iterable[Any]) -> list[tuple[str, str]]:
    """Both ends of every cell that is a range."""
    matches = (RANGE.fullmatch(str(cell)) for cell in cells)
    return [(match[1], match[2]) for match in matches if match]


def isolate(original: pl.DataFrame, released: pl.DataFrame, variable: str) -> tuple[float, float]:
    """How often "in this class, and at its end" is one person, and how often by chance.

    By chance: "in this class, and just this value", for a value that somebody in the file has
    within the range, whoever it is.
    """
    people = original.to_dicts()
    having: dict[Any, list[int]] = {}
    for row, person in enumerate(people):
        having.setdefault(person[variable], []).append(row)
    values = sorted(value for value in having if value is not None)
    random = np.random.default_rng(17)
    parse = dt.date.fromisoformat if isinstance(values[0], dt.date) else float
    hits: dict[str, list[bool]] = {"ends": [], "chance": []}
    for cells in released.unique(maintain_order=True).to_dicts():
        if not (match := RANGE.fullmatch(str(cells[variable]))):
            continue
        low, high = (parse(end) for end in match.groups())
        inside = values[bisect_left(values, low) : bisect_right(values, high)]
        for way, named in (
            ("ends", (low, high)),
            ("chance", [inside[place] for place in random.integers(0, len(inside), 2)]),
        ):
            for value in named:
                fitting = [
                    row
                    for row in having.get(value, ())
                    if all(holds(people[row][name], cell) for name, cell in cells.items())
                ]
                hits[way].append(len(fitting) == 1)
    assert hits["ends"]
    return sum(hits["ends"]) / len(hits["ends"]), sum(hits["chance"]) / len(hits["chance"])


def attack(data: sf.Dataset, names: list[str], variable: str, ends: str, **settings: Any):
    method = sf.methods.KAnonymity(variables=names, ends=ends, **settings)
    released = method.apply(data).frame.select(names)
    assert released.group_by(names).len()["len"].min() >= settings.get("k", 5)
    return isolate(data.frame.select(names), released, variable)


# The claim on data -------------------------------------------------------------------------------

NAMES = ["birth_date", "sex", "ethnicity", "region", "household_size"]
NUMBERS = ["birth_date", "household_size", "height"]
# Of a hundred statements, two or three standard errors of a rate.
CHANCE = 0.1


@pytest.fixture(scope="module")
def cohort() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(2000), sf.datasets.cohort_schema())


@pytest.fixture(scope="module")
def people() -> sf.Dataset:
    """Fewer, where many ways are tried."""
    return sf.Dataset(sf.datasets.cohort(700), sf.datasets.cohort_schema())


def read_shared(name: str, **columns: sf.Column) -> sf.Dataset:
    path = Path(os.environ.get("SFUMATO_DATA", "")) / f"{name}.csv"
    if not path.exists():
        pytest.skip("SFUMATO_DATA does not hold the public files")
    frame = pl.read_csv(path, infer_schema_length=None).select(list(columns))
    return sf.Dataset(frame, sf.Schema(columns))


def test_ends_at_peoples_values_isolate_nearly_everybody_they_name(cohort):
    """What the releases of before told, and what `ends = "observed"` still does."""
    rate, chance = attack(cohort, NAMES, "birth_date", "observed")
    assert rate > 0.98
    assert chance < 0.3


@pytest.mark.parametrize("ends", ["observed", "grid"])
def test_the_measure_finds_what_the_attacker_finds(people, ends):
    rate, _ = attack(people, NAMES, "birth_date", ends)
    released = sf.methods.KAnonymity(variables=NAMES, ends=ends).apply(people)
    table = sf.risk.SinglingOut(known=NAMES).measure(people, released).table
    row = table.filter(pl.col("statement").str.contains("end of its range"))
    assert row.filter(pl.col("of") == "birth_date")["singling_out"][0] == pytest.approx(rate)


def test_ends_on_a_grid_isolate_by_chance_only(cohort):
    rate, chance = attack(cohort, NAMES, "birth_date", "grid")
    assert rate < 0.03
    assert rate <= chance


@pytest.mark.parametrize("clustering", ["mondrian", "mdav", "origin"])
@pytest.mark.parametrize("variable", ["birth_date", "height"])
def test_every_clustering(people, clustering, variable):
    rate, chance = attack(people, NUMBERS, variable, "grid", clustering=clustering)
    assert rate <= chance + CHANCE


@pytest.mark.parametrize("k", [2, 10])
def test_every_k(people, k):
    names = ["height", "sex", "birth_date"]
    for variable in ("height", "birth_date"):
        was, _ = attack(people, names, variable, "observed", k=k)
        rate, chance = attack(people, names, variable, "grid", k=k)
        assert was > 2 * rate
        assert rate <= chance + CHANCE


def test_closeness_and_diversity_end_on_the_grid_too(people):
    names = ["birth_date", "height"]
    for method in (
        sf.methods.TCloseness(variables=names, confidential="glucose", t=0.3),
        sf.methods.TCloseness(variables=names, confidential="systolic", clustering="spread"),
        sf.methods.LDiversity(variables=names, confidential="diagnosis", l=2),
    ):
        released = method.apply(people).frame.select(names)
        rate, chance = isolate(people.frame.select(names), released, "birth_date")
        assert rate <= chance + CHANCE, method


@pytest.mark.parametrize("variable", ["Age", "Fare"])
def test_titanic(variable):
    data = read_shared(
        "titanic",
        Age=sf.Column(role="quasi", kind="continuous"),
        Sex=sf.Column(role="quasi", kind="nominal"),
        Pclass=sf.Column(role="quasi", kind="integer"),
        Fare=sf.Column(role="quasi", kind="continuous"),
    )
    was, _ = attack(data, list(data.columns), variable, "observed")
    rate, chance = attack(data, list(data.columns), variable, "grid")
    assert was > 1.5 * rate
    assert rate <= chance + CHANCE


def test_adult():
    names = ["gender", "race", "marital_status", "education", "workclass", "occupation"]
    nominal = dict.fromkeys(names, sf.Column(role="quasi", kind="nominal"))
    everybody = read_shared("adult", age=sf.Column(role="quasi", kind="integer"), **nominal)
    data = sf.Dataset(everybody.frame[::20], everybody.schema)
    was, _ = attack(data, list(data.columns), "age", "observed")
    rate, chance = attack(data, list(data.columns), "age", "grid")
    assert was > rate
    assert rate <= chance + CHANCE


# Differencing: nothing depends on where in its cell a value lies ----------------------------------


def release(
    values: dict[str, list[Any]], schema: sf.Schema, **settings: Any
) -> list[tuple[Any, ...]]:
    data = sf.Dataset(pl.DataFrame(values), schema)
    frame: pl.DataFrame = sf.methods.KAnonymity(**settings).apply(data).frame
    return frame.select("x", "day").rows()


PEOPLE = st.integers(8, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 99_999), min_size=n, max_size=n),
        st.lists(st.integers(0, 30_000), min_size=n, max_size=n),
    )
)


@pytest.mark.parametrize("clustering", ["mondrian", "mdav"])
@settings(max_examples=40, deadline=None)
@given(PEOPLE, st.data(), st.integers(2, 5))
def test_a_move_within_a_cell_changes_nothing(clustering, people, chooser, k):
    """The grid is declared: 100 for the number, a month for the day."""
    numbers, days = people
    count = len(numbers)
    schema = sf.Schema(
        {
            "id": sf.Column(role="direct"),
            "x": sf.Column(role="quasi", kind="continuous"),
            "day": sf.Column(role="quasi", kind="date"),
        }
    )
    exact = {
        "id": [f"person {row}" for row in range(count)],
        "x": [number / 10 for number in numbers],
        "day": [dt.date(1950, 1, 1) + dt.timedelta(days=day) for day in days],
    }
    row = chooser.draw(st.integers(0, count - 1))
    cell = int(exact["x"][row] // 100)
    moved = {name: list(column) for name, column in exact.items()}
    moved["x"][row] = 100 * cell + chooser.draw(st.integers(0, 999)) / 10
    moved["day"][row] = exact["day"][row].replace(day=chooser.draw(st.integers(1, 28)))
    plan = {"grid": {"x": 100, "day": "month"}, "k": k, "clustering": clustering}
    before, after = release(exact, schema, **plan), release(moved, schema, **plan)
    for cells, other in zip(before, after, strict=True):
        for was, now in zip(cells, other, strict=True):
            # One value that all of a class share is theirs, and no end.
            if RANGE.fullmatch(str(was)) and RANGE.fullmatch(str(now)):
                assert was == now


@settings(max_examples=60, deadline=None)
@given(PEOPLE, st.data(), st.integers(2, 5))
def test_the_grid_that_is_chosen_depends_on_cells_only(people, chooser, k):
    """The attacker finds the grid by its ends, moves one value within it, and compares."""
    from sfumato.cells.grids import choose_grid

    numbers, days = people
    for levels in (
        pl.Series(numbers) / 10,
        pl.Series([dt.date(1950, 1, 1) + dt.timedelta(days=day) for day in days]),
    ):
        enough = 4 * len(levels) / k
        grid = choose_grid(levels.unique().sort(), whole=False, enough=enough)
        row = chooser.draw(st.integers(0, len(levels) - 1))
        cell = grid.locate(levels[row : row + 1])
        begins, after = grid.begin(cell)[0], grid.begin(cell + 1)[0]
        if isinstance(begins, dt.date):
            width = (after - begins).days
            value = begins + dt.timedelta(days=chooser.draw(st.integers(0, width - 1)))
        else:
            value = begins + (after - begins) * chooser.draw(st.integers(0, 9)) / 10
        moved = levels.to_list()
        moved[row] = value
        assume(grid.locate(pl.Series([value]))[0] == cell[0])
        assert choose_grid(pl.Series(moved).unique().sort(), whole=False, enough=enough) == grid


@settings(max_examples=40, deadline=None)
@given(PEOPLE, st.data(), st.integers(2, 4))
def test_a_move_within_the_grid_that_is_chosen_changes_nothing(people, chooser, k):
    from sfumato.cells.grids import choose_grid, count_enough

    numbers, days = people
    count = len(numbers)
    columns = {
        "x": sf.Column(role="quasi", kind="continuous"),
        "day": sf.Column(role="quasi", kind="date"),
    }
    schema = sf.Schema(columns)
    exact = {
        "x": [number / 10 for number in numbers],
        "day": [dt.date(1950, 1, 1) + dt.timedelta(days=day) for day in days],
    }
    row, steps = chooser.draw(st.integers(0, count - 1)), chooser.draw(st.integers(0, 9))
    moved = {name: list(column) for name, column in exact.items()}
    for name in columns:
        levels = pl.Series(exact[name])
        enough = count_enough(count, k, 2)
        grid = choose_grid(levels.unique().sort(), whole=False, enough=enough)
        cell = grid.locate(levels[row : row + 1])
        begins, after = grid.begin(cell)[0], grid.begin(cell + 1)[0]
        value = begins + (after - begins) * steps // 10
        assume(grid.locate(pl.Series([value]))[0] == cell[0])
        moved[name][row] = value
    before, changed = release(exact, schema, k=k), release(moved, schema, k=k)
    for cells, other in zip(before, changed, strict=True):
        for was, now in zip(cells, other, strict=True):
            if RANGE.fullmatch(str(was)) and RANGE.fullmatch(str(now)):
                assert was == now


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1000, 9999), min_size=20, max_size=60), st.data())
def test_limits_and_edges_are_nobodys_value(values, chooser):
    """Top coding by quantile, coarsening of the observed range, and joined whole numbers."""
    scaled = [value / 7 for value in values]  # no round number among them, but whole ones
    assume(len(set(scaled)) > 10)
    data = sf.Dataset(
        pl.DataFrame({"x": scaled}), sf.Schema({"x": sf.Column(role="quasi", kind="continuous")})
    )
    people = {value for value in scaled if value != round(value)}
    share = chooser.draw(st.floats(0.55, 0.95))
    coded = sf.methods.Topcode(variables=["x"], top_quantile=share, bottom_quantile=0.05)
    released = coded.apply(data).frame["x"]
    assert released.max() not in people
    assert released.min() not in people
    cells = sf.methods.Coarsen(variables=["x"], intervals=3, edges="observed").apply(data)
    ends = {float(end) for pair in find_ends(cells.frame["x"]) for end in pair}
    assert not ends & people


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=12, max_size=60))
def test_joined_whole_numbers_do_not_end_at_the_last_that_occurs(values):
    schema = sf.Schema({"x": sf.Column(role="quasi", kind="integer")})
    data = sf.Dataset(pl.DataFrame({"x": values}), schema)
    cells = sf.methods.Recode(variables=["x"], fewest=6).apply(data).frame["x"].to_list()
    for value, cell in zip(values, cells, strict=True):
        assert holds(value, cell)
    ranges = sorted({(int(low), int(high)) for low, high in find_ends(cells)})
    for (_, high), (low, _) in pairwise(ranges):
        assert high < low
    shown = [ends for ends in ranges if ends[1] >= max(values)]
    for low, high in shown:
        step = next(s for s in (1, 2, 5, 10, 20, 50) if s * 5 >= max(values) - low + 1)
        assert (high + 1) % step == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=4, max_size=40),
    st.integers(2, 6),
    st.sampled_from(["integer", "continuous"]),
)
def test_ranges_hold_their_records_and_are_round(values, k, kind):
    assume(len(values) >= k)
    scaled = values if kind == "integer" else [value / 1000 for value in values]
    schema = sf.Schema({"x": sf.Column(role="quasi", kind=kind)})
    released = sf.methods.KAnonymity(k=k).apply(sf.Dataset(pl.DataFrame({"x": scaled}), schema))
    cells = released.frame["x"].to_list()
    for value, cell in zip(scaled, cells, strict=True):
        assert holds(value, cell)
    assert min(cells.count(cell) for cell in cells) >= k
