"""Who is who: keyed things follow the person."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.data import identity
from sfumato.data.identity import fold_identifiers, match_identities
from sfumato.errors import SchemaError
from sfumato.randomness import Key

KEY = Key(bytes(range(32)))

rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-5, 5)),
        st.one_of(st.none(), st.text(max_size=4)),
        st.one_of(st.none(), st.floats(allow_nan=False)),
    ),
    max_size=30,
)


def data(table, schema=None) -> sf.Dataset:
    frame = pl.DataFrame(
        table, schema={"a": pl.Int64, "b": pl.String, "c": pl.Float64}, orient="row"
    )
    return sf.Dataset(frame, schema or sf.Schema())


def id_sets(one: sf.Dataset):
    """Each record's content with its id, as a set: what must not depend on order."""
    ids = one.identity.ids(KEY)
    return sorted(zip(map(repr, one.frame.rows()), map(tuple, ids.tolist()), strict=True))


@given(rows, st.randoms(use_true_random=False))
def test_ids_follow_the_content_under_any_order(table, random):
    shuffled = list(table)
    random.shuffle(shuffled)
    assert id_sets(data(table)) == id_sets(data(shuffled))


@given(rows)
def test_ids_are_unique_even_for_identical_records(table):
    ids = data(table + table).identity.ids(KEY)
    assert len({tuple(one) for one in ids.tolist()}) == 2 * len(table)


def test_ids_survive_a_re_export():
    frame = pl.DataFrame(
        {
            "n": [1, None, 3],
            "x": [0.5, -0.0, 2.0],
            "t": ["é", "", None],
            "d": [dt.date(2020, 1, 1), None, dt.date(1999, 12, 31)],
            "g": ["u", "v", "u"],
        }
    )
    other = frame.select("g", "d", "t", "x", "n").with_columns(
        pl.col("n").cast(pl.Float64),
        pl.col("d").cast(pl.Datetime("ns")),
        pl.col("g").cast(pl.Categorical),
        pl.col("x").cast(pl.Float32) + 0.0,
    )
    expected = sf.Dataset(frame).identity.digests
    for version in (other, other.to_pandas(), other.to_arrow()):
        assert (sf.Dataset(version).identity.digests == expected).all()


def test_minus_zero_is_zero():
    one, other = (sf.Dataset(pl.DataFrame({"x": [zero]})) for zero in (0.0, -0.0))
    assert (one.identity.digests == other.identity.digests).all()


def test_half_length_floats_are_what_they_read_as():
    texts = [0.1, 1.7, 160.3]
    short = sf.Dataset(pl.DataFrame({"x": pl.Series(texts, dtype=pl.Float32)}))
    assert (short.identity.digests == sf.Dataset(pl.DataFrame({"x": texts})).identity.digests).all()


def test_numbers_beyond_64_bits_stay_apart():
    frame = pl.DataFrame({"n": pl.Series([2**64 - 1, 2**64 - 2], dtype=pl.UInt64)})
    digests = sf.Dataset(frame).identity.digests
    assert (digests[0] != digests[1]).any()


def test_numbers_that_floats_cannot_tell_apart_stay_apart():
    frame = pl.DataFrame({"n": [2**60, 2**60 + 1]})
    digests = sf.Dataset(frame).identity.digests
    assert (digests[0] != digests[1]).any()


def test_a_unique_direct_identifier_is_the_identity():
    frame = pl.DataFrame({"id": ["a", "b"], "x": [1, 2]})
    schema = sf.Schema({"id": "direct", "x": "other"})
    before = sf.Dataset(frame, schema)
    corrected = sf.Dataset(frame.with_columns(x=pl.Series([1, 99])), schema)
    assert before.identity.basis == "identifier 'id'"
    assert (before.identity.digests == corrected.identity.digests).all()


@pytest.mark.parametrize("values", [["a", "a"], ["a", None]])
def test_an_identifier_that_is_not_unique_or_missing_is_not_used(values):
    frame = pl.DataFrame({"id": values, "x": [1, 2]})
    found = sf.Dataset(frame, sf.Schema({"id": "direct", "x": "other"})).identity
    assert found.basis == "content of the record"


def test_identifiers_may_be_unique_together():
    frame = pl.DataFrame({"site": ["a", "a", "b"], "number": [1, 2, 1]})
    schema = sf.Schema({"site": "direct", "number": "direct"})
    assert "together" in sf.Dataset(frame, schema).identity.basis


def test_identity_is_kept_through_steps(cohort):
    after = sf.methods.Drop().apply(cohort)
    assert (after.identity.digests == cohort.identity.digests).all()
    some = np.array([5, 2])
    assert (cohort.take(some).identity.digests == cohort.identity.digests[some]).all()


def test_the_digest_of_all_records_ignores_their_order(cohort):
    order = np.random.default_rng(0).permutation(len(cohort))
    assert cohort.take(order).identity.total() == cohort.identity.total()
    assert cohort.take(order[1:]).identity.total() != cohort.identity.total()


def test_matched_finds_records_and_says_where_there_is_none():
    known = np.array([[5, 1], [0, 2**63], [5, 0]], np.uint64)
    wanted = np.array([[5, 0], [7, 7], [0, 2**63]], np.uint64)
    assert match_identities(known, wanted).tolist() == [2, -1, 1]
    assert match_identities(known[:0], wanted).tolist() == [-1, -1, -1]


