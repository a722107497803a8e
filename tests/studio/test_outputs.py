"""Outputs: every kind has a form, the rules judge, and only what was approved leaves."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from tests.studio.test_release import begin, get_work, press, wait_for

import sfumato as sf
from sfumato.errors import PlanError
from sfumato.outputs.log import Log
from sfumato.outputs.rules import Rules
from sfumato.studio.output_decisions import decide, list_outputs, zip_approved
from sfumato.studio.output_forms import get_kind, list_kinds, list_output_fields, read_output_form
from sfumato.studio.security import User
from sfumato.studio.source import DataSource
from sfumato.studio.tasks.outputs import make_output
from sfumato.studio.texts import say

YOU = User("you", "custodian")
PLAN = """
[columns]
name = "direct"
sex = "quasi"
systolic = "sensitive"
height = "quasi"
"""


@pytest.fixture
def session(tmp_path: Path):
    file = tmp_path / "cohort.csv"
    sf.datasets.cohort(500).select("name", "sex", "systolic", "height").write_csv(file)
    return begin(tmp_path / "sessions", DataSource(where=str(file), title="cohort.csv"), PLAN)


def make(session, kind, **settings):
    return make_output(get_work(session), kind=kind, of="", table="", settings=settings)


def test_every_figure_and_table_has_a_form():
    for kind in list_kinds().values():
        fields = {item.name: item for item in list_output_fields(kind, ["age", "sex"])}
        assert {item.kind for item in fields.values()} <= {
            "switch", "choice", "number", "names", "text",
        }  # fmt: skip
        assert not {"data", "rules", "log", "key"} & set(fields)
        labels = {item.label for item in fields.values()}
        assert len(labels) == len(fields), kind.name
        assert all(len(label) <= 60 and label[0] not in '"`' for label in labels), kind.name
        assert say(f"outputs.kinds.{kind.name}")
    assert list_output_fields(get_kind("box"), ["age"])[0].kind == "names"
    with pytest.raises(PlanError, match="needs 'The variable on the vertical axis'"):
        read_output_form(get_kind("scatter"), {"x": ["age"]})
    with pytest.raises(PlanError, match="takes numbers"):
        read_output_form(get_kind("histogram"), {"x": ["age"], "edges": ["a,b"]})


def test_only_what_was_approved_is_in_the_zip(session):
    assert make(session, "histogram", x="systolic")["number"] == 1
    assert make(session, "crosstab", rows=["sex"])["number"] == 2
    assert make(session, "residuals", model="systolic ~ height")["number"] == 3
    assert "may not leave" in make(session, "crosstab", rows=["sex"], values="systolic",
                                   aggregate=["max"])["refused"]  # fmt: skip
    outputs = list_outputs(session)
    assert [item["verdict"] == "refuse" for item in outputs] == [False, False, False, True]
    assert outputs[0]["caption"]
    assert outputs[1]["head"][0] == "sex"
    assert zipfile.ZipFile(io.BytesIO(zip_approved(session))).namelist() == []
    decide(session, YOU, 1, "approve", reason="fine", alone=True)
    decide(session, YOU, 2, "approve", reason="fine", alone=True)
    decide(session, YOU, 2, "reject", reason="too fine", alone=True)
    with pytest.raises(PlanError, match="no such output"):
        decide(session, YOU, 4, "approve", reason="please", alone=True)
    with pytest.raises(PlanError, match="Say why"):
        decide(session, YOU, 3, "reject", reason="", alone=True)
    packed = zip_approved(session)
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert names == ["00001-histogram.csv", "00001-histogram.svg"]
    assert packed == zip_approved(session)
    # What was changed after it was approved does not leave.
    (session.folder / "outputs" / "files" / names[0]).write_text("1,2,3")
    assert zipfile.ZipFile(io.BytesIO(zip_approved(session))).namelist() == names[1:]


def test_nobody_checks_their_own_outputs_behind_a_proxy(session):
    make(session, "crosstab", rows=["sex"])
    with pytest.raises(PlanError, match="their own outputs"):
        decide(session, YOU, 1, "approve", reason="fine", alone=False)
    decide(session, User("bob", "checker"), 1, "approve", reason="fine", alone=False)
    assert list_outputs(session)[0]["decided"].by == "bob"


def test_linked_tables_keep_the_house_rules_of_their_profile(tmp_path):
    (tmp_path / "tables").mkdir()
    people = sf.datasets.cohort(300).select("sex", "region").with_row_index("person")
    people.write_csv(tmp_path / "tables" / "people.csv")
    people.select("person", again="sex").write_csv(tmp_path / "tables" / "visits.csv")
    plan = """
profile = "opensafely"
person = "people.person"
[keys]
"visits.person" = "people.person"
[tables.people.columns]
sex = "quasi"
region = "quasi"
[tables.visits.columns]
again = "quasi"
"""
    source = DataSource(where=str(tmp_path / "tables"), title="tables", linked=True)
    session = begin(tmp_path / "sessions", source, plan)
    make_output(get_work(session), kind="crosstab", of="", table="people",
                settings={"rows": ["sex"]})  # fmt: skip
    kept = Log(session.folder / "outputs").rules
    assert kept == Rules.from_profile("opensafely")
    assert kept != Rules()


def test_a_figure_is_made_and_approved_in_a_browser(tab, studio):
    file = studio.root / "outputs.csv"
    sf.datasets.cohort(500).select("name", "sex", "systolic", "height").write_csv(file)
    own = begin(studio.folder, DataSource(where=str(file), title="outputs.csv"), PLAN)
    path = f"/sessions/{own.id}/outputs"
    tab.goto(f"http://{studio.host}{studio.prefix}{path}?kind=histogram")
    tab.get_by_label("The variable * x", exact=True).wait_for()
    tab.get_by_label("The variable * x", exact=True).select_option("systolic")
    press(tab, "Make it")
    tab.get_by_role("img", name="Figure: Histogram of systolic").wait_for()
    shown = tab.locator("figure img").evaluate("image => image.decode().then(() => image.width)")
    assert shown > 100
    tab.get_by_label("Reason").fill("nobody is alone in a bar")
    press(tab, "Approve")
    tab.get_by_text("Download the approved ones (1)").wait_for()
    packed = studio.get(f"{path}/approved").body
    assert len(zipfile.ZipFile(io.BytesIO(packed)).namelist()) == 2
    assert "sandbox" in studio.get(f"{path}/log").headers["content-security-policy"]
    wait_for(studio, path, "nobody is alone in a bar")
