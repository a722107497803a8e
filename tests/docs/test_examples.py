"""Every example in the docs runs, and prints what the docs show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.docs.blocks import (
    PAGES,
    ROOT,
    Session,
    announced,
    blocks,
    commands,
    downloads,
    missing_lines,
)

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
    session = Session()
    for block in blocks(page):
        if block.language == "python":
            printed = session.python(block, page)
            if announced(block):
                assert printed.splitlines() == announced(block), f"{page.name}:{block.line}"
        elif block.language == "toml" and block.title:
            Path(block.title).write_text(block.text, "utf-8")
        elif block.language == "console":
            for command in commands(block):
                code, printed = session.console(command)
                assert code == command.exit_code, f"{page.name}: {command.line}\n{printed}"
                gone = missing_lines(command.shown, printed)
                assert not gone, f"{page.name}: {command.line}\nshown only: {gone}\n{printed}"


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
