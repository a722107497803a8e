"""The invented discharges of the benchmarks have the domains and correlations of paper 002."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from benchmarks.discharges import CORRELATIONS, KEYS, discharges, mask, masked

MASKABLE = ["age_yrs", "sex", "ethncty", "race", "patzip", "patcnty", "adm_qtr"]


@pytest.fixture(scope="module")
def frame():
    return discharges(200_000)


def test_domains_are_those_of_table_s1(frame):
    assert frame.columns == [*KEYS, "charge"]
    assert frame.null_count().sum_horizontal().item() == 0
    for name, low, high in [
        ("age_yrs", 0, 85), ("sex", 1, 3), ("ethncty", 1, 3), ("race", 1, 6), ("patcnty", 1, 58),
        ("adm_qtr", 1, 4), ("patzip", 90001, 96162),
    ]:  # fmt: skip
        assert (frame[name].min(), frame[name].max()) == (low, high)
    assert frame["oshpd_id"].cast(pl.String).str.len_chars().unique().to_list() == [6]
    assert 440 <= frame["oshpd_id"].n_unique() <= 450
    assert 2400 <= frame["patzip"].n_unique() <= 2500
    assert frame["los"].min() == 0
    assert 200 < frame["los"].max() <= 365


def test_correlations_are_near_table_s4(frame):
    found = np.corrcoef(frame.select(KEYS).to_numpy().T)
    for i, j in combinations(range(len(KEYS)), 2):
        assert found[i, j] == pytest.approx(CORRELATIONS[i][j - i - 1], abs=0.03), (
            KEYS[i],
            KEYS[j],
        )


def test_marginals_are_those_of_the_paper(frame):
    counts = np.bincount(frame["race"].to_numpy())[1:]
    published = np.array([568394, 136264, 10761, 130597, 193477, 32857])
    assert counts / counts.sum() == pytest.approx(published / published.sum(), abs=0.01)
    assert (frame["charge"] > 100_000).mean() == pytest.approx(0.1, abs=0.005)
    assert np.corrcoef(frame["charge"], frame["los"])[0, 1] > 0.4


def test_a_zip_code_lies_in_one_county(frame):
    counties = frame.group_by("patzip").agg(pl.col("patcnty").n_unique())
    assert counties["patcnty"].max() == 1


def test_the_seed_decides():
    assert discharges(1000, seed=3).equals(discharges(1000, seed=3))
    assert not discharges(1000, seed=3).equals(discharges(1000, seed=4))
    assert discharges(0).height == 0


def test_masking_follows_table_s3(frame):
    frame = frame.head(20_000)
    out = masked(frame)
    assert out.columns == frame.columns
    for name in ["oshpd_id", "los", "charge"]:
        assert out[name].cast(pl.Int32).equals(frame[name].cast(pl.Int32), check_names=False)
    unique = frame.select(pl.struct(MASKABLE).is_unique()).to_series()
    untouched = pl.all_horizontal(pl.col(name) == frame[name].cast(pl.String) for name in MASKABLE)
    assert out.select(untouched).to_series().equals(~unique, check_names=False)
    star = {name: out[name] == "*" for name in MASKABLE}
    ranged = out["age_yrs"].str.starts_with("[") | star["age_yrs"]
    for later, earlier in [("sex", "race"), ("race", "ethncty"), ("age_yrs", "sex")]:
        assert not (star[later] & ~star[earlier]).any(), (later, earlier)
    assert not (star["ethncty"] & ~ranged).any()
    assert not (star["patzip"] & ~star["patcnty"]).any()
    assert not (out["patzip"].str.ends_with("**") & ~star["adm_qtr"]).any()


def test_masked_cells_contain_the_value_and_only_the_last_resort_is_unique(frame):
    frame = frame.head(20_000)
    cells = mask(frame)
    for name, one in cells.items():
        value = frame[name].to_numpy()
        assert (one.low[one.of] <= value).all()
        assert (value <= one.high[one.of]).all()
    out = masked(frame)
    alone = out.filter(pl.struct(MASKABLE).is_unique())
    assert (alone["patzip"] == "*").all()
