"""The report: verdict first, everything escaped, nothing fetched, nothing computed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import polars as pl
import pytest

import sfumato as sf
from sfumato.report import render

EVIL = '<script>alert("x")</script>'


class Tags(HTMLParser):
    """The tags and attributes of a page, and whether they are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


@pytest.fixture
def release() -> sf.Release:
    frame = pl.DataFrame({EVIL: ["a", "a", "b", "b"], "id": ["p1", "p2", "p3", "p4"]})
    schema = sf.Schema({EVIL: "quasi", "id": "direct"})
    plan = sf.Plan(schema=schema, steps=[sf.methods.Drop()], targets={"k.min": 2})
    return sf.protect(sf.Dataset(frame, schema), plan)


@pytest.mark.parametrize("inside", [True, False])
def test_names_are_escaped_and_nothing_is_fetched_or_run(release, inside):
    page = render(release.manifest, release.custody if inside else None)
    tags = parsed(page)
    assert "script" not in tags.names
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    fetching = {"src", "href", "srcset", "data", "action"}
    assert not [one for one in tags.attributes if one[0] in fetching or one[0].startswith("on")]
    assert not re.search(r"url\(|@import|https?:", page)
    assert "lang" in dict(tags.attributes)


def test_the_editions_differ_in_what_they_may_tell(release):
    public, inside = render(release.manifest), render(release.manifest, release.custody)
    assert "The target is met." in public
    assert "inside only" in inside
    assert "in the original" in inside
    assert "in the original" not in public
    assert release.original.identity.total() in inside
    assert release.original.identity.total() not in public
    assert release.key.text not in public + inside


def test_no_target_is_no_promise(release):
    manifest = {**release.manifest, "targets": [], "methods": [], "evidence": {}}
    page = render(manifest)
    assert "No target was set" in page
    assert "released as they are" in page
    assert "Nothing was measured" in page


def test_a_missed_target_and_a_failed_measure_are_said_plainly(release):
    failed = sf.Evidence.failed("uniqueness", "released", "there is no record").plain()
    missed = [
        {
            "target": "k",
            "min": 5.0,
            "value": None,
            "met": False,
            "reason": "no record",
            "under": "known: sex",
        }
    ]
    page = render({**release.manifest, "targets": missed, "evidence": {"uniqueness": failed}})
    assert "1 of 1 targets missed" in page
    assert "must not be released" in page
    assert "Could not be computed: there is no record" in page
