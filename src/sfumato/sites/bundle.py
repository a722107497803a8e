"""A bundle: what one site lets out in answer to a request. And a round: what it is asked next.

Both are files from somebody else. Whatever reads them checks every part: a bundle that shows a
count below its own threshold, or an answer that does not fit the request, is refused.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError, model_validator

from sfumato.errors import DataError
from sfumato.io.atomic import PUBLIC, create_file, put_folder_in_place, write_file
from sfumato.io.json_reader import parse_json
from sfumato.sites.request import (
    Level,
    ModelResult,
    ResultName,
    SiteRequest,
    Strict,
    VariableName,
    list_findings,
)

BUNDLE, CHECKSUM = "bundle.json", "bundle.json.sha256"
MOST_ROUNDS = 25
"""Rounds of a model with a link; most end after six to eight."""
_MOST_BYTES = 64 << 20
_MOST_POINTS = 20_000
_FIVE = 5
SiteName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f]+$")]
Count = Annotated[int, Field(ge=0, le=10**12)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
T = TypeVar("T", bound=Strict)


class _Answer(Strict):
    """What a site says to one result; numbers are numbers, and not texts that look like some."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def list_counts(self) -> Iterator[int]:
        """Every count in it: 0, or at least the site's threshold."""
        return iter(())

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """What does not fit the request."""
        del request, result
        return iter(())


class Withheld(_Answer):
    """The site lets nothing out; which of its rules forbids it stays there."""

    kind: Literal["withheld"] = "withheld"


class RangesAnswer(_Answer):
    """From where to where variables reach: multiples of the step that was agreed."""

    kind: Literal["ranges"] = "ranges"
    ranges: dict[VariableName, tuple[Finite, Finite]]

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """Other variables than were asked for, or ends that are no multiples."""
        if set(self.ranges) != set(result.of):
            yield "has other variables than were asked for"
            return
        for name, ends in self.ranges.items():
            step = request.variables[name].step or 1.0
            if not ends[0] < ends[1] or any(round(end / step) * step != end for end in ends):
                yield f"has a range of '{name}' off the agreed steps"


class JoinedBins(_Answer):
    """How many records lie between edges: none, or at least k.

    Parameters
    ----------
    edges : positions among the agreed edges; the first and the last are always there.
    counts : records between them; bins of few records were joined with a neighbour.
    """

    edges: Annotated[tuple[Count, ...], Field(min_length=2)]
    counts: tuple[Count, ...]

    def fit_edges(self, bins: int) -> bool:
        """Whether the edges rise from the first agreed one to the last, with a count each."""
        edges = list(self.edges)
        rising = edges == sorted(set(edges)) and [edges[0], edges[-1]] == [0, bins]
        return rising and len(self.counts) == len(edges) - 1 and any(self.counts)


class HistogramAnswer(_Answer):
    """Counts in the agreed bins, by group."""

    kind: Literal["histogram"] = "histogram"
    groups: dict[Level, JoinedBins]

    def list_counts(self) -> Iterator[int]:
        """The counts of all bins."""
        return (count for bins in self.groups.values() for count in bins.counts)

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """Unknown groups, or other edges."""
        yield from _find_unknown_groups(self.groups, request, result)
        if not all(
            histogram.fit_edges(request.variables[result.x].bins)
            for histogram in self.groups.values()
        ):
            yield "has edges that are none of the agreed ones"


class QuantileSketch(JoinedBins):
    """Counts from which any quantile can be read, and five safe quantiles.

    Parameters
    ----------
    five : whisker, box, middle line, box, whisker: each the mean of k records, rounded.
    """

    five: tuple[Finite, ...]


class BoxAnswer(HistogramAnswer):
    """A sketch of the quantiles of each group."""

    kind: Literal["box"] = "box"  # type: ignore[assignment]
    groups: dict[Level, QuantileSketch]  # type: ignore[assignment]

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """The same, and quantiles that do not rise."""
        yield from super().list_problems(request, result)
        for sketch in self.groups.values():
            if len(sketch.five) != _FIVE or list(sketch.five) != sorted(sketch.five):
                yield "has quantiles that do not rise"


class GridAnswer(_Answer):
    """Counts in the agreed cells of two variables; 0 where there are none, or too few."""

    kind: Literal["grid"] = "grid"
    counts: tuple[tuple[Count, ...], ...]

    def list_counts(self) -> Iterator[int]:
        """The counts of all cells."""
        return (count for row in self.counts for count in row)

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """Another number of cells."""
        x, y = (request.variables[name].bins for name in (result.x, result.y))
        if len(self.counts) != x or any(len(row) != y for row in self.counts):
            yield "has another number of cells"


class ScatterAnswer(_Answer):
    """Protected points."""

    kind: Literal["scatter"] = "scatter"
    points: Annotated[tuple[tuple[Finite, Finite], ...], Field(min_length=1)]
    k: Annotated[int, Field(ge=3)]
    sd_share: Finite | None = None

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """More points than can be drawn; noise where centres were asked for."""
        del request
        if len(self.points) > _MOST_POINTS:
            yield f"has more than {_MOST_POINTS:,} points"
        if (self.sd_share is None) != (result.protection == "deterministic"):
            yield "is protected in another way than was asked for"


