"""Avraam et al. (2021), EPJ Data Science 10:2: its figures on data drawn as its section 3 says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.figures import public as plots
from sfumato.outputs import OutputRefused, Rules

KEY = bytes(range(32))
PAIRS = [("x1", "y1"), ("x2", "y2"), ("x3", "y3")]
LOOSE = Rules(noise=0.01)
"""The paper also tries less noise than a house would let out."""


@pytest.fixture(scope="module")
def visual(shared_data: Path) -> pl.DataFrame:
    return pl.read_csv(shared_data / "visual.csv")


def ends(data: pl.DataFrame, *names: str) -> Any:
    """The data's own range, as in the paper. The verdict is "review" then."""
    return tuple((data[name].min(), data[name].max()) for name in names)


def heat(data: pl.DataFrame, bins: int, **more: Any) -> plots.Plot:
    limits = ends(data, "x1", "y1")
    return plots.heatmap(data, "x1", "y1", protection="suppress", bins=bins, limits=limits, **more)


@pytest.mark.parametrize(("bins", "hidden"), [(30, 187), (15, 53)])
def test_suppressed_cells_of_d1(visual: pl.DataFrame, bins: int, hidden: int) -> None:
    made = heat(visual, bins)
    assert (made.details["cells"], made.details["suppressed"]) == (bins * bins, hidden)
    assert made.verdict == "review"
    dots = plots.scatter(visual, "x1", "y1", protection="suppress", bins=bins,
                         limits=ends(visual, "x1", "y1"))  # fmt: skip
    assert dots.details["suppressed"] == hidden


def test_centres_raise_the_correlation_with_k(visual: pl.DataFrame) -> None:
    """Figure 12: from 0.53 in the data to 0.66 at k = 50."""
    data = sf.Dataset(visual.select("x1", "y1"))
    centres = sf.methods.Deterministic(variables=["x1", "y1"], k=50).apply(data).frame
    pairs = (data.frame.to_numpy().T, centres.to_numpy().T)
    assert [round(np.corrcoef(pair)[0, 1], 4) for pair in pairs] == [0.5292, 0.6591]


def test_what_is_hidden_grows_with_k(visual: pl.DataFrame) -> None:
    """Figures 8 and 9: k = 3, 5, 7 and 9, on the fine and on the coarse grid."""
    for bins, ways in ((30, (3, 5, 7)), (15, (3, 5, 7, 9))):
        shown = [int(heat(visual, bins, k=k).table["records"].sum()) for k in ways]
        assert all(a > b for a, b in pairwise(shown))
    # In the end nothing is left of the fine grid.
    most = heat(visual, 30).table["records"].to_numpy().max()
    assert most < 12
    with pytest.raises(OutputRefused, match="Not one cell"):
        heat(visual, 30, k=int(most) + 1)


def test_what_is_hidden_shrinks_with_n(visual: pl.DataFrame) -> None:
    """Figures 16, 18, 20: of 50 records hardly anything is left, of 500 most on a coarse grid."""
    shares = []
    for records in (50, 100, 300, 500):
        data = visual.head(records)
        made = plots.heatmap(data, "x1", "y1", protection="suppress", bins=15,
                             limits=ends(data, "x1", "y1"))  # fmt: skip
        shares.append(int(made.table["records"].sum()) / records)
    assert all(a < b for a, b in pairwise(shares))
    assert shares[0] < 0.5 < shares[-1]


@pytest.mark.parametrize(("x", "y"), PAIRS)
@pytest.mark.parametrize("k", [3, 5, 10, 20, 50])
def test_centres_keep_means_spreads_and_correlations(
    visual: pl.DataFrame, x: str, y: str, k: int
) -> None:
    made = plots.scatter(visual, x, y, protection="deterministic", k=k).table
    for name, drawn in ((x, "x"), (y, "y")):
        original, shown = visual[name].to_numpy(), made[drawn].to_numpy()
        # The centres are stretched back to the spread; their mean moves where the cloud is skew.
        sd = original.std(ddof=1)
        # Points have four digits of their range: no SD moves by more than half a step of these.
        step = 10.0 ** (np.floor(np.log10(np.ptp(shown))) - 3)
        assert shown.std(ddof=1) == pytest.approx(sd, rel=1e-9, abs=0.501 * step)
        assert shown.mean() == pytest.approx(original.mean(), abs=(0.01 if k <= 5 else 0.06) * sd)
    before, after = (np.corrcoef(one)[0, 1] for one in (_both(visual, x, y), _both(made, "x", "y")))
    # Averaging neighbours brings out the line, the more the larger k is.
    assert after == pytest.approx(before, abs=0.025 if k <= 5 else 0.14)


