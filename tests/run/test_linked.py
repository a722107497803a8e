"""Several tables through one plan: joined risk decides, keys join, who is removed is gone."""

from __future__ import annotations

import datetime as dt
import json
import shutil

import numpy as np
import polars as pl
import pytest
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import MethodError, PlanError, SchemaError, TargetError
from sfumato.plan import Writing
from sfumato.storage.verifying import verify_release

KEY = bytes(range(32))
KEYS = {"stays.patient": "patients.patient", "lab.stay": "stays.stay"}
PERSON = "patients.patient"
LESS = sf.risk.Uniqueness(row_counts=False)


def make_hospital(patients: int = 60, seed: int = 3) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    owner = np.concatenate([np.arange(patients), rng.integers(0, patients, patients)])
    stays = len(owner)
    of = np.concatenate([np.arange(stays), rng.integers(0, stays, stays)])
    day = dt.date(2020, 1, 6)
    return {
        "patients": pl.DataFrame(
            {
                "patient": [f"P{i:04d}" for i in range(patients)],
                "name": [f"Name{i:04d}" for i in range(patients)],
                "age": rng.integers(20, 80, patients),
                "sex": rng.choice(["f", "m"], patients),
                "born": [
                    day - dt.timedelta(days=int(d)) for d in rng.integers(7000, 29000, patients)
                ],
            }
        ),
        "stays": pl.DataFrame(
            {
                "stay": 5000 + np.arange(stays),
                "patient": [f"P{i:04d}" for i in owner],
                "ward": rng.choice(list("abc"), stays),
                "admitted": [day + dt.timedelta(days=int(d)) for d in rng.integers(0, 700, stays)],
            }
        ),
        "lab": pl.DataFrame(
            {
                "stay": 5000 + of,
                "test": rng.choice(["x", "y"], len(of)),
                "value": np.round(rng.normal(5, 1, len(of)), 2),
            }
        ),
    }


def make_plan(*, shared=(), targets=None, evaluate=(), stays=(), patients=(), **rest) -> sf.Plan:
    return sf.Plan(
        tables={
            "patients": sf.Plan(
                schema={"name": "direct", "age": "quasi", "sex": "quasi", "born": "other"},
                steps=[sf.methods.Drop(), *patients],
                targets=rest.pop("of_patients", {}),
            ),
            "stays": sf.Plan(
                schema={"ward": "quasi", "admitted": "other"},
                steps=stays,
                targets=rest.pop("of_stays", {}),
            ),
            "lab": sf.Plan(schema={"test": "quasi", "value": "sensitive"}),
        },
        keys=KEYS,
        person=PERSON,
        steps=shared,
        targets=targets or {},
        evaluate=evaluate,
        **rest,
    )


def protect(tables, plan, key=KEY):
    return sf.protect(tables, plan, key=key)


ALIKE = sf.methods.KAnonymity(k=5)


def test_single_tables_that_meet_k_do_not_meet_it_when_the_joined_view_does_not():
    """THE test: ten persons, alike in each table by itself, each alone when the two are joined."""
    people = pl.DataFrame({"id": range(10), "sex": ["f", "m"] * 5})
    visits = pl.DataFrame({"id": range(10), "ward": ["a", "b", "c", "d", "e"] * 2})
    tables = {
        "people": sf.Plan(schema={"sex": "quasi"}, targets={"k.min": 2}),
        "visits": sf.Plan(schema={"ward": "quasi"}, targets={"k.min": 2}),
    }
    for name, frame in (("people", people), ("visits", visits)):
        alone = sf.Dataset(frame, sf.Schema({"id": "person", **tables[name].schema}))
        assert sf.risk.Uniqueness().measure(alone).details["k"] >= 2
    plan = sf.Plan(tables=tables, keys={"visits.id": "people.id"}, person="people.id")
    with pytest.raises(TargetError) as missed:
        sf.protect({"people": people, "visits": visits}, plan, key=KEY)
    assert "joined view" in str(missed.value)
    judged = {item.measure: item for item in missed.value.verdict}
    assert judged["people.uniqueness"].met
    assert judged["visits.uniqueness"].met
    assert not judged["joined view.uniqueness"].met
    assert judged["joined view.uniqueness"].number == 1


