"""Two steps of the same method, each with values of its own."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.errors import PlanError

PLAN = sf.Plan(
    schema=sf.datasets.cohort_schema(),
    steps=[
        sf.methods.Drop(),
        sf.methods.Coarsen(variables=["birth_date"], intervals=3),
        sf.methods.Coarsen(variables=["height"], intervals=3),
    ],
    evaluate={"risk": sf.risk.Reidentification(known=["sex", "birth_date", "height"])},
)
OVER = {"coarsen.1.intervals": [2, 8], "coarsen.2.intervals": [4, 16]}


def test_the_steps_of_a_method_vary_independently(cohort):
    table = sf.sweep(cohort, PLAN, over=OVER)
    assert table.select(list(OVER)).rows() == [(2, 4), (2, 16), (8, 4), (8, 16)]
    for days, heights, risk in table.select(*OVER, "risk").rows():
        released = sf.methods.Coarsen(variables=["birth_date"], intervals=days).apply(cohort)
        released = sf.methods.Coarsen(variables=["height"], intervals=heights).apply(released)
        known = sf.risk.Reidentification(known=["sex", "birth_date", "height"])
        assert known.measure(released).value == risk
    picture = sf.pictures.surface(table, "coarsen.1.intervals", "coarsen.2.intervals", "risk")
    assert picture.title == "risk by coarsen.1.intervals and coarsen.2.intervals"


def test_one_step_may_stay_as_it_is(cohort):
    one = sf.sweep(cohort, PLAN, over={"coarsen.2.intervals": [3]})
    both = sf.sweep(cohort, PLAN, over={"coarsen.intervals": [3]})
    assert one["risk"].to_list() == both["risk"].to_list()


def test_names_that_mean_no_step_or_one_twice(cohort):
    with pytest.raises(PlanError, match="No step .* 'coarsen.3.intervals'. Hint: did you mean"):
        sf.sweep(cohort, PLAN, over={"coarsen.3.intervals": [2]})
    with pytest.raises(PlanError, match="varied twice"):
        sf.sweep(cohort, PLAN, over={"coarsen.intervals": [2], "coarsen.2.intervals": [3]})
