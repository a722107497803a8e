"""Scatter plots: centres, noise, and cells sized by count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, in_library

import sfumato as sf
from sfumato.errors import PlanError
from sfumato.figures.public import scatter
from sfumato.figures.public.scatter import MANY, fit_line

KEY = bytes(range(32))
CELLS = ("suppress", "generalise")


def frame(records: int = 300, seed: int = 1) -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    x = chance.normal(10, 0.5, records)
    sex = np.where(chance.random(records) < 0.4, "f", "m")
    return pl.DataFrame({"x": x, "y": x + chance.normal(size=records), "sex": sex})


def test_called_as_the_readme_says() -> None:
    made = scatter(frame(), x="x", y="y", protection="deterministic")
    assert made.verdict == "pass"
    assert made.table.height == 300
    assert scatter(frame(), "x", "y").rule["protection"] == "deterministic"


@pytest.mark.parametrize("protection", CELLS)
def test_cells_are_drawn_at_their_middle_with_their_count(protection: str) -> None:
    made = scatter(frame(), "x", "y", protection=protection)  # type: ignore[arg-type]
    assert made.table["records"].min() >= 3  # type: ignore[operator]
    drawn = next(one for one in made.axes[0].collections if np.size(one.get_offsets()))
    offsets = np.asarray(drawn.get_offsets())
    middle = (made.table["x_low"] + made.table["x_high"]).to_numpy() / 2
    assert offsets[:, 0] == pytest.approx(middle)
    sizes = drawn.get_sizes()  # type: ignore[attr-defined]
    assert sizes / sizes.max() == pytest.approx(made.table["records"] / made.table["records"].max())


def test_trend_is_weighted_by_the_counts() -> None:
    made = scatter(frame(), "x", "y", protection="generalise")
    table = made.table
    x = ((table["x_low"] + table["x_high"]) / 2).to_numpy()
    y = ((table["y_low"] + table["y_high"]) / 2).to_numpy()
    wanted = np.polyfit(x, y, 1, w=np.sqrt(table["records"].to_numpy()))
    assert made.details["trend"][0]["slope"] == pytest.approx(wanted[0])
    assert made.details["trend"][0]["intercept"] == pytest.approx(wanted[1])
    assert scatter(frame(), "x", "y", trend=False).details["trend"] == []


def test_no_line_where_x_does_not_vary() -> None:
    assert fit_line(np.ones(3), np.arange(3.0), np.ones(3)) is None


@given(st.integers(0, 1000), st.sampled_from(["suppress", "generalise", "deterministic", "noise"]))
@settings(max_examples=12)
def test_same_table_for_any_order(seed: int, protection: str) -> None:
    data = frame(200, seed)
    mixed = data.sample(fraction=1, shuffle=True, seed=seed)
    one, two = (scatter(it, "x", "y", protection=protection, key=KEY) for it in (data, mixed))  # type: ignore[arg-type]
    assert one.table.equals(two.table)
    assert one.details == two.details


@pytest.mark.parametrize("protection", ["suppress", "deterministic", "noise"])
def test_same_bytes_for_any_order_and_library(protection: str, tmp_path: Path) -> None:
    data = frame()
    made = scatter(data, "x", "y", hue="sex", protection=protection, key=KEY)  # type: ignore[arg-type]
    first = made.save(tmp_path / "first.svg").read_bytes()
    mixed = data.sample(fraction=1, shuffle=True, seed=3)
    again = scatter(mixed, "x", "y", hue="sex", protection=protection, key=KEY)  # type: ignore[arg-type]
    assert again.save(tmp_path / "again.svg").read_bytes() == first
    for library in LIBRARIES[1:]:
        other = in_library(data, library)
        found = scatter(other, "x", "y", hue="sex", protection=protection, key=KEY)  # type: ignore[arg-type]
        assert found.table.equals(made.table)


def test_noise_follows_the_key() -> None:
    one, two = (scatter(frame(), "x", "y", protection="noise", key=KEY) for _ in range(2))
    other = scatter(frame(), "x", "y", protection="noise", key=bytes(32))
    assert one.table.equals(two.table)
    assert not one.table.equals(other.table)
    assert "flatter" in one.description
    assert scatter(frame(), "x", "y", protection="noise").verdict == "review"


def test_groups_are_protected_by_themselves() -> None:
    """A centre never mixes two groups: each group alone gives the same centres."""
    data = frame()
    both = scatter(data, "x", "y", hue="sex")
    for level in ("f", "m"):
        alone = scatter(data.filter(pl.col("sex") == level), "x", "y")
        told = both.table.filter(pl.col("group") == level).drop("group")
        assert told.equals(alone.table)


def test_coinciding_centres_are_in_the_legend() -> None:
    made = scatter(frame(), "x", "y")
    (legend,) = made.figure.legends
    assert "Several at the same place" in [one.get_text() for one in legend.get_texts()]


def test_many_points_become_a_grid_and_say_so() -> None:
    made = scatter(frame(MANY + 1), "x", "y", protection="noise", key=KEY)
    assert "fine grid of counts" in made.description
    assert made.table["records"].min() >= 3  # type: ignore[operator]
    assert made.rule["bins"] <= 150
    shown = scatter(frame(MANY + 1), "x", "y", protection="noise", key=KEY, small="show")
    assert shown.verdict == "review"
    assert shown.table["records"].sum() > made.table["records"].sum()


def test_points_are_pixels_that_suit_dark_pages(tmp_path: Path) -> None:
    made = scatter(frame(), "x", "y")
    svg = made.save(tmp_path / "points.svg").read_text()
    assert "<image" in svg
    assert len(svg) < 150_000
    assert "fill: #ffffff" not in made.svg()
    assert "currentColor" in made.svg()


def test_declared_domain_ends_the_cloud() -> None:
    chance = np.random.default_rng(3)
    data = pl.DataFrame({"a": chance.beta(0.5, 0.5, 300), "b": chance.beta(5, 2, 300)})
    column = sf.Column(kind="continuous", domain=(0.0, 1.0))
    made = scatter(sf.Dataset(data, sf.Schema({"a": column, "b": column})), "a", "b",
                   protection="noise", key=KEY)  # fmt: skip
    drawn = made.table["x"].to_numpy()
    assert 0 <= drawn.min() < drawn.max() <= 1
    assert "mirrored" in made.description


def test_odd_requests() -> None:
    with pytest.raises(PlanError, match="same variable"):
        scatter(frame(), "x", "x")
    with pytest.raises(PlanError, match="two pairs"):
        scatter(frame(), "x", "y", limits=3)  # type: ignore[arg-type]
    made = scatter(frame(), "x", "y", limits=((8, 12), None))
    assert made.axes[0].get_xlim() == (8, 12)