def test_who_knows_everything_counts_and_not_only_who_knows_one_row():
    """Every row is shared by five persons, but no two persons have the same two rows."""
    people = pl.DataFrame({"id": range(6)})
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    visits = pl.DataFrame(
        {"id": [i for i in range(6) for _ in "ab"], "ward": [w for pair in pairs for w in pair]}
    )
    tables = {"people": sf.Plan(), "visits": sf.Plan(schema={"ward": "quasi"})}
    plan = sf.Plan(
        tables=tables, keys={"visits.id": "people.id"}, person="people.id", targets={"k.min": 3}
    )
    with pytest.raises(TargetError) as missed:
        sf.protect({"people": people, "visits": visits}, plan, key=KEY)
    found = missed.value.evidence["joined view.uniqueness"]
    assert found.details["k"] == 3
    assert found.details["k_of_trajectories"] == 1
    assert found.details["k_at_worst"] == 1


SEXES = {"id": range(12), "sex": ["f", "m"] * 6}
DIAGNOSES = {"id": [*range(12), *range(12)], "ward": ["a"] * 24,
             "ill": ["flu", "gout"] * 6 + ["angina", "gout"] * 6}  # fmt: skip


def make_clinic(**rest):
    """Each table keeps every secret; joined, all men have gout, and all women both others."""
    tables = {
        "people": sf.Plan(schema={"sex": "quasi"}),
        "visits": sf.Plan(
            schema={"ward": "quasi", "ill": "sensitive"}, targets=rest.pop("of_visits", {})
        ),
    }
    plan = sf.Plan(tables=tables, keys={"visits.id": "people.id"}, person="people.id", **rest)
    return {"people": pl.DataFrame(SEXES), "visits": pl.DataFrame(DIAGNOSES)}, plan


def test_a_value_in_another_table_is_learnt_where_all_who_look_alike_have_it():
    tables, plan = make_clinic(evaluate=[sf.risk.Diversity(), sf.risk.Closeness()])
    release = sf.protect(tables, plan, key=KEY)
    found = release.evidence
    learnt = found["attribute_disclosure"]
    assert learnt.value == 1
    assert learnt.details["disclosed_records"] == 12  # each woman has both among her visits
    assert learnt.details["worst_variable"] == "visits.ill"
    assert (found["diversity"].value, found["diversity"].at_worst) == (1, 1)
    assert found["closeness"].value == pytest.approx(2 / 3)  # of 18 values, 6 are gout
    assert release.lights.attacks.colour == "amber"
    assert any("somebody learns 'visits.ill'" in line for line in release.lights.attacks.reasons)


@pytest.mark.parametrize(
    ("where", "target", "number"),
    [
        ("targets", {"attribute_disclosure.max": 0}, 1),
        ("targets", {"l.min": 2}, 1),
        ("of_visits", {"t.max": 0.4}, 2 / 3),  # the table by itself meets it
    ],
)
def test_targets_on_what_is_learnt_hold_in_the_joined_view(where, target, number):
    tables, plan = make_clinic(**{where: target})
    with pytest.raises(TargetError) as missed:
        sf.protect(tables, plan, key=KEY)
    [item] = [judged for judged in missed.value.verdict if not judged.met]
    assert "joined view" in item.under
    assert item.number == pytest.approx(number)


@pytest.mark.parametrize(("known_rows", "disclosed"), [(1, 12), (None, 12)])
def test_parts_of_a_trajectory_tell_values_too(known_rows, disclosed):
    tables, plan = make_clinic(evaluate=[sf.risk.Uniqueness(known_rows=known_rows)])
    found = sf.protect(tables, plan, key=KEY).evidence["attribute_disclosure"]
    assert found.details["disclosed_records"] == disclosed


def test_a_statement_about_another_table_is_measured():
    stated = sf.risk.AttributeDisclosure(where='`visits.ill` == "flu"')
    tables, plan = make_clinic(evaluate=[stated])
    found = sf.protect(tables, plan, key=KEY).evidence["attribute_disclosure"]
    assert found.value == 1  # each of the women has it in one of her visits
    stated = sf.risk.AttributeDisclosure(where='`people.sex` == "f" and `visits.ill` == "flu"')
    tables, plan = make_clinic(evaluate=[stated, sf.risk.Uniqueness(known=["table"])])
    found = sf.protect(tables, plan, key=KEY).evidence["attribute_disclosure"]
    assert "Both known to the outsider and confidential" in found.reason


