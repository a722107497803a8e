"""What all tests share."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, settings

import sfumato as sf
from sfumato.data import Dataset
from tests.browser import launch_browser
from tests.cli.command_line import Demo, run_demo

# Shared machines are slow at times; a test that is slow once is not wrong.
settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("house")

LIBRARIES = ("polars", "pandas", "pyarrow")


def in_library(frame: pl.DataFrame, library: str):
    """The same records in another frame library."""
    if library == "pandas":
        return frame.to_pandas()
    return frame.to_arrow() if library == "pyarrow" else frame


def drawn(name: str, values: Iterable[object]) -> pytest.MarkDecorator:
    """A parameter of which `make test` takes one value for each case, and `make test-all` all.

    Which one follows from the case's name, so it is the same in every run, and over many cases
    each value has its turn.
    """
    labelled = {f"{name}={value}": value for value in values}
    return pytest.mark.parametrize(
        name,
        [
            pytest.param(value, id=label, marks=pytest.mark.drawn(label, *labelled))
            for label, value in labelled.items()
        ],
    )


def draw_label(case: str, labels: Sequence[str]) -> str:
    """The one that a case of this name takes."""
    digest = hashlib.sha256(" ".join([case, *labels]).encode()).digest()
    return labels[int.from_bytes(digest) % len(labels)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a case has not drawn is for `make test-all`, as the long studies are."""
    for item in items:
        draws = {mark.args[0]: mark.args[1:] for mark in item.iter_markers("drawn")}
        case = item.nodeid
        for label in draws:
            case = case.replace(label, "")
        if any(draw_label(case, labels) != label for label, labels in draws.items()):
            item.add_marker(pytest.mark.study)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a process: a second would not start beside it."""
    with launch_browser() as running:
        yield running


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Demo:
    """The demo, run once for all processes of the tests."""
    base = tmp_path_factory.getbasetemp()
    return run_demo((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo")


@pytest.fixture(scope="session", autouse=True)
def ledger_of_the_session(tmp_path_factory) -> Iterator[Path]:
    """What fixtures of the session write is in no home's ledger either."""
    yield from _set_ledger(tmp_path_factory)


@pytest.fixture(scope="module", autouse=True)
def ledger_of_the_module(tmp_path_factory, ledger_of_the_session) -> Iterator[Path]:
    """What fixtures of a module write is unknown to other modules."""
    yield from _set_ledger(tmp_path_factory)


def _set_ledger(tmp_path_factory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ledger")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_LEDGER", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def ledger_of_the_test(tmp_path_factory, monkeypatch, ledger_of_the_module) -> Path:
    """A ledger of its own for every test: nobody's home is touched, and no test knows another."""
    folder: Path = tmp_path_factory.mktemp("ledger")
    monkeypatch.setenv("SFUMATO_LEDGER", str(folder))
    return folder


class _Keys:
    """Keys that follow from the place of a test: a release that chance refuses once in some
    hundred times is refused in every run or in none."""

    def __init__(self) -> None:
        self.move("")

    def move(self, place: str) -> None:
        self.place, self.count = place, 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return hashlib.shake_256(f"{self.place} {self.count}".encode()).digest(size)


@pytest.fixture(scope="session", autouse=True)
def keys_of_the_session() -> Iterator[_Keys]:
    keys = _Keys()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.randomness.secrets", SimpleNamespace(token_bytes=keys))
        yield keys


@pytest.fixture(scope="module", autouse=True)
def keys_of_the_module(request, keys_of_the_session) -> None:
    keys_of_the_session.move(request.node.nodeid)


@pytest.fixture(autouse=True)
def keys_of_the_test(request, keys_of_the_session, keys_of_the_module) -> Iterator[None]:
    keys_of_the_session.move(request.node.nodeid)
    yield
    keys_of_the_session.move(request.path.name)  # for fixtures of the module that come later


_ATTACKED = ("docs", "e2e", "test_attacks.py", "test_green_lights.py", "test_lights.py")
"""Where releases are attacked as everywhere else; other tests give attacks no time."""


@pytest.fixture(scope="module", autouse=True)
def time_for_attacks(request) -> Iterator[None]:
    """Attacks take longer than writing: most tests write releases on which none is tried.

    That is what a plan with `attack_seconds = 0` gets, so the light of their releases is amber.
    """
    with pytest.MonkeyPatch.context() as patch:
        parts = request.path.relative_to(Path(__file__).parent).parts
        if not {*parts} & {*_ATTACKED}:
            patch.setattr("sfumato.run.attacks.SECONDS", 0.0)
        yield


@pytest.fixture(scope="session")
def cohort_frame() -> pl.DataFrame:
    return sf.datasets.cohort(300)


@pytest.fixture
def cohort(cohort_frame: pl.DataFrame) -> Dataset:
    return sf.Dataset(cohort_frame, sf.datasets.cohort_schema())


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data; never part of the project."""
    where = os.environ.get("SFUMATO_DATA")
    if not where:
        if os.environ.get("SFUMATO_NOTHING_SKIPPED"):
            pytest.fail("SFUMATO_DATA is not set, and nothing may be skipped here")
        pytest.skip("SFUMATO_DATA is not set")
    return Path(where)


def generalised(frame, schema=None) -> sf.Dataset:
    """Data whose text is declared as generalised: `[24;28]`, `{a;b}`, `937**` and `*` are notation.

    Without that declaration, which every step that writes such cells makes, they are values.
    """
    data = sf.Dataset(frame) if schema is None else sf.Dataset(frame, schema)
    names = [name for name in data.columns if data.column(name).dtype == pl.String]
    return replace(data, schema=data.schema.changed(names, cells="generalised"))
