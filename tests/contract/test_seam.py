"""What is ready for a cluster looks at records through the verbs of an engine only.

Everywhere else the records are sealed, as they are where they lie on other machines.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from tests.contract.examples import CASES, made

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import MeasureError, MethodError
from sfumato.testing.partitioned import PartitionedEngine
from sfumato.testing.samples import KEY
from sfumato.testing.samples import write_content as content

READY = {name for name, entry in catalogue.methods().items() if "spark" in entry.runs_on}
_OPENED: list[str] = []


class SealedError(AssertionError):
    """Somebody looked at records outside an engine."""


def _require_open(what: str) -> None:
    if not _OPENED:
        raise SealedError(what)


class SealedDataset(sf.Dataset):
    """Records that only a verb may look at."""

    def __len__(self) -> int:
        _require_open("the number of records")
        return super().__len__()

    def column(self, name: str) -> Any:
        _require_open(f"column '{name}'")
        return super().column(name)

    def batch(self, names: Any) -> Any:
        _require_open("a batch")
        return super().batch(names)

    def with_columns(self, new: Any, schema: Any = None) -> Any:
        _require_open("new columns")
        return super().with_columns(new, schema)


class SealedEngine:
    """An engine that opens the records for as long as one of its verbs runs, and notes which."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.verbs: list[str] = []

    name: ClassVar[str] = "sealed"
    in_memory: ClassVar[bool] = False
    in_batches: ClassVar[bool] = False

    def __getattr__(self, verb: str) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            self.verbs.append(verb)
            for given in (*args, *options.values()):
                _require_portable(given)
            with _opened(verb):
                return getattr(self.inner, verb)(*args, **options)

        return run


def _require_portable(function: Any, depth: int = 0) -> None:
    """A function is sent to other machines: it must not take records with it."""
    for cell in getattr(function, "__closure__", None) or ():
        held = cell.cell_contents
        for thing in held.values() if isinstance(held, dict) else (held,):
            if isinstance(thing, (sf.Dataset, SealedEngine)):
                raise SealedError(f"a function that holds {type(thing).__name__}")
            if callable(thing) and depth < 5:
                _require_portable(getattr(thing, "__func__", thing), depth + 1)
                _require_portable(getattr(thing, "__self__", None), depth + 1)


@contextmanager
def _opened(verb: str) -> Any:
    _OPENED.append(verb)
    try:
        yield
    finally:
        _OPENED.pop()


# The k that `at_most` asks for is looked for in memory only.
ELSEWHERE = [
    case for case in CASES if case.values[0] in READY and "at_most" not in str(case.values[1])
]


@pytest.mark.parametrize(("name", "example"), ELSEWHERE)
def test_records_are_looked_at_by_an_engine_only(name, example, cohort):
    sealed = SealedDataset(cohort.frame, cohort.schema)
    engine = SealedEngine(PartitionedEngine(1))
    method = made(name, example)
    released = method.apply(sealed, key=KEY, engine=engine)
    assert content(sf.Dataset(released.frame, released.schema)) == content(
        method.apply(cohort, key=KEY)
    )
    # What calls no verb has looked at nothing, and may only take variables away.
    assert engine.verbs or set(released.columns) < set(cohort.columns)


def test_a_method_that_looks_by_itself_is_caught(cohort):
    sealed = SealedDataset(cohort.frame, cohort.schema)
    method = sf.methods.Regenerate(variables=["income"], marginal="observed")
    with pytest.raises(SealedError):
        method.apply(sealed, key=KEY, engine=SealedEngine(PartitionedEngine(1)))


def protect_some(data: sf.Dataset) -> sf.Dataset:
    """A release with ranges, groups, noise and values that are missing."""
    steps = [
        sf.methods.Coarsen(variables=["birth_date", "household_size"], intervals=3),
        sf.methods.Recode(variables=["ethnicity"], level=1),
        sf.methods.Suppress(variables=["sex", "region", "education"], k=3),
        sf.methods.Noise(variables=["glucose", "height", "income"], sd_share=0.3),
        sf.methods.Misclassify(variables=["diagnosis"], retention=0.9),
        sf.methods.Topcode(variables=["systolic"], top=150.0),
    ]
    for number, step in enumerate(steps):
        data = step.apply(data, key=KEY, step=number)
    return data


@pytest.fixture(scope="module")
def cohorts() -> tuple[sf.Dataset, sf.Dataset]:
    data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    return data, protect_some(data)


BEYOND: list[Any] = [
    *(
        pytest.param(name, example, id=f"{name}-{number}")
        for name, measure in catalogue.measures().items()
        if len(measure.runs_on) > 1
        for number, example in enumerate(measure.examples)
        if "individuals" not in example  # drawn from records in memory only
    ),
    # Without ranges, from which numbers are drawn in memory only.
    pytest.param("moments", {"variables": ["glucose", "income", "systolic", "children"]}),
    pytest.param(
        "coefficients",
        {"formula": "systolic ~ height + poly(income, 2) + smoking"},
        id="coefficients-plain",
    ),
    pytest.param(
        "coefficients",
        {"formula": "children ~ scale(height)", "family": "poisson"},
        id="coefficients-counts",
    ),
    pytest.param(
        "propensity",
        {"variables": ["height", "smoking"], "permutations": 0},
        id="propensity-plain",
    ),
    pytest.param(
        "propensity",
        {
            "variables": ["glucose", "income", "children"],
            "categories": ["children"],
            "model": "interactions",
            "permutations": 0,
        },
        id="propensity-products",
    ),
]
FITTED = {"coefficients": 1e-10, "propensity": 1e-10}
"""Relative difference of what is solved from sums: more than that of the sums themselves."""


def assert_same(evidence: Any, wanted: Any, error: float = 1e-12) -> None:
    """Counts are equal; what was added up in another order differs by a rounding error at most."""
    if isinstance(wanted, dict):
        assert evidence.keys() == wanted.keys()
        for key, value in wanted.items():
            assert_same(evidence[key], value, error)
    elif isinstance(wanted, (list, tuple)):
        assert len(evidence) == len(wanted)
        for mine, theirs in zip(evidence, wanted, strict=True):
            assert_same(mine, theirs, error)
    elif isinstance(wanted, float):
        assert evidence == pytest.approx(wanted, rel=error, abs=error, nan_ok=True)
    else:
        assert evidence == wanted


def assert_measured_alike(measure: Any, here: Any, there: Any, engine: Any = None) -> None:
    """Elsewhere there is the same evidence, or the word that this takes records in memory."""
    measure = measure.for_value()  # permutations are for records in memory
    try:
        evidence = measure.measure(*there, engine=engine)
    except (MeasureError, MethodError) as error:
        if "in memory only" not in str(error):
            with pytest.raises(type(error), match=re.escape(str(error))):
                measure.measure(*here)
        return
    assert evidence.records is None  # nobody has all of them in one place
    wanted = measure.measure(*here).plain()
    assert_same(evidence.plain(), wanted, FITTED.get(measure.name, 1e-12))


@pytest.mark.parametrize(("name", "example"), BEYOND)
def test_a_measure_looks_through_an_engine_only(name, example, cohorts):
    engine: Any = SealedEngine(PartitionedEngine(len(name)))
    measure = catalogue.measures()[name](**example)
    sealed = [
        SealedDataset(data.frame, data.schema, given_identity=data.identity) for data in cohorts
    ]
    assert_measured_alike(measure, cohorts, sealed, engine)
    refused = ("coefficients", "correlations", "moments", "propensity")
    assert engine.verbs or measure.name in refused
