"""Tables with keys: what is refused with a count, whose each row is, and what joins them."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import DataError, PlanError, SchemaError, SfumatoError
from sfumato.suggestion.key_search import suggest_keys, suggest_person

KEYS = {"stays.patient": "patients.id", "lab.stay": "stays.stay"}
PERSON = "patients.id"


def make_tables() -> dict[str, pl.DataFrame]:
    return {
        "patients": pl.DataFrame({"id": ["A7", "B8", "C9"], "sex": ["f", "m", "m"]}),
        "stays": pl.DataFrame({"stay": [10, 11, 12], "patient": ["a7", "A7 ", "C9"]}),
        "lab": pl.DataFrame({"stay": ["010", "12", "11", "10"], "test": list("xyxy")}),
    }


def link(tables=None, keys=KEYS, person=PERSON) -> sf.LinkedTables:
    return sf.LinkedTables(tables or make_tables(), keys=keys, person=person)


def test_rows_are_their_persons_whatever_the_spelling_of_keys():
    linked = link()
    whose = linked.persons["patients"]
    assert linked.persons["stays"].tolist() == whose[[0, 0, 2]].tolist()
    assert linked.persons["lab"].tolist() == whose[[0, 2, 0, 0]].tolist()
    assert linked["lab"].frame["stay"].to_list() == [10, 12, 11, 10]
    assert linked["stays"].frame["patient"].to_list() == ["A7", "A7", "C9"]


def test_persons_have_the_same_numbers_in_any_order_of_rows():
    tables = make_tables()
    tables["patients"] = tables["patients"].reverse()
    assert link(tables).persons["lab"].tolist() == link().persons["lab"].tolist()


@pytest.mark.parametrize(
    ("table", "frame", "words"),
    [
        (
            "stays",
            {"stay": [1], "patient": ["secret-99"]},
            ["1 of 1 rows", "'stays'", "'patients'"],
        ),
        ("stays", {"stay": [10, 11], "patient": ["A7", None]}, ["1 of 2 rows"]),
        ("patients", {"id": ["A7", "a7", "C9"], "sex": list("fmm")}, ["1 of 3 rows", "repeat"]),
        ("patients", {"id": ["A7", None, "C9"], "sex": list("fmm")}, ["missing in 1 of 3"]),
    ],
)
def test_orphans_and_duplicates_are_counted_and_never_shown(table, frame, words):
    with pytest.raises(DataError) as refused:
        link({**make_tables(), table: pl.DataFrame(frame)})
    text = str(refused.value)
    assert all(word in text for word in words), text
    assert refused.value.hint
    for value in ("secret-99", "A7", "a7", "C9"):
        assert value not in text


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({**KEYS, "patients.id": "lab.test"}, "circle"),
        ({"stays.patient": "patients.id"}, "No key leads from table 'lab'"),
        ({**KEYS, "lab.test": "doctors.id"}, "'doctors'"),
        ({**KEYS, "stays.stay": "stays.patient"}, "circle"),
        ({"stays": "patients.id"}, "names no variable of a table"),
    ],
)
def test_keys_that_lead_nowhere_or_in_circles_are_refused(keys, words):
    with pytest.raises(PlanError, match=words):
        link(keys=keys)


def test_a_key_that_is_not_in_the_data_is_named_with_a_hint():
    with pytest.raises(SchemaError, match=r"stays\.pation.*did you mean 'patient'"):
        link(keys={"stays.pation": "patients.id", "lab.stay": "stays.stay"})


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", ".", "", "x" * 65, "a\n", "<b>", "a.b"])
def test_a_name_that_cannot_name_a_file_is_refused(name):
    with pytest.raises(PlanError, match=r"name becomes that of a file|names no variable"):
        sf.LinkedTables(
            {"patients": make_tables()["patients"], name: pl.DataFrame({"p": ["A7"]})},
            keys={f"{name}.p": "patients.id"},
            person=PERSON,
        )


def test_an_empty_table_and_a_table_out_of_memory_are_refused():
    with pytest.raises(DataError, match="no record in table 'lab'"):
        link({**make_tables(), "lab": make_tables()["lab"].clear()})
    with pytest.raises(DataError, match="joined there only"):
        link({**make_tables(), "lab": make_tables()["lab"].lazy()})


def test_two_keys_that_lead_to_different_persons_are_counted():
    lab = pl.DataFrame({"stay": [10, 11, 12], "patient": ["A7", "C9", "C9"]})
    linked = link({**make_tables(), "lab": lab}, {**KEYS, "lab.patient": "patients.id"})
    with pytest.raises(DataError, match=r"1 of 3 rows of table 'lab' to different persons"):
        _ = linked.persons


def test_a_bridge_joins_what_many_persons_share():
    tables = {
        "patients": sf.Dataset(make_tables()["patients"], sf.Schema({"sex": "quasi"})),
        "treats": pl.DataFrame({"patient": ["A7", "A7", "C9"], "doctor": [1, 2, 1]}),
        "doctors": sf.Dataset(
            pl.DataFrame({"doctor": [1, 2], "ward": ["a", "b"]}),
            sf.Schema({"ward": "quasi"}),
        ),
    }
    keys = {"treats.patient": "patients.id", "treats.doctor": "doctors.doctor"}
    linked = link(tables, keys)
    assert linked.structure.shared == ("doctors",)
    view = linked.join()
    # As many rows as in the tables of persons: a product would have more.
    assert len(view) == 3 + 3
    rows = view.frame.filter(pl.col("table") == "treats")
    assert rows["doctors.ward"].to_list() == ["a", "b", "a"]
    assert rows["patients.sex"].to_list() == ["f", "f", "m"]


def test_a_table_that_hangs_on_a_shared_one_is_refused():
    tables = {
        "patients": pl.DataFrame({"id": [1, 2], "household": [7, 7]}),
        "households": pl.DataFrame({"household": [7]}),
        "cars": pl.DataFrame({"household": [7]}),
    }
    keys = {"patients.household": "households.household", "cars.household": "households.household"}
    with pytest.raises(PlanError, match="'cars'"):
        link(tables, keys)


def test_the_view_tells_two_keys_to_one_table_apart():
    tables = {
        "patients": pl.DataFrame({"id": [1, 2]}),
        "visits": pl.DataFrame({"id": [1, 2], "sees": [1, 2], "signs": [2, 2]}),
        "doctors": sf.Dataset(
            pl.DataFrame({"no": [1, 2], "age": [40, 50]}), sf.Schema({"age": "quasi"})
        ),
    }
    keys = {
        "visits.id": "patients.id",
        "visits.sees": "doctors.no",
        "visits.signs": "doctors.no",
    }
    view = link(tables, keys, "patients.id").join().frame.filter(pl.col("table") == "visits")
    assert view["doctors.age"].to_list() == [40, 50]
    assert view["doctors.age by visits.signs"].to_list() == [50, 50]


def test_keys_are_suggested_by_name_and_by_values():
    tables = {name: sf.Dataset(frame) for name, frame in make_tables().items()}
    found = suggest_keys(tables)
    assert [(str(s.key), s.key.target) for s in found] == [
        ("lab.stay", "stays.stay"),
        ("stays.patient", "patients.id"),
    ]
    assert suggest_person(tables, found) == "patients.id"


def test_numbers_that_happen_to_agree_are_no_key():
    tables = {
        "patients": sf.Dataset(pl.DataFrame({"id": range(1, 50), "children": [1] * 49})),
        "wards": sf.Dataset(pl.DataFrame({"id": range(1, 30), "beds": range(1, 30)})),
    }
    assert suggest_keys(tables) == []


def test_orphans_are_suggested_with_their_number():
    tables = {
        "patients": sf.Dataset(pl.DataFrame({"patient": [1, 2, 3]})),
        "visits": sf.Dataset(pl.DataFrame({"patient": [1, 1, 2, 9]})),
    }
    (suggestion,) = suggest_keys(tables)
    assert suggestion.orphans == 1
    assert "1 of 4 rows lead nowhere" in suggestion.reason


def test_tables_are_read_from_a_folder_and_missing_ones_named(tmp_path):
    for name, frame in make_tables().items():
        frame.write_csv(tmp_path / f"{name}.csv")
    (tmp_path / "readme.pdf").write_bytes(b"%PDF")
    assert list(sf.read_tables(tmp_path)) == ["lab", "patients", "stays"]
    with pytest.raises(SfumatoError, match=r"no table 'visits'"):
        sf.read_tables(tmp_path, tables=["visits"])
    with pytest.raises(SfumatoError, match=r"no file 'x\.csv'"):
        sf.read_tables(tmp_path, tables=["visits"], files={"visits": "x.csv"})
    (tmp_path / "lab.parquet").write_bytes(b"")
    with pytest.raises(SfumatoError, match="two files"):
        sf.read_tables(tmp_path)


def test_tables_are_read_from_duckdb(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE patients AS SELECT * FROM (VALUES ('A7', 'f')) t(id, sex)")
        connection.execute("CREATE SCHEMA other")
        connection.execute("CREATE TABLE other.visits AS SELECT 'A7' AS id")
    assert list(sf.read_tables(path)) == ["patients"]
    assert list(sf.read_tables(path, schema="other")) == ["visits"]
    with pytest.raises(DataError, match="no table in this database"):
        sf.read_tables(path, schema="none")
