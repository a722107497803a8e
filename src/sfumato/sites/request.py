"""What is asked of every site: the variables with their agreed ranges and levels, and the results.

A request comes from outside the site, so it is checked like any other untrusted file. Ranges and
levels are agreed, not read off anybody's data: a range that is not known yet is asked for in a
first request (`kind = "ranges"`).
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from sfumato.errors import PlanError
from sfumato.kernels.arrays import Floats
from sfumato.parameters import cut_repr
from sfumato.utility.models.formula import Formula, read_formula

_MOST_BINS, _MOST_LEVELS, _MOST_VARIABLES, _MOST_RESULTS = 200, 50, 50, 50
_LEARNT = ("center", "scale", "poly")
"""Functions of a formula that learn something from all records: no site has them all."""

ResultName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
_LINE = r"^[^\x00-\x1f\x7f]*$"
VariableName = Annotated[str, Field(min_length=1, max_length=200, pattern=_LINE)]
Level = Annotated[str, Field(max_length=200, pattern=_LINE)]
Title = Annotated[str, Field(max_length=200, pattern=_LINE)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Strict(BaseModel):
    """A part of a file from somebody else: nothing unknown is in it, and it never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr__(self) -> str:
        return cut_repr(super().__repr__())


class AgreedVariable(Strict):
    """A variable and what all sites agree on about it.

    Parameters
    ----------
    low, high : the range that counts; records outside it are left out.
    bins : equal bins of that range, the same in every result.
    levels : the levels that count, in order; the first is the reference of a model.
    step : for a first request: ranges are rounded outwards to multiples of it.
    """

    low: Number | None = None
    high: Number | None = None
    bins: Annotated[int, Field(ge=1, le=_MOST_BINS)] = 20
    levels: Annotated[tuple[Level, ...], Field(min_length=2, max_length=_MOST_LEVELS)] | None = None
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _check_one_kind(self) -> AgreedVariable:
        declarations = [self.levels is not None, self.low is not None or self.high is not None,
                        self.step is not None]  # fmt: skip
        if sum(declarations) != 1:
            raise ValueError("has either low and high, or levels, or (in a first request) a step.")
        if self.levels is not None and len(set(self.levels)) < len(self.levels):
            raise ValueError("has a level twice.")
        if declarations[1]:
            if self.low is None or self.high is None or not self.low < self.high:
                raise ValueError("needs low and high, low below high.")
            if not (np.diff(self.edges) > 0).all() or not math.isfinite(self.high - self.low):
                raise ValueError("has a range too narrow or too wide for its bins.")
        return self

    @property
    def edges(self) -> Floats:
        """The edges of the bins."""
        return np.linspace(self.low or 0.0, self.high or 0.0, self.bins + 1)


class Filter(Strict):
    """Which records count: those of some levels, or from low to high, both included."""

    variable: VariableName
    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=_MOST_LEVELS)] | None = None
    low: Number | None = None
    high: Number | None = None

    @model_validator(mode="after")
    def _check_something(self) -> Filter:
        if self.levels is None and self.low is None and self.high is None:
            raise ValueError("of a filter needs levels, low or high.")
        if self.levels is not None and (self.low, self.high) != (None, None):
            raise ValueError("of a filter has either levels or a range.")
        return self


class _Result(Strict):
    name: ResultName
    title: Title = ""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The variables that must be numbers with an agreed range."""
        return ()

    @property
    def categories(self) -> tuple[str, ...]:
        """The variables that must have agreed levels."""
        return ()

    @property
    def variables(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(dict.fromkeys((*self.numbers, *self.categories)))


class RangesResult(_Result):
    """A first round: from where to where some variables reach, rounded outwards."""

    kind: Literal["ranges"]
    of: Annotated[tuple[VariableName, ...], Field(min_length=1)]

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables whose range is asked for."""
        return self.of


