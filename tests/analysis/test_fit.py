"""From a release or a frame to a fit: what is read, what is refused, what comes out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import DataError, MeasureError, SfumatoError
from sfumato.plan import Writing

KEY = sf.Key(bytes(range(32)))
SCHEMA = sf.Schema(
    {
        "x": "quasi",
        "y": "sensitive",
        "z": sf.Column(role="quasi", kind="continuous", domain=(-8.0, 8.0)),
        "sex": "quasi",
        "school": "other",
    }
)


def records(n: int = 1500, seed: int = 2) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    sex = rng.integers(0, 2, n)
    school = rng.integers(0, 30, n)
    y = 1 + x - 0.5 * z + sex + 0.5 * rng.normal(size=30)[school] + rng.normal(size=n)
    return pl.DataFrame({"y": y, "x": x, "z": z, "sex": sex, "school": [f"s{s}" for s in school]})


def noisy(frame: pl.DataFrame, variance: float = 0.3, seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return frame.with_columns(pl.col("x") + rng.normal(size=frame.height) * np.sqrt(variance))


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> tuple[sf.Release, str]:
    data = sf.Dataset(records(), SCHEMA)
    plan = sf.Plan(
        schema=data.schema,
        steps=[
            sf.methods.Noise(variables=["x"], variance_share=0.25),
            sf.methods.Coarsen(variables=["z"], intervals=4, output="middle"),
        ],
    )
    made = sf.protect(data, plan, key=KEY)
    folder = tmp_path_factory.mktemp("release") / "out"
    made.write(folder)
    return made, str(folder)


def test_a_release_and_its_folder_give_the_same(release):
    made, folder = release
    told = sf.fit("y ~ x + sex", made, method="moments")
    assert told.complete
    assert told.sampled is None
    again = sf.fit("y ~ x + sex", folder, method="moments")
    assert told.rows[1] == again.rows[1]
    row = told.summary().loc["x"]
    assert abs(row["mean"] - 1) < 3 * row["sd"] < 0.3
    assert row["naive"] < 0.9
    # Without noise on what it names it is a plain fit, and says so.
    assert "plain fit" in " ".join(sf.fit("y ~ sex", folder, method="moments").notes)


def test_what_other_methods_changed_is_refused_unless_declared_clean(release):
    for one in release:
        with pytest.raises(DataError, match="'z' by coarsen"):
            sf.fit("y ~ x + z", one)
        assert sf.fit("y ~ x + C(z)", one, clean=["z"], method="moments").records == 1500
    with pytest.raises(DataError, match="`clean`, and have noise: x"):
        sf.fit("y ~ x", release[1], clean=["x"])


def test_a_release_that_keeps_a_part_back_needs_the_accredited_manifest(tmp_path):
    data = sf.Dataset(records(600), SCHEMA)
    plan = sf.Plan(
        schema=data.schema,
        steps=[sf.methods.Noise(variables=["x"], variance=0.3)],
        release=Writing(noise="none"),
    )
    folder = sf.protect(data, plan, key=KEY).write(tmp_path / "out")
    full = json.loads((folder / "accredited" / "manifest.json").read_text())
    assert sf.fit("y ~ x", folder, method="moments").records == 600  # it lies beside it
    moved = tmp_path / "elsewhere.json"
    (folder / "accredited" / "manifest.json").rename(moved)
    with pytest.raises(DataError, match="accredited"):
        sf.fit("y ~ x", folder)
    for given in (full, moved):
        assert sf.fit("y ~ x", folder, accredited=given, method="moments").records == 600
    with pytest.raises(DataError, match="not that of this release"):
        sf.fit("y ~ x", folder, accredited={**full, "records": 7})
    with pytest.raises(DataError, match="cannot be read"):
        sf.fit("y ~ x", folder, accredited=tmp_path / "none.json")


def test_a_frame_needs_a_description():
    with pytest.raises(DataError, match="Nothing says"):
        sf.fit("y ~ x", records(50))
    with pytest.raises(DataError, match="not described"):
        sf.fit("y ~ x", records(50), noise={"x": 0.2})
    with pytest.raises(SfumatoError, match="'w' is not in the data"):
        sf.fit("y ~ x", records(50), noise={"w": sf.Gaussian(variance=1.0)})
    plain = {"distribution": "gaussian", "variance": 0.3}
    made = sf.fit("y ~ x", noisy(records(200)), noise={"x": plain}, method="moments")
    assert made.records == 200


@drawn("library", LIBRARIES)
def test_neither_order_nor_library_shows_in_a_bit(library):
    frame = noisy(records(300))
    noise = {"x": sf.Gaussian(variance=0.3)}
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    for method in ("moments", "calibration", "simex", "posterior"):
        kept, moved = (
            sf.fit("y ~ x + z + sex", one, noise=noise, method=method, draws=50)
            for one in (frame, in_library(shuffled, library))
        )
        assert kept.estimates.value == moved.estimates.value
        assert kept.estimates.error == moved.estimates.error
    assert type(moved.table).__module__.startswith(library)
    assert type(moved.draws).__module__.startswith(library)
    assert moved.summary().index.name == "term"


def test_the_same_seed_gives_the_same_draws_and_another_gives_others():
    frame, noise = noisy(records(200)), {"x": sf.Gaussian(variance=0.3)}
    one, same, other = (
        sf.fit("y ~ x", frame, noise=noise, draws=30, seed=seed).draws for seed in (1, 1, 2)
    )
    assert one.equals(same)
    assert not one.equals(other)


def test_no_noise_gives_least_squares():
    import statsmodels.formula.api as smf

    frame = records()
    expected = smf.ols("y ~ x + z + sex", frame.to_pandas()).fit()
    for variance in (0.0, 1e-9):
        noise = {"x": sf.Gaussian(variance=variance)}
        for method in ("moments", "calibration", "simex", "posterior"):
            made = sf.fit("y ~ x + z + sex", frame, noise=noise, method=method).summary()
            close = 1e-6 if method != "posterior" else 0.004
            for term in expected.params.index:
                assert made.loc[term, "mean"] == pytest.approx(expected.params[term], abs=close)
                assert made.loc[term, "sd"] == pytest.approx(expected.bse[term], rel=0.35)
            np.testing.assert_allclose(made["naive"].iloc[:4], expected.params, rtol=1e-6)


@pytest.mark.parametrize(
    ("family", "link"), [("bernoulli", "logit"), ("bernoulli", "probit"), ("poisson", None)]
)
def test_the_naive_fit_is_that_of_statsmodels(family, link):
    import statsmodels.api as sm

    rng = np.random.default_rng(8)
    x = rng.normal(size=400)
    y = rng.poisson(np.exp(0.3 + 0.4 * x)) if family == "poisson" else rng.random(400) < 0.3 + x / 9
    frame = pl.DataFrame({"y": np.asarray(y, float), "x": x})
    made = sf.fit(
        "y ~ x", frame, noise={"x": sf.Gaussian(variance=0.2)}, family=family, link=link,
        method="simex",
    )  # fmt: skip
    kind = sm.families.Poisson() if family == "poisson" else sm.families.Binomial()
    if link == "probit":
        kind = sm.families.Binomial(link=sm.families.links.Probit())
    expected = sm.GLM(frame["y"].to_numpy(), sm.add_constant(x), family=kind).fit(tol=1e-12)
    np.testing.assert_allclose(list(made.naive.value.values()), expected.params, rtol=1e-7)
    if link != "probit":  # they take the expected information there too, by default the observed
        np.testing.assert_allclose(list(made.naive.error.values()), expected.bse, rtol=1e-5)


def test_the_naive_two_level_fit_is_that_of_lme4(shared_data):
    exam = pl.read_csv(shared_data / "exam.csv").with_columns(girl=(pl.col("sex") == "F").cast(int))
    made = sf.fit("normexam ~ standLRT + girl + (1 | school)", exam, noise={}, method="moments")
    found = list(made.naive.value.values())
    assert [round(one, 5) for one in found] == [-0.09497, 0.55947, 0.17136, 0.56252, 0.08986]
    assert [round(one, 5) for one in made.naive.error.values()] == [0.04374, 0.01245, 0.03279]
    assert made.naive.value.keys() >= {"residual variance", "variance of Intercept by group"}


def test_table_4_as_published_naive_and_corrected():
    rng = np.random.default_rng(20)
    naive, found = [], []
    noise = {"x1": sf.Gaussian(variance=0.2), "x2": sf.CodeNoise(variance=0.2, levels=[0, 1])}
    for _ in range(60):
        both = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=1000)
        x1, x2 = both[:, 0], (both[:, 1] > 0).astype(float)
        y = 1 + x1 + x2 + rng.normal(size=1000)
        x1, x2 = x1 + rng.normal(size=1000) * 0.2**0.5, x2 + rng.normal(size=1000) * 0.2**0.5
        frame = pl.DataFrame({"y": y, "x1": x1, "x2": np.clip(x2, 0, 1)})
        made = sf.fit("y ~ x1 + x2", frame, noise=noise, method="moments")
        naive.append([made.naive.value[name] for name in made.parameters])
        found.append([made.estimates.value[name] for name in made.parameters])
    error = np.std(naive, axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(np.mean(naive, axis=0) - [0.974, 0.884, 1.044, 1.274]) < 3 * error).all()
    error = np.std(found, axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(np.mean(found, axis=0) - 1) < 3 * error).all()


def test_missing_values_are_part_of_the_model_or_left_out_and_told():
    frame = noisy(records(400)).with_columns(
        pl.when(pl.int_range(400) < 10).then(None).otherwise("x").alias("x"),
        pl.when(pl.int_range(400) >= 370).then(None).otherwise("z").alias("z"),
    )
    made = sf.fit("y ~ x + z", frame, noise={"x": sf.Gaussian(variance=0.3)}, method="moments")
    assert (made.records, made.left_out) == (370, 30)
    assert any(note.startswith("30 records") for note in made.notes)
    assert "10 records that lack a noised value were left out." in made.notes
    empty = frame.with_columns(pl.lit(None, pl.Float64).alias("z"))
    with pytest.raises(DataError, match="No record"):
        sf.fit("y ~ x + z", empty, noise={"x": sf.Gaussian(variance=0.3)})


def test_the_error_of_the_measurement_itself_is_taken_out_too():
    frame, noise = noisy(records(4000), 0.5), {"x": sf.Gaussian(variance=0.3)}
    made = sf.fit("y ~ x", frame, noise=noise, measured={"x": 0.2}, method="moments").summary()
    less = sf.fit("y ~ x", frame, noise=noise, method="moments").summary()
    assert less.loc["x", "mean"] + 0.05 < made.loc["x", "mean"]
    assert abs(made.loc["x", "mean"] - 1) < 3 * made.loc["x", "sd"]
    alone = sf.fit("y ~ x", frame, noise={}, measured={"x": 0.5}, method="moments").summary()
    assert alone.loc["x", "mean"] == pytest.approx(made.loc["x", "mean"])
    for wrong in ({"w": 0.1}, {"x": -1.0}):
        with pytest.raises(DataError, match="measured"):
            sf.fit("y ~ x", frame, noise=noise, measured=wrong)


def test_odd_inputs_are_refused_without_a_value():
    noise = {"x": sf.Gaussian(variance=0.3)}
    frame = noisy(records(60)).with_columns(pl.lit("secret").alias("text"), pl.lit(7.25).alias("c"))
    cases = {
        "y ~ x + c": "say nothing", "y ~ x + text": "one level", "c ~ nobody": "not in the data",
        "y ~ x + I(z**2) + I(z*z)": "say nothing", "text ~ x": "category|one level",
    }  # fmt: skip
    for formula, said in cases.items():
        with pytest.raises(SfumatoError, match=said) as caught:
            sf.fit(formula, frame, noise=noise)
        assert "secret" not in str(caught.value)
        assert "7.25" not in str(caught.value)
    with pytest.raises(SfumatoError, match="complete records|No record"):
        sf.fit("y ~ x + z", frame.head(2), noise=noise)
    with pytest.raises(DataError, match="No record has all clean variables"):
        sf.fit("y ~ x", frame.head(0), noise=noise)
    with pytest.raises(DataError, match="no numbers"):
        sf.fit("y ~ text", frame, noise={"text": sf.Gaussian(variance=1.0)})
    with pytest.raises(DataError, match="infinite values"):
        sf.fit("y ~ x", frame.with_columns(pl.lit(np.inf).alias("x")), noise=noise)
    with pytest.raises(DataError, match="groups"):
        sf.fit("y ~ z + (1 | x)", frame, noise=noise)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("no method 'magic'", {"method": "magic"}),
        ("no shape 'odd'", {"shape": "odd"}),
        ("`draws` and `chains` are 1 or more", {"draws": 0}),
        ("`draws` and `chains` are 1 or more", {"chains": 0}),
        ("`level` lies between", {"level": 0.0}),
        ("`level` lies between", {"level": 1.0}),
    ]
    for reason, options in wrong:
        with pytest.raises(MeasureError, match=reason):
            sf.fit("y ~ x", frame, noise=noise, **options)


def test_noise_that_outcome_and_predictors_share_is_taken_out_as_well():
    rng = np.random.default_rng(6)
    true = records(20_000).drop_nulls()
    names = ["y", "x", "z"]
    covariance = np.cov(true.select(names).to_numpy(), rowvar=False)
    weight = np.sqrt(0.7)
    told = sf.CorrelatedGaussian(
        variables=names, weight=float(weight), mean=[0.3, 0.1, 0.0],
        covariance=(0.3 * covariance).tolist(),
    )  # fmt: skip
    noise = rng.multivariate_normal(told.mean, told.covariance, size=true.height)
    values = weight * true.select(names).to_numpy() + noise
    frame = true.with_columns(pl.Series(n, values[:, at]) for at, n in enumerate(names))
    every = dict.fromkeys(names, told)
    clean = sf.fit("y ~ x + z + sex", true, noise={}, method="moments").summary()
    for method in ("moments", "calibration", "posterior"):
        made = sf.fit("y ~ x + z + sex", frame, noise=every, method=method).summary()
        for term in ("Intercept", "x", "z", "sex"):
            apart = abs(made.loc[term, "mean"] - clean.loc[term, "mean"])
            assert apart < 4 * made.loc[term, "sd"] < 0.3
    # Without the clean variable nothing is biased: means and covariances are kept.
    plain = sf.fit("y ~ x + z", frame, noise=every, method="moments").summary()
    assert plain.loc["x", "naive"] == pytest.approx(plain.loc["x", "mean"], abs=0.05)
    with pytest.raises(MeasureError, match="no term of its own"):
        sf.fit("y ~ I(x**2)", frame, noise=every)
    gaps = frame.with_columns(pl.when(pl.int_range(20_000) > 9).then("x").alias("x"))
    assert sf.fit("y ~ x", gaps, noise=every, method="moments").left_out == 10
