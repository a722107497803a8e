"""The five papers, and the run over all of them."""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.datasets.replication import centres, crowds, figures, individuals, noise
from sfumato.datasets.replication.rows import Paper, Row
from sfumato.datasets.replication.sources import Sources
from sfumato.errors import PlanError, did_you_mean
from sfumato.progress import current_progress

PAPERS = (
    Paper(
        name="centres",
        title="Deterministic anonymisation: centres of nearest neighbours",
        needs=("titanic.csv", "exam.csv"),
        work=centres.rows,
    ),
    Paper(
        name="noise",
        title="Goldstein & Shlomo (2020): noise of known distribution, taken out again",
        needs=("exam.csv",),
        work=noise.rows,
    ),
    Paper(
        name="crowds",
        title="Sánchez, Martínez & Domingo-Ferrer (2016): k-anonymity and t-closeness",
        needs=(),
        work=crowds.rows,
    ),
    Paper(
        name="figures",
        title="Avraam et al. (2021): privacy preserving data visualizations",
        needs=("visual.csv",),
        work=figures.rows,
    ),
    Paper(
        name="individuals",
        title="Kroes et al.: privacy of each individual",
        needs=("adult.csv", "cervical.csv", "diabetes.csv"),
        work=individuals.rows,
    ),
)


def replicate(
    names: Iterable[str] | None = None, sources: Sources | None = None
) -> dict[str, list[Row]]:
    """The rows of each paper, in order; a paper whose data are not there has rows that say so."""
    known = {one.name: one for one in PAPERS}
    wanted = list(known) if names is None else list(names)
    for name in wanted:
        if name not in known:
            raise PlanError(f"There is no paper '{name}'.", hint=did_you_mean(name, known))
    where, found, say = sources or Sources.found(), {}, current_progress()
    for at, name in enumerate(wanted):
        say(f"replicating: {name}", at, len(wanted))
        paper = known[name]
        missing = [one for one in paper.needs if not where.has(one)]
        found[name] = [_absent(missing)] if missing else list(paper.work(where))
    say("replicating", len(wanted), len(wanted))
    return found


def _absent(missing: list[str]) -> Row:
    why = f"these data files are not there: {', '.join(missing)}."
    return Row(place="all", what="everything", published=None, ours=None, why=why)
