"""Clusters of at least k records that share all quasi-identifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine
from sfumato.errors import PlanError
from sfumato.method import Fitted, Strength
from sfumato.methods.clustering.method import ClusteringMethod
from sfumato.methods.clustering.microaggregation import Clustering
from sfumato.methods.clustering.variables import Variable
from sfumato.parameters import parameters
from sfumato.schema import Schema

_MOST_MDAV = 100_000
"""Records up to which MDAV is the default for means: its time grows faster than their number."""


@parameters
class KAnonymity(ClusteringMethod):
    """Make every record like at least k - 1 others in what an outsider may know.

    Question: how little must be blurred so that nobody is alone?
    Assumes: the outsider knows nothing but `variables`. Records of one cluster get one cell in
    each of them. Records that share all values with k - 1 others already stay as they are, unless
    too few would be left over (not with "origin"). Missing is a value of its own; among others it
    becomes `*`. It protects against being singled out, not against what all k have in common:
    measure `attribute_disclosure`, and see `t_closeness`.

    Where rows belong to persons (role "person"), k counts persons. They are clustered by a summary
    of their rows: the least and the greatest value of numbers, dates and ordered levels, the
    commonest of other categories. All rows of all persons of a cluster get one cell, which covers
    every value in them. How many rows a person has still shows; see `thin_rows`.

    Where records belong to groups (role "cluster"), such as households, a variable that is the same
    within each group stays so: groups are clustered first by what belongs to them, k groups at
    least, and then the records in these clusters by the rest. Where every group has k members, what
    belongs to it stays as it is.

    Ranges of numbers and dates end on a grid, at or outside the values of their records: round
    numbers (1, 2, 5, 10 ...), and days, parts of months, months, quarters or years. Records are
    clustered by the cell of a grid that they lie in, never by their exact value, so that nothing
    released depends on where in its cell a value lies. At least a fifth of a range (with k below
    5, a k-th) is one step of the grid it ends on. Where the schema has a hierarchy of neighbours,
    its groups are the grid. A declared domain is never exceeded. Where all records of a cluster
    share one value, that value stands there: it belongs to all k.

    Parameters
    ----------
    variables : what is generalised. Default: all whose role is "quasi", but the strata.
    k : fewest records in a cluster, or persons.
    clustering : how records are grouped: "mondrian" cuts the data in two again and again, at the
        middle of the widest variable: narrow ranges, any variable, n log n. "mdav" gathers the k
        nearest around the records farthest from the average: for numbers and up to about 100 000
        records. "origin" is Algorithm S2 as published, along the distance to the zero record: wide
        ranges. Default: "mdav" where all variables are numbers that become means or medians, up to
        100 000 records; else "mondrian".
    output : what a cluster gets: for all variables or by variable, "range" (`[20;29]`; `937**` for
        codes of kind "text"; for other categories without an order a set, with a hierarchy one of
        whole groups), "set" (`{a;b}`, the values that occur; numbers and dates still get ranges,
        unless `ends` is "observed"), "level" (the narrowest group of the hierarchy that holds all),
        "mean" or "median" (of the values that are present; missing where they are no more than
        half), "middle" (of the range), "mode", or "balanced" (one of the cluster's own values,
        chosen so that over all clusters each value is shown about as often as it occurs: for files
        of single values that keep shares and tables; a mode loses what is rare). "value" is a
        single value for every variable, by its kind: the mean of numbers and dates, the median of
        levels in an order, "balanced" for other categories.
    ends : where ranges end: on the "grid"; or, if "observed", they end at the least and the
        greatest value of their records, as the literature prints them. Each end is then somebody's
        value.
    grid : grid of the ranges, by variable: in place of the one that is chosen, a number such as
        1000, or "day", "5 days", "10 days", "month", "quarter", "half-year", "year", "2 years", "5
        years", and 10, 20, 50 or 100 years.
    strata : variables within whose combinations clusters are formed. They stay as they are.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"age": [20, 24, 61, 70]}), sf.Schema({"age": "quasi"}))
    >>> KAnonymity(k=2).apply(data).frame["age"].to_list()
    ['[20;24]', '[20;24]', '[60;74]', '[60;74]']

    References: Samarati & Sweeney (1998); Sánchez, Martínez & Domingo-Ferrer (2016), Science
    351:1274, Algorithm S2; LeFevre, DeWitt & Ramakrishnan (2006), ICDE (Mondrian);
    Domingo-Ferrer & Torra (2005), Data Min. Knowl. Discov. 11:195 (MDAV).
    """

    name = "k_anonymity"
    strength = Strength("k")
    over_tables = True
    treats = "records"
    reports = ("information_loss",)
    runs_on = ("local", "streaming", "spark")
    odd = {"empty": "refused", "one row": "refused", "all missing": (3,)}
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
        {
            "variables": ["birth_date", "household_size"],
            "grid": {"birth_date": "year", "household_size": 2},
        },
    )
    k: Annotated[int, Field(ge=2)] = 5
    clustering: Literal["mondrian", "mdav", "origin"] | None = None
    strata: list[str] = Field(default_factory=list)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables whose values become those of a cluster."""
        names = super().touches(schema)
        if self.variables is not None:
            return names
        return tuple(name for name in names if name not in self.strata)

    def by(self, schema: Schema) -> list[str]:
        """The strata, which nothing may generalise at once."""
        schema.require(self.strata)
        if both := [name for name in self.touches(schema) if name in self.strata]:
            raise PlanError(
                f"{', '.join(map(repr, both))} cannot be generalised and a stratum at once.",
                hint="name it in one of `variables` and `strata`.",
            )
        return self.strata

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Find the clusters, and write one cell for each; groups are kept together."""
        from sfumato.methods.clustering.groups import cluster_by_group

        by_group = cluster_by_group(self, data, engine) if data.schema.having("cluster") else None
        if by_group is not None:
            return by_group
        return super().transform(data, fitted, engine=engine, chance=chance)

    def require_over_tables(self, number: int) -> None:
        """Refuse strata, and clusterings that look at one table."""
        if self.strata or self.clustering not in (None, "mondrian"):
            raise PlanError(
                f"Step {number}, {self.name}, has no strata over several tables, and clusters by "
                '"mondrian" only.',
                hint="leave strata and clustering out.",
            )

    def choose_clustering(self, variables: Sequence[Variable], records: int) -> Clustering:
        """MDAV where all become means of numbers: they lie nearer than those of Mondrian."""
        if self.clustering is not None:
            return self.clustering
        outputs = self.resolve_outputs(variables)
        means = all(output in ("mean", "median") for output in outputs.values())
        numbers = all(
            variable.column.kind in ("continuous", "integer") and variable.worth is not None
            for variable in variables
        )
        return "mdav" if means and numbers and records <= _MOST_MDAV else "mondrian"
