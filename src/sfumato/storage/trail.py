"""The audit trail of the studio in the custody of a release: who did what and when.

A line of JSON for each thing that was done, and at the end the tag of all of them under the key of
the release. It grows while others approve and sign, so the custody record does not hold its digest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.io.atomic import PRIVATE, write_file
from sfumato.io.json_reader import parse_json
from sfumato.randomness import Key
from sfumato.storage.authentication import TAG, compute_tag
from sfumato.storage.contents import TRAIL_FILE, is_plain_file


def write_trail(folder: Path, entries: Sequence[Mapping[str, Any]], key: Key) -> None:
    """Put the trail into the custody of a release, in place of the one that is there."""
    write_file(folder / TRAIL_FILE, _encode(entries, key), mode=PRIVATE)


def is_trail_genuine(folder: Path, key: Key) -> bool:
    """Whether the trail in a release was written by somebody who has the key."""
    path = folder / TRAIL_FILE
    if not is_plain_file(path):
        return False
    raw = path.read_bytes()
    try:
        lines = [parse_json(line) for line in raw.splitlines()]
        return raw == _encode(lines[:-1], key).encode()
    except (ValueError, TypeError, IndexError):
        return False


def _encode(entries: Sequence[Mapping[str, Any]], key: Key) -> str:
    tag = {TAG: compute_tag({"entries": list(entries)}, key, "trail")}
    return "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in (*entries, tag))
