from __future__ import annotations

import datetime as dt
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import PlanError

WHOLE = sf.Plan(
    schema=sf.Schema(
        {
            "name": "direct",
            "a.b": sf.Column(role="quasi", kind="integer", domain=(0, 85), missing=(-9,)),
            "born": sf.Column(
                role="quasi", kind="date", domain=(dt.date(1950, 1, 1), dt.date(2000, 1, 1))
            ),
            'x"<b>': sf.Column(role="other", hierarchy={"01067": ("010**", "*")}),
            "unknown": None,
        }
    ),
    steps=[
        sf.methods.Drop(),
        sf.methods.Coarsen(variables=["born"], breaks=[dt.date(1960, 1, 1), dt.date(1980, 1, 1)]),
    ],
    targets={"k.min": 5, "census": {"max": 0.25}, "census.k.min": 2},
    evaluate={"census": sf.risk.Uniqueness(known=["a.b"])},
    read={"delimiter": ";", "types": {"name": "text"}},
)


@pytest.mark.parametrize("comments", [True, False])
def test_round_trip_loses_nothing(comments):
    again = sf.Plan.parse(WHOLE.text(comments=comments))
    assert again == WHOLE
    assert again.digest == WHOLE.digest
    assert again.text() == WHOLE.text()


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1)
columns = st.builds(
    sf.Column,
    role=st.sampled_from(["direct", "quasi", "sensitive", "other", "weight", "cluster", None]),
    kind=st.sampled_from(["continuous", "integer", "nominal", "text", None]),
    accessibility=st.one_of(st.none(), st.floats(0, 1)),
    missing=st.lists(st.one_of(st.integers(-999, 999), texts), max_size=2).map(tuple),
)


@given(
    st.dictionaries(texts, columns, max_size=5),
    st.lists(texts, min_size=1, max_size=3, unique=True),
    st.floats(-1e9, 1e9),
)
def test_round_trip_of_any_names_and_numbers(schema, variables, top):
    plan = sf.Plan(
        schema=sf.Schema(schema),
        steps=[sf.methods.Topcode(variables=variables, top=top)],
        targets={"uniqueness.max": 0.1},
    )
    assert sf.Plan.parse(plan.text()) == plan
    assert sf.Plan.parse(plan.text(comments=True)).digest == plan.digest


def test_every_line_of_a_commented_plan_is_explained():
    lines = WHOLE.text(comments=True).splitlines()
    told = [line for line in lines if line.startswith(("name =", "version", "k.min", "method ="))]
    assert len(told) == 5
    assert all("  # " in line for line in told)


def test_a_plan_is_frozen():
    with pytest.raises(AttributeError):
        WHOLE.steps = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[colums]\n", "line 1: a plan has no 'colums'. Hint: did you mean 'columns'"),
        ("\nversion = 2\n", "line 2: this is a plan of version 2"),
        ('[columns]\nage = "quas"\n', "line 2: .*'quas'. Hint: did you mean 'quasi'"),
        ("[columns]\nage = 3\n", "line 2: variable 'age' needs a role"),
        ('[columns]\nage = { role = "quasi", kid = "x" }', "line 2: .*'kid'. Hint: .*'kind'"),
        ('[columns]\nage = { kind = "integer", domain = 3 }', "line 2: .*wrong type"),
        ('[[steps]]\nmethod = "coarsn"', "line 2: no method 'coarsn'. Hint: .*'coarsen'"),
        ("[[steps]]\nvariables = []", "line 1: a step needs a method. Hint: known are"),
        (
            '[[steps]]\nmethod = "drop"\n[[steps]]\nmethod = "coarsen"\nintervals = "many"',
            "line 3: .*\nThe 'intervals' parameter of Coarsen must be an integer",
        ),
        ('[[steps]]\nmethod = "topcode"\nvariables = ["a"]', "line 1: .*at least one limit"),
        ("[targets]\n\nk = 5", "line 3: Target 'k' needs a bound. Hint: write k.min"),
        ("[targets]\nunique.max = 0.1", "line 2: No measure gives 'unique'.*'uniqueness'"),
        ('[targets]\nk.min = "5"', "line 2: .*must be a number"),
        ('[evaluate.x]\nmeasure = "uniquness"', "line 2: no measure 'uniquness'.*'uniqueness'"),
        ("[evaluate.uniqueness]\nknwn = []", "line 2: .*'knwn'.*does not exist.*'known'"),
        ('[release]\nformat = "doc"', "line 2: .*must be 'csv', "),
        ("a = ", "not valid TOML"),
        ("steps = 3", "line 1: 'steps' must be tables"),
        ("read = 3", "line 1: 'read' must be a table"),
        ("[read]\ntypes = 5", "line 2: the option 'types' of reading must be a table"),
        ("[read]\nmissing = [5]", "line 2: the option 'missing' of reading must be a list"),
        ("[read]\nschema = 1", "line 2: reading has no option 'schema'"),
        ("[evaluate.x]\nmeasure = 5", "line 2: no measure '5'"),
    ],
)
def test_a_bad_plan_says_line_key_expectation_and_hint(text, expected):
    with pytest.raises(PlanError, match=expected):
        sf.Plan.parse(text)


