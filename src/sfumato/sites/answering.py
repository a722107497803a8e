"""A site answers a request: whatever its rules allow goes into a bundle, and into its log."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError, PlanError
from sfumato.figures.public.grid import count_cells, find_cells
from sfumato.figures.public.protected_values import protect_values
from sfumato.figures.public.protection import Keyed, resolve_protection
from sfumato.figures.public.subjects import select_subjects
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.contributors import find_contributors
from sfumato.outputs.log import Log
from sfumato.outputs.output import Output, OutputRefused
from sfumato.outputs.quantiles import FIVE, count_needed_records, find_windows, safe_quantiles
from sfumato.outputs.rules import Rules, warn_of_figure, warn_of_shared_persons
from sfumato.outputs.tables.crosstabs import crosstab
from sfumato.outputs.tables.table import Table
from sfumato.schema import Column, Schema
from sfumato.sites.bundle import (
    BoxAnswer,
    Bundle,
    CrosstabAnswer,
    FitRound,
    GridAnswer,
    HistogramAnswer,
    JoinedBins,
    LifeTable,
    QuantileSketch,
    RangesAnswer,
    ScatterAnswer,
    SurvivalAnswer,
    Withheld,
    list_open_results,
)
from sfumato.sites.population import SitePopulation, select_population
from sfumato.sites.regression import compute_step, list_model_parts
from sfumato.sites.request import SiteRequest
from sfumato.sites.suppression import (
    choose_groups,
    hide_small_counts,
    join_small_bins,
    merge_intervals,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class _AnswerDraft:
    """An answer before the log has seen it.

    Parameters
    ----------
    answer : what would leave.
    parts : for the log, the ways in which it splits the records; below 0 where hidden.
    rule : how it is protected, for the log.
    reasons : why the custodian should have a second look.
    sums : for the log, variables of which quantiles are shown.
    windows : for the log, the records on which each quantile rests.
    terms : for the log, how a model weighs the records.
    outcome : for the log, the outcome of a model.
    """

    answer: Any
    parts: Sequence[Integers] | None = None
    rule: Mapping[str, Any] = field(default_factory=dict)
    reasons: Sequence[str] = ()
    sums: Sequence[str] = ()
    windows: Sequence[Integers] = ()
    terms: Floats | None = None
    outcome: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class _Site:
    """A site at work on a request."""

    population: SitePopulation
    request: SiteRequest
    rules: Rules
    log: Log
    key: Keyed
    round: FitRound | None


def answer(
    data: Any,
    request: SiteRequest | str | Path,
    *,
    site: str,
    log: Log,
    round: FitRound | str | Path | None = None,  # noqa: A002 - the field's word
    key: Keyed = None,
) -> Bundle:
    """Answer a request with what may leave under the site's rules.

    Question: what may this site contribute to an analysis of several, without showing anybody?
    Assumes: one record is one person. Whoever sees one answer can see them all, so every answer
    is counted in the log; what together with earlier ones would tell of a few people is withheld.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    request : the request, or its TOML file.
    site : the name of the site, as the others will read it.
    log : the log of outputs of this site. Its rules are the site's rules.
    round : of a model with a link, the round that `combine` wrote, or its JSON file.
    key : the site's secret, for points with noise that is the same next time.

    Examples
    --------
    >>> import sfumato as sf
    >>> request = sf.sites.SiteRequest.parse({
    ...     "variables": {"height": {"low": 140, "high": 210, "bins": 7}},
    ...     "results": [{"name": "heights", "kind": "histogram", "x": "height"}],
    ... })
    >>> bundle = answer(sf.datasets.cohort(200), request, site="North", log=sf.outputs.Log())
    >>> bundle.k, bundle.results["heights"].groups[""].counts
    (3, (5, 31, 59, 76, 26, 3, 0))

    References: Gaye et al. (2014), DataSHIELD, International Journal of Epidemiology 43:1929;
    Avraam et al. (2021), EPJ Data Science 10:2.
    """
    if not isinstance(log, Log):
        raise PlanError("log must be a Log.", hint="for instance log=sf.outputs.Log('outputs').")
    wanted = request if isinstance(request, SiteRequest) else SiteRequest.load(request)
    current = FitRound.load(round) if isinstance(round, (str, Path)) else round
    if current is not None and current.request != wanted.digest:
        raise PlanError(
            "The round belongs to another request.", hint="take the request with which it began."
        )
    inner = data if isinstance(data, Dataset) else getattr(data, "dataset", None)
    dataset = inner if isinstance(inner, Dataset) else Dataset(data)
    names = list_open_results(wanted, current)
    left_out = ""
    try:
        population = select_population(dataset, wanted, log.rules)
    except OutputRefused as refusal:
        for name in names:
            log.refused(_describe(wanted, wanted.get_result(name), reasons=(refusal.what,)))
        results: dict[str, Any] = {name: Withheld() for name in names}
    else:
        at_work = _Site(population=population, request=wanted, rules=log.rules, log=log, key=key,
                        round=current)  # fmt: skip
        results = {name: _answer_result(at_work, name) for name in names}
        if any(answered.kind != "withheld" for answered in results.values()):
            left_out = population.left_out
    return Bundle(site=site, request=wanted, round=current, k=log.rules.k, results=results,
                  left_out=left_out)  # fmt: skip


def _answer_result(site: _Site, name: str) -> Any:
    """The answer to one result, after the log has judged it."""
    result = site.request.get_result(name)
    try:
        draft = _DRAFTS[result.kind](site, result)
        digest = hashlib.sha256(draft.answer.model_dump_json().encode()).hexdigest()
        if result.kind == "model":
            draft = _spend_equations(site, result, draft, digest)
    except (OutputRefused, MeasureError) as refusal:
        site.log.refused(_describe(site.request, result, reasons=(refusal.what,)))
        return Withheld()
    data = site.population.data
    reasons = (
        *draft.reasons, *_warn_of_units(data, site.rules), *warn_of_figure(site.rules),
    )  # fmt: skip
    output = _describe(
        site.request, result, reasons=reasons, verdict="review" if reasons else "pass",
        rule={"k": site.rules.k, "request": site.request.digest[:16], **draft.rule}, digest=digest,
    )  # fmt: skip
    # Ranges show no number of records: nothing can be subtracted from them.
    behind = None if result.kind == "ranges" else data
    judged = site.log.add(
        output, behind, parts=draft.parts, sums=draft.sums, windows=draft.windows,
        terms=draft.terms, outcome=draft.outcome, refuse=True,
    )  # fmt: skip
    return Withheld() if judged.verdict == "refuse" else draft.answer


def _describe(request: SiteRequest, result: Any, **judgement: Any) -> Output:
    by = getattr(result, "by", None)
    what = result.title or f"{result.kind} '{result.name}'"
    return Output(
        kind=result.kind,
        title=f"{request.title}: {what}" if request.title else what,
        variables=result.variables,
        groups=() if by is None else (by,),
        **judgement,
    )


# Ranges


def _draft_ranges(site: _Site, result: Any) -> _AnswerDraft:
    """Where at least k records lie at or beyond, rounded outwards: no end is anybody's value."""
    ranges, request = {}, site.request.digest[:16]
    for name in result.of:
        if any(
            output.kind == "ranges" and output.verdict != "refuse" and name in output.variables
            and output.rule.get("request") != request
            for output in site.log
        ):  # fmt: skip
            raise OutputRefused(
                f"The range of '{name}' was asked for before, by another request.",
                hint="two ranges of nearly the same people could reveal a person's value.",
            )
        step, k = float(site.request.variables[name].step or 1.0), site.rules.k
        values = np.sort(site.population.numbers[name])
        low = math.floor(values[k - 1] / step)
        high = max(math.ceil(values[-k] / step), low + 1)
        ranges[name] = (low * step, high * step)
    return _AnswerDraft(answer=RangesAnswer(ranges=ranges), rule={"protection": "suppress"})


