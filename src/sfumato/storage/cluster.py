"""The records of a release as many files, written and read by the workers of a cluster.

release/
  data.parquet/part-00000.parquet …     the protected records, in the order of the key

Which records are in which file, and in which order, follows from key, plan and original alone. A
task that fails, is repeated, or runs twice therefore writes the same bytes. It writes under a name
of its own and gives the file its name when it is complete.

Assumes: the workers see the release's folder under the same path as the driver (one machine, or a
shared file system).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato import __version__
from sfumato.data import Dataset, read
from sfumato.data.identity import Identity, match_identities
from sfumato.errors import ReleaseError
from sfumato.io import write_table
from sfumato.kernels.arrays import Integers, Words
from sfumato.randomness import Key, encrypt
from sfumato.release import Release
from sfumato.storage.contents import sha256

RECORDS_A_FILE = 1_000_000
_SCRATCH = ".tasks"
_PART, _HIGH, _LOW = "__sfumato_part", "__sfumato_high", "__sfumato_low"
_REPORT = {
    "number": pl.Int64(), "sha256": pl.String(), "records": pl.Int64(), "facts": pl.String(),
    "versions": pl.String(),
}  # fmt: skip
_PUBLIC = 0o644


@dataclass(frozen=True)
class Arrangement:
    """Where each record of a release stands: in which file, and in which order.

    Parameters
    ----------
    key : the custodian's.
    purpose : what the order is derived from besides; see `Release.arrangement`.
    files : how many there are.
    """

    key: Key
    purpose: str
    files: int

    def place(self, identity: Identity) -> tuple[Integers, Words]:
        """The file of each record, and the block by which it is sorted there."""
        blocks = encrypt(identity.ids(self.key), self.key.subkey("order", self.purpose))
        high = blocks[:, 0] >> np.uint64(32)
        return (high * np.uint64(self.files) >> np.uint64(32)).astype(np.int64), blocks


def count_files(records: int) -> int:
    """How many files a release of so many records has."""
    return max(1, -(-records // RECORDS_A_FILE))


def write_parts(release: Release, folder: Path) -> dict[str, Any]:
    """Let the workers write the records into a folder; what the manifest says of them.

    Parameters
    ----------
    release : whose records are on a cluster.
    folder : where to; its suffix is that of the files.
    """
    from sfumato.engines.spark import collect, map_parts, map_records

    suffix, formulas = folder.suffix, release.plan.release.formulas
    arrangement = Arrangement(release.key, release.arrangement, count_files(len(release.dataset)))
    scratch = folder / _SCRATCH
    for directory in (folder, scratch):
        directory.mkdir(mode=0o755)
    columns = list(release.dataset.columns)
    types = {name: release.dataset.dtype(name) for name in columns}

    def arrange(part: pl.DataFrame, identity: Identity) -> pl.DataFrame:
        numbers, blocks = arrangement.place(identity)
        order_columns = [pl.Series(_PART, numbers), pl.Series(_HIGH, blocks[:, 0].view(np.int64)),
                         pl.Series(_LOW, blocks[:, 1].view(np.int64))]  # fmt: skip
        return part.with_columns(order_columns)

    def write(part: pl.DataFrame) -> pl.DataFrame:
        rows = []
        for (number,), records in part.group_by(_PART):
            order = _find_order(records)
            frame = pl.DataFrame([_clear_sign(values) for values in records.select(columns)])
            path = scratch / f"{secrets.token_hex(8)}{suffix}"
            facts = write_table(frame, path, formulas=formulas, order=order)
            path.chmod(_PUBLIC)
            digest = sha256(path)
            path.replace(folder / name_part(int(number), suffix))
            rows.append((number, digest, records.height, json.dumps(facts), _versions()))
        return pl.DataFrame(rows, schema=_REPORT, orient="row")

    placed = map_records(
        release.dataset, arrange, types | dict.fromkeys((_PART, _HIGH, _LOW), pl.Int64())
    )
    tasks = map_parts(placed.repartition(arrangement.files, _PART), write, _REPORT)
    reports = [row.asDict() for row in collect(tasks)]
    shutil.rmtree(scratch, ignore_errors=True)  # a task that still runs finds no way to go on
    return _describe(folder, reports, release)


def _describe(
    folder: Path, reports: Iterable[Mapping[str, Any]], release: Release
) -> dict[str, Any]:
    """What the workers wrote, held against what must be there."""
    suffix, by_number = folder.suffix, {int(row["number"]): row for row in reports}
    facts = [json.loads(row["facts"]) for row in by_number.values()]
    digests = {name_part(n, suffix): by_number[n]["sha256"] for n in sorted(by_number)}
    if any(row["versions"] != _versions() for row in by_number.values()):
        raise ReleaseError(
            "The workers have other versions of Sfumato, Polars or PyArrow than the driver.",
            hint="install the same versions everywhere: other versions may write other bytes.",
        )
    if {path.name for path in folder.iterdir()} != set(digests):
        raise ReleaseError(
            "The files that the workers have written are not in the release's folder.",
            hint="write to a folder that driver and workers see under the same path, such as one "
            "on a shared file system.",
        )
    if sum(fact["records"] for fact in facts) != len(release.dataset):
        raise ReleaseError("The files do not hold as many records as were protected.")
    return {
        "file": folder.name,
        "sha256": digest_listing(digests),
        "files": count_files(len(release.dataset)),
        "parts": digests,
        **(facts[0] if facts else {}),
        "records": sum(fact["records"] for fact in facts),
        "escaped_cells": sum(fact["escaped_cells"] for fact in facts),
    }


def name_part(number: int, suffix: str) -> str:
    """The name of a file among the others."""
    return f"part-{number:05d}{suffix}"


def digest_listing(digests: Mapping[str, str]) -> str:
    """One digest for all files: of their list, as `sha256sum` prints it."""
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def list_parts(data: Mapping[str, Any]) -> dict[str, str]:
    """The files of a release's data by their path in its folder, with their digests."""
    if "parts" not in data:
        return {data["file"]: data["sha256"]}
    return {f"{data['file']}/{name}": digest for name, digest in data["parts"].items()}


