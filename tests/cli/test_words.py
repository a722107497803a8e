"""Types, values and mistakes of parameters in words that need no Python."""

from __future__ import annotations

import datetime as dt
import tomllib
from typing import Annotated, Literal, get_type_hints

import pytest
from pydantic import Field, TypeAdapter

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import PlanError
from sfumato.parameters import (
    ParameterError,
    describe_expectation,
    describe_type,
    format_value,
    write_example,
)
from sfumato.report.wording import format_result
from sfumato.risk.disclosure.predicate import parse


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (dict[str, float], "table of numbers"),
        (dict[str, list[str]] | None, "table of lists of names"),
        (dict[str, dict[str, float]], "table of tables of numbers"),
        (list[list[str]], "list of lists of names"),
        (list[str] | str, "list of names or text"),
        (str | list[str], "list of names or text"),
        (list[float | dt.date], "list of numbers or dates"),
        (Annotated[float, Field(ge=0, le=1)], "share between 0 and 1"),
        (Literal["a", "b"] | dict[str, Literal["a", "b"]], '"a" or "b" or a table of these'),
        (dict[str, Annotated[float, Field(gt=0, lt=1)]], "table of shares between 0 and 1"),
        (float | dict[str, float], "number or a table of these"),
        (dict[str, Annotated[int, Field(gt=0)]], "table of whole numbers"),
    ],
)
def test_types_in_words(annotation, words):
    assert describe_type(annotation) == words


def test_the_example_of_every_table_and_list_has_its_type():
    for entry in (catalogue.methods() | catalogue.measures()).values():
        types = get_type_hints(entry, include_extras=True)
        for one in catalogue.parameters_of(entry):
            if "list" in one.type or "table" in one.type:
                read = tomllib.loads(f"x = {write_example(types[one.name])}")["x"]
                TypeAdapter(types[one.name]).validate_python(read)
    assert describe_expectation(list[float | dt.date]) == "a list of numbers or dates"
    assert write_example(dict[str, dict[str, float]]) == "{ gender = { female = 5 } }"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"looks": ["gender", "race"], "home": ["region"]}, "looks: gender, race; home: region"),
        ([["gender", "age"], ["race"]], "gender, age; race"),
        (["gender", "age"], "gender, age"),
        ({"age": 2.5}, "age: 2.5"),
        ({"sex": {"f": 1, "m": 2}}, "sex: (f: 1, m: 2)"),
        (True, "true"),
    ],
)
def test_values_in_words(value, words):
    assert format_value(value) == words
    if value is not True:
        assert format_result(value) == words


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("spare = 5", "must be a table of numbers, such as { gender = 5 }. Got 5 instead."),
        (
            'combinations = ["gender", "age"]',
            "must be a list of lists of names. Got ['gender', 'age'] instead.",
        ),
        ("spare = { a = -1, b = -2 }", "must be greater than 0. Got -1 instead."),
        ("variables = [1, 2]", "must be a list of names. Got [1, 2] instead."),
    ],
)
def test_a_wrong_parameter_is_one_sentence_with_its_line(step, expected):
    with pytest.raises(PlanError) as error:
        sf.Plan.parse(f'[[steps]]\nmethod = "suppress"\n{step}')
    name = step.partition(" =")[0]
    assert error.value.what == f"plan, line 3: The '{name}' parameter of Suppress {expected}"


@pytest.mark.parametrize("output", [5, "foo", ["range"]])
def test_a_choice_or_table_is_one_sentence(output):
    with pytest.raises(ParameterError) as error:
        sf.methods.KAnonymity(output=output)
    [(name, what)] = error.value.wrong
    assert name == "output"
    assert 'or a table of these, such as { gender = "range" }. Got ' in what


def test_the_wrong_part_of_a_table_is_named_alone():
    with pytest.raises(ParameterError) as error:
        sf.methods.KAnonymity(output={"a": "foo"})
    [(_, what)] = error.value.wrong
    assert what.startswith("must be 'range', ")
    assert what.endswith("Got 'foo' instead.")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('salary = ">50K"', "use == for equal"),
        ("a == 1 AND b == 2", "write and, or, not in lower case"),
        ("NOT a == 1", "write and, or, not in lower case"),
        ("a = 1 OR b = 2", "use == for equal; write and, or, not in lower case"),
    ],
)
def test_a_statement_in_another_language_gets_a_hint(text, hint):
    with pytest.raises(ValueError, match=f"Hint: {hint}; a statement compares"):
        parse(text)


@pytest.mark.parametrize("text", ['a <= "x = AND" b', "a >= 1 b", "a == 'AND' b", "a != 2 `OR =`"])
def test_other_mistakes_get_no_such_hint(text):
    with pytest.raises(ValueError, match="Hint: a statement compares"):
        parse(text)
