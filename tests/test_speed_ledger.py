"""The ledger of speed: what it says, and when it says no."""

import importlib
from pathlib import Path

import pytest
from benchmarks import ledger
from benchmarks.__main__ import list_modules
from benchmarks.cost import Cost
from benchmarks.rows import Comparison, Row

ROW = Row("sorting, 10 records", "sorted(range(10))", "list(range(10))", "making a list", goal=5)


def compared(ratio: float) -> Comparison:
    return Comparison(ROW, Cost(ratio, 10.0, ratio), Cost(1.0, 1.0, 1.0))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.toml"


def test_what_is_added_is_read_again_and_the_best_is_the_smallest(file):
    ledger.add([("kernel", compared(3.0)), ("kernel", compared(2.0))], file)
    ledger.add([("kernel", compared(2.5))], file)
    entries = ledger.read(file)
    assert [one.ratio for one in entries] == [3.0, 2.0, 2.5]
    assert {one.goal for one in entries} == {5}
    assert ledger.find_best(entries) == {ROW.name: 2.0}
    page = ledger.write_page(entries)
    assert f"| {ROW.name} | making a list | 3 | 2 | 2.5 | 5 |" in page


@pytest.mark.parametrize(
    ("ratios", "fails"), [([2.5], False), ([9, 9, 2.6], False), ([2.7, 3, 9], True)]
)
def test_a_row_fails_where_every_try_is_much_slower_than_its_best(monkeypatch, ratios, fails):
    found = iter(ratios)
    monkeypatch.setattr(ledger, "run", lambda row: compared(next(found)))
    told = ledger.check(ROW, best=2.0)
    assert (told is not None) == fails
    if fails:
        assert told == "sorting, 10 records: 2.7 times the baseline; the best was 2"


def test_a_row_that_the_ledger_does_not_know_fails():
    assert ledger.check(ROW, None) == "sorting, 10 records: not in the ledger; make bench adds it"


def test_rows_have_names_of_their_own_and_the_ledger_knows_all_quick_ones(shared_data):
    rows = [row for _, module in list_modules([]) for row in getattr(module, "ROWS", ())]
    assert len({row.name for row in rows}) == len(rows)
    assert {row.name for row in rows if row.quick} <= set(ledger.find_best(ledger.read()))


def test_the_page_is_made_from_the_ledger():
    assert ledger.PAGE.read_text() == ledger.write_page(ledger.read())


def test_both_sides_of_a_row_are_measured_apart():
    rows = importlib.import_module("benchmarks.rows")
    row = Row("loops", "sum(range(3_000_000))", "sum(range(30_000))", "a short loop", repeats=2)
    found = rows.run(row)
    assert found.ours.cpu > found.theirs.cpu > 0