def test_what_one_table_gives_away_of_another_is_an_attack(tmp_path):
    """The exact year of birth is hidden in one table, and stands in the other as an age."""
    frames = make_hospital()
    age = frames["patients"].select("patient", "age")
    frames["stays"] = frames["stays"].join(age.rename({"age": "years"}), on="patient")
    ranges = sf.methods.Coarsen(variables=["age"], breaks=[0, 100])
    plan = make_plan(patients=[ranges])
    schema = plan.tables["stays"].schema.with_columns({"years": sf.Column(role="other")})
    age_of = {"age": sf.Column(role="quasi", kind="integer", domain=(0, 100))}
    tables = {
        **plan.tables,
        "patients": plan.tables["patients"].with_schema(
            plan.tables["patients"].schema.with_columns(age_of)
        ),
        "stays": plan.tables["stays"].with_schema(schema),
    }
    release = protect(frames, sf.Plan(tables=tables, keys=KEYS, person=PERSON))
    found = release.attacks["stays with what its keys lead to"]
    assert found.value > 0.9
    assert found.details["worst_variable"] == "patients.age"
    assert release.lights.attacks.colour == "red"
    with pytest.raises(TargetError, match=r"too often"):
        release.write(tmp_path / "release")
    assert not (tmp_path / "release").exists()


def test_k_over_all_tables_makes_persons_alike_in_all_of_them():
    release = protect(
        make_hospital(), make_plan(shared=[ALIKE], targets={"k.min": 5}, evaluate=[LESS])
    )
    assert release.verdict[0].met
    found = sf.assess(release.linked, [LESS])["uniqueness"]
    assert found.details["k_at_worst"] >= 5
    assert release.evidence["uniqueness"].baseline > 0.5
    assert release.tables["stays"].plan.steps[-1].name == "k_anonymity"


@drawn("library", LIBRARIES)
def test_keys_join_in_every_library_and_are_pseudonyms(library):
    frames = make_hospital(20)
    tables = {name: in_library(frame, library) for name, frame in frames.items()}
    release = protect(tables, make_plan(shared=[sf.methods.KAnonymity(k=3)]))
    data = {name: t.dataset.batch(t.dataset.columns) for name, t in release.tables.items()}
    assert type(release.data["lab"]) is type(tables["lab"])
    joined = (
        data["lab"]
        .join(data["stays"], on="stay", how="left")
        .join(data["patients"], on="patient", how="left")
    )
    assert joined["age"].null_count() == 0
    assert joined.height == data["lab"].height
    raw = {str(v) for name in ("patients", "stays") for v in frames[name].to_series(0)}
    assert not raw & {*data["patients"]["patient"], *data["stays"]["stay"], *data["lab"]["stay"]}
    plain = protect(frames, make_plan(shared=[sf.methods.KAnonymity(k=3)]))
    assert plain.data["patients"]["patient"].to_list() == data["patients"]["patient"].to_list()


def test_the_same_key_gives_the_same_release_in_any_order_of_rows_and_tables():
    plan = make_plan(shared=[sf.methods.ShiftDates(window=100), ALIKE])
    frames = make_hospital()
    first = protect(frames, plan)
    shuffled = {n: f.sample(fraction=1, shuffle=True, seed=1) for n, f in reversed(frames.items())}
    second = protect(shuffled, plan)
    for name in frames:
        columns = first.data[name].columns
        assert first.data[name].sort(columns).equals(second.data[name].sort(columns))


def test_dates_of_a_person_are_shifted_alike_in_all_tables():
    frames = make_hospital()
    release = protect(frames, make_plan(shared=[sf.methods.ShiftDates(window=364)]))
    before = frames["stays"].join(frames["patients"], on="patient")
    after = release.data["stays"].join(release.data["patients"], on="patient")
    apart = [(t["admitted"] - t["born"]).dt.total_days() for t in (before, after)]
    assert apart[0].to_list() == apart[1].to_list()
    moved = (after["admitted"] - before["admitted"]).dt.total_days()
    assert (moved != 0).all()
    assert moved.n_unique() > 20


def test_days_of_a_grandchild_without_the_person_are_shifted_alike_too():
    frames = make_hospital()
    days = frames["stays"].select("stay", sampled="admitted")
    frames["lab"] = frames["lab"].join(days, on="stay")
    plan = make_plan(shared=[sf.methods.ShiftDates(window=364)])
    schema = sf.Schema({"test": "quasi", "value": "other", "sampled": "other"})
    tables = {**plan.tables, "lab": sf.Plan(schema=schema)}
    plan = sf.Plan(tables=tables, keys=KEYS, person=PERSON, steps=plan.steps)
    data = protect(frames, plan).data
    both = data["lab"].join(data["stays"], on="stay")
    assert (both["sampled"] == both["admitted"]).all()
    assert data["lab"].columns == ["stay", "test", "value", "sampled"]


