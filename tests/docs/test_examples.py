"""Every example in the docs runs, and prints what the docs show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.docs.blocks import (
    PAGES,
    ROOT,
    Block,
    Session,
    announced,
    blocks,
    commands,
    downloads,
    missing_lines,
    shown_below,
)
from tests.docs.numbers import Passage, files_named, passages, unsupported

import sfumato as sf

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES]
)


@pytest.fixture(scope="session")
def cohort_text() -> bytes:
    return sf.datasets.cohort(500).write_csv().encode()


@each_page
def test_examples_run_and_show_what_they_print(page, cohort_text, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    Path("cohort.csv").write_bytes(cohort_text)
    for name in downloads(page):
        shutil.copy(request.getfixturevalue("shared_data") / name, name)
    session = Session(take_demo=lambda: request.getfixturevalue("demo"))
    parts: list[Block | Passage] = [*blocks(page), *passages(page)]
    for part in sorted(parts, key=lambda part: part.line):
        if isinstance(part, Passage):
            _check_numbers(part, session, page)
        elif part.language == "python":
            printed = session.python(part, page)
            if announced(part) and announced(part) == shown_below(part):
                assert printed.splitlines() == announced(part), f"{page.name}:{part.line}"
            gone = missing_lines(tuple(shown_below(part)), printed)
            assert not gone, f"{page.name}:{part.line}\nshown only: {gone}\n{printed}"
        elif part.language == "toml" and part.title:
            Path(part.title).write_text(part.text, "utf-8")
        elif part.language == "console":
            for command in commands(part):
                code, printed = session.console(command)
                assert code == command.exit_code, f"{page.name}: {command.line}\n{printed}"
                gone = missing_lines(command.shown, printed)
                assert not gone, f"{page.name}: {command.line}\nshown only: {gone}\n{printed}"
    for picture in (ROOT / "docs/assets").glob("*.svg"):
        drawn = Path(picture.name)
        assert not drawn.exists() or drawn.read_bytes() == picture.read_bytes(), picture.name


def _check_numbers(passage: Passage, session: Session, page: Path) -> None:
    """Numbers that a comment computes from the page's own data."""
    codes = passage.evidence_of("run")
    outputs = [session.python(Block(passage.line, "python", (code,)), page) for code in codes]
    if codes and not passage.rests_on_others:
        shown = [block.text for block in blocks(page) if block.language != "text"]
        gone = unsupported(passage, [*shown, *outputs, *files_named(passage)])
        assert not gone, f"{page.name}:{passage.line}: {gone}\n{outputs}"


@each_page
def test_whole_plans_parse(page):
    for block in blocks(page):
        if block.language == "toml" and block.text.startswith("version = 1"):
            plan = sf.Plan.parse(block.text)
            assert sf.Plan.parse(plan.text()) == plan


@each_page
def test_the_site_understands_every_fence(page):
    # Anything else would be shown as running text.
    known = re.compile(r'[a-z]+|[a-z]+ title="[^"]+"|\{ \.[a-z]+ exit=\d+ \}')
    assert not [block.info for block in blocks(page) if not known.fullmatch(block.info)]


def test_the_docs_have_examples():
    found = [block.language for page in PAGES for block in blocks(page)]
    assert found.count("python") >= 5
    assert found.count("console") >= 10
    assert found.count("toml") >= 3


def test_a_wrong_number_is_found():
    assert missing_lines(("│ k  │ 3 │",), "│ k │ 4  │") == ["│ k  │ 3 │"]
    assert not missing_lines(("k … met",), "│ k │ at least 3, met │")
