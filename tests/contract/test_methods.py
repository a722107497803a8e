"""What every method keeps. A new file in methods/ is tested here without a change."""

from __future__ import annotations

import inspect
import json
import re

import numpy as np
import polars as pl
import pytest
from tests.conftest import LIBRARIES, drawn, in_library
from tests.partitioned import PartitionedEngine

import sfumato as sf
from sfumato import catalogue
from sfumato.engines import LocalEngine
from sfumato.errors import MethodError
from sfumato.io import frames

KEY = bytes(range(32))
CASES = [
    pytest.param(name, example, id=f"{name}-{at}")
    for name, method in catalogue.methods().items()
    for at, example in enumerate(method.examples)
]
each_method = pytest.mark.parametrize(("name", "example"), CASES)


def made(name, example):
    return catalogue.methods()[name](**example)


def content(data: sf.Dataset) -> bytes:
    """All values with their types, as bytes."""
    columns = [frames.get_column(data.frame, name) for name in data.columns]
    # The shortest text of a float is exact, so equal texts are equal bits.
    return repr([(one.name, one.dtype, one.to_list()) for one in columns]).encode()


@each_method
def test_says_what_it_does(name, example):
    entry = catalogue.methods()[name]
    doc = inspect.getdoc(entry) or ""
    assert catalogue.first_line(entry).endswith(".")
    assert "Question:" in doc
    assert "Assumes:" in doc
    assert ">>>" in doc
    assert entry.__module__ == f"sfumato.methods.{name}"
    assert all(one.help for one in catalogue.parameters_of(entry))
    assert set(example) <= {one.name for one in catalogue.parameters_of(entry)}


@each_method
def test_is_deterministic(name, example, cohort):
    once = made(name, example).apply(cohort, key=KEY)
    again = made(name, example).apply(cohort, key=KEY)
    assert content(once) == content(again)


@each_method
@drawn("seed", range(3))
def test_row_order_does_not_matter(name, example, seed, cohort):
    order = np.random.default_rng(seed).permutation(len(cohort))
    shuffled = sf.Dataset(cohort.frame[order], cohort.schema)
    direct = made(name, example).apply(cohort, key=KEY).take(order)
    assert content(made(name, example).apply(shuffled, key=KEY)) == content(direct)


@each_method
@drawn("seed", range(3))
def test_partitioning_does_not_matter(name, example, seed, cohort):
    engine = PartitionedEngine(seed)
    if name == "deterministic" and "at_most" in example:
        with pytest.raises(MethodError, match="only where one machine holds the records"):
            made(name, example).apply(cohort, key=KEY, engine=engine)
        return
    split = made(name, example).apply(cohort, key=KEY, engine=engine)
    assert content(split) == content(made(name, example).apply(cohort, key=KEY))


@each_method
@drawn("library", LIBRARIES)
def test_input_and_other_variables_stay_untouched(name, example, library, cohort_frame):
    frame = in_library(cohort_frame, library)
    data = sf.Dataset(frame, sf.datasets.cohort_schema())
    before = content(data)
    method = made(name, example)
    after = method.apply(data, key=KEY)
    assert content(data) == before
    assert type(after.frame) is type(frame)
    others = [one for one in data.columns if one not in method.touches(data.schema)]
    assert [one for one in after.columns if one in others] == others
    for one in others:
        kept, was = frames.wrap(after.frame)[one], frames.wrap(frame)[one]
        assert kept.dtype == was.dtype
        assert frames.get_column(after.frame, one).equals(
            frames.get_column(frame, one), null_equal=True
        )
    if library == "pandas":
        assert after.frame.index.equals(frame.index)


@each_method
@drawn("library", LIBRARIES[1:])
def test_all_libraries_give_the_same_values(name, example, library, cohort_frame):
    schema = sf.datasets.cohort_schema()
    results = []
    for each in (LIBRARIES[0], library):
        data = sf.Dataset(in_library(cohort_frame, each), schema)
        after = made(name, example).apply(data, key=KEY)
        columns = {}
        for one in after.columns:
            values = frames.get_column(after.frame, one)
            if values.dtype.is_numeric():
                values = values.cast(pl.Float64)
            elif values.dtype.is_temporal():
                values = values.cast(pl.Date)
            columns[one] = values.to_list()
        results.append(columns)
    assert results[0] == results[1]


