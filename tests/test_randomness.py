from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import DataError
from sfumato.randomness import Draws, Key, encrypt, keyed_order

KEY = Key(bytes(range(32)))


def ids(records: int):
    return encrypt(np.arange(2 * records, dtype=np.uint64).reshape(-1, 2), bytes(32))


def test_a_draw_is_pinned_for_good():
    # Computed once with `cryptography` 50.0.2; a change here would change every release.
    draws = Draws(KEY, 3, ids(3))
    assert draws.uniform("income").tolist() == PINNED_UNIFORM
    assert draws.uniform("income", 1).tolist() == PINNED_ODD


PINNED_UNIFORM = [0.293338950679001, 0.9354157068753646, 0.6298400748561386]
PINNED_ODD = [0.045886937104110126, 0.8887807562476342, 0.16309057241373398]


def test_draws_follow_the_record_and_not_the_row():
    known = ids(500)
    order = np.random.default_rng(1).permutation(500)
    direct, shuffled = Draws(KEY, 0, known), Draws(KEY, 0, known[order])
    assert (direct.normal("x")[order] == shuffled.normal("x")).all()
    parts = [Draws(KEY, 0, part).normal("x") for part in np.array_split(known, 7)]
    assert (np.concatenate(parts) == direct.normal("x")).all()


@pytest.mark.parametrize(
    "other",
    [
        Draws(Key(bytes(32)), 0, ids(1000)).uniform("x"),
        Draws(KEY, 1, ids(1000)).uniform("x"),
        Draws(KEY, 0, ids(1000)).uniform("y"),
        Draws(KEY, 0, ids(1000)).uniform("x", 1),
        Draws(KEY, 0, ids(1000)).uniform("x", 2),
    ],
    ids=["key", "step", "column", "draw", "next block"],
)
def test_another_key_step_column_or_draw_is_independent(other):
    mine = Draws(KEY, 0, ids(1000)).uniform("x")
    assert abs(np.corrcoef(mine, other)[0, 1]) < 0.12
    assert not (mine == other).any()


def test_draws_have_the_distribution_they_claim():
    draws = Draws(KEY, 0, ids(200_000))
    assert stats.kstest(draws.uniform("x"), "uniform").pvalue > 0.001
    assert stats.kstest(draws.normal("x"), "norm").pvalue > 0.001
    assert draws.uniform("x").min() > 0
    assert draws.uniform("x").max() < 1


def test_no_record_no_draw():
    assert Draws(KEY, 0, ids(0)).uniform("x").shape == (0,)
    assert keyed_order(ids(0), KEY).shape == (0,)


def test_the_order_follows_the_records():
    known = ids(300)
    shuffle = np.random.default_rng(2).permutation(300)
    one, other = keyed_order(known, KEY), keyed_order(known[shuffle], KEY)
    assert (known[one] == known[shuffle][other]).all()
    assert not (one == np.arange(300)).all()


def test_the_whole_block_decides_where_the_high_bits_tie(monkeypatch):
    """Blocks that differ only in their low bits, or only in the second word."""
    random = np.random.default_rng(5)
    blocks = random.integers(0, 3, (200, 2)).astype(np.uint64)
    blocks[:, 0] += random.integers(0, 2, 200).astype(np.uint64) << np.uint64(60)
    monkeypatch.setattr("sfumato.randomness.encrypt", lambda some, subkey: some)
    order = keyed_order(blocks, KEY)
    assert (blocks[order] == blocks[np.lexsort((blocks[:, 1], blocks[:, 0]))]).all()
    assert sorted(order) == list(range(200))


def test_a_key_is_never_shown():
    key = Key.new()
    shown = f"{key} {key!r} {Draws(key, 0, ids(1))!r}"
    assert key.text not in shown
    assert str(key.secret) not in shown
    assert key.commitment[:12] in repr(key)


def test_keys_come_from_bytes_hexadecimal_or_a_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY.text + "\n")
    assert Key.of(KEY.secret) == Key.of(KEY.text) == Key.of(path) == Key.of(str(path)) == KEY
    assert Key.new() != Key.new()


@pytest.mark.parametrize("bad", [b"short", "correct horse battery staple", "no/such/file"])
def test_a_passphrase_is_refused_and_not_repeated(bad):
    with pytest.raises(DataError) as error:
        Key.of(bad)
    assert "horse" not in str(error.value)


def test_the_commitment_binds_and_hides():
    assert Key(bytes(32)).commitment != KEY.commitment
    assert KEY.text not in KEY.commitment
    assert len({KEY.subkey("a", "b"), KEY.subkey("ab"), KEY.subkey("a", "b", 0)}) == 3


def test_a_lasting_draw_is_pinned_for_good():
    draws = Draws(KEY, 3, ids(3))
    made = draws.lasting("income", "noise", np.array([1.0, 2.5, -3.0]))
    assert made.tolist() == PINNED_LASTING
    assert (Draws(KEY, 0, ids(3)).lasting("income", "noise", np.array([1, 2.5, -3])) == made).all()


PINNED_LASTING = [0.6197543762468204, 0.0722321876506481, 0.8584383400676966]