# Counts


def _draft_histogram(site: _Site, result: Any) -> _AnswerDraft:
    """Counts in the agreed bins, joined where they hold few: no record is lost."""
    k, edges = site.rules.k, site.request.variables[result.x].edges
    values, bins = site.population.numbers[result.x], {}
    groups = _choose_members(site, result.by, site.rules.records)
    part, first = -1 - groups.codes, 0
    for label, members in groups.members.items():
        joined, cells = _join_bins(values[members], edges, k)
        bins[label] = joined
        part[members] = first + cells
        first += len(joined.counts)
    return _AnswerDraft(
        answer=HistogramAnswer(groups=bins),
        parts=[part],
        rule={"protection": "generalise", "bins": len(edges) - 1},
        reasons=_judge_full([joined.counts for joined in bins.values()], site.rules),
    )


@dataclass(frozen=True, eq=False)
class _Groups:
    """The group of each record, and who is in each of those that are shown."""

    codes: Integers
    members: Mapping[str, Mask]


def _choose_members(site: _Site, by: str | None, fewest: int) -> _Groups:
    """The groups that are large enough."""
    labels, codes = [""], np.zeros(len(site.population), np.int64)
    if by is not None:
        labels, codes = list(site.request.variables[by].levels or ()), site.population.codes[by]
    chosen = choose_groups(np.bincount(codes, minlength=len(labels)), fewest, site.rules.k)
    shown = {labels[index]: codes == index for index in np.flatnonzero(chosen)}
    return _Groups(codes, shown)


