"""Where a release may go, and a private place to prepare it in."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import ReleaseError, RepeatedReleaseWarning
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.storage.opened import ACCREDITED, CUSTODY, MANIFEST

_PARTIAL = ".sfumato-partial-"
_OURS = {MANIFEST, "report.html", ACCREDITED, CUSTODY}


def require_free(release: Release, target: Path, *, overwrite: bool) -> None:
    """Refuse a target that holds the original, a stranger's files, or a key that would be lost."""
    source = release.original.source
    if source and source.path and source.path.resolve().is_relative_to(target):
        raise ReleaseError(
            "The folder holds the original data and would be overwritten.",
            hint="write the release elsewhere.",
        )
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise ReleaseError(
            f"'{target}' exists already.", hint="choose another folder, or say --overwrite."
        )
    if not (target / MANIFEST).is_file():
        raise ReleaseError(
            f"'{target}' is not a release, so it is not overwritten.", hint="choose another folder."
        )
    strange = [one.name for one in target.iterdir() if not _ours(one)]
    if strange:
        raise ReleaseError(
            f"'{target}' holds files that are not of a release: {', '.join(sorted(strange)[:5])}.",
            hint="move them away, or choose another folder.",
        )
    if (target / CUSTODY / "key").is_file() and Key.of(target / CUSTODY / "key") != release.key:
        raise ReleaseError(
            f"Overwriting '{target}' would destroy the key of the release that lies there.",
            hint=f"use that key ({CUSTODY}/key), or choose another folder.",
        )


def _ours(path: Path) -> bool:
    return path.name in _OURS or path.name.partition(".")[0] == "data"


def warn_of_earlier(release: Release, target: Path) -> None:
    """Noise under two keys can be averaged; say so when another release of these data lies near."""
    mine = release.custody["input"]["records_digest"]
    found: list[str] = []
    for record in sorted(target.parent.glob(f"*/{CUSTODY}/custody.json")):
        if record.parts[-3].startswith(_PARTIAL):
            continue
        try:
            earlier = json.loads(record.read_text("utf-8"))
        except (OSError, ValueError):
            unread = f"'{record.parts[-3]}' could not be read: was it made from the same data?"
            warnings.warn(unread, RepeatedReleaseWarning, stacklevel=4)
            continue
        same_data = earlier.get("input", {}).get("records_digest") == mine
        if not same_data:
            continue
        if earlier.get("key_commitment") == release.key.commitment:
            return  # not a new key: whoever used the others has been warned
        found.append(record.parts[-3])
    if found:
        warnings.warn(
            "The same data were released before under another key, in "
            f"{', '.join(repr(one) for one in found)}. Who has both releases learns more than "
            f"from one: averaging leaves a share of 1/{len(found) + 1} of the noise's variance. "
            f"Hint: use the key in '{found[0]}/{CUSTODY}/key'.",
            RepeatedReleaseWarning,
            stacklevel=4,
        )


@contextmanager
def partial(target: Path) -> Iterator[Path]:
    """A private folder beside the target that does not outlive us, whatever happens."""
    for stale in target.parent.glob(f"{_PARTIAL}*"):
        if not _alive(stale):
            shutil.rmtree(stale, ignore_errors=True)
    place = target.parent / f"{_PARTIAL}{os.getpid()}-{secrets.token_hex(4)}"
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _alive(stale: Path) -> bool:
    try:
        os.kill(int(stale.name.removeprefix(_PARTIAL).partition("-")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
