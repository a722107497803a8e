"""Bundles of several sites become one figure, one table, one model each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.errors import DataError, PlanError
from sfumato.figures.public.plot import Plot
from sfumato.io.atomic import PUBLIC, write_file
from sfumato.io.formulas import escape
from sfumato.kernels.arrays import Floats
from sfumato.outputs.tables.table import AttackerKnowledge, Table
from sfumato.parameters import write_short
from sfumato.sites.bundle import (
    MOST_ROUNDS,
    Bundle,
    CrosstabAnswer,
    FitRound,
    ModelAnswer,
    ModelStep,
)
from sfumato.sites.drawing import draw_result
from sfumato.sites.regression import PooledStep, join_answers
from sfumato.sites.request import CrosstabResult, SiteRequest
from sfumato.utility.models.fitting import FittedRegression

ROUND, RANGES, STATEMENT = "round.json", "ranges.toml", "results.json"
_TOTAL = "All"


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledResults:
    """What several sites say together, and who said nothing.

    Parameters
    ----------
    request : what was asked.
    sites : who answered, in the order of their names.
    contributions : by result, the sites it rests on; the others let nothing out.
    plots, tables, models, ranges : the results by name.
    round : what the sites are to be asked next; None where everything is finished.
    """

    request: SiteRequest = field(repr=False)
    sites: tuple[str, ...]
    contributions: Mapping[str, tuple[str, ...]]
    plots: Mapping[str, Plot] = field(default_factory=dict, repr=False)
    tables: Mapping[str, Table] = field(default_factory=dict, repr=False)
    models: Mapping[str, FittedRegression] = field(default_factory=dict, repr=False)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    round: FitRound | None = field(default=None, repr=False)

    __repr__ = write_short

    def list_statements(self) -> list[str]:
        """A sentence on each result: which sites it rests on."""
        return [f"{name}: {state_sites(contributors, self.sites)}"
                for name, contributors in self.contributions.items()]  # fmt: skip

    def write(self, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write figures (SVG) and what they show (CSV), tables, models, and the next round."""
        target = Path(folder)
        files = self._list_files(target)
        for path in files:
            if path.exists() and not overwrite:
                raise PlanError(f"'{path}' exists already.", hint="choose another folder.")
        target.mkdir(parents=True, exist_ok=True)
        for name, plot in self.plots.items():
            plot.save(target / f"{name}.svg", overwrite=overwrite)
            plot.export(target / f"{name}.csv", overwrite=overwrite)
        for name, table in self.tables.items():
            table.to_csv(target / f"{name}.csv", overwrite=overwrite)
        for name, model in self.models.items():
            # Levels in the names of terms are anybody's words: harmless in a spreadsheet.
            terms = tabulate_model(model).with_columns(escape(pl.col("term")))
            write_file(target / f"{name}.csv", terms.write_csv(), mode=PUBLIC)
        if self.ranges:
            write_file(target / RANGES, self.format_ranges(), mode=PUBLIC)
        if self.round is not None:
            self.round.write(target / ROUND)
        write_file(target / STATEMENT, json.dumps(self.plain(), indent=1) + "\n", mode=PUBLIC)
        return files

    def _list_files(self, folder: Path) -> list[Path]:
        names = [f"{name}.svg" for name in self.plots]
        names += [f"{name}.csv" for name in (*self.plots, *self.tables, *self.models)]
        names += [RANGES] if self.ranges else []
        names += [ROUND] if self.round is not None else []
        return [folder / name for name in (*names, STATEMENT)]

    def format_ranges(self) -> str:
        """The agreed ranges as they stand in the next request."""
        lines = [
            f"[variables.{json.dumps(name)}]\nlow = {low!r}\nhigh = {high!r}\n"
            for name, (low, high) in self.ranges.items()
        ]
        return "\n".join(lines)

    def plain(self) -> dict[str, Any]:
        """Which sites every result rests on, and the models, for JSON."""
        return {
            "request": self.request.digest,
            "sites": list(self.sites),
            "contributions": {
                name: list(contributors) for name, contributors in self.contributions.items()
            },
            "models": {
                name: {"records": model.records, "terms": tabulate_model(model).to_dicts()}
                for name, model in self.models.items()
            },
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "unfinished": [] if self.round is None else sorted(self.round.models),
        }


