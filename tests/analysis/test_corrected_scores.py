"""Corrected moments of grouped records: without noise they are generalised least squares."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf


def grouped(records: int = 600, groups: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    group = rng.integers(0, groups, records)
    x = 0.8 * rng.normal(size=groups)[group] + rng.normal(size=records)
    y = 1 + 0.5 * x + 0.8 * rng.normal(size=groups)[group] + rng.normal(size=records)
    return x, y, group


def weigh(x: np.ndarray, y: np.ndarray, group: np.ndarray, ratio: float) -> np.ndarray:
    """Generalised least squares, with the whole covariance matrix written down."""
    design = np.column_stack([np.ones_like(x), x])
    inverse = np.linalg.inv(np.eye(len(x)) + ratio * (group[:, None] == group[None, :]))
    return np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ y)


def test_without_noise_records_are_weighed_as_in_their_groups():
    x, y, group = grouped()
    frame = pl.DataFrame({"x": x, "y": y, "g": group})
    found = sf.fit(
        "y ~ x + (1 | g)", frame, noise={"x": sf.Gaussian(variance=1e-9)}, method="moments"
    )
    means = {row["term"]: row["mean"] for row in found.table.rows(named=True)}
    # Between the estimates within groups and over all, and nearer to those of the true ratio.
    estimates = [weigh(x, y, group, ratio)[1] for ratio in (0.0, 0.3, 1.2)]
    assert min(estimates[1:]) - 1e-3 <= means["x"] <= max(estimates[1:]) + 1e-3
    assert abs(estimates[0] - estimates[1]) > 0.01
    assert means["x"] == pytest.approx(weigh(x, y, group, 0.64)[1], abs=0.01)
