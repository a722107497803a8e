"""The custodian's panel: all kinds of plots, never public, never passed."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest
from tests.figures.public.calls import CALLS, model_of

import sfumato as sf
from sfumato.errors import PlanError
from sfumato.figures.public.compare import KINDS, PANELS
from sfumato.outputs.output import OutputRefused

KEY = bytes(range(32))


def people(n: int = 150) -> pl.DataFrame:
    chance = np.random.default_rng(12)
    x = chance.normal(50, 10, n)
    return pl.DataFrame(
        {
            "x": x,
            "y": 0.7 * x + chance.normal(0, 5, n),
            "time": chance.exponential(4.0, n),
            "event": (chance.random(n) < 0.7).astype(int),
            "group": chance.choice(["left", "right"], n),
        }
    )


NAMED = {
    "box": ("x",), "violin": ("x",), "density": ("x",), "histogram": ("x",),
    "scatter": ("x", "y"), "heatmap": ("x", "y"), "contour": ("x", "y"),
    "survival": ("time", "event"), "residuals": (), "qq": (), "leverage": (),
}  # fmt: skip


@cache
def compared(kind):
    data = people() if NAMED[kind] else model_of(people())
    return sf.plots.compare(kind, data, *NAMED[kind], key=KEY)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_shown_in_five_panels_and_stays_inside(kind):
    made = compared(kind)
    assert len(made.axes) == len(PANELS) == 5
    assert set(made.table["panel"]) == set(PANELS)
    assert made.audience == "custodian"
    assert made.verdict == "refuse"
    assert made.stamp.startswith("Inside only")


def test_its_files_can_be_read_by_their_owner_only(tmp_path):
    made = compared("scatter")
    path = made.save(tmp_path / "panel.png")
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.export(tmp_path / "panel.csv").stat().st_mode & 0o777 == 0o600


def test_the_first_panel_shows_the_original():
    frame = people()
    made = compared("scatter").table
    drawn = made.filter(pl.col("panel") == "original").sort("x")
    # Points are exported to the digits that a figure can show: here two after the point.
    assert drawn["x"].to_numpy() == pytest.approx(frame["x"].sort().to_numpy(), abs=0.005)
    lives = compared("survival").table
    drawn = lives.filter(pl.col("panel") == "original")
    events = frame.filter(pl.col("event") == 1)["time"].n_unique()
    assert drawn.height == events + 1


def test_a_log_lists_it_as_refused():
    log = sf.outputs.Log()
    sf.plots.compare("histogram", people(), "x", key=KEY, log=log)
    (entry,) = log
    assert entry.verdict == "refuse"
    assert "must not leave" in entry.reasons[0]


def test_a_protection_that_is_refused_leaves_a_panel_that_says_so():
    # Two ends without the event are too few to be moved.
    frame = people().with_columns(event=(pl.int_range(pl.len()) > 1).cast(pl.Int8))
    made = sf.plots.compare("survival", frame, "time", "event", key=KEY)
    assert set(made.table["panel"]) == {"original", "suppress", "generalise"}
    said = [text.get_text() for axes in made.axes for text in axes.texts]
    assert any("Refused" in one for one in said)


def test_groups_and_further_words_are_handed_on():
    made = sf.plots.compare("box", people(), "x", by="group", key=KEY, title="Odd $title$")
    assert set(made.table["group"]) == {"left", "right"}
    assert made.title == "Odd $title$"


def test_what_cannot_be_compared_is_told():
    with pytest.raises(PlanError, match="did you mean 'scatter'"):
        sf.plots.compare("scater", people(), "x", "y")
    with pytest.raises(PlanError, match="takes no 'hu'"):
        sf.plots.compare("histogram", people(), "x", hu="group")
    with pytest.raises(PlanError, match="takes no 'small'"):
        sf.plots.compare("histogram", people(), "x", small="show")


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_plot_says_why_it_is_protected_so_when_nobody_chose(name):
    chosen = CALLS[name](people(), None)
    assert chosen.verdict == "pass"
    assert len(chosen.caption) > 60


def test_coefficients_are_never_noised():
    with pytest.raises(OutputRefused, match="neither moved nor noised"):
        CALLS["forest"](people(), "noise")
