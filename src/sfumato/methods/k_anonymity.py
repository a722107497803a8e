"""Clusters of at least k records that share all quasi-identifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import grouped
from sfumato.errors import PlanError
from sfumato.kernels.arrays import Integers
from sfumato.methods._clustering.cells import Clusters
from sfumato.methods._clustering.coded import Variable
from sfumato.methods._clustering.shape import Clustered
from sfumato.methods._clustering.ways import along_origin, cut, gathered, person_ranks
from sfumato.methods._strata.sizes import require_large
from sfumato.parameters import parameters

Clustering = Literal["mondrian", "mdav", "origin"]


@parameters
class KAnonymity(Clustered):
    """Make every record like at least k - 1 others in what an outsider may know.

    Question: how little must be blurred so that nobody is alone?
    Assumes: the outsider knows nothing but `variables`. Records of one cluster get one cell in
    each of them. Records that share all values with k - 1 others already stay as they are, unless
    too few would be left over (not with "origin"). Missing is a value of its own; among others it
    becomes `*`. It protects against being singled out, not against what all k have in common:
    measure `attribute_disclosure`, and see `t_closeness`.

    Parameters
    ----------
    variables : what is generalised. Default: all whose role is "quasi".
    k : the fewest records in a cluster.
    clustering : "mondrian" cuts the data in two again and again, at the middle of the widest
        variable: narrow ranges, any variable, n log n. "mdav" gathers the k nearest around the
        records farthest from the average: for numbers and up to about 100 000 records. "origin"
        is Algorithm S2 as published, along the distance to the zero record: wide ranges.
    output : what a cluster gets, for all variables or by variable: "range" (`[20;29]`; `937**` for
        codes of kind "text", sets for other categories without an order), "set" (`{a;b}`), "level"
        (the narrowest group of the hierarchy that holds all), "mean", "median" or "mode".
    strata : variables within whose combinations clusters are formed. They stay as they are.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"age": [20, 24, 61, 70]}), sf.Schema({"age": "quasi"}))
    >>> KAnonymity(k=2).apply(data).frame["age"].to_list()
    ['[20;24]', '[20;24]', '[61;70]', '[61;70]']

    References: Samarati & Sweeney (1998); Sánchez, Martínez & Domingo-Ferrer (2016), Science
    351:1274, Algorithm S2; LeFevre, DeWitt & Ramakrishnan (2006), ICDE (Mondrian);
    Domingo-Ferrer & Torra (2005), Data Min. Knowl. Discov. 11:195 (MDAV).
    """

    name = "k_anonymity"
    reports = ("information_loss",)
    examples = (
        {"variables": ["birth_date", "sex", "ethnicity", "region", "household_size"]},
        {
            "variables": ["birth_date", "ethnicity", "education", "household_size"],
            "k": 3,
            "output": {"ethnicity": "level", "household_size": "median", "education": "mode"},
            "strata": ["sex"],
        },
        {
            "variables": ["birth_date", "household_size"],
            "clustering": "mdav",
            "output": "mean",
        },
        {"variables": ["birth_date", "household_size"], "clustering": "origin"},
    )
    k: Annotated[int, Field(ge=2)] = 5
    clustering: Clustering = "mondrian"
    strata: list[str] = Field(default_factory=list)

    def clusters(self, data: Dataset, coded: Sequence[Variable], engine: Engine) -> Clusters:
        """Clusters within each stratum, one stratum after the other."""
        if not self.strata:
            return self._in_one(coded, self._ranks(data))
        seen = self._seen(data, coded)
        require_large(seen, self.strata, self.k, engine, hint="use fewer variables in `strata`.")
        order, bounds = grouped(seen, self.strata)
        ranks = self._ranks(data)
        orders, starts = [], [np.zeros(1, np.int64)]
        for first, last in pairwise(bounds.tolist()):
            inside = order[first:last]
            part = self._in_one([one.take(inside) for one in coded], ranks[inside])
            orders.append(inside[part.order])
            starts.append(first + part.starts[1:])
        return Clusters(np.concatenate(orders), np.concatenate(starts))

    def _seen(self, data: Dataset, coded: Sequence[Variable]) -> Dataset:
        """The strata as the release shows them, every code for missing by itself."""
        data.schema.require(self.strata)
        if both := [one.name for one in coded if one.name in self.strata]:
            raise PlanError(
                f"{', '.join(map(repr, both))} cannot be generalised and a stratum at once.",
                hint="name it in one of `variables` and `strata`.",
            )
        return replace(data, schema=data.schema.changed(self.strata, missing=()))

    def _ranks(self, data: Dataset) -> Integers:
        """Mondrian never divides equal records, so it need not know who they are."""
        return np.arange(len(data)) if self.clustering == "mondrian" else person_ranks(data)

    def _in_one(self, coded: Sequence[Variable], ranks: Integers) -> Clusters:
        if self.clustering == "mondrian":
            return cut(coded, self.k)
        find = gathered if self.clustering == "mdav" else along_origin
        return find(coded, self.k, ranks)