class HistogramResult(_Result):
    """Counts in bins, by groups or not."""

    kind: Literal["histogram"]
    x: VariableName
    by: VariableName | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The variable."""
        return (self.x,)

    @property
    def categories(self) -> tuple[str, ...]:
        """The variable of the groups."""
        return () if self.by is None else (self.by,)


class BoxResult(HistogramResult):
    """A box, by groups or not: five numbers of each site, and counts from which all are read."""

    kind: Literal["box"]  # type: ignore[assignment]


class GridResult(_Result):
    """Counts in the cells of two variables, drawn as a heat map or as contours."""

    kind: Literal["heatmap", "contour"]
    x: VariableName
    y: VariableName

    @property
    def numbers(self) -> tuple[str, ...]:
        """The two variables."""
        return self.x, self.y


class ScatterResult(_Result):
    """Protected points of every site, drawn over one another."""

    kind: Literal["scatter"]
    x: VariableName
    y: VariableName
    protection: Literal["deterministic", "noise"] = "deterministic"

    @property
    def numbers(self) -> tuple[str, ...]:
        """The two variables."""
        return self.x, self.y


class SurvivalResult(_Result):
    """Events and ends without one, by time; the second level of `event` is the event."""

    kind: Literal["survival"]
    time: VariableName
    event: VariableName
    by: VariableName | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The time."""
        return (self.time,)

    @property
    def categories(self) -> tuple[str, ...]:
        """The event, and the variable of the groups."""
        return (self.event,) if self.by is None else (self.event, self.by)


class CrosstabResult(_Result):
    """Counts by one or two variables."""

    kind: Literal["crosstab"]
    rows: VariableName
    columns: VariableName | None = None

    @property
    def categories(self) -> tuple[str, ...]:
        """The variables of the table."""
        return (self.rows,) if self.columns is None else (self.rows, self.columns)


