"""Every number in the docs has a run beside it: the rule is stated in `numbers.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.docs.blocks import PAGES, ROOT, blocks
from tests.docs.numbers import (
    Passage,
    files_named,
    measured_numbers,
    passages,
    stamp,
    unsupported,
)

NOT_OURS = {
    "CHANGELOG.md": "what was true when it was written",
    "docs/replication.md": "written as a whole by `python -m replication --page`",
}
RULED = [page for page in PAGES if page.relative_to(ROOT).as_posix() not in NOT_OURS]


@pytest.mark.parametrize("page", RULED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_number_has_a_run_beside_it(page):
    shown = [block.text for block in blocks(page) if block.language != "text"]
    bare = {
        passage.line: gone
        for passage in passages(page)
        if not passage.rests_on_others
        and not passage.evidence_of("run")
        and (gone := unsupported(passage, [*shown, *files_named(passage)]))
    }
    assert not bare, f"{page.name}: line and numbers; the rule is in tests/docs/numbers.py"


@pytest.mark.parametrize("page", RULED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_slow_runs_have_a_day_a_commit_and_a_command(page):
    for passage in passages(page):
        for note in (*passage.evidence_of("measured"), *passage.evidence_of("timed")):
            command = stamp(note)[2].split()
            assert command[0] in ("python", "pytest", "sfumato")
            if command[:2] == ["python", "-m"] and command[2] != "benchmarks":
                assert (ROOT / command[2].replace(".", "/")).with_suffix(".py").exists(), command
            if command[:3] == ["python", "-m", "benchmarks"]:
                assert (ROOT / "benchmarks" / f"{command[3]}.py").exists(), command


def test_no_number_is_only_stated():
    """Made-up examples have a run beside them too."""
    for page in RULED:
        assert not any(passage.evidence_of("stated") for passage in passages(page)), page


def _passage(text: str) -> Passage:
    return Passage(1, text, ())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("With k = 5 it is 32 %.", ["32 %"]),
        ("| a | .3259 | \u22120.4 |", [".3259", "\u22120.4"]),
        ("20,000 people, 1853 records, 2001 records", ["20,000", "1853", "2001"]),
        ("met 3 of 4 targets, 283 MiB", ["3", "4", "283"]),
        ("In 2021, on 16 November 2026 (2019), Table 12, exit code 130, version 0.1.0", []),
        ("SHA-256 and R80 in 64 bits, mode 0700, 95 % intervals, from 0 to 1, `0.25`", []),
        ("1. first\n2. 17 things", ["17"]),
        ("a bias of 0.3 posterior SD at 17 % noise", ["0.3", "17 %"]),
    ],
)
def test_measured_numbers_are_told_from_others(text, numbers):
    assert [number.printed for number in measured_numbers(text)] == numbers


@pytest.mark.parametrize(
    ("text", "evidence", "gone"),
    [
        ("it is 33 %", "0.3259", []),
        ("it is 32 %", "0.3259", ["32 %"]),
        ("it is 32.6 %", "(5, 0.3259)", []),
        ("it is 0.33", "32.59 %", ["0.33"]),
        ("20,000 people", "records = 20_000", []),
        ("20,000 people", "x, 200, 00", ["20,000"]),
        ("it is \u22120.88", "-0.8812", []),
        ("`0.25` is 25 %", "", []),
    ],
)
def test_a_number_needs_one_that_rounds_to_it(text, evidence, gone):
    assert unsupported(_passage(text), [evidence]) == gone


def test_comments_belong_to_the_passage_below_them(tmp_path):
    page = Path(tmp_path) / "page.md"
    page.write_text(
        "<!-- in: a.py -->\n# Title\n\n<!-- stated: made up -->\n\nIt is 12.\n\nIt is 13.\n\n"
        "```python\nprint(99)\n```\n\n```text\n14\n```\n\n| 15 |\n"
    )
    assert [(passage.line, passage.text, passage.notes) for passage in passages(page)] == [
        (6, "It is 12.", (("stated", "made up"), ("in", "a.py"))),
        (8, "It is 13.", (("in", "a.py"),)),
        (14, "```text\n14\n```", (("in", "a.py"),)),
        (18, "| 15 |", (("in", "a.py"),)),
    ]


_COST = re.compile(r"\b(?:took|CPU|seconds|minutes|faster|slower|coverage|in a study)\b")


def test_costs_in_docstrings_name_their_run():
    """What changes with the machine or the code is not stated without a way to measure it."""
    bare = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                if ">>>" in paragraph or not _COST.search(paragraph):
                    continue
                costs = [one for one in measured_numbers(paragraph) if one.value % 1]
                if costs and not re.search(r"benchmarks|tests/|python -", paragraph):
                    bare.append(f"{path.relative_to(ROOT)}: {paragraph}")
    assert not bare
