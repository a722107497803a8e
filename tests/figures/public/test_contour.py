"""Contours: lines made from protected cells alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sfumato.errors import PlanError
from sfumato.figures.public import contour
from sfumato.figures.public.contour import smooth_grid
from sfumato.figures.public.grid import Grid


def frame(records: int = 300, seed: int = 1) -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    x = chance.normal(10, 0.5, records)
    sex = np.where(chance.random(records) < 0.4, "f", "m")
    return pl.DataFrame({"x": x, "y": x + chance.normal(size=records), "sex": sex})


def test_hidden_records_have_no_part_in_the_lines(tmp_path: Path) -> None:
    """Moving a record that is alone in its cell to another lonely place changes no byte."""
    base = frame()
    lonely = [
        pl.DataFrame({"x": [x], "y": [y], "sex": ["f"]}) for x, y in ((8.1, 13.3), (12.2, 6.1))
    ]
    limits = ((8.0, 12.5), (5.0, 15.0))
    made = [
        contour(pl.concat([base, one]), "x", "y", limits=limits, bins=15).save(
            tmp_path / f"{at}.svg"
        )
        for at, one in enumerate(lonely)
    ]
    assert made[0].read_bytes() == made[1].read_bytes()


def test_surface_is_a_density() -> None:
    counts = np.zeros((12, 9), np.int64)
    counts[4:8, 3:6] = 5
    grid = Grid(label="", x=np.linspace(0, 6, 13), y=np.linspace(0, 3, 10), counts=counts,
                hidden=0, records=60)  # fmt: skip
    for smooth in (0.0, 0.6):
        x, y, density = smooth_grid(grid, smooth)
        assert density.shape == (len(x), len(y))
        assert density.sum() * (x[1] - x[0]) * (y[1] - y[0]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("protection", ["suppress", "generalise", "deterministic", "noise"])
def test_same_bytes_for_any_order(protection: str, tmp_path: Path) -> None:
    mixed = frame().sample(fraction=1, shuffle=True, seed=2)
    made = [
        contour(one, "x", "y", protection=protection, key=bytes(32)).save(tmp_path / f"{at}.svg")  # type: ignore[arg-type]
        for at, one in enumerate((frame(), mixed))
    ]
    assert made[0].read_bytes() == made[1].read_bytes()


def test_levels_groups_and_odd_requests() -> None:
    made = contour(frame(), "x", "y", hue="sex", levels=3, smooth=0)
    assert len(made.axes) == 2
    assert made.rule["levels"] == 3
    for odd in ({"levels": 0}, {"smooth": -1.0}):
        with pytest.raises(PlanError, match="levels"):
            contour(frame(), "x", "y", **odd)


def test_no_density_where_no_value_can_be() -> None:
    """Fares begin at 0, where most are: the areas end there, and none of the density is lost."""
    fares = np.random.default_rng(1).exponential(20, 2000)
    data = pl.DataFrame({"fare": fares, "age": np.linspace(20, 60, 2000)})
    made = contour(data, "fare", "age", protection="generalise")
    axes = made.axes[0]
    assert axes.get_xlim()[0] == 0
    assert axes.get_ylim()[0] < 20
    counts = np.array([[8, 8], [4, 4], [0, 0]])
    grid = Grid(label="", x=np.linspace(0, 3, 4), y=np.linspace(5, 7, 3), counts=counts,
                hidden=0, records=24)  # fmt: skip
    x, _, free = smooth_grid(grid, 1.0)
    _, _, ended = smooth_grid(grid, 1.0, ((0.0, np.inf), (-np.inf, np.inf)))
    inside = x > 0
    assert ended[inside].sum() == pytest.approx(free.sum(), rel=0.02)
    assert free[inside].sum() < 0.8 * free.sum()
