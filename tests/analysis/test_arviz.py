"""Draws for ArviZ itself, of the version that is installed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
arviz = pytest.importorskip("arviz")


def test_summaries_are_ours():
    rng = np.random.default_rng(2)
    x = rng.normal(size=300)
    frame = pl.DataFrame(
        {"y": 1 + x + rng.normal(size=300), "income / head": x + 0.5 * rng.normal(size=300)}
    )
    noise = {"income / head": sf.Gaussian(variance=0.25)}
    made = sf.fit("y ~ `income / head` + I(`income / head` ** 2)", frame, noise=noise, draws=200)
    exported = made.to_arviz()
    posterior = exported["posterior"]
    assert posterior.attrs["formula"] == made.formula
    assert dict(posterior.sizes) == {"chain": 4, "draw": 200}
    table, ours = arviz.summary(exported, round_to="none"), made.summary()
    assert len(table) == len(ours)
    for name, row in ours.iterrows():
        # In the trees of version 1 a slash would part a branch from its leaf.
        told = table.loc[
            str(name) if str(name) in table.index else str(name).replace("/", "\u2215")
        ]
        assert told["mean"] == pytest.approx(row["mean"], rel=1e-9)
        assert told["sd"] == pytest.approx(row["sd"], rel=1e-2)
        assert told["r_hat"] == pytest.approx(row["rhat"], rel=1e-6)
        assert told["ess_bulk"] == pytest.approx(row["ess"], rel=1e-6)
        assert told["mcse_mean"] == pytest.approx(row["mcse"], rel=1e-6)
