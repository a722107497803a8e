"""Seven files as a new user meets them: inspect, correct the roles, protect, use what came out.

Each journey once ended with a release that was called "met" while people stood exposed, or with
data that nobody could use.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.command_line import Done, sfumato
from tests.e2e import journey_data

import sfumato as sf


def inspect_and_correct(file: Path, roles: dict[str, str]) -> Path:
    """Let `inspect` write a plan, correct roles in it by hand, and have its steps rebuilt."""
    plan = file.with_suffix(".toml")
    assert sfumato("inspect", file, "--plan", plan, "-q").returncode == 0
    lines = plan.read_text().splitlines()
    for name, role in roles.items():
        row = next(place for place, line in enumerate(lines) if line.startswith(f"{name} = {{"))
        kept = re.sub(r'role = "\w+", ', "", lines[row])
        lines[row] = kept.replace("{ ", f'{{ role = "{role}", ', 1)
    plan.write_text("\n".join(lines) + "\n")
    updated = sfumato("inspect", file, "--update", plan)
    assert updated.returncode == 0, updated.stderr
    return plan


def protect(file: Path, plan: Path) -> Done:
    return sfumato("protect", file, "--plan", plan, "--out", file.parent / "release", width=300)


def read_lights(folder: Path) -> dict[str, str]:
    lights = json.loads((folder / "release/custody/custody.json").read_text())["lights"]
    return {name: light["colour"] for name, light in lights.items()}


def test_a_weight_that_stands_for_region_and_size_is_treated_or_stops_the_release(tmp_path):
    file = tmp_path / "silc.csv"
    frame = journey_data.silc(1500)
    frame.write_csv(file)
    plan = inspect_and_correct(file, {})
    assert 'method = "weights"' in plan.read_text()
    done = protect(file, plan)
    assert done.returncode == 0, done.stderr
    released = sf.read(tmp_path / "release/data.csv").frame
    # Whoever looks regions up by what was released beside them fails for nearly all.
    keys = ["survey_weight", "household_size"]
    guess = released.select(keys).with_columns(pl.col("survey_weight").cast(pl.String))
    assert guess.select("survey_weight").n_unique() < frame["survey_weight"].n_unique() / 2

    # Who calls the weight harmless is stopped, and told by what the region comes back.
    plan.write_text(plan.read_text().replace('role = "weight"', 'role = "other"'))
    assert sfumato("inspect", file, "--update", plan).returncode == 0
    refused = sfumato("protect", file, "--plan", plan, "--out", tmp_path / "second")
    assert refused.returncode == 3
    assert "'survey_weight'" in refused.stderr
    assert not (tmp_path / "second").exists()


def test_a_logarithm_left_as_it_is_stops_the_release_until_it_is_dropped(tmp_path):
    import pyreadstat

    file = tmp_path / "anes96.sav"
    pyreadstat.write_sav(
        journey_data.anes96().to_pandas(),
        file,
        column_labels={"age": "Age of respondent", "income": "Household income"},
        variable_value_labels={"vote": {0: "Clinton", 1: "Dole"}},
    )
    roles = {"popul": "quasi", "logpopul": "other", "vote": "sensitive"}
    roles |= dict.fromkeys(("TVnews", "selfLR", "ClinLR", "DoleLR", "PID"), "other")
    plan = inspect_and_correct(file, roles)
    refused = protect(file, plan)
    assert refused.returncode == 3
    assert "worked out 'popul' from 'logpopul'" in refused.stderr
    dropped = '\n[[steps]]\nmethod = "drop"\nvariables = ["logpopul"]\n'
    plan.write_text(plan.read_text() + dropped)
    done = protect(file, plan)
    assert done.returncode == 0, done.stderr
    released, labels = pyreadstat.read_sav(tmp_path / "release/data.sav")
    assert str(labels.column_names_to_labels["age"]).startswith("Age of respondent")
    # Coded incomes keep their codes and their picture.
    income = released["income"].to_numpy()
    original = journey_data.anes96()["income"].to_numpy()
    assert len(set(income)) > 12
    assert income.max() <= original.max()
    assert abs(income.mean() - original.mean()) < 0.5


def test_no_birth_date_is_printed_as_the_end_of_a_range(tmp_path):
    file = tmp_path / "jasa.csv"
    frame = journey_data.jasa(seed=5)
    frame.write_csv(file)
    roles = {"birth_dt": "quasi", "accept_dt": "quasi", "fu_date": "quasi", "age_days": "quasi",
             "fustat": "sensitive", "surgery": "sensitive", "transplant": "sensitive"}  # fmt: skip
    plan = inspect_and_correct(file, roles | {"futime": "sensitive"})
    # The time of follow-up is the difference of two dates that are known.
    refused = protect(file, plan)
    assert refused.returncode == 3
    assert "'futime' in the release" in refused.stderr
    frame.drop("futime").write_csv(file)
    plan.unlink()
    done = protect(file, inspect_and_correct(file, roles))
    assert done.returncode == 0, done.stderr
    cells = (tmp_path / "release/data.csv").read_text()
    ends = set(re.findall(r"\d{4}-\d{2}-\d{2}", cells))
    assert ends.isdisjoint(frame["birth_dt"].cast(pl.String).to_list())


def test_labels_of_a_stata_file_reach_the_release_and_its_codebook(tmp_path):
    import pyreadstat

    file = tmp_path / "birthwt.dta"
    pyreadstat.write_dta(
        journey_data.birthwt().to_pandas(),
        str(file),
        column_labels={"lwt": "Weight of the mother before pregnancy, pounds"},
        variable_value_labels={"smoke": {0: "no", 1: "yes"}},
    )
    roles = {"lwt": "quasi", "low": "sensitive", "ptl": "sensitive", "ht": "sensitive"}
    plan = inspect_and_correct(file, roles | {"bwt": "sensitive"})
    done = protect(file, plan)
    assert done.returncode == 0, done.stderr
    codebook = (tmp_path / "release/codebook.html").read_text()
    assert "Weight of the mother before pregnancy" in codebook
    _, labels = pyreadstat.read_dta(str(tmp_path / "release/data.dta"))
    assert labels.variable_value_labels["smoke"] == {0: "no", 1: "yes"}


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("pbcseq", {"id": "direct", "trt": "other", "day": "other", "ascites": "sensitive",
                    "bili": "sensitive", "albumin": "sensitive", "platelet": "sensitive",
                    "stage": "sensitive"}),
        ("cgd", {"id": "direct", "treat": "other", "inherit": "sensitive",
                 "status": "sensitive"}),
    ],
)  # fmt: skip
def test_rows_of_the_same_person_are_never_called_green(tmp_path, name, roles):
    file = tmp_path / f"{name}.csv"
    frame = getattr(journey_data, name)()
    frame.write_csv(file)
    undeclared = protect(file, inspect_and_correct(file, roles))
    assert undeclared.returncode == 2, "nobody has said whose the rows are"
    assert 'role = "person"' in undeclared.stderr
    assert "identity = false" in undeclared.stderr
    file.with_suffix(".toml").unlink()
    done = protect(file, inspect_and_correct(file, roles | {"id": "person"}))
    if done.returncode == 0:
        found = sf.evaluate(sf.read(file), tmp_path / "release", ["uniqueness"])["uniqueness"]
        assert found.details["persons"] == frame["id"].n_unique()
        assert found.details["k"] >= 5
    else:
        assert done.returncode == 3


def test_many_rows_of_numbers_are_noised_and_stay_numbers(tmp_path):
    file = tmp_path / "randhie.csv"
    frame = journey_data.randhie(5000)
    frame.write_csv(file)
    names = ("lncoins", "idp", "lpi", "fmde", "hlthg", "hlthf", "hlthp")
    roles = dict.fromkeys(names, "other") | dict.fromkeys(("mdvis", "physlm", "disea"), "sensitive")
    plan = inspect_and_correct(file, roles)
    assert 'method = "deterministic"' not in plan.read_text()
    # Its rows are visits: a person's income stands for the person, and gives the rest back.
    refused = protect(file, plan)
    assert refused.returncode == 3
    assert "gives away 'physlm' from 'lpi'" in refused.stderr
    plan.write_text(
        plan.read_text() + '\n[[steps]]\nmethod = "drop"\nvariables = ["lpi", "fmde"]\n'
    )
    # A limit that people have or have not is still to be seen under noise.
    again = protect(file, plan)
    assert again.returncode == 3
    assert re.search(r"noise on clumped values.*'physlm'", again.stderr)
    frame.drop("physlm", "lpi", "fmde").write_csv(file)
    plan.unlink()
    gone = ("physlm", "lpi", "fmde")
    left = {name: role for name, role in roles.items() if name not in gone}
    plan = inspect_and_correct(file, left)
    # Half of the people have the same number of diseases: that takes more noise.
    plan.write_text(plan.read_text().replace("disea = 0.2", "disea = 0.4"))
    done = protect(file, plan)
    assert done.returncode == 0, done.stderr
    released = sf.read(tmp_path / "release/data.csv").frame
    assert released["disea"].dtype.is_numeric()
    # As many digits as the original has, not fourteen.
    digits = released["disea"].cast(pl.String).str.split(".").list.last().str.len_chars()
    assert digits.max() <= 5
    # Nobody was looked for, since no variable is known to outsiders.
    assert read_lights(tmp_path)["attacks"] == "amber"


def test_every_column_of_a_census_file_gets_a_role(shared_data):
    frame = pl.read_csv(shared_data / "national2019.csv", n_rows=3000, infer_schema_length=3000)
    schema = sf.Schema.infer(frame)
    assert [name for name, column in schema.items() if column.role is None] == []


CENSUS = ["PUMA", "AGEP", "SEX", "RAC1P", "DENSITY", "EDU", "PINCP", "PINCP_DECILE", "POVPIP"]


@pytest.mark.parametrize(
    ("every", "names"),
    [(5, CENSUS), pytest.param(1, None, marks=pytest.mark.study, id="as found")],
)
def test_a_census_file_comes_through_without_a_correction(tmp_path, shared_data, every, names):
    # Densities follow from places and deciles from incomes: its first plan was once refused.
    file, plan = tmp_path / "national.csv", tmp_path / "plan.toml"
    frame = pl.read_csv(shared_data / "national2019.csv", n_rows=6000, infer_schema=False)
    frame.select(names or frame.columns).gather_every(every).write_csv(file)
    assert sfumato("inspect", file, "--plan", plan, "-q").returncode == 0
    assert "It follows from 'PUMA'. It is left out" in plan.read_text()
    done = protect(file, plan)
    assert done.returncode == 0, done.stderr
    assert "red" not in read_lights(tmp_path).values()
    assert "DENSITY" not in sf.read(tmp_path / "release/data.csv").columns


def test_a_corrected_role_reaches_the_steps(tmp_path):
    rng = np.random.default_rng(6)
    frame = sf.datasets.cohort(400).select("sex", "region", "household_size", "systolic")
    frame = frame.with_columns(site=pl.Series(rng.choice(["north", "south"], 400)))
    file = tmp_path / "cohort.csv"
    frame.write_csv(file)
    plan = inspect_and_correct(file, {"site": "quasi", "systolic": "quasi"})
    assert "variables = [" not in plan.read_text().split("[[steps]]")[-1]
    done = protect(file, plan)
    assert done.returncode == 0, done.stderr
    released = sf.read(tmp_path / "release/data.csv").frame
    counts = released.group_by(pl.all()).len()["len"]
    assert counts.min() >= 5
