"""A release of several tables, opened: each of them as the release of one table is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.errors import ReleaseError
from sfumato.kernels.arrays import Words
from sfumato.plan import Plan
from sfumato.storage.contents import CUSTODY, RECORD_FILE, REMOVED
from sfumato.storage.opening import (
    OpenedRelease,
    is_of_several,
    open_data,
    read_accredited_manifest,
    read_any_manifest,
    read_custody,
    require_custody,
)


def find_private(folder: Path, table: str) -> Path:
    """Where the private files of a table lie."""
    return folder / CUSTODY / f"table-{table}"


@dataclass(frozen=True, eq=False)
class OpenedTable(OpenedRelease):
    """One table of a release of several, as it is on the disk.

    Parameters
    ----------
    table : its name.
    own_record : its part of the custody record.
    """

    table: str = ""
    own_record: Mapping[str, Any] | None = None

    def plan(self) -> Plan:
        """The plan of this table, steps over all tables among them; only the custodian has it."""
        return Plan.parse(self.record()["plan"])

    def record(self) -> dict[str, Any]:
        """The custody record of this table; only the custodian has it."""
        require_custody(self.folder)
        return dict(self.own_record or {})

    @property
    def noise(self) -> Mapping[str, Any]:
        """The noise as described here: in full where the accredited manifest is here too."""
        accredited = read_accredited_manifest(self.folder)
        facts = self.manifest if accredited is None else accredited["tables"][self.table]
        noise: Mapping[str, Any] = facts.get("noise", {})
        return noise

    def _read_removed(self) -> Words:
        path = find_private(self.folder, self.table) / REMOVED
        return pl.read_parquet(path).to_numpy() if path.is_file() else np.empty((0, 2), np.uint64)


def open_tables(folder: str | Path) -> dict[str, OpenedRelease]:
    """Open a release of several tables: each of them by its name, as its manifest describes it.

    Parameters
    ----------
    folder : the release, with its custody record or without.
    """
    path = Path(folder)
    manifest = read_any_manifest(path)
    if not is_of_several(manifest):
        raise ReleaseError(f"'{path}' is a release of one table.", hint="pass it as it is.")
    record = read_custody(path) if (path / RECORD_FILE).is_file() else {"tables": {}}
    opened: dict[str, OpenedRelease] = {}
    for name, facts in manifest["tables"].items():
        data = open_data(path, facts)
        opened[name] = OpenedTable(
            path, data.dataset, facts, name, own_record=record["tables"].get(name)
        )
    return opened
