"""Promise: several releases of the same records.

"Two releases under one key have nothing in common in their order of rows. Before a release is
written, Sfumato looks up earlier releases of the same records, under any key, in the ledger and
beside the new folder. It measures what all of them disclose together and holds that against the
targets. What cannot be measured is never called safe."

The attackers here read the released files with polars and count in Python. They use nothing of
Sfumato's measures.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import TargetError
from sfumato.plan import Writing

KEY = sf.Key(bytes(range(32)))
OTHER_KEY = sf.Key(bytes(range(1, 33)))
KNOWN = ("age", "income")
SCHEMA = {
    "id": sf.Column(role="direct"),
    "age": sf.Column(role="quasi", kind="integer"),
    "income": sf.Column(role="quasi", kind="integer"),
    "ill": sf.Column(role="sensitive", kind="nominal"),
}


def people(records: int = 300, seed: int = 5) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": [f"P{number:05d}" for number in draw.permutation(90_000)[:records]],
            "age": draw.integers(18, 90, records),
            "income": draw.integers(10, 200, records) * 100,
            "ill": draw.choice(["a", "b", "c", "d", "e"], records),
        }
    )


def plan(k: int, *, pseudonyms: bool = False, **options: Any) -> sf.Plan:
    who = sf.methods.Pseudonymise(variables=["id"]) if pseudonyms else sf.methods.Drop()
    options.setdefault("targets", {"k.min": 5})
    writing = Writing(format="csv", **options.pop("release", {}))
    # Cut otherwise, so that no class of one lies within a class of the other.
    clustering = "mdav" if k == 7 else "mondrian"
    steps = [who, sf.methods.KAnonymity(variables=list(KNOWN), k=k, clustering=clustering)]
    return sf.Plan(schema=SCHEMA, steps=steps, release=writing, **options)


def protect(frame: pl.DataFrame, how: sf.Plan, key: sf.Key = KEY) -> sf.Release:
    return sf.protect(sf.Dataset(frame), how, key=key)


def read(folder) -> pl.DataFrame:
    return pl.read_csv(folder / "data.csv", infer_schema=False)


def smallest_class(rows) -> int:
    return min(Counter(rows).values())


ACCEPT: dict[str, Any] = {"release": {"accept_composition": "the test wants both on the disk"}}


# One key, two plans: rows do not join ------------------------------------------------------------


def join_by_row_number(first: pl.DataFrame, second: pl.DataFrame) -> float:
    """The share of rows that show the same illness: 1 where the join is the joint table."""
    return float((first["ill"] == second["ill"]).to_numpy().mean())


def test_two_releases_under_one_key_do_not_join_by_row_number(tmp_path, monkeypatch):
    frame = people()
    first = protect(frame, plan(5)).write(tmp_path / "first")
    second = protect(frame, plan(7, **ACCEPT)).write(tmp_path / "second")
    tables = read(first), read(second)
    assert [smallest_class(table.select(KNOWN).rows()) >= 5 for table in tables] == [True, True]
    by_chance = sum(share**2 for share in frame["ill"].value_counts(normalize=True)["proportion"])
    assert join_by_row_number(*tables) == pytest.approx(by_chance, abs=0.1)

    # The attack works where the order depends on the key alone, as it did before.
    monkeypatch.setattr(sf.Release, "arrangement", "the key alone")
    first = protect(frame, plan(5)).write(tmp_path / "old" / "1", ledger=False)
    second = protect(frame, plan(7, **ACCEPT)).write(tmp_path / "old" / "2", ledger=False)
    tables = read(first), read(second)
    assert join_by_row_number(*tables) == 1
    rows = zip(tables[0].select(KNOWN).rows(), tables[1].select(KNOWN).rows(), strict=True)
    assert smallest_class(rows) == 1


@pytest.mark.parametrize("change", ["a record more", "a value corrected"])
def test_one_plan_for_changed_data_gives_another_order(tmp_path, change):
    """Inserted rows would not hide it: the common persons must not stand in one order."""
    frame = people().with_columns(mark=pl.int_range(300).shuffle(seed=1))
    schema = {**SCHEMA, "mark": sf.Column(role="other", kind="integer")}
    how = sf.Plan(schema=schema, steps=[sf.methods.Drop()], release=Writing(format="csv"))
    if change == "a record more":
        later = pl.concat([frame, people(1, seed=9).with_columns(mark=pl.lit(1000).cast(pl.Int64))])
    else:
        later = frame.with_columns(
            age=pl.when(pl.col("mark") == 3).then(30).otherwise(pl.col("age"))
        )
    orders = []
    for number, data in enumerate((frame, later)):
        folder = protect(data, how).write(tmp_path / str(number))
        marks = read(folder)["mark"].cast(pl.Int64)
        orders.append(np.argsort(marks.filter(marks < 1000).to_numpy()))
    assert abs(np.asarray(np.corrcoef(orders))[0, 1]) < 0.25


# What the releases leave together is measured, and held against the targets ----------------------


def join_by_pseudonym(folders) -> list[Any]:
    """The joint table, made of nothing but the released files."""
    cells: dict[str, dict[int, Any]] = defaultdict(dict)
    for number, folder in enumerate(folders):
        for row in read(folder).iter_rows(named=True):
            cells[row["id"]][number] = (row["age"], row["income"])
    return [tuple(shown.get(n) for n in range(len(folders))) for shown in cells.values()]


def test_the_composed_k_is_that_of_the_table_an_attacker_joins(tmp_path):
    frame = people()
    first = protect(frame, plan(5, pseudonyms=True)).write(tmp_path / "first")
    with pytest.raises(TargetError, match=r"k at least 5 \(together with 'first'\): MISSED"):
        protect(frame, plan(7, pseudonyms=True)).write(tmp_path / "second")
    assert not (tmp_path / "second").exists()
    second = protect(frame, plan(7, pseudonyms=True, **ACCEPT)).write(tmp_path / "second")
    joint = join_by_pseudonym([first, second])
    record = json.loads((second / "custody" / "custody.json").read_text())
    composition = record["evidence"]["composition"]["details"]
    assert composition["composed_k"] == smallest_class(joint) < 5
    assert composition["composed_unique_records"] == sum(
        count for count in Counter(joint).values() if count == 1
    )
    assert composition["matched_rows"] == 1
    assert "id" in composition["matched_by"]
    assert record["composition"]["accepted"] == ACCEPT["release"]["accept_composition"]
    assert not record["composition"]["targets"][0]["met"]


def test_sensitive_values_that_both_classes_share_are_counted(tmp_path):
    """Ganta et al.: without any join, the values of one class and of the other are intersected."""
    frame = people(200)
    folders = []
    for k in (5, 7):
        how = plan(k, pseudonyms=True, targets={}, release={})
        folders.append(protect(frame, how).write(tmp_path / str(k)))
    left = defaultdict(list)
    for folder in folders:
        table = read(folder)
        values = defaultdict(set)
        for age, income, ill in table.select(*KNOWN, "ill").iter_rows():
            values[age, income].add(ill)
        for who, age, income in table.select("id", *KNOWN).iter_rows():
            left[who].append(values[age, income])
    fewest = min(len(first & second) for first, second in left.values())
    record = json.loads((folders[1] / "custody" / "custody.json").read_text())
    assert record["evidence"]["composition"]["details"]["l_by_intersection"] == fewest


@pytest.mark.parametrize(
    ("measure", "target"),
    [
        (sf.risk.Uniqueness(known=["age"]), "k"),
        (sf.risk.Diversity(known=["age"], confidential=["ill"]), "l"),
    ],
)
def test_a_target_with_named_variables_is_held_against_all_releases(tmp_path, measure, target):
    """The columns of the earlier release count as well; the original does not have them."""
    frame = people()
    first = protect(frame, plan(5, pseudonyms=True)).write(tmp_path / "first")
    how: dict[str, Any] = {
        "evaluate": {"x": measure},
        "targets": {f"x.{target}.min": 3},
        "pseudonyms": True,
    }
    with pytest.raises(TargetError, match="together with 'first'") as missed:
        protect(frame, plan(7, **how)).write(tmp_path / "second")
    second = protect(frame, plan(7, **how, **ACCEPT)).write(tmp_path / "second")
    values = defaultdict(set)
    tables = [
        {row["id"]: row for row in read(folder).iter_rows(named=True)} for folder in (first, second)
    ]
    ages = {who: (tables[0][who]["age"], tables[1][who]["age"]) for who in tables[0]}
    for who, cells in ages.items():
        values[cells].add(tables[0][who]["ill"])
    fewest = min(map(len, values.values())) if target == "l" else smallest_class(ages.values())
    assert missed.value.verdict[0].number == fewest


def test_noise_after_exact_values_moves_nobody(tmp_path):
    """`stayed` is a number about persons, although its measure is one of utility."""
    frame = people()
    exact = sf.Plan(schema=SCHEMA, steps=[sf.methods.Drop()], release=Writing(format="csv"))
    protect(frame, exact).write(tmp_path / "first")
    noise = sf.methods.Noise(variables=list(KNOWN), variance_share=0.3)
    noised = sf.Plan(
        schema=SCHEMA,
        steps=[sf.methods.Drop(), noise],
        targets={"stayed.max": 0.2, "displacement.max": 0.5},
        release=Writing(format="csv"),
    )
    release = protect(frame, noised)
    assert all(item.met for item in release.verdict)
    with pytest.raises(
        TargetError, match="stayed at most 0.2 .together with 'first'.: MISSED"
    ) as no:
        release.write(tmp_path / "second")
    assert "displacement" not in str(no.value)


@pytest.mark.parametrize("where", ["elsewhere", "under another key", "fewer", "other variables"])
def test_whatever_the_key_the_folder_and_the_export_the_earlier_release_is_known(tmp_path, where):
    frame = people()
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    protect(frame, plan(5)).write(tmp_path / "here" / "first")
    again, key = frame, KEY
    if where == "under another key":
        key = OTHER_KEY
    if where == "fewer":
        again = frame.sample(280, seed=2)
    if where == "other variables":
        again = frame.with_columns(extra=pl.lit("x"))
    how = plan(7)
    if where == "other variables":
        schema = {**SCHEMA, "extra": sf.Column(role="other")}
        how = how.with_schema(schema)
    release = protect(again, how, key)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(TargetError, match="together with 'first'"):
            release.write(tmp_path / "there" / "second")
    warned = any("under another key, in 'first'" in str(line.message) for line in said)
    assert warned == (where == "under another key")


def test_new_identifiers_and_a_converted_number_do_not_make_other_people(tmp_path):
    """400 people in another export: nothing but their dates of birth is as it was."""
    draw = np.random.default_rng(3)
    frame = people(400).with_columns(
        born=pl.Series(np.datetime64("1950-01-01") + draw.integers(0, 14_000, 400)),
        paid=pl.Series(draw.lognormal(10, 0.5, 400).round(2)),
    )
    schema = {**SCHEMA, "born": sf.Column(role="direct"), "paid": sf.Column(role="direct")}
    (tmp_path / "here").mkdir()
    protect(frame, plan(5).with_schema(schema)).write(tmp_path / "here" / "first")
    again = frame.with_columns(id=people(400, seed=8)["id"], paid=pl.col("paid") * 1.08)
    release = protect(again, plan(7).with_schema(schema), OTHER_KEY)
    with (
        pytest.warns(UserWarning, match="under another key"),
        pytest.raises(TargetError, match="together with 'first'"),
    ):
        release.write(tmp_path / "there" / "second")
    # Next year's people are others, though some have a number that somebody had.
    other = people(400, seed=21).with_columns(
        born=pl.Series(np.datetime64("1950-01-01") + draw.integers(0, 14_000, 400)),
        paid=pl.Series(draw.lognormal(10, 0.5, 400).round(2)),
    )
    protect(other, plan(7).with_schema(schema), OTHER_KEY).write(tmp_path / "there" / "third")


def test_n_and_n_minus_1_do_not_pass_unseen(tmp_path):
    """Somebody who has both knows who was added, and sees what was added."""
    frame = people()
    how = plan(5, targets={"k.min": 2})
    protect(frame[:-1], how).write(tmp_path / "before")
    with pytest.raises(TargetError, match="together with 'before'"):
        protect(frame, how).write(tmp_path / "after")


def test_what_cannot_be_measured_is_not_safe(tmp_path):
    frame = people()
    first = protect(frame, plan(5)).write(tmp_path / "first")
    shutil.rmtree(first)
    with pytest.raises(TargetError, match="its folder is gone or was changed") as caught:
        protect(frame, plan(7)).write(tmp_path / "second")
    assert not caught.value.verdict[0].met
    # A changed release is no measure of what is out.
    first = protect(frame, plan(5)).write(tmp_path / "first")
    (first / "manifest.json").write_bytes((first / "manifest.json").read_bytes() + b" ")
    with pytest.raises(TargetError, match="gone or was changed"):
        protect(frame, plan(7)).write(tmp_path / "second")


def test_the_same_release_again_is_no_composition(tmp_path):
    """Nothing is added by what everybody has; not even the first folder is needed."""
    frame = people()
    first = protect(frame, plan(5)).write(tmp_path / "first")
    bytes_of_first = (first / "data.csv").read_bytes()
    shutil.rmtree(first)
    again = protect(frame, plan(5)).write(tmp_path / "again")
    assert (again / "data.csv").read_bytes() == bytes_of_first


# Noise -------------------------------------------------------------------------------------------


def noisy(share: float) -> sf.Plan:
    steps = [
        sf.methods.Pseudonymise(variables=["id"]),
        sf.methods.Noise(variables=["income"], variance_share=share, whole=False),
    ]
    schema = {**SCHEMA, "income": sf.Column(role="sensitive", kind="continuous")}
    return sf.Plan(schema=schema, steps=steps, release=Writing(format="csv"))


@pytest.mark.filterwarnings("ignore:The same data were released before")
def test_noise_that_can_be_averaged_is_counted(tmp_path):
    """Two keys: the mean of both halves the variance; an attacker's own error says so."""
    frame = people(2000)
    truth = dict(frame.select("id", "income").iter_rows())
    errors = []
    folders = []
    for number, key in enumerate((KEY, OTHER_KEY)):
        # One pseudonym for both: the attacker joins the rows by it.
        release = protect(
            frame.with_columns(income=pl.col("income").cast(pl.Float64)), noisy(0.2), key
        )
        order = [truth[who] for who in release.original.frame["id"]]
        errors.append(release.data["income"].to_numpy() - np.array(order))
        folders.append(release.write(tmp_path / str(number)))
    attacker = float(np.mean(((errors[0] + errors[1]) / 2) ** 2) / np.mean(errors[0] ** 2))
    record = json.loads((folders[1] / "custody" / "custody.json").read_text())
    details = record["evidence"]["composition"]["details"]
    assert details["noise_left"] == pytest.approx(attacker, abs=0.05)
    assert details["noise_left"] < 0.6


