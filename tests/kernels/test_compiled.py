"""Kernels that Python runs on small data: the same results to the last bit, and progress."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernels import compiled
from sfumato.kernels.clustering.clusters import find_level_sets, find_ranges, origin_order
from sfumato.kernels.clustering.mondrian import mondrian
from sfumato.kernels.exact_sums import exact_sum
from sfumato.kernels.trees.equivalence_classes import find_classes
from sfumato.kernels.trees.neighbours import centroids, neighbours
from sfumato.kernels.trees.ranks import nearest, ranks
from sfumato.progress import send_progress_to


def run_twice(monkeypatch, work):
    """The results when small data are left to Python, and when everything is compiled."""
    in_python = work()
    monkeypatch.setattr(compiled, "_PATIENCE", -1)
    return in_python, work()


def same_bits(first, second):
    first, second = np.asarray(first), np.asarray(second)
    return first.dtype == second.dtype and first.tobytes() == second.tobytes()


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(compiled, "_PATIENCE", 1 << 40)


@pytest.mark.parametrize("digits", [0, 1, 12])
@pytest.mark.parametrize("matrix", [False, True])
def test_neighbours(digits, matrix, monkeypatch):
    draws = np.random.default_rng(digits)
    values = np.round(draws.normal(size=(300, 2)), digits)
    scale = draws.normal(size=(2, 2)) if matrix else np.array([0.7, 1.9])
    starts, k = np.array([0, 40, 300]), np.array([3, 5])

    def work():
        return centroids(values, scale, starts, k), neighbours(values, scale, starts, k)

    for first, second in zip(*run_twice(monkeypatch, work), strict=True):
        assert same_bits(first, second)


@pytest.mark.parametrize("digits", [0, 12])
def test_ranks(digits, monkeypatch):
    draws = np.random.default_rng(digits)
    original = np.round(draws.normal(size=(200, 3)), digits)
    released = np.round(original + draws.normal(size=original.shape) / 3, digits)

    def work():
        closest = nearest(original, released, np.ones(3))
        ranked = ranks(original, released, np.ones(3))
        return closest.squared, closest.ties, ranked.ranks, ranked.starts, ranked.of

    for first, second in zip(*run_twice(monkeypatch, work), strict=True):
        assert same_bits(first, second)


@pytest.mark.parametrize("levels", [3, 9, 90, 900])
def test_mondrian(levels, monkeypatch):
    draws = np.random.default_rng(levels)
    codes = draws.integers(0, levels, (400, 4))

    def work():
        order, starts = mondrian(codes, 5, ordered=[True, False, True, False])
        low, high = find_ranges(codes, order, starts)
        return order, starts, low, high, *find_level_sets(codes[:, 1], order, starts)

    for first, second in zip(*run_twice(monkeypatch, work), strict=True):
        assert same_bits(first, second)


def test_orders_classes_and_sums(monkeypatch):
    draws = np.random.default_rng(1)
    values, cells = draws.normal(size=(300, 2)), draws.integers(0, 4, (3, 500), np.int32)
    numbers = values.ravel() * 10.0 ** draws.integers(-200, 200, 600)

    def work():
        equal = find_classes(cells, [4, 4, 4])
        order, starts = origin_order(values.round(1), 3)
        return order, starts, equal.of, equal.first, equal.counts, exact_sum(numbers)

    for first, second in zip(*run_twice(monkeypatch, work), strict=True):
        assert same_bits(first, second)


def test_patience_ends_and_large_data_are_compiled():
    calls = []

    class Kernel:
        __doc__, __name__ = "", "kernel"

        def __call__(self, *_):
            calls.append("compiled")

        @staticmethod
        def py_func(*_):
            calls.append("python")

    kernel = compiled.SmallInPython(Kernel(), 10)
    kernel(np.zeros(11))
    kernel((np.zeros(4), np.zeros(4)), 3)
    assert calls == ["compiled", "python"]
    kernel._elements = compiled._PATIENCE
    kernel(np.zeros(1))
    assert calls == ["compiled", "python", "compiled"]


def test_compiling_is_reported_once():
    from numba import njit

    reports = []

    def double(x):
        return 2 * x

    double.__module__ = "sfumato.kernels.none"
    compiled._announce_compilation()
    inner = njit(double)
    outer = njit(lambda x: inner(x) + 1)
    outer.py_func.__module__ = "sfumato.kernels.none"
    with send_progress_to(lambda *report: reports.append(report)):
        assert outer(3) == 7
        assert outer(4) == 9
    assert reports == [(compiled.COMPILING, 0, 1), (compiled.COMPILING, 1, 1)]


def test_the_compilation_of_others_is_not_reported():
    from numba import njit

    reports = []
    with send_progress_to(lambda *report: reports.append(report)):
        assert njit(lambda x: x + 1)(3) == 4
    assert reports == []
