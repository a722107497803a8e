"""The one door to releases on the disk: wherever a release is taken, its folder is taken too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.plan import Plan

if TYPE_CHECKING:
    from sfumato.run.composed_tables import EarlierTables
    from sfumato.run.tables import LinkedRelease
    from sfumato.storage.opening import OpenedRelease


def open_release(folder: str | Path, like: Any = None) -> OpenedRelease:
    """A release of one table with its custody record; `like` is a frame of the library wanted."""
    from sfumato.storage import opening

    return opening.open_release(Path(folder), like=like)


def read_plan_and_manifest(folder: str | Path) -> tuple[Plan, Mapping[str, Any]]:
    """The plan behind a release, and what everybody may know of it."""
    from sfumato.storage import opening

    return opening.read_plan_of(Path(folder)), opening.read_manifest(Path(folder))


def place_folder(folder: str | Path, release: LinkedRelease) -> EarlierTables:
    """An earlier release of several tables with the persons of today."""
    from sfumato.storage import tables

    return tables.open_folder(Path(folder), release)