def _join_bins(values: Floats, edges: Floats, k: int) -> tuple[JoinedBins, Integers]:
    """Counts in bins of at least k, or none; and the bin of each value."""
    positions = join_small_bins(count_cells([values], [edges]), k)
    cells = find_cells([values], [edges[positions]])
    counts = np.bincount(cells, minlength=len(positions) - 1)
    return JoinedBins(edges=tuple(positions), counts=tuple(counts.tolist())), cells


def _judge_full(groups: Sequence[Any], rules: Rules) -> tuple[str, ...]:
    """Why a group whose records all lie in one bin asks for a second look, or is refused."""
    full = any(np.count_nonzero(counts) == 1 for counts in groups)
    if not full or rules.full == "show":
        return ()
    what = "All records that are shown, or all of one group, lie in one bin."
    if rules.full == "hide":
        raise OutputRefused(what, hint="agree on narrower bins, or other groups.")
    return (what,)


def _draft_grid(site: _Site, result: Any) -> _AnswerDraft:
    cuts = [site.request.variables[name].edges for name in (result.x, result.y)]
    columns = [site.population.numbers[name] for name in (result.x, result.y)]
    # Totals of rows and columns are known where the request asks for them as well.
    counted = {other.x for other in site.request.results if other.kind in ("histogram", "box")}
    shown = hide_small_counts(
        count_cells(columns, cuts), site.rules.k,
        rows=result.x in counted, columns=result.y in counted,
    )  # fmt: skip
    if not shown.any():
        raise OutputRefused("Not one cell would hold enough records.", hint="agree on fewer bins.")
    cells = find_cells(columns, cuts)
    return _AnswerDraft(
        answer=GridAnswer(counts=tuple(tuple(row) for row in shown.tolist())),
        parts=[np.where(shown.ravel()[cells] > 0, cells, -cells - 1)],
        rule={"protection": "suppress", "bins": [len(edges) - 1 for edges in cuts]},
        reasons=_judge_full([shown], site.rules),
    )


# Quantiles


def _draft_box(site: _Site, result: Any) -> _AnswerDraft:
    """The bins of a histogram, and five safe quantiles of each group."""
    k = site.rules.k
    fewest = max(site.rules.records, count_needed_records(len(FIVE), k))
    draft = _draft_histogram(site, result)
    members = _choose_members(site, result.by, fewest).members
    values = site.population.numbers[result.x]
    # One grid for all groups: another for each would tell their spread twice.
    step = safe_quantiles(values[np.logical_or.reduce(list(members.values()))], k=k).step
    sketches = {
        label: QuantileSketch(
            edges=draft.answer.groups[label].edges,
            counts=draft.answer.groups[label].counts,
            five=safe_quantiles(values[mask], k=k, step=step).values,
        )
        for label, mask in members.items()
    }
    windows = [_find_window_rows(site, values, mask) for mask in members.values()]
    return replace(
        draft, answer=BoxAnswer(groups=sketches), sums=[result.x],
        windows=[np.max(windows, axis=0)],
    )  # fmt: skip


def _find_window_rows(site: _Site, values: Floats, mask: Mask) -> Integers:
    """A number for each record on which a quantile of some records rests, below 0 elsewhere."""
    rows, found = np.flatnonzero(mask), np.full(len(values), -1)
    # Who of several people with one value is meant does not hang on the order of the rows.
    digests = site.population.data.identity.digests[rows, 0]
    rows = rows[np.lexsort((digests, values[rows]))]
    for index, start in enumerate(find_windows(len(rows), FIVE, site.rules.k)):
        found[rows[start : start + site.rules.k]] = int(rows[0]) * len(FIVE) + index
    return found


