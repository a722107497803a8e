"""Maps of people: blocks, honest columns, and nobody's values."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from tests.conftest import LIBRARIES, drawn, in_library
from tests.figures.custodian.samples import shares

import sfumato as sf
from sfumato.figures import custodian as pictures
from sfumato.figures.custodian.peers import (
    _format_share,
    _merge_boxes,
    pool_people,
)
from sfumato.risk import protection as peering
from sfumato.risk.protection.groups import CLUSTERED, order_by_similarity


def paths(picture) -> int:
    return sum(1 for _ in ET.fromstring(picture.svg()).iter("path"))  # noqa: S314 - our own


def test_alike_people_stand_together():
    kinds = np.array([[0.0, 0.5], [0.5, 0.0], [0.0, 0.0], [0.9, 0.9]])
    values = kinds[np.random.default_rng(1).integers(0, 4, 200)]
    ordered = values[order_by_similarity(values, 0.0)]
    changes = (ordered[1:] != ordered[:-1]).any(axis=1).sum()
    assert changes == 3


@pytest.mark.parametrize("people", [1, 2, 700, 5000])
def test_the_order_does_not_depend_on_that_of_the_records(people):
    chance = np.random.default_rng(people)
    values = np.clip(chance.normal(0.2, 0.3, (people, 4)), 0, 1)
    shuffled = values[chance.permutation(people)]
    order = order_by_similarity(values, 0.1)
    assert sorted(order.tolist()) == list(range(people))
    assert (values[order] == shuffled[order_by_similarity(shuffled, 0.1)]).all()


def test_more_patterns_than_can_be_clustered():
    bits = (np.arange(2**11)[:, None] >> np.arange(11)) & 1
    order = order_by_similarity(bits.astype(float), 0.0)
    assert len(bits) > CLUSTERED
    assert sorted(order.tolist()) == list(range(2**11))


def test_a_column_of_many_people_tells_the_share_and_the_mean_of_the_rest():
    values = np.array([[0.0], [0.1], [0.2], [0.6], [0.4]])
    one, other = pool_people(values, np.arange(5), 0.1, 2)
    assert (one.people, other.people) == (3, 2)
    assert one.shares.tolist() == pytest.approx([2 / 3])
    assert one.means.tolist() == [0.2]
    assert other.shares.tolist() == [0.0]
    assert other.means.tolist() == [0.5]
    (_, rest), (_, dark), (_, last) = sorted(
        _merge_boxes([one, other], 0, 6, 0.1), key=lambda one: one[1]
    )
    assert rest[:2] == dark[:2] == (0, 1.0)
    assert (dark[3] - dark[2]) / 0.9 == pytest.approx(2 / 3)
    assert (rest[3] - rest[2]) / 0.9 == pytest.approx(1 / 3)
    assert (last[3] - last[2]) == pytest.approx(0.9)


def test_nothing_is_lost_when_people_share_columns():
    values = shares(["a", "b"], 1003).to_numpy()
    made = pool_people(values, order_by_similarity(values, 0.0), 0.0, 400)
    people = np.array([one.people for one in made])
    assert people.sum() == 1003
    assert {*people.tolist()} == {2, 3}
    low = sum(one.people * one.shares for one in made) / 1003
    assert low == pytest.approx((values <= 0).mean(axis=0))


def test_the_caption_says_how_many_a_column_stands_for():
    assert "Each column is a person" in pictures.protection(shares(["a"], 400)).caption
    assert "stands for 2 or 3 people" in pictures.protection(shares(["a"], 1003)).caption
    assert "stands for 3 people" in pictures.protection(shares(["a"], 1200)).caption
    assert "at or below 0.2" in pictures.protection(shares(["a"]), p=0.2).caption


def test_a_page_stays_small():
    many = pictures.protection(shares([f"v{at}" for at in range(20)], 3000))
    assert paths(many) < 60
    assert len(many.svg()) < 1_500_000
    assert "<image" not in many.svg()


def test_both_palettes_have_their_own_dark_colour():
    red = pictures.protection(shares(["a", "b"])).svg()
    safe = pictures.protection(shares(["a", "b"]), palette="safe").svg()
    assert "#7a0010" in red
    assert "#7a0010" not in safe
    assert "#00204c" in safe


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [((one + 0.055) / 1.055) ** 2.4 if one > 0.04045 else one / 12.92 for one in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_a_breach_is_far_darker_than_all_else():
    from sfumato.figures.custodian.peers import _RAMPS

    for dark, ramp in _RAMPS.values():
        contrasts = [(_luminance(one) + 0.05) / (_luminance(dark) + 0.05) for one in ramp]
        assert min(contrasts) > 3
    safe = [_luminance(one) for one in _RAMPS["safe"][1]]
    assert safe == sorted(safe)


@drawn("library", LIBRARIES)
def test_frames_of_every_library_in_any_order(library):
    frame = shares(["a", "b", "c"], 500)
    shuffled = in_library(frame.sample(fraction=1, shuffle=True, seed=1), library)
    assert pictures.protection(shuffled).svg() == pictures.protection(frame).svg()


def test_no_record_value_is_in_the_picture(cohort):
    names = ["region", "birth_date", "education", "smoking"]
    evidence = sf.risk.Peers(known=names[:3], sensitive=names[2:]).measure(cohort)
    found = peering.gains(cohort, "smoking", names[:3])
    made = [pictures.protection(evidence), pictures.gains(found),
            pictures.gains(found, of="alternatives")]  # fmt: skip
    cells = {str(one) for name in names for one in cohort.column(name).drop_nulls().unique()}
    for picture in made:
        texts = " ".join(ET.fromstring(picture.svg()).itertext())  # noqa: S314
        words = set(re.findall(r"[\w-]+", texts + picture.caption))
        assert not cells & (words - {"no", "other"})
        assert picture.audience == "custodian"


def test_shares_are_not_rounded_to_none_or_all():
    assert [_format_share(one) for one in (0.0, 0.001, 0.25, 0.999, 1.0)] == [
        "0.00", "<0.01", "0.25", ">0.99", "1.00",
    ]  # fmt: skip


def test_gains_begin_with_what_gains_most():
    frame = pl.DataFrame({"age": [30, 31, 30], "sex": ["f", "f", "m"], "ill": [0, 1, 0]})
    found = peering.gains(sf.Dataset(frame), "ill", ["sex", "age"])
    texts = [one.get_text() for one in pictures.gains(found).figure.axes[0].texts]
    assert texts.index("age") < texts.index("sex")


def test_widths_draws_a_point_each_and_marks_the_best():
    frame = pl.DataFrame({"age": [30, 31, 33, 36], "ill": [0, 1, 0, 1]})
    table = peering.widths(sf.Dataset(frame), "ill", "age", ["age"])
    points, best = pictures.widths(table, variable="age").figure.axes[0].lines
    assert np.size(best.get_xdata()) == table["categories"].n_unique()
    drawn = {(x, y) for x, y in np.asarray(points.get_xydata()).tolist()}
    assert drawn == set(table.select("categories", "protected").iter_rows())


def test_what_cannot_be_drawn():
    def refused(match):
        return pytest.raises(sf.SfumatoError, match=match)

    with refused("nothing to show"):
        pictures.protection([])
    with refused("shares from 0 to 1"):
        pictures.protection(pl.DataFrame({"a": [0.5, None]}))
    with refused("shares from 0 to 1"):
        pictures.protection(pl.DataFrame({"a": ["x", "y"]}))
    with refused("at most 40 variables; there are 41"):
        pictures.protection(shares([f"v{at}" for at in range(41)], 3))
    with refused("palette"):
        pictures.protection(shares(["a"]), palette="blue")  # type: ignore[arg-type]
    with refused("p is 0 or more"):
        pictures.protection(shares(["a"]), p=1.0)
    with refused("a row per record"):
        pictures.protection(sf.Evidence(name="peers", subject="original", value=0.1))
    with refused("needs the columns"):
        pictures.widths([{"categories": 1}])