def read_parts(session: Any, folder: Path, data: Mapping[str, Any], options: Any) -> Any:
    """The data of a release as a frame on the cluster of a session; each file by one task."""
    from sfumato.engines.spark import map_parts

    names = list(list_parts(data))
    types = _read_types(folder / names[0], options)

    def read_files(part: pl.DataFrame) -> pl.DataFrame:
        tables: list[pl.DataFrame] = [read(folder / n, **options).frame for n in part["name"]]
        return pl.concat(tables)

    listing = session.createDataFrame([(name,) for name in names], "name string")
    return map_parts(listing.repartition(len(names)), read_files, types)


def pair_parts(
    folder: Path,
    data: Mapping[str, Any],
    options: Any,
    original: Dataset,
    arrangement: Arrangement,
    removed: Words,
) -> tuple[Any, Identity]:
    """The released records on a cluster, with the ids that they have in an original there.

    The ids of the original are brought into the order of the release, file by file; there the
    records are read beside them.
    """
    from sfumato.engines.spark import ID_COLUMNS, map_parts, map_records, split_off_ids

    names = list(list_parts(data))
    # A single file is the first and only one, whatever its name.
    numbered = {int(Path(n).stem.rpartition("-")[2]): n for n in names} if "parts" in data else {}
    types = _read_types(folder / names[0], options)

    def arrange(part: pl.DataFrame, identity: Identity) -> pl.DataFrame:
        del part
        numbers, blocks = arrangement.place(identity)
        words = np.column_stack([identity.digests, blocks]).view(np.int64)
        series = [pl.Series(n, words[:, i]) for i, n in enumerate((*ID_COLUMNS, _HIGH, _LOW))]
        placed = pl.DataFrame([pl.Series(_PART, numbers), *series])
        if len(removed):
            placed = placed.filter(match_identities(removed, identity.ids(arrangement.key)) < 0)
        return placed

    def attach(part: pl.DataFrame) -> pl.DataFrame:
        tables: list[pl.DataFrame] = []
        for (number,), ids in part.group_by(_PART):
            name = numbered.get(int(number), names[0])
            records = read(folder / name, **options).frame
            if records.height != ids.height:
                raise ReleaseError("The data have other records than the original.")
            ordered = ids.select(ID_COLUMNS)[_find_order(ids)]
            tables.append(pl.concat([records, ordered], how="horizontal"))
        return pl.concat(tables)

    id_types = dict.fromkeys(ID_COLUMNS, pl.Int64())
    placed = map_records(
        original,
        arrange,
        {_PART: pl.Int64(), **id_types, _HIGH: pl.Int64(), _LOW: pl.Int64()},
        reads=(),
    )
    paired = map_parts(placed.repartition(arrangement.files, _PART), attach, {**types, **id_types})
    return split_off_ids(original, paired)


def _read_types(path: Path, options: Any) -> dict[str, pl.DataType]:
    data = read(path, **options)
    return {name: data.dtype(name) for name in data.columns}


def _find_order(records: pl.DataFrame) -> Any:
    """In which order records stand in their file: that of their blocks, as unsigned numbers."""
    high, low = (records[name].to_numpy().view(np.uint64) for name in (_HIGH, _LOW))
    return np.lexsort((low, high))


def _clear_sign(values: pl.Series) -> pl.Series:
    """Minus zero counts as zero in every measure, so it is zero in the file."""
    return values + 0.0 if values.dtype.is_float() else values


def _versions() -> str:
    import pyarrow as pa

    return f"sfumato {__version__}, polars {pl.__version__}, pyarrow {pa.__version__}"
