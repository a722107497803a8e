"""Free text: recognised, refused, de-identified, and searched for what survives."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells import deidentifiers
from sfumato.cells.deidentifiers import load_deidentifier, replace_own, replace_patterns
from sfumato.errors import MethodError, PlanError, TargetError, WeakProtectionWarning
from sfumato.methods import DeidentifyText
from sfumato.plan import Writing
from sfumato.risk import SurvivingIdentifiers, surviving_identifiers
from sfumato.schema import Role
from sfumato.schema.inference.free_text import is_free_text, split_sets
from sfumato.suggestion.first_plan import first_plan

KEY = bytes(range(32))
_REASONS = ("fell off a ladder", "came with a cough", "had no pain today", "asked for a letter")


def make_notes(rows: int = 40) -> sf.Dataset:
    """Notes in which each person's own name, number, telephone and e-mail stand."""
    people = sf.datasets.cohort(rows).select("person_id", "name", "email", "sex", "systolic")
    phones = [f"020 7946 0{number:03d}" for number in range(rows)]
    notes = [
        f"{name.split()[1]} ({person}) {_REASONS[i % 4]}, mail {mail}, tel {phones[i]}, seen in "
        f"week {i}."
        for i, (person, name, mail) in enumerate(
            people.select("person_id", "name", "email").iter_rows()
        )
    ]
    frame = people.with_columns(phone=pl.Series(phones), note=pl.Series(notes))
    schema: dict[str, Role | sf.Column] = {
        "person_id": "direct",
        "name": sf.Column(role="direct", identity=False),
        "email": sf.Column(role="direct", identity=False),
        "phone": sf.Column(role="direct", identity=False),
        "sex": "quasi",
        "systolic": "other",
        "note": sf.Column(role="sensitive", kind="text"),
    }
    return sf.Dataset(frame, sf.Schema(schema))


def make_plan(data: sf.Dataset, *steps, **more) -> sf.Plan:
    return sf.Plan(
        schema=data.schema,
        steps=[*steps, sf.methods.Drop()],
        targets={"k": {"min": 3}},
        release=Writing(attack_seconds=60, **more),
    )


@pytest.mark.parametrize(
    ("values", "free"),
    [
        (["Came in with his wife Anna.", "None", "Fell off the roof again."], True),
        (["none"] * 80 + [f"patient {n} was seen by doctor Meyer" for n in range(20)], True),
        (["none"] * 98 + ["was seen by doctor Meyer", "went home with the brother"], False),
        ([f"{first} {last}" for first in "abc" for last in ("Smith", "Jones")], False),
        (["Managers of retail and wholesale trade", "Teachers of languages and arts"] * 30, False),
        ([f"K{n} 1 2 3 4 5" for n in range(40)], False),
        (["患者は昨日から頭痛と発熱を訴えている", "妻と一緒に救急外来を受診した患者である"], True),
        ([], False),
        ([None, None], False),
    ],
)
def test_free_text_is_told_from_names_codes_and_categories(values, free):
    assert is_free_text(pl.Series(values, dtype=pl.String)) is free


def test_members_of_sets_are_looked_at():
    sets = pl.Series([f"{{he was seen on day {n};she was seen on day {n}}}" for n in range(9)])
    assert is_free_text(split_sets(sets))


def test_inspect_suggests_that_free_text_cannot_leave():
    frame = pl.DataFrame({"history": make_notes().frame["note"], "age": list(range(20, 60))})
    column = sf.Schema.infer(frame)["history"]
    assert column.role == "direct"
    assert column.kind == "text"
    assert "deidentify_text" in column.reason
    plan = first_plan(sf.Dataset(frame))
    assert "history" in {name for step in plan.steps[:1] for name in step.touches(plan.schema)}


def test_the_first_plan_drops_free_text_whatever_its_declared_role():
    data = make_notes()
    steps = first_plan(data, data.schema).steps
    dropped = [n for step in steps if step.name == "drop" for n in step.touches(data.schema)]
    assert "note" in dropped


