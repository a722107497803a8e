"""No file, table or artist of any plot holds an original value, an extreme or a small count."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.figures.public import leaks

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.figures import public as plots
from sfumato.figures.sheet import style

K = 3
PROTECTIONS = ("suppress", "generalise", "deterministic", "noise", "method")
NOT_PUBLIC = {"Plot", "compare", "gallery"}
"""What is no plot, and what is for the custodian only."""


def people() -> pl.DataFrame:
    """Continuous values, so that no two are alike; some lie far out."""
    chance = np.random.default_rng(20260101)
    x = chance.normal(50.123, 9.87, 240)
    y = x * 0.71 + chance.normal(3.21, 5.43, 240)
    x[:2], y[2:4] = [131.713, 7.3311], [171.9193, -61.4471]
    time = chance.exponential(3.777, 240)
    return pl.DataFrame(
        {
            "x": x,
            "y": y,
            "time": time,
            "event": (chance.random(240) < 0.7).astype(int),
            "group": np.where(chance.random(240) < 0.4, "left", "right"),
        }
    )


PEOPLE = people()


@cache
def model() -> Any:
    import statsmodels.formula.api as smf

    return smf.ols("y ~ x", PEOPLE.to_pandas()).fit()


CALLS: dict[str, Callable[..., Any]] = {
    "bar": lambda **told: plots.bar(PEOPLE, "group", **told),
    "histogram": lambda **told: plots.histogram(PEOPLE, "x", **told),
    "scatter": lambda **told: plots.scatter(PEOPLE, "x", "y", **told),
    "heatmap": lambda **told: plots.heatmap(PEOPLE, "x", "y", **told),
    "contour": lambda **told: plots.contour(PEOPLE, "x", "y", **told),
    "box": lambda **told: plots.box(PEOPLE, ["x", "y"], **told),
    "violin": lambda **told: plots.violin(PEOPLE, "x", **told),
    "density": lambda **told: plots.density(PEOPLE, "x", **told),
    "survival": lambda **told: plots.survival(PEOPLE, "time", "event", **told),
    "residuals": lambda **told: plots.residuals(model(), **told),
    "qq": lambda **told: plots.qq(model(), **told),
    "leverage": lambda **told: plots.leverage(model(), **told),
    "forest": lambda **told: plots.forest(model(), **told),
}
DRAWN = {
    "survival": ["time"],
    "histogram": ["x"],
    "violin": ["x"],
    "density": ["x"],
    "residuals": ["fitted", "residual"],
    "leverage": ["leverage", "standardised"],
}
"""What a method by hand must protect."""
SHOWN = sorted(set(plots.__all__) - NOT_PUBLIC)
REFUSED = {("forest", one) for one in PROTECTIONS[1:]} | {("qq", "method"), ("bar", "method")}
"""Coefficients are not moved; and of residuals and categories the method by hand knows nothing."""
COMBINED = [(name, one) for name in SHOWN for one in PROTECTIONS if (name, one) not in REFUSED]


def test_every_plot_is_tested_for_leaks() -> None:
    assert set(SHOWN) == set(CALLS)


def drawn(name: str, protection: str, hue: str = "") -> Any:
    """The plot of a combination that is not refused."""
    found = _drawn(name, protection, hue)
    assert not isinstance(found, str), found
    return found


@pytest.mark.parametrize(("name", "protection"), sorted(REFUSED))
def test_what_is_refused_shows_nothing(name: str, protection: str) -> None:
    assert isinstance(_drawn(name, protection, ""), str)


@cache
def _drawn(name: str, protection: str, hue: str) -> Any:
    if find_spec(f"sfumato.figures.public.{name}") is None:
        return f"{name} is not there yet"
    takes = inspect.signature(getattr(plots, name)).parameters
    told: dict[str, Any] = {}
    if "protection" in takes:
        variables = DRAWN.get(name, ["x", "y"])
        by_hand = sf.methods.Deterministic(variables=variables, k=5)
        told = {"protection": by_hand if protection == "method" else protection, "k": K}
        told |= {"key": bytes(range(32))} if "key" in takes else {}
    elif protection != "suppress":
        return "it has one protection only"
    try:
        return CALLS[name](**told, **({"hue": hue} if hue else {}))
    except SfumatoError as error:
        return f"refused: {error.what}"


@cache
def original_of(name: str) -> np.ndarray:
    """The values nobody may find: the variables drawn, and for a model all it is made of."""
    if name in ("residuals", "qq", "leverage", "forest"):
        found = model()
        influence = found.get_influence()
        parts = [PEOPLE["x"], PEOPLE["y"], found.resid, found.fittedvalues,
                 influence.resid_studentized_internal, influence.hat_matrix_diag]  # fmt: skip
        return np.concatenate([np.asarray(one, float) for one in parts])
    return np.concatenate([PEOPLE[one].to_numpy() for one in DRAWN.get(name, ["x", "y"])])


def check_text(text: str, original: np.ndarray, where: str) -> None:
    """No original value stands in a text, to eight digits; to five where it is words."""
    found = leaks.numbers_in(text)
    exact = leaks.same(found, original, digits=1e-8)
    assert not len(exact), f"{where} holds {len(exact)} original values"
    # Words are few, so that five digits are no chance.
    rough = leaks.same(leaks.numbers_in(leaks.words_in(text)), original, digits=1e-5)
    assert not len(rough), f"{where} tells {len(rough)} original values"


@pytest.mark.parametrize(("name", "protection"), COMBINED)
def test_no_output_holds_an_original_value(name: str, protection: str, tmp_path: Path) -> None:
    made = drawn(name, protection)
    original = original_of(name)
    assert made.audience == "public"
    for artist, values in leaks.held_by(made.figure):
        assert not len(leaks.same(values, original)), artist
    check_table(made, original, tmp_path)
    svg = leaks.without_images(made.save(tmp_path / "figure.svg").read_text())
    check_text(svg, original, "svg")
    check_text(leaks.without_images(made.svg()), original, "svg()")
    words = f"{made.caption} {made.description} {made.title} {made.rule} {made.reasons}"
    check_text(words, original, "words")
    check_places(made, name, svg)


@pytest.mark.parametrize(("name", "protection"), COMBINED)
def test_no_pdf_and_no_png_does(
    name: str, protection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other way to embed fonts is four times as fast, and all else is the same.
    monkeypatch.setitem(style._SETTINGS, "pdf.fonttype", 3)
    monkeypatch.setitem(style._SETTINGS, "savefig.dpi", 100)
    made = drawn(name, protection)
    original = original_of(name)
    pdf = leaks.pdf_text(made.save(tmp_path / "figure.pdf").read_bytes())
    assert made.title.split()[0] in leaks.words_in(pdf)  # the words are found at all
    check_text(pdf, original, "pdf")
    parts = leaks.png_parts(made.save(tmp_path / "figure.png").read_bytes())
    assert {kind for kind, _ in parts} <= leaks.PNG_CHUNKS
    for kind, held in parts:
        if kind == b"tEXt":
            assert held.split(b"\0")[0] in (b"Title", b"Comment")
            check_text(held.decode("latin-1"), original, "png")


def check_table(made: Any, original: np.ndarray, tmp_path: Path) -> None:
    """The exported table: no original value, no count below k, never the key."""
    told = made.table.select(pl.selectors.numeric()).to_numpy().ravel().astype(float)
    assert not len(leaks.same(told, original))
    for column in ("records", "n", "count", "at_risk"):
        if column in made.table.columns:
            counts = made.table[column].drop_nulls()
            assert not len(counts) or counts.min() >= K, column
    for kind in ("csv", "json"):
        text = made.export(tmp_path / f"table.{kind}").read_text()
        check_text(text, original, kind)
    assert "key" not in made.rule


def check_places(made: Any, name: str, svg: str) -> None:
    """No path goes through the place where an original record would stand."""
    if name not in ("scatter", "heatmap", "contour"):
        return
    axes = made.axes[0]
    places = np.column_stack([PEOPLE["x"], PEOPLE["y"]])
    pixels = axes.transData.transform(places) * 72 / made.figure.dpi
    height = made.figure.get_size_inches()[1] * 72
    pixels[:, 1] = height - pixels[:, 1]
    corners = leaks.vertices_in(svg)
    away = np.abs(corners[:, None, :] - pixels[None, :, :]).max(axis=2)
    assert (away > 0.004).all()


@pytest.mark.parametrize("name", SHOWN)
def test_axes_end_at_no_extreme(name: str) -> None:
    original = original_of(name)
    made = [_drawn(name, protection, "") for protection in PROTECTIONS[:4]]
    shown = [one for one in made if not isinstance(one, str)]
    if find_spec(f"sfumato.figures.public.{name}") is not None:
        assert shown, "a plot that is always refused is none"
    for one in shown:
        for axes in one.axes:
            limits = np.array([*axes.get_xlim(), *axes.get_ylim()])
            assert not len(leaks.same(limits, original, digits=1e-6))


@pytest.mark.parametrize("name", ["histogram", "scatter", "heatmap", "contour", "density"])
def test_groups_hold_no_original_value_either(name: str, tmp_path: Path) -> None:
    for protection in PROTECTIONS[:4]:
        made = drawn(name, protection, hue="group")
        original = original_of(name)
        for artist, values in leaks.held_by(made.figure):
            assert not len(leaks.same(values, original)), artist
        text = made.save(tmp_path / f"{protection}.svg").read_text()
        check_text(leaks.without_images(text), original, "svg")


def test_the_scan_finds_what_it_looks_for(tmp_path: Path) -> None:
    """A careless figure, as matplotlib alone makes it, is caught in every way."""
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot(PEOPLE["x"], PEOPLE["y"], "o")
    highest = float(PEOPLE["x"].to_numpy().max())
    axes.set_title(f"highest {highest}")
    original = original_of("scatter")
    assert any(len(leaks.same(values, original)) for _, values in leaks.held_by(figure))
    figure.savefig(tmp_path / "raw.pdf")
    with pytest.raises(AssertionError):
        check_text(leaks.pdf_text((tmp_path / "raw.pdf").read_bytes()), PEOPLE["x"].to_numpy(), "")
    figure.savefig(tmp_path / "raw.svg")
    svg = (tmp_path / "raw.svg").read_text()
    with pytest.raises(AssertionError):
        check_text(svg.replace("\n", ""), np.array([highest]), "")


def test_a_method_that_moves_nobody_stays_inside(tmp_path: Path) -> None:
    """Noise of next to nothing is the original; the figure says so and is nobody else's."""
    nothing = sf.methods.Noise(variables=["x", "y"], sd_share=1e-9)
    made = plots.scatter(PEOPLE, "x", "y", protection=nothing)
    assert (made.audience, made.verdict) == ("custodian", "refuse")
    assert "Inside only" in made.stamp
    path = made.save(tmp_path / "inside.svg")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "Inside only" in path.read_text()
