"""A plan over values and sizes: every run in one table, none of them lost."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import DataError, MeasureError, MethodError, PlanError, SchemaError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import ParameterError
from sfumato.tuning.sweep import Cohorts

SCHEMA = sf.Schema(
    {
        "id": "direct",
        "age": sf.Column(role="quasi", kind="integer", domain=(0, 99)),
        "sex": "quasi",
        "x": "sensitive",
    }
)
STEPS = [
    sf.methods.Drop(),
    sf.methods.Coarsen(variables=["age"], intervals=2),
    sf.methods.Topcode(variables=["x"], top_quantile=0.9),
]
PLAN = sf.Plan(schema=SCHEMA, steps=STEPS, targets={"k.min": 5})


def frame(records: int = 60) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(records)],
            "age": [(7 * i) % 100 for i in range(records)],
            "sex": ["f", "m"] * (records // 2),
            # In no order that follows the age: who works the age out breaks every k.
            "x": [(31 * i**3 + 17 * i) % 257 / 7 for i in range(records)],
        }
    )


def people() -> sf.Dataset:
    return sf.Dataset(frame(), SCHEMA)


class Spread(Measure):
    """A measure with numbers by variable; it cannot be computed on few records."""

    name = "spread"
    of: ClassVar[Literal["one", "pair"]] = "pair"
    numbers = (Number.loss("spread"), Number.loss("largest"), Number.loss("never"))

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def variables(self, data):
        return ("x",)

    def compare(self, original, released, engine):
        if len(released) < self.least:
            raise MeasureError("too few records for it.")
        values = released.column("x")
        table = pl.DataFrame({"variable": ["x", "y"], "spread": [values.std(), None]})
        return Evidence(
            name="spread",
            subject="pair",
            value=float(values.std()),
            table=table,
            details={"largest": float(values.max())},
        )


def test_a_row_for_every_combination_and_nothing_is_enforced():
    made = sf.sweep(people(), PLAN, intervals=[2, 10], top_quantile=[0.5, 0.9, 0.99])
    assert made.columns[:4] == ["intervals", "top_quantile", "records", "repeat"]
    assert made.columns[-2:] == ["met", "reason"]
    assert made.select("intervals", "top_quantile").rows() == [
        (intervals, quantile) for intervals in (2, 10) for quantile in (0.5, 0.9, 0.99)
    ]
    assert made["met"].to_list() == [True] * 3 + [False] * 3
    assert made["reason"].null_count() == 6
    alone = sf.protect(people(), PLAN).evidence["uniqueness"]
    assert made["uniqueness.k"][0] == alone.details["k"]
    assert made["uniqueness"][0] == alone.value
    assert made["records"].unique().to_list() == [60]


def test_a_run_that_the_data_refuse_stays_with_its_reason(monkeypatch):
    def refuse(self, data, engine):
        if self.intervals == 3:
            raise MethodError("three is refused.", hint="take two.")
        return real(self, data, engine)

    real = sf.methods.Coarsen.fit
    monkeypatch.setattr(sf.methods.Coarsen, "fit", refuse)
    made = sf.sweep(people(), PLAN, intervals=[2, 3])
    assert made["reason"].to_list() == [None, "three is refused. Hint: take two."]
    assert made["uniqueness"].to_list() == [0.0, None]
    assert made["met"].to_list() == [True, False]
    none = sf.sweep(people(), sf.Plan(schema=SCHEMA, steps=STEPS), measures=["uniqueness"])
    assert none["met"].to_list() == [None]


def test_an_unforeseen_error_is_not_swallowed(monkeypatch):
    def broken(self, data, engine):
        raise RuntimeError

    monkeypatch.setattr(sf.methods.Coarsen, "fit", broken)
    with pytest.raises(RuntimeError):
        sf.sweep(people(), PLAN, intervals=[2])


def test_the_worst_reading_stands_beside_the_milder_one():
    """What a target is checked against is in the table, and on the screen in place of the other."""
    linkage = sf.risk.MixedLinkage(known=["age", "sex"], individuals=20)
    plan = sf.Plan(
        schema=SCHEMA,
        steps=STEPS,
        evaluate={"mixed_linkage": linkage, "reidentification": sf.risk.Reidentification()},
        targets={"mixed_linkage.max": 0.2, "k.min": 2},
    )
    runs = sf.sweep(people(), plan, intervals=[1, 10])
    assert (runs["mixed_linkage.at_worst"] >= runs["mixed_linkage"]).all()
    assert (runs["mixed_linkage.at_worst"] > runs["mixed_linkage"]).any()
    met = (runs["mixed_linkage.at_worst"] <= 0.2) & (runs["uniqueness.k"] >= 2)
    assert runs["met"].to_list() == met.to_list()
    # Where both are the same there is one column.
    assert not {"uniqueness.at_worst", "uniqueness.k_at_worst"} & {*runs.columns}


def test_a_measure_that_fails_is_missing_with_its_reason():
    plan = sf.Plan(schema=SCHEMA, steps=STEPS, evaluate={"s": Spread(40)}, targets={"k.min": 2})
    made = sf.sweep(people(), plan, sizes=[20, 50])
    assert made["s"].is_null().to_list() == [True, False]
    assert made["reason"][0] == "s: too few records for it."
    assert made["reason"][1] is None
    columns = ["s", "s.largest", "s.never", "s[x]", "s[y]"]
    assert [name for name in made.columns if name.startswith("s")] == columns
    assert made["s[x]"].to_list() == made["s"].to_list()
    assert made["s[y]"].null_count() == made["s.never"].null_count() == 2
    assert made["uniqueness.k"].null_count() == 0


@drawn("library", LIBRARIES)
def test_the_table_is_of_the_users_library_and_the_rows_order_does_not_matter(library):
    first = sf.sweep(people(), PLAN, sizes=[20, 40], repeats=3, intervals=[2, 5])
    shuffled = frame().sample(fraction=1.0, shuffle=True, seed=1)
    data = sf.Dataset(in_library(shuffled, library), SCHEMA)
    again = sf.sweep(data, PLAN, sizes=[20, 40], repeats=3, intervals=[2, 5])
    assert type(again) is type(in_library(first, library))
    if library == "pandas":
        pd.testing.assert_frame_equal(again, first.to_pandas())
    else:
        assert_frame_equal(first, pl.DataFrame(again), check_exact=True)


def test_samples_differ_by_repeat_and_seed_and_grow_by_size():
    seen = {}

    def note(what, done, total):
        told.append((what, done, total))

    told: list[tuple[str, int, int]] = []
    plan = sf.Plan(schema=SCHEMA, steps=STEPS, evaluate=[Spread()])
    one = sf.sweep(people(), plan, sizes=[20, 40], repeats=4, progress=note)
    other = sf.sweep(people(), plan, sizes=[20, 40], repeats=4, seed=1)
    keyed = sf.sweep(people(), plan, sizes=[20, 40], repeats=4, key="ab" * 32)
    for at, table in enumerate((one, other, keyed)):
        seen[at] = table["spread"].to_list()
        assert len(set(seen[at])) == 8
    assert len({tuple(one) for one in seen.values()}) == 3
    assert one.select("records", "repeat").rows() == [(n, r) for n in (20, 40) for r in range(4)]
    assert told[0] == ("sweeping", 0, 8)
    assert told[-1] == ("sweeping", 8, 8)


def test_every_record_is_drawn_equally_often():
    data = people()
    cohorts = Cohorts(data, PLAN, seed=0, key=None)
    counts = np.zeros(60)
    smaller_in_larger = True
    for repeat in range(400):
        drawn = [set(cohorts.draw(size, repeat)[0].frame["id"]) for size in (20, 30)]
        smaller_in_larger &= drawn[0] < drawn[1]
        counts += data.frame["id"].is_in(drawn[0]).to_numpy()
    assert smaller_in_larger
    # A third of 400; the standard deviation of each count is 9.4.
    assert np.abs(counts - 400 / 3).max() < 4.5 * 9.43


def test_a_function_simulates_the_cohorts_once_for_all_parameters():
    asked = []

    def simulate(records: int, repeat: int) -> pl.DataFrame:
        asked.append((records, repeat))
        return frame(records).with_columns(pl.col("age") * (repeat + 1) % 100)

    made = sf.sweep(simulate, PLAN, sizes=[20, 40], repeats=2, intervals=[2, 5])
    assert asked == [(20, 0), (20, 1), (40, 0), (40, 1)]
    assert isinstance(made, pl.DataFrame)
    assert made.select("intervals", "records", "repeat").rows() == [
        (k, n, r) for k in (2, 5) for n in (20, 40) for r in (0, 1)
    ]
    with pytest.raises(PlanError, match="how many records to simulate"):
        sf.sweep(simulate, PLAN, intervals=[2])


def test_one_method_may_be_addressed_by_its_name():
    steps = [*STEPS, sf.methods.Drop(variables=["sex"])]
    plan = sf.Plan(schema=SCHEMA, steps=steps, evaluate=[sf.risk.Uniqueness(known=["age", "sex"])])
    made = sf.sweep(people(), plan, over={"topcode.top_quantile": np.array([0.5, 0.9])})
    assert made["topcode.top_quantile"].to_list() == [0.5, 0.9]
    lists = sf.sweep(
        people(),
        sf.Plan(schema=SCHEMA, steps=STEPS, targets={"k.min": 2}),
        over={"coarsen.variables": [["age"], ["age", "x"]], "intervals": range(2, 3)},
        bottom=[None, 1, 2.5],
    )
    assert lists["coarsen.variables"].to_list() == ["age"] * 3 + ["age, x"] * 3
    assert lists["bottom"].to_list() == [None, 1.0, 2.5] * 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"interval": [2]}, "No step .* 'interval'. Hint: did you mean 'intervals'"),
        ({"over": {"topcode.interval": [2]}}, "No step of the plan has"),
        ({"over": {"intervals": [2]}, "intervals": [3]}, "'intervals' are given twice"),
        ({"over": {"coarsen.intervals": [2]}, "intervals": [3]}, "varied twice"),
        ({"intervals": 5}, "must be a list"),
        ({"output": "range"}, "must be a list"),
        ({"intervals": []}, "no value of 'intervals'"),
        ({"intervals": [2], "repeats": 0}, "1 or more"),
        ({"intervals": [2], "sizes": []}, "whole numbers"),
        ({"intervals": [2], "sizes": [2.5]}, "whole numbers"),
        ({"measures": ["uniquness"]}, "did you mean 'uniqueness'"),
        ({"measures": [sf.risk.Uniqueness(known=["sex"])]}, "measures 'uniqueness' already"),
        ({"measures": {"met": sf.risk.Uniqueness()}}, "called 'met'"),
    ],
)
def test_what_is_wrong_is_told_before_the_work(given, expected):
    with pytest.raises(PlanError, match=expected):
        sf.sweep(people(), PLAN, **given)


def test_wrong_values_names_and_sizes_are_errors_and_not_rows():
    with pytest.raises(ParameterError, match="'intervals' parameter of Coarsen"):
        sf.sweep(people(), PLAN, intervals=[2, "many"])
    with pytest.raises(SchemaError, match="'agee' is not in the data"):
        sf.sweep(people(), PLAN, over={"coarsen.variables": [["agee"]]})
    with pytest.raises(DataError, match="61 cannot be drawn"):
        sf.sweep(people(), PLAN, sizes=[61])
    with pytest.raises(PlanError, match="direct identifiers"):
        sf.sweep(people(), sf.Plan(schema=SCHEMA, steps=STEPS[1:], targets={"k.min": 2}))
    with pytest.raises(PlanError, match="measures nothing"):
        sf.sweep(people(), sf.Plan(schema=SCHEMA, steps=STEPS), intervals=[2])


def test_more_measures_do_not_redirect_a_target():
    extra = {"by_sex": sf.risk.Uniqueness(known=["sex"])}
    made = sf.sweep(people(), PLAN, measures=extra, intervals=[20])
    assert made["by_sex.k"].to_list() == [30.0]
    assert made["met"].to_list() == [False]
    assert not math.isnan(made["uniqueness"][0])


def test_the_name_is_the_function_even_when_the_module_is_loaded():
    import sfumato.tuning.sweep

    assert callable(sf.sweep)
    assert sf.sweep is sfumato.tuning.sweep.sweep
