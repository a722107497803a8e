"""What every method keeps: one function a promise, each for one example of a class."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import polars as pl

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import LocalEngine
from sfumato.errors import MethodError, SfumatoError
from sfumato.io import frames
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.testing.documented import check_documented
from sfumato.testing.partitioned import PartitionedEngine
from sfumato.testing.samples import (
    KEY,
    LIBRARIES,
    Odd,
    convert,
    is_odd,
    make_odd,
    shuffle,
    write_content,
)

_LONG = 4


def make_example(method: type[Method], position: int) -> Method:
    """The method with the parameters of one of its examples."""
    return method(**method.examples[position])


def check_repeatable(method: type[Method], position: int, data: Dataset) -> None:
    """The same data and key give the same values."""
    made = [make_example(method, position).apply(data, key=KEY) for _ in range(2)]
    assert write_content(made[0]) == write_content(made[1]), "two runs differ"


def check_row_order(method: type[Method], position: int, data: Dataset, *, seed: int = 0) -> None:
    """Records get the same values wherever they stand."""
    shuffled, order = shuffle(data, seed)
    direct = make_example(method, position).apply(data, key=KEY).take(order)
    moved = make_example(method, position).apply(shuffled, key=KEY)
    assert write_content(moved) == write_content(direct), "the order of rows matters"


def check_partitions(method: type[Method], position: int, data: Dataset, *, seed: int = 0) -> None:
    """What a cluster cuts into parts becomes what one machine makes of it, or is refused."""
    example = make_example(method, position)
    try:
        split = example.apply(data, key=KEY, engine=PartitionedEngine(seed))
    except MethodError as error:
        refused = "only where one machine holds the records" in str(error)
        assert refused, f"refused with: {error}"
        return
    whole = make_example(method, position).apply(data, key=KEY)
    assert write_content(split) == write_content(whole), "how the records are parted matters"


def check_input_untouched(
    method: type[Method], position: int, data: Dataset, *, library: str = "polars"
) -> None:
    """The input stays as it was, the frame's type too, and so do other variables."""
    original = convert(data, library)
    before = write_content(original)
    example = make_example(method, position)
    after = example.apply(original, key=KEY)
    assert write_content(original) == before, "the input has changed"
    assert type(after.frame) is type(original.frame), "another type of frame came out"
    touched = example.touches(original.schema)
    others = [name for name in original.columns if name not in touched]
    assert [name for name in after.columns if name in others] == others, "columns moved"
    for name in others:
        kept, was = frames.wrap(after.frame)[name], frames.wrap(original.frame)[name]
        assert kept.dtype == was.dtype, f"'{name}' has another type"
        values = frames.get_column(after.frame, name)
        same = values.equals(frames.get_column(original.frame, name), null_equal=True)
        assert same, f"'{name}' has changed, and `touches` does not say so"
    if library == "pandas":
        assert after.frame.index.equals(original.frame.index), "the index has changed"


def check_libraries(
    method: type[Method], position: int, data: Dataset, *, library: str = "pandas"
) -> None:
    """Every frame library gets the same values."""
    results = []
    for each in (LIBRARIES[0], library):
        after = make_example(method, position).apply(convert(data, each), key=KEY)
        results.append({name: _list_values(after, name) for name in after.columns})
    assert results[0] == results[1], f"{library} gets other values"


def _list_values(data: Dataset, name: str) -> list[Any]:
    values = frames.get_column(data.frame, name)
    if values.dtype.is_numeric():
        values = values.cast(pl.Float64)
    elif values.dtype.is_temporal():
        values = values.cast(pl.Date)
    return values.to_list()


