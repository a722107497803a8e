"""Finds the variable that says whose a row is, by the structure of the data and not by its name.

Question: do several rows belong to one person, and which variable says so?
Assumes: what does not change within a person, such as sex and year of birth, agrees in all rows of
a number, and would hardly agree in rows that were put together at random. A household or a school
is told from a person by members who differ in most of what others may know.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sfumato.data import Dataset
from sfumato.schema import Schema

_FEWEST = 10
_MANY = 30
"""Numbers from which on one variable that stays the same is enough."""
_LEAST_ROWS = 1.5
_MOST_ROWS = 200
_CONSTANT = 0.98
"""The share of the numbers with several rows in which a variable is the same in all of them."""
_BY_CHANCE = 0.5
"""How often rows of different people may agree in all of that, at most."""


def find_person(data: Dataset, schema: Schema) -> str | None:
    """The variable that says which person a row belongs to; None where no row repeats a person.

    Examples
    --------
    >>> frame = pl.DataFrame({"nr": [n // 3 for n in range(90)], "year": list(range(3)) * 30,
    ...     "born": [1950 + n // 3 % 17 for n in range(90)],
    ...     "sex": ["fm"[n // 3 % 2] for n in range(90)]})
    >>> find_person(Dataset(frame), Schema({"born": "quasi", "sex": "quasi"}))
    'nr'
    """
    if schema.person is not None or schema.having("direct", "cluster"):
        return None
    schema = data.with_schema(schema).schema  # all variables, with or without a role
    known = [
        name for name in schema.having("quasi") if data.column(name).drop_nulls().n_unique() > 1
    ]
    others = [name for name in schema if schema[name].role in ("other", None)]
    fitting = [name for name in others if known and _names_persons(data, name, known)]
    # The finest of them: a person's number, and not that of the cohort it belongs to.
    return max(fitting, key=lambda name: data.column(name).n_unique(), default=None)


def _names_persons(data: Dataset, name: str, known: Sequence[str]) -> bool:
    values = data.column(name)
    if not (values.dtype.is_integer() or values.dtype == pl.String) or values.null_count():
        return False
    rows = values.value_counts(name="rows")["rows"]
    is_panel = len(rows) >= _FEWEST and len(values) / len(rows) >= _LEAST_ROWS
    if not is_panel or int(rows.max()) > _MOST_ROWS:  # type: ignore[arg-type]
        return False
    frame = data.batch([name, *known])
    several = frame.filter(pl.len().over(name) > 1).group_by(name).agg(pl.all().n_unique() == 1)
    constant = [other for other in known if float(several[other].mean()) >= _CONSTANT]  # type: ignore[arg-type]
    enough = len(constant) > 1 or (len(constant) == 1 and len(rows) >= _MANY)
    if not enough or 2 * len(constant) < len(known):
        return False
    shares = frame.group_by(constant).len()["len"] / len(frame)
    agreeing = float((shares**2).sum())
    # Of what is the same by nature, two people must differ more often than not.
    return agreeing <= _BY_CHANCE