class LifeTable(_Answer):
    """Who had the event, and who left without it, up to each time.

    Parameters
    ----------
    times : positions among the agreed edges, rising: the ends of intervals.
    events, ends : how many had the event, or left, in the interval; 0 or at least k.
    """

    times: tuple[Count, ...]
    events: tuple[Count, ...]
    ends: tuple[Count, ...]


class SurvivalAnswer(_Answer):
    """A life table of each group."""

    kind: Literal["survival"] = "survival"
    groups: dict[Level, LifeTable]

    def list_counts(self) -> Iterator[int]:
        """All numbers of events and of ends."""
        for table in self.groups.values():
            yield from (*table.events, *table.ends)

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """Unknown groups, times out of order, columns of unequal length."""
        yield from _find_unknown_groups(self.groups, request, result)
        bins = request.variables[result.time].bins
        for table in self.groups.values():
            times = list(table.times)
            if times != sorted(set(times)) or not times or not 0 < times[0] <= times[-1] <= bins:
                yield "has times that are none of the agreed ones"
            if not len(times) == len(table.events) == len(table.ends):
                yield "has columns of unequal length"


class CrosstabAnswer(_Answer):
    """Counts by rows and columns, the totals last; null where a count is hidden."""

    kind: Literal["crosstab"] = "crosstab"
    cells: tuple[tuple[Count | None, ...], ...]

    def list_counts(self) -> Iterator[int]:
        """All counts that are shown."""
        return (count for row in self.cells for count in row if count is not None)

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """Another number of rows or columns."""
        rows = len(request.variables[result.rows].levels or ()) + 1
        columns = 1
        if result.columns is not None:
            columns = len(request.variables[result.columns].levels or ()) + 1
        if len(self.cells) != rows or any(len(row) != columns for row in self.cells):
            yield "has another number of rows or columns"


class ModelAnswer(_Answer):
    """What a site adds to a regression.

    Parameters
    ----------
    records : how many records it rests on.
    factor : the triangular factor of terms and outcome, row by row. It holds what their sums of
        squares and cross-products hold, with more digits.
    deviance : of the estimates with which the round began.
    """

    kind: Literal["model"] = "model"
    records: Count
    factor: tuple[tuple[Finite, ...], ...]
    deviance: Finite

    def list_counts(self) -> Iterator[int]:
        """The number of records."""
        return iter((self.records,))

    def list_problems(self, request: SiteRequest, result: Any) -> Iterator[str]:
        """A factor that is not triangular, or of another number of terms."""
        from sfumato.sites.regression import make_terms

        width = len(make_terms(request, result).names) + 1
        if [len(row) for row in self.factor] != list(range(width, 0, -1)):
            yield "has another number of terms"


Answer = Annotated[
    Withheld | RangesAnswer | HistogramAnswer | BoxAnswer | GridAnswer | ScatterAnswer
    | SurvivalAnswer | CrosstabAnswer | ModelAnswer,
    Field(discriminator="kind"),
]  # fmt: skip
_KINDS = {"heatmap": "grid", "contour": "grid"}


def _find_unknown_groups(
    groups: dict[str, Any], request: SiteRequest, result: Any
) -> Iterator[str]:
    known = ("",) if result.by is None else request.variables[result.by].levels or ()
    if not groups or not set(groups) <= set(known):
        yield "has groups that were not agreed"


class ModelStep(Strict):
    """Where a model with a link stands.

    Parameters
    ----------
    beta : the estimates so far.
    deviance : of the estimates before; None after the first round.
    sites : those that have taken part so far.
    """

    beta: tuple[Finite, ...]
    deviance: Finite | None = None
    sites: tuple[SiteName, ...]


class FitRound(Strict):
    """What the sites are asked next: `combine` writes it as long as a model has not converged.

    Parameters
    ----------
    number : of the round, from 1; the request itself is round 0.
    request : the digest of the request it belongs to.
    models : the models that are not finished.
    """

    format: Literal["sfumato round"] = "sfumato round"
    version: Literal[1] = 1
    number: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    request: Digest
    models: Annotated[dict[ResultName, ModelStep], Field(min_length=1)]

    @classmethod
    def parse(cls, text: str | bytes) -> FitRound:
        """Read a round from JSON, and check everything in it."""
        return _parse(cls, text, "This text", "a round")

    @classmethod
    def load(cls, path: str | Path) -> FitRound:
        """Read a round from a JSON file."""
        return _parse(cls, _read_bytes(Path(path)), f"'{path}'", "a round")

    def text(self) -> str:
        """The round as JSON."""
        return self.model_dump_json(indent=1) + "\n"

    def write(self, path: str | Path) -> None:
        """Write it to a JSON file, to be sent to every site."""
        write_file(Path(path), self.text(), mode=PUBLIC)


