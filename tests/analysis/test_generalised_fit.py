"""Models of ranges, sets and `*`: from a release to a fit, what is refused, and what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import DataError, MeasureError

KEY = sf.Key(bytes(range(32)))
COLUMNS = {
    "age": sf.Column(role="quasi", kind="integer"),
    "height": sf.Column(role="quasi", kind="continuous"),
    "area": sf.Column(role="quasi", kind="nominal"),
    "w": sf.Column(role="other", kind="continuous"),
    "school": sf.Column(role="cluster", kind="nominal", cells="values"),
    "y": sf.Column(role="sensitive", kind="continuous"),
    "ill": sf.Column(role="sensitive", kind="integer"),
    "visits": sf.Column(role="sensitive", kind="integer"),
}
SHARES = [0.35, 0.3, 0.2, 0.08, 0.05, 0.02]
FEW: dict[str, Any] = {"draws": 60, "chains": 2, "shape": "normal"}


def simulate(n: int = 500, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=n)
    age = np.round(40 + 4 * w + 12 * rng.normal(size=n)).astype(int)
    height = np.round(170 + 0.1 * (age - 40) + 9 * rng.normal(size=n), 1)
    area = rng.choice(["east", "north", "west", "hills", "isle", "lake"], n, p=SHARES)
    school = rng.integers(0, 15, n)
    line = 0.04 * (age - 40) - 0.05 * (height - 170) + 0.6 * (area == "north") + 0.3 * w
    return pl.DataFrame(
        {
            "age": age,
            "height": height,
            "area": area,
            "w": w,
            "school": [f"s{number}" for number in school],
            "y": line + 0.4 * rng.normal(size=15)[school] + rng.normal(size=n),
            "ill": (rng.uniform(size=n) < 1 / (1 + np.exp(-line))).astype(int),
            "visits": rng.poisson(np.exp(0.5 * line)),
        }
    )


def protect(frame: pl.DataFrame, *steps: sf.Method) -> sf.Release:
    data = sf.Dataset(frame, sf.Schema(COLUMNS))
    return sf.protect(data, sf.Plan(schema=data.schema, steps=list(steps)), key=KEY)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> tuple[sf.Release, str]:
    step = sf.methods.KAnonymity(variables=["age", "height", "area"], k=5)
    made = protect(simulate(), step)
    folder = tmp_path_factory.mktemp("cells") / "release"
    made.write(folder)
    return made, str(folder)


def test_ranges_and_sets_are_part_of_the_model(release):
    found = sf.fit("y ~ age + height + area + w", release[0], **FEW)
    assert found.engine == "metropolis"
    table = found.summary()
    for term, true in {"age": 0.04, "height": -0.05, "area[T.north]": 0.6, "w": 0.3}.items():
        assert abs(table.loc[term, "mean"] - true) < 4 * table.loc[term, "sd"]
    assert {"rhat", "ess", "naive"} <= set(table.columns)
    assert "Known only as ranges, sets, `*` or up to a limit: 'age', 'height', 'area'" in " ".join(
        found.notes
    )
    assert found.efficiency is None
    with pytest.raises(MeasureError, match="residuals are not known"):
        found.diagnostics_frame()


def test_a_release_and_its_folder_give_the_same(release):
    made, folder = release
    first, second = (sf.fit("y ~ age + w", given, **FEW) for given in (made, folder))
    assert first.rows == second.rows


@pytest.mark.parametrize(("family", "outcome"), [("bernoulli", "ill"), ("poisson", "visits")])
def test_generalised_models_take_ranges_and_sets(release, family, outcome):
    found = sf.fit(f"{outcome} ~ age + height + area + w", release[0], family=family, **FEW)
    table = found.summary()
    share = 1.0 if family == "bernoulli" else 0.5
    assert abs(table.loc["age", "mean"] - 0.04 * share) < 4 * table.loc["age", "sd"]
    assert np.isfinite(table["mean"]).all()


def test_two_levels_powers_and_products_take_ranges(release):
    formula = "y ~ age * w + I(age ** 2) + log(height) + (1 | school)"
    found = sf.fit(formula, release[0], **FEW)
    assert np.isfinite(found.summary()["mean"]).all()
    assert "variance of Intercept by group" in found.parameters


def test_sets_alone_go_to_the_fast_engines():
    made = protect(simulate(), sf.methods.KAnonymity(variables=["area", "age"], k=5))
    assert made.dataset.schema["area"].generalised
    assert sf.fit("y ~ area + w", made, draws=100).engine == "collapsed"
    found = sf.fit("ill ~ area + w", made, family="bernoulli", draws=100)
    assert found.engine == "marginal likelihood"
    assert np.isfinite(found.summary()["mean"]).all()


def test_an_outcome_may_be_a_range_or_a_set():
    data = sf.Dataset(simulate(), sf.Schema(COLUMNS))
    whole = sf.fit("y ~ w + area", data, noise={}, draws=100).summary()
    step = sf.methods.KAnonymity(variables=["y", "area"], k=5)
    made = protect(simulate(), step)
    found = sf.fit("y ~ w", made, **FEW).summary()
    assert abs(found.loc["w", "mean"] - whole.loc["w", "mean"]) < 2 * whole.loc["w", "sd"]
    with pytest.raises(MeasureError, match="generalised outcome 'y' stands in a function"):
        sf.fit("exp(y) ~ w", made, **FEW)
    # An outcome of two levels, of which both are possible for some.
    text = simulate().with_columns(
        ill=pl.when(pl.col("w") > 1).then(pl.lit("*")).otherwise(pl.col("ill").cast(pl.String))
    )
    columns = {**COLUMNS, "ill": sf.Column(role="quasi", kind="nominal", cells="generalised")}
    cells = sf.Dataset(text, sf.Schema(columns))
    found = sf.fit("ill ~ w", cells, family="bernoulli", draws=100)
    assert np.isfinite(found.summary()["mean"]).all()
    with pytest.raises(MeasureError, match="generalised outcome 'ill' is a category"):
        sf.fit("ill ~ w", cells)


def test_counts_as_ranges_are_refused():
    made = protect(simulate(), sf.methods.KAnonymity(variables=["visits", "age"], k=5))
    with pytest.raises(MeasureError, match="generalised outcome 'visits' is a number"):
        sf.fit("visits ~ w", made, family="poisson")


def test_what_coarsen_writes_is_read_and_middles_are_not():
    columns = {**COLUMNS, "height": sf.Column(role="quasi", kind="continuous", domain=(120, 220))}
    data = sf.Dataset(simulate(), sf.Schema(columns))
    for output in ("range", "middle"):
        step = sf.methods.Coarsen(variables=["height"], intervals=12, output=output)
        made = sf.protect(data, sf.Plan(schema=data.schema, steps=[step]), key=KEY)
        if output == "middle":
            with pytest.raises(DataError, match="'height' by coarsen"):
                sf.fit("y ~ height", made)
        else:
            found = sf.fit("y ~ height + w", made, **FEW).summary()
            assert abs(found.loc["height", "mean"] + 0.05) < 4 * found.loc["height", "sd"]


@pytest.mark.parametrize("output", ["mean", "median", "mode"])
def test_averages_are_no_cells(output):
    step = sf.methods.KAnonymity(variables=["age", "height"], k=5, output=output)
    with pytest.raises(DataError, match="'age' by k_anonymity"):
        sf.fit("y ~ age", protect(simulate(), step))


def test_a_variable_that_kept_its_values_is_clean():
    """Records that share all values with others stay as they are: nothing has to be undone."""
    step = sf.methods.KAnonymity(variables=["area"], k=5)
    made = protect(simulate(), step)
    assert not made.dataset.schema["area"].generalised
    assert "plain fit" in " ".join(sf.fit("y ~ area", made, draws=100).notes)


def test_what_cannot_be_done_is_refused_with_a_hint(release):
    made, _ = release
    for method in ("moments", "calibration", "simex"):
        with pytest.raises(MeasureError, match="no quick look") as caught:
            sf.fit("y ~ age", made, method=method)
        assert "posterior" in caught.value.hint
    with pytest.raises(MeasureError, match="groups or standardises the generalised"):
        sf.fit("y ~ C(age)", made)
    with pytest.raises(DataError, match="nobody knows the groups"):
        sf.fit("y ~ w + (1 | area)", made)
    with pytest.raises(DataError, match="cannot be values with an error"):
        sf.fit("y ~ age", made, measured={"age": 1.0})
    both = protect(
        simulate(),
        sf.methods.Noise(variables=["age"], variance_share=0.1),
        sf.methods.KAnonymity(variables=["age"], k=5),
    )
    with pytest.raises(DataError, match="'age' was changed again after its noise was added"):
        sf.fit("y ~ age", both)


def test_ranges_that_nobody_declared_never_become_categories(release):
    made, _ = release
    frame = made.data
    with pytest.raises(DataError, match="'age' has cells that look like ranges"):
        sf.fit("y ~ age + w", frame, noise={})
    # Declared, or taken for categories knowingly, they are what they are said to be.
    declared = sf.Dataset(frame, made.dataset.schema)
    assert sf.fit("y ~ age + w", declared, **FEW).engine == "metropolis"
    found = sf.fit("y ~ area + w", frame, noise={}, clean=["area"], draws=50)
    assert any("{" in term or "*" in term for term in found.terms)


def test_wide_cells_are_warned_of():
    made = protect(simulate(), sf.methods.KAnonymity(variables=["age", "height", "area"], k=120))
    found = sf.fit("y ~ height + w", made, **FEW)
    assert any("lies within its ranges" in warning for warning in found.warnings)


def test_the_command_reads_a_folder_with_ranges(release):
    done = CliRunner().invoke(
        app, ["fit", "y ~ age + area", release[1], "--draws", "40", "--chains", "2"]
    )
    assert done.exit_code == 0, done.output
    assert "Known only as ranges" in " ".join(done.output.split())
