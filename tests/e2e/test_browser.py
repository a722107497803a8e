"""The report in a real browser: nothing fetched, no error, readable narrow, wide and printed."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import TargetError
from sfumato.storage.writing import keep_attempt

REFUSED = "custody/refused.html"
EVIL = '<script>document.title = "broken"</script>'
_SIZES = [(390, 800), (1400, 900)]
_SHEET = (1123 - 106, 794 - 106)
"""Height and width of a sheet of A4 in pixels of the page, less its margins."""
_PAGES = 12


def people() -> pl.DataFrame:
    """Measured to so many digits that none of them is in a page by chance."""
    finer = [pl.col(name) * 0.9991371 for name in ("weight_kg", "glucose", "hdl")]
    return sf.datasets.cohort(400).with_columns(finer)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A release with much in its report, and with names that attack the page."""
    frame = people().with_columns(pl.lit(EVIL).alias(EVIL))
    schema = sf.Schema({**sf.datasets.cohort_schema(), EVIL: sf.Column(role="other")})
    measured = ["weight_kg", "systolic"]
    plan = sf.Plan(
        schema=schema,
        steps=[
            sf.methods.Drop(),
            sf.methods.Drop(variables=["postcode", "school", "birth_date"]),
            sf.methods.Noise(variables=measured, variance_share=0.2),
            sf.methods.KAnonymity(k=3),
        ],
        targets={"k.min": 3, "reidentification.max": 0.0},
        evaluate=[
            sf.risk.Linkage(variables=measured),
            sf.utility.Coefficients(formula="systolic ~ weight_kg + sex"),
            sf.utility.Moments(),
        ],
    )
    place: Path = tmp_path_factory.mktemp("browser") / "release"
    sf.protect(sf.Dataset(frame, schema), plan, key=bytes(range(32))).write(place)
    stricter = sf.Plan(schema=schema, steps=plan.steps, targets={"k.min": 4, "stayed.max": 0.001})
    with pytest.raises(TargetError) as caught:
        sf.protect(sf.Dataset(frame, schema), stricter, key=bytes(range(32)))
    kept = keep_attempt(place, stricter, caught.value)
    kept.with_suffix(".html").rename(place / REFUSED)
    return place


def opened(browser: Any, path: Path, size: tuple[int, int], scheme: str) -> tuple[Any, list[str]]:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    heard: list[str] = []
    page.on("console", lambda one: heard.append(f"console: {one.text}"))
    page.on("pageerror", lambda one: heard.append(f"error: {one}"))
    page.on("request", lambda one: heard.append(f"request: {one.url}"))
    page.goto(path.as_uri())
    return page, [one for one in heard if one != f"request: {path.as_uri()}"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("edition", ["report.html", "custody/report.html", REFUSED])
def test_the_report_opens(browser, folder, edition, size, scheme):
    page, heard = opened(browser, folder / edition, size, scheme)
    assert heard == []
    assert page.title().startswith("Sfumato report")
    assert page.locator("main h1").is_visible()
    refused = edition == REFUSED
    verdict = "Nothing was released" if refused else "All 2 targets are met"
    assert page.locator(".verdict").first.inner_text().startswith(verdict)
    # Inside, three lights; in public their colours are not told.
    assert page.locator(".lights .verdict").count() == (
        3 if edition.endswith("y/report.html") else 0
    )
    # No column is cut: every cell that is shown lies within its table's place.
    assert page.evaluate(CUT) == []
    # Nothing sticks out at the side: what is wide scrolls within its own place.
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate("document.scripts.length") == 0
    clear, behind = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert contrast(clear, behind) > 7
    page.close()


@pytest.mark.parametrize("size", _SIZES)
def test_the_codebook_opens(browser, folder, size):
    page, heard = opened(browser, folder / "codebook.html", size, "light")
    assert heard == []
    assert page.title() == "Codebook"
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.locator("nav a").last.click()
    assert page.locator("section:target h3").is_visible()
    page.close()


@pytest.mark.parametrize(
    "edition", ["report.html", "custody/report.html", REFUSED, "codebook.html"]
)
def test_the_report_prints(browser, folder, edition):
    height, width = _SHEET
    page, heard = opened(browser, folder / edition, (width, height), "dark")
    assert heard == []
    printed = page.pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page[^s]", printed)) <= _PAGES
    page.emulate_media(media="print", color_scheme="dark")
    # Nothing is clipped at the side, and paper is white whatever the screen.
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    if edition == "custody/report.html":
        sign = page.locator(".sign").bounding_box()
        assert sign["y"] + sign["height"] <= height, "it is signed on the first page"
    page.close()


@pytest.mark.parametrize("edition", ["custody/report.html", REFUSED, "codebook.html"])
def test_it_reads_without_script_and_in_order(browser, folder, edition):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / edition).as_uri())
    levels = [int(one[1]) for one in re.findall(r"<(h[1-6])[ >]", page.content())]
    assert levels[0] == 1
    assert levels.count(1) == 1
    # No heading skips a level: who hears the page finds the way.
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for table in page.locator("table").all():
        assert table.locator("th").count() > 0
    for picture in page.locator("svg[role=img]").all():
        assert picture.get_attribute("aria-label")
    context.close()


def test_no_value_of_the_original_and_no_key_in_either_edition(folder):
    key = (folder / "custody" / "key").read_text().strip()
    original = people()
    for edition in (
        "report.html",
        "custody/report.html",
        REFUSED,
        "codebook.html",
        "codebook.json",
    ):
        text = (folder / edition).read_text("utf-8")
        assert key not in text
        for name in ("name", "email", "nhs_number", "address", "postcode", "person_id"):
            for value in original[name].drop_nulls().unique():
                whole = rf"(?<![\w.]){re.escape(str(value))}(?![\w.])"
                # Looking for the plain text first takes a tenth of the time.
                assert str(value) not in text or not re.search(whole, text), name
        for name in ("weight_kg", "glucose", "hdl"):
            for value in original[name].drop_nulls().unique():
                assert f"{value:.7g}" not in text, name


CUT = """[...document.querySelectorAll('td, th, .levels b, .summary dd, h1, h2, h3, .verdict')]
    .filter(cell => cell.offsetParent && !cell.closest('details:not([open])'))
    .filter(cell => {
        const place = (cell.closest('.scroll') || document.documentElement).getBoundingClientRect();
        return cell.getBoundingClientRect().right > place.right + 1
            || cell.scrollWidth > cell.clientWidth + 1;
    })
    .map(cell => cell.tagName + ': ' + cell.innerText.slice(0, 60))"""
"""Cells that stick out of the page, or whose text sticks out of them."""


def contrast(one: str, other: str) -> float:
    """How far apart two colours are, as the rules for readable pages count it."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
                  for part in parts]  # fmt: skip
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
