from __future__ import annotations

import hashlib

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError
from sfumato.methods.pseudonymise import encode_pseudonyms
from sfumato.randomness import Key

KEY = Key(bytes(range(32)))
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def slow(value: str, length: int, namespace: str = "person") -> str:
    secret = KEY.subkey("pseudonymise", namespace)
    digest = hashlib.blake2b(value.encode(), key=secret, digest_size=length).digest()
    return "".join(ALPHABET[byte % 32] for byte in digest)


@given(st.lists(st.one_of(st.none(), st.text()), max_size=20), st.integers(8, 64))
def test_codes_agree_with_the_slow_way(values, length):
    made = encode_pseudonyms(
        pl.Series("x", values, dtype=pl.String), KEY.subkey("pseudonymise", "person"), length
    )
    assert made.to_list() == [None if one is None else slow(one, length) for one in values]


def test_links_hold_across_files_types_and_variables():
    one = sf.Dataset(pl.DataFrame({"id": [17, 4], "mother": [None, 17]}))
    other = sf.Dataset(pl.DataFrame({"person": ["4", "17"]}))
    floats = sf.Dataset(pl.DataFrame({"person": [4.0, 17.0]}))
    method = sf.methods.Pseudonymise(variables=["id", "mother"])
    a = method.apply(one, key=KEY).frame
    b, c = (
        sf.methods.Pseudonymise(variables=["person"]).apply(file, key=KEY).frame["person"]
        for file in (other, floats)
    )
    assert a["id"][0] == a["mother"][1] == b[1] == c[1]
    assert a["mother"][0] is None


def test_another_key_or_namespace_gives_other_codes():
    data = sf.Dataset(pl.DataFrame({"id": ["a"]}))
    made = {
        sf.methods.Pseudonymise(variables=["id"], namespace=space)
        .apply(data, key=key)
        .frame["id"][0]
        for space in ("person", "hospital")
        for key in (KEY, Key.new())
    }
    assert len(made) == 4


def test_a_collision_is_refused(monkeypatch):
    data = sf.Dataset(pl.DataFrame({"id": ["a", "b"]}))
    monkeypatch.setattr(
        "sfumato.methods.pseudonymise.encode_pseudonyms",
        lambda values, secret, length: pl.Series(values.name, ["same"] * len(values)),
    )
    with pytest.raises(MethodError, match="same pseudonym"):
        sf.methods.Pseudonymise(variables=["id"]).apply(data, key=KEY)


def test_a_pseudonym_is_no_direct_identifier_any_more():
    data = sf.Dataset(pl.DataFrame({"id": ["a"]}), sf.Schema({"id": "direct"}))
    after = sf.methods.Pseudonymise(variables=["id"]).apply(data, key=KEY)
    assert after.schema["id"].role == "other"


def test_a_pseudonym_of_a_quasi_identifier_is_still_measured():
    schema = sf.Schema({"age": "quasi", "sex": "quasi"})
    data = sf.Dataset(pl.DataFrame({"age": [1, 2, 3], "sex": ["f", "f", "f"]}), schema)
    after = sf.methods.Pseudonymise(variables=["age", "sex"]).apply(data, key=KEY)
    assert sf.risk.Uniqueness().measure(after).details["k"] == 1


def test_several_records_of_one_person_hide_nobody():
    frame = pl.DataFrame({"id": ["p1"] * 5 + ["p2"] * 5, "age": [30] * 5 + [77] * 5})
    steps = [sf.methods.Pseudonymise(variables=["id"])]
    persons = sf.Plan(schema={"id": "person", "age": "quasi"}, steps=steps, targets={"k.min": 2})
    with pytest.raises(sf.SfumatoError, match="k at least 2: MISSED"):
        sf.protect(sf.Dataset(frame), persons, key=KEY)
    # Where somebody says that rows are different people, they are a group all the same.
    schema = sf.Schema({"id": sf.Column(role="direct", identity=False), "age": "quasi"})
    plan = sf.Plan(schema=schema, steps=steps, targets={"k.min": 5})
    found = sf.protect(sf.Dataset(frame, schema), plan, key=KEY).evidence["uniqueness"]
    assert (found.details["k"], found.details["k_of_groups"]) == (5, 1)
    strict = sf.Plan(schema=schema, steps=plan.steps, targets={"k_of_groups.min": 2})
    with pytest.raises(sf.SfumatoError, match="k_of_groups at least 2: MISSED"):
        sf.protect(sf.Dataset(frame, schema), strict, key=KEY)


def test_one_odd_number_does_not_change_the_codes_of_the_others():
    one, other = (
        encode_pseudonyms(pl.Series([17.0, odd]), bytes(32), 12)[0] for odd in (18.0, 18.5)
    )
    assert one == other == encode_pseudonyms(pl.Series(["17"]), bytes(32), 12)[0]
    assert encode_pseudonyms(pl.Series(["17.00"]).cast(pl.Decimal(10, 2)), bytes(32), 12)[0] == one
    assert encode_pseudonyms(pl.Series([1e19, None]), bytes(32), 12).null_count() == 1
