"""Batch by batch every method and release comes out as in memory, to the last byte."""

from __future__ import annotations

import json
import os
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.contract.examples import CASES, made
from tests.methods.test_persons import SCHEMA as VISITS
from tests.methods.test_persons import make_visits

import sfumato as sf
from sfumato import catalogue
from sfumato.data import stream
from sfumato.engines import Chance, LocalEngine, engine_for, streaming
from sfumato.engines.streaming import StreamingEngine
from sfumato.engines.summaries import Count, Deviation, Distinct, Maximum, Mean, Quantile, Summary
from sfumato.errors import DataError, MeasureError, MethodError
from sfumato.io import columnar, scanning
from sfumato.io.scratch import Spill
from sfumato.plan import Writing
from sfumato.storage.protecting import is_rather_streamed
from sfumato.storage.verifying import verify_release
from sfumato.testing.samples import KEY

READY = [
    case
    for case in CASES
    if "streaming" in catalogue.methods()[str(case.values[0])].runs_on
    # Both need all records in memory, and say so.
    and not {"at_most", "missing"} & set(dict(case.values[1]))  # type: ignore[call-overload]
]
ACCEPTED = dict.fromkeys(
    ("recoverable", "mixed_linkage", "attribute_inference", "singling_out"), "a test"
)


@pytest.fixture(autouse=True)
def tiny_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BATCH", 97)
    monkeypatch.setattr(streaming, "LARGE", 150)
    monkeypatch.setattr("sfumato.storage.streamed.LARGE", 150)
    monkeypatch.setattr(columnar, "GROUP", 128)


@pytest.fixture(scope="module")
def here() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(400), sf.datasets.cohort_schema())


@pytest.fixture(scope="module")
def there(here: sf.Dataset) -> sf.Dataset:
    return sf.Dataset(here.frame.lazy(), here.schema)


def test_the_engine_follows_from_the_frame(there: sf.Dataset) -> None:
    assert engine_for(there.frame).name == "streaming"
    assert len(there) == 400
    with pytest.raises(DataError, match="in a file"):
        there.column("income")


@pytest.mark.parametrize(("name", "example"), READY)
def test_a_method_gives_the_same_values(
    name: str, example: Any, here: sf.Dataset, there: sf.Dataset
) -> None:
    wanted = made(name, example).apply(here, key=KEY)
    released = made(name, example).apply(there, key=KEY)
    assert released.schema == wanted.schema
    assert released.frame.collect().equals(wanted.frame)


