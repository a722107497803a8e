"""Densities: every curve is within the axes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sfumato.figures.public import density


@pytest.mark.parametrize("order", [("wide", "narrow"), ("narrow", "wide")])
def test_no_peak_is_cut_off_by_the_axis(order: tuple[str, str]) -> None:
    """The axis ended with the first group: the fares of the third class had no peak."""
    chance = np.random.default_rng(1)
    values = {"wide": chance.normal(100, 40, 400), "narrow": chance.normal(100, 4, 400)}
    data = pl.DataFrame(
        {"fare": np.concatenate([values[name] for name in order]), "class": [1] * 400 + [2] * 400}
    )
    made = density(data, "fare", hue="class")
    low, high = made.axes[0].get_ylim()
    assert low == 0
    assert high > max(made.table["density"].to_list())
