"""Where the records of a session come from, and the plan that belongs to them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.errors import PlanError
from sfumato.plan import Plan
from sfumato.storage.contents import sha256


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where records come from.

    Parameters
    ----------
    where : the path of a file or of a folder, or the address of a database.
    title : what people call it: the name of the file, never a password.
    table, query : what is read of a database.
    tables : of a database of which only some are meant.
    linked : whether it is several linked tables.
    upload : whether the file lies in the session's own folder, and goes with it.
    """

    where: str
    title: str
    table: str | None = None
    query: str | None = None
    linked: bool = False
    upload: bool = False
    tables: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> DataSource:
        """From what `plain` made."""
        return cls(**{**plain, "tables": tuple(plain.get("tables", ()))})

    @property
    def stamp(self) -> str:
        """Changes when another file, or another state of it, is meant; of a database never."""
        stamps = [(item.name, *_stamp_file(item)) for item in self._list_files()]
        return hashlib.sha256(json.dumps([self.plain(), stamps]).encode()).hexdigest()

    @property
    def in_files(self) -> bool:
        """Whether the records lie in files; only who reads a database knows what it holds."""
        return "://" not in self.where

    def compute_digest(self) -> str:
        """What the files hold, whatever their time says."""
        files = [(item.name, _digest_file(item, _stamp_file(item))) for item in self._list_files()]
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()

    def _list_files(self) -> list[Path]:
        if not self.in_files:
            return []
        path = Path(self.where)
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        return [item for item in inside if item.is_file()]


def _stamp_file(path: Path) -> tuple[int, ...]:
    """Another one as soon as the file is another: the time of change is set by nobody's wish."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=1024)
def _digest_file(path: Path, stamp: tuple[int, ...]) -> str:
    del stamp  # it only says which state of the file is meant
    return sha256(path)


@lru_cache(maxsize=64)
def parse_plan(text: str, *, linked: bool = False) -> Plan | None:
    """A plan from its text; the same text gives the same plan, read once.

    Where nobody has decided anything yet, that of one table is empty, and of several there is none:
    it begins with the keys between them.
    """
    if not text:
        return None if linked else Plan()
    plan = Plan.parse(text)
    if bool(plan.tables) != linked:
        raise PlanError(
            "The plan is for several tables, and the data are one."
            if plan.tables
            else "The plan is for one table, and the data are several.",
            hint="open the data that it was written for.",
        )
    return plan
