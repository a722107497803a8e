"""Links of the docs open in the repository and on the site; each class has an example."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT

import sfumato as sf
from sfumato import catalogue
from sfumato.profiles import list_profiles

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# Pictures are looked for by the strict build of the site.
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def list_links(page: Path) -> list[str]:
    return _LINK.findall(_FENCED.sub("", page.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_open_where_the_repository_is_read(page):
    links = list_links(page)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_links_to_the_source_become_pages_of_the_site():
    place = ROOT / "docs/hooks.py"
    found = importlib.util.spec_from_file_location("hooks", place)
    assert found is not None
    assert found.loader is not None
    hooks = importlib.util.module_from_spec(found)
    found.loader.exec_module(hooks)
    made = {
        *(f"reference/methods/{name}.md" for name in (*catalogue.methods(), "index")),
        *(f"reference/measures/{name}.md" for name in (*catalogue.measures(), "index")),
        *(f"reference/profiles/{name}.md" for name in (*list_profiles(), "index")),
        *(f"reference/classes/{name}.md" for name in (*sf.__all__, "index")),
        *(f"project/{name}.md" for name in ("changelog", "contributing", "security")),
        "reference/command-line.md",
        "reference/python.md",
    }
    seen = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for link in list_links(page):
            target = (page.parent / link).resolve()
            if not target.is_relative_to(ROOT / "docs"):
                seen.add(hooks.find_page(target.relative_to(ROOT).as_posix()))
    assert len(seen) > 50
    assert seen <= made


@pytest.mark.parametrize("name", [n for n in sf.__all__ if inspect.isclass(getattr(sf, n))])
def test_every_public_class_has_an_example_that_runs_as_a_doctest(name):
    assert ">>> " in (inspect.getdoc(getattr(sf, name)) or "")
