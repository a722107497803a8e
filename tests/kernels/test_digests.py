from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.digests import blake2b


def batch(texts: list[bytes]):
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(texts) or b"\0", np.uint8)


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=8),
    st.binary(max_size=64),
    st.integers(1, 64),
)
def test_agrees_with_hashlib(texts, key, size):
    result = blake2b(*batch(texts), key=key, size=size)
    expected = [hashlib.blake2b(text, key=key, digest_size=size).digest() for text in texts]
    assert [row.tobytes() for row in result] == expected


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 255, 256, 257])
@pytest.mark.parametrize("key", [b"", b"k" * 32])
def test_agrees_at_the_edges_of_a_block(length, key):
    text = bytes(range(256))[:length] if length < 257 else bytes(257)
    result = blake2b(*batch([b"x", text, b""]), key=key, size=32)
    assert result[1].tobytes() == hashlib.blake2b(text, key=key, digest_size=32).digest()


@pytest.mark.parametrize("count", [15, 16, 17, 40])
@pytest.mark.parametrize("odd", [b"", b"x" * 129])
def test_short_texts_side_by_side_agree_too(count, odd):
    texts = [b"person %d" % i for i in range(count)]
    texts[count // 2 :: 20] = [odd] * len(texts[count // 2 :: 20])
    for key in (b"", b"k" * 32):
        result = blake2b(*batch(texts), key=key, size=20)
        expected = [hashlib.blake2b(item, key=key, digest_size=20).digest() for item in texts]
        assert [row.tobytes() for row in result] == expected


def test_refuses_what_the_standard_does_not_define():
    with pytest.raises(ValueError, match="at most 64"):
        blake2b(*batch([b"x"]), key=bytes(65))
