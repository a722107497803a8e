"""Every format that Sfumato reads and writes, behind two verbs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import DataError, did_you_mean
from sfumato.io.source import Batches, Progress, Reading, Source, SourceTable

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = [
    "Batches",
    "Progress",
    "Reading",
    "Source",
    "SourceTable",
    "choose_suffix",
    "find_reader",
    "read_table",
    "require_options",
    "write_table",
    "writes_batches",
]

# Module and function by suffix: a format's libraries are loaded when a file of it is met.
_READERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv_reader.read_csv"),
    **dict.fromkeys((".parquet", ".arrow", ".feather", ".ipc"), "columnar.read_columnar"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "excel.read_excel"),
    **dict.fromkeys((".dta", ".sav", ".zsav", ".sas7bdat", ".xpt"), "statistical.read_statistical"),
    **dict.fromkeys((".duckdb", ".db"), "databases.read_duckdb"),
}
_WRITERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv_writer.write_csv"),
    **dict.fromkeys((".parquet", ".arrow", ".feather", ".ipc"), "columnar.write_columnar"),
    ".xlsx": "excel.write_excel",
    **dict.fromkeys((".dta", ".sav", ".zsav", ".xpt"), "statistical.write_statistical"),
}
_TEXT = (".csv", ".tsv", ".txt")
_COLUMNAR = (".parquet", ".arrow", ".feather", ".ipc")


def read_table(
    where: str | Path,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SourceTable:
    """The records of a file or of a table in a database, and how they were read.

    Assumes: the suffix or the beginning of the address tells the format. The options are those
    of the format's reader; `types` and `dates` overrule what was inferred in all of them.
    """
    address = str(where)
    location: str | Path
    if address.startswith(("postgresql://", "postgres://")):
        reader, location = _load_function("databases.read_postgres"), address
    elif address.startswith("duckdb://"):
        reader = _load_function("databases.read_duckdb")
        # duckdb:////data/x.db is absolute, duckdb:///x.db relative, as in SQLAlchemy
        location = _require_file(Path(address.removeprefix("duckdb://").removeprefix("/")))
    elif "://" in address:
        raise DataError(
            "addresses of this kind cannot be read.",
            hint="known are postgresql://…, duckdb:///… and files.",
        )
    else:
        path = Path(where)
        reader = _load_function(find_reader(path))
        location = _require_file(path)
    require_options(options | {"columns": columns})
    _check_options(reader, options)
    table: SourceTable = reader(location, columns=columns, progress=progress, **options)
    return table


def write_table(
    frame: pl.DataFrame | Batches,
    path: Path,
    *,
    source: Source | None = None,
    formulas: Literal["escape", "refuse", "keep"] = "escape",
    order: np.ndarray | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the records in the format of the suffix; facts about what was written.

    `order` is the permutation in which the records are written. The file is there whole, and
    on disk, or not at all. `source` gives delimiter, labels and missing codes.
    """
    path = Path(path)
    if formulas not in {"escape", "refuse", "keep"}:
        raise DataError(
            f"formulas cannot be '{formulas}'.",
            hint=did_you_mean(str(formulas), ["escape", "refuse", "keep"]),
        )
    writer = _load_function(_find_function(path, _WRITERS, "write"))
    if isinstance(frame, Batches) and not writes_batches(path):
        raise DataError(
            f"files that end in '{_get_suffix(path)}' are written from memory only.",
            hint="write CSV, Parquet or Arrow.",
        )
    available = {"source": source, "formulas": formulas, "order": order, "progress": progress}
    taken = inspect.signature(writer).parameters
    facts: dict[str, Any] = writer(
        frame, path, **{name: value for name, value in available.items() if name in taken}
    )
    return facts


def writes_batches(path: Path) -> bool:
    """Whether files of this suffix can be written batch by batch."""
    return _get_suffix(path).removesuffix(".gz") in (*_TEXT, *_COLUMNAR)


def choose_suffix(source: Source | None) -> str:
    """The suffix in which a release of data from this source is written.

    SAS data sets become CSV, since nothing free writes them; spreadsheets of any kind become
    .xlsx; databases and frames become Parquet, which keeps their types.

    Examples
    --------
    >>> choose_suffix(None)
    '.parquet'
    """
    if source is None or source.path is None or source.format == "duckdb":
        return ".parquet"
    suffix = _get_suffix(source.path)
    if suffix == ".sas7bdat":
        return ".csv"
    if source.format == "excel":
        return ".xlsx"
    return suffix if suffix.removesuffix(".gz") in _WRITERS else ".parquet"


def _get_suffix(path: Path) -> str:
    """The suffix that tells the format; `.csv.gz` is one."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        return "".join(suffixes[-2:])
    return suffixes[-1] if suffixes else ""


def find_reader(path: Path) -> str:
    """The function that reads files of this suffix; one that none reads is refused."""
    return _find_function(path, _READERS, "read")


def _find_function(path: Path, known: dict[str, str], verb: str) -> str:
    suffix = _get_suffix(path)
    unpacked = suffix.removesuffix(".gz")
    if unpacked not in known or (unpacked != suffix and unpacked not in _TEXT):
        raise DataError(
            f"files that end in '{suffix}' cannot be {'read' if verb == 'read' else 'written'}.",
            hint=f"supported are {', '.join(known)}; text also packed, as .csv.gz.",
        )
    return known[unpacked]


def _require_file(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"there is no file '{path}'.", hint="check the name and the folder.")
    return path


def _load_function(name: str) -> Callable[..., Any]:
    module, function = name.split(".")
    loaded: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), function)
    return loaded


def _is_text_mapping(value: Any) -> bool:
    """Whether a value is a mapping from names to texts."""
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())


def _is_text_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) and all(
        isinstance(text, str) for text in value
    )


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("delimiter", "decimal", "encoding", "quote", "formulas", "table", "query"),
        (lambda value: value is None or isinstance(value, str), "a text"),
    ),
    "sheet": (lambda value: value is None or isinstance(value, (str, int)), "a name or number"),
    **dict.fromkeys(
        ("types", "dates"),
        (lambda value: value is None or _is_text_mapping(value), "a table from names to texts"),
    ),
    "columns": (lambda value: value is None or _is_text_list(value), "a list of names"),
    "missing": (
        lambda value: (
            value is None
            or _is_text_list(value)
            or (isinstance(value, Mapping) and all(map(_is_text_list, value.values())))
        ),
        "a list of texts, or a table from names to lists of texts",
    ),
}


def require_options(options: Mapping[str, Any]) -> None:
    """Refuse options of reading that do not exist, or have a value of the wrong form."""
    for name, value in options.items():
        if name not in _FORMS:
            raise DataError(f"reading has no option '{name}'.", hint=did_you_mean(name, _FORMS))
        fits, form = _FORMS[name]
        if not fits(value):
            raise DataError(f"the option '{name}' of reading must be {form}.")


def _check_options(reader: Callable[..., Any], options: dict[str, Any]) -> None:
    known = [
        name
        for name, parameter in inspect.signature(reader).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name != "progress"
    ]
    unknown = [name for name in options if name not in known]
    if unknown:
        quoted = ", ".join(f"'{name}'" for name in unknown)
        raise DataError(
            f"this format has no option {quoted}.", hint=did_you_mean(unknown[0], known)
        )
