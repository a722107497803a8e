"""Pictures in the report: escaped, stamped, without a reference, and no value of a record."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from tests.figures.custodian.samples import HOSTILE, coefficients
from tests.report.test_page import parsed

import sfumato as sf
from sfumato.report import render_report
from sfumato.report.charts import build_bars, build_variable_bars

STAMP = "Inside only: compares with the original data"
BOXES = [
    {"data": name, "low": 0.46, "q1": 0.49, "median": 0.5, "q3": 0.51, "high": 0.54}
    for name in ("original", "released")
]


@pytest.fixture(scope="module")
def release() -> sf.Release:
    frame = pl.DataFrame({"sex": ["a", "a", "b", "b"]})
    schema = sf.Schema({"sex": "quasi"})
    return sf.protect(sf.Dataset(frame, schema), sf.Plan(schema=schema, targets={"k.min": 2}))


def told(name: str, table, **more) -> dict[str, object]:
    return sf.Evidence(
        name=name, subject="pair", value=0.1, table=pl.DataFrame(table), **more
    ).plain()


def page_of(release: sf.Release, evidence, *, inside: bool = True) -> str:
    if inside:
        return render_report(release.manifest, {**release.custody, "evidence": evidence})
    return render_report({**release.manifest, "evidence": evidence})


def drawings(page: str) -> list[ET.Element]:
    found = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    return [ET.fromstring(one) for one in found]  # noqa: S314 - our own page


def test_what_compares_with_the_original_is_stamped_inside_and_absent_outside(release):
    evidence = {
        "coefficients": told("coefficients", coefficients(["age", "sex"])),
        "propensity": told("propensity", BOXES, details={"share_released": 0.5}),
    }
    inside = page_of(release, evidence)
    found = drawings(inside)
    assert [one.get("aria-label") for one in found] == [
        "Coefficients from the original and from the release",
        "Propensity scores of original and released records",
    ]
    assert all(one.get("role") == "img" for one in found)
    assert all(STAMP in "".join(one.itertext()) for one in found)
    assert "Points are estimates" in inside
    assert not drawings(page_of(release, evidence, inside=False))


def test_public_evidence_has_its_picture_in_both_editions_without_a_stamp(release):
    evidence = {"coefficients": told("coefficients", coefficients(["age"]), audience="public")}
    for inside in (True, False):
        page = page_of(release, evidence, inside=inside)
        assert len(drawings(page)) == 1
        assert STAMP not in page


def test_hostile_names_break_neither_the_page_nor_its_rules(release):
    evidence = {
        "coefficients": told("coefficients", coefficients(HOSTILE)),
        "displacement": told(
            "displacement", {"variable": HOSTILE, "displacement": [0.1] * len(HOSTILE)}
        ),
        "moments": told(
            "moments",
            {
                "statistic": ["correlation"] * len(HOSTILE),
                "variable": HOSTILE,
                "original": [0.5] * len(HOSTILE),
                "released": [0.4] * len(HOSTILE),
                "moments": [0.1] * len(HOSTILE),
            },
        ),
    }
    page = page_of(release, evidence)
    tags = parsed(page)
    assert "script" not in tags.names
    assert "image" not in tags.names
    assert len(drawings(page)) == 2
    fetching = {"src", "href", "srcset", "data", "action", "xlink:href"}
    assert not [one for one in tags.attributes if one[0] in fetching or one[0].startswith("on")]
    assert not re.search(r"url\(|@import|https?:", page)
    identities = [value for key, value in tags.attributes if key == "id"]
    assert len(identities) == len(set(identities))
    assert "<style" not in page.split("</style>", 1)[1]


def test_one_number_per_variable_is_drawn_as_bars(release):
    table = {"variable": ["age", "bmi", "sex"], "displacement": [0.5, -0.25, None]}
    page = page_of(release, {"displacement": told("displacement", table)})
    assert 'aria-label="Displacement by variable"' in page
    assert re.search(r'<bdi>age</bdi>.*?--share:100.0".*?<b>0.5</b>', page)
    assert re.search(r'<bdi>bmi</bdi>.*?--share:50.0".*?<b>-0.25</b>', page)
    assert re.search(r'<bdi>sex</bdi>.*?--share:0.0".*?<b>could not be computed</b>', page)


def test_of_many_variables_the_largest_are_drawn():
    table = [{"variable": f"x{at}", "loss": float(at)} for at in range(100)]
    made = build_variable_bars(table, "loss")
    assert made["title"] == "Loss by variable, the 40 largest of 100"
    assert [row["label"] for row in made["rows"]] == [f"x{at}" for at in range(60, 100)]
    many = [{"variable": f"v{index}", "loss": 0.3 * (index == 2)} for index in range(8)]
    short = build_variable_bars(many, "loss")
    assert [row["label"] for row in short["rows"]] == ["v2"]
    assert short["title"].endswith("; 0 for the 7 others")
    assert build_variable_bars([{"variable": "x", "loss": 0}], "loss")["rows"][0]["share"] == 0


def test_bars_of_records_are_as_before():
    made = build_bars([{"class_size": "1", "records": 1200}, {"class_size": "2-4", "records": 0}])
    assert made["title"] == "Records by class size (in red: fewer than 3)"
    assert [row["text"] for row in made["rows"]] == ["1,200", "0"]
    assert [row["highlighted"] for row in made["rows"]] == [True, False]


def test_bars_of_words_speak_of_no_size():
    made = build_bars(
        [{"linked": "for certain", "records": 2}, {"linked": "among several", "records": 9}]
    )
    assert made["title"] == "Records linked"
    assert not any(row["highlighted"] for row in made["rows"])


def test_several_statistics_per_variable_are_no_bars(release):
    table = {
        "statistic": ["mean"],
        "variable": ["age"],
        "original": [1.0],
        "released": [1.0],
        "moments": [0.0],
    }
    page = page_of(release, {"moments": told("moments", table)})
    assert 'class="bars"' not in page
    assert "<svg" not in page


def test_a_picture_that_cannot_be_drawn_says_why_and_stops_nothing(release):
    rows = [{**row, "original_low": None} for row in coefficients(["age"])]
    empty = [{key: row[key] if key == "term" else None for key in row} for row in rows]
    page = page_of(release, {"coefficients": told("coefficients", empty)})
    assert "No picture: The picture &#39;forest&#39; has nothing to show" in page


def test_no_page_holds_a_value_of_a_record():
    chance = np.random.default_rng(9)
    frame = pl.DataFrame({name: chance.normal(50, 9, 80) for name in ("age", "bmi", "glucose")})
    released = pl.DataFrame({name: frame[name] + chance.normal(0, 1, 80) for name in frame.columns})
    schema = sf.Schema(dict.fromkeys(frame.columns, "sensitive"))
    pair = sf.Dataset(frame, schema), sf.Dataset(released, schema)
    evidence = {
        one.name: one.measure(*pair).plain()
        for one in (
            sf.utility.Displacement(),
            sf.utility.Moments(),
            sf.utility.Propensity(permutations=0),
        )
    }
    made = sf.protect(pair[0], sf.Plan(schema=schema))
    page = page_of(made, evidence)
    assert len(drawings(page)) == 2
    written = set(re.findall(r"\d+\.\d+", page))
    for values in (*frame.iter_columns(), *released.iter_columns()):
        formatted = {f"{one:.{digits}f}" for one in values for digits in (4, 6, 10)}
        assert not (formatted | {str(one) for one in values}) & written
