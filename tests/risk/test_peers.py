"""Protective peers: the paper's example, the reference numbers of Adult, limits and refusals."""

from __future__ import annotations

import json

import polars as pl
import pytest

import sfumato as sf

# Table 1 of Kroes et al. (2021), age in ten-year groups (option 2).
EXAMPLE = pl.DataFrame(
    {
        "diagnosis": ["cancer", "cancer", "cancer", "arthrosis", "diabetes"],
        "gender": ["f", "m", "f", "m", "f"],
        "age": ["45-54", "35-44", "35-44", "55-64", "45-54"],
    }
)
EVERY = ["diagnosis", "gender", "age"]
COLUMNS = {
    "Gender": "gender", "Age": "age", "Race": "race", "Marital status": "marital_status",
    "Education": "education", "Native country": "native_country", "Work class": "workclass",
    "Salary": "salary", "Occupation": "occupation",
}  # fmt: skip


def data(frame=EXAMPLE, **columns):
    roles = {name: columns.get(name, sf.Column(role="quasi")) for name in frame.columns}
    return sf.Dataset(frame, sf.Schema(roles))


def test_the_papers_example():
    found = sf.risk.Peers(known=EVERY, sensitive=EVERY).measure(data())
    # With all known, half of Alice's peers protect her; who knows only her sex rules out more.
    assert found.records["diagnosis"][0] == pytest.approx(1 / 3)
    assert found.records["gender"].to_list() == pytest.approx([0, 1 / 2, 1 / 3, 0, 0])
    rows = {row["variable"]: row for row in found.table.rows(named=True)}
    assert rows["diagnosis"]["breached_records"] == 3
    assert rows["diagnosis"]["downward"] == 1.0
    assert found.value == 0.6
    assert found.details["fewest_protective_peers"] == 0


def test_adult_as_in_the_reference(shared_data):
    where = shared_data.parent / "reference" / "004_min_ppp.json"
    expected = json.loads(where.read_text())["adult"]["per_variable"]
    names = list(COLUMNS.values())
    frame = pl.read_csv(shared_data / "adult.csv")
    found = sf.risk.Peers(known=names, sensitive=names).measure(data(frame))
    rows = {row["variable"]: row for row in found.table.rows(named=True)}
    for label, told in expected.items():
        row, least = rows[COLUMNS[label]], found.records[COLUMNS[label]]
        assert row["breached_records"] == told["n_min_ppp_zero"]
        assert row["mean_least_ppp"] == pytest.approx(told["mean_min_ppp"], rel=1e-12)
        deciles = [least.quantile(at / 10, "linear") for at in range(11)]
        assert deciles == pytest.approx(told["deciles"], abs=1e-6)


def test_a_threshold_counts_its_own_value_as_a_breach():
    frame = pl.DataFrame({"a": ["x"] * 5, "s": ["u", "u", "u", "u", "v"]})
    fifth = sf.risk.Peers(known=["a"], sensitive=["s"], p=0.2).measure(data(frame))
    assert fifth.value == 0.8
    assert sf.risk.Peers(known=["a"], sensitive=["s"], p=0.1).measure(data(frame)).value == 0.0


def test_limits_are_told():
    some = sf.risk.Peers(known=EVERY, sensitive=["diagnosis"], most=1).measure(data())
    assert some.details["combinations"] == 2
    assert some.details["combinations_left_out"] == 1
    assert "1 were left out" in some.warnings[0]
    assert not sf.risk.Peers(known=EVERY, sensitive=["diagnosis"]).measure(data()).warnings
    hard = data(age=sf.Column(role="quasi", accessibility=0.1))
    easy = sf.risk.Peers(known=EVERY, sensitive=["diagnosis"], effort=0.5).measure(hard)
    assert easy.details["combinations"] == 1  # gender alone
    assert easy.records["diagnosis"].to_list() == pytest.approx([1 / 3, 0.5, 1 / 3, 0.5, 2 / 3])


def test_refusals():
    with pytest.raises(sf.SfumatoError, match="None of the sensitive variables is in the data"):
        sf.risk.Peers(sensitive=[]).measure(data())
    with pytest.raises(sf.SfumatoError, match="Peers cannot be counted"):
        sf.risk.Peers(known=EVERY, sensitive=EVERY, budget=1).measure(data())
    with pytest.raises(sf.SfumatoError, match="'p' parameter"):
        sf.risk.Peers(p=1.0)
    with pytest.raises(sf.SfumatoError, match="did you mean 'gender'"):
        sf.risk.Peers(known=["gendre"], sensitive=["diagnosis"]).measure(data())
