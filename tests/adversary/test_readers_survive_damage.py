"""promises.md: "No original values in messages", and no file, plan or cell makes Sfumato fail.

A short version of `python -m tests.soak.fuzz`; the long one is run by hand.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.soak.fuzz import FORMATS, run_cases

import sfumato as sf
from sfumato.errors import PlanError, SfumatoError


def test_damaged_files_are_read_or_refused() -> None:
    outcome = run_cases(8 * len(FORMATS), seed=17, formats=("mixed",), tell=lambda *_: None)
    assert outcome.failures == []
    assert sum(outcome.counts["mixed"].values()) == 8 * len(FORMATS)


@pytest.mark.study
def test_many_damaged_files_are_read_or_refused() -> None:
    assert run_cases(200 * len(FORMATS), seed=18, tell=lambda *_: None).failures == []


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