def test_records_have_the_ids_that_they_have_in_memory(here: sf.Dataset) -> None:
    frame = here.frame
    some = [
        frame,  # by an identifier
        frame.drop("person_id", "name", "email", "nhs_number", "address"),  # by content
        pl.concat([frame.select("sex", "region")] * 2),  # with many that are the same
        # By an identifier in place of one that tells few records apart, as is seen early or late.
        frame.with_columns(person_id=pl.int_range(pl.len()) % 7),
        frame.with_columns(person_id=pl.int_range(pl.len()).clip(0, 250)),
        # By an identifier that some share and some lack.
        frame.with_columns(
            person_id=pl.when(pl.int_range(pl.len()) < 8)
            .then(None)
            .otherwise(pl.int_range(pl.len()) // 12 * 12 + (pl.int_range(pl.len()) % 12).clip(1))
        ),
    ]
    for frame in some:
        schema = sf.Schema({n: here.schema[n] for n in frame.columns})
        in_memory, streamed = (sf.Dataset(f, schema) for f in (frame, frame.lazy()))
        assert streamed.identity.basis == in_memory.identity.basis
        assert np.array_equal(streamed.identity.digests, in_memory.identity.digests)
        assert sf.release.values_digest(streamed) == sf.release.values_digest(in_memory)


def test_summaries_combinations_and_samples_are_the_same(
    here: sf.Dataset, there: sf.Dataset
) -> None:
    engine = StreamingEngine()
    summaries: list[Summary] = [Count(), Distinct(), Maximum(), Mean(), Deviation(), Quantile(0.3)]
    wanted = {"income": summaries, "children": summaries}
    assert engine.aggregate(there, wanted) == LocalEngine().aggregate(here, wanted)
    for names in (["sex"], ["sex", "region", "children"], ["birth_date", "income"], []):
        found = [
            _list_counts(e.distinct(d, names)) for e, d in ((LocalEngine(), here), (engine, there))
        ]
        assert found[0] == found[1]
    assert engine.sample(there, ["sex", "income"], 50).equals(
        LocalEngine().sample(here, ["sex", "income"], 50)
    )
    table = pl.DataFrame({"sex": ["f", "m"], "code": [1, 2]})
    assert (
        engine.attach(there, table, ["sex"])
        .frame.collect()
        .equals(LocalEngine().attach(here, table, ["sex"]).frame)
    )


def _list_counts(found: Any) -> list[tuple[str, int]]:
    rows = map(str, found.values.iter_rows()) if found.values.width else [""]
    return sorted(zip(rows, found.counts.tolist(), strict=True))


def test_strata_come_together_wherever_they_stand(here: sf.Dataset, there: sf.Dataset) -> None:
    def rank_within(batch: pl.DataFrame, starts: Any, draws: Any) -> pl.DataFrame:
        noise = draws.uniforms("x") if hasattr(draws, "uniforms") else np.zeros(batch.height)
        parts = [batch["income"][int(a) : int(b)].rank("ordinal") for a, b in pairwise(starts)]
        ranks = pl.concat(parts).alias("rank") if parts else batch["income"].rank().alias("rank")
        return pl.DataFrame([ranks.cast(pl.Int64), batch["income"] * 2]).with_columns(
            pl.Series("noise", noise[: batch.height])
        )

    results = []
    for engine, data in ((LocalEngine(), here), (StreamingEngine(), there)):
        chance, names = Chance(sf.Key.of(KEY), 0), ["region", "sex"]
        prepared = engine.prepare(data)
        mapped = engine.map_groups(prepared, rank_within, by=names, reads=["income"], chance=chance)
        results.append(mapped)
    assert results[1].frame.collect().equals(results[0].frame)


def test_what_needs_all_records_says_so_before_it_starts(
    there: sf.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "get_free_memory", lambda: 1000)
    with pytest.raises(MethodError, match="all records at once: about"):
        sf.methods.KAnonymity(k=3).apply(there)


def test_where_memory_is_short_variables_are_read_one_after_the_other(
    here: sf.Dataset, there: sf.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "get_free_memory", lambda: 400 * 60)
    summaries: list[Summary] = [Count(), Mean(), Quantile(0.3)]
    wanted = {"income": summaries, "children": summaries, "height": summaries[:1]}
    assert StreamingEngine().aggregate(there, wanted) == LocalEngine().aggregate(here, wanted)
    few = StreamingEngine().distinct(there, ["sex", "region"])
    assert few.counts.sum() == 400
    with pytest.raises(MethodError, match="different combinations of 2 variables: too many"):
        StreamingEngine().distinct(there, ["birth_date", "income"])
    monkeypatch.setattr(streaming, "get_free_memory", lambda: 400 * 30)
    assert StreamingEngine().aggregate(there, {"sex": [Count()]}) == {"sex": {"count": 400}}
    with pytest.raises(MethodError, match="all records at once: about"):
        StreamingEngine().aggregate(there, wanted)


def test_original_and_release_are_paired_in_any_order(here: sf.Dataset, there: sf.Dataset) -> None:
    engine = StreamingEngine()
    noise = sf.methods.Noise(variables=["income"], variance_share=0.1)
    released = noise.apply(there, key=KEY)
    order = np.random.default_rng(0).permutation(400)
    shuffled = sf.Dataset(
        released.frame.collect()[order].lazy(),
        released.schema,
        given_identity=there.identity.take(order),
    )
    original = engine.prepare(there)
    straight = engine.pairs(original, noise.apply(original, key=KEY), ["income", "sex"])
    paired = engine.pairs(original, shuffled, ["income", "sex"])
    names = sorted(straight.columns)
    assert (
        paired.frame.collect()
        .select(names)
        .sort(names)
        .equals(straight.frame.collect().select(names).sort(names))
    )


PERSONS = [
    sf.methods.ShiftDates(window=364, unit="weeks"),
    sf.methods.ShiftDates(origin="seen"),
    sf.methods.Noise(variables=["height", "age"], variance_share=0.3),
    sf.methods.CorrelatedNoise(variables=["age", "height"], noise_share=0.3, partly=True),
    sf.methods.Misclassify(variables=["sex", "ward"], retention=0.6, towards="equal"),
    sf.methods.Suppress(variables=["sex", "size"], k=3),
    sf.methods.Recode(variables=["ward"], fewest=12),
]


@pytest.mark.parametrize("method", PERSONS, ids=lambda method: method.name)
def test_rows_of_a_person_are_treated_as_in_memory(method: sf.Method) -> None:
    days = pl.lit("2001-01-01").str.to_date()
    frame = make_visits(120, 4).with_columns(
        (days - pl.duration(days=pl.col("height") * 10)).cast(pl.Date).alias("born"),
        (days + pl.duration(days=pl.col("age") * 7)).cast(pl.Date).alias("seen"),
    )
    dates = dict.fromkeys(("born", "seen"), sf.Column(role="other", kind="date"))
    schema = VISITS.with_columns(dates)
    wanted = method.apply(sf.Dataset(frame, schema), key=KEY)
    released = method.apply(sf.Dataset(frame.lazy(), schema), key=KEY)
    assert released.frame.collect().equals(wanted.frame)


def test_what_would_count_rows_of_persons_is_refused() -> None:
    there = sf.Dataset(make_visits(30, 4).lazy(), VISITS)
    with pytest.raises(MethodError, match="only where one machine holds"):
        sf.methods.KAnonymity(k=3).apply(there)
    plan = sf.Plan(schema=VISITS, steps=[sf.methods.Drop()], targets={"k.min": 2})
    with pytest.raises(DataError, match="in memory only"):
        sf.protect(there, plan, key=KEY)
    with pytest.raises(MeasureError, match="counts persons in memory only"):
        sf.risk.Uniqueness().measure(there)


# Releases ----------------------------------------------------------------------------------------


def _plan(schema: sf.Schema, *, noise: bool = True, **release: Any) -> sf.Plan:
    gone = [*schema.having("direct"), "school", "survey_weight"]
    return sf.Plan(
        schema=schema,
        steps=[
            sf.methods.Drop(variables=gone),
            sf.methods.KAnonymity(k=5),
            *([sf.methods.Noise(variables=["income"], variance_share=0.1)] if noise else []),
        ],
        targets={"k.min": 5},
        release=Writing(accept_attacks=ACCEPTED, **release),
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_release_has_the_same_bytes(suffix: str, here: sf.Dataset, tmp_path: Path) -> None:
    file = tmp_path / f"cohort.{suffix}"
    write = here.frame.write_parquet if suffix == "parquet" else here.frame.write_csv
    write(file)
    folders = []
    for name, read in (("whole", sf.read), ("batches", sf.scan)):
        release = sf.protect(read(file), _plan(here.schema, noise=suffix == "csv"), key=KEY)
        ledger = tmp_path / name / "ledger"
        folders.append(release.write(tmp_path / name / "release", ledger=ledger))
    data = [(folder / f"data.{suffix}").read_bytes() for folder in folders]
    assert data[0] == data[1]
    manifests = [json.loads((folder / "manifest.json").read_bytes()) for folder in folders]
    assert manifests[0] == manifests[1]
    records = [json.loads((folder / "custody" / "custody.json").read_bytes()) for folder in folders]
    assert records[0]["input"] == records[1]["input"]
    assert records[0]["arrangement"] == records[1]["arrangement"]
    checks = verify_release(folders[1], sf.scan(file))
    assert all(check.passed for check in checks), [c for c in checks if not c.passed]


def test_rows_stay_in_order_where_the_plan_says_so(here: sf.Dataset, tmp_path: Path) -> None:
    there = sf.Dataset(here.frame.lazy(), here.schema)
    release = sf.protect(there, _plan(here.schema, keep_order=True), key=KEY)
    folder = release.write(tmp_path / "release", ledger=False)
    kept = pl.read_parquet(folder / "data.parquet")
    assert kept["smoking"].equals(here.frame["smoking"])


def test_nothing_is_left_behind_when_it_fails(
    here: sf.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    release = sf.protect(sf.Dataset(here.frame.lazy(), here.schema), _plan(here.schema), key=KEY)
    taken = Spill.take

    def fail(self: Spill, number: int) -> pl.DataFrame:
        assert not list(scratch.iterdir()), "a file with a name"
        if number:
            raise KeyboardInterrupt
        return taken(self, number)

    monkeypatch.setattr(Spill, "take", fail)
    with pytest.raises(KeyboardInterrupt):
        release.write(tmp_path / "out" / "release", ledger=False)
    assert not list((tmp_path / "out").glob("*release*"))
    assert not [path for path in (tmp_path / "out").iterdir() if path.is_dir()]
    assert not list(scratch.iterdir())


# Files -------------------------------------------------------------------------------------------


def test_a_scanned_file_is_read_as_when_it_is_read_whole(
    here: sf.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = here.frame
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ipc(tmp_path / "a.arrow")
    frame.with_columns(pl.lit("n/a").alias("note")).write_csv(tmp_path / "a.csv", separator=";")
    # So little memory that the variables of a CSV file are read one after the other.
    monkeypatch.setattr(scanning, "get_free_memory", lambda: 4000)
    for suffix in ("parquet", "arrow", "csv"):
        whole, scanned = (read(tmp_path / f"a.{suffix}") for read in (sf.read, sf.scan))
        assert scanned.frame.collect().equals(whole.frame)
        assert scanned.source is not None
        assert whole.source is not None
        assert scanned.source.columns == whole.source.columns
        assert scanned.source.options == whole.source.options
        some = sf.scan(tmp_path / f"a.{suffix}", columns=["sex", "income"])
        assert some.columns == ("sex", "income")
    assert scanning.is_large(tmp_path / "a.csv")
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(3):
        frame[number * 150 : (number + 1) * 150].write_parquet(parts / f"{number}.parquet")
    assert sf.scan(parts).frame.collect().equals(frame)


def test_a_large_file_is_read_in_batches_if_the_plan_allows(
    here: sf.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "cohort.parquet")
    here.frame.write_parquet(file)
    plan = _plan(here.schema)
    assert not is_rather_streamed(file, plan)
    monkeypatch.setattr(scanning, "get_free_memory", lambda: 1000)
    assert is_rather_streamed(file, plan)
    steps = [*plan.steps, sf.methods.Regenerate(variables=["income"])]
    assert not is_rather_streamed(file, sf.Plan(schema=here.schema, steps=steps))


def test_what_cannot_be_scanned_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        sf.scan(tmp_path / "none.parquet")
    (tmp_path / "broken.parquet").write_bytes(os.urandom(500))
    with pytest.raises(DataError, match="not a whole Parquet file"):
        sf.scan(tmp_path / "broken.parquet")
    (tmp_path / "a.xlsx").write_bytes(b"x")
    with pytest.raises(DataError, match="batch by batch"):
        sf.scan(tmp_path / "a.xlsx")


def test_a_plan_that_needs_all_in_memory_is_refused_first(there: sf.Dataset) -> None:
    others = sorted(
        name for name, entry in catalogue.methods().items() if "streaming" not in entry.runs_on
    )
    for name in others[:1]:
        example = catalogue.methods()[name].examples[0]
        with pytest.raises(MethodError, match="batch by batch"):
            made(name, example).apply(there, key=KEY)