def test_the_ledger_changes_no_byte_of_a_release(tmp_path):
    frame = people()
    with_earlier: list[bytes] = []
    without: list[bytes] = []
    protect(frame, plan(5)).write(tmp_path / "a" / "first", ledger=tmp_path / "ledger")
    for place, ledger in (("a", tmp_path / "ledger"), ("b", tmp_path / "empty")):
        folder = protect(frame, plan(7, **ACCEPT)).write(tmp_path / place / "x", ledger=ledger)
        found = with_earlier if place == "a" else without
        found += [(folder / name).read_bytes() for name in ("data.csv", "manifest.json")]
        found.append((folder / "report.html").read_bytes())
    assert with_earlier == without


# What an earlier release shows ------------------------------------------------------------------


REGIONS: dict[str, Any] = {"region": "quasi", "weight": "weight"}
RECOVERABLE = {"recoverable.max": 0.1}


def regions() -> sf.Dataset:
    draw = np.random.default_rng(9)
    region = draw.integers(0, 6, 300)
    frame = pl.DataFrame({"region": region, "weight": region * 1.375 + 2})
    return sf.Dataset(frame, sf.Schema(REGIONS))


@pytest.mark.parametrize("shown", ["region", "weight"])
def test_what_an_earlier_release_shows_or_gives_away_is_recoverable(shown: str) -> None:
    """The region itself was out already, or the weight that stands for it."""
    data = regions()
    hidden = sf.Plan(
        schema=REGIONS,
        steps=[sf.methods.Misclassify(variables=["region"], retention=0.3),
               sf.methods.Noise(variables=["weight"], variance_share=0.9)],
        targets=RECOVERABLE,
    )  # fmt: skip
    assert sf.protect(data, hidden, key=KEY)
    earlier = sf.Plan(
        schema=REGIONS,
        steps=[sf.methods.Drop(variables=[name for name in REGIONS if name != shown])],
    )
    first = sf.protect(data, earlier, key=KEY)
    with pytest.raises(TargetError, match="recoverable at most 0.1.*together with"):
        sf.protect(data, hidden, key=KEY, earlier=[first])


def test_an_earlier_release_that_shows_neither_changes_nothing() -> None:
    data = regions().with_columns(pl.DataFrame({"age": np.arange(300) % 7}))
    roles = REGIONS | {"age": "other"}
    drop = sf.methods.Drop(variables=["region", "weight"])
    first = sf.protect(data, sf.Plan(schema=roles, steps=[drop]), key=KEY)
    second = sf.Plan(
        schema=roles, steps=[sf.methods.Drop(variables=["weight"]),
                             sf.methods.Misclassify(variables=["region"], retention=0.3)],
        targets=RECOVERABLE,
    )  # fmt: skip
    assert sf.protect(data, second, key=KEY, earlier=[first])
