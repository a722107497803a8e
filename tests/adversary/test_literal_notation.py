"""SECURITY.md: "`[24;28]`, `{f;m}`, `937**` and `*` are read as several values only in variables
into which a step of the plan wrote them, or that are declared as generalised. In the original they
are text like any other."

The attacker compares texts as they stand. Every literal is replaced by a word of its own, which
cannot be notation: whatever a measure says of the one must hold of the other.
"""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError

LITERALS = ["*", "**", "{f;m}", "[1;9]", "9*", "937**", "{}", "[;]", "{*}", "[a;b]"]
KEY = bytes(32)
words = st.sampled_from([*LITERALS, "f", "m", "9", "93701"])
tables = st.lists(st.tuples(words, words, words), min_size=2, max_size=14)
SCHEMA = sf.Schema(
    {
        "a": sf.Column(role="quasi", kind="nominal"),
        "b": sf.Column(role="quasi", kind="text"),
        "s": sf.Column(role="sensitive", kind="nominal"),
    }
)


def build(rows, schema=SCHEMA):
    return sf.Dataset(pl.DataFrame(rows, schema=list("abs"), orient="row"), schema)


def spell_out(rows):
    """The same table with a plain word for every literal."""
    plain = {text: f"word{index:02}" for index, text in enumerate(LITERALS)}
    return [tuple(plain.get(cell, cell) for cell in row) for row in rows]


MEASURES = [
    sf.risk.Uniqueness(),
    sf.risk.Reidentification(),
    sf.risk.Peers(),
    sf.risk.Diversity(),
    sf.risk.AttributeDisclosure(),
]


@settings(max_examples=15, deadline=None)
@given(tables)
def test_no_measure_of_the_original_reads_text_as_notation(rows):
    literal, plain = build(rows), build(spell_out(rows))
    for measure in MEASURES:
        found, expected = measure.measure(literal), measure.measure(plain)
        assert found.value == expected.value, measure.name
        assert found.records.equals(expected.records), measure.name
    closeness = sf.risk.Closeness(distance="equal")
    assert closeness.measure(literal).value == closeness.measure(plain).value


@settings(max_examples=10, deadline=None)
@given(tables)
def test_no_comparison_of_an_untouched_release_reads_text_as_notation(rows):
    literal, plain = build(rows), build(spell_out(rows))
    for measure in (
        sf.risk.MixedLinkage(),
        sf.risk.AttributeInference(),
        sf.risk.SinglingOut(),
        sf.utility.InformationLoss(),
    ):
        found, expected = (measure.measure(data, data).value for data in (literal, plain))
        assert found == pytest.approx(expected, nan_ok=True), measure.name


def test_the_finding_stars_in_the_original_hide_nobody():
    data = build([("*", "*", "x")] * 3 + [(f"town{i}", str(i), "y") for i in range(5)])
    found = sf.risk.Reidentification().measure(data)
    assert found.details["reidentifiable_records"] == 5
    assert found.details["k_by_fitting"] == 1
    assert sf.risk.Peers().measure(data).details["fewest_protective_peers"] == 0
    # Three stars are one value of the secret, and no missing one.
    secrets = build([("f", "1", "*"), ("f", "1", "*"), ("f", "1", "HIV")])
    found = sf.risk.Diversity(missing_confidential="none").measure(secrets)
    assert found.details["l"] == 2
    statement = sf.risk.AttributeDisclosure(where='s == "*"').measure(secrets)
    assert statement.details["satisfying_records"] == 2


def test_declared_cells_are_notation():
    rows = [("*", "*", "x")] * 3 + [(f"town{i}", str(i), "y") for i in range(5)]
    schema = SCHEMA.changed(["a", "b"], cells="generalised")
    found = sf.risk.Reidentification().measure(build(rows, schema))
    assert found.details["reidentifiable_records"] == 0


def plan_of(steps, schema=SCHEMA, **targets):
    return sf.Plan(schema=schema, steps=steps, targets={"k.min": 2, **targets})


ROWS = [(*pair, secret) for pair in zip("fmfmfmfm", "12345678", strict=True) for secret in "xy"]


