"""Lists of items, such as diagnoses, in which no few items point to a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.item_lists import (
    DELIMITER,
    LISTS,
    find_lists,
    list_readings,
    read_items,
    split_items,
)
from sfumato.cells.notation import WILDCARD
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Integers
from sfumato.kernels.itemsets import LARGEST, MOST, ItemRows, count_combinations, count_itemsets
from sfumato.method import Fitted, RowWise, Strength
from sfumato.methods.persons import PERSON, attach_persons, has_persons
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema
from sfumato.schema.hierarchies import Hierarchy
from sfumato.units import Units

_LEFT_OUT = ""
"""What an item becomes that is left out of every list."""
How = Literal["both", "generalise", "suppress"]


@parameters
class KmAnonymity(RowWise):
    """Make the items of lists broader, or leave them out, until any m of them fit k persons.

    Question: how can the diagnoses of a stay be released, if outsiders know a few of them?
    Assumes: the outsider knows up to m items that a person has, in one variable, and not which
    others they have or lack. Afterwards every combination of up to m items that some list has is in
    the lists of at least k persons. An item is treated alike in all lists: it becomes its group in
    the declared hierarchy, with all items of that group, or is left out everywhere; then no group
    that is written has it. So whoever has the known items is among those that fit. Which items
    change is decided greedily: the least loss for the combinations that it mends. Repeats and the
    order of items are not kept.
    Where rows belong to persons (role "person"), k counts persons, both for the items of one row
    and for those of all rows of a person together.

    Parameters
    ----------
    variables : the variables with lists. Default: all that are declared by `cells = "lists"`.
    k : fewest persons who fit any items that an outsider may know.
    m : most items that the outsider knows.
    how : what is done with rare items: "generalise" leaves them out only where there is no broader
        group, "suppress" makes none broader, "both" does what loses less.
    delimiter : what stands between the items of a cell.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> groups = {"E10": ("diabetes",), "E11": ("diabetes",), "I10": ("heart",), "I50": ("heart",)}
    >>> codes = sf.Column(role="quasi", cells="lists", hierarchy=groups)
    >>> frame = pl.DataFrame({"codes": ["E10;I10", "E11;I10", "E11;I10", "I10;E11"]})
    >>> data = sf.Dataset(frame, sf.Schema({"codes": codes}))
    >>> KmAnonymity(k=2, m=2, how="generalise").apply(data).frame["codes"].to_list()
    ['I10;diabetes', 'I10;diabetes', 'I10;diabetes', 'I10;diabetes']
    >>> KmAnonymity(k=2, m=2, how="suppress").apply(data).frame["codes"].to_list()
    ['I10', 'E11;I10', 'E11;I10', 'E11;I10']

    References: Terrovitis, Mamoulis & Kalnis (2008), Privacy-preserving anonymization of set-valued
    data, Proceedings of the VLDB Endowment 1:115 (the a-priori algorithm).
    """

    name = "km_anonymity"
    strength = Strength("k")
    treats = "records"
    reports = ("k_of_items",)
    runs_on = ("local", "streaming", "spark")
    odd = {"empty": "refused", "one row": "refused"}
    examples = (
        {"variables": ["diagnosis"], "k": 5},
        {"variables": ["diagnosis"], "k": 8, "m": 3, "how": "generalise"},
        {"variables": ["diagnosis", "ethnicity"], "k": 4, "m": 1, "how": "suppress"},
    )
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=2)] = 5
    m: Annotated[int, Field(ge=1, le=8)] = 2
    how: How = "both"
    delimiter: Annotated[str, Field(min_length=1, max_length=3)] = DELIMITER

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables with lists."""
        return find_lists(self.variables, schema)

    def set_report(self, name: str) -> dict[str, Any]:
        """The release is measured with as many known items as are promised."""
        del name
        names = {} if self.variables is None else {"variables": list(self.variables)}
        return {**names, "m": self.m, "delimiter": self.delimiter}

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """For each variable what becomes of each item that does not stay."""
        names = self.touches(data.schema)
        if not names:
            raise MethodError(
                "There is no variable with lists of items.",
                hint='declare one: diagnoses = { role = "quasi", cells = "lists" }, or name it in '
                "`variables`.",
            )
        data.schema.require(names)
        return {name: self._fit_variable(data, name, engine) for name in names}

    def _fit_variable(self, data: Dataset, name: str, engine: Engine) -> dict[str, str]:
        if data.dtype(name) not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
            raise MethodError(
                f"Variable '{name}' holds no text, and so no lists of items.", hint="leave it out."
            )
        if has_persons(data):
            pairs = engine.distinct(attach_persons(data, engine), [PERSON, name])
            persons = pairs.values[PERSON]
            numbers = persons.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
            units = Units.of(np.unique(numbers, return_inverse=True)[1].ravel())
        else:
            pairs = engine.distinct(data, [name])
            units = Units.standing_for(len(pairs), pairs.counts)
        if units.count < self.k:
            raise MethodError(
                f"No items can fit k records: k is {self.k}, there are {units.count}.",
                hint="take a smaller k.",
            )
        lists = read_items(split_items(pairs.values[name], self.delimiter), units)
        state = _State.of(lists.names, data.schema[name], self.how)
        self._require_names(name, state)
        size = 1
        while size <= self.m:
            # A change may break smaller combinations: an item that was left out may come back.
            size = 1 if self._mend(lists.rows, state, size, name) else size + 1
        return {
            item: new
            for item, new in zip(lists.names, state.list_tokens(), strict=True)
            if new != item
        }

    def _require_names(self, name: str, state: _State) -> None:
        if any(self.delimiter in group for path in state.paths for group in path):
            raise MethodError(
                f"Variable '{name}' has a group whose name holds what stands between items.",
                hint="rename the group in the hierarchy, or choose another delimiter.",
            )

    def _mend(self, lists: ItemRows, state: _State, size: int, name: str) -> bool:
        """Change some items of the combinations that fit too few; False where there are none."""
        current = state.recode(lists)
        broken: list[Integers] = []
        for reading in list_readings(current):
            if count_combinations(reading, size) > MOST or reading.width**size >= LARGEST:
                raise MethodError(
                    f"The lists of '{name}' have too many combinations of {size} items.",
                    hint="take a smaller m, or make the items broader first (`recode`).",
                )
            parts = count_itemsets(reading, size)
            broken += [part.items[part.support < self.k] for part in parts]
        violating = np.unique(np.concatenate(broken), axis=0) if broken else np.empty((0, size))
        if not len(violating):
            return False
        state.change(violating.astype(np.int64), _count_persons(current))
        return True

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """The new lists for a batch of records."""
        del draws
        return pl.DataFrame([self._rewrite(batch[name], fitted[name]) for name in fitted])

    def _rewrite(self, cells: pl.Series, new: Mapping[str, str]) -> pl.Series:
        """Each distinct list once: items replaced, without repeats, in the order of their names."""
        distinct = cells.cast(pl.String).drop_nulls().unique()
        texts = [
            self.delimiter.join(sorted({new.get(item, item) for item in items} - {_LEFT_OUT}))
            for items in split_items(distinct, self.delimiter).to_list()
        ]
        written = pl.Series(texts, dtype=pl.String)
        return cells.cast(pl.String).replace_strict(
            distinct, written, default=None, return_dtype=pl.String
        )

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """The variables hold lists of items or of their groups."""
        return schema.changed(fitted, cells=LISTS, kind="text", domain=None)