def combine(bundles: Sequence[Bundle | str | Path], *, level: float = 0.95) -> PooledResults:
    """Draw, add up and fit what several sites have let out.

    Question: what do all sites say together?
    Assumes: no person is at two sites; else that person counts twice. Every site computed its
    bundle as the request says.

    Counts that no site had to hide, and models, are those of the united records: counts exactly,
    estimates but for rounding.

    Parameters
    ----------
    bundles : of one request and one round, one from each site; or their folders.
    level : of the intervals of models.

    Examples
    --------
    >>> import sfumato as sf
    >>> request = sf.sites.SiteRequest.parse({
    ...     "variables": {"sex": {"levels": ["female", "male"]}},
    ...     "results": [{"name": "sexes", "kind": "crosstab", "rows": "sex"}],
    ... })
    >>> north, south = (
    ...     sf.sites.answer(sf.datasets.cohort(size), request, site=name, log=sf.outputs.Log())
    ...     for name, size in (("North", 200), ("South", 100))
    ... )
    >>> combine([north, south]).tables["sexes"].shown["count"].tolist()[-1]
    300.0
    """
    if not 0 < level < 1:
        raise PlanError("level lies between 0 and 1.", hint="for instance level=0.95.")
    read = [bundle if isinstance(bundle, Bundle) else Bundle.load(bundle) for bundle in bundles]
    _require_same_request(read)
    by_site = {bundle.site: bundle for bundle in sorted(read, key=lambda bundle: bundle.site)}
    request, current = read[0].request, read[0].round
    answers: dict[str, dict[str, Any]] = {
        name: {
            site: bundle.get_answer(name)
            for site, bundle in by_site.items()
            if bundle.results[name].kind != "withheld"
        }
        for name in read[0].results
    }
    plots, tables, models = {}, {}, {}
    ranges: dict[str, tuple[float, float]] = {}
    steps: dict[str, ModelStep] = {}
    for name, by_contributor in answers.items():
        result = request.get_result(name)
        if not by_contributor:
            continue
        if result.kind == "ranges":
            ranges |= _pool_ranges(by_contributor)
        elif result.kind == "crosstab":
            least = max(by_site[site].k for site in by_contributor)
            tables[name] = _pool_tables(request, result, by_contributor, least)
        elif result.kind == "model":
            pooled = _pool_model(request, result, by_contributor, current, level)
            if pooled.fitted is not None:
                models[name] = pooled.fitted
            if pooled.step is not None:
                steps[name] = pooled.step
        else:
            statement = state_sites(tuple(by_contributor), tuple(by_site))
            plots[name] = draw_result(request, result, by_contributor, statement)
    return PooledResults(
        request=request,
        sites=tuple(by_site),
        contributions={name: tuple(by_contributor) for name, by_contributor in answers.items()},
        plots=plots,
        tables=tables,
        models=models,
        ranges=ranges,
        round=_make_round(request, current, steps),
    )


def _require_same_request(bundles: Sequence[Bundle]) -> None:
    if not bundles:
        raise PlanError("There is no bundle to combine.", hint="name one folder for each site.")
    for name, values in (
        ("answer different requests", {bundle.request.digest for bundle in bundles}),
        ("answer different rounds", {_describe_round(bundle.round) for bundle in bundles}),
    ):
        if len(values) > 1:
            raise DataError(
                f"The bundles {name}.", hint="have all sites answer the same request and round."
            )
    sites = [bundle.site for bundle in bundles]
    if len(set(sites)) < len(sites):
        raise DataError(
            "Two bundles are of one site.", hint="take one of each, or have sites renamed."
        )
    digests = [_digest_results(bundle) for bundle in bundles]
    if len({digest for digest in digests if digest}) < sum(map(bool, digests)):
        raise DataError(
            "Two bundles hold the same numbers under two names.",
            hint="take the bundle of each site once.",
        )