# Survival


def _draft_survival(site: _Site, result: Any) -> _AnswerDraft:
    edges, k = site.request.variables[result.time].edges, site.rules.k
    steps = find_time_steps(site.population.numbers[result.time], edges)
    happened = site.population.codes[result.event] == 1
    groups = _choose_members(site, result.by, max(site.rules.records, 2 * k))
    tables, part, first = {}, -1 - groups.codes, 0
    for label, members in groups.members.items():
        table, intervals = _make_life_table(steps[members], happened[members], len(edges) - 1, k)
        tables[label] = table
        part[members] = first + 2 * intervals + happened[members]
        first += 2 * len(table.times)
    return _AnswerDraft(
        answer=SurvivalAnswer(groups=tables),
        parts=[part],
        rule={"protection": "generalise", "bins": len(edges) - 1},
    )


def find_time_steps(times: Floats, edges: Floats) -> Integers:
    """The first edge not before each time, counted from 1: times are rounded up.

    Examples
    --------
    >>> find_time_steps(np.array([0.0, 0.5, 1.0, 1.5]), np.array([0.0, 1.0, 2.0])).tolist()
    [1, 1, 1, 2]
    """
    return np.maximum(np.searchsorted(edges, times, side="left"), 1)


def _make_life_table(
    steps: Integers, happened: Any, count: int, k: int
) -> tuple[LifeTable, Integers]:
    """Events and ends in intervals that were joined where they hold few; the interval of each."""
    events, ends = (
        np.bincount(steps[mask], minlength=count + 1)[1:] for mask in (happened, ~happened)
    )
    stops = merge_intervals(events, ends, k)
    intervals = np.searchsorted(stops, steps)
    events, ends = (
        np.bincount(intervals[mask], minlength=len(stops)) for mask in (happened, ~happened)
    )
    table = LifeTable(times=tuple(stops), events=tuple(events.tolist()), ends=tuple(ends.tolist()))
    return table, intervals


# Points


def _draft_scatter(site: _Site, result: Any) -> _AnswerDraft:
    names, noisy = [result.x, result.y], result.protection == "noise"
    if noisy and site.key is None:
        raise PlanError(
            "Points with noise need a key: new noise each time could be averaged.",
            hint="--key site.key, made once with `sfumato` and kept at the site.",
        )
    subjects = select_subjects(site.population.data, names, rules=site.rules, k=site.rules.k)
    protection = resolve_protection(
        result.protection, default="deterministic", why="", records=len(site.population),
        k=site.rules.k, sd_share=site.rules.noise, key=site.key, rules=site.rules,
    )  # fmt: skip
    points = protect_values(subjects, names, protection)
    if not len(points):
        raise OutputRefused("No protected point is left.", hint="ask for a heat map.")
    pairs = zip(*(points.column(name).tolist() for name in names), strict=True)
    share = site.rules.noise if noisy else None
    return _AnswerDraft(
        answer=ScatterAnswer(points=tuple(pairs), k=site.rules.k, sd_share=share),
        rule={"protection": result.protection, **({"sd_share": share} if noisy else {})},
    )


# Tables


def _draft_crosstab(site: _Site, result: Any) -> _AnswerDraft:
    names = result.categories
    levels = [site.request.variables[name].levels or () for name in names]
    codes = [site.population.codes[name] for name in names]
    texts = pl.DataFrame(
        {
            name: pl.Series(labels).gather(code)
            for name, labels, code in zip(names, levels, codes, strict=True)
        }
    )
    # The rules may count persons or groups: who they are stays with the records.
    data = site.population.data
    units = [name for name in data.schema.having("person", "cluster") if name not in names]
    schema = Schema(
        {name: Column(kind="nominal") for name in names}
        | {name: data.schema[name] for name in units}
    )
    frame = texts.with_columns(data.column(name) for name in units)
    table = crosstab(Dataset(frame, schema), *names, rules=site.rules)
    shown = _arrange_cells(table, levels)
    reasons = list(table.reasons)
    if (shown == 0).any() and site.rules.zeros != "show":
        reasons.append("Some agreed level does not occur, or some cell is empty.")
        if site.rules.zeros == "hide":
            raise OutputRefused(reasons[-1], hint="agree on coarser levels.")
    cells = tuple(
        tuple(None if math.isnan(value) else int(value) for value in row) for row in shown.tolist()
    )
    return _AnswerDraft(
        answer=CrosstabAnswer(cells=cells),
        parts=_list_table_parts(codes, shown),
        rule=table.rule,
        reasons=list(dict.fromkeys(reasons)),
    )


