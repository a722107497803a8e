"""Each rule of each profile, on a file or table that just meets it and one that just misses."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import PlanError, TargetError, WeakProtectionWarning
from sfumato.evidence import Evidence
from sfumato.figures.public.diagnostics import refuse_many_parameters
from sfumato.figures.public.grid import resolve_bins
from sfumato.figures.public.protection import resolve_protection
from sfumato.methods.zip3 import Zip3
from sfumato.outputs import Log, OutputRefused, Rules
from sfumato.outputs.tables.crosstabs import crosstab
from sfumato.outputs.tables.table import Table
from sfumato.plan.targets import measures_for, read_targets
from sfumato.profiles import list_profiles, load_profile
from sfumato.risk.identifiers_left import IdentifiersLeft
from sfumato.risk.uniqueness import Uniqueness
from sfumato.run.dossier import Dossier, DossierRow, build_dossier
from sfumato.schema.inference.formats import FORMATS
from sfumato.schema.inference.names import SIGNS
from sfumato.suggestion.first_plan import first_plan

PROFILES = list_profiles()
ON_FILES = [name for name, profile in PROFILES.items() if not profile.outputs]
ON_OUTPUTS = [name for name, profile in PROFILES.items() if profile.outputs]


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_names_only_what_there_is_and_leaves_no_rule_unchecked(name):
    profile = load_profile(name)
    measures_for(read_targets(profile.targets), {})
    settings = {field.name for field in fields(Rules)}
    for rule in profile.rules:
        assert rule.target or rule.judged_by_attacks or rule.shows or rule.outputs or rule.asks
        assert set(rule.attacks) <= set(catalogue.measures())
        assert set(rule.outputs) <= set(profile.outputs) <= settings
        assert "{" not in rule.sentence.format(number="1")
        assert not rule.judged_by_attacks or rule.bound_by == "sfumato"
    for identifier in profile.identifiers:
        assert set(identifier.signs) <= set(SIGNS)
        assert set(identifier.formats) <= {known.what for known in FORMATS}
    assert profile.source.startswith("https://")


def test_a_wrong_name_is_told_with_its_line_and_the_nearest():
    with pytest.raises(PlanError, match=r"line 2: There is no profile 'ema-0700'.*'ema-0070'"):
        sf.Plan.parse('version = 1\nprofile = "ema-0700"\n')
    with pytest.raises(PlanError, match="iso-27559-high, iso-27559-low, iso-27559-medium"):
        load_profile("iso-27559")
    with pytest.raises(PlanError, match="files of records"):
        Rules.from_profile("ema-0070")


# Files of records --------------------------------------------------------------------------------


def release_of_classes(profile: str, sizes: list[int], **parts):
    """A release whose classes have these sizes, and its dossier without attacks."""
    groups = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    data = sf.Dataset(
        pl.DataFrame({"group": groups, "pain": [float(n) for n in range(len(groups))]})
    )
    plan = sf.Plan(schema={"group": "quasi", "pain": "sensitive"}, profile=profile, **parts)
    try:
        release = sf.protect(data, plan, key=bytes(32))
    except TargetError as error:
        return None, build_dossier(plan, error.verdict, error.evidence, {})
    return release, build_dossier(plan, release.verdict, release.evidence, {})


def find_row(dossier: Dossier | None, rule: str) -> DossierRow:
    assert dossier is not None
    return next(row for row in dossier.rows if row.rule.name == rule)


def met_by_rule(dossier) -> dict[str, bool | None]:
    return {row.rule.name: row.met for row in dossier.rows}


@pytest.mark.parametrize(
    ("name", "fewest"),
    [
        ("ema-0070", 12),
        ("health-canada", 12),
        ("iso-27559-low", 10),
        ("iso-27559-medium", 14),
        ("iso-27559-high", 20),
    ],
)
def test_the_maximum_risk_is_met_by_a_class_more_and_missed_by_one_less(name, fewest):
    release, dossier = release_of_classes(name, [fewest, 30])
    met = met_by_rule(dossier)
    assert release is not None
    assert met.pop("maximum-risk") is True
    assert met.pop("class-size") is True
    assert set(met.values()) == {None}  # what is left is for people
    assert dossier.met is None
    assert f"{100 / fewest:.3g} %" in dossier.rows[0].sentence
    refused, dossier = release_of_classes(name, [fewest - 1, 30])
    assert refused is None
    assert (met_by_rule(dossier)["maximum-risk"], dossier.met) == (False, False)
    assert met_by_rule(dossier)["class-size"] is False


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("wp216", "singling-out"),
        ("cnil", "singling-out"),
        ("ico-motivated-intruder", "intruder-singles-out"),
    ],
)
def test_nobody_stands_alone_or_somebody_does(name, rule):
    assert met_by_rule(release_of_classes(name, [2, 2])[1])[rule] is True
    refused, dossier = release_of_classes(name, [1, 3])
    assert refused is None
    assert met_by_rule(dossier)[rule] is False
    assert "Sfumato's is at most 0 %" in next(r for r in dossier.rows if r.met is False).sentence


@pytest.mark.parametrize(
    ("name", "rule", "attack", "number"),
    [
        ("wp216", "linkability", "mixed_linkage", "mixed_linkage"),
        ("wp216", "inference", "attribute_inference", "inference_gain"),
        ("cnil", "linkability", "mixed_linkage", "mixed_linkage"),
        ("cnil", "inference", "attribute_inference", "inference_gain"),
        ("ico-motivated-intruder", "intruder-links", "mixed_linkage", "mixed_linkage"),
    ],
)
def test_a_rule_without_a_number_is_held_against_the_attack(name, rule, attack, number):
    plan = sf.Plan(schema={"group": "quasi"}, profile=name)
    limit = 1 / 5 + 0.06  # by k, which is taken as 5
    for success, met in ((limit, True), (math.nextafter(limit, 1) + 1e-9, False)):
        tried = {
            attack: Evidence(name=attack, subject="pair", value=success, details={number: success})
        }
        row = find_row(build_dossier(plan, (), {}, tried), rule)
        assert row.met is met
        assert row.public()["number"] is None  # a rate compares with the original
        assert row.public()["met"] is None
        assert "achieved" not in row.public()["attacks"][0]
    untried = {attack: Evidence.failed(attack, "pair", "it was not tried: no time.")}
    row = find_row(build_dossier(plan, (), {}, untried), rule)
    assert (row.met, row.reason) == (None, "it was not tried: no time.")


def test_expert_determination_shows_a_number_and_decides_nothing():
    _, dossier = release_of_classes("hipaa-expert", [4, 4])
    first = dossier.rows[0].plain()
    assert (first["number"], first["met"], first["bound"]) == (0.25, None, "")
    assert "25 %" in first["sentence"]
    assert "for people to decide" in dossier.plain()["sentence"]


# HIPAA Safe Harbor -------------------------------------------------------------------------------

NAMED = {
    "patient_name": "Ann Person",
    "phone": "(212) 555-0147",
    "fax": "555-0199",
    "email": "ann@example.org",
    "ssn": "078-05-1120",
    "mrn": "H4822719",
    "health_plan_number": "HP-1234",
    "account_number": "AC-9921",
    "license_number": "L-99812",
    "license_plate": "B-XY 123",
    "device_serial": "SN-3321",
    "url": "https://example.org/ann",
    "ip_address": "192.0.2.17",
    "fingerprint": "whorl-7f3a",
    "photo": "ann.jpg",
    "patient_id": "P0017",
    "notes": "Seen by Dr Smith after a fall at home, back next week.",
    "city": "Springfield",
    "county": "Hampden",
    "street": "12 Elm Street",
}  # fmt: skip
"""By variable, a value of each kind of identifier that must be gone; A, B and D to R."""


def count_left(**columns) -> Evidence:
    parameters = columns.pop("parameters", {})
    data = sf.Dataset(pl.DataFrame(columns))
    return catalogue.measure("identifiers_left")(**parameters).measure(data)


@pytest.mark.parametrize("name", NAMED)
def test_what_names_people_is_left_or_gone(name):
    rule = "places_left" if name in ("city", "county", "street") else "names_left"
    found = count_left(**{name: [NAMED[name]] * 2, "pain": [1.5, 2.5]})
    assert found.details[rule] == found.value == 1
    assert found.details["left_in"] == (name,)
    blank = count_left(**{name: pl.Series([None, None], dtype=pl.String), "pain": [1.5, 2.5]})
    assert blank.value == 0


@pytest.mark.parametrize(
    ("column", "meets", "misses", "rule", "parameters"),
    [
        ("zip", "021", "036", "places", {"populations": {"021": 20_001, "036": 20_000}}),
        ("zip", "000", "021", "places", {}),
        ("zip", "021**", "0213*", "places", {"populations": {"021": 20_001}}),
        ("zip", "000", "02139", "places", {"populations": {"021": 20_001}}),
        ("admission_date", 2024, 20240517, "dates", {}),
        ("admission_date", "2024", "2024-05", "dates", {}),
        ("admission_date", "[2024-01-01;2024-12-31]", "[2024-01-01;2024-06-30]", "dates", {}),
        ("admission_date", None, dt.date(2024, 1, 1), "dates", {}),
        ("age", 90, 91, "ages", {}),
        ("age", "[90;120]", "[85;95]", "ages", {}),
        ("age", "90+", "95 years", "ages", {}),
        ("birth_year", 1934, 1933, "ages", {"year": 2024}),
        ("birth_date", "[1900-01-01;1934-12-31]", "[1900-01-01;1933-12-31]", "ages",
         {"year": 2024}),
    ],
)  # fmt: skip
def test_places_dates_and_ages_just_meet_or_just_miss(column, meets, misses, rule, parameters):
    for value, left in ((meets, 0.0), (misses, 0.5)):
        dtype = pl.Series([misses]).dtype
        values = pl.Series([None, value], dtype=dtype)
        found = count_left(**{column: values, "pain": [1.5, 2.5], "parameters": parameters})
        assert found.details[f"{rule}_left"] == left


def test_states_and_what_the_custodian_allows_may_stay():
    assert count_left(state=["MA", "NV"], pain=[1.5, 2.5]).value == 0
    assert count_left(region=["East", "West"], pain=[1.5, 2.5]).value == 1
    allowed = count_left(region=["East", "West"], pain=[1.5, 2.5], parameters={"allow": ["region"]})
    assert allowed.value == 0


def test_ages_from_years_of_birth_need_a_year_to_count_in():
    with pytest.raises(sf.errors.MeasureError, match="'birth_year' tells ages only together"):
        count_left(birth_year=[1920, 1980])
    found = count_left(birth_year=[1920, 1980], admission_date=[2009, 2010])
    assert found.details["ages_left"] == 0
    assert count_left(birth_year=[1919, 1980], admission_date=[2009, 2010]).value == 0.5


def patients(number: int = 80) -> sf.Dataset:
    day, ages = dt.date(1925, 3, 1), [20 + 7 * n % 79 for n in range(number)]
    return sf.Dataset(
        pl.DataFrame(
            {
                "patient_name": [f"Ann Person{n}" for n in range(number)],
                "ssn": [f"{100 + n:03d}-{10 + n % 80}-{1000 + n}" for n in range(number)],
                "zip": [("02139", "03601")[n % 2] for n in range(number)],
                "city": [("Boston", "Reno", "Salem")[n % 3] for n in range(number)],
                "birth_date": [day + dt.timedelta(days=200 * n) for n in range(number)],
                "admission_date": [dt.date(2019, 1, 1) + dt.timedelta(days=9 * n)
                                   for n in range(number)],
                "age": ages,
                "sex": [("f", "m")[n // 2 % 2] for n in range(number)],
                "glucose": [80 + 13.7 * n % 61 for n in range(number)],
            }
        )
    )  # fmt: skip


def test_a_first_plan_for_safe_harbor_leaves_none_of_the_identifiers():
    data = patients()
    plan = first_plan(data, profile="hipaa-safe-harbor")
    assert sf.Plan.parse(plan.text(comments=True)) == plan
    release = sf.protect(data, plan, key=bytes(32))
    names = [target.target.name for target in release.verdict]
    assert {"names_left", "places_left", "dates_left", "ages_left"} <= set(names)
    frame = release.dataset.frame
    assert not {"patient_name", "ssn", "city"} & set(frame.columns)
    assert set(frame["zip"]) == {"000"}  # nobody has said how many people live there
    assert frame["age"].max() <= 90
    assert frame["birth_date"].min() >= 2021 - 90
    assert plan.steps[2].name == "zip3"
    large = Zip3(variables=["zip"], populations={"021": 640_000})
    steps = [*plan.steps[:2], large, *plan.steps[3:]]
    parts = {field.name: getattr(plan, field.name) for field in fields(plan)}
    # The measure knows the areas from the step.
    informed = sf.Plan(**{**parts, "steps": steps, "evaluate": {}})
    measure = informed.measures["identifiers_left"]
    assert isinstance(measure, IdentifiersLeft)
    assert measure.populations == {"021": 640_000}


# Tables and figures ------------------------------------------------------------------------------


def table_of(counts: list[int], name: str, **parts):
    """A table of two by two cells under a profile."""
    cells = [(a, b) for a in "xy" for b in "uv"]
    rows = [cell for cell, count in zip(cells, counts, strict=True) for _ in range(count)]
    data = sf.Dataset(pl.DataFrame(rows, schema=["a", "b"], orient="row"))
    return crosstab(data, "a", "b", rules=Rules.from_profile(name), **parts)


def first_cell(table: Table) -> dict[str, Any]:
    return table.cells.row(0, named=True)


@pytest.mark.parametrize(
    ("name", "fewest"),
    [
        ("cms", 11),
        ("pcornet", 11),
        ("opensafely", 8),
        ("opensafely-midpoint-6", 8),
        ("nhs-hes", 8),
        ("sacro", 10),
        ("abs", 10),
        ("bundesbank", 5),
        ("eurostat", 10),
        ("datashield", 3),
    ],
)
def test_a_cell_of_as_many_as_asked_for_shows_and_one_fewer_does_not(name, fewest):
    assert not first_cell(table_of([fewest, 60, 60, 60], name))["hidden"]
    missed = table_of([fewest - 1, 60, 60, 60], name)
    assert first_cell(missed)["hidden"]
    # Nor can it be worked out: no hidden count can be told from 0 or from the threshold.
    bounds = missed.attack().row(0, named=True)
    *_, low, high = bounds.values()
    assert low <= 0
    assert high >= fewest


def test_every_output_profile_is_tested_here():
    mark = next(
        mark
        for mark in test_a_cell_of_as_many_as_asked_for_shows_and_one_fewer_does_not.pytestmark
        if mark.name == "parametrize"
    )
    assert {name for name, _ in mark.args[1]} == set(ON_OUTPUTS)
    assert len(ON_FILES) + len(ON_OUTPUTS) == 20


@pytest.mark.parametrize("name", ["opensafely", "nhs-hes"])
def test_counts_are_rounded_to_five_after_the_small_ones_are_hidden(name):
    table = table_of([8, 61, 62, 63], name)
    shown = table.cells.filter(~pl.col("hidden"))["value"]
    assert (shown % 5 == 0).all()
    assert table.cells["value"].to_list()[:2] == [10, 60]
    assert table.notes[-1] == "Counts are rounded to the nearest 5."
    assert table.rule["round_to"] == 5


@pytest.mark.parametrize(
    ("count", "shown"), [(8, 9), (12, 9), (13, 15), (18, 15), (19, 21), (60, 57), (61, 63)]
)
def test_midpoint_six_gives_the_middle_of_six_counts_in_a_row(count, shown):
    table = table_of([count, 66, 67, 70], "opensafely-midpoint-6")
    assert first_cell(table)["value"] == shown
    assert table.notes[-1] == (
        "Counts are rounded to the middle of 6 in a row: 7 to 12 are shown as 9."
    )
    assert (table.rule["round_to"], table.rule["rounding"]) == (6, "midpoint")


def test_midpoint_rounding_keeps_zeros_and_lowers_by_half_a_person_on_average():
    rules = Rules.from_profile("opensafely-midpoint-6")
    assert rules.round_counts(np.array([0.0, np.nan])).tolist()[0] == 0
    counts = np.arange(1, 601)
    # Six in a row lie around 3.5, and 3 is shown: half a person, as OpenSAFELY's own code has it.
    assert (rules.round_counts(counts) - counts).mean() == -0.5
    with pytest.raises(PlanError, match="round_to"):
        Rules(rounding="midpoint")


@pytest.mark.parametrize(("name", "north"), [("opensafely", 60), ("opensafely-midpoint-6", 63)])
def test_bars_and_histograms_draw_rounded_counts(name, north):
    rules = Rules.from_profile(name)
    frame = pl.DataFrame({"region": ["north"] * 61 + ["south"] * 8 + ["isle"] * 7})
    bars = sf.plots.bar(frame, "region", share=False, protection="suppress", rules=rules)
    near = {"opensafely": 10, "opensafely-midpoint-6": 9}[name]
    assert bars.table.rows() == [("north", north), ("south", near)]
    assert not any("round counts" in reason for reason in bars.reasons)
    assert rules.describe_rounding()[0] in bars.description
    ages = pl.DataFrame({"age": [float(number % 50) for number in range(403)]})
    drawn = sf.plots.histogram(ages, "age", density=False, rules=rules)
    exact = sf.plots.histogram(ages, "age", density=False, rules=Rules(k=8))
    counts = exact.table["records"].to_numpy()
    assert drawn.table["records"].to_list() == rules.round_counts(counts).tolist()
    assert not any("round counts" in reason for reason in drawn.reasons)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("cms", True), ("pcornet", True), ("nhs-hes", True), ("datashield", True), ("sacro", False)],
)
def test_zeros_show_or_ask_for_a_second_look(name, shown):
    table = table_of([0, 60, 60, 60], name)
    assert (not any("empty" in reason for reason in table.reasons)) is shown


SUMS = [
    ("sacro", [45, 45, *[1] * 10], [46, 45, *[1] * 9]),
    ("abs", [50, *[1] * 50], [51, *[1] * 49]),
    ("abs", [34, 33, *[1] * 33], [34, 34, *[1] * 32]),
    ("bundesbank", [43, 42, *[1] * 15], [43, 43, *[1] * 14]),
    ("eurostat", [50, *[1] * 50], [51, *[1] * 49]),
]


def sum_of(parts: list[float], rules: Rules):
    """Whether the sum of one cell is hidden, beside one to which many give the same."""
    values = [*parts, *[10.0] * 50, *[10.0] * 50]
    groups = ["x"] * len(parts) + ["y"] * 50 + ["z"] * 50
    data = sf.Dataset(pl.DataFrame({"group": groups, "pay": [float(v) for v in values]}))
    table = crosstab(data, "group", values="pay", aggregate="sum", rules=rules)
    return first_cell(table)["hidden"]


@pytest.mark.parametrize(("name", "meets", "misses"), SUMS)
def test_a_sum_that_few_dominate_is_hidden(name, meets, misses):
    rules = Rules.from_profile(name)
    assert not sum_of(meets, rules)
    assert sum_of(misses, rules)


def test_a_sum_that_tells_the_largest_to_within_ten_per_cent_is_hidden():
    rules = replace(Rules.from_profile("sacro"), dominance=None)
    assert not sum_of([100, *[1] * 11], rules)
    assert sum_of([100, *[1] * 10], rules)


@pytest.mark.parametrize("name", ["abs", "eurostat"])
def test_a_cell_with_nine_tenths_of_its_row_asks_for_a_second_look(name):
    reason = "A cell has 90 % or more of its row or column."
    assert reason in table_of([180, 20, 60, 60], name).reasons
    assert reason not in table_of([179, 21, 60, 60], name).reasons


@pytest.mark.parametrize("name", ["sacro", "abs", "eurostat"])
def test_a_model_needs_ten_degrees_of_freedom(name):
    refuse_many_parameters(30, 20, Rules.from_profile(name))
    with pytest.raises(OutputRefused):
        refuse_many_parameters(30, 21, Rules.from_profile(name))


def test_a_mean_of_eight_people_shows_and_one_of_seven_does_not():
    rules = Rules.from_profile("nhs-hes")
    for size, hidden in ((8, False), (7, True)):
        groups = ["x"] * size + ["y"] * 50 + ["z"] * 50
        stay = [float(2 + number % 9) for number in range(len(groups))]
        data = sf.Dataset(pl.DataFrame({"ward": groups, "stay": stay}))
        table = crosstab(data, "ward", values="stay", aggregate="mean", rules=rules)
        assert first_cell(table)["hidden"] is hidden


def test_the_bundesbank_counts_entities_and_not_records():
    rules = Rules.from_profile("bundesbank")
    for entities, hidden in ((5, False), (4, True)):
        banks = [f"bank {number % entities}" for number in range(40)]
        banks += [f"other {number % 20}" for number in range(80)]
        frame = pl.DataFrame({"bank": banks, "a": ["x"] * 40 + ["y"] * 40 + ["z"] * 40})
        table = crosstab(sf.Dataset(frame, sf.Schema({"bank": "cluster"})), "a", rules=rules)
        assert first_cell(table)["hidden"] is hidden


@pytest.mark.parametrize("name", ON_OUTPUTS)
def test_outputs_whose_people_differ_by_one_fewer_than_asked_are_flagged(name):
    rules = Rules.from_profile(name)
    # In the house of the Bundesbank every record is an entity of its own here.
    frame = pl.DataFrame({"id": range(300), "a": ["x"] * 100 + ["y"] * 200})
    schema = sf.Schema({"id": "cluster" if rules.unit == "groups" else "direct"})
    for left_out, flagged in ((rules.difference, False), (rules.difference - 1, True)):
        log = Log(None, rules)
        for rows in (frame, frame.slice(left_out)):
            table = crosstab(sf.Dataset(rows, schema), "a", log=log)
        assert any("Taken together" in reason for reason in table.reasons) is flagged


@pytest.mark.parametrize("name", ON_OUTPUTS)
def test_an_output_on_as_many_records_as_asked_is_allowed_and_on_one_fewer_is_not(name):
    rules = Rules.from_profile(name)
    schema = sf.Schema({"id": "cluster" if rules.unit == "groups" else "direct"})
    told = f"Fewer than {rules.records} "
    for records, allowed in ((rules.records, True), (rules.records - 1, False)):
        frame = pl.DataFrame({"id": range(records), "x": [1.5 * n for n in range(records)]})
        try:
            reason = ""
            sf.plots.histogram(sf.Dataset(frame, schema), "x", rules=rules)
        except OutputRefused as refused:  # as many as asked may be too few for another rule
            reason = str(refused)
        assert reason.startswith(told) is not allowed


@pytest.mark.parametrize("name", ON_OUTPUTS)
def test_a_table_says_how_many_people_it_needs(name):
    """It said "k may be 0 at most", of a k that nobody had given."""
    rules = Rules.from_profile(name)
    schema = sf.Schema({"id": "cluster" if rules.unit == "groups" else "direct"})
    few, enough = (
        sf.Dataset(pl.DataFrame({"id": range(size), "a": ["x"] * size}), schema)
        for size in (max(2 * rules.k - 1, rules.records), max(2 * rules.k, rules.records))
    )
    assert not first_cell(crosstab(enough, "a", rules=rules))["hidden"]
    if len(few) < 2 * rules.k:
        with pytest.raises(OutputRefused, match=f"needs at least {2 * rules.k} "):
            crosstab(few, "a", rules=rules)


@pytest.mark.parametrize(
    ("name", "fewest"),
    [("cms", 11), ("pcornet", 11), ("opensafely", 8), ("opensafely-midpoint-6", 8),
     ("nhs-hes", 8)],
)  # fmt: skip
def test_cells_count_people_and_not_their_rows(name, fewest):
    for people, hidden in ((fewest, False), (fewest - 1, True)):
        ids = [f"first {number % people}" for number in range(40)]
        ids += [f"other {number}" for number in range(120)]
        frame = pl.DataFrame({"id": ids, "a": ["x"] * 40 + ["y"] * 60 + ["z"] * 60})
        data = sf.Dataset(frame, sf.Schema({"id": "person"}))
        table = crosstab(data, "a", rules=Rules.from_profile(name))
        assert first_cell(table)["hidden"] is hidden


def test_datashield_bounds_bins_and_noise():
    rules = Rules.from_profile("datashield")
    assert resolve_bins(33, 10, 100, rules) == 33
    with pytest.raises(OutputRefused):
        resolve_bins(34, 10, 100, rules)
    about: dict[str, Any] = {
        "default": "noise",
        "why": "",
        "records": 100,
        "k": 3,
        "key": bytes(32),
    }
    assert resolve_protection("noise", sd_share=0.5, rules=rules, **about).sd_share == 0.5
    with pytest.raises(OutputRefused):
        resolve_protection("noise", sd_share=0.49, rules=rules, **about)
    data = sf.Dataset(pl.DataFrame({"a": ["x"] * 2}))
    with pytest.raises(OutputRefused):
        crosstab(data, "a", rules=rules)


def test_a_figure_under_rules_that_round_asks_for_a_second_look():
    data = sf.Dataset(pl.DataFrame({"age": [float(n % 50) for n in range(400)]}))
    figure = sf.plots.density(data, "age", rules=Rules.from_profile("opensafely"))
    assert figure.verdict == "review"
    assert any("round counts" in reason for reason in figure.reasons)


# The plan and its dossier ------------------------------------------------------------------------


def test_a_profile_fills_what_the_plan_leaves_open_and_survives_the_file():
    plan = sf.Plan(profile="ema-0070", targets={"k.min": 15})
    assert {target.name: target.plain() for target in plan.targets} == {
        "k": {"min": 15.0},
        "prosecutor": {"max": 0.09},
    }
    assert plan.list_weaker() == ()
    again = sf.Plan.parse(plan.text(comments=True))
    assert (again, again.digest) == (plan, plan.digest)
    assert plan.with_schema({"age": "quasi"}).profile == "ema-0070"
    assert "profile" not in sf.Plan().text()


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"targets": {"k.min": 5}}, "k at least 5, where the profile asks for at least 12."),
        ({"targets": {"prosecutor.max": 0.1}}, "prosecutor at most 0.1, where"),
        ({"targets": {"k.max": 50}}, "k without a bound, where"),
        (
            {"evaluate": [Uniqueness(known=["sex"])],
             "schema": {"sex": "quasi", "age": "quasi"}},
            "'uniqueness' looks at sex only",
        ),
    ],
)  # fmt: skip
def test_a_plan_that_asks_for_less_is_told(parts, line):
    (said, *others) = sf.Plan(profile="ema-0070", **parts).list_weaker()
    assert said.startswith(line)
    assert not others


def test_nothing_is_claimed_where_the_plan_asks_for_less_even_if_the_numbers_hold():
    with pytest.warns(WeakProtectionWarning, match="ema-0070 asks for, so it is not met: k at lea"):
        release, dossier = release_of_classes("ema-0070", [12, 30], targets={"k.min": 5})
    assert met_by_rule(dossier)["class-size"] is True
    assert dossier.met is False
    assert "claims nothing" in dossier.plain()["sentence"]
    assert any("profile ema-0070" in reason for reason in release.lights.targets.reasons)


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakProtectionWarning")
def test_a_miss_of_the_profile_is_told_although_the_plan_is_met():
    release, dossier = release_of_classes(
        "ema-0070", [11, 30], targets={"k.min": 5, "prosecutor.max": 0.2}
    )
    assert release is not None
    assert met_by_rule(dossier)["maximum-risk"] is False
    assert dossier.plain()["sentence"].startswith("2 rules of 3")


def test_the_folder_holds_the_dossier_inside_and_what_everybody_may_see(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.run.attacks.SECONDS", 60.0)
    release, _ = release_of_classes("wp216", [10, 10])
    folder = release.write(tmp_path / "out", ledger=False)
    public = json.loads((folder / "manifest.json").read_text())["dossier"]
    inside = json.loads((folder / "custody" / "custody.json").read_text())["dossier"]
    assert inside == release.dossier.plain()
    assert public == release.dossier.public()
    assert [row["rule"] for row in public["rows"]] == [row["rule"] for row in inside["rows"]]
    assert inside["rows"][1]["number"] is not None
    assert public["rows"][1]["withheld"] is True
    assert public["met"] is None
