"""Where a log lasts: a file for the checker, and what never leaves in a folder of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.io.atomic import replacing
from sfumato.outputs.differencing import Population
from sfumato.randomness import Key

try:
    import fcntl
except ImportError:  # Windows has no such lock: there, one process at a time
    fcntl = None  # type: ignore[assignment]

_LOG, _INSIDE, _KEY = "log.json", "inside", "key"


class Kept:
    """A log's files, or its memory where there is no folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[int, Population] = {}
        self._fresh = Key.new()
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / _INSIDE).mkdir(mode=0o700, exist_ok=True)

    @cached_property
    def key(self) -> Key:
        """The key of the record hashes; made once, and kept beside them."""
        if self.folder is None:
            return self._fresh
        path = self.folder / _INSIDE / _KEY
        if not path.exists():
            if any((self.folder / _INSIDE).glob("*.parquet")):
                raise DataError("The key of this log is gone.", hint="begin a new log.")
            self.put(path, self._fresh.text)
        return Key.of(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes to the log meanwhile."""
        if self.folder is None:
            yield
            return
        handle = os.open(self.folder / _INSIDE / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def read(self) -> dict[str, Any]:
        """The log as it lies in the folder; empty where there is none yet."""
        if self.folder is None or not (self.folder / _LOG).exists():
            return {}
        try:
            told = json.loads((self.folder / _LOG).read_text("utf-8"))
            return {"rules": told["rules"], "outputs": told["outputs"]}
        except (ValueError, KeyError, TypeError, OSError):
            raise DataError(
                f"'{self.folder / _LOG}' is not a log of outputs.", hint="choose another folder."
            ) from None

    def write(self, told: dict[str, Any]) -> None:
        """Put the log in its place."""
        if self.folder is not None:
            self.put(self.folder / _LOG, json.dumps(told, indent=1, ensure_ascii=False))

    def put(self, path: Path, text: str) -> None:
        """Write a file that only its owner can read, whole or not at all."""
        with replacing(path) as sibling:
            handle = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)

    def keep(self, number: int, population: Population) -> None:
        """Keep the record hashes of an output, inside."""
        if self.folder is None:
            self._memory[number] = population
            return
        path = self._path(number)
        with replacing(path) as sibling:
            handle = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                population.write(stream)

    def population(self, number: int) -> Population:
        """The record hashes of an earlier output."""
        if self.folder is None:
            return self._memory[number]
        path = self._path(number)
        if not path.exists():
            raise DataError(
                f"The record hashes of output {number} are gone, so nothing can be compared.",
                hint="begin a new log.",
            )
        return Population.read(path)

    def _path(self, number: int) -> Path:
        assert self.folder is not None  # noqa: S101 - only called where there is one
        return self.folder / _INSIDE / f"{number:05d}.parquet"