class Bundle(Strict):
    """What one site lets out. It holds counts, sums and protected points, and no record.

    Question: what does this site contribute?
    Assumes: whoever sent it computed it as the request says. A checksum finds accidents, not
    forgery.

    Parameters
    ----------
    site : its name.
    request : what was asked.
    round : the round it answers; None for the first.
    k : the threshold of the site: every count is 0 or at least this.
    results : by name, what the site says, or that it lets nothing out.
    left_out : roughly what share of its records was left out: some value is missing, or is
        outside the agreed range or levels.
    """

    format: Literal["sfumato bundle"] = "sfumato bundle"
    version: Literal[1] = 1
    site: SiteName
    request: SiteRequest
    round: FitRound | None = None
    k: Annotated[int, Field(ge=3)]
    results: dict[ResultName, Answer]
    left_out: Annotated[str, Field(max_length=40)] = ""

    @model_validator(mode="after")
    def _check_together(self) -> Bundle:
        if self.round is not None and self.round.request != self.request.digest:
            raise ValueError("answers a round of another request.")
        if set(self.results) != set(list_open_results(self.request, self.round)):
            raise ValueError("answers other results than were asked for.")
        for name, answer in self.results.items():
            if answer.kind == "withheld":
                continue
            result = self.request.get_result(name)
            if answer.kind != _KINDS.get(result.kind, result.kind):
                raise ValueError(f"has an answer of another kind to '{name}'.")
            for problem in answer.list_problems(self.request, result):
                raise ValueError(f"has an answer to '{name}' that {problem}.")
            if any(0 < count < self.k for count in answer.list_counts()):
                raise ValueError(f"shows a count below its own threshold in '{name}'.")
        return self

    def get_answer(self, name: str) -> Any:
        """What the site says to a result, of the type of its kind; or `Withheld`."""
        return self.results[name]

    @property
    def digest(self) -> str:
        """SHA-256 of all it holds."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def text(self) -> str:
        """The bundle as JSON."""
        content = self.model_dump(mode="json", exclude_none=False)
        content["request"] = self.request.plain()
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> Bundle:
        """Read a bundle from JSON, and check everything in it; it is somebody else's text."""
        return _parse(cls, text, "This text", "a bundle")

    def write(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write `bundle.json` and its checksum into a new folder."""
        target = Path(folder)
        if target.exists() and not (overwrite and _is_bundle(target)):
            raise DataError(
                f"'{target}' exists already.", hint="choose another name, or overwrite a bundle."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{secrets.token_hex(8)}.{target.name}")
        try:
            aside.mkdir()
            create_file(aside / BUNDLE, self.text().encode(), mode=PUBLIC)
            create_file(aside / CHECKSUM, f"{self.digest}  {BUNDLE}\n".encode(), mode=PUBLIC)
            put_folder_in_place(aside, target, overwrite=overwrite)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return target

    @classmethod
    def load(cls, folder: str | Path) -> Bundle:
        """Read a bundle, and check everything in it; it is somebody else's file."""
        path = Path(folder) / BUNDLE
        if not (path.is_file() and (Path(folder) / CHECKSUM).is_file()):
            raise DataError(
                f"There is no bundle in '{folder}'.", hint="`sfumato site` writes bundles."
            )
        content = _read_bytes(path)
        expected = _read_bytes(Path(folder) / CHECKSUM)[:64].decode(errors="replace")
        if hashlib.sha256(content).hexdigest() != expected:
            raise DataError(
                f"The bundle in '{folder}' is not what was written: its checksum differs.",
                hint="have the site send it again.",
            )
        return _parse(cls, content, f"'{path}'", "a bundle")


def list_open_results(request: SiteRequest, current: FitRound | None) -> list[str]:
    """The results that are asked for in a round; after the first, the models in it."""
    if current is None:
        return [result.name for result in request.results]
    iterated = [
        result.name
        for result in request.results
        if isinstance(result, ModelResult) and result.family != "linear"
    ]
    return [name for name in iterated if name in current.models]


def _is_bundle(folder: Path) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted((BUNDLE, CHECKSUM))


def _read_bytes(path: Path) -> bytes:
    """What is in a file; nothing where it is larger than any bundle."""
    try:
        return path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
    except OSError:
        raise DataError(f"There is no file '{path}'.", hint="is the name right?") from None


def _parse(cls: type[T], text: str | bytes, where: str, what: str) -> T:
    content = text.encode() if isinstance(text, str) else text
    try:
        parse_json(content)  # whose meaning is not beyond doubt is refused
        return cls.model_validate_json(content)
    except ValidationError as error:
        wrong = "; ".join(list_findings(error)[:3])
        raise DataError(
            f"{where} is not {what} that can be used: {wrong}.",
            hint="ask the sender to send it again.",
        ) from None
    except ValueError:
        raise DataError(
            f"{where} is not {what}: it is no JSON that can be relied on.",
            hint="ask the sender to send it again.",
        ) from None
