"""The path of a record: normal at every variance, with independent increments, the same bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from sfumato.kernels.sampling import brownian, deviates
from sfumato.randomness import Draws, Key, encrypt

KEY = Key(bytes(range(32)))
RECORDS = 20_000
variances = st.floats(1e-300, 1e300) | st.floats(1e-3, 1e3) | st.integers(1, 50).map(float)


def ids(records: int) -> np.ndarray:
    return encrypt(np.arange(2 * records, dtype=np.uint64).reshape(-1, 2), bytes(32))


IDS = ids(RECORDS)
X = np.zeros(RECORDS)


def path(variance: float | np.ndarray, records: int = RECORDS) -> np.ndarray:
    size = variance[:records] if isinstance(variance, np.ndarray) else variance
    return Draws(KEY, 0, IDS[:records]).path("x", "as it is", X[:records], size)


# An independent reading: one record, Python's numbers, scipy's quantiles ------------------------


def slow_path(record: np.ndarray, value: float, variance: float) -> float:
    cipher = Cipher(algorithms.AES(KEY.subkey("noise path", "x", "as it is")), modes.ECB())  # noqa: S305
    short = int(np.float32(value).view(np.uint32))

    def draw(tweak: int, slot: int) -> float:
        block = (int(record[0]) ^ short).to_bytes(8, "little")
        block += (int(record[1]) ^ tweak).to_bytes(8, "little")
        encryptor = cipher.encryptor()
        out = encryptor.update(block)
        first, second = (int.from_bytes(part, "little") for part in (out[:8], out[8:]))
        low = (1 << 22) - 1
        third = (first & low) << 20 | (second & low) >> 2
        bits = (first >> 22, second >> 22, third)[slot]
        size = -float(ndtri((bits // 2 + 0.5) / 2**42))
        return size if bits % 2 else -size

    def increment(block: int) -> float:
        """Over a whole block of 64 octaves, in units of its standard deviation."""
        return draw((block // 2 + 256) << 16, block % 2)

    block = (math.frexp(variance)[1] - 1) // 64
    # The ends of the cells in units of the block's start.
    scaled = math.ldexp(variance, -64 * block)
    edges = [2.0**octave * (1 + cell / 128) for octave in range(64) for cell in range(128)]
    edges.append(2.0**64)
    low, high, node = 0, len(edges) - 1, 1
    at_low = increment(block - 1) + 2.0**-32 * increment(block - 2)
    at_high = at_low + 2.0**32 * increment(block)
    pending: list[float] = []
    while high - low > 1:
        middle = (low + high) // 2
        a, m, b = edges[low], edges[middle], edges[high]
        if not pending:
            tweak = (block + 256) << 16 | node
            pending = [draw(tweak, 0), draw(tweak, 2 if scaled >= m else 1)]
        deviate = pending.pop(0)
        at_middle = ((b - m) * at_low + (m - a) * at_high) / (b - a)
        at_middle += math.sqrt((m - a) * (b - m) / (b - a)) * deviate
        if scaled >= m:
            low, at_low, node = middle, at_middle, 2 * node + 1
        else:
            high, at_high, node = middle, at_middle, 2 * node
    (deviate,) = pending
    a, b = edges[low], edges[high]
    between = ((b - scaled) * at_low + (scaled - a) * at_high) / (b - a)
    bridge = math.sqrt((scaled - a) * (b - scaled) / (b - a))
    return 2.0 ** (32 * block) * (between + bridge * deviate)


@given(variances, st.floats(-1e6, 1e6, width=32), st.integers(0, RECORDS - 1))
@settings(max_examples=60)
def test_the_path_is_that_of_an_independent_reading(variance, value, record):
    draws = Draws(KEY, 0, IDS[record : record + 1])
    made = float(draws.path("x", "as it is", np.array([value]), variance)[0])
    slow = slow_path(IDS[record], value + 0.0, variance)
    assert made == pytest.approx(slow, rel=1e-9, abs=1e-9 * math.sqrt(variance))


# What it must be --------------------------------------------------------------------------------


@given(variances)
@settings(max_examples=25)
def test_noise_has_the_variance_it_says_and_is_normal(variance):
    scaled = path(variance) / math.sqrt(variance)
    assert scaled.var() == pytest.approx(1, rel=5 * math.sqrt(2 / RECORDS))
    assert abs(scaled.mean()) < 5 / math.sqrt(RECORDS)
    assert stats.kstest(scaled, "norm").pvalue > 1e-5


@given(st.lists(variances, min_size=2, max_size=4, unique=True))
@settings(max_examples=25)
def test_increments_are_independent_of_what_came_before(sizes):
    sizes = sorted(sizes)
    made = [path(size) for size in sizes]
    for number in range(1, len(sizes)):
        added = made[number] - made[number - 1]
        width = sizes[number] - sizes[number - 1]
        if width < 1e-6 * sizes[number] or _share_a_cell(*sizes[number - 1 : number + 1]):
            continue
        assert added.var() == pytest.approx(width, rel=0.06)
        for earlier in made[:number]:
            assert abs(np.corrcoef(earlier, added)[0, 1]) < 5 / math.sqrt(RECORDS)


def _share_a_cell(low: float, high: float) -> bool:
    one, other = brownian.locate(low), brownian.locate(high)
    return bool(one.block[0] == other.block[0] and one.cell[0] == other.cell[0])


def test_within_a_cell_two_sizes_tell_its_beginning_and_no_more():
    """The bound that the docs state: a > v * 128 / 129."""
    begin, end = 1 + 64 / 128, 1 + 65 / 128
    three = [begin + share / 128 for share in (0.2, 0.5, 0.9)]
    # Three sizes in the cell solve for its beginning: the increment, and the cell's deviate.
    rows = [
        [1, (v - begin) / (end - begin), math.sqrt((v - begin) * (end - v) / (end - begin))]
        for v in three
    ]
    solved = np.linalg.solve(rows, [path(size) for size in three])[0]
    np.testing.assert_allclose(solved, path(begin), atol=1e-9)
    for size in np.exp(np.random.default_rng(1).uniform(-300, 300, 3000)):
        place = brownian.locate(size)
        start = brownian.EDGES[place.cell[0]] * float(place.unit[0]) ** 2
        assert size * 128 / 129 < start <= size


def test_a_size_of_its_own_for_each_record_is_on_the_same_path():
    sizes = np.exp(np.random.default_rng(2).uniform(-40, 40, RECORDS))
    sizes[:4] = 0.0, math.nan, 5.0, math.inf
    made = path(sizes)
    assert made[0] == made[1] == 0
    assert math.isinf(made[3])
    assert made[2] == path(5.0)[2]
    for record in (4, 500, RECORDS - 1):
        assert made[record] == path(float(sizes[record]))[record]


def test_few_and_many_records_have_the_same_bits(monkeypatch):
    sizes = np.exp(np.random.default_rng(3).uniform(-100, 100, RECORDS))
    for size in (0.3, 2.0**64, sizes):
        compiled = path(size)
        monkeypatch.setattr(deviates, "FEW", RECORDS)
        assert (path(size) == compiled).all()
        monkeypatch.undo()
        assert (path(size, 700) == compiled[:700]).all()


def test_the_path_is_pinned_for_good():
    """A change here would change every release with noise."""
    draws = Draws(KEY, 3, ids(3))
    values = np.array([1.0, 2.5, -3.0])
    assert draws.path("income", "null", values, 4.0).tolist() == PINNED[0]
    assert draws.path(" INCOME", "null", values, np.array([4.0, 1e-9, 7e8])).tolist() == PINNED[1]


PINNED = [
    [3.3704004109702383, -3.2215885534024826, 0.20919634946690085],
    [3.3704004109702383, 2.30659596298986e-05, -50695.32213384174],
]


@pytest.mark.parametrize("what", ["value", "column", "purpose", "key", "record"])
def test_another_value_column_purpose_key_or_record_has_another_path(what):
    other = {
        "value": lambda: Draws(KEY, 0, IDS).path("x", "as it is", X + 0.25, 4.0),
        "column": lambda: Draws(KEY, 0, IDS).path("y", "as it is", X, 4.0),
        "purpose": lambda: Draws(KEY, 0, IDS).path("x", "log", X, 4.0),
        "key": lambda: Draws(Key(bytes(32)), 0, IDS).path("x", "as it is", X, 4.0),
        "record": lambda: Draws(KEY, 0, np.roll(IDS, 1, axis=0)).path("x", "as it is", X, 4.0),
    }[what]()
    assert abs(np.corrcoef(path(4.0), other)[0, 1]) < 5 / math.sqrt(RECORDS)


def test_normal_numbers_agree_with_another_implementation():
    random = np.random.default_rng(4)
    bits = random.integers(0, 2**42, 200_000).astype(np.uint64)
    powers = 2 ** np.arange(42, dtype=np.uint64)
    bits = np.concatenate([bits, powers, powers - 1, 2**42 - powers, np.arange(200)])
    bits = bits.astype(np.uint64)
    tail = ((bits >> np.uint64(1)).astype(float) + 0.5) * 2.0**-42
    exact = np.where(bits & np.uint64(1), -ndtri(tail), ndtri(tail))
    np.testing.assert_allclose(brownian.draw_normal(bits), exact, rtol=0, atol=1e-12)
