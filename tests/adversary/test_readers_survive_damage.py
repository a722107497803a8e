"""promises.md: "No original values in messages", and no file, plan or cell makes Sfumato fail.

A short version of `python -m tests.soak.fuzz`; the long one is run by hand.
"""

from __future__ import annotations

import time

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.soak.fuzz import FORMATS, make_frame, run_cases

import sfumato as sf
from sfumato.errors import PlanError, SfumatoError
from sfumato.io import read_table, write_table


def test_damaged_files_are_read_or_refused() -> None:
    outcome = run_cases(8 * len(FORMATS), seed=17, formats=("mixed",), tell=lambda *_: None)
    assert outcome.failures == []
    assert sum(outcome.counts["mixed"].values()) == 8 * len(FORMATS)


@pytest.mark.study
def test_many_damaged_files_are_read_or_refused() -> None:
    assert run_cases(200 * len(FORMATS), seed=18, tell=lambda *_: None).failures == []


@pytest.mark.parametrize("suffix", [".sav", ".zsav"])
def test_a_number_of_records_that_does_not_fit_into_the_file_is_refused(tmp_path, suffix) -> None:
    """The library reserves the memory before it reads: 878 bytes took 2 GiB."""
    path = tmp_path / f"x{suffix}"
    write_table(make_frame(), path)
    content = bytearray(path.read_bytes())
    assert int.from_bytes(content[80:84], "little") == make_frame().height
    content[80:84] = (50_331_653).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(SfumatoError, match="50,331,653 records of 5 variables, more than fit into"):
        read_table(path)


@pytest.mark.parametrize("suffix", [".sav", ".zsav", ".dta", ".xpt"])
def test_files_that_are_as_small_as_can_be_are_read(tmp_path, suffix) -> None:
    frame = pl.DataFrame({f"v{number}": pl.zeros(60_000, pl.Int8, eager=True) for number in "abc"})
    write_table(frame, tmp_path / f"x{suffix}")
    assert read_table(tmp_path / f"x{suffix}").frame.shape == frame.shape


PIECES = st.sampled_from(
    ["[", "]", "{", "}", "=", ".", ",", '"', "'", "\n", "#", "version", "columns", "steps", "read",
     "a", "1", "-", "[[", "]]", '"""', "true", "1e9", "2020-01-01", "method", '"noise"', " ", "\\"]
)  # fmt: skip


@settings(max_examples=150)
@given(text=st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_is_a_plan_or_an_error_of_ours(text: str) -> None:
    try:
        plan = sf.Plan.parse(text)
    except SfumatoError:
        return
    assert sf.Plan.parse(plan.text()) == plan


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 100_000,
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "{a=" * 20_000,
        "read = " + "[" * 300 + "]" * 300,
        "columns." + "a." * 50_000 + "a = 1",
        '"a" . ' * 50_000 + "a = 1",
        "[" + "a." * 3000 + "a]",
        "version = " + "9" * 10_000,
        "columns.x.domain." + "a." * 100 + "a = 1",
        'x = """\n[' + " " * 30_000 + 'x\n"""',  # a pattern of ours took 33 s for 4,000 blanks
        'x = """\n' + '"\\' * 30_000 + '"""',
        "columns.x = '" + "a" * 1_000_000 + "'",
    ],
)
def test_deep_and_long_plans_are_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(PlanError) as raised:
        sf.Plan.parse(text)
    assert time.process_time() - started < 5
    assert raised.value.__suppress_context__ or not raised.value.__context__
