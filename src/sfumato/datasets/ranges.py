"""Files of quasi-identifiers, ranges of them, and one confidential variable at the end."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sfumato.data import Dataset, read
from sfumato.errors import DataError, SchemaError
from sfumato.io import frames
from sfumato.schema import Column, Kind, Schema
from sfumato.schema.inference.profile import infer_cell_kind

_SUFFIXES = (".csv", ".txt", ".csv.gz", ".txt.gz")
_TWO = 2
_LAST = "read_ranges takes the last column as confidential"
_BEFORE = "read_ranges takes every column before the last as known to outsiders"


def read_ranges(path: str | Path) -> Dataset:
    r"""Read a text file of quasi-identifiers with one confidential variable in its last column.

    Question: what is in a file such as those published with the study named below?
    Assumes: a line of names, cells parted by commas; a cell is a value, a range `[min;max]`, a
    masked code `937**`, or `*` for anything. **The last column is taken as confidential** (its
    role is "sensitive"), all others as known to outsiders; each variable's `reason` in the schema
    says so. Other roles are given with `data.with_schema`. Variables of whole numbers and their
    ranges are of the kind "integer", other numbers "continuous", dates "date"; all others are
    "nominal".

    Parameters
    ----------
    path : a file that ends in .csv or .txt, packed as .gz or not.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("age,zip,charge\n26,937**,100\n[24;28],*,250\n")
    >>> data = read_ranges(path)
    >>> [(column.role, column.kind) for column in data.schema.values()]
    [('quasi', 'integer'), ('quasi', 'integer'), ('sensitive', 'integer')]
    >>> data.frame["age"].to_list()
    ['26', '[24;28]']

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, supplement.
    """
    _require_suffix(Path(path))
    data = read(path, delimiter=",", decimal=".", formulas="unescape")
    names = data.columns
    if len(names) < _TWO:
        raise DataError(
            "The file has one variable; its last is confidential, and nothing comes before it.",
            hint="the cells must be separated by commas.",
        )
    kinds = {name: _infer_kind(frames.get_column(data.frame, name)) for name in names}
    # That is what such a file is: cells may stand for several values.
    declared = {
        name: Column(role="quasi", kind=kinds[name], cells="generalised", reason=_BEFORE)
        for name in names[:-1]
    }
    last = Column(role="sensitive", kind=kinds[names[-1]], cells="generalised", reason=_LAST)
    return data.with_schema(Schema({**declared, names[-1]: last}))


def write_ranges(data: Dataset, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write quasi-identifiers, and one confidential variable last, to such a file.

    Question: how do others' programs get generalised data?
    Assumes: nothing is protected by it, and the records keep their order; `protect` makes a
    release. Missing cells are empty. Cells with a comma are quoted. Text that a spreadsheet would
    run as a formula is led by an apostrophe, which `read_ranges` takes away.

    Parameters
    ----------
    data : one variable with the role "sensitive", all others with the role "quasi".
    path : a file that ends in .csv or .txt, packed as .gz or not. It is there whole or not at all.
    overwrite : whether an existing file may be replaced.

    Examples
    --------
    >>> import tempfile, polars as pl
    >>> frame = pl.DataFrame({"charge": [100, 250], "age": ["26", "[24;28]"]})
    >>> data = Dataset(frame, Schema({"age": "quasi", "charge": "sensitive"}))
    >>> write_ranges(data, Path(tempfile.mkdtemp()) / "people.csv").read_text().split()
    ['age,charge', '26,100', '[24;28],250']
    """
    from sfumato.io.csv_writer import write_csv
    from sfumato.io.formulas import escape_name

    if not isinstance(data, Dataset):
        raise DataError(
            "write_ranges needs a Dataset, which says which variable is confidential.",
            hint='for instance sf.Dataset(frame, {"age": "quasi", "charge": "sensitive"}).',
        )
    target = Path(path)
    _require_suffix(target)
    names = _order_variables(data)
    if target.exists() and not overwrite:
        raise DataError(
            f"'{target}' exists already.", hint="choose another name, or pass overwrite=True."
        )
    # Not through `data.column`: a code for "missing" is written as it stands.
    cells = [_escape_formulas(frames.get_column(data.frame, name)) for name in names]
    frame = pl.DataFrame([column.alias(escape_name(column.name)) for column in cells])
    write_csv(frame, target, formulas="keep")
    return target


def _escape_formulas(values: pl.Series) -> pl.Series:
    """Text that a spreadsheet would run, escaped; a number such as -5 runs nothing."""
    from sfumato.io.formulas import escape

    if values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    if values.dtype != pl.String or infer_cell_kind(values):
        return values
    return values.to_frame().select(escape(pl.col(values.name)))[values.name]


def _infer_kind(values: pl.Series) -> Kind:
    if values.dtype.is_integer():
        return "integer"
    if values.dtype.is_numeric():
        return "continuous"
    if values.dtype.is_temporal():
        return "date"
    return (infer_cell_kind(values) if values.dtype == pl.String else None) or "nominal"


def _order_variables(data: Dataset) -> tuple[str, ...]:
    """The quasi-identifiers, and the confidential variable at the end."""
    known, last = data.schema.having("quasi"), data.schema.having("sensitive")
    others = [name for name in data.columns if name not in (*known, *last)]
    if others or not known or len(last) != 1:
        named = f" Neither of the two: {', '.join(others)}." if others else ""
        raise SchemaError(
            "Such a file has variables of the role quasi, and one that is sensitive; these data "
            f"have {len(known)} and {len(last)}.{named}",
            hint="leave the others out: data.without([...]).",
        )
    return (*known, *last)


def _require_suffix(path: Path) -> None:
    if not path.name.lower().endswith(_SUFFIXES):
        raise DataError(
            f"'{path.name}' does not look like a text file of ranges.",
            hint=f"choose a name that ends in {', '.join(_SUFFIXES)}.",
        )
