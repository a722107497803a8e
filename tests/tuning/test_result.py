"""The risk-utility map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text
from tests.figures.custodian.samples import HOSTILE

import sfumato as sf
from sfumato.data import Dataset
from sfumato.figures.custodian import Picture, risk_utility
from sfumato.figures.custodian.tuning import _shorten_family
from sfumato.plan import Plan
from sfumato.tuning.result import Tuned
from sfumato.tuning.search import tune


@pytest.fixture(scope="module")
def found(people: Dataset, crowd: Plan) -> Tuned:
    return tune(people, crowd, runs=8)


def told(picture: Picture) -> str:
    return "\n".join(one.get_text() for one in picture.figure.findobj(Text) if one.get_text())


def drawn(picture: Picture, marker: str) -> list[tuple[float, float]]:
    axes = picture.figure.axes[0]
    lines = [line for line in axes.lines if line.get_marker() == marker]
    places = [(np.ravel(line.get_xdata())[0], np.ravel(line.get_ydata())[0]) for line in lines]
    return [(float(x), float(y)) for x, y in places]


def test_every_candidate_is_a_point_and_the_best_a_star(found: Tuned) -> None:
    picture = found.picture()
    points = [line for line in picture.figure.axes[0].lines if line.get_linestyle() == "None"]
    places = {(one.loss, one.verdict[0].number): one for one in found.candidates}
    assert len(points) == len(places) + 1
    assert drawn(picture, "*") == [(found.best.loss, found.best.verdict[0].number)]
    hollow = [line for line in points if line.get_fillstyle() == "none"]
    assert len(hollow) == sum(not one.met for one in places.values())
    labels = [text.get_text() for text in picture.figure.axes[0].texts]
    assert found.best.describe() in labels
    assert "Recommended" in told(picture)
    assert found.best.describe() in picture.caption


def test_it_stays_inside_unless_somebody_says_otherwise(found: Tuned) -> None:
    assert found.picture().audience == "custodian"
    assert "Inside only" in told(found.picture())
    assert found.picture(public=True).audience == "public"


def test_down_is_safer(found: Tuned) -> None:
    low, high = found.picture().figure.axes[0].get_ylim()
    assert low > high  # more of k is safer, so the axis is turned round


def test_what_differs_nowhere_has_no_panel_and_alike_candidates_one_point(found: Tuned) -> None:
    first = found.candidates[1]
    repeated = replace(found, candidates=(*found.candidates, first))
    drawn_twice, drawn_once = repeated.picture(), found.picture()
    assert len(drawn_twice.figure.axes[0].lines) == len(drawn_once.figure.axes[0].lines)
    assert "one point with it: 1" in drawn_twice.caption
    same = [replace(one, verdict=(*one.verdict, one.verdict[0])) for one in found.candidates]
    best = same[found.candidates.index(found.best)]
    assert len(replace(found, candidates=tuple(same), best=best).picture().figure.axes) == 1


def test_nothing_met_shows_the_nearest(people: Dataset, crowd: Plan) -> None:
    hard = Plan(
        schema=crowd.schema,
        steps=crowd.steps,
        targets={"k.min": 5, "information_loss.max": 0.001},
    )
    picture = tune(people, hard, runs=4).picture()
    assert len(picture.figure.axes) == 2
    assert "Nearest to the targets" in told(picture)
    assert "None does" in picture.caption


def test_refused_candidates_are_counted_in_the_caption(people: Dataset, crowd: Plan) -> None:
    space = [[sf.methods.KAnonymity(k=5000)], [sf.methods.KAnonymity(k=5)]]
    picture = tune(people, crowd, space=space).picture()
    assert "the data refuse them: 1" in picture.caption


def test_hostile_names_do_no_harm(found: Tuned) -> None:
    renamed = [
        replace(one, family=HOSTILE[at % len(HOSTILE)]) for at, one in enumerate(found.candidates)
    ]
    text = risk_utility(replace(found, candidates=tuple(renamed), best=renamed[1])).svg()
    assert "<script" not in text
    assert "\u202e" not in text


def test_the_same_map_has_the_same_bytes(found: Tuned) -> None:
    assert found.picture().svg() == found.picture().svg()


def test_long_names_keep_all_their_parts() -> None:
    assert (
        _shorten_family("correlated_noise + coarsen, suppress(5)")
        == "correlated_no… + coarsen, supp…"
    )
    assert _shorten_family("noise + k_anonymity(5)") == "noise + k_anonymity(5)"
    assert len(_shorten_family("microaggregation + k_anonymity(15)")) <= 32


def test_something_else_is_refused() -> None:
    with pytest.raises(sf.SfumatoError, match=r"needs what `sf\.tune` returned"):
        risk_utility([{"loss": 1}])
