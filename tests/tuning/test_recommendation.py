"""Generalisations that go together: what is said of them is what happens when they are applied."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import MeasureError, SfumatoError
from sfumato.io.frames import wrap
from sfumato.progress import send_progress_to
from sfumato.risk import protection as peering
from sfumato.tuning.recommendation.joint import JointRecommendation, least_count

REGIONS = {one: (("north" if one in "ab" else "south"), "*") for one in "abcd"}
SCHEMA = sf.Schema(
    {
        "age": "quasi",
        "degree": sf.Column(role="quasi", kind="ordinal", domain=("low", "mid", "high", "top")),
        "region": sf.Column(role="quasi", kind="nominal", hierarchy=REGIONS),
        "work": sf.Column(role="quasi", kind="nominal"),
        "ill": "sensitive",
    }
)
KNOWN = ["age", "degree", "region", "work"]


@st.composite
def people(draw):
    count = draw(st.integers(2, 30))

    def column(values):
        return draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    return pl.DataFrame(
        {
            "age": column([20, 21, 22, 24, 27, 40, None]),
            "degree": column(["low", "mid", "high", "top"]),
            "region": column(["a", "b", "c", "d", None]),
            "work": column(["x", "y", "z"]),
            "ill": column(["p", "q", "r"]),
        },
        schema={"age": pl.Int64, **dict.fromkeys(("degree", "region", "work", "ill"), pl.String)},
    )


def invented(count: int, seed: int = 1) -> sf.Dataset:
    chance = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "age": chance.integers(20, 70, count),
            "degree": chance.choice(["low", "mid", "high", "top"], count),
            "region": chance.choice(list("abcd"), count),
            "work": chance.choice(list("uvwxyz"), count, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02]),
            "ill": chance.choice(["p", "q", "r"], count, p=[0.6, 0.3, 0.1]),
        }
    )
    return sf.Dataset(frame, SCHEMA)


def applied(data: sf.Dataset, found: JointRecommendation) -> sf.Dataset:
    for step in found.steps:
        data = step.apply(data)
    return data


def breached(data: sf.Dataset, p: float) -> float:
    known = [name for name in KNOWN if name in data.columns]
    return float(sf.risk.Peers(known=known, sensitive=["ill"], p=p).measure(data).value)


@given(people(), st.sampled_from([0.0, 0.2]), st.sampled_from([0.5, 0.9, 1.0]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_what_is_said_is_what_happens(frame, p, enough, drop):
    data = sf.Dataset(frame, SCHEMA)
    found = peering.recommend_jointly(data, "ill", p=p, enough=enough, drop=drop)
    assert 1 - breached(data, p) == pytest.approx(found.before, abs=1e-12)
    assert 1 - breached(applied(data, found), p) == pytest.approx(found.protected, abs=1e-12)
    assert found.reached == (found.protected >= enough)
    assert bool(found.reason) != found.reached
    rows = found.table.to_dicts()
    ends = [found.before, *(row["after"] for row in rows)]
    assert [row["before"] for row in rows] == ends[:-1]
    assert ends[-1] == found.protected
    whole = [row for row in rows if row["why"].startswith(("most", "last"))]
    assert all(row["after"] > row["before"] for row in whole)
    assert drop or not any(isinstance(one, sf.methods.Drop) for one in found.steps)
    changed = [name for step in found.steps for name in step.touches(data.schema)]
    assert len(changed) == len(set(changed))


def test_each_kind_of_variable_has_its_own_way():
    data = invented(400)
    found = peering.recommend_jointly(data, "ill", enough=0.999, drop=False)
    ways = {row["variable"]: row for row in found.table.to_dicts()}
    assert ways["age"]["method"] == "coarsen"
    assert "width" in ways["age"]["how"]
    plan = sf.Plan(schema=data.schema, steps=found.steps)
    assert sf.Plan.parse(plan.text()).steps == found.steps
    for name, way, how in (
        ("degree", "recode", "width"), ("region", "recode", "hierarchy"), ("work", "recode", "join")
    ):  # fmt: skip
        alone = peering.recommend_jointly(data, "ill", [name, "age"], fixed=["age"], drop=False)
        for row in alone.table.to_dicts():
            assert (row["variable"], row["method"]) == (name, way)
            assert how in row["how"]


def test_ordered_categories_become_groups_that_a_plan_can_name():
    frame = pl.DataFrame({"degree": ["low", "mid", "high", "top"] * 2, "ill": list("pqrspqrs")})
    data = sf.Dataset(frame, sf.Schema({"degree": SCHEMA["degree"]}))
    found = peering.recommend_jointly(data, "ill", ["degree"], enough=1.0)
    (step,) = found.steps
    assert isinstance(step, sf.methods.Recode)
    assert step.groups == {"low to mid": ["low", "mid"], "high to top": ["high", "top"]}
    assert breached(applied(data, found), 0.0) == 0
    alone = peering.recommend(data, "ill", ["degree"])
    assert alone.steps == (step,)


def test_leaving_out_is_the_last_resort_and_can_be_forbidden():
    frame = pl.DataFrame(
        {"code": list("abcdefgh"), "sex": list("ffffmmmm"), "ill": list("pqpqpqpq")}
    )
    data = sf.Dataset(frame)
    found = peering.recommend_jointly(data, "ill", ["code", "sex"])
    assert found.steps == (sf.methods.Drop(variables=["code"]),)
    assert "last resort" in found.table["why"][0]
    for kept in ({"needed": ["code"]}, {"fixed": ["code"]}, {"drop": False}):
        stuck = peering.recommend_jointly(data, "ill", ["code", "sex"], **kept)
        assert not stuck.reached
        assert not any("code" in step.touches(data.schema) for step in stuck.steps)
        assert "Nothing else" in stuck.reason
    # With nothing known there would be nothing to measure.
    only = peering.recommend_jointly(data, "ill", ["code"])
    assert (only.steps, only.reached) == ((), False)


def test_what_is_not_needed_any_more_is_taken_back():
    data = invented(1500, seed=3)
    found = peering.recommend_jointly(data, "ill", enough=0.9)
    assert found.reached
    back = found.table.filter(pl.col("why").str.contains("no longer"))
    assert (back["loss"] > 0).all()
    # Without any one of the steps it would not be enough.
    for left in range(len(found.steps)):
        some = data
        for at, step in enumerate(found.steps):
            some = some if at == left else step.apply(some)
        assert 1 - breached(some, 0.0) < 0.9


def test_enough_at_once_needs_no_step():
    frame = pl.DataFrame({"age": [30, 30], "ill": ["p", "q"]})
    found = peering.recommend_jointly(sf.Dataset(frame), "ill", ["age"], enough=1.0)
    assert (found.before, found.protected, found.reached, found.steps) == (1.0, 1.0, True, ())
    assert len(found.table) == 0
    assert found.table.columns[:3] == ["step", "variable", "method"]


def test_measured_numbers_and_dates():
    chance = np.random.default_rng(5)
    days = [dt.date(1950, 1, 1) + dt.timedelta(int(one)) for one in chance.integers(0, 9000, 80)]
    frame = pl.DataFrame(
        {"born": days, "weight": chance.normal(70, 9, 80), "ill": chance.integers(0, 2, 80)}
    )
    data = sf.Dataset(frame)
    found = peering.recommend_jointly(data, "ill", ["born", "weight"], drop=False, enough=0.9)
    # Everybody is unique in each of the two, so that nothing helps alone.
    assert found.table["why"][0] == "helps together with another"
    assert found.reached
    assert {step.name for step in found.steps} == {"coarsen"}
    measure = sf.risk.Peers(known=["born", "weight"], sensitive=["ill"])
    assert 1 - measure.measure(applied(data, found)).value == pytest.approx(found.protected)


def test_a_budget_that_is_spent_is_told():
    data = invented(300)
    with pytest.raises(MeasureError, match="more than the budget allows"):
        peering.recommend_jointly(data, "ill", p=0.1, budget=1000)
    found = peering.recommend_jointly(data, "ill", p=0.1, enough=1.0, budget=60_000)
    assert not found.reached
    assert "budget is spent" in found.reason


@drawn("library", LIBRARIES)
def test_every_library_and_every_order(library):
    data = invented(300)
    plain = peering.recommend_jointly(data, "ill")
    shuffled = data.frame.sample(fraction=1, shuffle=True, seed=2)
    found = peering.recommend_jointly(sf.Dataset(in_library(shuffled, library), SCHEMA), "ill")
    assert found.steps == plain.steps
    assert wrap(found.table).rows() == plain.table.rows()


def test_it_tells_how_far_it_is():
    heard: list[str] = []
    with send_progress_to(lambda what, done, total: heard.append(what)):
        peering.recommend_jointly(invented(100), "ill")
    assert "recommending: step 1" in heard


def test_odd_data_and_what_cannot_be_asked():
    frame = pl.DataFrame({"empty": [None, None], "same": ["a", "a"], "x;[y]": [1.5, float("inf")]})
    data = sf.Dataset(frame.with_columns(ill=pl.Series(["p", "q"])))
    found = peering.recommend_jointly(data, "ill", ["empty", "same", "x;[y]"])
    assert [step.touches(data.schema) for step in found.steps] == [("x;[y]",)]
    one = peering.recommend_jointly(sf.Dataset(data.frame[:1]), "ill", ["same"])
    assert not one.reached
    for wrong in ({"enough": 0.0}, {"enough": 1.5}, {"fewest": 0}):
        with pytest.raises(MeasureError, match="`enough` above 0"):
            peering.recommend_jointly(data, "ill", ["same"], **wrong)
    with pytest.raises(SfumatoError, match="smae"):
        peering.recommend_jointly(data, "ill", ["same"], fixed=["smae"])
    with pytest.raises(MeasureError, match="Nothing is known besides"):
        peering.recommend_jointly(data, "ill", ["ill"])


def test_a_share_of_records_is_counted_exactly():
    assert [least_count(0.95, count) for count in (20, 21, 100)] == [19, 20, 95]
    assert least_count(0.29, 100) == 29
    assert least_count(1.0, 7) == 7
