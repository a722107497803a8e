"""Keep at most so many rows of each person."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Integers
from sfumato.method import Fitted, Method
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Schema


@parameters
class ThinRows(Method):
    """Keep at most so many rows of each person, and remove the others.

    Question: who stands out by the number of their visits, tests or stays?
    Assumes: it is enough to see some rows of a person. Nobody stands out by fewer rows than the
    limit. Which rows stay follows the row and the key, so that no two releases under one key
    together show more; or they are the first in the order of some variables. Without a variable
    whose role is "person" each record is its own person, and all stay.

    Means over persons hardly change. Totals of rows do, and so does what depends on how often
    somebody comes.

    Parameters
    ----------
    most : most rows of a person.
    variables : order in which the first rows are kept, such as a date; missing comes last. Rows
        that are equal in all of these, and all rows where none is named, are chosen at random.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> visits = pl.DataFrame({"patient": ["a", "b", "a", "a"], "day": [3, 5, 1, 2]})
    >>> data = sf.Dataset(visits, sf.Schema({"patient": "person", "day": "quasi"}))
    >>> ThinRows(most=2, variables=["day"]).apply(data, key=bytes(32)).frame["day"].to_list()
    [5, 1, 2]
    """

    name = "thin_rows"
    examples = ({"most": 3}, {"most": 1, "variables": ["birth_date", "region"]})
    keyed = True
    most: Annotated[int, Field(ge=1)]
    variables: Annotated[list[str], Field(min_length=1)] | None = None

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """No variable changes; some rows go."""
        del schema
        return ()

    def fit(self, data: Dataset, engine: Engine) -> Fitted:
        """Nothing to fit, but what rows are ordered by must be there."""
        del engine
        data.schema.require(self.variables or ())
        return {}

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Take the rows that stay, in the order in which they stand."""
        del fitted, engine
        if chance is None:
            raise MethodError("Thinning needs a key.", hint="pass key=…, or leave it to protect.")
        if data.units.one_row_each:
            return data
        persons = data.units.numbers
        draws = Draws(chance.key, chance.step, data.identity)
        order = np.lexsort([draws.lasting("rows", self.name, np.zeros(len(data))), persons])
        if self.variables:
            ranked = _rank_values(data.batch(self.variables))[order]
            order = order[np.lexsort([ranked, persons[order]])]
        ordered = persons[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        rank_within_person = np.arange(len(order)) - np.repeat(
            first, np.diff(np.append(first, len(order)))
        )
        return data.take(np.sort(order[rank_within_person < self.most]))


def _rank_values(batch: pl.DataFrame) -> Integers:
    """The place of each row in the order of all variables, the first before the others."""
    names = batch.columns
    ordered = batch.with_row_index("\ufdd0").sort(names, nulls_last=True, maintain_order=True)
    same = ordered.select(names).with_columns(pl.struct(names).rle_id().alias("\ufdd1"))["\ufdd1"]
    ranks = np.empty(batch.height, np.int64)
    ranks[ordered["\ufdd0"].to_numpy()] = same.to_numpy()
    return ranks