def test_a_removed_person_is_removed_everywhere_and_rows_never_lose_their_parents():
    frames = make_hospital()
    thin = sf.methods.ThinRows(most=1)
    release = protect(frames, make_plan(stays=[thin]))
    assert len(release.data["stays"]) == 60
    assert {*release.data["lab"]["stay"]} <= {*release.data["stays"]["stay"]}
    assert len(release.data["patients"]) == 60  # who has a stay left was not removed

    class Remove(sf.methods.Drop):  # type: ignore[misc]
        """Takes the first rows away."""

        def touches(self, schema):
            return ()

        def transform(self, data, fitted, *, engine, chance):
            return data.take(np.arange(7, len(data)))

    plan = make_plan(patients=[Remove()])
    release = protect(frames, plan)
    assert len(release.data["patients"]) == 53
    assert release.linked.person_count == 53
    gone = {f"P{i:04d}" for i in range(7)}
    expected = frames["stays"].filter(~pl.col("patient").is_in([*gone]))
    assert len(release.data["stays"]) == len(expected)
    plan = make_plan(stays=[Remove()])
    release = protect(frames, plan)
    first = frames["stays"]["patient"][:7].to_list()
    rest = {*frames["stays"]["patient"][7:]}
    lost = {patient for patient in first if patient not in rest}
    assert lost
    assert len(release.data["patients"]) == 60 - len(lost)


def test_persons_in_a_rare_combination_of_tables_are_left_out_and_counted():
    frames = make_hospital()
    extra = frames["patients"].head(1).with_columns(patient=pl.lit("P9999"))
    frames["patients"] = pl.concat([frames["patients"], extra])
    release = protect(frames, make_plan(shared=[ALIKE], targets={"k.min": 5}, evaluate=[LESS]))
    assert release.linked.person_count == 60
    assert "1 of 61 people" in release.tables["patients"].fitted[-1]["loss"]


def test_what_is_constant_within_a_person_stays_so_and_is_noised_once():
    frames = make_hospital()
    height = frames["patients"].select("patient", height="age")
    frames["stays"] = frames["stays"].join(height, on="patient")
    plan = make_plan(stays=[sf.methods.Noise(variables=["height"], variance_share=0.2)])
    tables = {
        **plan.tables,
        "stays": sf.Plan(
            schema={"ward": "quasi", "admitted": "other", "height": "sensitive"},
            steps=plan.tables["stays"].steps,
        ),
    }
    data = protect(frames, sf.Plan(tables=tables, keys=KEYS, person=PERSON)).data
    assert (data["stays"].group_by("patient").agg(pl.col("height").n_unique())["height"] == 1).all()


def test_the_tables_own_k_is_held_in_the_joined_view_if_the_plan_sets_none():
    plan = make_plan(of_patients={"k.min": 2}, of_stays={"k.min": 3})
    assert [(t.name, t.least) for t in plan.all_targets] == [("k", 3.0)]
    assert make_plan(targets={"k.min": 2}, of_stays={"k.min": 3}).all_targets[0].least == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shared": [sf.methods.Suppress()]}, "does not work over several tables"),
        ({"shared": [sf.methods.KAnonymity(strata=["patients.sex"])]}, "no strata"),
        ({"shared": [sf.methods.KAnonymity(clustering="mdav")]}, "mondrian"),
        ({"shared": [sf.methods.ShiftDates(origin="stays.admitted")]}, "one table only"),
        ({"shared": [sf.methods.KAnonymity(variables=["people.sex"])]}, "names the table 'people'"),
        ({"shared": [sf.methods.KAnonymity(variables=["stays.patient"])]}, "which is a key"),
        ({"stays": [sf.methods.Drop(variables=["patient"])]}, "which is a key"),
        ({"targets": {"linkage.max": 0.2}}, "not measured on the joined view"),
        ({"targets": {"delta.max": 2}}, "knows everything"),
        ({"evaluate": [sf.risk.AttributeDisclosure(groups={"a": ["sex"]})]}, "groups"),
        ({"targets": {"marketer.max": 0.1}}, "knows everything"),
        ({"evaluate": [sf.risk.Uniqueness(missing="wildcard")]}, "wildcard"),
    ],
)
def test_what_does_not_work_over_several_tables_is_refused_in_words(change, words):
    with pytest.raises(PlanError, match=words) as refused:
        make_plan(**change)
    assert refused.value.hint


