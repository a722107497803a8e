"""What somebody who never saw Sfumato expects of a figure, and meets first."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import DataError, PlanError
from sfumato.figures.public import grid
from sfumato.figures.public.residuals import fit_local_lines
from sfumato.outputs import Log, OutputRefused, Rules

KEY = bytes(32)


def people(count: int = 400) -> pl.DataFrame:
    chance = np.random.default_rng(8)
    return pl.DataFrame(
        {
            "income": chance.lognormal(10.2, 0.5, count).round(2),
            "children": chance.poisson(1.5, count),
            "y": chance.normal(size=count),
            "smoking": chance.choice(["never", "former", "current"], count),
        }
    )


def declared(low: float, high: float) -> sf.Dataset:
    ordered = sf.Column(kind="ordinal", domain=("never", "former", "current"))
    income = sf.Column(kind="continuous", domain=(low, high))
    return sf.Dataset(people(), sf.Schema({"income": income, "smoking": ordered}))


@pytest.mark.parametrize("protection", ["suppress", "generalise", "deterministic", "noise"])
def test_a_wide_domain_leaves_a_shape_to_see(protection: str) -> None:
    """Income may be up to five million; nobody wants one bar."""
    made = sf.plots.histogram(declared(0, 5e6), "income", protection=protection, key=KEY)  # type: ignore[arg-type]
    assert made.table.height >= 8
    assert made.table["low"].min() >= 0  # type: ignore[operator]
    assert made.verdict == "pass"


def test_edges_stay_within_a_domain_and_off_the_extremes() -> None:
    chance = np.random.default_rng(1)
    for low, high in ((0.0, 1e6), (-1e6, 100.0), (0.3, 40.0), (0.0, 120.0)):
        values = np.clip(chance.gamma(2, 9, 500), low, high)
        cuts = grid.choose_edges(values, 30, domain=(low, high))
        assert low <= cuts[0]
        assert cuts[-1] <= high
        assert np.allclose(np.diff(cuts), cuts[1] - cuts[0])
        assert cuts[0] == low or cuts[0] != values.min()
        assert cuts[-1] == high or cuts[-1] != values.max()
        kept = grid.count_cells([values], [cuts]).sum()
        assert kept >= 0.99 * len(values)


def test_a_domain_of_whole_numbers_has_a_bar_for_each() -> None:
    values = np.random.default_rng(2).integers(0, 9, 300).astype(float)
    cuts = grid.choose_edges(values, 30, domain=(0.0, 8.0), whole=True)
    assert cuts.tolist() == [at - 0.5 for at in range(10)]


def test_groups_stand_in_their_declared_order() -> None:
    made = sf.plots.box(declared(0, 5e6), "income", by="smoking")
    order = made.table["group"].unique(maintain_order=True).to_list()
    assert order == ["never", "former", "current"]


def test_a_plot_keeps_the_rules_of_its_log() -> None:
    log = Log(rules=Rules(k=6))
    for made in (
        sf.plots.histogram(people(), "income", log=log),
        sf.plots.violin(people(), "income", log=log),
        sf.plots.scatter(people(), "income", "y", log=log),
        sf.plots.qq(people(), "income", log=log),
    ):
        assert made.rule["k"] == 6
    with pytest.raises(OutputRefused, match="k = 3"):
        sf.plots.histogram(people(), "income", k=3, log=log)
    assert sf.plots.histogram(people(), "income").rule["k"] == 3


def test_what_is_passed_by_mistake_is_said() -> None:
    data = people()
    with pytest.raises(PlanError, match="must be a Log"):
        sf.plots.histogram(data, "income", log="outputs")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="must be Rules"):
        sf.plots.histogram(data, "income", rules={"k": 5})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="names of its variables"):
        sf.plots.histogram(data, ["income"])  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="names of its variables"):
        sf.plots.box(data, [])
    with pytest.raises(PlanError, match="one variable"):
        sf.plots.histogram(data, "income", hue=["smoking"])  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="sd_share"):
        sf.plots.histogram(data, "income", protection="noise", sd_share="big")  # type: ignore[arg-type]


def test_dates_and_yes_or_no_are_told_what_to_do() -> None:
    day = dt.date(2001, 2, 3)
    data = people().with_columns(day=pl.lit(day), ill=pl.col("y") > 0)
    with pytest.raises(DataError, match="dates or times") as dates:
        sf.plots.histogram(data, "day")
    assert "year" in (dates.value.hint or "")
    with pytest.raises(DataError, match="yes/no") as yes:
        sf.plots.histogram(data, "ill")
    assert "crosstab" in (yes.value.hint or "")


def test_a_notebook_shows_what_may_leave_and_nothing_else() -> None:
    made = sf.plots.histogram(people(), "income")
    shown = made._repr_html_()
    assert shown is not None
    assert shown.startswith("<svg")
    inside = sf.plots.compare("box", people(), "income", key=KEY)
    assert inside._repr_html_() is None
    assert any("k = 3" in one.get_text() for one in inside.figure.texts)


def test_coinciding_centres_keep_the_colour_of_their_group() -> None:
    from matplotlib.colors import to_hex

    from sfumato.figures.sheet.style import VERMILION

    made = sf.plots.scatter(people(), "income", "y", hue="smoking", trend=False)
    for at, drawn in enumerate(made.axes[0].collections[3:]):
        colours = {to_hex(one) for one in np.asarray(drawn.get_edgecolor())}
        assert (VERMILION in colours) == (at == 1)


def test_the_line_of_a_qq_plot_goes_through_the_middle_whatever_the_protection() -> None:
    from matplotlib.lines import AxLine

    data = pl.DataFrame({"x": np.random.default_rng(5).normal(10, 2, 2000)})
    for protection in ("suppress", "generalise", "deterministic"):
        made = sf.plots.qq(data, "x", protection=protection)
        line = next(one for one in made.axes[0].lines if isinstance(one, AxLine))
        ends = np.array([line.get_xy1(), line.get_xy2()], float)
        width, height = ends[1] - ends[0]
        assert height / width == pytest.approx(2, abs=0.25)


def test_no_mean_is_drawn_where_nothing_is() -> None:
    chance = np.random.default_rng(3)
    x = np.concatenate([chance.normal(0, 0.1, 200), chance.normal(10, 0.1, 200)])
    found = fit_local_lines(x, chance.normal(size=400), np.ones(400), 3)
    assert found is not None
    assert not ((found[0] > 2) & (found[0] < 8)).any()


def test_tails_of_centres_are_not_cut_by_a_large_k() -> None:
    values = pl.DataFrame({"x": np.random.default_rng(4).normal(size=500)})
    wide = sf.plots.density(values, "x", protection="deterministic", k=50, small="show")
    small = sf.plots.density(values, "x", protection="deterministic", k=3, small="show")
    for made in (wide, small):
        assert made.table["value"].max() > 1.8  # type: ignore[operator]


def test_no_line_of_a_caption_begins_with_a_sign() -> None:
    made = sf.plots.box(people(), "income", by="smoking", protection="generalise")
    assert not any(one.get_text().startswith("%") for one in made.figure.texts)