# Which identifier it is, and how it may be spelled ------------------------------------------------

spellings = st.sampled_from(
    [
        str,
        lambda number: f"{number:09d}",
        lambda number: f" {number}\t",
        lambda number: f"{number}.0",
        lambda number: f"{number}.",
        lambda number: f"+{number}",
        lambda number: f"{number}\u200b",
        lambda number: str(number).translate({ord("0") + at: 0xFF10 + at for at in range(10)}),
    ]
)


@given(st.lists(st.tuples(st.integers(0, 10**12), spellings), min_size=1, max_size=20))
def test_an_identifier_is_the_same_however_it_is_spelled(numbers):
    plain = pl.Series([number for number, _ in numbers])
    spelled = pl.Series([spell(number) for number, spell in numbers])
    expected = [str(number) for number in plain]
    for values in (plain, spelled, plain.cast(pl.Float64), plain.cast(pl.Int64)):
        assert fold_identifiers(values).to_list() == expected


@given(st.lists(st.text(max_size=6), max_size=20))
def test_folding_twice_is_folding_once(texts):
    once = fold_identifiers(pl.Series(texts, dtype=pl.String))
    assert fold_identifiers(once).to_list() == once.to_list()


def test_different_identifiers_stay_different():
    texts = ["-7", "7", "7.5", "7a", "a7", "07a", "7 7", "77", "1e3", "1000"]
    assert fold_identifiers(pl.Series(texts)).n_unique() == len(texts)


def people(**columns) -> sf.Dataset:
    frame = pl.DataFrame(
        {"id": range(40), "name": [f"n{at}" for at in range(40)], "x": [at % 3 for at in range(40)]}
        | columns
    )
    return sf.Dataset(frame, sf.Schema({"id": "direct", "name": "direct", "x": "other"}))


def test_a_few_duplicates_and_gaps_leave_all_others_as_they_are():
    whole = people().identity
    ids = [*range(38), 0, None]
    some = people(id=pl.Series(ids)).identity
    assert some.basis == whole.basis == "identifier 'id'"
    assert (some.digests[1:38] == whole.digests[1:38]).all()
    assert len({tuple(digest) for digest in some.digests.tolist()}) == 40
    # One of the two rows of an identifier is who it would be alone, whatever their order.
    assert sum((digest == whole.digests[0]).all() for digest in some.digests[[0, 38]]) == 1


def test_rows_of_one_identifier_are_numbered_by_their_content():
    ids = pl.Series([7, 7, 7, *range(100, 137)])
    data = people(id=ids)
    order = np.random.default_rng(2).permutation(40)
    shuffled = sf.Dataset(data.frame[order.tolist()], data.schema)
    assert (shuffled.identity.digests == data.identity.digests[order]).all()


def test_an_identifier_that_hardly_tells_records_apart_is_not_taken():
    visits = people(id=[at // 4 for at in range(40)])
    assert visits.identity.basis == "identifier 'name'"
    both = visits.with_schema({"name": "other"})
    assert both.identity.basis == "content of the record"
    assert both.identity.columns == ("id", "name", "x")


def test_the_plan_names_the_identifier():
    data = people()
    stated = data.with_schema({"name": sf.Column(identity=True)})
    assert stated.identity.basis == "identifier 'name'"
    both = stated.with_schema({"x": sf.Column(identity=True)})
    assert both.identity.columns == ("name", "x")
    assert "together" in both.identity.basis
    denied = data.with_schema({"id": sf.Column(identity=False)})
    assert denied.identity.basis == "identifier 'name'"
    plan = sf.Plan(schema=stated.schema, steps=[sf.methods.Drop()])
    assert sf.Plan.parse(plan.text()) == plan
    assert "identity = true" in plan.text()
    with pytest.raises(SchemaError, match="identity is true or false"):
        sf.Schema({"id": sf.Column(identity="yes")})  # type: ignore[arg-type]


def test_identifiers_that_are_all_missing_leave_the_content():
    data = people(id=pl.Series([None] * 40, dtype=pl.Int64)).with_schema(
        {"id": sf.Column(identity=True)}
    )
    assert len({tuple(digest) for digest in data.identity.digests.tolist()}) == 40


@given(st.integers(0, 200), st.integers(0, 2**32 - 1), st.booleans())
def test_duplicates_are_numbered_alike_at_once_and_in_parts(records, seed, crowded):
    rng = np.random.default_rng(seed)
    digests = rng.integers(0, 2**64, (records, 2), np.uint64)
    if crowded:  # many that agree in the leading bits, in the first word, or in both
        digests[:, 0] = (digests[:, 0] & np.uint64(3)) | np.uint64(5 << 60)
        digests[:, 1] = digests[:4, 1][digests[:, 1] % np.uint64(min(4, records or 1))]
    order = identity.sort_digests(digests)
    rows = np.arange(records)
    assert np.array_equal(order, np.lexsort((rows, digests[:, 1], digests[:, 0])))
    noted: list[np.ndarray] = []
    wanted = identity.number_duplicates(digests.copy(), noted.append)
    assert len(np.unique(wanted, axis=0)) == records
    assert np.array_equal(np.concatenate(noted), digests[order])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "_MANY", 10)
        noted.clear()
        assert np.array_equal(identity.number_duplicates(digests.copy(), noted.append), wanted)
        assert np.array_equal(np.concatenate(noted or [digests]), digests[order])
