"""Methods that are ready for a cluster: they look at records through the verbs of an engine only.

Everywhere else the records are sealed, as they are where they lie on other machines.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
from tests.contract.test_methods import CASES, KEY, content, made
from tests.partitioned import PartitionedEngine

import sfumato as sf

READY = {
    "coarsen", "correlated_noise", "drop", "misclassify", "noise", "pseudonymise", "recode",
    "topcode", "weights",
}  # fmt: skip
_OPENED: list[str] = []


class SealedError(AssertionError):
    """Somebody looked at records outside an engine."""


def _require_open(what: str) -> None:
    if not _OPENED:
        raise SealedError(what)


class SealedDataset(sf.Dataset):
    """Records that only a verb may look at."""

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

    def __getattr__(self, verb: str) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            self.verbs.append(verb)
            with _opened(verb):
                return getattr(self.inner, verb)(*args, **options)

        return run


@contextmanager
def _opened(verb: str) -> Any:
    _OPENED.append(verb)
    try:
        yield
    finally:
        _OPENED.pop()


@pytest.mark.parametrize(("name", "example"), [case for case in CASES if case.values[0] in READY])
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
    method = sf.methods.KAnonymity(variables=["height", "sex"], k=5)
    with pytest.raises(SealedError):
        method.apply(sealed, key=KEY, engine=SealedEngine(PartitionedEngine(1)))
