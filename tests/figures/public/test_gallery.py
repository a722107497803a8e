"""The gallery of the docs: all figures are there, small, shown, and made by the command."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tools import gallery, gallery_panels

from sfumato.figures.public import heatmap

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "gallery.md"
MOST_BYTES = 150_000


@pytest.mark.parametrize("sheet", gallery.SHEETS, ids=lambda one: str(one.number))
def test_every_figure_is_in_the_docs_and_small(sheet: gallery.Sheet) -> None:
    path = f"assets/gallery/figure-{sheet.number:02}.svg"
    assert path in PAGE.read_text()
    assert f"*Figure {sheet.number}.*" in PAGE.read_text()
    made = (ROOT / "docs" / path).read_text()
    assert len(made) < MOST_BYTES
    assert "<script" not in made


def test_all_figures_of_the_paper() -> None:
    assert sorted(one.number for one in gallery.SHEETS) == list(range(1, 22))
    assert {len(one.ways) for one in gallery.SHEETS} == {5}


def test_the_command_makes_a_figure(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_DATA", str(shared_data))
    assert gallery.main(["--figures", "4", "--out", str(tmp_path)]) == 0
    made = tmp_path / "figure-04.svg"
    assert made.read_bytes() == (ROOT / "docs/assets/gallery/figure-04.svg").read_bytes()


def test_a_table_is_enough_to_draw_the_grid_again() -> None:
    data = pl.DataFrame({"x": [float(at % 17) for at in range(300)],
                         "y": [float(at % 13) for at in range(300)]})  # fmt: skip
    table = heatmap(data, "x", "y", bins=6).table
    grid = gallery_panels.gridded(table)
    assert grid.counts.sum() == table["records"].sum()
    assert (grid.counts > 0).sum() == table.height