def test_what_a_table_cannot_do_names_the_table():
    frames = make_hospital(20)
    with pytest.raises(SchemaError, match=r"Table 'lab'.*'extra'"):
        protect({**frames, "lab": frames["lab"].with_columns(extra=1)}, make_plan())
    with pytest.raises(MethodError, match=r"k = 50 of the 20 persons"):
        protect(frames, make_plan(shared=[sf.methods.KAnonymity(k=50)]))
    with pytest.raises(PlanError, match="'lab'"):
        protect({"patients": frames["patients"], "stays": frames["stays"]}, make_plan())
    plan = make_plan()
    tables = {**plan.tables, "stays": plan.tables["stays"].with_schema({"patient": "quasi"})}
    plan = sf.Plan(tables=tables, keys=KEYS, person=PERSON)
    with pytest.raises(SchemaError, match=r"'stays\.patient' is a key"):
        protect(frames, plan)
    with pytest.raises(PlanError, match="one for several tables a Dataset for each"):
        sf.protect(frames, sf.Plan())


def test_a_plan_reads_back_as_it_was_written():
    plan = make_plan(
        shared=[sf.methods.ShiftDates(window=364, variables=["stays.admitted"]), ALIKE],
        targets={"k.min": 5},
        evaluate=[LESS],
        of_patients={"k.min": 5},
        release=Writing(format="csv"),
        files={"lab": "laboratory values.csv"},
    )
    for comments in (False, True):
        assert sf.Plan.parse(plan.text(comments=comments)) == plan
    # What works with one table says so; it does not go on without roles.
    patients = sf.Dataset(make_hospital()["patients"])
    for one_table in (sf.tune, sf.sweep, sf.protect):
        with pytest.raises(PlanError, match="several tables"):
            one_table(patients, plan)


def write(release, folder, **options):
    return release.write(folder, **options)


@pytest.fixture
def written(tmp_path):
    frames = make_hospital()
    plan = make_plan(
        shared=[ALIKE], targets={"k.min": 5}, evaluate=[LESS], of_patients={"k.min": 5},
        release=Writing(format="csv"),
    )  # fmt: skip
    release = protect(frames, plan)
    return write(release, tmp_path / "release"), release, frames


def test_a_folder_holds_one_file_for_each_table_and_verifies(written):
    folder, _, frames = written
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "patients.csv", "stays.csv", "lab.csv", "manifest.json", "report.html", "codebook.html",
        "codebook.json", "custody",
    }  # fmt: skip
    originals = {name: sf.Dataset(frame) for name, frame in frames.items()}
    for original in (None, originals):
        checks = verify_release(folder, original)
        assert all(check.passed is not False for check in checks), checks
    assert any(check.name == "keys" and check.passed for check in checks)
    other = {**originals, "lab": sf.Dataset(frames["lab"].with_columns(pl.col("value") + 1))}
    assert [c.passed for c in verify_release(folder, other) if c.name == "original"] == [False]
    lost = {**originals, "patients": sf.Dataset(frames["patients"].head(3))}
    assert [c.passed for c in verify_release(folder, lost) if c.name == "original"] == [False]


def test_no_original_value_is_in_any_public_file(written):
    folder, _, frames = written
    public = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file()).decode()
    for column in ("patient", "name"):
        assert not any(value in public for value in frames["patients"][column])
    assert not any(f",{stay}," in public for stay in frames["stays"]["stay"])
    assert "5000" not in (folder / "manifest.json").read_text()


@pytest.mark.parametrize(
    "victim", ["stays.csv", "report.html", "manifest.json", "custody/plan.toml"]
)
def test_every_changed_file_is_found(written, victim):
    folder, _, _ = written
    path = folder / victim
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    assert any(check.passed is False for check in verify_release(folder))


def test_a_released_row_that_lost_its_parent_is_found(written):
    folder, _, _ = written
    from sfumato.storage.tables import verify_tables

    lines = (folder / "patients.csv").read_text().splitlines()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["tables"]["patients"]["records"] -= 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "patients.csv").write_text("\n".join(lines[:-1]) + "\n")
    keys = [check for check in verify_tables(folder) if check.name == "keys"]
    assert [check.passed for check in keys] == [False]


