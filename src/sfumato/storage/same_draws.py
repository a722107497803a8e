"""Refuse to draw anew for the same values under the same key.

Noise of several sizes is on one path, and tells no more than the smallest. Noise of another shape,
on another scale or of values that were changed before is independent: who has both averages them.
So are the draws of records that are told apart otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import ReleaseError
from sfumato.methods.noise_tiers import THEN
from sfumato.randomness import fold_name
from sfumato.release import Release
from sfumato.storage.contents import RECORD_FILE
from sfumato.storage.earlier import FoundRelease

_WORDS = {
    "method": "another method",
    "distribution": "noise of another distribution",
    "scale": "noise on another scale",
    "variance": "Laplace noise of another size",
    "growth": "a variance that depends otherwise on the value",
    "levels": "other levels",
    "domains": "other domains",
    "matrix": "another matrix",
    "variables": "other variables perturbed together",
    "strata": "other covariances",
    "before": "other steps before it",
    "chain": "other tiers",
}


def require_same_draws(
    release: Release, target: Path, earlier_releases: Iterable[FoundRelease]
) -> None:
    """Refuse a release whose draws are independent of earlier ones under the same key.

    Parameters
    ----------
    release : what is about to be written.
    target : where to; what is overwritten may be out already.
    earlier_releases : of the same records: what the ledger says of them counts, else the
        record in their folder. And the record beside the file that the key was read from.
    """
    for label, earlier in _list_records(release, target, earlier_releases):
        if earlier.get("key_commitment") != release.key.commitment:
            continue
        if changes := list_new_draws(earlier, release.custody):
            raise ReleaseError(
                f"The key is that of {label}, and noise would be drawn again: "
                f"{'; '.join(changes)}. Anybody who has both releases can average it.",
                hint="do as in the earlier release (another size of normal noise is fine), or use "
                "another key and let the composition of both be measured. If nobody has the "
                "earlier release, delete its folder.",
            )


def _list_records(
    release: Release, target: Path, earlier_releases: Iterable[FoundRelease]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What is known of earlier releases, each with a name for it."""
    paths = [target / RECORD_FILE]
    if release.key.file is not None:
        # The record lies beside the key, also where both were moved to a safe place.
        paths.append(release.key.file.parent / Path(RECORD_FILE).name)
    for item in earlier_releases:
        paths.append(item.folder / RECORD_FILE)
        if item.entry is not None:
            basis = {"identity": item.identity}
            known = {"key_commitment": item.key_commitment, "input": basis}
            yield item.label, {**known, "noise_paths": item.entry.paths}
    for path in dict.fromkeys(path.resolve() for path in paths):
        yield f"'{path.parent.parent.name}'", _read_record(path)


def _read_record(path: Path) -> Mapping[str, Any]:
    """A custody record; nothing where there is none that can be read: others say so."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("input"), dict) else {}


def digest_paths(paths: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The same with a digest in place of each part: enough to see what changed.

    Examples
    --------
    >>> digest_paths({"age": {"scale": None}})["age"]["scale"][:8]
    '74234e98'
    """
    return {
        name: {part: _digest_part(value) for part, value in path.items()}
        for name, path in paths.items()
    }


def _digest_part(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def list_new_draws(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What of two custody records makes draws for the same variable independent, in words.

    In the earlier one, digests may stand in place of the parts of `noise_paths`.

    Examples
    --------
    >>> then, today = ({"input": {}, "noise_paths": {"age": {"scale": s}}} for s in (None, "log"))
    >>> list_new_draws(then, today)
    ["'age' has noise on another scale"]
    """
    before = {fold_name(name): path for name, path in earlier.get("noise_paths", {}).items()}
    changes = []
    for name, path in now.get("noise_paths", {}).items():
        if (known := before.get(fold_name(name))) is None:
            continue
        parts = [
            part
            for part in {**known, **path}
            # A tier that was exchanged more often is the other one, exchanged again.
            if not (part.startswith(THEN) and (part not in known or part not in path))
            and not _is_same(known, path, part)
        ]
        if parts:
            words = _WORDS.get(parts[0], "noise of another kind")
            changes.append(f"'{name}' has {words}")
    if before and now.get("noise_paths") and (change := _compare_basis(earlier, now)):
        changes.append(change)
    return changes


def _is_same(known: Mapping[str, Any], path: Mapping[str, Any], part: str) -> bool:
    before, now = known.get(part), path.get(part)
    return before in (now, _digest_part(now))


def _compare_basis(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In what records are told apart otherwise; nothing if they are not."""
    then, today = earlier["input"], now["input"]
    if then.get("identity") != today.get("identity"):
        return f"records are told apart by {today.get('identity')}, not by {then.get('identity')}"
    columns = then.get("identity_columns")
    if columns is not None and columns != today.get("identity_columns"):
        return "records are told apart by their content, and have other variables"
    return ""
