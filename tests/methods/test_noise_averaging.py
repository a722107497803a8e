"""The noise belongs to the person: nothing to average away, nothing to subtract."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.io import frames
from sfumato.methods._publishing.preferred_numbers import round_up_to_preferred_number
from sfumato.methods.noise import Noise
from sfumato.noise.description import averaged_variance
from sfumato.testing.partitioned import PartitionedEngine

KEY = bytes(range(32))
RECORDS = 20_000


def people(records: int = RECORDS, **columns) -> sf.Dataset:
    random = np.random.default_rng(7)
    made = {
        "id": [f"p{at}" for at in range(records)],
        "bmi": random.normal(25, 4, records),
        "income": random.lognormal(10, 0.7, records),
        "age": random.integers(18, 80, records),
    }
    roles = {"id": "direct", "bmi": "quasi", "income": "quasi", "age": "quasi"}
    schema = sf.Schema({name: sf.Column(role=role) for name, role in roles.items()})  # type: ignore[arg-type]
    return sf.Dataset(pl.DataFrame(made | columns), schema)


def noise_of(method: Noise, data: sf.Dataset, name: str) -> npt.NDArray[np.float64]:
    after = method.apply(data, key=KEY).column(name)
    return (after.cast(pl.Float64) - data.column(name).cast(pl.Float64)).to_numpy()


@drawn("library", LIBRARIES)
def test_shuffled_rows_parts_and_libraries_give_the_same_bits(library):
    data = people(records=800)
    order = np.random.default_rng(1).permutation(len(data))
    methods = [
        Noise(variables=["bmi", "age"], variance_share=0.1),
        Noise(variables=["income"], variance_share=0.1, scale="log"),
        Noise(variables=["income"], variance_share=0.1, scale="rank_normal"),
    ]
    for method in methods:
        plain = method.apply(data, key=KEY)
        other = sf.Dataset(in_library(data.frame[order], library), data.schema)
        engine = PartitionedEngine(5, parts=7)
        mixed = method.apply(other, key=KEY, engine=engine)
        for name in method.touches(other.schema):
            mine = frames.get_column(plain.frame, name).gather(order)
            theirs = frames.get_column(mixed.frame, name)
            assert theirs.cast(pl.Float64).to_list() == mine.cast(pl.Float64).to_list()


def test_an_exported_file_has_the_same_noise(tmp_path):
    data = people(records=500)
    data.frame.write_csv(tmp_path / "x.csv")
    data.frame.with_columns(pl.col("bmi").cast(pl.Float32)).write_parquet(tmp_path / "x.parquet")
    method = Noise(variables=["bmi"], variance=2.0)
    mine = noise_of(method, data, "bmi")
    text = sf.read(tmp_path / "x.csv", schema=data.schema)
    assert (noise_of(method, text, "bmi") == mine).all()
    # Half the digits are lost, the noise is not drawn anew.
    short = sf.read(tmp_path / "x.parquet", schema=data.schema)
    np.testing.assert_allclose(noise_of(method, short, "bmi"), mine, atol=1e-5)


def test_other_steps_and_variables_do_not_change_the_noise():
    data = people(records=500)
    alone = Noise(variables=["bmi"], variance=2.0)
    more = Noise(variables=["age", "bmi"], variance={"age": 1.0, "bmi": 2.0}, at_most=99.0)
    mine = alone.apply(data, key=KEY, step=0).column("bmi")
    assert more.apply(data, key=KEY, step=3).column("bmi").equals(mine)


# -- nothing to average, nothing to subtract ----------------------------------------------------


def error_of(guess: np.ndarray, data: sf.Dataset) -> float:
    return float(np.mean((guess - data.column("bmi").to_numpy()) ** 2))


def released(data: sf.Dataset, *, key=KEY, **size) -> np.ndarray:
    return Noise(variables=["bmi"], **size).apply(data, key=key).column("bmi").to_numpy()


def test_a_second_release_gains_nothing_under_one_key_and_half_under_two():
    data = people()
    once = released(data, variance=4.0)
    again = released(data, variance=4.0)
    assert error_of((once + again) / 2, data) == error_of(once, data)
    other = released(data, key=bytes(32), variance=4.0)
    left = error_of((once + other) / 2, data)
    assert left == pytest.approx(averaged_variance(4.0, releases=2), rel=4 * math.sqrt(2 / RECORDS))


def test_two_sizes_under_one_key_do_not_give_the_value_away():
    data = people()
    small, large = released(data, variance=1.0), released(data, variance=4.0)
    # With one draw for both, this would be the original to the last digits. As it is, it has the
    # variance of the smaller, 1, and of what the larger has more, 3.
    assert error_of(2 * small - large, data) == pytest.approx(4, rel=4 * math.sqrt(2 / RECORDS))
    # The larger is the smaller and more, so no weight on it makes a guess better.
    true = data.column("bmi").to_numpy()
    assert abs(np.corrcoef(small - true, large - small)[0, 1]) < 4 / math.sqrt(RECORDS)
    assert (large - small).var() == pytest.approx(3, rel=4 * math.sqrt(2 / RECORDS))
    for weight in (0.05, 0.2, 0.5):
        mixed = (1 - weight) * small + weight * large
        assert error_of(mixed, data) > error_of(small, data)
    kinds = released(data, variance=1.0, distribution="laplace")
    assert abs(np.corrcoef(kinds - small, small - large)[0, 1]) < 0.6


def test_a_corrected_value_does_not_show_by_how_much():
    data = people(records=2000)
    frame = data.frame.with_columns(pl.col("bmi") + 0.25)
    changed = sf.Dataset(frame, data.schema)
    moved = released(changed, variance=4.0) - released(data, variance=4.0)
    assert moved.std() == pytest.approx(math.sqrt(8), rel=0.1)


def test_a_few_more_records_keep_the_noise():
    """The fitted variance is a preferred number, so that it mostly stays."""
    data = people(records=5001)
    fewer = data.take(np.arange(5000))
    one, other = (released(some, variance_share=0.1) for some in (data, fewer))
    assert (one[:5000] == other).mean() == 1.0
    assert round_up_to_preferred_number(0.000123456, records=5001) == 0.000125


def test_the_last_bits_tell_nothing_of_the_parts():
    """Released values lie on one grid, whatever the original was."""
    data = people(records=2000, bmi=np.linspace(0, 1, 2000) * 1e-7)
    made = released(data, variance=1.0)
    assert 1 < np.abs(made).max() < 10
    assert (made == [round(value, 14) for value in made.tolist()]).all()