class ModelResult(_Result):
    """A regression, fitted from what every site adds up; with a link, round by round."""

    kind: Literal["model"]
    formula: Annotated[str, Field(max_length=2000)]
    family: Literal["linear", "logistic", "poisson"] = "linear"

    @field_validator("formula")
    @classmethod
    def _check_formula(cls, text: str) -> str:
        formula = read_formula(text)
        learnt = [part for part in formula.tokens if part.kind == "function"]
        if wrong := sorted({part.text for part in learnt if part.text in _LEARNT}):
            raise ValueError(
                f"calls '{wrong[0]}', which needs all records in one place. Hint: subtract and "
                "divide by numbers that were agreed, as in I((age - 50) / 10)."
            )
        if formula.outcome is None:
            raise ValueError("needs one variable as the outcome, as in 'y ~ x + z'.")
        return text

    @property
    def parsed_formula(self) -> Formula:
        """The formula, read."""
        return read_formula(self.formula)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the formula."""
        return self.parsed_formula.variables


Result = Annotated[
    RangesResult | HistogramResult | BoxResult | GridResult | ScatterResult | SurvivalResult
    | CrosstabResult | ModelResult,
    Field(discriminator="kind"),
]  # fmt: skip


class SiteRequest(Strict):
    """What is asked of every site.

    Question: which results are wanted, of which variables, in which ranges and levels?
    Assumes: all sites code these variables alike.

    Parameters
    ----------
    title : what it is about.
    variables : every variable that any result names, with its agreed range or levels.
    where : which records count; all of these must hold.
    results : what is wanted.
    version : of the format.

    Examples
    --------
    >>> request = SiteRequest.parse({
    ...     "variables": {"age": {"low": 20, "high": 90, "bins": 7}},
    ...     "results": [{"name": "ages", "kind": "histogram", "x": "age"}],
    ... })
    >>> request.variables["age"].edges.tolist()
    [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]
    """

    title: Title = ""
    variables: Annotated[
        dict[VariableName, AgreedVariable], Field(min_length=1, max_length=_MOST_VARIABLES)
    ]
    where: Annotated[tuple[Filter, ...], Field(max_length=_MOST_VARIABLES)] = ()
    results: Annotated[tuple[Result, ...], Field(min_length=1, max_length=_MOST_RESULTS)]
    version: Literal[1] = 1

    @model_validator(mode="after")
    def _check_together(self) -> SiteRequest:
        names = [result.name for result in self.results]
        if len(set(names)) < len(names):
            raise ValueError("has two results of one name.")
        for result in self.results:
            for problem in self._list_problems(result):
                raise ValueError(f"has a result '{result.name}' that {problem}")
        return self

    def _list_problems(self, result: Any) -> Iterator[str]:
        for name in result.variables:
            if name not in self.variables:
                yield f"names '{name}', which is not among the variables."
                return
            stepped = self.variables[name].step is not None
            if stepped and result.kind != "ranges":
                yield f"needs a range or levels of '{name}', and it has a step."
            if not stepped and result.kind == "ranges":
                yield f"asks for the range of '{name}', which needs a step."
        yield from self._list_kind_problems(result)
        if result.kind == "model":
            yield from self._list_model_problems(result)

    def _list_kind_problems(self, result: Any) -> Iterator[str]:
        for name in result.numbers:
            if self.variables[name].low is None:
                yield f"needs low and high of '{name}'."
        for name in result.categories:
            if self.variables[name].levels is None:
                yield f"needs the levels of '{name}'."
        pair = {"heatmap": ("x", "y"), "contour": ("x", "y"), "scatter": ("x", "y"),
                "crosstab": ("rows", "columns")}.get(result.kind)  # fmt: skip
        if pair and getattr(result, pair[0]) == getattr(result, pair[1]):
            yield "names one variable twice."
        if result.kind == "survival" and len(self.variables[result.event].levels or ()) != 2:  # noqa: PLR2004
            yield "needs two levels of the event: without it, and with it."

    def _list_model_problems(self, result: ModelResult) -> Iterator[str]:
        formula = result.parsed_formula
        levels = self.variables[str(formula.outcome)].levels
        if result.family == "logistic" and len(levels or ()) != 2:  # noqa: PLR2004
            yield "needs two levels of the outcome of a logistic model."
        if result.family != "logistic" and levels is not None:
            yield "needs an outcome with low and high, not levels."
        for name in formula.categories:
            if self.variables[name].levels is None:
                yield f"needs the levels of '{name}', which stands in C( )."

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> SiteRequest:
        """Check what a TOML file holds; all that is wrong is said at once."""
        try:
            return cls.model_validate(dict(content))
        except ValidationError as error:
            raise PlanError(
                "The request cannot be read: " + "; ".join(list_findings(error)),
                hint="docs/how-to/several-sites.md has a request with everything in it.",
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> SiteRequest:
        """Read a request from a TOML file."""
        try:
            content = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
        except OSError:
            raise PlanError(f"There is no request '{path}'.", hint="is it a file?") from None
        except UnicodeDecodeError:
            raise PlanError(f"The request '{path}' is not UTF-8 text.") from None
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"The request '{path}' is not valid TOML: {error}.") from None
        return cls.parse(content)

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def digest(self) -> str:
        """SHA-256 of the request: all sites must have answered the same one."""
        return hashlib.sha256(json.dumps(self.plain(), sort_keys=True).encode()).hexdigest()

    def get_result(self, name: str) -> Any:
        """The result of this name."""
        return next(result for result in self.results if result.name == name)


def list_findings(error: ValidationError) -> list[str]:
    """What pydantic found, without the values it found it in."""
    lines = []
    for finding in error.errors(include_url=False, include_input=False):
        location = ".".join(str(part) for part in finding["loc"])
        what = finding["msg"].removeprefix("Value error, ").rstrip(".")
        lines.append(f"{location} {what}" if location else f"it {what}")
    return lines
