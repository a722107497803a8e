"""Figures count persons and groups, not records: nothing that is drawn rests on fewer than k."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.figures.public.density import compute_densities
from sfumato.figures.public.plot import make_request
from sfumato.figures.public.protected_values import find_isolated, protect_values
from sfumato.figures.public.protection import Protection
from sfumato.figures.public.subjects import select_subjects
from sfumato.figures.public.unit_centres import find_unit_neighbours
from sfumato.outputs.contributors import Contributors, find_contributors
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.quantiles import find_unit_windows
from sfumato.outputs.rules import Rules, Unit

K = 3
ROLES: dict[str, Any] = {"person": "person", "home": "cluster"}


def make_visits(seed: int, persons: int = 60, most: int = 12) -> sf.Dataset:
    """Persons with few or many visits; some of them come very often, to one place."""
    rng = np.random.default_rng(seed)
    visits = rng.integers(1, most, persons)
    visits[:2] = 80
    person = np.repeat(np.arange(persons), visits)
    middle = rng.normal(50, 15, persons)
    order = rng.permutation(len(person))
    frame = pl.DataFrame(
        {
            "person": person,
            "home": (person // 3),
            "age": middle[person].round(),
            "bmi": (20 + middle[person] / 10 + rng.normal(0, 2, len(person))).round(2),
            "ward": rng.choice(list("abcdefgh"), persons)[person],
            "sex": rng.choice(["f", "m"], persons)[person],
            "days": rng.exponential(100, len(person)).round() + 1,
            "died": rng.random(len(person)) < 0.5,
        }
    )[order]
    return sf.Dataset(frame, sf.Schema(ROLES))


def count_units(rows: pl.DataFrame, unit: str) -> int:
    """How many persons there are; or how many homes, where these are fewer."""
    names = ["person"] if unit == "persons" else ["person", "home"]
    return min(rows[name].n_unique() for name in names)


def is_between(column: pl.Expr, low: float, high: float) -> pl.Expr:
    return (column >= low) & (column <= high)


def find_highest(plot: Any) -> float:
    """The highest number that is drawn along the axis of the variable."""
    names = [name for name in ("x", "high", "value") if name in plot.table.columns]
    return max(float(plot.table[name].drop_nulls().to_numpy().max()) for name in names)


SEEDS = st.integers(0, 10**6)
UNITS = st.sampled_from(["persons", "groups"])


@given(SEEDS, UNITS, st.sampled_from([None, "suppress", "generalise"]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_bar_of_a_histogram_has_k_of_them(seed, unit, protection, grouped):
    data = make_visits(seed)
    hue = "sex" if grouped else None
    try:
        plot = sf.plots.histogram(
            data, "bmi", hue=hue, protection=protection, rules=Rules(unit=unit), density=False
        )
    except OutputRefused:
        return
    assert plot.table.height
    for row in plot.table.rows(named=True):
        inside = data.frame.filter(is_between(pl.col("bmi"), row["low"], row["high"]))
        if grouped:
            inside = inside.filter(pl.col("sex") == row["group"])
        assert count_units(inside, unit) >= K
    assert unit in plot.caption
    assert not any("several records" in reason for reason in plot.reasons)


@given(SEEDS, UNITS, st.sampled_from(["suppress", "generalise"]))
@settings(max_examples=25, deadline=None)
def test_every_cell_of_a_grid_has_k_of_them(seed, unit, protection):
    data = make_visits(seed)
    for draw in (sf.plots.heatmap, sf.plots.contour, sf.plots.scatter):
        try:
            plot = draw(data, "age", "bmi", protection=protection, rules=Rules(unit=unit))
        except OutputRefused:
            continue
        for row in plot.table.rows(named=True):
            inside = data.frame.filter(
                is_between(pl.col("age"), row["x_low"], row["x_high"])
                & is_between(pl.col("bmi"), row["y_low"], row["y_high"])
            )
            assert count_units(inside, unit) >= K


@given(SEEDS, UNITS, st.sampled_from(["suppress", "generalise"]))
@settings(max_examples=25, deadline=None)
def test_every_bin_of_a_curve_has_k_of_them(seed, unit, protection):
    data = make_visits(seed)
    request = make_request(
        "density", "", ["bmi"], k=None, rules=Rules(unit=unit), log=None, protection=protection
    )
    try:
        (curve,) = compute_densities(data, request, None).curves
    except OutputRefused:
        return
    for low, high, count in zip(curve.cuts[:-1], curve.cuts[1:], curve.counts, strict=True):
        inside = data.frame.filter(is_between(pl.col("bmi"), low, high))
        assert not count or count_units(inside, unit) >= K
    assert sf.plots.violin(data, "bmi", protection=protection, rules=Rules(unit=unit)).table.height


@given(SEEDS, UNITS, st.sampled_from(["suppress", "generalise", "deterministic", "noise"]))
@settings(max_examples=40, deadline=None)
def test_every_bar_of_categories_has_k_of_them(seed, unit, protection):
    data = make_visits(seed, persons=30)
    try:
        plot = sf.plots.bar(
            data, "ward", protection=protection, rules=Rules(unit=unit), key=bytes(32)
        )
    except OutputRefused:
        return
    shown = set(plot.table["level"])
    for level in shown & set("abcdefgh"):
        assert count_units(data.frame.filter(pl.col("ward") == level), unit) >= K
    if "All others" in shown:
        joined = data.frame.filter(~pl.col("ward").is_in(sorted(shown)))
        assert count_units(joined, unit) >= K


@given(SEEDS, UNITS)
@settings(max_examples=40, deadline=None)
def test_every_step_of_a_survival_curve_has_k_of_them(seed, unit):
    data = make_visits(seed, persons=40)
    try:
        plot = sf.plots.survival(data, "days", "died", rules=Rules(unit=unit))
    except OutputRefused:
        return
    times = plot.table.filter(pl.col("survival").is_not_null())["time"].to_list()
    steps = plot.table.filter(pl.col("survival").is_not_null())["survival"].to_list()
    events = data.frame.filter(pl.col("died"))
    for index in range(1, len(times)):
        if steps[index] == steps[index - 1]:  # the curve only runs on
            continue
        inside = events.filter(
            (pl.col("days") > times[index - 1]) & (pl.col("days") <= times[index])
        )
        assert count_units(inside, unit) >= K
    assert count_units(data.frame.filter(pl.col("days") >= times[-1]), unit) >= K


@given(SEEDS, st.integers(3, 5))
@settings(max_examples=60, deadline=None)
def test_quantiles_rest_on_k_persons_each_and_share_no_record(seed, k):
    data = make_visits(seed, persons=25)
    units = find_contributors(data, Rules(unit="groups"))
    values = data.frame["bmi"].to_numpy()
    ordered = units.take(units.sort(values))
    try:
        windows = find_unit_windows(ordered, len(values), (0.05, 0.25, 0.5, 0.75, 0.95), k)
    except OutputRefused:
        return
    used = [row for window in windows for row in range(window.start, window.stop)]
    assert len(used) == len(set(used))
    assert min(used) > 0
    assert max(used) < len(values) - 1
    for window in windows:
        assert all(len(np.unique(number[window])) >= k for number in ordered.numbers)


@given(SEEDS, st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_neighbours_are_the_nearest_of_others(seed, count):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 40))
    values, owner = rng.normal(size=(size, 2)), rng.integers(0, 8, size)
    found = find_unit_neighbours(values, np.arange(size), Contributors((owner,)), count)
    for row in range(size):
        gaps = ((values - values[row]) ** 2).sum(axis=1)
        nearest: list[int] = [row]
        for other in np.argsort(gaps).tolist():
            if len(nearest) < count and owner[other] not in owner[nearest]:
                nearest.append(other)
        expected = nearest + [-1] * (count - len(nearest))
        assert found[row].tolist() == (expected if len(nearest) == count else found[row].tolist())
        assert (found[row, -1] < 0) == (len(nearest) < count)


def add_far_person(data: sf.Dataset, visits: int) -> sf.Dataset:
    """One more person, far from all others, who comes often."""
    template = data.frame[:1].with_columns(
        person=pl.lit(10**6, pl.Int64), home=pl.lit(10**6, pl.Int64), age=pl.lit(900.0)
    )
    rows = pl.concat([template] * visits).with_columns(
        bmi=pl.lit(300.0) + pl.int_range(visits) * 0.1
    )
    return sf.Dataset(pl.concat([data.frame, rows]), data.schema)


@pytest.mark.parametrize("protection", ["deterministic", "mahalanobis", "noise", "growing_noise"])
def test_many_rows_of_one_person_are_not_drawn_where_nobody_else_is(protection):
    data = add_far_person(make_visits(1), 60)
    options: dict[str, Any] = {"protection": protection, "key": bytes(32)}
    plot = sf.plots.scatter(data, "age", "bmi", **options)
    assert find_highest(plot) < 300
    assert plot.table["y"].to_numpy().max() < 100
    assert "far from all others" in plot.description
    # Where records are counted, the other rows hide each of them.
    rows = sf.plots.scatter(data, "age", "bmi", rules=Rules(unit="records"), **options)
    assert find_highest(rows) > 500
    assert any("several records" in reason for reason in rows.reasons)
    for draw in (sf.plots.histogram, sf.plots.density, sf.plots.box):
        assert find_highest(draw(data, "bmi", **options)) < 100


def test_a_person_with_many_rows_lifts_no_bin():
    ways: tuple[Any, ...] = ("suppress", "generalise", None)
    for name in ways:
        for draw in (sf.plots.histogram, sf.plots.density, sf.plots.violin, sf.plots.box):
            data = add_far_person(make_visits(2), 500)
            highest = find_highest(draw(data, "bmi", protection=name))
            # A bin may reach so far that it holds others too.
            assert name == "generalise" or highest < 300, (name, draw)


def test_noise_on_what_is_constant_within_a_person_is_drawn_once():
    data = make_visits(3, persons=40)
    units: tuple[Unit, ...] = ("persons", "groups")
    for unit in units:
        subjects = select_subjects(data, ["age"], rules=Rules(unit=unit))
        noise = Protection(name="noise", key=sf.Key.of(bytes(32)))
        drawn = protect_values(subjects, ["age"], noise, lonely=True)
        assert len(np.unique(drawn.column("age"))) <= 40
        assert len(drawn.units.numbers[0]) == len(drawn)


def test_isolated_are_records_without_k_other_persons_near():
    values = pl.DataFrame({"x": [*np.linspace(0, 1, 50), *np.linspace(100, 100.5, 30)]})
    owner = np.array([*range(50), *([99] * 30)])
    alone = find_isolated(values, values + 0.1, 3, Contributors((owner,), "persons"))
    assert alone.nonzero()[0].tolist() == list(range(50, 80))
    assert not find_isolated(values, values + 0.1, 3).any()


def test_models_count_persons_of_the_records_that_are_passed():
    sm = pytest.importorskip("statsmodels.api")
    data = make_visits(4)
    rare = data.frame["person"].is_in([0, 1])
    frame = data.frame.with_columns(rare=rare.cast(pl.Float64))
    data = sf.Dataset(frame, data.schema)
    design = sm.add_constant(frame.select("age", "rare").to_pandas())
    model = sm.OLS(frame["bmi"].to_numpy(), design).fit()
    # 160 rows are behind the term, and two persons.
    assert sf.plots.forest(model).verdict == "pass"
    with pytest.raises(OutputRefused, match="Fewer than 3 persons are behind: rare"):
        sf.plots.forest(model, data)
    usual = sm.OLS(frame["bmi"].to_numpy(), design[["const", "age"]]).fit()
    assert "persons" in sf.plots.forest(usual, data).caption
    for draw in (sf.plots.residuals, sf.plots.leverage):
        for protection in ("deterministic", "suppress"):
            assert "persons" in draw(usual, data, protection=protection).caption
    ways: tuple[Any, ...] = ("deterministic", "noise", "suppress", "generalise")
    for protection in ways:
        plot = sf.plots.qq(data, "bmi", protection=protection, key=bytes(32))
        assert "persons" in plot.description
    by_home = sf.plots.residuals(usual, data, rules=Rules(unit="groups"))
    assert "groups" in by_home.caption


def test_few_persons_with_many_records_have_no_figure():
    data = make_visits(5, persons=8)
    with pytest.raises(OutputRefused, match="Fewer than 10 persons"):
        sf.plots.histogram(data, "bmi")
    assert sf.plots.histogram(data, "bmi", rules=Rules(unit="records")).verdict == "review"


def test_one_row_each_is_as_without_the_role():
    data = make_visits(6).frame.unique("person", maintain_order=True)
    roles = [sf.Dataset(data, sf.Schema(of)) for of in (ROLES, {})]
    for draw in (sf.plots.histogram, sf.plots.box, sf.plots.density):
        with_role, without = (draw(part, "bmi").table for part in roles)
        assert with_role.equals(without)


def test_the_order_of_the_rows_does_not_matter():
    data = make_visits(7)
    other = sf.Dataset(data.frame.sample(fraction=1, shuffle=True, seed=3), data.schema)
    rules = Rules(unit="groups")
    kinds: tuple[tuple[Any, Any], ...] = (
        (sf.plots.histogram, "suppress"),
        (sf.plots.histogram, "deterministic"),
        (sf.plots.box, "suppress"),
        (sf.plots.box, "deterministic"),
        (sf.plots.density, "generalise"),
    )
    for draw, protection in kinds:
        tables = [draw(part, "bmi", protection=protection, rules=rules).table
                  for part in (data, other)]  # fmt: skip
        assert tables[0].equals(tables[1]), (draw, protection)
