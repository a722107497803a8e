"""Variables that follow from protected ones are found, with the formula, and made again."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cells.derivation import read_derived
from sfumato.suggestion.first_plan import first_plan
from sfumato.suggestion.person_search import find_person
from sfumato.suggestion.relations import find_relations, find_sources

DRAW = np.random.default_rng(20)
N = 400
AGE = DRAW.integers(18, 90, N)
HEIGHT = DRAW.normal(170, 10, N).round(1)
WEIGHT = DRAW.normal(75, 14, N).round(1)
A, B = DRAW.gamma(2, 900, N).round(2), DRAW.gamma(1, 400, N).round(2)
BASE = {"age": AGE, "height": HEIGHT, "weight": WEIGHT, "tot": A + B, "b": B}
RELATIONS = {
    "a square": AGE**2,
    "a cube, scaled": AGE**3 / 1000,
    "a logarithm, rounded": np.log(AGE).round(4),
    "a unit": (HEIGHT / 2.54).round(2),
    "a temperature scale": 32 + 1.8 * WEIGHT,
    "a body mass index": (WEIGHT / (HEIGHT / 100) ** 2).round(2),
    "a difference": 2026 - AGE,
    "a difference of two": HEIGHT - WEIGHT,
    "a product": AGE * HEIGHT,
    "a product with another": AGE * (B > 300),
    "bands": np.digitize(AGE, [30, 45, 60, 75]),
    "an indicator": (AGE >= 65).astype(int),
    "the rest of a total": A,
    "a square root": np.sqrt(WEIGHT),
}


def declare(**columns):
    frame = pl.DataFrame({**BASE, "flag": (B > 300).astype(int), **columns})
    roles: dict[str, Any] = dict.fromkeys(frame.columns, "other") | {
        "age": "quasi", "height": "quasi", "weight": "quasi", "tot": "sensitive"
    }  # fmt: skip
    return sf.Dataset(frame, sf.Schema(roles))


@pytest.mark.parametrize("name", RELATIONS)
def test_a_relation_is_found_whatever_the_variable_is_called(name):
    data = declare(**{"x y": RELATIONS[name]})
    found = {relation.variable: relation for relation in find_relations(data, data.schema)}
    # Of the parts of a total, the first is made again of the total and the other.
    relation = found.get("x y") or found["b"]
    made = data.batch(data.columns).select(read_derived(relation.formula).query).to_series()
    truth = data.column(relation.variable)
    assert float((made - truth).abs().max()) <= 0.01 * float(truth.std()), relation


def test_what_only_goes_together_is_no_relation():
    data = declare(
        near=AGE + DRAW.normal(0, 0.5, N), blood=0.5 * WEIGHT + DRAW.normal(0, 2, N),
        number=np.arange(N), chance=DRAW.integers(0, 2, N),
    )  # fmt: skip
    assert find_relations(data, data.schema) == []
    assert find_sources(data, data.schema) == {}


def test_nothing_is_found_among_a_few_records_or_where_nothing_is_protected():
    data = declare(square=AGE**2)
    few = data.take(np.arange(10))
    assert find_relations(few, few.schema) == []
    harmless = sf.Schema(dict.fromkeys(data.columns, "other"))
    assert find_relations(data, harmless) == []


def test_what_tells_more_than_a_protected_variable_gets_its_role():
    school = DRAW.integers(5, 20, N)
    frame = pl.DataFrame({"school": school, "level": np.digitize(school, [9, 12, 16]), "age": AGE})
    data = sf.Dataset(frame, sf.Schema({"school": "other", "level": "quasi", "age": "quasi"}))
    assert find_sources(data, data.schema) == {"school": "level"}
    plan = first_plan(data, data.schema, open_roles=["school"])
    assert plan.schema["school"].role == "quasi"
    release = sf.protect(data, plan, key=bytes(32))
    assert release.verdict[0].met


def test_whose_a_row_is_shows_in_the_structure():
    people = DRAW.choice(10**6, 90, replace=False)
    born, sex = DRAW.integers(1930, 2000, 90), DRAW.integers(0, 2, 90)
    rows = np.repeat(np.arange(90), 4)
    frame = pl.DataFrame({"zz": people[rows], "year": np.tile(range(4), 90), "born": born[rows],
                          "sex": sex[rows], "pay": DRAW.normal(0, 1, 360)})  # fmt: skip
    roles: dict[str, Any] = {"born": "quasi", "sex": "quasi", "pay": "sensitive"}
    assert find_person(sf.Dataset(frame), sf.Schema(roles)) == "zz"
    # In a household people differ, and in a file with a row each nobody repeats.
    houses = frame.with_columns(born=pl.Series(DRAW.integers(1930, 2000, 360)),
                                sex=pl.Series(DRAW.integers(0, 2, 360)))  # fmt: skip
    assert find_person(sf.Dataset(houses), sf.Schema(roles)) is None
    assert find_person(sf.Dataset(frame[::4]), sf.Schema(roles)) is None


def test_a_first_plan_makes_again_what_follows_and_is_released():
    data = declare(agesq=AGE**2, bmi=(WEIGHT / (HEIGHT / 100) ** 2).round(1), log_tot=np.log(A + B))
    others = [name for name in data.columns if data.schema[name].role == "other"]
    plan = first_plan(data, data.schema, open_roles=others)
    last = plan.steps[-1]
    assert isinstance(last, sf.methods.Derive)
    assert {"agesq", "bmi", "log_tot"} <= {*last.formulas}
    released = sf.protect(data, plan, key=bytes(32)).data
    assert (released["agesq"] == released["age"].cast(pl.Float64) ** 2).all()


def test_where_a_band_begins_is_nobodys_value():
    weights = (np.repeat(DRAW.normal(70, 9, 100).round(2), 4) * 1.0)[:N]
    frame = pl.DataFrame({"weight": weights, "heavy": np.digitize(weights, [60.004, 75.006])})
    data = sf.Dataset(frame, sf.Schema({"weight": "quasi", "heavy": "other"}))
    (relation,) = find_relations(data, data.schema)
    breaks = [float(text) for text in relation.formula.removesuffix(")").split(", ")[1:]]
    assert len(breaks) == 2
    assert not {*breaks} & {*weights.tolist()}
