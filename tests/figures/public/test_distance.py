"""Every figure tells how far it is from the same figure without protection.

The references are slow and know nothing of the code they check: loops over what the table of a
plot says, and curves of scipy and statsmodels.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gaussian_kde
from statsmodels.duration.survfunc import SurvfuncRight
from tests.figures.public.calls import CALLS, KEY

import sfumato as sf
from sfumato.figures.public import distance
from sfumato.figures.public.bar import OTHER, _join_small
from sfumato.figures.public.grid import choose_edges
from sfumato.figures.public.plot import Plot

NAMED: tuple[Any, ...] = ("suppress", "generalise", "deterministic", "noise")


@cache
def people(n: int = 400) -> pl.DataFrame:
    chance = np.random.default_rng(8)
    x = chance.gamma(4.0, 3.0, n)
    times, ends = chance.exponential(4, n), chance.uniform(1, 9, n)
    return pl.DataFrame(
        {
            "x": x,
            "y": 5 + 0.5 * x + chance.normal(0, 2, n),
            "level": chance.choice(["a", "b", "c", "d"], n, p=[0.6, 0.3, 0.095, 0.005]),
            "time": np.minimum(times, ends),
            "event": (times <= ends).astype(int),
        }
    )


DRAW: dict[str, Any] = {
    **CALLS,
    "bar": lambda frame, way: sf.plots.bar(frame, "level", protection=way, key=KEY),
    "histogram": lambda frame, way: sf.plots.histogram(frame, "x", protection=way, key=KEY),
    "scatter": lambda frame, way: sf.plots.scatter(frame, "x", "y", protection=way, key=KEY),
    "heatmap": lambda frame, way: sf.plots.heatmap(frame, "x", "y", protection=way, key=KEY),
    "contour": lambda frame, way: sf.plots.contour(frame, "x", "y", protection=way, key=KEY),
}


@cache
def draw(kind: str, protection: str) -> Plot:
    plot: Plot = DRAW[kind](people(), protection)
    return plot


def below(values: Any, position: float) -> float:
    return sum(float(value) < position for value in values) / len(values)


def measure_bars(plot: Plot) -> float:
    shown = {row["level"]: row["share"] for row in plot.table.to_dicts()}
    rows = people()["level"].to_list()
    shares = {level: rows.count(level) / len(rows) for level in set(rows)}
    if "All others" in shown:
        joined = [level for level in shares if level not in shown]
        shares = {level: share for level, share in shares.items() if level in shown}
        shares["All others"] = sum(people()["level"].is_in(joined)) / len(rows)
    return float(max(abs(share - shown.get(level, 0.0)) for level, share in shares.items()))


def measure_histogram(plot: Plot) -> float:
    bars = [(row["low"], row["high"], row["density"] * (row["high"] - row["low"]))
            for row in plot.table.to_dicts()]  # fmt: skip
    gaps = []
    for edge in usual_edges("x"):
        shown = sum(mass * min(max((edge - low) / (high - low), 0), 1) for low, high, mass in bars)
        gaps.append(abs(shown - below(people()["x"], edge)))
    return float(max(gaps))


def usual_edges(name: str) -> list[float]:
    return [float(edge) for edge in choose_edges(people()[name].to_numpy(), 30, k=1)]


def measure_corners(plot: Plot) -> float:
    x, y = people()["x"].to_numpy(), people()["y"].to_numpy()
    rows = plot.table
    records = rows["records"].to_numpy() if "records" in rows.columns else np.ones(rows.height)
    weights = records / records.sum()
    gaps = []
    for a, b in itertools.product(usual_edges("x"), usual_edges("y")):
        part_x, part_y = _lies_below(plot.table, "x", a), _lies_below(plot.table, "y", b)
        for left, low in itertools.product((True, False), repeat=2):
            exact = np.mean(((x < a) == left) & ((y < b) == low))
            parts = (part_x if left else 1 - part_x) * (part_y if low else 1 - part_y)
            gaps.append(abs(float((parts * weights).sum() - exact)))
    return max(gaps)


def _lies_below(table: pl.DataFrame, axis: str, cut: float) -> Any:
    """The part of each point or cell that lies below a cut."""
    if axis in table.columns:
        return (table[axis].to_numpy() < cut).astype(float)
    start, end = table[f"{axis}_low"].to_numpy(), table[f"{axis}_high"].to_numpy()
    return np.clip((cut - start) / (end - start), 0.0, 1.0)


def measure_survival(plot: Plot) -> float:
    curve = plot.table.drop_nulls("survival")
    exact = SurvfuncRight(people()["time"].to_numpy(), people()["event"].to_numpy())
    gaps = []
    for time in np.linspace(0, curve["time"].max(), 4001):  # type: ignore[arg-type]
        reached = exact.surv_prob[exact.surv_times <= time]
        shown = np.interp(time, curve["time"], curve["survival"])
        gaps.append(abs((reached[-1] if len(reached) else 1.0) - shown))
    return float(max(gaps))


def measure_density(plot: Plot) -> float:
    table = plot.table
    if "part" in table.columns:
        table = table.filter(pl.col("part") == "curve")
    kernel = gaussian_kde(people()["x"].to_numpy(), bw_method="silverman")
    # The rule of thumb of this house takes the smaller of SD and quartiles, and 0.9 of it.
    quarter = people()["x"].quantile(0.75, "linear") - people()["x"].quantile(0.25, "linear")  # type: ignore[operator]
    spread = min(float(people()["x"].std()), quarter / 1.34)  # type: ignore[arg-type]
    kernel.set_bandwidth(0.9 * spread * 400**-0.2 / float(people()["x"].std()))  # type: ignore[arg-type]
    value, heights = table["value"].to_numpy(), table["density"].to_numpy()
    gaps = []
    for index in range(1, len(value)):
        shown = float(np.trapezoid(heights[: index + 1], value[: index + 1]))
        gaps.append(abs(shown - kernel.integrate_box_1d(-np.inf, value[index])))
    return float(max(gaps))


def measure_box(plot: Plot) -> float:
    gaps = []
    for row in plot.table.to_dicts():
        if row["part"] not in ("lower", "middle", "upper"):
            continue
        wanted = {"lower": 0.25, "middle": 0.5, "upper": 0.75}[row["part"]]
        gaps.append(abs(below(people()[row["variable"]], row["value"]) - wanted))
    return max(gaps)


SLOW = {
    "bar": (measure_bars, 1e-9),
    "histogram": (measure_histogram, 1e-9),
    "heatmap": (measure_corners, 1e-9),
    "scatter": (measure_corners, 1e-9),
    "survival": (measure_survival, 0.004),
    "density": (measure_density, 0.012),  # of bins of a 400th of the range, mirrored at the ends
    "violin": (measure_density, 0.012),
}


@pytest.mark.parametrize("protection", NAMED)
@pytest.mark.parametrize("kind", sorted(SLOW))
def test_the_distance_is_that_of_a_slow_reference(kind, protection):
    plot = draw(kind, protection)
    measure, tolerance = SLOW[kind]
    assert plot.details["distance"] == pytest.approx(measure(plot), abs=tolerance)


@pytest.mark.parametrize("protection", NAMED)
def test_the_box_moves_its_middle_lines_by_no_more_than_it_says(protection):
    plot = draw("box", protection)
    assert measure_box(plot) <= plot.details["distance"] + 1 / 400


@pytest.mark.parametrize("kind", sorted(set(DRAW) - {"forest"}))
def test_every_kind_says_its_distance_in_the_caption(kind):
    for protection in NAMED:
        plot = draw(kind, protection)
        bound = distance.round_up_share(plot.details["distance"], records=400, k=3)
        assert plot.details["distance"] <= bound
        words = "more than 50" if bound > 0.5 else f"at most {100 * bound:.0f} percentage point"
        assert f"would differ by {words}" in plot.caption
        far = any("from the unprotected one" in reason for reason in plot.reasons)
        assert far == (plot.details["distance"] > distance.FAR)


def test_a_forest_says_what_its_rounding_moves():
    plot = draw("forest", "suppress")
    assert 0 < plot.details["distance"] <= 0.05
    assert "of its interval" in plot.caption


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=30, max_size=80), st.data())
def test_one_record_moves_the_distance_by_little_and_the_caption_hardly_ever(values, data):
    gone = data.draw(st.integers(0, len(values) - 1))
    cuts = np.linspace(-1.0, 101.0, 8)
    counts = np.full(7, 5)
    gaps = [
        distance.compare_counts(np.array(some), cuts, counts, cuts)
        for some in (values, [*values[:gone], *values[gone + 1 :]])
    ]
    assert abs(gaps[0] - gaps[1]) <= 1 / (len(values) - 1) + 1e-12


def test_the_bound_is_never_finer_than_2_k_records():
    rungs = [distance.round_up_share(0.0, records=n, k=3) for n in (8, 30, 119, 120, 300, 600)]
    assert rungs == [1.0, 0.2, 0.1, 0.05, 0.02, 0.01]


def test_a_small_group_does_not_coarsen_the_others_and_every_peak_is_where_it_is():
    """Never-married people peak at 22; in the bins of all ages they peaked at 14.5."""
    chance = np.random.default_rng(2)
    ages = [17 + chance.gamma(2.0, 4.0, 900), chance.normal(50, 12, 4000), chance.normal(70, 3, 25)]
    frame = pl.DataFrame(
        {
            "age": np.clip(np.concatenate(ages), 17, 90).astype(int),
            "group": ["single"] * 900 + ["married"] * 4000 + ["rare"] * 25,
        }
    )
    plot = sf.plots.density(frame, "age", hue="group")
    for name, values in zip(("single", "married"), ages, strict=False):
        curve = plot.table.filter(pl.col("group") == name)
        peak = curve["value"][int(curve["density"].arg_max())]  # type: ignore[arg-type]
        kernel = gaussian_kde(values.astype(int))
        grid = np.arange(17, 91)
        assert abs(peak - grid[np.argmax(kernel(grid))]) <= 3
    assert "in small groups" in plot.caption


def test_nothing_is_drawn_where_nothing_can_be():
    fares = np.round(np.random.default_rng(4).exponential(30, 800), 2) * (np.arange(800) % 9 > 0)
    frame = pl.DataFrame({"fare": fares})
    for protection in NAMED:
        curve = sf.plots.density(frame, "fare", protection=protection).table
        bars = sf.plots.histogram(frame, "fare", protection=protection).table
        assert min(curve["value"].to_numpy().min(), bars["low"].to_numpy().min()) >= 0


def test_a_step_of_few_records_is_straight_and_its_band_holds_the_truth():
    """Half had the event by day 30, and the curve said that nobody had."""
    days = np.array([*range(1, 20), *range(40, 61)], float)
    frame = pl.DataFrame({"day": days, "status": [2] * 30 + [1] * 10})
    plot = sf.plots.survival(frame, "day", "status", protection="generalise", bins=3)
    curve = plot.table.drop_nulls("survival")
    exact = SurvfuncRight(days, frame["status"].to_numpy() - 1)
    low = np.append(curve["low"][1:].to_numpy(), curve["low"][-1])
    for day in np.arange(1.0, curve["time"].max()):  # type: ignore[arg-type]
        true = exact.surv_prob[exact.surv_times <= day][-1]
        step = int(np.searchsorted(curve["time"], day, "right")) - 1
        assert low[step] <= true <= curve["high"][step]
    assert plot.details["distance"] < 0.3
    assert {"at_risk", "time"} <= set(plot.table.columns)
    assert (plot.table["at_risk"].drop_nulls() % 5 == 0).all()
    as_zero_one = frame.with_columns(pl.col("status") - 1)
    same = sf.plots.survival(as_zero_one, "day", "status", protection="generalise", bins=3)
    assert same.table.equals(plot.table)


def test_labels_and_units_reach_the_axes_and_the_legend():
    schema = sf.Schema(
        {
            "x": sf.Column(label="Dose", unit="mg"),
            "y": sf.Column(label="Pressure"),
            "level": sf.Column(label="Site"),
        }
    )
    data = sf.Dataset(people().filter(pl.col("level") != "d"), schema)
    plot = sf.plots.scatter(data, "x", "y", hue="level")
    assert (plot.axes[0].get_xlabel(), plot.axes[0].get_ylabel()) == ("Dose (mg)", "Pressure")
    assert plot.figure.legends[0].get_title().get_text() == "Site"


def test_more_than_three_groups_have_a_panel_each():
    frame = people().with_columns(quarter=(pl.int_range(pl.len()) % 4).cast(pl.String))
    for plot in (
        sf.plots.density(frame, "x", hue="quarter"),
        sf.plots.histogram(frame, "x", hue="quarter"),
        sf.plots.scatter(frame, "x", "y", hue="quarter"),
        sf.plots.survival(frame, "time", "event", hue="quarter"),
        sf.plots.bar(frame, "level", hue="quarter"),
    ):
        assert len(plot.axes) == 4
        assert len({axes.get_xlim() for axes in plot.axes}) == 1


@given(st.lists(st.integers(0, 30), min_size=2, max_size=9), st.integers(3, 6))
def test_joined_categories_are_the_smallest_and_hold_k(counts, k):
    levels = [str(index) for index in range(len(counts))]
    members, names = _join_small(np.repeat(range(len(counts)), counts), levels, k)
    sums = np.bincount(members, counts, len(names))
    assert sums.sum() == sum(counts)
    assert ((sums == 0) | (sums >= min(k, sum(counts)))).all()
    if OTHER in names:
        joined = [count for count, bar in zip(counts, members, strict=True)
                  if names[bar] == OTHER]  # fmt: skip
        apart = [count for count, bar in zip(counts, members, strict=True)
                 if names[bar] != OTHER and count]  # fmt: skip
        assert max(joined) <= min(apart, default=31)


def test_bars_are_exact_rounded_or_noisy_and_of_k_records():
    rows = ["a"] * 33 + ["b"] * 12 + ["c"] * 4 + ["d"] * 2
    frame = pl.DataFrame({"level": rows})
    shown: dict[str, dict[str, int]] = {
        protection: dict(
            sf.plots.bar(frame, "level", protection=protection, share=False, key=KEY).table.rows()
        )
        for protection in NAMED
    }
    assert shown["suppress"] == {"a": 33, "b": 12, "c": 4}
    assert shown["generalise"] == {"a": 33, "b": 12, OTHER: 6}
    assert shown["deterministic"] == {"a": 35, "b": 10, "c": 5}
    assert min(shown["noise"].values()) >= 3
    again = sf.plots.bar(frame.reverse(), "level", protection="noise", share=False, key=bytes(32))
    assert dict(again.table.rows()).keys() <= {"a", "b", "c", "d"}
    with pytest.raises(sf.SfumatoError, match="draw a histogram"):
        sf.plots.bar(people(), "x")
