"""Pictures of several releases: by what is known, by plan, and over two parameters."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import polars as pl
import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from tests.conftest import LIBRARIES, drawn, in_library
from tests.figures.custodian.samples import evidence
from tests.figures.sheet.test_text import assert_tidy

import sfumato as sf
from sfumato.figures import custodian as pictures
from sfumato.figures.custodian.known_groups import _shorten
from sfumato.figures.custodian.sweep import _luminance, _pick_shade

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
    with refused(r"without groups. Hint: measure it with groups=\{"):
        pictures.known_groups(evidence("reidentification", [{"class_size": 1, "records": 2}]))
    with refused(r"measure it with groups=\{"):
        pictures.known_groups(evidence("reidentification"))
    with refused("lacks known"):
        pictures.known_groups([{"class_size": 1, "reidentification": 0.2}])


def test_two_of_the_same_subject_need_names():
    both = by_group(0, 0, 0.1), by_group(0, 0.2, 0.7)
    with refused("cannot tell the two apart.*Hint: name them.*names="):
        pictures.known_groups(*both)
    assert {"a", "b"} <= set(told(pictures.known_groups(*both, names=["a", "b"])))


def of_groups(count: int) -> sf.Evidence:
    rows = [
        {"known": " + ".join(one), "reidentification": len(one) / count}
        for size in range(1, count + 1)
        for one in combinations("abcdef"[:count], size)
    ]
    return evidence("reidentification", pl.DataFrame(rows))


def row_names(picture) -> list[str]:
    """The names of the rows, from top to bottom."""
    by_row: dict[int, str] = {}
    for text in picture.figure.axes[0].texts:
        if text.get_horizontalalignment() == "right":
            row = round(text.xy[1])
            by_row[row] = f"{by_row.get(row, '')} {text.get_text()}".strip()
    return [by_row[at] for at in sorted(by_row)]


def test_more_than_four_groups_are_the_riskiest_first():
    four = pictures.known_groups(of_groups(4))
    assert row_names(four)[:2] == ["a", "b"]  # as they come
    assert len(row_names(four)) == 15
    assert "left out" not in four.caption
    five = pictures.known_groups(of_groups(5))
    assert row_names(five)[0] == "a + b + c + d + e"
    assert lengths(five)[0] == sorted(lengths(five)[0], reverse=True)
    assert len(row_names(five)) == 20
    assert "20 riskiest combinations, 11 are left out" in five.caption
    assert any("11 are left out" in text.replace("\n", " ") for text in told(five))
    assert five.figure.get_size_inches()[1] < 12
    assert_tidy(five)


def test_the_released_risk_decides_what_is_shown():
    rows = [f"{one}{other}" for one in "abcdef" for other in "uvwx"]
    before = [{"known": name, "reidentification": 0.9} for name in rows]
    after = [{"known": name, "reidentification": at / 100} for at, name in enumerate(rows)]
    was = sf.Evidence(
        name="reidentification", subject="original", value=0.1, table=pl.DataFrame(before)
    )
    now = sf.Evidence(
        name="reidentification", subject="released", value=0.1, table=pl.DataFrame(after)
    )
    assert row_names(pictures.known_groups(was, now))[:2] == ["fx", "fw"]


def test_six_long_groups_are_told_apart():
    names = [f"{letter} long name of a group" for letter in "abcdef"]
    rows = [
        {"known": " + ".join(one), "reidentification": len(one) / 6}
        for size in range(1, 7)
        for one in combinations(names, size)
    ]
    assert len({_shorten(str(row["known"])) for row in rows}) == 63
    assert len(set(row_names(pictures.known_groups(rows)))) == 20
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


@drawn("library", LIBRARIES)
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


def test_compared_says_which_way_is_better(cohort):
    measures = {
        "alike": sf.risk.Uniqueness(known=["sex", "region"]),
        "diversity": sf.risk.Diversity(known=["sex"]),
    }
    found = {"plan": sf.evaluate(cohort, cohort, measures)}
    by_panel = [
        [one.get_text() for one in axes.texts if "better" in one.get_text()]
        for axes in pictures.compared(found).figure.axes
    ]
    assert by_panel == [["lower is better"], ["higher is better"]]
    details = {"k": ["alike.k"], "mixed": ["alike", "alike.k"], "no word": ["alike.classes"]}
    picture = pictures.compared(found, details)
    assert [text for text in told(picture) if "better" in text] == ["higher is better"]
    assert_tidy(picture)
    # By the name alone, as a sweep's table has it.
    rows = [{"plan": "a", "uniqueness": 0.1, "uniqueness.k": 2, "k": 2, "mine": 3}]
    for column, way in (("uniqueness", "lower"), ("uniqueness.k", "higher"), ("k", "higher")):
        assert f"{way} is better" in told(pictures.compared(rows, {"panel": [column]}))
    assert "better" not in " ".join(told(pictures.compared(rows, {"panel": ["mine"]})))


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
    with refused("lacks w. Hint: the columns are: plan, u, v."):
        pictures.compared(rows, {"W": ["w"]})
    with refused("lacks k. Hint: the columns are: fits.k, plan"):
        pictures.compared([{"plan": "a", "fits.k": 3}], {"W": ["k"]})
    with refused("columns are: plan, v0, .* and 1 more"):
        pictures.compared([{"plan": "a", **{f"v{at}": 1.0 for at in range(30)}}], {"W": ["w"]})
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
    with refused("lacks loss. Hint: the columns are: a, b, risk."):
        pictures.surface(grid(), "a", "b", "loss")
    one = pictures.surface([{"a": 1, "b": 1, "risk": 0.5}], "a", "b", "risk", limits=(0, 1))
    assert_tidy(one)
    wide = [{"a": 10**a, "b": b, "risk": a / 3e5} for a in range(12) for b in range(3)]
    assert_tidy(pictures.surface(wide, "a", "b", "risk"))


def test_shades_darken_steadily_and_letters_on_them_can_be_read():
    shades = [_pick_shade(one, 0, 1) for one in np.linspace(0, 1, 50)]
    bright = [_luminance(one) for one in shades if one]
    assert len(bright) == 50
    assert all(a > b for a, b in pairwise(bright))
    contrast = [max((one + 0.05) / 0.057, 1.02 / (one + 0.05)) for one in bright]
    assert min(contrast) >= 4.0


def make_runs(skip=()):
    return [
        {"a": a, "b": b, "risk": NAN if (a, b) in skip else a * b / 64}
        for a in (2, 4, 8) for b in (2, 4, 8, 16)
    ]  # fmt: skip


def solid_of(picture):
    (solid,) = [axes for axes in picture.figure.axes if axes.name == "3d"]
    return solid


def test_a_relief_has_a_patch_between_neighbours_and_its_low_corner_in_front():
    picture = pictures.surface(make_runs(), "a", "b", "risk", relief=True)
    solid = solid_of(picture)
    (patches,) = solid.collections
    assert len(patches.get_facecolor()) == 2 * 3
    # The corner of the least values lies towards the reader: seen from low x and low y.
    assert solid.azim == -125.0
    # Values stand at the map above, where they cannot cross; the surface has the names.
    assert not any(label.get_text() for label in solid.get_xticklabels())
    assert (solid.get_xlabel(), solid.get_ylabel(), solid.get_zlabel()) == ("a", "b", "risk")
    rising = [{**row, "risk": -row["risk"]} for row in make_runs()]
    assert solid_of(pictures.surface(rising, "a", "b", "risk", relief=True)).azim == 55.0
    assert "heights" in picture.caption
    assert len(pictures.surface(make_runs(), "a", "b", "risk").figure.axes) == 1


def test_a_relief_leaves_open_what_has_no_number():
    (patches,) = solid_of(
        pictures.surface(make_runs({(2, 2)}), "a", "b", "risk", relief=True)
    ).collections
    assert len(patches.get_facecolor()) == 5
    with refused("two values of 'a' and of 'b'"):
        one = [row for row in make_runs() if row["a"] == 2]
        pictures.surface(one, "a", "b", "risk", relief=True)
