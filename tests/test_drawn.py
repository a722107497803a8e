"""Of several seeds or libraries a case takes one, always the same; all are taken by some case."""

from __future__ import annotations

import pytest

from tests.conftest import LIBRARIES, draw_label, drawn
from tests.contract import test_measures, test_methods

CASES = [str(case.id) for case in (*test_measures.CASES, *test_methods.CASES)]


@pytest.mark.parametrize("labels", [LIBRARIES, LIBRARIES[1:], ("seed=0", "seed=1", "seed=2")])
def test_over_all_cases_each_has_its_turn(labels):
    taken = [draw_label(f"tests/contract/test_methods.py::test[-{case}]", labels) for case in CASES]
    for label in labels:
        assert taken.count(label) > len(CASES) / len(labels) / 2


def test_a_name_takes_the_same_in_every_run():
    assert [draw_label(f"case {n}", LIBRARIES) for n in range(4)] == [
        "pyarrow", "polars", "pyarrow", "polars"
    ]  # fmt: skip


@drawn("first", "abc")
@drawn("second", range(3))
def test_a_case_takes_one_of_each(first, second, request):
    """`make test` runs one of these nine, `make test-all` all."""
    case = "tests/test_drawn.py::test_a_case_takes_one_of_each[-]"
    taken = (
        draw_label(case, ["first=a", "first=b", "first=c"]),
        draw_label(case, ["second=0", "second=1", "second=2"]),
    )
    is_taken = taken == (f"first={first}", f"second={second}")
    assert is_taken == (request.node.get_closest_marker("study") is None)
