"""The replication can fail: what is computed wrongly on purpose is said to be different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from replication.comparison import Row
from replication.papers import replicate
from replication.sources import Sources

from replication import deterministic, figures, known_noise, noise_models

DRAW, ADJUST = known_noise.draw_noised_data, noise_models.adjust
SOME_SETS = {"Table 1": 60, "Table 3": 60, 1000: 6, 5000: 3}


def draw_with_other_noise(random: Any, *, factor: float, noise: float = 0.1, **how: Any) -> Any:
    return DRAW(random, noise=factor * noise, **how)


def pass_naive_off_as_adjusted(*given: Any, **how: Any) -> Any:
    rows = ADJUST(*given, **how)
    return {term: row.to_dict() | {"mean": row["naive"]} for term, row in rows.items()}


def list_different(rows: Iterator[Row], of: str = "") -> set[str]:
    return {row.what for row in rows if row.status == "different" and of in row.what}


def test_another_k_is_not_explained_by_ties(monkeypatch, shared_data):
    monkeypatch.setattr(deterministic, "TIE_ORDERS", 4)
    monkeypatch.setattr(deterministic, "K", 8)
    rows = list(deterministic.compare_rows(Sources.locate(shared_data)))
    different = list_different(iter(rows))
    ours = [row for row in rows if "our release" in row.what]
    assert len(ours) == 7 + 5 * 7
    # What is left is what k hardly moves: standard errors to three digits, p below 2e-16.
    assert len(different) >= 30
    assert all("our release" in what for what in different)


def test_another_k_is_not_explained_by_other_records(monkeypatch, shared_data):
    monkeypatch.setattr(figures, "K", 8)
    monkeypatch.setattr(figures, "DRAWS", 200)
    rows = figures.compare_rows(Sources.locate(shared_data))
    assert len(list_different(rows, "hidden cells")) == 2


@pytest.mark.parametrize(("factor", "least"), [(10, 170), (1.2, 1), (1 / 1.2, 1)])
def test_other_noise_is_not_explained_by_chance(monkeypatch, factor, least):
    monkeypatch.setattr(known_noise, "SETS", SOME_SETS)
    monkeypatch.setattr(
        known_noise, "draw_noised_data", partial(draw_with_other_noise, factor=factor)
    )
    different = list_different(known_noise._compare_table_1())
    assert "all cells: mean of 180 differences" in different
    assert len(different) >= least
    assert "all cells: mean of 30 differences" in list_different(known_noise._compare_table_3())


def test_a_fifth_more_noise_is_seen_in_each_part_of_table_2(monkeypatch):
    monkeypatch.setattr(known_noise, "SETS", SOME_SETS)
    monkeypatch.setattr(known_noise, "draw_noised_data", partial(draw_with_other_noise, factor=1.2))
    different = list_different(known_noise._compare_table_2(), "mean of")
    assert len(different) == 3


def test_naive_estimates_are_not_taken_for_adjusted_ones(monkeypatch):
    monkeypatch.setattr(noise_models, "SETS", 16)
    assert not list_different(noise_models.compare_table_4())
    monkeypatch.setattr(noise_models, "adjust", pass_naive_off_as_adjusted)
    assert list_different(noise_models.compare_table_4()) == {
        "adjusted: x1", "adjusted: residual variance",
    }  # fmt: skip


def _mutate_k(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deterministic, "K", 8)


def _mutate_noise(patch: pytest.MonkeyPatch, factor: float) -> None:
    patch.setattr(known_noise, "draw_noised_data", partial(draw_with_other_noise, factor=factor))
    patch.setattr(noise_models, "VARIANCE", factor * noise_models.VARIANCE)


def _mutate_estimates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(noise_models, "adjust", pass_naive_off_as_adjusted)


@pytest.mark.study
@pytest.mark.parametrize(
    ("paper", "mutate", "least"),
    [
        ("centres", _mutate_k, 35),
        ("noise", partial(_mutate_noise, factor=10), 280),
        ("noise", partial(_mutate_noise, factor=1.2), 100),
        ("noise", _mutate_estimates, 5),
    ],
)
def test_mutants_are_seen_at_full_length(
    monkeypatch, shared_data, paper: str, mutate: Callable[[pytest.MonkeyPatch], None], least: int
):
    sources = Sources.locate(shared_data)
    assert not list_different(iter(replicate([paper], sources)[paper]))
    mutate(monkeypatch)
    # Rows, as the page counts them: two tables may have one of the same name.
    different = [row for row in replicate([paper], sources)[paper] if row.status == "different"]
    assert len(different) >= least
