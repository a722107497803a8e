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