@pytest.mark.parametrize("role", ["other", "sensitive", "quasi"])
@pytest.mark.parametrize("kind", ["text", "nominal", None])
def test_free_text_is_refused_whatever_its_role(role, kind):
    data = make_notes()
    schema = data.schema.with_columns({"note": sf.Column(role=role, kind=kind)})
    plan = sf.Plan(schema=schema, steps=[sf.methods.Drop()])
    with pytest.raises(PlanError, match="'note'") as error:
        sf.protect(data, plan, key=KEY)
    assert "deidentify_text" in str(error.value)
    assert "Smith" not in str(error.value)


def test_categories_in_many_words_may_leave_once_they_are_listed():
    frame = pl.DataFrame({"job": [f"worker of the kind {a}{b}" for a in "abcd" for b in "abcd"]})
    undeclared = sf.Plan(schema=sf.Schema({"job": "other"}))
    with pytest.raises(PlanError, match="Free text"):
        sf.protect(sf.Dataset(frame), undeclared, key=KEY)
    listed = sf.Column(role="other", kind="nominal", domain=tuple(frame["job"]))
    plan = sf.Plan(schema=sf.Schema({"job": listed}))
    assert len(sf.protect(sf.Dataset(frame), plan, key=KEY).data) == 16


def test_sets_of_free_text_are_refused():
    data = make_notes()
    schema = data.schema.with_columns({"note": sf.Column(role="quasi", kind="nominal")})
    steps = [sf.methods.Drop(), sf.methods.KAnonymity(variables=["note"], k=3, output="set")]
    with pytest.raises(PlanError, match="'note'"):
        sf.protect(data, sf.Plan(schema=schema, steps=steps), key=KEY)


def test_own_identifiers_do_not_survive_whatever_the_deidentifier():
    data = make_notes()
    step = DeidentifyText(variables=["note"], deidentifier="patterns")
    released = sf.protect(data, make_plan(data, step), key=KEY)
    for before, text in zip(data.frame.rows(named=True), released.data["note"], strict=True):
        assert before["person_id"] not in text
        assert before["name"].split()[1] not in text
        assert before["phone"] not in text
        assert not before["email"] or before["email"] not in text
        assert re.search(r"in week \d+", text)


def test_names_that_a_deidentifier_leaves_make_the_verdict_not_met(tmp_path):
    data = make_notes()
    step = DeidentifyText(variables=["note"], deidentifier="patterns")
    release = sf.protect(data, make_plan(data, step), key=KEY)
    found = release.attacks["surviving_identifiers"]
    shares = dict(found.table.select("identifier", "share").rows())
    assert shares["name"] == 1.0
    assert shares["of the record's own"] == 0.0
    assert {shares[kind] for kind in ("telephone number", "e-mail address")} == {0.0}
    assert release.lights.attacks.colour == "red"
    with pytest.raises(TargetError, match="Names and numbers left in text"):
        release.write(tmp_path / "out")


def test_a_step_after_the_identifiers_are_gone_is_warned_of_and_caught():
    data = make_notes()
    step = DeidentifyText(variables=["note"], deidentifier="patterns")
    plan = replace(make_plan(data), steps=(sf.methods.Drop(), step))
    with pytest.warns(WeakProtectionWarning, match="no identifier"):
        release = sf.protect(data, plan, key=KEY)
    assert release.attacks["surviving_identifiers"].details["surviving_own"] == 1.0


class _Register:
    """A de-identifier of another package: it knows all names, and replaces them."""

    def __call__(self, text: str) -> str:
        for name in surviving_identifiers._CANARIES["name"]:
            text = text.replace(name, "<PERSON>")
        return replace_patterns(text)


class _Point:
    dist = None

    def __init__(self, name, thing):
        self.name, self._thing = name, thing

    def load(self):
        if isinstance(self._thing, Exception):
            raise self._thing
        return self._thing


@pytest.fixture
def points(monkeypatch):
    """Entry points that an installed package would bring."""
    brought: list[_Point] = []
    monkeypatch.setattr(deidentifiers, "entry_points", lambda group: brought)
    load_deidentifier.cache_clear()
    yield brought
    load_deidentifier.cache_clear()


