"""What every measure keeps: one function a promise, each for one example of a class."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.testing.documented import check_documented
from sfumato.testing.samples import (
    LIBRARIES,
    Odd,
    convert,
    is_odd,
    make_odd,
    shuffle,
    write_content,
)

_CLOSE = 1e-12
_REASONS = "(?i)record|value|level|variable|vary|compare|outcome"


def take(measure: type[Measure], position: int, data: Dataset) -> Evidence:
    """The evidence of an example: of the data, or of the data held against themselves."""
    example = measure(**measure.examples[position])
    return example.measure(data) if example.of == "one" else example.measure(data, data)


def check_complete(measure: type[Measure], position: int, data: Dataset) -> None:
    """The evidence has a number, an assumption, and every number that the class declares."""
    found = take(measure, position, data)
    assert found.name == measure.name, "the evidence has another name"
    assert math.isfinite(found.value), "no number"
    assert found.assumptions, "no assumption in words"
    assert found.direction == measure.direction, "the evidence has another direction"
    lacking = {number.name for number in measure.numbers[1:]} - set(found.details)
    assert not lacking, f"declared, and not among the details: {sorted(lacking)}"
    for number in measure.numbers:
        value = found.number(number.name)
        within = math.isnan(value) or number.lowest <= value <= number.highest
        assert within, f"{number.name} lies outside what is declared"
        # Of a risk people must be told which way is safer.
        assert measure.room() != "risk" or number.safer != "neither", number.name
    assert json.dumps(found.plain(), allow_nan=False), "it cannot be written"
    if found.records is not None:
        assert len(found.records) == len(data), "another number of records"


def check_row_order(measure: type[Measure], position: int, data: Dataset, *, seed: int = 0) -> None:
    """The numbers do not depend on the order of rows; those of records move with them."""
    shuffled, order = shuffle(data, seed)
    found, other = take(measure, position, data), take(measure, position, shuffled)
    assert other.plain() == found.plain(), "the order of rows matters"
    if found.records is not None:
        moved = frames.wrap(found.records).to_polars()[order]
        assert frames.wrap(other.records).to_polars().equals(moved), "records got others' values"


def check_libraries(
    measure: type[Measure], position: int, data: Dataset, *, library: str = "pandas"
) -> None:
    """Every frame library gets the same numbers."""
    found = [take(measure, position, convert(data, each)).plain()
             for each in (LIBRARIES[0], library)]  # fmt: skip
    assert found[0] == found[1], f"{library} gets other numbers"


def check_input_untouched(measure: type[Measure], position: int, data: Dataset) -> None:
    """A measure never modifies."""
    before = write_content(data)
    take(measure, position, data)
    assert write_content(data) == before, "the input has changed"


def check_odd(measure: type[Measure], position: int, data: Dataset, *, kind: Odd) -> None:
    """Odd data are never called safe by accident: it says what `odd` states, or refuses."""
    stated = is_odd(measure.odd, kind, position)
    try:
        found = take(measure, position, make_odd(data, kind))
    except MeasureError as error:
        assert stated is None, f"{kind}: refused, and `odd` states {stated}: {error}"
        assert re.search(_REASONS, str(error)), f"{kind}: it does not say why: {error}"
        return
    assert stated is not None, f"{kind}: it says {found.value}, and `odd` states nothing"
    assert math.isclose(found.value, stated, abs_tol=_CLOSE), f"{kind}: it says {found.value}"


def check_plan_file(measure: type[Measure], position: int, data: Dataset) -> None:
    """A plan with it is the same after it was written and read."""
    del data
    plan = Plan(evaluate={"label": measure(**measure.examples[position])})
    assert Plan.parse(plan.text(comments=True)) == plan, "it does not survive the plan file"


def _bind_odd(kind: Odd) -> Callable[[type[Measure], int, Dataset], None]:
    return lambda measure, position, data: check_odd(measure, position, data, kind=kind)


_KINDS: tuple[Odd, ...] = ("empty", "one row", "all missing")
MEASURE_CHECKS: dict[str, Callable[[type[Measure], int, Dataset], None]] = {
    "documented": check_documented,
    "complete": check_complete,
    "row order": check_row_order,
    "libraries": check_libraries,
    "input untouched": check_input_untouched,
    "plan file": check_plan_file,
    **{kind: _bind_odd(kind) for kind in _KINDS},
}
"""By name, the checks of a measure: each takes the class, the position of an example, and data."""
