"""The same search again: stopped, shuffled, with other workers, in another library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.data import Dataset
from sfumato.io.frames import wrap
from sfumato.plan import Plan
from sfumato.tuning.result import Tuned
from sfumato.tuning.search import tune


def rows(found: Tuned) -> list[dict[str, object]]:
    return list(wrap(found.table).to_polars().rows(named=True))


def test_finished_candidates_are_not_run_again(
    people: Dataset, crowd: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs"
    first = tune(people, crowd, runs=10, folder=folder)
    kept = sorted(folder.iterdir())
    assert len(kept) == 10
    called = []
    real = sf.methods.KAnonymity.transform

    def counted(self: Any, *args: Any, **more: Any) -> Dataset:
        called.append(self.k)
        made: Dataset = real(self, *args, **more)
        return made

    monkeypatch.setattr(sf.methods.KAnonymity, "transform", counted)
    again = tune(people, crowd, runs=10, folder=folder)
    assert rows(first) == rows(again)
    assert called == [again.best.plan.steps[-1].k]  # type: ignore[attr-defined] # the last look
    longer = tune(people, crowd, runs=12, folder=folder)
    assert rows(longer)[:10] != []
    assert len(list(folder.iterdir())) == 12
    # Other data, another plan or another seed are other candidates.
    tune(people.take(np.arange(150)), crowd, runs=2, folder=folder)
    tune(people, crowd, runs=2, seed=1, folder=folder)
    assert len(list(folder.iterdir())) == 16


def test_a_search_that_was_killed_goes_on(people: Dataset, crowd: Plan, tmp_path: Path) -> None:
    whole = tune(people, crowd, runs=16)

    def stop(what: str, done: int, total: int) -> None:
        del what, total
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(people, crowd, runs=16, folder=tmp_path, progress=stop, workers=1)
    assert 5 <= len(list(tmp_path.iterdir())) < 16
    assert rows(tune(people, crowd, runs=16, folder=tmp_path)) == rows(whole)


def test_the_budget_ends_the_search_and_says_so(people: Dataset, crowd: Plan) -> None:
    few = tune(people, crowd, runs=4)
    assert len(few.candidates) == 4
    assert few.stopped
    assert "budget ended the search" in " ".join(few.why)
    short = tune(people, crowd, budget=1e-9, workers=1)
    assert 1 <= len(short.candidates) <= 3
    assert short.stopped


def test_progress_is_told(people: Dataset, crowd: Plan) -> None:
    told = []
    tune(people, crowd, runs=6, progress=lambda what, done, total: told.append((what, done, total)))
    counts = [done for _, done, _ in told]
    assert counts == sorted(counts)
    assert told[-1] == ("tuning", 6, 6)


def test_no_value_of_the_data_is_in_what_is_kept(
    people: Dataset, crowd: Plan, tmp_path: Path
) -> None:
    tune(people, crowd, runs=8, folder=tmp_path)
    text = "".join(one.read_text() for one in tmp_path.iterdir())
    assert not [one for one in people.column("person_id") if one in text]


def test_the_number_of_workers_changes_nothing(people: Dataset, moved: Plan) -> None:
    one, other = (tune(people, moved, runs=16, workers=count) for count in (1, 3))
    assert rows(one) == rows(other)
    assert one.plan == other.plan
    assert one.why == other.why


@drawn("library", LIBRARIES)
def test_order_and_library_change_nothing(people: Dataset, moved: Plan, library: str) -> None:
    plain = tune(people, moved, runs=8, workers=1)
    order = np.random.default_rng(1).permutation(len(people))
    shuffled = in_library(people.frame[order.tolist()], library)
    other = tune(sf.Dataset(shuffled, people.schema), moved, runs=8, workers=1)
    assert type(other.table) is type(shuffled)
    assert rows(plain) == rows(other)


def test_another_seed_draws_other_noise(people: Dataset, moved: Plan) -> None:
    space = [[sf.methods.Noise(variables=["systolic"], variance_share=0.2)]]
    a, b, again = (tune(people, moved, space=space, seed=seed) for seed in (0, 1, 0))
    assert a.candidates[1].utility != b.candidates[1].utility
    assert rows(a) == rows(again)
