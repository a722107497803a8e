"""Whether the release gives the answers for which the data are shared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field, field_validator

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError, PlanError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.schema import IDENTIFYING
from sfumato.utility.purposes.estimates import PurposeItem, estimate_statement
from sfumato.utility.purposes.statements import PurposeStatement, read_statement

_KEPT = (
    "An item is kept if the release's estimate lies in the original's 95 % interval and an analyst "
    "would conclude the same: the same sign, and significant or not."
)
_CORRECTED = (
    "Where numbers have noise, the noise is taken out of predictors (regression calibration), as "
    "sf.fit does; an item that is kept only so is marked."
)
_AVERAGED = "Released cells that stand for several values enter with their average."
_SAMPLE = 20_000
"""Records on which usual questions are asked where nobody has stated a purpose."""
_MOST_NUMBERS, _MOST_GROUPS, _MOST_LEVELS = 12, 6, 12


@parameters
class Purpose(Measure):
    """Share of the answers for which the data are shared that the release still gives.

    Question: can those who receive the data do with them what they are for?
    Assumes: each line says what somebody wants to know. It is estimated from the original and from
    the release; an item is kept if the release's estimate lies in the original's 95 % interval and
    the conclusion is the same.

    Parameters
    ----------
    items : what the data are for, line by line: "wage ~ education + age", "poisson: visits ~ age",
        "survival(time, died) by arm", "survival(time, died) ~ age", "mean wage by sex",
        "sex * region", "correlation(height, weight)", "wage". Default: every mean and share, the
        correlations of numbers, and the means of what is secret in each group.
    single : variables that must stay single values: no ranges, sets or groups.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30, 40, 50, 60] * 9, "pay": [18, 26, 31, 42] * 9})
    >>> original = sf.Dataset(frame, sf.Schema({"age": "quasi", "pay": "sensitive"}))
    >>> released = original.with_columns(frame.select(pl.col("age") + 1))
    >>> found = Purpose(items=["pay ~ age", "mean age"]).measure(original, released)
    >>> found.value, found.details["kept"], found.details["items"]
    (1.0, 2, 2)

    References: Karr, Kohnen, Oganian, Reiter & Sanil (2006), A framework for evaluating the utility
    of data altered to protect confidentiality, The American Statistician 60:224.
    """

    name = "purpose"
    of = "pair"
    by_default = False
    examples = (
        {"items": ["systolic ~ height + sex", "mean glucose by sex", "sex * smoking"]},
        {"items": ["correlation(height, weight_kg)", "children"], "single": ["height"]},
    )
    numbers = (
        Number.score("purpose", lowest=0.0, highest=1.0, usual=True),
        Number.score("purpose_as_released", lowest=0.0, highest=1.0),
    )
    items: Annotated[list[str], Field(min_length=1)] | None = None
    single: list[str] | None = None

    @field_validator("items")
    @classmethod
    def _check_items(cls, items: list[str] | None) -> list[str] | None:
        for text in items or ():
            try:
                read_statement(text)
            except PlanError as error:
                msg = f"{error.what} Hint: {error.hint}"
                raise ValueError(msg) from None
        return items

    def list_statements(self, data: Dataset) -> list[PurposeStatement]:
        """What is asked for; where nothing is stated, what everybody asks for."""
        if self.items is not None:
            return [read_statement(text) for text in self.items]
        return list_usual_statements(data)

    def list_variables(self) -> list[str]:
        """The variables that are needed, as far as the purpose is stated."""
        named = [name for item in self.items or () for name in read_statement(item).variables]
        return list(dict.fromkeys([*named, *(self.single or ())]))

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Estimate every item from both."""
        del engine  # all records are in memory
        if not len(original) or not len(released):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        records = len(original)
        if self.items is None and records == len(released) and records > _SAMPLE:
            original, released = _draw_sample(original, released)
        items = [
            item
            for statement in self.list_statements(original)
            for item in estimate_statement(statement, original, released)
        ]
        items = [item for item in items if math.isfinite(item.original + item.low + item.high)]
        if not items:
            raise MeasureError(
                "The original answers none of the questions.",
                hint="are there enough records, and values that differ?",
            )
        ranges = [name for name in self.single or () if _is_range(released, name)]
        kept = sum(item.kept for item in items)
        return Evidence(
            name=self.name,
            subject="pair",
            value=0.0 if ranges else kept / len(items),
            direction=self.direction,
            table=original.like(_tabulate(items)),
            sampled=(len(original), records) if len(original) < records else None,
            details={
                "purpose_as_released": sum(item.kept_as_released for item in items) / len(items),
                "kept": kept,
                "items": len(items),
                "not_single": tuple(ranges),
                "stated": self.items is not None,
            },
            assumptions=(_KEPT, _CORRECTED, _AVERAGED),
            warnings=_list_warnings(items, ranges),
        )


def _draw_sample(original: Dataset, released: Dataset) -> tuple[Dataset, Dataset]:
    """The same records of both, chosen by what they are, whatever their order."""
    digests = original.identity.digests
    rows = np.lexsort((digests[:, 1], digests[:, 0]))[:_SAMPLE]
    return original.take(rows), released.take(rows)


def _is_range(released: Dataset, name: str) -> bool:
    return name not in released.columns or released.schema[name].generalised


def list_usual_statements(data: Dataset) -> list[PurposeStatement]:
    """Margins, all pairs of numbers, and the means of what is secret by group."""
    names = [name for name in data.columns if data.schema[name].role not in IDENTIFYING]
    numbers = [n for n in names if data.schema[n].kind in ("continuous", "integer")
               and data.dtype(n).is_numeric() and _varies(data, n)]  # fmt: skip
    groups = [n for n in names if n not in numbers and data.dtype(n) != pl.Date
              and 1 < data.column(n).n_unique() <= _MOST_LEVELS]  # fmt: skip
    secret = [name for name in numbers if data.schema[name].role == "sensitive"]
    lines = [_quote(name) for name in (*numbers, *groups)]
    pairs = itertools.combinations(_put_first(numbers, secret)[:_MOST_NUMBERS], 2)
    lines += [f"correlation({_quote(a)}, {_quote(b)})" for a, b in pairs]
    lines += [
        f"mean {_quote(name)} by {_quote(group)}"
        for name in secret or numbers[:1]
        for group in groups[:_MOST_GROUPS]
    ]
    return [read_statement(line) for line in lines]


def _put_first(names: Sequence[str], first: Sequence[str]) -> list[str]:
    return [*first, *(name for name in names if name not in first)]


def _varies(data: Dataset, name: str) -> bool:
    return data.column(name).drop_nulls().n_unique() > 1


def _quote(name: str) -> str:
    return f"`{name}`"


def _tabulate(items: Sequence[PurposeItem]) -> pl.DataFrame:
    rows = [
        {
            "item": item.statement, "name": item.name, "original": item.original,
            "low": item.low, "high": item.high, "released": _or_none(item.released),
            "corrected": _or_none(item.corrected), "kept": item.kept,
            "kept_as_released": item.kept_as_released, "reason": item.reason,
        }
        for item in items
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _list_warnings(items: Sequence[PurposeItem], ranges: Sequence[str]) -> tuple[str, ...]:
    lines = [f"'{name}' must stay single values, and does not." for name in ranges]
    lost = [item for item in items if not item.kept]
    lines += [f"Not kept: {item.name} ({item.statement})." for item in lost[:10]]
    if len(lost) > 10:  # noqa: PLR2004
        lines.append(f"And {len(lost) - 10} more are not kept.")
    return tuple(lines)
