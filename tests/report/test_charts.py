"""Groups of people in the report: large enough, in any order the same, and nobody's values."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.figures.custodian.samples import HOSTILE
from tests.report.test_page import parsed

import sfumato as sf
from sfumato.report import render_report
from sfumato.report.charts import build_gain_bars, describe_groups
from sfumato.risk import protection as peering
from sfumato.risk.protection.distinct_records import code_rows
from sfumato.risk.protection.gains import rank_gains
from sfumato.risk.protection.groups import FEW, FLOOR, MOST, format_share, group_by_protection

NAMES = ["salary", "illness", "smoking"]


@pytest.fixture(scope="module")
def release() -> sf.Release:
    frame = pl.DataFrame({"sex": ["a", "a", "b", "b"]})
    schema = sf.Schema({"sex": "quasi"})
    return sf.protect(sf.Dataset(frame, schema), sf.Plan(schema=schema, targets={"k.min": 2}))


def people(count: int, names: list[str], seed: int = 1) -> tuple[Any, Any]:
    """Shares of protective peers of four kinds of people, with a little chance."""
    chance = np.random.default_rng(seed)
    kinds = chance.choice([0.0, 0.0, 0.3, 0.8], (4, len(names)))
    least = np.clip(
        kinds[chance.integers(0, 4, count)] + chance.choice([0, 0.1], count)[:, None], 0, 1
    )
    return least, chance.integers(1, 4, count)


def evidence(names: list[str], count: int = 200) -> dict[str, Any]:
    groups = group_by_protection(*people(count, names), names, 0.0)
    gains = [
        {"variable": name, "protected": 0.1, "without": 0.1 + at / 50, "gain": at / 50}
        for at, name in enumerate(reversed(names))
    ][::-1]
    return sf.Evidence(
        name="peers",
        subject="released",
        value=0.5,
        table=pl.DataFrame({"variable": names, "peers": [0.5] * len(names)}),
        details={"worst_variable": names[0], "groups": groups, "gains": gains},
        audience="public",
    ).plain()


@given(st.integers(1, 400), st.integers(1, 5), st.integers(0, 50), st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=40, deadline=None)
def test_every_group_is_large_enough_and_nobody_is_lost(count, variables, seed, p):
    names = [f"v{at}" for at in range(variables)]
    least, counts = people(count, names, seed)
    found = group_by_protection(least, counts, names, p)
    total = int(counts.sum())
    if total < FLOOR:
        assert found == []
        return
    assert sum(one["records"] for one in found) == total
    assert all(one["records"] >= FLOOR for one in found)
    assert 1 <= len(found) <= 8
    assert [one["group"] for one in found] == list(range(1, len(found) + 1))
    for at in range(variables):
        # What the groups say adds up to what is true of all.
        low = int(counts[least[:, at] <= p * (1 + 1e-12)].sum())
        ends = [
            (FLOOR - 1 if told == FEW else one["records"] - 1 if told == MOST
             else (told + 0.001) * one["records"])
            for one in found for told in [one["variables"][at]["breached"]]
        ]  # fmt: skip
        assert low <= sum(ends) + 1
    order = np.random.default_rng(seed).permutation(count)
    assert group_by_protection(least[order], counts[order], names, p) == found
    json.dumps(found, allow_nan=False)


def test_groups_are_those_that_are_there():
    least = np.repeat([[0.0, 0.9], [0.6, 0.0], [0.5, 0.5]], [40, 30, 20], axis=0)
    found = group_by_protection(least, np.ones(90, int), ["a", "b"], 0.0)
    told = {one["records"]: [each["breached"] for each in one["variables"]] for one in found}
    assert told == {40: [1.0, 0.0], 30: [0.0, 1.0], 20: [0.0, 0.0]}


def test_small_groups_are_joined_and_small_numbers_are_not_told():
    least = np.repeat([[0.0], [0.9]], [9, 100], axis=0)
    (only,) = group_by_protection(least, np.ones(109, int), ["a"], 0.0)
    assert only["records"] == 109
    assert only["variables"][0]["breached"] == FEW
    assert format_share(95, 100) == MOST
    assert [format_share(one, 100_000) for one in (0, 10, 99_990, 100_000)] == [0, 0.001, 0.999, 1]
    shown = json.dumps(describe_groups([only]))
    assert "fewer than 10" in shown
    assert not re.search(r"\b9\b people|: 9\b", shown)


def test_gains_are_those_of_the_paper_and_of_our_own(shared_data):
    data = sf.read(shared_data / "cervical.csv")
    names = ["age", "pregnancies", "smoking", "biopsy"]
    _, codes, counts, _ = code_rows(data, names)
    found = rank_gains(codes, counts, names, "biopsy", names, Fraction(0))
    assert [one["variable"] for one in found] == names[:3]
    assert [one["without"] for one in found] == [round(one / 789, 3) for one in (761, 463, 293)]
    own = peering.gains(data, "biopsy", names[:3], 0.05).table.sort("gain", descending=True)
    above = rank_gains(codes, counts, names, "biopsy", names, Fraction(1, 20))
    assert [one["gain"] for one in above] == own["gain"].round(3).to_list()


def page_of(release: sf.Release, one: dict[str, Any], *, inside: bool = True) -> str:
    told = {"peers": one}
    if inside:
        return render_report(release.manifest, {**release.custody, "evidence": told})
    return render_report({**release.manifest, "evidence": told})


def test_the_page_shows_groups_without_a_script_and_only_inside(release):
    one = evidence(NAMES)
    page = page_of(release, one)
    (drawing,) = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    root = ET.fromstring(drawing)  # noqa: S314 - our own page
    groups = one["details"]["groups"]
    titles = [each.text or "" for each in root.iter("title")]
    assert len([text for text in titles if text.startswith("Group ")]) == len(groups) * len(NAMES)
    assert len(list(root.iter("rect"))) == 2 * len(groups) * len(NAMES)
    assert page.count('<details class="group">') == len(groups)
    assert f"Group 1: {groups[0]['records']:,} people" in page
    assert "if it were unknown" in page
    assert "<script" not in page
    outside = page_of(release, one, inside=False)
    assert "Group 1" not in outside
    assert "if it were unknown" not in outside
    assert page_of(release, evidence(NAMES)) == page


def test_columns_are_as_wide_as_their_groups():
    view = describe_groups(evidence(NAMES)["details"]["groups"])
    assert view is not None
    groups = evidence(NAMES)["details"]["groups"]
    widths = np.array([float(one["width"]) for one in view["columns"]])
    records = np.array([one["records"] for one in groups])
    assert widths / widths.sum() == pytest.approx(records / records.sum(), abs=0.01)
    ends = [float(one["x"]) + float(one["width"]) for one in view["columns"]]
    assert max(ends) <= float(view["width"]) + 0.1
    assert describe_groups([]) is None
    assert describe_groups(None) is None
    assert build_gain_bars(None, "a") is None


def test_hostile_names_break_nothing(release):
    page = page_of(release, evidence(list(HOSTILE)))
    tags = parsed(page)
    assert "script" not in tags.names
    fetching = {"src", "href", "srcset", "data", "action", "xlink:href"}
    assert not [one for one in tags.attributes if one[0] in fetching or one[0].startswith("on")]
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(drawing)  # noqa: S314 - our own page


def test_no_value_of_a_variable_is_in_it(cohort):
    names = ["region", "education", "marital_status", "smoking"]
    found = sf.risk.Peers(known=names, sensitive=names).measure(cohort)
    groups = group_by_protection(found.records.to_numpy(), np.ones(len(cohort), int), names, 0.0)
    _, codes, counts, _ = code_rows(cohort, names)
    gains = rank_gains(codes, counts, names, "smoking", names, Fraction(0))
    cells = {str(one) for name in names for one in cohort.column(name).drop_nulls().unique()}
    words = set(
        re.findall(
            r"[\w-]+", json.dumps([describe_groups(groups), build_gain_bars(gains, "smoking")])
        )
    )
    assert not cells & (words - {"no", "other"})


def test_the_album_draws_people_and_gains_at_the_threshold_of_the_measure(cohort):
    names = ["region", "education", "smoking"]
    measure = sf.risk.Peers(known=names, sensitive=names, p=0.3)
    found = {"peers": measure.measure(cohort)}
    made, failed = sf.pictures.album(found, {"peers": measure}, cohort, cohort)
    assert not failed
    assert set(made) == {"peers", "peers-gains"}
    assert all("at or below 0.3" in one.caption for one in made.values())
    assert all(one.audience == "custodian" for one in made.values())


def test_a_map_of_a_sample_shows_those_who_were_drawn():
    frame = pl.DataFrame({"a": [0.5, 0.0, float("nan")], "b": [0.1, 0.2, float("nan")]})
    found = sf.Evidence(name="peers", subject="original", value=0.1, records=frame)
    picture = sf.pictures.protection(found)
    assert "2 people" in picture.figure.axes[0].get_xlabel()
    none = sf.Evidence(name="peers", subject="original", value=0.1, records=frame[2:])
    with pytest.raises(sf.SfumatoError, match="nothing to show"):
        sf.pictures.protection(none)


def test_a_narrow_screen_scrolls_over_the_map_instead_of_shrinking_its_letters(release):
    names = ["salary", "illness"]
    page = page_of(release, evidence(names))
    assert '<div class="scroll"><svg style="min-width:' in page