FEW = {"empty", "one row"}
NOTHING = {"empty", "all missing"}
REFUSED = {
    "coarsen-2": NOTHING,
    "correlated_noise": FEW | {"all missing", "constant"},
    "deterministic": FEW | {"all missing", "constant"},
    "displace_coordinates": {"one row", "constant"},
    "k_anonymity": FEW,
    "k_anonymity-3": FEW | {"all missing"},
    "km_anonymity": FEW,
    "l_diversity": FEW | {"all missing", "constant"},
    "mask_unique": FEW,
    "misclassify-2": FEW | {"all missing", "constant"},
    "noise-0": FEW | {"all missing", "constant"},
    "noise-1": FEW | {"all missing", "constant"},
    "noise-2": FEW | {"all missing", "constant"},
    "recode-5": {"one row"},
    "regenerate-0": {"all missing"},
    "suppress": FEW,
    "t_closeness": FEW | {"all missing"},
    "t_closeness-0": FEW,
    "t_closeness-1": FEW | {"all missing", "constant"},
    "topcode-0": NOTHING,
    "weights": NOTHING,
}
"""Which examples of which methods refuse odd data; all others must do what they do on any data."""


@each_method
@pytest.mark.parametrize("odd", ["empty", "one row", "all missing", "constant"])
def test_odd_data_are_handled_or_refused(name, example, odd, cohort_frame, request):
    frame = {
        "empty": cohort_frame.clear(),
        "one row": cohort_frame.head(1),
        "all missing": cohort_frame.head(20).with_columns(
            pl.lit(None).cast(dtype).alias(one) for one, dtype in cohort_frame.schema.items()
        ),
        "constant": pl.concat([cohort_frame.head(1)] * 20),
    }[odd]
    data = sf.Dataset(frame, sf.datasets.cohort_schema())
    method = made(name, example)
    case = request.node.callspec.id.removeprefix(f"{odd}-")
    if odd in REFUSED.get(case, REFUSED.get(name, set())):
        with pytest.raises(MethodError) as refused:
            method.apply(data, key=KEY)
        assert refused.value.hint
        named = [one for one in method.touches(data.schema) if f"'{one}'" in str(refused.value)]
        assert named or re.search("record|values|strata", str(refused.value))
        cells = {str(cell) for row in frame.rows() for cell in row if len(str(cell)) > 4}
        assert not [cell for cell in cells if cell in str(refused.value)]
        return
    after = method.apply(data, key=KEY)
    assert len(after) == len(frame)
    touched = set(method.touches(data.schema))
    assert set(after.columns) in ({*frame.columns}, {*frame.columns} - touched)
    for one in after.columns:
        released, original = after.column(one), data.column(one)
        if one not in touched:
            assert released.equals(original, null_equal=True), one
            continue
        # Nobody's missing value is made up, but where that is what the method is for.
        filled = name == "regenerate" and released.null_count() == 0
        assert filled or released.is_null().equals(original.is_null()), one
        if not method.keyed:
            # Equal records are treated alike.
            assert released.n_unique() <= 1, one


@each_method
def test_an_unknown_variable_is_named_with_a_hint(name, example, cohort):
    if "variables" not in example:
        example = {**example, "variables": ["x"]}
    wrong = {**example, "variables": ["regoin", *example["variables"][1:]]}
    with pytest.raises(sf.SfumatoError, match="'regoin' is not in the data.*did you mean 'region'"):
        made(name, wrong).apply(cohort, key=KEY)


@each_method
def test_survives_the_plan_file(name, example):
    plan = sf.Plan(steps=[made(name, example)])
    assert sf.Plan.parse(plan.text()) == plan
    assert sf.Plan.parse(plan.text(comments=True)).digest == plan.digest


@each_method
def test_what_it_fits_and_tells_is_plain(name, example, cohort):
    method = made(name, example)
    fitted = method.fit(cohort, LocalEngine())
    assert json.loads(json.dumps(dict(fitted))) is not None
    told = method.public(fitted)
    assert told["method"] == name
    assert json.dumps(told, default=str)


def test_infinite_values_are_refused_by_name():
    data = sf.Dataset(pl.DataFrame({"x": [1.0, float("inf")]}), sf.Schema({"x": "quasi"}))
    with pytest.raises(sf.SfumatoError, match="'x' holds infinite"):
        sf.methods.Topcode(variables=["x"], top=1).apply(data)