def test_a_missing_plan_file_is_told(tmp_path):
    with pytest.raises(PlanError, match="There is no plan"):
        sf.Plan.load(tmp_path / "none.toml")


def test_codes_that_yaml_would_spoil_stay_what_they_are():
    text = '[columns]\nx = { kind = "nominal", domain = ["NO", "010", "12:30", "1e3"] }\n'
    assert sf.Plan.parse(text).schema["x"].domain == ("NO", "010", "12:30", "1e3")


def test_a_bare_target_is_never_judged_by_a_narrower_measure(cohort):
    plan = sf.Plan(
        schema=cohort.schema,
        steps=[sf.methods.Drop()],
        targets={"k.min": 2, "looks.k.min": 2},
        evaluate={"looks": sf.risk.Uniqueness(known=["sex"])},
    )
    assert set(plan.measures) == {"looks", "uniqueness"}
    with pytest.raises(sf.SfumatoError, match="1 of 2 targets missed.*\n.*- k at least 2: MISSED"):
        sf.protect(cohort, plan, key=bytes(32))


def test_a_target_on_an_unknown_label_is_refused():
    with pytest.raises(PlanError, match="line 2: No measure gives 'census.k'"):
        sf.Plan.parse("[targets]\ncensus.k.min = 2")


@pytest.mark.parametrize("label", ["prosecutor", "k", "unique_records", "a.k"])
def test_a_label_cannot_redirect_a_target(label):
    with pytest.raises(PlanError, match="labelled|has a dot"):
        sf.Plan(evaluate={label: sf.risk.Uniqueness()})


@pytest.mark.parametrize(
    "targets",
    [{"k": {}}, {"k.min": 5, "k": {"min": 1}}, {"k.max": float("inf")}, {"k.min": 10**400}],
)
def test_targets_that_say_nothing_are_refused(targets):
    with pytest.raises(PlanError):
        sf.Plan(targets=targets)


def test_a_narrowed_measure_is_said_with_the_verdict(cohort):
    plan = sf.Plan(
        schema=cohort.schema,
        steps=[sf.methods.Drop()],
        targets={"k.min": 2},
        evaluate=[sf.risk.Uniqueness(known=["sex"])],
    )
    release = sf.protect(cohort, plan)
    assert release.verdict[0].describe().startswith("k at least 2 (known: sex): met")
    assert release.manifest["targets"][0]["under"] == "known: sex"


@pytest.mark.parametrize(
    "targets", [{"k.min": 1}, {"uniqueness.max": 1.0}, {"k": {"min": -5}}, {"uniqueness.min": 0}]
)
def test_a_target_that_cannot_be_missed_is_refused(targets, cohort):
    with pytest.raises(PlanError, match="cannot be missed, so it promises nothing"):
        sf.protect(cohort, sf.Plan(steps=[sf.methods.Drop()], targets=targets))
    with pytest.raises(PlanError, match="line 2: .*cannot be missed"):
        sf.Plan.parse("[targets]\nk.min = 1")


@given(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans()))
def test_a_value_is_written_so_that_it_is_read_again(value):
    from sfumato.plan.toml_writer import format_value

    again = tomllib.loads(f"x = {format_value(value)}")["x"]
    assert again == value
    assert type(again) is type(value)


def test_a_plan_with_very_many_missing_codes_is_written_without_the_library(monkeypatch):
    """300,000 codes took half a minute: each went through the library, four times."""
    import tomlkit

    codes = (*range(-50_000, 0), *(f"code {number}" for number in range(50_000)))
    plan = sf.Plan(schema={"x": sf.Column(role="other", missing=codes)}, steps=[])
    taken, item = [0], tomlkit.item

    def count(value):
        taken[0] += 1
        return item(value)

    monkeypatch.setattr(tomlkit, "item", count)
    assert sf.Plan.parse(plan.text()).schema["x"].missing == codes
    assert taken[0] < 100
