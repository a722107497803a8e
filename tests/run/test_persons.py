"""Rows of one person: declared, denied or refused; kept through a release and its folder."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import DataError, MeasureError, PlanError, SchemaError
from sfumato.plan import Writing
from sfumato.run.composition import hold_composition, pair_release
from sfumato.storage.opening import open_release
from sfumato.storage.verifying import verify_release


def make_visits(seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(60), 1 + rng.poisson(2, 60))
    n = len(person)
    return pl.DataFrame(
        {
            "patient_id": [f"P{number:03d}" for number in person],
            "surname": rng.choice(["Ito", "Berg", "Diaz", "Khan"], 60)[person],
            "birth_year": rng.integers(1940, 2000, 60)[person],
            "sex": rng.choice(["f", "m"], 60)[person],
            "region": rng.choice(["n", "s"], n),
            "systolic": rng.integers(100, 160, n),
        }
    )


def declare(**roles: Any) -> sf.Schema:
    common: dict[str, Any] = {
        "patient_id": "direct",
        "surname": "direct",
        "birth_year": "quasi",
        "sex": "quasi",
        "region": "quasi",
        "systolic": "sensitive",
    }
    return sf.Schema({**common, **roles})


def make_plan(schema: sf.Schema, **rest: Any) -> sf.Plan:
    steps = [
        sf.methods.Drop(),
        sf.methods.Coarsen(variables=["birth_year"], intervals=2, edges="observed"),
    ]
    return sf.Plan(schema=schema, steps=steps, **rest)


def test_an_identifier_that_repeats_stops_the_release_with_both_remedies():
    with pytest.raises(SchemaError) as refused:
        sf.protect(sf.Dataset(make_visits()), make_plan(declare()), key=bytes(32))
    text = str(refused.value)
    assert "'patient_id'" in text
    assert 'role = "person"' in text
    assert "identity = false" in text
    assert "P0" not in text, "no cell of the data"


@pytest.mark.parametrize(
    "said",
    [
        {"patient_id": "person"},
        {
            "patient_id": sf.Column(role="direct", identity=False),
            "surname": sf.Column(role="direct", identity=False),
        },
    ],
)
def test_a_word_from_the_custodian_is_enough(said):
    release = sf.protect(sf.Dataset(make_visits()), make_plan(declare(**said)), key=bytes(32))
    assert release.dataset.units.declared == (said["patient_id"] == "person")


def test_names_that_different_people_share_stop_nothing():
    rng = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "person_id": np.arange(300),
            "surname": rng.choice(["Ito", "Berg", "Diaz", "Khan"], 300),
            "birth_year": rng.integers(1940, 2000, 300),
        }
    )
    schema: dict[str, Any] = {"surname": "direct", "birth_year": "quasi"}
    plan = sf.Plan(schema={"person_id": "direct", **schema}, steps=[sf.methods.Drop()])
    sf.protect(sf.Dataset(frame), plan, key=bytes(32))
    plan = sf.Plan(schema=schema, steps=[sf.methods.Drop()])
    sf.protect(sf.Dataset(frame.drop("person_id")), plan, key=bytes(32))


def test_names_whose_rows_agree_stop_the_release():
    rng = np.random.default_rng(4)
    person = np.repeat(np.arange(40), 3)
    frame = pl.DataFrame(
        {
            "surname": [f"Name {number}" for number in person],
            "birth_year": rng.integers(1940, 2000, 40)[person],
        }
    )
    plan = sf.Plan(schema={"surname": "direct", "birth_year": "quasi"}, steps=[sf.methods.Drop()])
    with pytest.raises(SchemaError, match="surname"):
        sf.protect(sf.Dataset(frame), plan, key=bytes(32))


def test_a_person_never_leaves_as_it_is():
    plan = sf.Plan(
        schema=declare(patient_id="person"), steps=[sf.methods.Drop(variables=["surname"])]
    )
    with pytest.raises(PlanError, match="patient_id"):
        sf.protect(sf.Dataset(make_visits()), plan, key=bytes(32))


def test_persons_are_counted_in_memory_only(tmp_path):
    make_visits().write_parquet(tmp_path / "visits.parquet")
    data = sf.scan(tmp_path / "visits.parquet")
    with pytest.raises(DataError, match="in memory only"):
        sf.protect(data, make_plan(declare(patient_id="person")), key=bytes(32))
    with pytest.raises(DataError, match="in memory only"):
        sf.assess(data.with_schema(declare(patient_id="person")), ["uniqueness"])
    with pytest.raises(SchemaError, match="patient_id"):
        sf.protect(data, make_plan(declare()), key=bytes(32))


def test_inspect_suggests_the_person():
    schema = sf.Schema.infer(make_visits())
    assert schema.person == "patient_id"
    assert "several rows" in schema["patient_id"].reason
    alone = make_visits().unique("patient_id", maintain_order=True)
    assert sf.Schema.infer(alone)["patient_id"].role == "direct"
    long = make_visits().rename({"patient_id": "id"})
    assert sf.Schema.infer(long).person == "id"
    mistyped = pl.concat([alone, alone[:1]])
    assert sf.Schema.infer(mistyped)["patient_id"].role == "direct"


def test_numbers_that_begin_anew_in_each_group_are_no_persons():
    pupils = pl.DataFrame(
        {
            "school": [f"s{number}" for number in np.repeat(np.arange(12), 30)],
            "student": np.tile(np.arange(30), 12),
            "score": np.random.default_rng(3).normal(size=360),
        }
    )
    schema = sf.Schema.infer(pupils)
    assert (schema["school"].role, schema["student"].role) == ("cluster", "direct")
    tests = pl.concat([pupils, pupils])
    assert sf.Schema.infer(tests).person == "student", "two rows of each pupil"


def test_dates_that_different_people_share_stop_nothing():
    days = np.random.default_rng(5).integers(0, 9_000, 400)
    frame = pl.DataFrame(
        {"born": pl.Series(np.datetime64("1970-01-01") + days), "sex": ["f", "m"] * 200}
    )
    assert frame["born"].is_duplicated().any()
    plan = sf.Plan(schema={"born": "direct", "sex": "quasi"}, steps=[sf.methods.Drop()])
    sf.protect(sf.Dataset(frame), plan, key=bytes(32))


def test_persons_stay_known_through_every_step():
    frame = make_visits()
    data = sf.Dataset(frame, declare(patient_id="person"))
    number = {name: index for index, name in enumerate(frame["patient_id"].unique().sort())}
    truth = [number[name] for name in frame["patient_id"]]

    def same(units, rows):
        pairs = set(zip(units.numbers.tolist(), [truth[row] for row in rows], strict=True))
        return len(pairs) == len({mine for mine, _ in pairs}) == len({them for _, them in pairs})

    everybody = range(len(frame))
    assert same(data.units, everybody)
    assert same(data.without(["patient_id"]).units, everybody)
    rows = np.array([5, 3, 70, 4])
    assert same(data.without(["patient_id"]).take(rows).units, rows)
    steps = [
        sf.methods.Pseudonymise(variables=["patient_id"]),
        sf.methods.Drop(),
        sf.methods.Suppress(variables=["birth_year", "sex"], k=3),
    ]
    plan = sf.Plan(schema=data.schema, steps=steps)
    released = sf.protect(data, plan, key=bytes(32)).dataset
    assert released.schema.person == "patient_id", "its pseudonyms still say whose a row is"
    assert "patient_id" not in released.schema.identifiers
    again = sf.Dataset(released.frame, released.schema)
    kept, by_pseudonym = (data.units.numbers.tolist() for data in (released, again))
    pairs = set(zip(kept, by_pseudonym, strict=True))
    assert len(pairs) == len(set(kept)) == len(set(by_pseudonym)) == 60


def test_numbers_of_persons_do_not_depend_on_the_order_of_rows():
    frame = make_visits()
    order = np.random.default_rng(2).permutation(len(frame))
    schema = declare(patient_id="person")
    mine, theirs = (sf.Dataset(these, schema) for these in (frame, frame[order]))
    assert mine.units.numbers[order].tolist() == theirs.units.numbers.tolist()
    assert mine.identity.total() == theirs.identity.total()


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_is_measured_again_by_persons(tmp_path, linked):
    data = sf.Dataset(make_visits())
    schema = declare(patient_id="person")
    first = [sf.methods.Pseudonymise(variables=["patient_id"])] if linked else []
    steps = [*first, sf.methods.Drop(), sf.methods.Drop(variables=["birth_year", "region"])]
    plan = sf.Plan(
        schema=schema,
        steps=steps,
        targets={"k.min": 5},
        release=Writing(accept_attacks="only sex is known"),
    )
    release = sf.protect(data, plan, key=bytes(32))
    folder = tmp_path / "release"
    release.write(folder)
    expected = release.evidence["uniqueness"].details
    assert expected["persons"] == 60
    for original in (None, data):
        checks = verify_release(folder, original)
        assert all(check.passed is not False for check in checks), checks
        k = next(check for check in checks if check.name == "k")
        assert k.passed
    found = sf.evaluate(data, folder, ["uniqueness"])["uniqueness"]
    assert found.details["k"] == expected["k"]
    assert found.details["persons"] == 60
    records = pl.read_parquet(folder / "custody/records.parquet")
    assert records["person"].n_unique() == 60
    public = json.loads((folder / "manifest.json").read_text())
    assert ("patient_id" in public["variables"]) == linked
    # What follows from whose the rows are is told only where the file itself tells it.
    assert ("uniqueness" in public["evidence"]) == linked
    assert ('"persons"' in (folder / "manifest.json").read_text()) == linked
    _, again = open_release(folder).judge(plan, None)
    assert again["uniqueness"].details["persons"] == 60


def test_trajectories_that_stand_alone_dim_the_light(tmp_path):
    data = sf.Dataset(make_visits())
    steps = [
        sf.methods.Pseudonymise(variables=["patient_id"]),
        sf.methods.Drop(),
        sf.methods.Drop(variables=["birth_year"]),
    ]
    plan = sf.Plan(
        schema=declare(patient_id="person"),
        steps=steps,
        targets={"k.min": 5},
        release=Writing(accept_attacks="a test"),
    )
    folder = tmp_path / "release"
    sf.protect(data, plan, key=bytes(32)).write(folder)
    lights = json.loads((folder / "custody/custody.json").read_text())["lights"]
    assert lights["targets"]["colour"] == "amber"
    assert any("one person's" in reason for reason in lights["targets"]["reasons"])


def test_rows_of_nobody_known_are_not_counted_as_persons():
    data = sf.Dataset(make_visits(), declare(patient_id="person"))
    plain = sf.Dataset(
        data.frame.drop("patient_id", "surname"), data.schema.without(["patient_id", "surname"])
    )
    measure = sf.risk.Uniqueness()
    with pytest.raises(MeasureError, match="which released rows are one person's"):
        measure.measure(data, plain)
    found = sf.evaluate(data, plain, [measure], paired=True)["uniqueness"]
    assert found.details["k"] == measure.measure(data).details["k"]
    assert found.details["persons"] == 60
    lost = sf.evaluate(data, plain, [measure])["uniqueness"]
    assert not lost.computed


def test_two_releases_together_are_measured_by_persons():
    data = sf.Dataset(make_visits())
    schema = declare(patient_id="person")
    link = sf.methods.Pseudonymise(variables=["patient_id"])
    first = sf.protect(
        data,
        sf.Plan(schema=schema, steps=[link, sf.methods.Drop(variables=["surname", "birth_year"])]),
        key=bytes(32),
    )
    plan = sf.Plan(
        schema=schema, steps=[link, sf.methods.Drop(variables=["surname", "birth_year", "region"])]
    )
    second = sf.protect(data, plan, key=bytes(32), earlier=[first])
    together = second.evidence["composition"]
    assert together.details["persons"] == 60
    known = make_visits().group_by("sex", "region").agg(pl.col("patient_id").n_unique())
    assert together.value == known["patient_id"].min()


def test_what_comes_back_is_measured_together_with_an_earlier_release():
    rows = {"patient": [f"p{n // 2}" for n in range(80)], "age": [30 + n // 4 for n in range(80)]}
    roles = sf.Schema({"patient": "person", "age": "quasi"})
    data = sf.Dataset(pl.DataFrame(rows), roles)
    steps = [sf.methods.Drop(), sf.methods.KAnonymity(k=5)]
    targets = {"k.min": 5, "recoverable.max": 0.2}
    plan = sf.Plan(schema=roles, steps=steps, targets=targets)
    first = sf.protect(data, plan, key=bytes(32))
    paired = pair_release(first.original, first)
    together = hold_composition(plan, first.original, first.dataset, [paired])
    held = {item.measure: item for item in together.verdict}
    assert held["recoverable"].met, held["recoverable"].reason
