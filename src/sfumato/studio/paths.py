"""Paths that people may open or write: below the folders that the studio was given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import DataError

_ODD = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE = re.compile(r"[^\w.() -]", re.ASCII)
_LONGEST = 100


@dataclass(frozen=True)
class OpenFolders:
    """The folders that are open to the studio, without those that are its own.

    Parameters
    ----------
    roots : the folders below which files may be opened and releases written.
    closed : a folder that is not open even where it lies below one of them: that of the sessions
        holds their keys, and what others uploaded. None where there is no such folder.
    """

    roots: tuple[Path, ...]
    closed: Path | None = None

    @property
    def allowed(self) -> tuple[Path, ...]:
        """The folders that are open, with their links followed, each once."""
        resolved = dict.fromkeys(root.resolve() for root in self.roots)
        return tuple(root for root in resolved if not self._is_own(root))

    def holds(self, path: Path) -> bool:
        """Whether a path, links followed, is open to the studio."""
        resolved = path.resolve()
        below = any(resolved.is_relative_to(root) for root in self.allowed)
        return below and not self._is_own(resolved)

    def _is_own(self, resolved: Path) -> bool:
        return self.closed is not None and resolved.is_relative_to(self.closed.resolve())


def confine(text: str, places: OpenFolders) -> Path:
    """The path that a text names, links followed, if it is open to the studio.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     confine(f"{folder}/../etc/passwd", OpenFolders((Path(folder),)))
    Traceback (most recent call last):
    sfumato.errors.DataError: This place is not open to the studio. Hint: ...
    """
    folders = places.allowed
    if _ODD.search(text) or not text.strip():
        raise DataError("This is not the name of a file.", hint="choose one from the list.")
    # As Windows and some file managers copy a path: in quotation marks.
    path = Path(re.sub(r"""^(["'])(.*)\1$""", r"\2", text.strip())).expanduser()
    if not path.is_absolute():
        path = folders[0] / path
    resolved = path.resolve()
    if not places.holds(resolved):
        # Whether there is such a file is nobody's business.
        raise DataError(
            "This place is not open to the studio.",
            hint="open files below " + " or ".join(f"'{folder}'" for folder in folders)
            + ", or start the studio with --folder.",
        )  # fmt: skip
    return resolved


def confine_data(text: str, places: OpenFolders) -> Path:
    """The file or the folder of tables that a text names; no file of it is a link that leads out.

    Whatever lies in a folder of tables is read as one of them, wherever a link takes it from.
    """
    path = confine(text, places)
    files = [item for item in path.iterdir() if item.is_file()] if path.is_dir() else []
    if not all(map(places.holds, files)):
        raise DataError(
            "In this folder is a link to a place that is not open to the studio.",
            hint="put the tables themselves into the folder.",
        )
    return path


def clean_name(name: str) -> str:
    r"""The name of an uploaded file as it is stored: no folder, no odd sign, no hidden file.

    Examples
    --------
    >>> clean_name("../../etc/passwd"), clean_name("C:\\my data<b>.csv"), clean_name("..")
    ('passwd', 'my data_b_.csv', 'upload')
    """
    last = re.split(r"[\\/]", name)[-1]
    cleaned = _UNSAFE.sub("_", last).strip(" .")
    stem, dot, suffix = cleaned.rpartition(".")
    return f"{stem[:_LONGEST]}{dot}{suffix[:10]}" or "upload"
