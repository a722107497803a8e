"""Names are untrusted: nothing breaks, nothing overlaps, nothing lies outside the sheet."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

import pytest
from tests.figures.custodian.samples import ALL, HOSTILE, PLAIN, WITH_NAMES, drawn, forest, inlined

from sfumato.figures.custodian import Picture
from sfumato.figures.sheet.style import use_house_style
from sfumato.figures.sheet.text import clean_name, wrap_name


def boxes(picture: Picture) -> dict[str, Any]:
    """Where each text stands that is really drawn, in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    found, draw = {}, Text.draw

    def watch(text: Text, renderer: Any) -> None:
        draw(text, renderer)
        box = text.get_window_extent()
        if text.get_text():
            found[f"{text.get_text()} {box.x0:.1f} {box.y0:.1f}"] = box

    with use_house_style(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", watch)
        FigureCanvasAgg(picture.figure).draw()
    return found


def assert_tidy(picture: Picture) -> None:
    found = boxes(picture)
    assert found
    sheet = picture.figure.bbox
    for name, box in found.items():
        assert box.x0 >= -1, name
        assert box.y0 >= -1, name
        assert box.x1 <= sheet.x1 + 1, name
        assert box.y1 <= sheet.y1 + 1, name
    for (one, a), (other, b) in combinations(found.items(), 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        along = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across < 1.5 or along < 1.5, (one, other)


@pytest.mark.parametrize("name", ALL)
def test_no_text_overlaps_another_or_leaves_the_sheet(name):
    assert_tidy(drawn(name))


@pytest.mark.parametrize("name", WITH_NAMES)
def test_hostile_names_break_nothing(name, tmp_path):
    picture = drawn(name, hostile=True)
    assert_tidy(picture)
    svgs = [inlined(name, hostile=True)]
    if name == "forest":
        svgs.append(picture.save(tmp_path / "x.svg").read_text(encoding="utf-8"))
        picture.save(tmp_path / "x.png")
        picture.save(tmp_path / "x.pdf")
    for svg in svgs:
        root = ET.fromstring(svg)  # noqa: S314 - our own file
        assert not [one for one in root.iter() if one.tag.endswith(("script", "b"))]
        assert "<script" not in svg


def test_an_svg_has_the_true_names():
    texts = "\n".join(ET.fromstring(inlined("forest", hostile=True)).itertext())  # noqa: S314
    for name in ('<script>alert("x")</scri', "$x_1$ and $\\frac{a}{b}$", "שלום", "年龄", "_hidden"):
        assert name in texts
    assert "\u202e" not in texts
    assert "(no name)" in texts
    assert "…" in texts


def test_long_names_are_wrapped_and_cut():
    assert wrap_name("short") == "short"
    assert wrap_name("a" * 30, width=20) == "a" * 20 + "\n" + "a" * 10
    assert wrap_name("a" * 90, width=20) == "a" * 20 + "\n" + "a" * 19 + "…"
    assert wrap_name("one two three", width=20, lines=1) == "one two three"
    assert all(len(line) <= 24 for one in HOSTILE for line in wrap_name(one).split("\n"))
    assert clean_name("a\tb\u2066c\x07") == "a b c"


def test_names_of_every_length_find_room():
    assert_tidy(forest([name * 3 for name in PLAIN]))
    assert_tidy(forest([f"term {at}" for at in range(40)]))
