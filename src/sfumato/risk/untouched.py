"""Which variables leave as they came, and how far their values point to single people."""

from __future__ import annotations

from typing import Annotated, Any

import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Integers
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import quote_names
from sfumato.pairs.unchanged import mark_unchanged
from sfumato.parameters import parameters
from sfumato.units import Units

_KNOWN = ("quasi", "weight")
_ASSUMPTIONS = (
    "A cell is unchanged if the release shows the very value of the original; missing counts too.",
    "Each variable is looked at by itself: together they point to fewer people still.",
)


@parameters
class Untouched(Measure):
    """The ledger of variables: what left unchanged, and whom its values point to.

    Question: which variables leave as they came, and is one of them as good as a fingerprint?
    Assumes: somebody may know a quasi-identifier or a survey weight of a person exactly. The value
    is the largest share, over these variables, of records whose released value is unchanged and
    shared by fewer than `k` released records. `fingerprints` lists the variables where that is the
    case for more than `at_most` of the records.

    The table has every variable: its role, what happened to it ("dropped", "unchanged", "partly
    changed", "changed"), the share of unchanged cells, how many distinct values left, the share of
    records whose released value is unique, the share with fewer than k of their kind, and
    `fingerprint`, the share of records whose value is both unchanged and that rare.

    Parameters
    ----------
    k : fewest records that share a value that points to nobody.
    at_most : share of records up to which a variable is no fingerprint.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi", "weight": "weight"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [31, 34], "weight": [1.25, 7.5]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [30, 30], "weight": [1.25, 7.5]}), schema)
    >>> found = Untouched(k=2).measure(original, released)
    >>> found.value, found.details["fingerprints"]
    (1.0, ('weight',))
    """

    name = "untouched"
    odd = {"one row": 1, "all missing": 0}
    examples = ({}, {"k": 3, "at_most": 0.2})
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share(
            "untouched",
            meaning="Share of records that keep a rare value which outsiders may know.",
            usual=True,
        ),
        Number.count("unchanged_variables"),
    )
    k: Annotated[int, Field(ge=2)] = 5
    at_most: Annotated[float, Field(ge=0, lt=1)] = 0.05

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Compare variable by variable."""
        del engine  # all records are in memory
        if not len(original):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        rows = [self._describe(name, original, released) for name in original.columns]
        table = pl.DataFrame(rows, infer_schema_length=None)
        known = [row for row in rows if row["role"] in _KNOWN and row["done"] != "dropped"]
        value = max((row["fingerprint"] for row in known), default=0.0)
        prints = [row["variable"] for row in known if row["fingerprint"] > self.at_most]
        unchanged = [row["variable"] for row in rows if row["done"] == "unchanged"]
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            direction=self.direction,
            table=original.like(table),
            details={
                "unchanged_variables": len(unchanged),
                "unchanged": tuple(unchanged),
                "fingerprints": tuple(prints),
                "k": self.k,
                "records": len(original),
            },
            assumptions=(*original.units.describe(), *_ASSUMPTIONS),
            warnings=self._list_warnings(prints),
        )

    def _describe(self, name: str, original: Dataset, released: Dataset) -> dict[str, Any]:
        units = original.units
        row: dict[str, Any] = {"variable": name, "role": original.schema[name].role}
        if name not in released.schema:
            empty = dict.fromkeys(("unchanged", "unique", "rare", "fingerprint"), 0.0)
            return row | {"done": "dropped", "distinct": 0} | empty
        cells = released.column(name)
        same = mark_unchanged(original, released, name)
        sizes = _count_alike(cells, units)
        rare = sizes < self.k
        share = float(same.mean())
        done = "unchanged" if share == 1 else "changed" if share == 0 else "partly changed"
        return row | {
            "done": done,
            "distinct": int(cells.n_unique()),
            "unchanged": share,
            "unique": units.share(sizes == 1),
            "rare": units.share(rare),
            "fingerprint": units.share(rare & same),
        }

    def _list_warnings(self, prints: list[str]) -> tuple[str, ...]:
        if not prints:
            return ()
        warning = (
            f"{quote_names(prints)}: values leave unchanged that fewer than {self.k} records "
            "share. Anyone who knows such a value finds the record. Treat the variable in a step, "
            "or drop it."
        )
        return (warning,)


def _count_alike(cells: pl.Series, units: Units) -> Integers:
    """How many units have the cell of each row."""
    codes = cells.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    alike: Integers = units.count_groups(codes)[codes]
    return alike
