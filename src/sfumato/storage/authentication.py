"""Records that only the holder of the key can write: JSON with a keyed tag at its end.

Question: is this the record that was written, or did somebody write another one?
A digest can be computed by everybody, so whoever changes a file changes its digest too. The tag is
HMAC-SHA-256 (RFC 2104) under a subkey of the release's key: without the key nobody can compute it,
and it tells nothing of the key. Every record has one spelling; another spelling of the same values
is another record.

Assumes: the key is secret. Whoever has it can write any record.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Literal

from sfumato.errors import ReleaseError
from sfumato.io.json_reader import parse_json
from sfumato.randomness import Key

TAG = "authentication"
Purpose = Literal["manifest", "accredited", "custody", "trail"]
"""A tag holds for one purpose only: a manifest is no custody record."""


def encode_json(content: Mapping[str, Any]) -> bytes:
    """The bytes in which manifests and custody records are written."""
    return json.dumps(content, indent=2, ensure_ascii=False, default=str, allow_nan=False).encode()


def encode_with_tag(content: Mapping[str, Any], key: Key, purpose: Purpose) -> bytes:
    """The bytes of a record with its tag."""
    encoded = encode_json({**content, TAG: compute_tag(content, key, purpose)})
    try:
        parse_json(encoded)
    except ValueError:
        # For instance the names 1 and "1" in one table: they are one name in JSON.
        raise ReleaseError(
            f"The {purpose} record cannot be written so that it is read in one way only.",
            hint="give levels and labels names that differ as text.",
        ) from None
    return encoded


def compute_tag(content: Mapping[str, Any], key: Key, purpose: Purpose) -> str:
    """The tag of a record; one that it has already does not count.

    Examples
    --------
    >>> key = Key(bytes(32))
    >>> first, second = (compute_tag({"k": k}, key, "manifest") for k in (5, 6))
    >>> first == second, len(first)
    (False, 64)
    """
    record = {name: value for name, value in content.items() if name != TAG}
    subkey = key.subkey("authentication", purpose)
    return hmac.new(subkey, encode_json(record), hashlib.sha256).hexdigest()


def is_authentic(content: dict[str, Any], key: Key, purpose: Purpose) -> bool:
    """Whether a record was written by somebody who has the key."""
    if next(reversed(content), None) != TAG:
        return False  # we write it last; elsewhere it would be another spelling
    tag = content[TAG]
    try:
        expected = compute_tag(content, key, purpose)
    except ValueError:  # half a character, which no record of ours holds
        return False
    return isinstance(tag, str) and tag.isascii() and hmac.compare_digest(tag, expected)


def is_as_written(raw: bytes, content: Mapping[str, Any]) -> bool:
    """Whether these are the very bytes in which we write this record."""
    try:
        return raw == encode_json(content)
    except ValueError:
        return False
