"""Steps of a first plan are tried: what other variables would give back is treated or left out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.suggestion.first_plan import first_plan, suggest_schema
from sfumato.suggestion.mending import find_followers, measure_prediction
from sfumato.suggestion.update import update_plan


def _make_census(records: int = 900) -> pl.DataFrame:
    """People in eight places, whose density stands beside each; and a decile beside the income."""
    random = np.random.default_rng(19)
    place = random.choice(8, records, p=[0.3, 0.25, 0.2, 0.1, 0.06, 0.04, 0.03, 0.02])
    income = random.choice([0, 0, *range(5_000, 90_000, 1_000)], records)
    return pl.DataFrame(
        {
            "region": [f"place {number}" for number in place],
            "density": np.array([12.5, 70.1, 33.0, 512.7, 8.3, 90.2, 301.4, 45.6])[place],
            "age": random.integers(18, 90, records),
            "sex": random.choice(["female", "male"], records),
            "occupation": random.choice(["a", "b", "c", "d"], records, p=[0.4, 0.3, 0.2, 0.1]),
            "income": income,
            "income_decile": pl.Series(income).rank("average").to_numpy() * 10 // (records + 1),
        }
    )


@pytest.fixture(scope="module")
def census() -> sf.Dataset:
    return sf.Dataset(_make_census())


def test_what_follows_from_another_variable_is_said(census):
    followed = find_followers(census)
    assert followed == {"density": "region", "income_decile": "income"}
    assert suggest_schema(census)["density"].reason.endswith("It follows from 'region'.")
    # Neither what merely goes along with something, nor what nobody shares.
    loose = _make_census().with_columns(
        number=pl.int_range(900), often=pl.col("density") + (pl.int_range(900) % 5 == 0)
    )
    assert {"number", "often"}.isdisjoint({*find_followers(sf.Dataset(loose))})


def test_a_number_that_follows_from_a_place_is_left_out_with_the_reason(census, tmp_path):
    plan = first_plan(census)
    assert "density" not in sf.protect(census, plan, key=bytes(32)).dataset.schema
    (line,) = (line for line in plan.text(comments=True).split("\n") if "density =" in line)
    assert "It is left out: anybody who has 'region' has it too." in line
    # The plan can be updated: what was left out for that reason stays left out.
    text = plan.text(comments=True)
    assert update_plan(text, census, name="plan.toml", folder=tmp_path).text == text


def test_the_plan_comes_through_and_no_light_is_red(census):
    release = sf.protect(census, first_plan(census), key=bytes(32))
    assert all(judgement.met for judgement in release.verdict)
    assert "red" not in {release.lights.targets.colour, release.lights.attacks.colour}
    assert release.evidence["recoverable"].value <= 0.2


def test_the_order_of_the_records_does_not_matter(census):
    frame = _make_census()
    shuffled = frame.sample(fraction=1, shuffle=True, seed=3)
    assert first_plan(sf.Dataset(shuffled)) == first_plan(census)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30))
def test_the_share_told_against_a_slow_reference(pairs):
    codes, values = (list(column) for column in zip(*pairs, strict=True))
    right = others = 0
    for code in set(codes):
        of_code = Counter(value for other, value in pairs if other == code)
        right += max(of_code.values()) - 1
        others += sum(of_code.values()) - 1
    chance = others * max(Counter(values).values()) / len(pairs)
    expected = (right - chance) / (others - chance) if others > chance else 0.0
    found = measure_prediction(pl.Series(codes), pl.Series(values))
    assert found == pytest.approx(expected)
