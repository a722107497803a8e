"""The search along a ladder, against a plain look at every rung."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sfumato.tuning.bisection import Axis, Bracket, Climb, Outcome


def walked(bracket: Bracket, edge: float, refused: float = math.inf) -> list[float]:
    """Everything asked for, when from `edge` on targets are met and from `refused` on nothing."""
    asked = []
    while (height := bracket.ask()) is not None:
        asked.append(height)
        outcome: Outcome = "refused" if height >= refused else "met" if height >= edge else "missed"
        bracket.tell(height, outcome)
        assert len(asked) < 50
    return asked


@given(st.integers(0, 12), st.floats(-1, 14))
def test_the_least_rung_that_meets_is_found(top, edge):
    bracket = Bracket(top)
    asked = walked(bracket, edge)
    assert len(asked) == len(set(asked))
    if edge > top:
        assert bracket.high is None
        assert top in asked  # the strongest was tried before giving up
    else:
        assert bracket.high is not None
        assert edge <= bracket.high <= max(edge, 0) + 1
        # Between rungs it goes on to a quarter of a step.
        if edge > 0:
            assert bracket.high - edge <= 0.25
        assert len(asked) <= math.log2(top + 1) + 4


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 13))
def test_what_is_refused_bounds_the_search(top, edge, refused):
    bracket = Bracket(top)
    walked(bracket, edge, refused)
    if edge < refused and edge <= top:
        assert bracket.high is not None
        assert bracket.high < refused
    else:
        assert bracket.high is None


def test_a_family_that_is_refused_as_a_whole_costs_two():
    assert len(walked(Bracket(9), edge=0, refused=0)) == 2


def test_the_start_is_where_calibration_says():
    assert Bracket(6, start=5.0).ask() == 5.0
    assert Climb((Axis("share", (0.1, 0.2, 0.4), whole=False),), (2.0,)).ask() == (2.0,)


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_two_axes_come_down_one_by_one(first, second, data):
    """Both must be high enough, each for itself: the corner is found."""
    corner = data.draw(st.tuples(st.integers(0, first), st.integers(0, second)))
    axes = (Axis("a", tuple(range(first + 1))), Axis("b", tuple(range(second + 1))))
    climb = Climb(axes)
    met = []
    for _ in range(200):
        heights = climb.ask()
        if heights is None:
            break
        ok = all(
            axis.value_at(at) >= edge for axis, at, edge in zip(axes, heights, corner, strict=True)
        )
        if ok:
            met.append(tuple(axis.value_at(at) for axis, at in zip(axes, heights, strict=True)))
        climb.tell(heights, "met" if ok else "missed")
    else:
        raise AssertionError("it never ended")
    assert corner in met


@given(st.lists(st.integers(2, 1000), min_size=2, max_size=8, unique=True), st.floats(0, 1))
def test_values_between_rungs_rise(values, part):
    axis = Axis("k", tuple(sorted(values)), whole=True)
    for at in range(axis.top):
        assert axis.value_at(at) == axis.values[at]
        assert axis.values[at] <= axis.value_at(at + part) <= axis.values[at + 1]


def test_nothing_lies_between_some_values():
    axis = Axis("level", (1, 2, 3))
    assert [axis.value_at(one) for one in (0, 0.5, 1, 1.2)] == [1, 2, 2, 3]


def test_falling_values_are_stronger():
    axis = Axis("t", (0.5, 0.2, 0.1), whole=False)
    assert 0.1 < axis.value_at(1.5) < 0.2