@pytest.mark.parametrize("literal", ["*", "{f;m}", "[1;9]", "93**"])
def test_a_step_that_generalises_refuses_values_that_look_generalised(literal):
    rows = [*ROWS, (literal, "1", "x")]
    with pytest.raises(MethodError, match="'a' has (1 cells that look|a level with)") as refused:
        sf.protect(
            build(rows), plan_of([sf.methods.KAnonymity(variables=["a", "b"], k=3)]), key=KEY
        )
    assert literal not in str(refused.value).replace("`*`", "").replace('"*"', "")


def test_a_step_that_writes_the_very_literal_is_refused():
    """The set that clustering writes is one that somebody wrote by hand before."""
    rows = [("f", "1", "x"), ("m", "1", "y"), ("{f;m}", "2", "x"), ("{f;m}", "2", "y")]
    step = sf.methods.KAnonymity(variables=["a"], k=2, output="set")
    with pytest.raises(MethodError, match="'a' has 2 cells that look like ranges"):
        step.apply(build(rows))


def test_a_release_says_which_variables_were_generalised_and_is_read_so_again(tmp_path):
    # `s` keeps its literals, untouched; `a` and `b` are generalised.
    rows = [(a, b, LITERALS[index % 3]) for index, (a, b, _) in enumerate(ROWS)]
    data = build(rows)
    release = sf.protect(data, plan_of([sf.methods.KAnonymity(variables=["a", "b"], k=4)]), key=KEY)
    kinds = {name: entry["cells"] for name, entry in release.manifest["variables"].items()}
    assert kinds["s"] == "values"
    assert "generalised" in kinds.values()
    folder = release.write(tmp_path / "release")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {name: entry["cells"] for name, entry in manifest["variables"].items()} == kinds
    measures = [sf.risk.Reidentification(), sf.risk.Diversity(), sf.utility.InformationLoss()]
    before, after = (sf.evaluate(data, where, measures) for where in (release, folder))
    for name in before:
        assert before[name].value == after[name].value
    # The attacker counts the secrets of each class as they stand.
    shown = release.dataset.frame
    classes = Counter(shown.select("a", "b", "s").unique().select("a", "b").rows())
    assert after["diversity"].value == min(classes.values())


def test_a_plain_file_of_somebody_else_is_text_until_declared(tmp_path):
    path = tmp_path / "arx.csv"
    path.write_text("age,town\n[20;29],*\n[20;29],*\n24,Ulm\n25,Bonn\n")
    roles = {"age": sf.Column(role="quasi", kind="integer"), "town": sf.Column(role="quasi")}
    data = sf.read(path, schema=sf.Schema(roles))
    found = sf.assess(data, [sf.risk.Reidentification()])["reidentification"]
    assert "generalised" in found.reason  # ranges among numbers: refused, with what to declare
    declared = data.with_schema(sf.Schema(roles).changed(roles, cells="generalised"))
    found = sf.risk.Reidentification().measure(declared)
    assert found.details["reidentifiable_records"] == 0
    text = data.with_schema(sf.Schema({"age": "other", "town": sf.Column(role="quasi")}))
    found = sf.risk.Reidentification().measure(text)
    assert found.details["reidentifiable_records"] == 2
    assert any("'town'" in warning and "2 cells" in warning for warning in found.warnings)
    suggested = sf.Schema.infer(data.frame)
    assert suggested["age"].cells == "generalised"


def test_a_code_for_missing_is_missing_and_no_literal():
    column = sf.Column(role="quasi", kind="nominal", missing=("*",))
    rows = [("f", "1", "x"), ("m", "1", "y"), ("*", "2", "x"), ("*", "2", "y")]
    data = build(rows, SCHEMA.with_columns({"a": column}))
    released = sf.methods.KAnonymity(variables=["a"], k=2, output="set").apply(data)
    assert released.schema["a"].generalised


def test_a_step_that_draws_among_values_keeps_literals_as_values():
    rows = [*ROWS, *[("*", "1", "x")] * 8]
    step = sf.methods.Misclassify(variables=["a"], retention=0.6)
    schema = SCHEMA.with_columns(
        {"a": sf.Column(role="quasi", kind="nominal", domain=("f", "m", "*"))}
    )
    released = step.apply(build(rows, schema), key=KEY)
    assert not released.schema["a"].generalised