def test_lasting_draws_follow_record_column_purpose_and_value():
    known, values = ids(1000), np.linspace(-5, 5, 1000)
    draws = Draws(KEY, 0, known)
    mine = draws.lasting("x", "a", values)
    order = np.random.default_rng(1).permutation(1000)
    assert (Draws(KEY, 9, known[order]).lasting("x", "a", values[order]) == mine[order]).all()
    others = [
        draws.lasting("y", "a", values),
        draws.lasting("x", "b", values),
        draws.lasting("x", "a", values + 0.01),
        Draws(Key(bytes(32)), 0, known).lasting("x", "a", values),
        draws.uniform("x"),
    ]
    for other in others:
        assert abs(np.corrcoef(mine, other)[0, 1]) < 0.12
        assert not (mine == other).any()


def test_lasting_draws_know_a_value_by_seven_digits():
    draws = Draws(KEY, 0, ids(4))
    one = draws.lasting("x", "a", np.array([0.1, 0.0, 1e300, np.nan]))
    other = draws.lasting("x", "a", np.array([np.float32(0.1), -0.0, 2e300, np.nan], float))
    assert (one == other).all()


def test_lasting_draws_are_sliced_without_a_trace():
    from sfumato.randomness import SLICE

    known, values = ids(SLICE + 5), np.ones(SLICE + 5)
    whole = Draws(KEY, 0, known).lasting("x", "a", values)
    last = Draws(KEY, 0, known[SLICE - 3 :]).lasting("x", "a", values[SLICE - 3 :])
    assert (whole[SLICE - 3 :] == last).all()


def test_ten_million_draws_fit_their_distributions():
    """The middle by classes of equal probability, the tails by their counts."""
    from sfumato.kernels.sampling.deviates import exponential, normal

    records, parts = 10_000_000, 8
    edges = np.linspace(0, 1, 1001)[1:-1]
    shapes = {normal: stats.norm, exponential: stats.expon}
    counts = {invert: np.zeros(1000) for invert in shapes}
    tails = {invert: np.zeros(6) for invert in shapes}
    beyond = np.array([1e-3, 1e-4, 1e-5])
    for part in range(parts):
        some = np.arange(2 * records // parts, dtype=np.uint64).reshape(-1, 2)
        some[:, 1] += np.uint64(part << 40)
        uniform = Draws(KEY, 0, some).lasting("x", "a", np.zeros(len(some)))
        for invert, shape in shapes.items():
            made = invert(uniform)
            made.sort()
            places = np.searchsorted(made, shape.ppf(edges))
            counts[invert] += np.diff(places, prepend=0, append=len(made))
            low = np.searchsorted(made, shape.ppf(beyond))
            high = len(made) - np.searchsorted(made, shape.isf(beyond))
            tails[invert] += np.concatenate([low, high])
    for invert in shapes:
        assert stats.chisquare(counts[invert]).pvalue > 1e-4
        for found, share in zip(tails[invert], np.tile(beyond, 2), strict=True):
            assert stats.binomtest(int(found), records, share).pvalue > 1e-5


def test_deviates_agree_with_another_implementation():
    from scipy.special import ndtri

    from sfumato.kernels.sampling.deviates import exponential, log, normal

    uniform = np.concatenate(
        [
            np.linspace(1e-9, 1 - 1e-9, 40_001),
            2.0 ** -np.arange(1, 54),
            1 - 2.0 ** -np.arange(2, 53),
        ]
    )
    np.testing.assert_allclose(normal(uniform), ndtri(uniform), rtol=2e-15, atol=1e-16)
    np.testing.assert_allclose(
        exponential(uniform), stats.expon.isf(uniform), rtol=1e-13, atol=1e-15
    )
    positive = np.exp(np.linspace(-700, 700, 5001))
    np.testing.assert_allclose(log(positive), np.log(positive), rtol=3e-16, atol=1e-16)
    half = uniform[uniform < 0.5]
    exact = 1 - (1 - half) == half
    assert (normal(1 - half[exact]) == -normal(half[exact])).all()


def test_compiled_deviates_are_the_same_bits(monkeypatch):
    from sfumato.kernels.sampling import deviates

    some = np.arange(400_000, dtype=np.uint64).reshape(-1, 2)
    uniform = Draws(KEY, 0, some).lasting("x", "a", np.zeros(len(some)))
    uniform[:120] = np.concatenate([2.0 ** -np.arange(1, 61), 1 - 2.0 ** -np.arange(1, 61)])
    uniform = uniform[uniform < 1]
    compiled = [deviates.normal(uniform), deviates.exponential(uniform)]
    monkeypatch.setattr(deviates, "FEW", len(uniform))
    assert (deviates.normal(uniform) == compiled[0]).all()
    assert (deviates.exponential(uniform) == compiled[1]).all()
    assert (deviates.normal(uniform.copy(), out=uniform) == compiled[0]).all()


def test_deviates_are_pinned_for_good():
    """Only operations that every machine does alike: these are the bits everywhere."""
    from sfumato.kernels.sampling.deviates import exponential, normal

    uniform = np.array([2.0**-53, 1e-5, 0.07, 0.3, 0.9])
    assert normal(uniform).tolist() == PINNED_NORMAL
    assert exponential(uniform).tolist() == PINNED_EXPONENTIAL


PINNED_NORMAL = [
    -8.209536151601386,
    -4.2648907939228256,
    -1.4757910281791702,
    -0.5244005127080407,
    1.2815515655446006,
]
PINNED_EXPONENTIAL = [
    36.7368005696771,
    11.512925464970229,
    2.659260036932778,
    1.2039728043259361,
    0.10536051565782628,
]