def _count_persons(lists: ItemRows) -> Integers:
    """How many units have each token."""
    counts = np.zeros(lists.width, np.int64)
    for part in count_itemsets(lists, 1):
        counts[part.items[:, 0]] = part.support
    return counts


@dataclass(frozen=True, eq=False)
class _Change:
    """Something that can be done: what it loses, the items that change, and their new level."""

    loss: float
    items: Integers
    level: Integers


@dataclass(eq=False)
class _State:
    """What has become of each item so far.

    Parameters
    ----------
    paths : for each item itself and its ever broader groups.
    level : how far up its path each item is; at the end of it, it is left out.
    how : what may be done.
    members : for each group its items, and how far up their paths it is.
    tokens : what is written at the moment, by number; those of `recode`.
    token_of : the number of what each item is written as; -1 if it is left out.
    """

    paths: list[tuple[str, ...]]
    level: Integers
    how: How
    members: dict[str, tuple[Integers, Integers]]
    tokens: list[str] = field(default_factory=list)
    token_of: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, items: tuple[str, ...], column: Column, how: How) -> _State:
        """Every item as it is."""
        above = Hierarchy.of(column.hierarchy or {}).paths if how != "suppress" else {}
        paths = [_list_path(item, above.get(item, ())) for item in items]
        occurrences: dict[str, list[tuple[int, int]]] = {}
        for item, path in enumerate(paths):
            for position, name in enumerate(path):
                occurrences.setdefault(name, []).append((item, position))
        members = {}
        for name, pairs in occurrences.items():
            positions = np.array(pairs, np.int64)
            members[name] = (positions[:, 0], positions[:, 1])
        return cls(paths, np.zeros(len(items), np.int64), how, members)

    def list_tokens(self) -> list[str]:
        """What each item is written as."""
        return [
            path[level] if level < len(path) else _LEFT_OUT
            for path, level in zip(self.paths, self.level.tolist(), strict=True)
        ]

    def recode(self, lists: ItemRows) -> ItemRows:
        """The lists as they would be written."""
        written = self.list_tokens()
        self.tokens = sorted(set(written) - {_LEFT_OUT})
        number = {token: position for position, token in enumerate(self.tokens)}
        self.token_of = np.array([number.get(token, -1) for token in written], np.int64)
        row = np.repeat(np.arange(len(lists)), lists.lengths)
        new = self.token_of[lists.items]
        row, new = row[new >= 0], new[new >= 0]
        width = max(len(self.tokens), 1)
        pairs = np.unique(row * np.int64(width) + new)
        row, new = np.divmod(pairs, width)
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(lists)))])
        return ItemRows(starts, new, len(self.tokens), lists.units)

    def change(self, violating: Integers, persons: Integers) -> None:
        """Change items until each of these combinations has one that was changed.

        The next is always the change that loses least for the combinations it touches. Whether it
        has mended them is counted again afterwards.
        """
        options = {
            token: min(self._list_changes(token, persons), key=lambda change: change.loss)
            for token in np.unique(violating).tolist()
        }
        unmended = violating
        while len(unmended):
            times = np.bincount(unmended.ravel(), minlength=len(self.tokens))
            # The first of equals by name: tokens are numbered in the order of their names.
            token = min(
                np.flatnonzero(times).tolist(),
                key=lambda token: options[token].loss / times[token],
            )
            change = options[token]
            self._apply(change)
            unmended = unmended[
                ~np.isin(unmended, np.unique(self.token_of[change.items])).any(axis=1)
            ]

    def _apply(self, change: _Change) -> None:
        """Move the items; none becomes finer than another change has made it.

        A group that is written stands for all its items. So those of them that were left out come
        back as the group: else nobody with such an item would be among those that fit it.
        """
        now = self.level[change.items]
        ends = np.array([len(self.paths[item]) for item in change.items.tolist()], np.int64)
        self.level[change.items] = np.where(
            now == ends, change.level, np.maximum(now, change.level)
        )

    def _list_changes(self, token: int, persons: Integers) -> list[_Change]:
        """What can be done about a token: make it broader, or leave it out."""
        token_items = np.flatnonzero(self.token_of == token)
        ends = np.array([len(self.paths[item]) for item in token_items.tolist()], np.int64)
        leave_out = _Change(float(persons[token]), token_items, ends)
        path = self.paths[token_items[0]]
        position = path.index(self.tokens[token]) + 1
        if position == len(path):
            return [leave_out]
        items, level = self.members[path[position]]
        everything = max(len(self.paths) - 1, 1)
        shown = self.token_of[items]
        sizes = np.bincount(shown[shown >= 0], minlength=len(self.tokens))
        # Each item counts by the share of all items that it may now be.
        wider = (len(items) - sizes[sizes > 0]) / everything
        loss = float((persons[sizes > 0] * wider).sum())
        broader = _Change(loss, items, level)
        return [broader] if self.how == "generalise" else [broader, leave_out]


def _list_path(item: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """An item and its groups, each once; `*` says nothing, so it is no group."""
    return tuple(
        dict.fromkeys(name for name in (item, *groups) if name not in (WILDCARD, _LEFT_OUT))
    )