def _both(data: pl.DataFrame, x: str, y: str) -> np.ndarray:
    return np.stack([data[x].to_numpy(), data[y].to_numpy()])


@pytest.mark.parametrize(("x", "y"), PAIRS)
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 1.0, np.sqrt(2)])
def test_noise_widens_by_what_it_says(visual: pl.DataFrame, x: str, y: str, share: float) -> None:
    """Variance grows by 1 + q², covariance stays: correlation falls by as much (Figure 14)."""
    # Below 0, since noise that makes a number negative that cannot be is mirrored.
    moved = visual.select(pl.all() - 100)
    made = plots.scatter(moved, x, y, protection="noise", sd_share=share, key=KEY, rules=LOOSE)
    before, after = _both(moved, x, y), _both(made.table, "x", "y")
    wider = 1 + share**2
    error = 4 * np.sqrt(wider / 500)  # four standard errors of a mean of 500
    for one, two in zip(before, after, strict=True):
        sd = one.std(ddof=1)
        assert two.mean() == pytest.approx(one.mean(), abs=error * sd)
        assert two.var(ddof=1) / sd**2 == pytest.approx(wider, rel=4 * np.sqrt(2 / 500) * wider)
    wanted = np.corrcoef(before)[0, 1] / wider
    assert np.corrcoef(after)[0, 1] == pytest.approx(wanted, abs=4 / np.sqrt(500))


def test_trend_of_d1_is_kept(visual: pl.DataFrame) -> None:
    """Figure 2 (A): the grey lines lie close to the red one."""
    true = np.polyfit(visual["x1"], visual["y1"], 1)[0]
    limits = ends(visual, "x1", "y1")
    told: dict[str, Any] = {"key": KEY}
    slopes = {
        way: plots.scatter(
            visual, "x1", "y1", protection=way, limits=limits if "s" in way[:1] else None, **told
        ).details["trend"][0]["slope"]
        for way in ("suppress", "generalise", "deterministic", "noise")
    }
    assert slopes["deterministic"] == pytest.approx(true, rel=0.1)
    assert slopes["generalise"] == pytest.approx(true, rel=0.15)
    assert slopes["noise"] == pytest.approx(true / (1 + 0.25**2), rel=0.15)
    # Hiding single records flattens the cloud, as the paper finds.
    assert 0.5 * true < slopes["suppress"] < 1.1 * true


@pytest.mark.parametrize("name", ["x1", "y1", "x2", "y2", "x3", "y3"])
def test_histograms_keep_the_shape(visual: pl.DataFrame, name: str) -> None:
    """Figure 1: mean and spread read off the bars, for each protection."""
    values = visual[name].to_numpy()
    wide: dict[Any, float] = {
        "suppress": 1.0,
        "generalise": 1.0,
        "deterministic": 1.0,
        "noise": 1.0625,
    }
    for way, variance in wide.items():
        table = plots.histogram(visual, name, protection=way, key=KEY).table
        middle = ((table["low"] + table["high"]) / 2).to_numpy()
        mass = (table["density"] * (table["high"] - table["low"])).to_numpy()
        mean = (middle * mass).sum()
        sd = np.sqrt(((middle - mean) ** 2 * mass).sum())
        assert mean == pytest.approx(values.mean(), abs=0.1 * values.std())
        # Hiding small bars cuts long tails, as the paper warns: the bars of noisy values as well.
        near = 0.15 if way in ("suppress", "noise") else 0.1
        assert sd == pytest.approx(values.std() * np.sqrt(variance), rel=near)


def test_coinciding_centres_grow_rare_with_k(visual: pl.DataFrame) -> None:
    """Figure 12 (A): fewer of them as k grows."""
    shares = []
    for k in (3, 5, 10, 20):
        table = plots.scatter(visual, "x1", "y1", protection="deterministic", k=k).table
        shares.append(table.is_duplicated().sum())
    assert all(a > b for a, b in pairwise(shares))
