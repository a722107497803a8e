"""Top- and bottom-coded variables in `fit`: what stands at a limit may lie anywhere beyond it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis.generalised_cells import build_cut_number
from sfumato.analysis.release_input import read_release_input
from sfumato.errors import DataError
from sfumato.methods import KAnonymity, Misclassify, Noise, Recode, Topcode
from sfumato.schema import Role

SLOPE = 1.2
ROLES: dict[str, Role] = {"x": "sensitive", "z": "sensitive", "y": "sensitive"}


def release(steps, *, count: int = 1200, seed: int = 3) -> sf.Release:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(10, 2, count), rng.normal(size=count)
    y = 1 + SLOPE * x + 0.5 * z + rng.normal(0, 2, count)
    data = sf.Dataset(pl.DataFrame({"x": x, "z": z, "y": y}), sf.Schema(ROLES))
    return sf.protect(data, sf.Plan(schema=data.schema, steps=steps), key=sf.Key(bytes(32)))


@pytest.mark.parametrize(
    ("variable", "limits"),
    [
        ("x", {"top": 12, "bottom": 8}),
        ("x", {"top_quantile": 0.8}),
        ("y", {"top_quantile": 0.8, "bottom_quantile": 0.1}),
    ],
)
def test_slopes_are_those_before_anything_was_cut_off(variable, limits):
    fitted = sf.fit(
        "y ~ x + z", release([Topcode(variables=[variable], **limits)]), draws=300, chains=2
    )
    row = fitted.summary().loc["x"]
    assert abs(row["mean"] - SLOPE) < 3 * row["sd"]
    # Taking the limits for values is off by many standard deviations.
    assert abs(row["naive"] - SLOPE) > 3 * row["sd"]
    assert any("up to a limit" in note for note in fitted.notes)


def test_limits_are_read_from_the_folder_too(tmp_path):
    protected = release([Topcode(variables=["x"], top=12, bottom_quantile=0.1)])
    protected.write(tmp_path / "release")
    inside = read_release_input(protected, None, ["x", "y"])
    outside = read_release_input(tmp_path / "release", None, ["x", "y"])
    assert inside.cut == outside.cut
    bottom, top = outside.cut["x"]
    assert top == 12
    assert bottom == protected.dataset.frame["x"].min()


def test_a_limit_that_nobody_reached_cuts_nothing():
    found = read_release_input(release([Topcode(variables=["x"], top=1000)]), None, ["x"])
    assert found.cut["x"] == (-np.inf, np.inf)


def test_cells_reach_from_the_limit_to_the_end_of_the_domain():
    values = np.array([18.0, 40.0, 90.0, np.nan])
    cut = build_cut_number("age", values, (18.0, 90.0), sf.Column(kind="integer", domain=(0, 120)))
    assert cut.lower.tolist() == [-0.5, 40.0, 89.5, -0.5]
    assert cut.upper.tolist() == [18.5, 40.0, 120.5, 120.5]


def test_noise_after_a_cut_is_refused_and_not_taken_for_the_whole_change():
    """It was silently wrong: 1.36 where the original has 1.157."""
    both = release([Topcode(variables=["x"], top=12), Noise(variables=["x"], sd_share=0.4)])
    with pytest.raises(DataError, match="'x' by topcode"):
        sf.fit("y ~ x + z", both)
    fitted = sf.fit("y ~ x + z", both, clean=["x"], method="moments")
    assert fitted.summary().loc["x", "mean"] > SLOPE


def test_noise_after_classes_is_refused_too():
    both = release(
        [
            KAnonymity(variables=["x", "z"], k=5, output="mean"),
            Noise(variables=["x"], sd_share=0.2),
        ]
    )
    with pytest.raises(DataError, match="'x' by k_anonymity"):
        sf.fit("y ~ x", both)


def test_recoded_categories_with_noise_are_modelled_as_recoded():
    rng = np.random.default_rng(1)
    group = rng.choice(["a", "b", "c"], 900)
    y = (group == "a") * 2.0 + rng.normal(size=900)
    schema = sf.Schema({"g": "quasi", "y": "sensitive"})
    data = sf.Dataset(pl.DataFrame({"g": group, "y": y}), schema)
    steps = [
        Recode(variables=["g"], groups={"bc": ["b", "c"]}),
        Misclassify(variables=["g"], retention=0.8),
    ]
    protected = sf.protect(data, sf.Plan(schema=schema, steps=steps), key=sf.Key(bytes(32)))
    fitted = sf.fit("y ~ g", protected, draws=200, chains=2)
    row = fitted.rows[1]
    assert abs(row["mean"] + 2) < 4 * row["sd"]


def test_a_cut_variable_is_no_number_of_trials():
    protected = release([Topcode(variables=["x"], top=12)])
    with pytest.raises(DataError, match="cut off"):
        sf.fit("y ~ z", protected, family="binomial", trials="x")
