"""Pictures of several releases: by what is known, by plan, and over two parameters."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import polars as pl
import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from tests.conftest import LIBRARIES, in_library
from tests.pictures.samples import evidence
from tests.pictures.test_names import assert_tidy

import sfumato as sf
from sfumato import pictures
from sfumato.pictures.surface import _brightness, _shade

NAN = math.nan


def told(picture) -> list[str]:
    return [one.get_text() for one in picture.figure.findobj(Text) if one.get_text()]


def lengths(picture) -> list[list[float]]:
    """How long the bars of each panel are."""
    return [
        [box.get_width() for box in axes.patches if isinstance(box, Rectangle)]
        for axes in picture.figure.axes
    ]


def refused(match: str):
    return pytest.raises(sf.SfumatoError, match=match)


def by_group(*shares: float, subject="released", records=100) -> sf.Evidence:
    names = ("census", "spatial", "census + spatial")
    rows = [
        {"known": name, "reidentification": share}
        for name, share in zip(names, shares, strict=True)
    ]
    return sf.Evidence(
        name="reidentification",
        subject=subject,
        value=shares[-1],
        table=pl.DataFrame(rows),
        details={"records": records},
    )


def test_known_groups_draws_a_bar_for_each_combination():
    picture = pictures.known_groups(by_group(0.1, 0.2, 0.7))
    assert lengths(picture) == [[0.1, 0.2, 0.7]]
    texts = told(picture)
    assert {"census", "spatial", "census + spatial", "0.1", "0.7"} <= set(texts)
    both = pictures.known_groups(by_group(0, 0.2, 0.7, subject="original"), by_group(0, 0, 0.1))
    assert lengths(both) == [[0.2, 0.7, 0.1]]  # zeros are told, not drawn
    assert {"Original", "Released"} <= set(told(both))
    named = pictures.known_groups(by_group(0, 0, 0.1), by_group(0, 0.2, 0.7), names=("k2", "k3"))
    assert {"k2", "k3"} <= set(told(named))


def test_a_public_known_groups_never_shows_one_or_two_records():
    inside = pictures.known_groups(by_group(0.01, 0.02, 0.03))
    assert lengths(inside) == [[0.01, 0.02, 0.03]]
    public = pictures.known_groups(by_group(0.01, 0.02, 0.03), public=True)
    assert lengths(public) == [[0.03]]
    assert "Fewer than 3 records are drawn as none." in public.caption
    none = pictures.known_groups(by_group(0, 0, 0.03), public=True)
    assert none.svg() == public.svg()
    rows = [{"known": "census", "reidentification": 0.5}]
    with refused("say how many records"):
        pictures.known_groups(rows, public=True)
    assert pictures.known_groups(rows, records=10, public=True).audience == "public"


def test_known_groups_states():
    assert lengths(pictures.known_groups(by_group(0, 0, 0))) == [[]]
    assert "no number" in told(pictures.known_groups(by_group(NAN, 0, 0.1)))
    with refused("not one number"):
        pictures.known_groups(by_group(NAN, NAN, NAN))
    with refused("do not hold the same combinations"):
        pictures.known_groups(by_group(0, 0, 1), [{"known": "else", "reidentification": 0.1}])
    with refused("a name for each"):
        pictures.known_groups(by_group(0, 0, 1), names=("a", "b"))
    with refused("lacks known"):
        pictures.known_groups(evidence("reidentification", [{"class_size": 1, "records": 2}]))


def test_six_long_groups_are_told_apart():
    names = [f"{letter} long name of a group" for letter in "abcdef"]
    rows = [
        {"known": " + ".join(one), "reidentification": len(one) / 6}
        for size in range(1, 7)
        for one in combinations(names, size)
    ]
    picture = pictures.known_groups(rows)
    axes = picture.figure.axes[0]
    by_row: dict[int, str] = {}
    for text in axes.texts:
        if text.get_horizontalalignment() == "right":
            row = round(text.xy[1])  # type: ignore[attr-defined]
            by_row[row] = by_row.get(row, "") + text.get_text()
    assert len(set(by_row.values())) == 63
    with refused("64 rows"):
        pictures.known_groups([*rows, {"known": "more", "reidentification": 0.1}])


def test_the_album_holds_the_risk_by_knowledge(cohort):
    groups = {"census": ["sex", "education"], "spatial": ["region"]}
    measures = {
        "fits": sf.risk.Reidentification(groups=groups),
        "plain": sf.risk.Reidentification(known=["sex"]),
    }
    released = sf.methods.Coarsen(variables=["height"], intervals=4).apply(cohort)
    found = sf.evaluate(cohort, released, measures)
    made, failed = pictures.album(found, measures, cohort, released)
    assert set(made) == {"fits-by-knowledge"}
    assert not failed
    assert {"Original", "Released", "census + spatial"} <= set(told(made["fits-by-knowledge"]))


def plans(more: float = 0.0, repeat: int = 0) -> list[dict[str, object]]:
    """Two plans as they stand in a table."""
    about = {"repeat": repeat, "met": True}
    return [
        {"plan": "2-anonymous", "risk": 0.0, "loss": 0.04 + more, "risk.guess": 0.5, **about},
        {"plan": "1/8 coarsened", "risk": 0.02, "loss": 0.15 + more, "risk.guess": 0.1, **about},
    ]


PLANS = plans()


@pytest.mark.parametrize("library", LIBRARIES)
def test_compared_draws_a_panel_a_measure_and_a_row_a_plan(library):
    picture = pictures.compared(in_library(pl.DataFrame(PLANS), library))
    assert lengths(picture) == [[0.02], [0.04, 0.15]]
    assert {"A  risk", "B  loss", "2-anonymous", "1/8 coarsened", "0"} <= set(told(picture))
    two = pictures.compared(PLANS, {"Risk": ["risk", "risk.guess"]}, label="plan")
    assert lengths(two) == [[0.02, 0.5, 0.1]]
    assert {"Risk", "risk", "risk.guess"} <= set(told(two))


def test_compared_takes_the_mean_of_repeated_runs_and_says_so():
    picture = pictures.compared([*PLANS, *plans(0.02, 1)], {"Loss": ["loss"]})
    assert lengths(picture)[0] == pytest.approx([0.05, 0.16])
    assert "means over repeated runs" in picture.caption
    assert "means" not in pictures.compared(PLANS).caption


def test_compared_from_evidence(cohort):
    known = ["sex", "birth_date", "height"]
    measures = {
        "fits": sf.risk.Reidentification(known=known),
        "alike": sf.risk.Uniqueness(known=known),
    }
    found = {}
    for parts in (4, 16):
        coarse = sf.methods.Coarsen(variables=["birth_date", "height"], intervals=parts)
        found[f"1/{parts}"] = sf.evaluate(cohort, coarse.apply(cohort), measures)
    picture = pictures.compared(found)
    assert {"A  fits", "B  alike", "1/4", "1/16"} <= set(told(picture))
    more = pictures.compared(found, {"Guess": ["fits.guess"], "k": ["alike.k"]})
    drawn = [found[name]["fits"].details["guess"] for name in found]
    assert lengths(more)[0] == pytest.approx(drawn)
    assert_tidy(more)
    with refused("evidence by name for each label"):
        pictures.compared({"one": 3})


def test_compared_states():
    rows = [{"plan": "a", "u": NAN, "v": -0.25}, {"plan": "b", "u": 1.0, "v": 0.5}]
    picture = pictures.compared(rows)
    assert "no number" in told(picture)
    assert "1 number could not be computed" in picture.caption
    assert lengths(picture)[1] == [-0.25, 0.5]
    assert_tidy(picture)
    with refused("not one number"):
        pictures.compared([{"plan": "a", "u": NAN}], {"U": ["u"]})
    with refused("at least one number per panel"):
        pictures.compared([{"plan": "a", "u": NAN}])
    with refused("lacks w"):
        pictures.compared(rows, {"W": ["w"]})
    with refused("at most 12 panels with 4 bars"):
        pictures.compared([{"plan": "a", **{f"v{at}": 1.0 for at in range(13)}}])
    with refused("41 labels"):
        pictures.compared([{"plan": str(at), "u": 1.0} for at in range(41)])
    with refused("needs the columns release"):
        pictures.compared(rows, label="release")
    assert_tidy(pictures.compared([{"plan": "a", **{f"v{at}": 1e-9 * at for at in range(7)}}]))


def grid(**more: object) -> list[dict[str, object]]:
    return [{"a": a, "b": b, "risk": a * b / 64, **more} for a in (8, 2) for b in (16, 4)]


def test_surface_is_in_order_and_says_every_number():
    picture = pictures.surface(grid(), "a", "b", "risk")
    axes = picture.figure.axes[0]
    shown = {tuple(map(float, one.get_position())): one.get_text() for one in axes.texts}
    assert shown == {(0.5, 0.5): "0.125", (1.5, 0.5): "0.5", (0.5, 1.5): "0.5", (1.5, 1.5): "2"}
    assert [one.get_text() for one in axes.get_xticklabels()] == ["2", "8"]
    assert [one.get_text() for one in axes.get_yticklabels()] == ["4", "16"]
    assert picture.title == "risk by a and b"


def test_surface_of_repeated_missing_and_unset():
    rows = [*grid(), *({**row, "risk": 1.0} for row in grid())]
    assert "means over repeated runs" in pictures.surface(rows, "a", "b", "risk").caption
    gone = [{**row, "risk": NAN if at == 0 else row["risk"]} for at, row in enumerate(grid())]
    picture = pictures.surface(gone[:3], "a", "b", "risk")
    assert "2 of 4 cells have no number" in picture.caption
    assert told(picture).count("none") == 2
    unset = [{"a": a, "b": "x", "risk": 0.1} for a in (None, 4, 2)]
    axes = pictures.surface(unset, "a", "b", "risk").figure.axes[0]
    assert [one.get_text() for one in axes.get_xticklabels()] == ["2", "4", "not set"]


def test_surface_states():
    with refused("two different parameters"):
        pictures.surface(grid(), "a", "a", "risk")
    with refused("not one number"):
        pictures.surface([{"a": 1, "b": 1, "risk": NAN}], "a", "b", "risk")
    with refused("at most 12 values of 'a'"):
        pictures.surface([{"a": a, "b": 1, "risk": 1} for a in range(13)], "a", "b", "risk")
    with refused("outside the limits"):
        pictures.surface(grid(), "a", "b", "risk", limits=(0, 1))
    with refused("the lower first"):
        pictures.surface(grid(), "a", "b", "risk", limits=(1, 0))
    with refused("lacks loss"):
        pictures.surface(grid(), "a", "b", "loss")
    one = pictures.surface([{"a": 1, "b": 1, "risk": 0.5}], "a", "b", "risk", limits=(0, 1))
    assert_tidy(one)
    wide = [{"a": 10**a, "b": b, "risk": a / 3e5} for a in range(12) for b in range(3)]
    assert_tidy(pictures.surface(wide, "a", "b", "risk"))


def test_shades_darken_steadily_and_letters_on_them_can_be_read():
    shades = [_shade(one, 0, 1) for one in np.linspace(0, 1, 50)]
    bright = [_brightness(one) for one in shades if one]
    assert len(bright) == 50
    assert all(a > b for a, b in pairwise(bright))
    contrast = [max((one + 0.05) / 0.057, 1.02 / (one + 0.05)) for one in bright]
    assert min(contrast) >= 4.0
