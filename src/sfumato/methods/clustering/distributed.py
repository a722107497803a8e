"""Clusters of records that do not lie in the memory of one machine: the same as if they did.

Mondrian never divides records that are equal in all variables as it sees them. So it needs the
distinct rows and how many records each stands for, and these are found where the records are. A
worker finds the clusters of all rows of a stratum with the kernel of one machine. Where a stratum
has more rows than a worker takes, it is cut before by counts, one job for all open pieces at a
time, until its pieces fit; each worker goes on from there (see `pieces`).

What a cluster's cell says is a key of a few numbers. The keys that occur are few; they are fetched,
and the cells written once, by the code and with the decisions of one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.engines import Combinations, GroupingEngine, Starts
from sfumato.engines.local import find_class_of_each, find_positions
from sfumato.engines.verbs import HIGH, LOW, RANK, RECORDS, ROWS
from sfumato.errors import MethodError
from sfumato.kernels.arrays import UNWEIGHTED, Codes, Integers
from sfumato.methods._publishing.digits import round_like_original
from sfumato.methods.clustering.cells import (
    AVERAGES,
    CellForm,
    Clusters,
    Keys,
    RowCodes,
    describe_clusters,
    vary,
    write_keys,
)
from sfumato.methods.clustering.microaggregation import Clustering, cluster_rows, read_units
from sfumato.methods.clustering.pieces import PIECE, PieceCutter
from sfumato.methods.clustering.variables import (
    ClusteredRows,
    ConfidentialRule,
    Variable,
    encode_values,
    read_levels,
)

if TYPE_CHECKING:
    from sfumato.methods.clustering.method import ClusteringMethod

MOST_ROWS = 2_000_000
"""Distinct rows of a stratum up to which one worker finds its clusters."""
MOST_VALUES = 5_000_000
"""Different values of one variable that are brought together."""
STRATUM, FIRST = "__sfumato_stratum", "__sfumato_first"
_FAR = "__sfumato_far"
_CODE, _LEVEL, _SECRET, _KEY, _CELL = (
    f"__sfumato_{what}_" for what in ("code", "level", "secret", "key", "cell")
)


@dataclass(frozen=True, eq=False)
class Layout:
    """What is known before clusters are looked for, small enough to be sent to every worker.

    Parameters
    ----------
    k, clustering : the fewest records in a cluster, and how clusters are found.
    owner : the method's name, for messages.
    variables : the levels of each variable.
    aligned : the same on their grids, as a clustering sees them; `codes` has each level's code.
    forms : what cells look like.
    strata : the strata in their order, or None.
    rules : what clusters must keep about confidential variables.
    """

    k: int
    clustering: Clustering
    owner: str
    variables: Sequence[Variable]
    aligned: Sequence[Variable]
    forms: Sequence[CellForm]
    strata: pl.DataFrame | None
    rules: Sequence[ConfidentialRule]

    @property
    def secrets(self) -> dict[str, pl.Series]:
        """The confidential variables, and their values in rising order."""
        return {rule.name: rule.levels for rule in self.rules}

    @property
    def codes(self) -> list[str]:
        """The columns with the codes that a clustering sees."""
        return [f"{_CODE}{number}" for number in range(len(self.aligned))]

    @property
    def has_balanced_cells(self) -> bool:
        """Whether some cells follow from those of clusters before."""
        return any(form.output == "balanced" for form in self.forms)

    def name_secret(self, name: str) -> str:
        """The column with the codes of a confidential variable."""
        return f"{_SECRET}{list(self.secrets).index(name)}"

    @property
    def by(self) -> list[str]:
        """The columns whose combinations are strata."""
        return [] if self.strata is None else [STRATUM]

    @property
    def columns(self) -> list[str]:
        """All columns that tell rows apart."""
        return [*self.by, *self.codes, *map(self.name_secret, self.secrets)]

    @property
    def levels(self) -> list[str]:
        """Columns with the codes of values, where a clustering sees cells of a grid instead."""
        return [
            f"{_LEVEL}{number}" for number, form in enumerate(self.forms) if form.grid is not None
        ]

    def encode(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The codes of some records."""
        columns: dict[str, Any] = {}
        for number, (variable, aligned) in enumerate(
            zip(self.variables, self.aligned, strict=True)
        ):
            level = encode_values(batch[variable.name], variable, self.owner)
            columns[f"{_CODE}{number}"] = aligned.codes[level].astype(np.int32)
            if self.forms[number].grid is not None:
                columns[f"{_LEVEL}{number}"] = level.astype(np.int32)
        if self.strata is not None:
            stratum = find_class_of_each(batch.select(self.strata.columns), self.strata)
            columns[STRATUM] = stratum.astype(np.int32)
        for number, (name, levels) in enumerate(self.secrets.items()):
            columns[f"{_SECRET}{number}"] = encode(batch[name], levels).codes
        return pl.DataFrame(columns)

    def read_rows(self, batch: pl.DataFrame) -> ClusteredRows:
        """Rows, or records with their ranks, as a clustering sees them."""
        variables = [
            replace(variable, codes=batch[name].to_numpy(), known_counts=None)
            for name, variable in zip(self.codes, self.aligned, strict=True)
        ]
        ranks = batch[RANK].to_numpy() if RANK in batch.columns else UNWEIGHTED
        return ClusteredRows(
            variables,
            self.read_weights(batch),
            batch[STRATUM].to_numpy() if self.strata is not None else None,
            self.read_sensitive(batch),
            [replace(rule.rule, column=column) for column, rule in enumerate(self.rules)],
            lambda: [ranks],
        )

    def read_weights(self, batch: pl.DataFrame) -> Integers:
        """How many records each row stands for."""
        return batch[ROWS].to_numpy() if ROWS in batch.columns else UNWEIGHTED

    def read_sensitive(self, batch: pl.DataFrame) -> Codes | None:
        """A column of codes for each rule."""
        position = {
            name: batch[f"{_SECRET}{number}"].to_numpy() for number, name in enumerate(self.secrets)
        }
        if not self.rules:
            return None
        return np.column_stack([rule.codes[position[rule.name]] for rule in self.rules])

    def describe(self, batch: pl.DataFrame, clusters: Clusters) -> pl.DataFrame:
        """The keys of each row's cells, and which row is the first of its cluster."""
        cluster_of_row = clusters.number_records()
        weights, columns = self.read_weights(batch), []
        for number, (variable, form) in enumerate(zip(self.variables, self.forms, strict=True)):
            low = high = f"{_CODE}{number}"
            if form.grid is not None:
                low = high = f"{_LEVEL}{number}"
            if form.grid is not None and low + LOW in batch.columns:
                low, high = low + LOW, high + HIGH
            codes = batch[low].to_numpy()
            rows = RowCodes(codes, codes if low == high else batch[high].to_numpy(), weights)
            keys = pl.Series(_to_bytes(describe_clusters(variable, rows, clusters, form)))
            columns.append(keys.gather(cluster_of_row).alias(f"{_KEY}{number}"))
        first = np.zeros(batch.height, np.int64)
        first[clusters.order[clusters.starts[:-1]]] = 1
        return pl.DataFrame([*columns, pl.Series(FIRST, first)])

    def cluster(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The keys of the cells of whole strata."""
        if not batch.height:
            return self.describe_nothing()
        return self.describe(batch, cluster_rows(self.read_rows(batch), self.k, self.clustering))

    def describe_nothing(self) -> pl.DataFrame:
        """The columns of `describe` without rows."""
        keys = {f"{_KEY}{number}": pl.Binary() for number in range(len(self.variables))}
        return pl.DataFrame(schema={**keys, FIRST: pl.Int64()})


def _to_bytes(keys: Keys) -> list[bytes]:
    if isinstance(keys, list):
        return keys
    if keys.dtype == object:
        raise MethodError(
            "The totals of a cluster are too large to be sent.",
            hint='choose the output "median" or "range".',
        )
    written, width = np.ascontiguousarray(keys, np.int64).tobytes(), 8 * keys.shape[1]
    return [written[first : first + width] for first in range(0, len(written), width)]


def _from_bytes(keys: list[bytes], like: Keys) -> Keys:
    if isinstance(like, list):
        return keys
    return np.frombuffer(b"".join(keys), np.int64).reshape(len(keys), -1)


def cluster_elsewhere(method: ClusteringMethod, data: Dataset, engine: GroupingEngine) -> Dataset:
    """Find the clusters where the records are, and write one cell for each."""
    names = method.touches(data.schema)
    records = engine.count(data)
    layout = _prepare(method, data, names, records, engine)
    by = method.by(data.schema)
    shown = replace(data, schema=data.schema.changed([*names, *by], missing=()))

    def encode_records(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return layout.encode(batch)

    coded = engine.map_rows(shown, encode_records, reads=[*names, *by, *layout.secrets])
    if layout.clustering == "mondrian":
        described = _cluster_rows(layout, coded, engine)
    elif layout.clustering == "origin" and not by and not layout.has_balanced_cells:
        described = _cluster_along_origin(layout, coded, records, engine)
    else:
        described = _cluster_records(layout, engine.rank(coded, []), engine)
    described = engine.keep(described)
    cells, only = _write_cells(layout, data, described, engine)
    if not cells:
        return data
    if only:
        clusters = engine.fetch(engine.group(described, [], weight=FIRST))[RECORDS][0]
        if int(clusters) == 1:
            method.warn_of_loss(records)
    return _show_cells(layout, data, coded, described, cells, engine)


def _prepare(
    method: ClusteringMethod,
    data: Dataset,
    names: Sequence[str],
    records: int,
    engine: GroupingEngine,
) -> Layout:
    from sfumato.methods.clustering.method import number_strata

    owner = type(method).__name__
    # Every code for missing is a level by itself.
    shown = replace(data, schema=data.schema.changed(names, missing=()))
    occurring = _count_values(shown, names, engine)
    variables = [read_levels(occurring[name], data.schema[name], owner) for name in names]
    forms, aligned = method.prepare(variables, records)
    return Layout(
        method.k,
        method.choose_clustering(aligned, records),
        owner,
        variables,
        aligned,
        forms,
        number_strata(method, data, engine),
        method.rules(data, names, engine),
    )


def _cluster_rows(layout: Layout, coded: Dataset, engine: GroupingEngine) -> Dataset:
    """The distinct rows with the keys of their cells."""
    rows = engine.keep(engine.group(coded, layout.columns, extremes=layout.levels))
    sizes = engine.fetch(engine.group(rows, layout.by))
    by, pieces = layout.by, None
    # What is balanced is carried on from cluster to cluster, so all must be in one place.
    if layout.has_balanced_cells:
        by = []
    elif (large := sizes.filter(pl.col(ROWS) > MOST_ROWS)).height:
        strata = sorted(large[STRATUM].to_list()) if layout.by else [0]
        rows, pieces = PieceCutter(layout, rows, strata, MOST_ROWS, engine).cut()
        by = [PIECE]

    def describe(batch: pl.DataFrame, starts: Starts, draws: object) -> pl.DataFrame:
        del draws
        if pieces is None or not batch.height:
            return layout.cluster(batch)
        return layout.describe(batch, pieces.cluster(batch, starts))

    return engine.map_groups(rows, describe, by=by, reads=list(rows.columns))


def _cluster_records(layout: Layout, ranked: Dataset, engine: GroupingEngine) -> Dataset:
    """The records with the keys of their cells, for clusterings that divide equal records."""

    def describe(batch: pl.DataFrame, starts: Starts, draws: object) -> pl.DataFrame:
        del starts, draws
        return layout.cluster(batch)

    reads = [*layout.columns, *layout.levels, RANK]
    return engine.map_groups(ranked, describe, by=layout.by, reads=reads)


def _cluster_along_origin(
    layout: Layout, coded: Dataset, records: int, engine: GroupingEngine
) -> Dataset:
    """Algorithm S2 by ranks: k after k along the distance, wherever the records are."""
    from sfumato.kernels.clustering.clusters import count_inverse_variance, measure_distances

    owner, k = 'The clustering "origin"', layout.k
    units = [read_units(variable, owner) for variable in layout.aligned]
    scale = np.array(
        [
            count_inverse_variance(
                numbers, np.bincount(aligned.codes, variable.counts, len(numbers)).astype(np.int64)
            )
            for numbers, aligned, variable in zip(
                units, layout.aligned, layout.variables, strict=True
            )
        ]
    )
    integers = all(numbers.dtype.kind in "iu" for numbers in units)

    def measure(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        columns = [
            numbers[batch[name].to_numpy()]
            for name, numbers in zip(layout.codes, units, strict=True)
        ]
        values = np.column_stack(columns).astype(np.int64 if integers else np.float64)
        return pl.DataFrame({_FAR: measure_distances(values, scale)})

    far = engine.map_rows(coded, measure, reads=layout.codes)
    # Whoever is equally far comes by the values, and who is equal by the person.
    ranked = engine.rank(far, [_FAR, *layout.codes])

    def number(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return pl.DataFrame({PIECE: np.minimum(batch[RANK].to_numpy() // k, records // k - 1)})

    def describe(batch: pl.DataFrame, starts: Starts, draws: object) -> pl.DataFrame:
        del draws
        if not batch.height:
            return layout.describe_nothing()
        return layout.describe(batch, Clusters(np.arange(batch.height), starts))

    numbered = engine.map_rows(ranked, number, reads=[RANK])
    return engine.map_groups(numbered, describe, by=[PIECE], reads=[*layout.codes, *layout.levels])


def _count_values(
    data: Dataset, names: Sequence[str], engine: GroupingEngine
) -> dict[str, Combinations]:
    """What `distinct` says of each of some variables, where the values are few enough."""
    occurring = {name: engine.distinct(data, [name]) for name in names}
    for name, values in occurring.items():
        if len(values) > MOST_VALUES:
            raise MethodError(
                f"Variable '{name}' has {len(values):,} different values; {MOST_VALUES:,} are the "
                "most that are brought together.",
                hint="round or coarsen it first.",
            )
    return occurring


@dataclass(frozen=True, eq=False)
class _WrittenCells:
    """The cells of a variable, and the key of each."""

    keys: pl.Series
    table: pl.Series


def _write_cells(
    layout: Layout, data: Dataset, described: Dataset, engine: GroupingEngine
) -> tuple[dict[int, _WrittenCells], bool]:
    """The cells of each variable that is changed, and whether all records have the same ones."""
    written, only = {}, True
    none = Clusters(np.zeros(1, np.int64), np.array([0, 1]))
    zero = np.zeros(1, np.int32)
    for number, (variable, form) in enumerate(zip(layout.variables, layout.forms, strict=True)):
        occurring = engine.distinct(described, [f"{_KEY}{number}"]).values.to_series().sort()
        only &= len(occurring) == 1
        example = describe_clusters(variable, RowCodes(zero, zero, UNWEIGHTED), none, form)
        keys = _from_bytes(occurring.to_list(), example)
        if vary(variable, keys, form):
            written[number] = _WrittenCells(occurring, write_keys(variable, keys, form))
        elif data.dtype(variable.name) == pl.Datetime:
            # Days that counted as equal may still differ by the time of the day.
            codes = [key[-1] for key in keys] if isinstance(keys, list) else keys[:, 0]
            written[number] = _WrittenCells(occurring, variable.levels.gather(codes))
    return written, only


def _show_cells(
    layout: Layout,
    data: Dataset,
    coded: Dataset,
    described: Dataset,
    cells: dict[int, _WrittenCells],
    engine: GroupingEngine,
) -> Dataset:
    """The data with the cells of each record's cluster."""
    from sfumato.methods.clustering.method import declare_cells

    names = {number: layout.variables[number].name for number in cells}
    schema = declare_cells(data, {n: cells[number].table for number, n in names.items()})
    averaged = [n for number, n in names.items() if layout.forms[number].output in AVERAGES]

    def find_cells(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        keys = {number: batch[f"{_KEY}{number}"] for number in cells}
        return pl.DataFrame(
            [
                find_positions(keys[number], cells[number].keys).alias(f"{_CELL}{number}")
                for number in cells
            ]
        )

    def write(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return pl.DataFrame(
            [
                cells[number].table.gather(batch[f"{_CELL}{number}"]).alias(name)
                for number, name in names.items()
            ]
        )

    numbered = engine.map_rows(described, find_cells, reads=[f"{_KEY}{n}" for n in cells])
    chosen = [f"{_CELL}{number}" for number in cells]
    if layout.clustering == "mondrian":
        wanted = {*layout.columns, *chosen}
        table = numbered.without(name for name in numbered.columns if name not in wanted)
        numbered = engine.join(coded, table, layout.columns)
    released = engine.map_rows(numbered, write, reads=chosen)
    hidden = [name for name in released.columns if name not in data.columns]
    shown = replace(released.without(hidden), schema=schema)
    return round_like_original(data, shown, averaged, engine)