def test_a_deidentifier_of_another_package_that_finds_all_meets_the_verdict(points, tmp_path):
    points.append(_Point("register", _Register()))
    data = make_notes()
    step = DeidentifyText(variables=["note"], deidentifier="register")
    release = sf.protect(data, make_plan(data, step), key=KEY)
    assert release.attacks["surviving_identifiers"].value == 0.0
    release.write(tmp_path / "out")
    assert release.manifest["methods"][0]["deidentifier"] == "register"


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (ValueError("secret"), "cannot be imported"),
        (17, "is no function"),
        (lambda text: 1 / 0, r"failed \(ZeroDivisionError\)"),
        (lambda text: None, "returned no text"),
    ],
)
def test_a_broken_deidentifier_is_an_error_without_any_text(points, thing, message):
    points.append(_Point("broken", thing))
    data = make_notes()
    with pytest.raises(MethodError, match=message) as error:
        DeidentifyText(variables=["note"], deidentifier="broken").apply(data)
    assert "secret" not in str(error.value)
    assert error.value.hint


def test_an_unknown_name_and_what_is_no_text_are_refused():
    data = make_notes()
    with pytest.raises(MethodError, match="no de-identifier 'paterns'") as error:
        DeidentifyText(variables=["note"], deidentifier="paterns").apply(data)
    assert "patterns" in str(error.value)
    with pytest.raises(MethodError, match="'systolic' holds no text"):
        DeidentifyText(variables=["systolic"], deidentifier="patterns").apply(data)
    with pytest.raises(PlanError, match="model is for Presidio"):
        DeidentifyText(variables=["note"], deidentifier="patterns", model="x")


NAMES = st.text(st.sampled_from("abcdeéñüABC-' "), min_size=3, max_size=15)
NUMBERS = st.from_regex(r"[A-Z]?[0-9]{3,9}", fullmatch=True)


@given(
    name=NAMES,
    number=NUMBERS,
    before=st.text(st.sampled_from("xyz .,;"), max_size=9),
    separator=st.sampled_from(["", " ", "-", ". "]),
)
@settings(max_examples=200, deadline=None)
def test_what_is_replaced_is_not_found_again_by_the_independent_search(
    name, number, before, separator
):
    """The method searches by patterns, the measure by normalised words and signs."""
    spelt = separator.join(number) if len(number) > 5 else number
    text = f"{before} {name.upper()} and {spelt} {before}"
    searched = surviving_identifiers._Searched(replace_own(text, [name, number]))
    assert not searched.holds(name)
    assert not searched.holds(number)


def test_the_measure_finds_what_the_method_would_have_replaced():
    data = make_notes()
    how = {"variables": ["note"], "deidentifier": "patterns"}
    assert SurvivingIdentifiers(**how).measure(data, data).details["surviving_own"] == 1.0


def test_a_person_counts_once_however_many_texts():
    rows = {
        "patient": ["p-100001", "p-100001", "p-100002", "p-100003"],
        "note": ["seen p-100001", "again p-100001", "nothing", "nothing at all"],
    }
    data = sf.Dataset(pl.DataFrame(rows), sf.Schema({"patient": "person", "note": "sensitive"}))
    found = SurvivingIdentifiers(variables=["note"], deidentifier="patterns").measure(data, data)
    assert found.details["surviving_own"] == pytest.approx(1 / 3)
    assert found.details["persons_with_text"] == 3


def test_presidio_is_named_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    load_deidentifier.cache_clear()
    with pytest.raises(MethodError, match="Presidio is not installed") as error:
        load_deidentifier("presidio")
    assert ".[text]" in error.value.hint


@pytest.mark.study  # needs the extra `text`, which is not part of the environment of the tests
def test_presidio_with_a_model_that_knows_no_names(tmp_path):
    """Its patterns find numbers and addresses; names need a model, which no registry here has."""
    pytest.importorskip("presidio_analyzer")
    pytest.importorskip("presidio_anonymizer")
    spacy = pytest.importorskip("spacy")
    spacy.blank("en").to_disk(tmp_path / "blank")
    load_deidentifier.cache_clear()
    with pytest.raises(MethodError, match="language model 'en_core_web_lg'"):
        load_deidentifier("presidio")
    function = load_deidentifier("presidio", "en", str(tmp_path / "blank"))
    text = function("Write to ada@example.org or call (212) 555-0147, says Ada King.")
    assert text == "Write to <EMAIL_ADDRESS> or call <PHONE_NUMBER>, says Ada King."
