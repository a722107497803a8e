"""Models that are fitted pass by pass say what models in memory say."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines import Engine, engine_for
from sfumato.errors import MeasureError, MethodError
from sfumato.testing.partitioned import PartitionedEngine
from sfumato.utility.models import distributed, distributed_propensity

CLOSE = 1e-10
FORMULAS = [
    ("y ~ x + z", "linear"),
    ("log(y + 20) ~ x*group + I(z^2/10000)", "linear"),
    ("center(y) ~ poly(x, 3) + scale(center(z)) + C(code)", "linear"),
    ("yes ~ x + group", "logistic"),
    ("letter ~ scale(z) + x:group", "logistic"),
    ("count ~ x + C(code) + flag", "poisson"),
    ("count ~ log2(count + 1) + day", "poisson"),
]


def simulate(seed: int, records: int = 400) -> sf.Dataset:
    """Records with gaps, categories, codes, truth values and days."""
    draw = np.random.default_rng(seed)
    x, z = draw.normal(size=records), 100 + draw.gamma(2, 50, size=records)
    group = draw.integers(0, 3, size=records)
    y = 1 + x - group + draw.normal(size=records)
    frame = pl.DataFrame(
        {
            "y": y,
            "x": pl.Series(x).set(pl.Series(draw.random(records) < 0.1), None),
            "z": z,
            "group": np.array(["b", "a", "c"])[group],
            "code": draw.integers(1, 4, size=records),
            "yes": (y + draw.normal(size=records) > 0).astype(int),
            "letter": np.where(x + draw.normal(size=records) > 0, "p", "q"),
            "count": draw.poisson(np.exp(0.3 * x + 0.5)),
            "flag": draw.random(records) < 0.5,
            "day": pl.Series(draw.integers(0, 900, records), dtype=pl.Int32).cast(pl.Date),
        }
    )
    return sf.Dataset(
        frame, sf.Schema({"group": sf.Column(kind="nominal", domain=("c", "b", "a"))})
    )


def disturb(data: sf.Dataset, seed: int) -> sf.Dataset:
    """Some noise in the numbers."""
    draw = np.random.default_rng(seed)
    frame = data.frame
    noisy = [pl.col(name) + pl.Series(draw.normal(size=frame.height) * 0.2) for name in ("x", "z")]
    return sf.Dataset(frame.with_columns(noisy), data.schema)


def assert_close(here: sf.Evidence, there: sf.Evidence) -> None:
    assert there.warnings == here.warnings
    assert there.assumptions == here.assumptions
    assert there.value == pytest.approx(here.value, rel=CLOSE, abs=CLOSE)
    for name, number in here.details.items():
        if isinstance(number, float):
            assert there.details[name] == pytest.approx(number, rel=CLOSE, abs=CLOSE, nan_ok=True)
        else:
            assert there.details[name] == number
    wanted, table = here.table, pl.DataFrame(there.table)
    assert table.schema == wanted.schema
    for column in wanted:
        if column.dtype.is_float():
            np.testing.assert_allclose(table[column.name], column, rtol=CLOSE, atol=CLOSE)
        else:
            assert table[column.name].equals(column)


@pytest.mark.parametrize(("formula", "family"), FORMULAS)
def test_coefficients_by_passes_are_those_in_memory(
    formula: str, family: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "BLOCK", 97)
    original = simulate(0)
    released = disturb(original, 0)
    measure = sf.utility.Coefficients(formula=formula, family=family)
    assert_close(
        measure.measure(original, released),
        measure.measure(original, released, engine=PartitionedEngine(1)),
    )


@pytest.mark.parametrize("model", ["main", "interactions"])
@pytest.mark.parametrize("named", [None, ["x", "z", "code", "day"]])
def test_propensity_by_passes_is_that_in_memory(model: Any, named: Any) -> None:
    original = simulate(3)
    released = disturb(original, 3)
    categories = ["code"] if named else None
    measure = sf.utility.Propensity(
        variables=named, categories=categories, model=model, permutations=0
    )
    engine = PartitionedEngine(4)
    assert_close(
        measure.measure(original, released), measure.measure(original, released, engine=engine)
    )


def test_batch_by_batch_both_are_those_in_memory() -> None:
    original = simulate(5)
    released = disturb(original, 5)
    lazy = [sf.Dataset(data.frame.lazy(), data.schema) for data in (original, released)]
    assert engine_for(lazy[0].frame).name == "streaming"
    for measure in (
        sf.utility.Coefficients(formula="letter ~ x + group + poly(z, 2)", family="logistic"),
        sf.utility.Propensity(permutations=0),
    ):
        evidence = measure.measure(*lazy)
        assert evidence.records is None
        table = evidence.table
        collected = table.collect() if isinstance(table, pl.LazyFrame) else table
        object.__setattr__(evidence, "table", collected)
        assert_close(measure.measure(original, released), evidence)


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 10_000), st.integers(30, 90))
def test_how_records_are_parted_does_not_matter(seed: int, records: int) -> None:
    original = simulate(seed, records)
    released = disturb(original, seed)
    measures: list[Any] = [
        sf.utility.Coefficients(formula="y ~ x + group"),
        sf.utility.Propensity(variables=["x", "z", "group"], permutations=0),
    ]
    for measure in measures:
        first, second = (
            measure.measure(original, released, engine=PartitionedEngine(seed, parts))
            for parts in (2, 7)
        )
        assert first.value == pytest.approx(second.value, rel=1e-9, abs=1e-12)


def solve_exactly(columns: list[Any], outcome: Any) -> list[float]:
    """Least squares by rational numbers, without any rounding."""
    exact = [[Fraction(float(value)) for value in column] for column in (*columns, outcome)]
    rows = [
        [sum(map(operator.mul, one, other)) for other in exact] for one in exact[: len(columns)]
    ]
    for index, row in enumerate(rows):
        row[:] = [value / row[index] for value in row]
        for other in rows[:index] + rows[index + 1 :]:
            factor = other[index]
            other[:] = [a - factor * b for a, b in zip(other, row, strict=True)]
    return [float(row[-1]) for row in rows]


def test_terms_far_from_0_and_of_any_size_lose_no_digits() -> None:
    """Sums of squares would lose ten of them, and statsmodels loses some of the small estimate."""
    draw = np.random.default_rng(8)
    x, z = 1e5 + draw.normal(size=200), draw.normal(size=200) ** 2 * 1e4
    frame = pl.DataFrame({"x": x, "z": z, "y": 2 * (x - 1e5) + draw.normal(size=200)})
    data = sf.Dataset(frame)
    measure = sf.utility.Coefficients(formula="y ~ x + z")
    table = measure.measure(data, data, engine=PartitionedEngine(1)).table
    wanted = solve_exactly([np.ones(200), x, z], frame["y"])
    np.testing.assert_allclose(table["original"], wanted, rtol=2e-9)


IMPOSSIBLE = [
    ("y ~ x + I(2*x)", "linear", "say nothing"),
    ("y ~ log(x)", "linear", "no finite value"),
    ("y ~ I(y + 0)", "linear", "exactly"),
    ("group ~ x", "linear", "is a category"),
    ("y ~ x", "logistic", "must be 0 or 1"),
    ("x ~ z", "poisson", "must be counts"),
    ("sign ~ x", "logistic", "with certainty"),
    ("y ~ name", "linear", "more than 200 levels"),
    ("y ~ nothing", "linear", "No record|no value at all"),
]


@pytest.mark.parametrize(("formula", "family", "words"), IMPOSSIBLE)
def test_what_cannot_be_fitted_says_so_as_in_memory(formula: str, family: Any, words: str) -> None:
    data = simulate(2)
    frame = data.frame.with_columns(
        sign=(pl.col("x") > 0).cast(pl.Int8),
        name=pl.int_range(pl.len()).cast(pl.String),
        nothing=pl.lit(None, pl.Float64),
    )
    data = sf.Dataset(frame, data.schema)
    measure = sf.utility.Coefficients(formula=formula, family=family)
    engines: list[Engine | None] = [None, PartitionedEngine(2)]
    messages = []
    for engine in engines:
        with pytest.raises(MeasureError, match=words) as caught:
            measure.measure(data, data, engine=engine)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_cells_that_stand_for_several_values_are_drawn_in_memory_only() -> None:
    data = simulate(6)
    coarse = sf.Dataset(
        data.frame.with_columns(group=pl.lit("[a, b]")),
        data.schema.over({"group": sf.Column(kind="nominal", cells="generalised")}),
    )
    renamed = sf.Dataset(data.frame.with_columns(group=pl.lit("other")), data.schema)
    for released in (coarse, renamed):
        for measure in (
            sf.utility.Coefficients(formula="y ~ group"),
            sf.utility.Propensity(variables=["group", "y"]),
        ):
            with pytest.raises(MeasureError, match=r"'group'.* in memory only"):
                measure.measure(data, released, engine=PartitionedEngine(1))


def test_a_tree_and_permutations_are_refused_before_any_work() -> None:
    data = simulate(7)
    for parameters in ({"model": "tree"}, {"permutations": 9}):
        measure = sf.utility.Propensity(**parameters)
        with pytest.raises(MethodError, match="in memory only"):
            measure.measure(data, data, engine=PartitionedEngine(1))


def test_the_p_value_that_is_not_there_has_a_reason() -> None:
    data = simulate(7)
    evidence = sf.utility.Propensity().measure(data, disturb(data, 7), engine=PartitionedEngine(1))
    assert np.isnan(evidence.details["p_value"])
    assert "in memory" in evidence.details["p_value_reason"]


def test_new_codes_are_one_level() -> None:
    """Of more than 50 levels, those that only the release has are one."""
    draw = np.random.default_rng(11)
    codes = draw.integers(0, 30, 4000)
    original = sf.Dataset(pl.DataFrame({"code": codes, "x": draw.normal(size=4000)}))
    released = sf.Dataset(
        original.frame.with_columns(
            code=pl.Series(np.where(draw.random(4000) < 0.3, codes + draw.integers(30, 90), codes))
        )
    )
    measure = sf.utility.Propensity(variables=["code", "x"], categories=["code"], permutations=0)
    engine = PartitionedEngine(2)
    here, there = (
        measure.measure(original, released),
        measure.measure(original, released, engine=engine),
    )
    assert there.details["parameters"] == here.details["parameters"]
    assert there.value == pytest.approx(here.value, rel=1e-6)


def test_equal_records_cannot_be_told_apart() -> None:
    data = sf.Dataset(pl.DataFrame({"x": [2.0] * 30, "a": ["p"] * 30}))
    with pytest.raises(MeasureError, match="All records are equal"):
        sf.utility.Propensity().measure(data, data, engine=PartitionedEngine(1))


def test_no_part_of_a_model_holds_records() -> None:
    """What is sent to a worker knows levels, means and estimates only."""
    data = simulate(9)
    found = distributed_propensity.find_records(
        data, data, ["x", "group"], PartitionedEngine(1), categories=(), owner="test"
    )
    assert len(found.read_nothing().counts) == 0
    design = distributed_propensity.build_distant_design(found, interactions=True)
    assert len(design.merged.counts) == 0
