"""The five papers, and the run over all of them."""

from __future__ import annotations

from collections.abc import Iterable

from replication import deterministic as centres
from replication import figures
from replication import individual_privacy as individuals
from replication import k_anonymity as crowds
from replication import known_noise as noise
from replication.comparison import Paper, Row
from replication.sources import Sources
from sfumato.errors import PlanError, did_you_mean
from sfumato.progress import current_progress

PAPERS = (
    Paper(
        name="centres",
        title="Deterministic anonymisation: centres of nearest neighbours",
        needs=("titanic.csv", "exam.csv"),
        work=centres.compare_rows,
    ),
    Paper(
        name="noise",
        title="Goldstein & Shlomo (2020): noise of known distribution, taken out again",
        needs=("exam.csv",),
        work=noise.compare_rows,
    ),
    Paper(
        name="crowds",
        title="Sánchez, Martínez & Domingo-Ferrer (2016): k-anonymity and t-closeness",
        needs=(),
        work=crowds.compare_rows,
    ),
    Paper(
        name="figures",
        title="Avraam et al. (2021): privacy preserving data visualizations",
        needs=("visual.csv",),
        work=figures.compare_rows,
    ),
    Paper(
        name="individuals",
        title="Kroes et al.: privacy of each individual",
        needs=("adult.csv", "cervical.csv", "diabetes.csv"),
        work=individuals.compare_rows,
    ),
)


def replicate(
    names: Iterable[str] | None = None, sources: Sources | None = None
) -> dict[str, list[Row]]:
    """The rows of each paper, in order; a paper whose data are not there has rows that say so."""
    known = {item.name: item for item in PAPERS}
    wanted = list(known) if names is None else list(names)
    for name in wanted:
        if name not in known:
            raise PlanError(f"There is no paper '{name}'.", hint=did_you_mean(name, known))
    folder, rows, progress = sources or Sources.locate(), {}, current_progress()
    for index, name in enumerate(wanted):
        progress(f"replicating: {name}", index, len(wanted))
        paper = known[name]
        missing = [item for item in paper.needs if not folder.has(item)]
        rows[name] = [_report_missing(missing)] if missing else list(paper.work(folder))
    progress("replicating", len(wanted), len(wanted))
    return rows


def _report_missing(missing: list[str]) -> Row:
    why = f"these data files are not there: {', '.join(missing)}."
    return Row(place="all", what="everything", why=why)
