"""Steps follow corrected roles; `--update` rebuilds them and keeps all that somebody wrote."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.errors import PlanError, TargetError
from sfumato.suggestion.first_plan import first_plan
from sfumato.suggestion.update import update_plan


def _make_frame(records: int = 400) -> pl.DataFrame:
    random = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "name": [f"Person {row} of {records}" for row in range(records)],
            "age": random.integers(18, 90, records),
            "sex": random.choice(["female", "male"], records),
            "region": random.choice(["north", "south", "east"], records),
            "income": random.normal(2500, 700, records).round(2),
            "glucose": random.normal(5.5, 0.9, records).round(2),
            "survey_weight": random.uniform(0.5, 3, records).round(3),
        }
    )


DATA = sf.Dataset(_make_frame())


@pytest.fixture(scope="module")
def text():
    return first_plan(DATA).text(comments=True)


def _update(text, tmp_path):
    return update_plan(text, DATA, folder=tmp_path)


def _statuses(updated):
    return {item.step.name: item.status for item in updated.steps}


def test_no_step_names_variables_that_roles_say(text):
    plan = sf.Plan.parse(text)
    named = {step.name: getattr(step, "variables", None) for step in plan.steps}
    assert named == {"drop": None, "weights": None, "noise": None, "k_anonymity": None}


def test_a_corrected_role_reaches_the_steps_without_an_update(text):
    plan = sf.Plan.parse(text)
    swapped = plan.schema.changed(["income"], role="quasi").changed(["age"], role="sensitive")
    release = sf.protect(DATA, plan.with_schema(swapped), key=bytes(32))
    k_anonymity, noise = release.plan.steps[-1], release.plan.steps[-2]
    schema = release.original.schema
    assert "income" in k_anonymity.touches(schema)
    assert noise.touches(schema) == ("age", "glucose")
    assert all(judgement.met for judgement in release.verdict)


def test_an_update_without_corrections_changes_no_letter(text, tmp_path):
    assert _update(text, tmp_path).text == text
    assert set(_statuses(_update(text, tmp_path)).values()) == {"unchanged"}
    windows = text.replace("\n", "\r\n")
    assert _update(windows, tmp_path).text == windows


def test_steps_come_and_go_with_roles_and_the_rest_stays_to_the_letter(text, tmp_path):
    edited = text.replace('survey_weight = { role = "weight"', 'survey_weight = { role = "other"')
    edited = edited.replace('sex = { role = "quasi"', 'sex = { role = "other"')
    edited = edited.replace("# Targets.", "# The board decided on these.\n# Targets.")
    updated = _update(edited, tmp_path)
    plan = sf.Plan.parse(updated.text)
    assert [step.name for step in plan.steps] == ["drop", "noise", "k_anonymity"]
    assert vars(plan.steps[-1])["strata"] == ["region"]
    assert "# The board decided on these." in updated.text
    # All but the steps is as it was, line by line.
    lines = updated.text.splitlines()
    untouched = [line for line in lines if line in edited.splitlines()]
    assert [line for line in lines if line not in untouched] == ['strata = ["region"]']
    assert plan.schema == sf.Plan.parse(edited).schema


def test_what_somebody_changed_stays_and_is_said(text, tmp_path):
    mine = text.replace("k = 5\n", "k = 9  # as the board wants\n")
    mine = mine.replace('survey_weight = { role = "weight"', 'survey_weight = { role = "other"')
    mine += (
        '\n[[steps]]\n# mine as well\nmethod = "topcode"\nvariables = ["age"]\ntop_quantile = 0.9\n'
    )
    updated = _update(mine, tmp_path)
    assert "k = 9  # as the board wants" in updated.text
    assert "# mine as well" in updated.text
    statuses = _statuses(updated)
    assert statuses["k_anonymity"] == statuses["topcode"] == "yours"
    assert statuses["weights"] == "removed"
    assert any("not as the first plan had it" in line for line in updated.describe())
    # Once more: nothing left to do.
    assert _update(updated.text, tmp_path).text == updated.text


def test_a_target_comes_with_the_role_that_needs_it(tmp_path):
    frame = _make_frame().select("income", "glucose", "survey_weight")
    data = sf.Dataset(frame)
    text = first_plan(data).text(comments=True)
    assert "k.min" not in text
    edited = text.replace('income = { role = "sensitive"', 'income = { role = "quasi"')
    updated = update_plan(edited, data, folder=tmp_path)
    plan = sf.Plan.parse(updated.text)
    assert "k at least 5" in updated.new_targets
    assert {"k", "untouched", "stayed", "recoverable"} <= {target.name for target in plan.targets}
    assert plan.steps[-1].name == "k_anonymity"
    assert vars(plan.evaluate["displacement"])["role"] == "sensitive"
    sf.protect(data, plan, key=bytes(32))


@pytest.mark.parametrize(
    "steps",
    [
        'steps = [{ method = "drop" }]',
        '[["steps"]]\nmethod = "drop"',
        "[[ steps ]]\nmethod = 'drop'",
    ],
)
def test_another_spelling_is_updated_rightly_or_refused(steps, text, tmp_path):
    head, _, rest = text.partition("[columns]")
    columns = rest.partition("# What is done")[0]
    version = head.partition("version = 1")[0]
    inline = (
        f"{version}version = 1\n{steps}\n"
        if steps.startswith("steps")
        else f"{version}version = 1\n"
    )
    below = "" if steps.startswith("steps") else f"\n{steps}\n"
    plan = f"{inline}[columns]{columns}{below}"
    try:
        updated = _update(plan, tmp_path)
    except PlanError as error:
        assert "cannot be updated" in str(error)
    else:
        assert [step.name for step in sf.Plan.parse(updated.text).steps] == [
            "drop", "weights", "noise", "k_anonymity",
        ]  # fmt: skip


def test_the_command_updates_in_place(tmp_path):
    _make_frame().write_csv(tmp_path / "people.csv")
    sfumato("inspect", "people.csv", "--plan", "plan.toml", "--quiet", cwd=tmp_path)
    path = tmp_path / "plan.toml"
    corrected = path.read_text().replace('sex = { role = "quasi"', 'sex = { role = "other"')
    path.write_text(corrected)
    path.chmod(0o640)
    done = sfumato("inspect", "people.csv", "--update", "plan.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"method": "noise", "status": "unchanged"} in json.loads(done.stdout)["steps"]
    assert vars(sf.Plan.load(path).steps[-1])["strata"] == ["region"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["people.csv", "plan.toml"]
    both = sfumato(
        "inspect", "people.csv", "--update", "plan.toml", "--plan", "new.toml", cwd=tmp_path
    )
    assert both.returncode == 2
    assert "give one of them" in both.stderr


def test_the_step_that_leaves_a_quasi_identifier_out_is_named():
    plan = first_plan(DATA)
    steps = [sf.methods.Drop(), sf.methods.KAnonymity(variables=["sex"], k=5)]
    narrow = sf.Plan(schema=plan.schema, steps=steps, targets={"k.min": 5})
    with pytest.raises(TargetError) as raised:
        sf.protect(DATA, narrow)
    assert "step 2, k_anonymity, does not treat 'age', 'region'" in raised.value.hint