def test_tables_of_a_release_are_opened_by_their_names(written):
    folder, release, _ = written
    opened = sf.open_tables(folder)
    assert list(opened) == ["patients", "stays", "lab"]
    inside = (folder / "custody" / "report.html").read_text("utf-8")
    assert "No file was written yet" not in inside
    assert opened["stays"].data.sort("stay").equals(release.data["stays"].sort("stay"))
    with pytest.raises(sf.SfumatoError, match="release of several tables"):
        sf.evaluate(sf.Dataset(release.data["stays"]), folder)


def test_a_second_release_is_held_together_with_the_first(written, tmp_path):
    folder, first, frames = written
    second = {"shared": [sf.methods.KAnonymity(k=7)], "targets": {"k.min": 7}, "evaluate": [LESS]}
    coarser = protect(frames, make_plan(**second))
    with pytest.raises(TargetError, match=r"together with 'release'\): MISSED"):
        write(coarser, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    for earlier in (folder, first):
        with pytest.raises(TargetError, match="together with"):
            sf.protect(frames, make_plan(**second), key=KEY, earlier=[earlier])
    accepted = make_plan(**second, release=Writing(accept_composition="other readers"))
    write(protect(frames, accepted), tmp_path / "second")
    record = json.loads((tmp_path / "second/custody/custody.json").read_text())
    assert record["composition"]["accepted"] == "other readers"
    assert [target["met"] for target in record["composition"]["targets"]] == [False]
    assert record["evidence"]["composition"]["details"]["composed_k"] < 7
    assert any("Together with earlier" in line for line in record["lights"]["targets"]["reasons"])


def test_an_earlier_release_that_cannot_be_measured_is_refused_with_the_reason(written, tmp_path):
    folder, _, frames = written
    shutil.rmtree(folder)
    again = make_plan(shared=[sf.methods.KAnonymity(k=7)], evaluate=[LESS])
    with pytest.raises(sf.SfumatoError, match=r"cannot be measured: its folder is gone") as refused:
        write(protect(frames, again), tmp_path / "second")
    assert "accept_composition" in refused.value.hint


def test_an_earlier_release_of_the_persons_alone_counts(tmp_path):
    """One table by itself left before; with it, all are alone."""
    people = pl.DataFrame({"id": range(10), "sex": ["f", "m"] * 5, "age": [1, 2, 3, 4, 5] * 2})
    visits = pl.DataFrame({"id": [*range(10)] * 2, "ward": ["a"] * 20})
    before = sf.Plan(
        schema={"id": "person", "sex": "other", "age": "quasi"},
        steps=[sf.methods.Drop(), sf.methods.Drop(variables=["sex"])],
        release=Writing(accept_attacks="made up"),
    )
    sf.protect(sf.Dataset(people), before, key=KEY).write(tmp_path / "first")
    tables = {
        "people": sf.Plan(
            schema={"sex": "quasi", "age": "other"}, steps=[sf.methods.Drop(variables=["age"])]
        ),
        "visits": sf.Plan(schema={"ward": "quasi"}),
    }
    plan = sf.Plan(
        tables=tables, keys={"visits.id": "people.id"}, person="people.id", targets={"k.min": 5}
    )
    release = sf.protect({"people": people, "visits": visits}, plan, key=KEY)
    with pytest.raises(TargetError, match="together with 'first'.*it is 1"):
        release.write(tmp_path / "second")


def test_a_release_is_overwritten_only_under_its_key(written):
    folder, release, frames = written
    write(release, folder, overwrite=True)
    assert all(check.passed is not False for check in verify_release(folder))
    other = protect(frames, release.plan, key=bytes(32))
    with pytest.raises(sf.SfumatoError, match="another key"):
        write(other, folder, overwrite=True)


def test_nothing_is_left_behind_when_the_disk_fails(tmp_path, monkeypatch):
    release = protect(make_hospital(20), make_plan())

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sfumato.storage.writing.put_folder_in_place", fail)
    with pytest.raises(sf.SfumatoError, match="could not be written"):
        write(release, tmp_path / "release")
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


def test_names_cannot_put_anything_into_a_page(tmp_path):
    frames = make_hospital(20)
    odd = "<script>alert(1)</script>"
    frames["lab"] = frames["lab"].rename({"test": odd})
    plan = make_plan()
    tables = {**plan.tables, "lab": sf.Plan(schema={odd: "quasi", "value": "other"})}
    folder = write(
        protect(frames, sf.Plan(tables=tables, keys=KEYS, person=PERSON)), tmp_path / "r"
    )
    for page in ("report.html", "codebook.html", "custody/report.html"):
        assert "<script" not in (folder / page).read_text()