def check_odd(method: type[Method], position: int, data: Dataset, *, kind: Odd) -> None:
    """Odd data are handled, or refused with a reason and a hint, as `odd` states."""
    odd, example = make_odd(data, kind), make_example(method, position)
    if is_odd(method.odd, kind, position) == "refused":
        _check_refusal(example, odd)
        return
    after = example.apply(odd, key=KEY)
    assert len(after) == len(odd), f"{kind}: records were lost"
    touched = set(example.touches(odd.schema))
    columns = {*odd.columns}
    assert set(after.columns) in (columns, columns - touched), f"{kind}: columns were lost"
    for name in after.columns:
        released, original = after.column(name), odd.column(name)
        if name not in touched:
            assert released.equals(original, null_equal=True), f"{kind}: '{name}' has changed"
            continue
        # Nobody's missing value is made up, but where that is what the method is for.
        filled = method.fills_in and released.null_count() == 0
        kept = released.is_null().equals(original.is_null())
        assert filled or kept, f"{kind}: missing values of '{name}' were made up or lost"
        if not method.keyed:
            assert released.n_unique() <= 1, f"{kind}: equal records are not treated alike"


def _check_refusal(example: Method, odd: Dataset) -> None:
    try:
        example.apply(odd, key=KEY)
    except MethodError as error:
        said = str(error)
        assert error.hint, "a refusal without a hint"
        named = [name for name in example.touches(odd.schema) if f"'{name}'" in said]
        assert named or re.search("record|values|strata", said), f"it does not say why: {said}"
        rows = frames.wrap(odd.frame).rows()
        cells = {str(cell) for row in rows for cell in row if len(str(cell)) > _LONG}
        assert not [cell for cell in cells if cell in said], "the refusal quotes a cell"
    else:
        msg = "it was to be refused (`odd`), and was carried out"
        raise AssertionError(msg)


def check_unknown_variable(method: type[Method], position: int, data: Dataset) -> None:
    """A mistyped variable is named, with what was meant."""
    parameters = {parameter.name for parameter in catalogue.parameters_of(method)}
    if "variables" not in parameters:
        return
    example = dict(method.examples[position])
    near = next(name for name in data.columns if len(name) > _LONG)
    wrong = f"{near[:-2]}{near[-1]}{near[-2]}"
    rest = list(example.get("variables") or ["x"])[1:]
    try:
        method(**{**example, "variables": [wrong, *rest]}).apply(data, key=KEY)
    except SfumatoError as error:
        said = str(error)
        assert f"'{wrong}' is not in the data" in said, f"it does not name the variable: {said}"
        assert f"did you mean '{near}'" in said, f"no hint: {said}"
    else:
        msg = f"'{wrong}' was taken for a variable"
        raise AssertionError(msg)


def check_plan_file(method: type[Method], position: int, data: Dataset) -> None:
    """A plan with it is the same after it was written and read."""
    del data
    plan = Plan(steps=[make_example(method, position)])
    assert Plan.parse(plan.text()) == plan, "it does not survive the plan file"
    read = Plan.parse(plan.text(comments=True))
    assert read.digest == plan.digest, "comments change the digest"


def check_fitted_is_plain(method: type[Method], position: int, data: Dataset) -> None:
    """What it has learnt, and what it publishes of it, can be written as JSON."""
    example = make_example(method, position)
    fitted = example.fit(data, LocalEngine())
    assert json.loads(json.dumps(dict(fitted))) is not None, "nothing was fitted"
    public = example.public(fitted)
    assert public["method"] == method.name, "the manifest names another method"
    assert json.dumps(public, default=str), "the manifest cannot be written"


def _bind_odd(kind: Odd) -> Callable[[type[Method], int, Dataset], None]:
    return lambda method, position, data: check_odd(method, position, data, kind=kind)


_KINDS: tuple[Odd, ...] = ("empty", "one row", "all missing", "constant")
METHOD_CHECKS: dict[str, Callable[[type[Method], int, Dataset], None]] = {
    "documented": check_documented,
    "repeatable": check_repeatable,
    "row order": check_row_order,
    "partitions": check_partitions,
    "input untouched": check_input_untouched,
    "libraries": check_libraries,
    "unknown variable": check_unknown_variable,
    "plan file": check_plan_file,
    "fitted is plain": check_fitted_is_plain,
    **{kind: _bind_odd(kind) for kind in _KINDS},
}
"""By name, the checks of a method: each takes the class, the position of an example, and data."""
