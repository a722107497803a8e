"""Tuned plans on three data sets: carried out and measured again by fresh processes, from disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.waiting import PATIENCE

import sfumato as sf
from sfumato.plan import Plan

Files = tuple[Path, Plan]


def _cohort(folder: Path) -> Files:
    schema = sf.datasets.cohort_schema()
    names = ["person_id", "birth_date", "sex", "region", "household_size", "diagnosis",
             "systolic", "exam_score"]  # fmt: skip
    path = folder / "cohort.csv"
    sf.datasets.cohort(500).select(names).write_csv(path)
    plan = Plan(
        schema={name: schema[name] for name in names},
        steps=[sf.methods.Drop()],
        targets={"k.min": 4, "attribute_disclosure.max": 0.2},
        evaluate=[sf.utility.InformationLoss(), sf.utility.Propensity()],
    )
    return path, plan


def _titanic(folder: Path, shared: Path) -> Files:
    """The plan of the tutorial, without the step that it chooses by hand."""
    raw = pl.read_csv(shared / "titanic.csv")
    family = ((pl.col("SibSp") + pl.col("Parch")) > 0).cast(pl.Int64)
    age = pl.col("Age").fill_null(pl.col("Age").median())
    path = folder / "passengers.csv"
    raw.with_columns(age, Family=family).drop("SibSp", "Parch").write_csv(path)
    nominal = {
        name: sf.Column(role="quasi", kind="nominal") for name in ("Pclass", "Sex", "Family")
    }
    measured = sf.Column(role="sensitive", kind="continuous", domain=(0, 1000))
    direct: dict[str, Any] = dict.fromkeys(("PassengerId", "Name", "Ticket"), "direct")
    formula = "Survived ~ C(Pclass) + Sex + Age + Fare + Family"
    plan = Plan(
        schema={
            **direct,
            **dict.fromkeys(("Cabin", "Embarked"), "quasi"),
            **nominal,
            "Survived": sf.Column(role="sensitive", kind="nominal"),
            "Age": measured,
            "Fare": measured,
        },
        steps=[sf.methods.Drop(), sf.methods.Drop(variables=["Cabin", "Embarked"])],
        targets={"k.min": 3, "mahalanobis.risk1.max": 0.05},
        evaluate={
            "mahalanobis": sf.risk.Mahalanobis(variables=["Age", "Fare"]),
            "survival": sf.utility.Coefficients(formula=formula, family="logistic"),
            "moments": sf.utility.Moments(variables=["Age", "Fare"]),
        },
    )
    return path, plan


def _adult(folder: Path, shared: Path) -> Files:
    frame = pl.read_csv(shared / "adult.csv").sample(4000, seed=3)
    path = folder / "adult.csv"
    frame.write_csv(path)
    age = sf.Column(role="quasi", kind="integer", domain=(17, 90))
    names = ("gender", "race", "marital_status", "native_country")
    known: dict[str, Any] = dict.fromkeys(names, "quasi")
    other: dict[str, Any] = dict.fromkeys(("education", "workclass", "occupation"), "other")
    plan = Plan(
        schema={
            "age": age,
            **known,
            **other,
            "salary": "sensitive",
        },
        targets={"k.min": 5, "reidentification.max": 0.0, "closeness.max": 0.5},
        evaluate=[sf.utility.InformationLoss(), sf.utility.Propensity()],
    )
    return path, plan


def _sfumato(*given: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sfumato", *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def _dominates(one: dict[str, Any], other: dict[str, Any], signs: dict[str, int]) -> bool:
    """By the numbers of the table, worked out anew."""

    def numbers(row: dict[str, Any]) -> list[float]:
        found = [(row[name], sign) for name, sign in signs.items()]
        return [float("inf") if value is None else sign * value for value, sign in found]

    pairs = list(zip(numbers(one), numbers(other), strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@pytest.mark.parametrize(
    "name",
    [
        "cohort",
        pytest.param("titanic", marks=pytest.mark.study),
        pytest.param("adult", marks=pytest.mark.study),
    ],
)
def test_a_tuned_plan_holds_in_fresh_processes_and_nothing_dominates_it(
    name: str, tmp_path: Path, shared_data: Path
) -> None:
    path, plan = {
        "cohort": lambda: _cohort(tmp_path),
        "titanic": lambda: _titanic(tmp_path, shared_data),
        "adult": lambda: _adult(tmp_path, shared_data),
    }[name]()
    (tmp_path / "plan.toml").write_text(plan.text())
    tuned, release = tmp_path / "tuned.toml", tmp_path / "release"
    done = _sfumato("tune", path, "--plan", tmp_path / "plan.toml", "--write", tuned,
                    "--map", tmp_path / "map.svg", "--runs", "18", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["met"]

    # The whole way again, by other processes: the plan from its file, then the release from disk.
    made = _sfumato("protect", path, "--plan", tuned, "--out", release, "--json")
    assert made.returncode == 0, made.stderr
    targets = json.loads(made.stdout)["targets"]
    assert len(targets) == len(plan.targets)
    assert all(one["met"] for one in targets)
    checked = _sfumato("verify", release, "--original", path, "--json")
    assert checked.returncode == 0, checked.stdout
    passed = {one["name"]: one["passed"] for one in json.loads(checked.stdout)}
    assert all(passed[one.name] is True for one in plan.targets), passed
    assert passed["original"] is True

    # No candidate on the map is as good in every number and better in one.
    rows = found["candidates"]
    best = rows[found["recommended"]]
    signs = {one.name: -1 if one.least is not None else 1 for one in plan.targets}
    signs |= dict.fromkeys(found["weights"], 1)  # all of these lose when they rise
    assert best["met"]
    assert not [row["candidate"] for row in rows if _dominates(row, best, signs)]
    assert best["loss"] == min(row["loss"] for row in rows if row["met"])
    assert Plan.load(tuned).targets == plan.targets
    assert "recommended" in (tmp_path / "map.svg").read_text()
