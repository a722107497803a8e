"""A first plan that was tried: it passes its own gate, keeps the purpose, and says what it cost."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.command_line import sfumato
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import SchemaError
from sfumato.suggestion.roles import assign_roles
from sfumato.suggestion.search import TriedPlan, search_first_plan


def make_survey(records: int = 700, seed: int = 3) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    age, school = draw.integers(18, 80, records), draw.integers(6, 20, records)
    wage = np.exp(1 + 0.08 * school + 0.01 * age + draw.normal(0, 0.4, records)).round(2)
    visits = np.where(draw.random(records) < 0.6, 0.0, draw.gamma(2, 3, records).round(1))
    return pl.DataFrame(
        {
            "name": [f"{a} {b}" for a, b in zip(draw.choice(["Ann", "Bo", "Cy"], records),
                                                draw.integers(0, 10**6, records), strict=True)],
            "age": age, "sex": draw.choice(["f", "m"], records), "school": school, "wage": wage,
            "agesq": age**2, "lwage": np.log(wage), "visits": visits,
            "level": np.digitize(school, [9, 12, 16]), "south": draw.integers(0, 2, records),
        }
    )  # fmt: skip


def search(frame: pl.DataFrame, *items: str, **roles: Any) -> tuple[sf.Dataset, list[TriedPlan]]:
    data = sf.Dataset(frame)
    named: dict[str, Any] = {"known": ["age", "sex"], "secret": ["wage"], "rest": "other", **roles}
    purpose = sf.utility.Purpose(items=list(items)) if items else None
    needed = [] if purpose is None else purpose.list_variables()
    assigned = assign_roles(data, **named, needed=needed)
    found = search_first_plan(
        data, assigned.schema, purpose=purpose, open_roles=assigned.open_roles, seconds=1
    )
    return data, found


def test_the_plan_passes_its_own_gate_and_keeps_the_purpose(tmp_path):
    data, found = search(make_survey(), "lwage ~ age + agesq + school", "mean wage by sex")
    best = found[0]
    assert best.kept >= 0.9
    assert {best.colours["targets"], best.colours["attacks"]} <= {"green", "amber"}
    # Under another key as well.
    release = sf.protect(data, best.plan, key=bytes(range(32)))
    folder = release.write(tmp_path / "out", ledger=False)
    assert (folder / "custody" / "purpose.json").is_file()
    released = release.data
    assert "name" not in released.columns
    assert (released["agesq"] == released["age"].cast(pl.Float64) ** 2).all()
    assert released["wage"].min() > 0
    assert sf.Plan.parse(best.plan.text()) == best.plan
    assert any(target.name == "attribute_disclosure" for target in best.plan.targets)


def test_what_gives_a_protected_variable_back_is_treated_not_refused():
    frame = make_survey()
    # Not a formula: a code that goes with each age.
    code = {age: (age * 7919) % 1009 for age in range(18, 81)}
    tell = frame.with_columns(code=pl.col("age").replace_strict(code))
    _, found = search(tell)
    plan = found[0].plan
    treated = plan.schema["code"].role == "quasi" or any(
        "code" in step.touches(plan.schema) for step in plan.steps
    )
    assert treated


def test_zeros_stay_zeros_and_nothing_turns_negative():
    data, found = search(make_survey(), secret=["visits", "wage"])
    before = data.column("visits")
    after = sf.protect(data, found[0].plan, key=bytes(32)).dataset.column("visits")
    assert (before == 0).sum() == (after == 0).sum() > 300
    assert after.min() == 0
    assert int((before != after).sum()) > 0.9 * int((before != 0).sum())


def test_the_plan_does_not_depend_on_the_order_of_records():
    frame = make_survey(300)
    plans = [search(one)[1][0].plan for one in (frame, frame.sample(fraction=1, shuffle=True))]
    assert plans[0] == plans[1]


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(60, 300))
def test_no_first_plan_is_refused_by_its_own_gate(seed, records):
    data, found = search(make_survey(records, seed))
    release = sf.protect(data, found[0].plan, key=bytes(32))
    release.case.require_attacks_held()


def test_roles_in_one_go():
    frame = make_survey(200)
    assigned = assign_roles(sf.Dataset(frame), known=["age"], secret=["wage"], rest="other")
    roles = {name: column.role for name, column in assigned.schema.items()}
    assert roles["age"] == "quasi"
    assert roles["wage"] == "sensitive"
    # A column of names is not harmless by the way.
    assert roles["name"] == "direct"
    assert assigned.held == ("name", "school")
    others = {role for name, role in roles.items() if name not in ("age", "wage", *assigned.held)}
    assert others == {"other"}
    # Nor is a code that each record has of its own, whatever it is called.
    coded = frame.with_columns(x1=pl.format("k{}", pl.int_range(pl.len()) * 7))
    assigned = assign_roles(sf.Dataset(coded), known=["age"], rest="other")
    assert assigned.schema["x1"].role == "direct"
    assert "x1" in assigned.held
    computed = assign_roles(sf.Dataset(frame), known=["age"], rest="other", needed=["school"])
    assert computed.schema["school"].role == "other"
    with pytest.raises(SchemaError, match="'agee'"):
        assign_roles(sf.Dataset(frame), known=["agee"])
    with pytest.raises(SchemaError, match="as known and as secret"):
        assign_roles(sf.Dataset(frame), known=["age"], secret=["age"])
    with pytest.raises(SchemaError, match="no role 'harmless'"):
        assign_roles(sf.Dataset(frame), rest="harmless")  # type: ignore[arg-type]


def test_what_stays_undecided_is_read_as_known_and_stops_nothing():
    frame = make_survey(300).select("age", "wage", "south", "level")
    _, found = search(frame, rest=None, known=["age"])
    roles = {name: column.role for name, column in found[0].plan.schema.items()}
    assert None not in roles.values()
    assert roles["south"] == "quasi"


def test_three_commands_lead_from_a_file_to_a_release(tmp_path):
    make_survey(400).write_csv(tmp_path / "survey.csv")
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    result = sfumato("inspect", tmp_path / "survey.csv", "--plan", plan, "--known", "age,sex",
                    "--secret", "wage", "--rest", "other", "--purpose", "lwage ~ age + school",
                    "--seconds", "1", "--json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["plans"][0]["kept"] >= 0.5
    assert sfumato("protect", tmp_path / "survey.csv", "--plan", plan, "--out", out).returncode == 0
    certificate = json.loads((out / "custody" / "purpose.json").read_text())
    assert certificate["stated"]
    again = sfumato("inspect", tmp_path / "survey.csv", "--plan", plan, "--known", "age")
    assert again.returncode == 2
    assert "exists already" in again.stderr
    wrong = sfumato("inspect", tmp_path / "survey.csv", "--known", "age", "--purpose", "wage ~")
    assert wrong.returncode == 2
    assert "purpose" in wrong.stderr


def test_five_questions_lead_to_a_plan(tmp_path, monkeypatch):
    make_survey(300).write_csv(tmp_path / "survey.csv")
    monkeypatch.chdir(tmp_path)
    answers = ["age,sex", "wage", "", "lwage ~ age", "", "mine.toml"]
    done = CliRunner().invoke(
        app, ["inspect", "survey.csv", "--ask", "--seconds", "1", "--quiet"],
        input="\n".join(answers) + "\n",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    plan = sf.Plan.load(tmp_path / "mine.toml")
    assert plan.purpose is not None
    assert plan.purpose.items == ["lwage ~ age"]
    assert {n for n, column in plan.schema.items() if column.role == "quasi"} == {"age", "sex"}