def _arrange_cells(table: Table, levels: Sequence[Sequence[str]]) -> Floats:
    """The counts in the order of the agreed levels, the totals last; NaN where hidden."""
    source = table.shown["count"].reshape(table.lattice.shape)
    shown = np.zeros([len(labels) + 1 for labels in levels])
    indices = [
        [*(labels.index(label) for label in shown_labels[:-1]), len(labels)]
        for labels, shown_labels in zip(levels, table.labels, strict=True)
    ]
    shown[np.ix_(*indices)] = source
    return shown.reshape(len(shown), -1)


def _list_table_parts(codes: Sequence[Integers], shown: Floats) -> list[Integers]:
    """For the log: the cell and the totals each record is in, below 0 where hidden."""
    rows = codes[0]
    columns = codes[1] if len(codes) > 1 else np.zeros(len(rows), np.int64)
    total_row, total_column = shown.shape[0] - 1, shown.shape[1] - 1
    parts = []
    for row, column in (
        (rows, columns), (np.full_like(rows, total_row), columns),
        (rows, np.full_like(rows, total_column)),
        (np.full_like(rows, total_row), np.full_like(rows, total_column)),
    ):  # fmt: skip
        cell = row * shown.shape[1] + column
        parts.append(np.where(np.isnan(shown[row, column]), -1 - cell, cell))
    return parts


# Models


def _draft_model(site: _Site, result: Any) -> _AnswerDraft:
    step = None if site.round is None else site.round.models[result.name]
    local = compute_step(site.population, site.request, result, step, site.rules)
    number = 0 if site.round is None else site.round.number
    return _AnswerDraft(
        answer=local.answer,
        # What splits the records is the same in every round, and is shown in the first.
        parts=list_model_parts(site.population, result.variables) if site.round is None else [],
        rule={
            "protection": "sums", "terms": len(local.answer.factor) - 1, "round": number,
            "equations": local.equations,
        },
        terms=local.terms,
        outcome=str(result.parsed_formula.outcome),
    )  # fmt: skip


def _warn_of_units(data: Dataset, rules: Rules) -> tuple[str, ...]:
    """Answers count records: where the rules count persons or groups, they stay inside."""
    units = find_contributors(data, rules)
    counted = f"The rules count {units.word}, and the answers of a site count records."
    return (*warn_of_shared_persons(data), *((counted,) if units else ()))


def _spend_equations(site: _Site, result: Any, draft: _AnswerDraft, digest: str) -> _AnswerDraft:
    """Refuse more equations in a variable, over all rounds and requests, than there are records.

    What is left goes into the log, for the custodian. As many equations as there are records could
    be solved; whether those that were answered single out somebody before is the log's to try.
    """
    left = len(site.population)
    for name in result.variables:
        earlier = [
            output
            for output in site.log
            if output.kind == "model" and output.verdict != "refuse" and name in output.variables
        ]
        spent = sum(int(output.rule.get("equations", 0)) for output in earlier)
        # The same answer once more tells nothing new.
        if digest not in {output.digest for output in earlier}:
            spent += int(draft.rule["equations"])
        left = min(left, len(site.population) - spent)
        if left < 0:
            raise OutputRefused(
                f"Models have asked too much of variable '{name}' for the records of this site.",
                hint="the log lists them; over all rounds and requests, a variable may be asked "
                "for in as many equations as there are records. A model of p terms takes "
                "p (p + 3) / 2 of them in each round.",
            )
    # To tens: the exact number would tell how many records there are.
    return replace(draft, rule={**draft.rule, "equations left": left // 10 * 10})


_DRAFTS: dict[str, Callable[[_Site, Any], _AnswerDraft]] = {
    "ranges": _draft_ranges,
    "histogram": _draft_histogram,
    "box": _draft_box,
    "heatmap": _draft_grid,
    "contour": _draft_grid,
    "scatter": _draft_scatter,
    "survival": _draft_survival,
    "crosstab": _draft_crosstab,
    "model": _draft_model,
}
