"""Heat maps: cells of at least k values, colours from protected counts alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.figures.public import heatmap
from sfumato.outputs import Rules
from sfumato.outputs.output import OutputRefused

KEY = bytes(range(32))


def frame(records: int = 300, seed: int = 1) -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    x = chance.normal(10, 0.5, records)
    sex = np.where(chance.random(records) < 0.4, "f", "m")
    return pl.DataFrame({"x": x, "y": x + chance.normal(size=records), "sex": sex})


@given(
    st.integers(0, 1000),
    st.sampled_from(["suppress", "generalise", "deterministic", "noise"]),
    st.integers(3, 6),
)
@settings(max_examples=12)
def test_every_cell_holds_at_least_k(seed: int, protection: str, k: int) -> None:
    data = frame(200, seed)
    mixed = data.sample(fraction=1, shuffle=True, seed=seed)
    made, again = (
        heatmap(one, "x", "y", protection=protection, k=k, key=KEY)  # type: ignore[arg-type]
        for one in (data, mixed)
    )
    assert made.table["records"].min() >= k  # type: ignore[operator]
    assert made.table.equals(again.table)
    if protection in ("suppress", "generalise"):
        brute = [
            data.filter(
                pl.col("x").is_between(a, b, closed="left"), pl.col("y").is_between(c, d, "left")
            ).height
            for a, b, c, d, _ in made.table.head(8).rows()
        ]
        assert brute == made.table["records"].head(8).to_list()


def test_colours_come_from_the_cells_shown() -> None:
    made = heatmap(frame(), "x", "y", bins=20)
    mesh = made.axes[0].collections[0]
    held: np.ndarray = np.ma.filled(np.ma.asarray(mesh.get_array(), float), np.nan)
    assert np.nanmin(held) >= 3
    assert mesh.get_clim() == (0, made.table["records"].max())


def test_default_is_a_coarse_grid_and_says_why() -> None:
    made = heatmap(frame(), "x", "y")
    assert made.rule["protection"] == "generalise"
    assert made.rule["bins"] <= 15
    assert "Wide cells were chosen" in made.description
    assert made.details["suppressed"] > 0


def test_groups_have_panels_of_their_own() -> None:
    made = heatmap(frame(), "x", "y", hue="sex")
    assert len(made.axes) == 2
    assert made.axes[0].get_xlim() == made.axes[1].get_xlim()
    assert made.table["records"].min() >= 3  # type: ignore[operator]


def test_same_bytes_and_small_files(tmp_path: Path) -> None:
    one = heatmap(frame(), "x", "y").save(tmp_path / "one.svg").read_bytes()
    mixed = frame().sample(fraction=1, shuffle=True, seed=2)
    assert heatmap(mixed, "x", "y").save(tmp_path / "two.svg").read_bytes() == one
    assert len(one) < 100_000
    assert "fill: #ffffff" not in heatmap(frame(), "x", "y").svg()


def test_refusals() -> None:
    with pytest.raises(OutputRefused, match="finer"):
        heatmap(frame(60), "x", "y", bins=30)
    lonely = pl.DataFrame({"x": np.linspace(0, 1, 30), "y": np.linspace(0, 1, 30) ** 2})
    with pytest.raises(OutputRefused, match="Not one cell"):
        heatmap(lonely, "x", "y", k=9, bins=10)
    assert heatmap(lonely, "x", "y", k=5, rules=Rules(full="show")).rule["bins"] < 10