def _describe_round(current: FitRound | None) -> str:
    return "" if current is None else current.model_dump_json()


def _digest_results(bundle: Bundle) -> str:
    """What tells two bundles of the same records apart; empty where nothing was let out."""
    results = {name: answer for name, answer in bundle.results.items()
               if answer.kind not in ("withheld", "ranges", "crosstab")}  # fmt: skip
    if not results:
        return ""
    return json.dumps({name: answer.model_dump_json() for name, answer in results.items()})


def state_sites(contributors: tuple[str, ...], sites: tuple[str, ...]) -> str:
    """Which sites a result rests on, in a sentence.

    Examples
    --------
    >>> state_sites(("North",), ("East", "North"))
    'It rests on 1 of 2 sites (North); the rules of East let nothing out.'
    """
    silent = [site for site in sites if site not in contributors]
    if not contributors:
        return f"No result: the rules of {', '.join(silent)} let nothing out."
    text = f"It rests on {len(contributors)} of {len(sites)} sites ({', '.join(contributors)})"
    return f"{text}; the rules of {', '.join(silent)} let nothing out." if silent else f"{text}."


# One result


def _pool_ranges(answers: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """From the lowest to the highest end that any site gives."""
    names = next(iter(answers.values())).ranges
    return {
        name: (
            min(answer.ranges[name][0] for answer in answers.values()),
            max(answer.ranges[name][1] for answer in answers.values()),
        )
        for name in names
    }


def _pool_tables(
    request: SiteRequest, result: CrosstabResult, answers: Mapping[str, CrosstabAnswer], k: int
) -> Table:
    """Sums of cells; hidden where any site hides the cell."""
    labels = [(*(request.variables[name].levels or ()), _TOTAL) for name in result.categories]
    counts = np.sum([_read_cells(answer) for answer in answers.values()], axis=0).ravel()
    title = result.title or f"Count by {', '.join(result.categories)}"
    return Table(
        title=title,
        rows=(result.rows,),
        columns=() if result.columns is None else (result.columns,),
        labels=tuple(labels),
        occupied=counts != 0,
        shown={"count": counts},
        known={"count": AttackerKnowledge(counts)},
        rule={"protection": "suppress", "k": k, "sites": sorted(answers)},
    )


def _read_cells(answer: CrosstabAnswer) -> Floats:
    return np.array(
        [[np.nan if count is None else float(count) for count in row] for row in answer.cells]
    )


def _pool_model(
    request: SiteRequest,
    result: Any,
    answers: Mapping[str, ModelAnswer],
    current: FitRound | None,
    level: float,
) -> PooledStep:
    step = None if current is None else current.models[result.name]
    return join_answers(answers, request, result, step, level=level)


def _make_round(
    request: SiteRequest, current: FitRound | None, steps: Mapping[str, ModelStep]
) -> FitRound | None:
    if not steps:
        return None
    number = 1 if current is None else current.number + 1
    if number > MOST_ROUNDS:
        raise DataError(
            f"{', '.join(sorted(steps))}: not converged after {MOST_ROUNDS} rounds.",
            hint="leave some terms out of the formula.",
        )
    return FitRound(number=number, request=request.digest, models=dict(steps))


def tabulate_model(model: FittedRegression) -> pl.DataFrame:
    """The estimates of a model, a row a term."""
    names = ("estimate", "error", "statistic", "p", "low", "high")
    return pl.DataFrame({"term": model.terms, **{name: getattr(model, name) for name in names}})


def run_rounds(answer_round: Callable[[FitRound | None], Sequence[Bundle]]) -> PooledResults:
    """Ask the sites round by round until all models have converged; the results of all rounds.

    For a platform that carries messages between sites. By hand, rounds are files.

    Parameters
    ----------
    answer_round : takes a round (None at first), and returns the bundles of all sites.
    """
    pooled = combine(answer_round(None))
    models = dict(pooled.models)
    current = pooled.round
    while current is not None:
        later = combine(answer_round(current))
        models |= later.models
        current = later.round
    return replace(pooled, models=models, round=None)
