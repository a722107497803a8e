"""Densities and violins: made of counts, ending where k records are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import sfumato as sf
from sfumato.figures.public.density import choose_bandwidth, smooth_counts
from sfumato.figures.public.grid import count_large_cells
from sfumato.outputs.output import OutputRefused

KEY = bytes(range(32))
NAMED = ("suppress", "generalise", "deterministic", "noise")


def cohort(n: int = 500) -> pl.DataFrame:
    chance = np.random.default_rng(11)
    return pl.DataFrame(
        {"bmi": chance.normal(26, 4, n), "sex": chance.choice(["f", "m"], n, p=[0.3, 0.7])}
    )


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.integers(3, 8), st.integers(2, 40))
def test_the_curve_rests_on_bins_of_k_and_ends_with_them(values, k, bins):
    cuts = np.linspace(0, 100, bins + 1)
    counted = np.histogram(values, cuts)[0]
    try:
        made = smooth_counts(count_large_cells([np.array(values)], [cuts], k)[0], cuts)
    except OutputRefused:
        assert counted.max() < k
        return
    large = np.flatnonzero(counted >= k)
    assert made.positions[0] == cuts[large[0]]
    assert made.positions[-1] == cuts[large[-1] + 1]
    assert np.trapezoid(made.density, made.positions) == pytest.approx(1)
    assert (made.density >= 0).all()
    assert made.bandwidth >= (cuts[1] - cuts[0]) * (1 - 1e-9)
    assert made.counts.sum() == counted[large].sum()


def test_a_normal_density_is_found_again():
    values = np.random.default_rng(2).normal(size=200_000)
    cuts = np.linspace(-4, 4, 61)
    made = smooth_counts(np.histogram(values, cuts)[0], cuts)
    assert np.abs(made.density - norm.pdf(made.positions)).max() < 0.01


def test_the_bandwidth_is_the_rule_of_thumb_and_never_below_a_bin():
    cuts = np.linspace(0, 10, 1001)
    held = np.histogram(np.linspace(0, 10, 5000), cuts)[0]
    assert choose_bandwidth(cuts, held) == pytest.approx(0.9 * 10 / 12**0.5 * 5000**-0.2, rel=1e-3)
    wide = np.linspace(0, 10, 3)
    assert choose_bandwidth(wide, np.array([5, 5])) == 5.0


@pytest.mark.parametrize("protection", NAMED)
@pytest.mark.parametrize("kind", ["density", "violin"])
def test_every_protection_draws_and_no_extreme_is_reached(kind, protection):
    frame = cohort()
    named = {"hue" if kind == "density" else "by": "sex"}
    made = getattr(sf.plots, kind)(frame, "bmi", protection=protection, key=KEY, **named)
    assert made.verdict == "pass"
    assert set(made.table["group"]) == {"f", "m"}
    ends = {frame["bmi"].min(), frame["bmi"].max()}
    assert not ends & set(made.table["value"])
    again = getattr(sf.plots, kind)(frame.reverse(), "bmi", protection=protection, key=KEY, **named)
    assert again.table.equals(made.table)


def test_a_violins_area_tells_nothing_of_the_size_of_its_group():
    made = sf.plots.violin(cohort(), "bmi", by="sex").table.filter(pl.col("part") == "curve")
    for (_,), one in made.group_by("group"):
        area = np.trapezoid(one["density"], one["value"])
        assert area == pytest.approx(1, abs=1e-3)


def test_a_violin_shows_its_median_from_counts():
    frame = cohort(4000)
    made = sf.plots.violin(frame, "bmi").table
    middle = made.filter(pl.col("part") == "middle")["value"].item()
    assert middle == pytest.approx(frame["bmi"].median(), abs=0.1)


def test_small_bins_of_protected_values_are_shown_only_on_request():
    frame = cohort()
    hidden = sf.plots.density(frame, "bmi", protection="noise", key=KEY)
    shown = sf.plots.density(frame, "bmi", protection="noise", key=KEY, small="show")
    assert shown.verdict == "review"
    assert hidden.details["suppressed"] > 0
    assert shown.details["suppressed"] == 0
    with pytest.raises(OutputRefused, match="never shown"):
        sf.plots.violin(frame, "bmi", small="show")


def test_more_bins_than_the_records_allow_are_refused_with_what_is_allowed():
    with pytest.raises(OutputRefused, match="up to 165 bins"):
        sf.plots.density(cohort(), "bmi", bins=300)


def test_a_declared_domain_ends_the_curve():
    frame = pl.DataFrame({"share": np.linspace(0.001, 0.999, 400)})
    data = sf.Dataset(frame, sf.Schema({"share": sf.Column(kind="continuous", domain=(0.0, 1.0))}))
    made = sf.plots.density(data, "share", protection="noise", key=KEY)
    assert made.table["value"].min() == 0.0
    assert made.table["value"].max() == 1.0
    assert "mirrored" in made.description
