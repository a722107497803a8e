"""Our JSON is read in one way, or not at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.io.json_reader import parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(VALUES)
def test_what_is_plain_is_read_as_it_is(value):
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1, "a": 1}', b'[{"b": {"a": 1, "\\u0061": 2}}]', b"NaN", b"-Infinity", b"[1e999]",
     b"[" * 100_000 + b"]" * 100_000, b"9" * 5000, b"\xef\xbb\xbf{}", b"\xff", b"", b"{} {}",
     '{"a": 1}'.encode("utf-16")],
)  # fmt: skip
def test_what_is_not_is_refused(content):
    with pytest.raises(ValueError):  # noqa: PT011 - any
        parse_json(content)
