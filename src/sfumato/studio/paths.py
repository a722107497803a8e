"""Paths that people may open or write: below the folders that the studio was given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sfumato.errors import DataError

_ODD = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE = re.compile(r"[^\w.() -]", re.ASCII)
_LONGEST = 100


def confine(text: str, roots: Iterable[Path]) -> Path:
    """The path that a text names, links followed, if it lies below one of the folders.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     confine(f"{folder}/../etc/passwd", [Path(folder)])
    Traceback (most recent call last):
    sfumato.errors.DataError: This place is not open to the studio. Hint: ...
    """
    folders = [root.resolve() for root in roots]
    if _ODD.search(text) or not text.strip():
        raise DataError("This is not the name of a file.", hint="choose one from the list.")
    # As Windows and some file managers copy a path: in quotation marks.
    path = Path(re.sub(r"""^(["'])(.*)\1$""", r"\2", text.strip())).expanduser()
    if not path.is_absolute():
        path = folders[0] / path
    resolved = path.resolve()
    if not any(resolved.is_relative_to(folder) for folder in folders):
        # Whether there is such a file is nobody's business.
        raise DataError(
            "This place is not open to the studio.",
            hint="open files below " + " or ".join(f"'{folder}'" for folder in folders)
            + ", or start the studio with --folder.",
        )  # fmt: skip
    return resolved


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
