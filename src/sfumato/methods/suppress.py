"""Local suppression: blank single cells until every equivalence class has k records."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.engines.local import find_class_of_each
from sfumato.errors import MethodError, did_you_mean
from sfumato.kernels.arrays import Mask
from sfumato.method import Fitted, Method, Strength
from sfumato.methods._suppression.local_suppression import (
    DifferentRows,
    Subset,
    drop_included_subsets,
    encode_rows,
    find_cells,
    list_combinations,
)
from sfumato.methods.persons import count_alike, has_persons
from sfumato.parameters import parameters
from sfumato.schema import Schema

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class Suppress(Method):
    """Blank as few single cells as it takes for every combination to have k records.

    Question: which few cells give somebody away?
    Assumes: the outsider knows `variables` and no others. Afterwards each record shares its
    values with at least k - 1 others, in every combination asked for, all at once. Records with
    the same values are treated alike, and no value is changed. The fewest cells are not
    guaranteed, only k: subsets of variables are tried in ascending cost, with more than 12
    variables only the small ones and then one variable more at a time.

    Where rows belong to persons (role "person"), k counts persons. Variables that change within
    a person are then refused: blanked rows of one person would be counted as several.

    Parameters
    ----------
    variables : the variables to blank cells of. Default: those of `combinations`, else all whose
        role is "quasi".
    k : fewest records that share each combination of values.
    missing : what a blank means: "value" (a value of its own, the stricter reading) or "wildcard"
        (it could be anything). Codes for missing are values in the first reading, blanks in the
        other. Both reach k among records that show the same: a blank that fits everybody hides
        nobody by itself.
    spare : what a blank costs, to blank a variable less often: `{region = 5}`. Default: 1 each.
    combinations : lists of variables that must each reach k. Default: all variables together.
    up_to : every combination of up to so many variables: instead or besides.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"sex": ["f", "f", "f", "m"], "age": [30, 30, 41, 41]})
    >>> data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "age": "quasi"}))
    >>> Suppress(k=2).apply(data).frame["sex"].to_list()
    ['f', 'f', None, None]

    References: Templ, Kowarik & Meindl (2015), Journal of Statistical Software 67(4), on local
    suppression; Samarati (2001), IEEE Transactions on Knowledge and Data Engineering 13:1010.
    """

    name = "suppress"
    strength = Strength("k")
    treats = "records"
    reports = ("information_loss",)
    runs_on = ("local", "streaming", "spark")
    odd = {"empty": "refused", "one row": "refused"}
    examples = (
        {"variables": ["sex", "region", "education", "children"], "k": 3},
        {"k": 2, "missing": "wildcard", "spare": {"sex": 3}},
        {"variables": ["sex", "ethnicity", "region", "marital_status"], "k": 4, "up_to": 2},
    )
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=2)] = 5
    missing: Literal["value", "wildcard"] = "value"
    spare: dict[str, Weight] | None = None
    combinations: Annotated[list[list[str]], Field(min_length=1)] | None = None
    up_to: Annotated[int, Field(ge=1)] | None = None

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables of which cells may be blanked."""
        if self.variables is not None:
            return tuple(self.variables)
        if self.combinations is not None and self.up_to is None:
            return tuple(dict.fromkeys(name for group in self.combinations for name in group))
        return schema.having("quasi")

    def fit(self, data: Dataset, engine: Engine) -> Fitted:
        """Nothing to fit; what is asked for must be possible."""
        names = self.touches(data.schema)
        if not names:
            raise MethodError(
                "There is no variable to blank cells of.",
                hint='name some in variables, or give some the role "quasi".',
            )
        combined = [name for group in self.combinations or () for name in group]
        for what, used in (("combinations", combined), ("spare", self.spare or ())):
            for name in used:
                if name not in names:
                    raise MethodError(
                        f"Variable '{name}' stands in {what} but may not be blanked.",
                        hint=did_you_mean(name, names),
                    )
        persons = has_persons(data)
        shown = self._as_outsider(data, names)
        counts = (
            count_alike(shown, names, engine, self.name).counts
            if persons
            else engine.distinct(data, ()).counts
        )
        if (total := int(counts.sum())) < self.k:
            what = "persons" if persons else "records"
            raise MethodError(
                f"Clusters of k need at least k {what}: k is {self.k}, there are {total}.",
                hint="take a smaller k.",
            )
        return {}

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Find the cells on the distinct rows, and blank them in all records."""
        del fitted, chance
        names = self.touches(data.schema)
        shown = self._as_outsider(data, names)
        distinct = count_alike(shown, names, engine, self.name)
        mask = self._find_mask(names, distinct.values, distinct.counts)
        used = [column for column in range(len(names)) if mask[:, column].any()]
        if not used:
            return data

        def blank(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
            del draws
            # Found once for each distinct row, then carried over to all records that have it.
            row_of = find_class_of_each(batch, distinct.values)
            return pl.DataFrame(
                [_blank(batch[names[column]], mask[row_of, column]) for column in used]
            )

        return replace(engine.map_rows(shown, blank, reads=names), schema=data.schema)

    def _as_outsider(self, data: Dataset, names: tuple[str, ...]) -> Dataset:
        """The data as an outsider reads them.

        Where a blank is a value, so is each code for missing: the release shows which it is.
        """
        if self.missing == "wildcard":
            return data
        schema = data.schema.changed(names, missing=())
        return replace(data, schema=schema, given_identity=data.identity)

    def _find_mask(self, names: tuple[str, ...], values: pl.DataFrame, counts: object) -> Mask:
        """Which cells of the distinct rows to blank."""
        codes = encode_rows(values)
        # In the order of the values: engines return rows in any order.
        order = np.lexsort(codes.T[::-1])
        rows = DifferentRows(codes[order], np.asarray(counts, np.int64)[order])
        weights = [(self.spare or {}).get(name, 1.0) for name in names]
        mask = np.empty(codes.shape, bool)
        mask[order] = find_cells(rows, self.k, weights, self._list_subsets(names))
        return mask

    def _list_subsets(self, names: tuple[str, ...]) -> list[Subset]:
        column = {name: index for index, name in enumerate(names)}
        wanted = [tuple(column[name] for name in group) for group in self.combinations or ()]
        if self.up_to is not None:
            wanted += list_combinations(len(names), self.up_to)
        return drop_included_subsets(wanted or [tuple(range(len(names)))])


def _blank(values: pl.Series, mask: Mask) -> pl.Series:
    shown = pl.when(~pl.Series("blank", mask)).then(values)
    return pl.select(shown.alias(values.name)).to_series()
