"""The house rules of an output checker: what a figure or a table must keep to."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.engines.summaries import Count, Distinct, Summary
from sfumato.errors import PlanError
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Integers
from sfumato.parameters import list_settings, parameters
from sfumato.profiles import load_profile
from sfumato.schema.inference.repeats import names_person

Handling = Literal["show", "review", "hide"]
"""What to do with a cell: show it, show it and ask for a second look, or hide it."""
Unit = Literal["records", "persons", "groups"]
Rounding = Literal["nearest", "midpoint"]
Share = Annotated[float, Field(gt=0, lt=1)]
Dominance = tuple[Annotated[int, Field(ge=1)], Share]


@parameters
class Rules:
    """What an output may show; every default is the safe one.

    Question: what does this house let out?
    Assumes: one record is one person or firm, unless a variable with the role "person" or "cluster"
    says whose the records are.

    Parameters
    ----------
    k : fewest records, or units, behind anything that is shown; never below 3.
    unit : what every minimum counts: "persons" (role "person", the default); "groups" (role
        "cluster"), such as households or firms, and persons; or "records". A cell with many records
        of two firms is then hidden, and so is one most of whose records are one firm's. Where no
        variable has the role, records count.
    records : an output on fewer records, or units, than this is refused.
    bins : bins per axis, at most this share of the records, or units.
    noise : least noise, its SD as a share of the variable's SD.
    dominance : (n, share): a sum is hidden if its n largest contributors give more than the share;
        or several of these, each of which must hold.
    p_percent : a sum is hidden if the second largest contributor could tell the largest to within
        this share of it.
    difference : two outputs on populations that differ by fewer records, or persons, than this are
        flagged.
    zeros : what to do with empty cells of a table: "show", "review" or "hide".
    full : the same for a cell that holds all records of its row or column: who belongs there is
        known to have that value.
    full_share : a cell counts as full from this share of its row or column on. Below 1, such cells
        are reviewed, and cannot be hidden by `full`.
    round_to : counts in tables, bars and histograms are rounded by this, after small ones are
        hidden. Other figures draw counts as they are, and ask for a second look.
    rounding : "nearest" gives multiples of `round_to`. "midpoint" gives the middle of `round_to`
        counts in a row: with 6, the counts 7 to 12 become 9. A zero stays zero.

    Examples
    --------
    >>> Rules(k=5).k, Rules().records
    (5, 10)
    """

    k: Annotated[int, Field(ge=3)] = 3
    unit: Unit = "persons"
    records: Annotated[int, Field(ge=3)] = 10
    bins: Annotated[float, Field(gt=0, le=0.5)] = 1 / 3
    noise: Annotated[float, Field(gt=0)] = 0.25
    dominance: Dominance | Annotated[tuple[Dominance, ...], Field(min_length=1)] | None = (1, 0.8)
    p_percent: Share | None = 0.1
    difference: Annotated[int, Field(ge=2)] = 3
    zeros: Handling = "review"
    full: Handling = "review"
    full_share: Annotated[float, Field(gt=0.5, le=1)] = 1.0
    round_to: Annotated[int, Field(ge=2)] | None = None
    rounding: Rounding = "nearest"

    @model_validator(mode="after")
    def _round_by_a_number(self) -> Self:
        if self.rounding != "nearest" and self.round_to is None:
            msg = f'rounding = "{self.rounding}" needs round_to: by how much.'
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _hide_full_only(self) -> Self:
        if self.full == "hide" and self.full_share < 1:
            msg = 'full_share below 1 goes with full = "review".'
            raise ValueError(msg)
        return self

    @property
    def dominances(self) -> tuple[Dominance, ...]:
        """Each (n, share) that must hold."""
        pairs: Any = self.dominance
        if pairs is None:
            return ()
        return (pairs,) if isinstance(pairs[0], int) else pairs

    def round_counts(self, counts: Floats | Integers) -> Floats:
        """Counts as the rules let them be shown; a hidden count (NaN) stays hidden.

        Examples
        --------
        >>> Rules(round_to=5).round_counts(np.array([0, 7, 8, 12, 13])).tolist()
        [0.0, 5.0, 10.0, 10.0, 15.0]
        >>> midpoints = Rules(round_to=6, rounding="midpoint")
        >>> midpoints.round_counts(np.array([0, 6, 7, 12, 13])).tolist()
        [0.0, 3.0, 9.0, 9.0, 15.0]
        """
        numbers = np.asarray(counts, np.float64)
        if self.round_to is None:
            return numbers
        if self.rounding == "nearest":
            rounded: Floats = self.round_to * np.floor(numbers / self.round_to + 0.5)
            return rounded
        above = self.round_to * np.ceil(numbers / self.round_to)
        return np.where(numbers == 0, 0.0, above - self.round_to // 2)

    def describe_rounding(self) -> tuple[str, ...]:
        """What the reader of a table or a figure must know of its counts."""
        if self.round_to is None:
            return ()
        if self.rounding == "nearest":
            return (f"Counts are rounded to the nearest {self.round_to}.",)
        first, last = self.round_to + 1, 2 * self.round_to
        middle = last - self.round_to // 2
        row = f"{first} to {last} are shown as {middle}"
        return (f"Counts are rounded to the middle of {self.round_to} in a row: {row}.",)

    @property
    def most_contributors(self) -> int:
        """How many of the largest contributors to a sum the rules look at."""
        return max([2, *(number for number, _ in self.dominances)])

    @classmethod
    def from_profile(cls, name: str) -> Rules:
        """The rules of a profile, such as "sacro"; what it leaves open keeps its default."""
        profile = load_profile(name)
        if not profile.outputs:
            raise PlanError(
                f"The profile '{name}' is about files of records, not about tables and figures.",
                hint="`sfumato profiles` says which have rules for outputs.",
            )
        return cls._from_toml(dict(profile.outputs))

    @classmethod
    def load(cls, path: str | Path) -> Rules:
        """Read the rules from a TOML file; what it leaves out keeps its default.

        A rule that is switched off is written as `false`: `p_percent = false`.
        """
        try:
            rules = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
        except OSError:
            raise PlanError(f"There is no file of rules '{path}'.", hint="is it a file?") from None
        except UnicodeDecodeError:
            raise PlanError(f"The rules '{path}' are not UTF-8 text.") from None
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"The rules '{path}' are not valid TOML: {error}.") from None
        return cls._from_toml(rules)

    @classmethod
    def _from_toml(cls, rules: dict[str, Any]) -> Rules:
        # TOML knows no "nothing".
        for name in ("dominance", "p_percent"):
            if rules.get(name) is False:
                rules[name] = None
        return cls(**rules)

    def plain(self) -> dict[str, Any]:
        """The rules as plain values, for a log or a page; one that is switched off is `None`."""
        return {"dominance": None, "p_percent": None} | list_settings(self)


def warn_of_figure(rules: Rules, *, rounds: bool = False) -> tuple[str, ...]:
    """Why a figure asks for a second look under rules that it does not keep.

    Parameters
    ----------
    rules : of the house.
    rounds : whether the counts it shows were rounded.
    """
    return (_NOT_ROUNDED,) if rules.round_to is not None and not rounds else ()


def warn_of_shared_persons(data: Dataset, rules: Rules | None = None) -> tuple[str, ...]:
    """Why several records of one person ask for a second look; empty where nobody has several.

    Where the role "person" tells whose a record is, and the rules count persons, all is well. Else
    a record is taken for a person. Direct identifiers distinguish persons, too; without one, nobody
    can know.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> visits = pl.DataFrame({"person": [1, 1, 2], "age": [30, 31, 40]})
    >>> len(warn_of_shared_persons(sf.Dataset(visits, sf.Schema({"person": "direct"}))))
    1
    """
    if not frames.is_in_memory(data.frame):
        return _warn_by_counts(data)
    names = data.schema.having("direct")
    if data.units.declared:
        counted = data.units.one_row_each or (rules is not None and rules.unit != "records")
        return () if counted else (_SHARED,)
    if not names:
        return _warn_of_undeclared_persons(data)
    known = data.batch(names).drop_nulls()
    return () if known.n_unique() == known.height else (_SHARED,)


def _warn_of_undeclared_persons(data: Dataset) -> tuple[str, ...]:
    """Numbers of persons by their name, which nobody has declared, and which repeat."""
    repeated = [
        name
        for name, column in data.schema.items()
        if column.role is None and names_person(name) and data.column(name).is_duplicated().any()
    ]
    if not repeated:
        return ()
    return (_UNNAMED.format(name=repeated[0]),)


def _warn_by_counts(data: Dataset) -> tuple[str, ...]:
    """The same where the records are: some identifier must tell all of them apart."""
    names = data.schema.identifiers if data.schema.person is None else (data.schema.person,)
    if not names:
        return ()
    wanted: list[Summary] = [Count(), Distinct()]
    counted = engine_for(data.frame).aggregate(data, dict.fromkeys(names, wanted)).values()
    unique = any(numbers["count"] == numbers["distinct"] for numbers in counted)
    return () if unique else (_SHARED,)


_NOT_ROUNDED = "The rules round counts, and this figure draws them as they are."
_UNNAMED = (
    "Values of '{name}' stand in several rows, and nothing says whether these are one person's: "
    'give it the role "person", or "other".'
)
_SHARED = (
    "Some persons have several records: thresholds count records, so a cell may hold fewer persons "
    "than it seems."
)
