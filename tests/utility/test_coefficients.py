from __future__ import annotations

import math
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import drawn
from tests.utility.conftest import numbers

import sfumato as sf
from sfumato.errors import MeasureError, PlanError, SchemaError

Coefficients = sf.utility.Coefficients
TITANIC = "Survived ~ C(Pclass) + Sex + Age + Fare + Family"
TERMS = ("int", "p2", "p3", "male", "age", "fare", "fam")

# Table 3 of the paper: estimate, standard error and z of both, and the standardised difference.
TABLE_3 = [
    (3.519, 0.437, 8.054, 3.615, 0.454, 7.972, 0.220),
    (-1.067, 0.286, -3.732, -1.112, 0.300, -3.707, 0.159),
    (-2.283, 0.281, -8.135, -2.343, 0.300, -7.822, 0.216),
    (-2.628, 0.194, -13.527, -2.625, 0.194, -13.508, 0.012),
    (-0.033, 0.008, -4.437, -0.035, 0.008, -4.586, 0.205),
    (0.001, 0.002, 0.466, 0.001, 0.002, 0.217, 0.223),
    (-0.091, 0.194, -0.471, -0.089, 0.197, -0.452, 0.010),
]
COLUMNS = ("original", "original_se", "original_z", "released", "released_se", "released_z")


def simulated(seed: int, records: int = 80) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    x, group = draw.normal(size=records), draw.integers(0, 3, size=records)
    y = 1 + x - group + draw.normal(size=records)
    return pl.DataFrame(
        {
            "y": y,
            "x": x,
            "group": np.array(["a", "b", "c"])[group],
            "yes": (y > 0).astype(int),
            "count": draw.poisson(np.exp(0.3 * x + 0.5)),
        }
    )


def test_all_49_numbers_of_the_paper_s_table(titanic):
    found = Coefficients(formula=TITANIC, family="logistic").measure(
        titanic.original, titanic.released
    )
    cells = found.table.select(*COLUMNS, "coefficients").rows()
    assert sum(
        round(cell, 3) == printed
        for row, shown in zip(cells, TABLE_3, strict=True)
        for cell, printed in zip(row, shown, strict=True)
    ) == len(TABLE_3) * len(TABLE_3[0])
    exact, original = titanic.reference["rann_exact"], titanic.reference["original"]
    wanted = {
        "original": original["coef"],
        "original_se": original["se"],
        "original_z": original["z"],
        "released": [exact[f"b_{one}"] for one in TERMS],
        "released_se": [exact[f"se_{one}"] for one in TERMS],
        "released_z": [exact[f"z_{one}"] for one in TERMS],
        "coefficients": [exact[f"sd_{one}"] for one in TERMS],
    }
    for column, values in wanted.items():
        assert found.table[column].to_list() == pytest.approx(values, rel=1e-6)
    assert found.value == pytest.approx(exact["sd_fare"], rel=1e-6)
    assert found.table["term"].to_list() == [
        "Intercept", "C(Pclass)[T.2]", "C(Pclass)[T.3]", "Sex[T.male]", "Age", "Fare", "Family",
    ]  # fmt: skip
    assert found.table["original_p"][0] == pytest.approx(8.00e-16, rel=2e-2)
    assert found.table["released_p"][4] == pytest.approx(4.53e-06, rel=2e-2)
    assert found.details["signs_kept"] == found.details["significance_kept"] == 1.0
    assert found.details["smallest_overlap"] > 0.9


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x + group", "linear"),
        ("log(count + 1) ~ poly(x, 2)", "linear"),
        ("yes ~ x*group", "logistic"),
        ("count ~ x + I(x^2)", "poisson"),
        ("y ~ 0 + C(group):x + sqrt(count)", "linear"),
    ],
)
def test_it_agrees_with_statsmodels_and_its_own_formulas(formula, family):
    import statsmodels.formula.api as smf
    from statsmodels.genmod.families import Binomial, Poisson

    theirs = formula.replace("poly(x, 2)", "x + I(x**2)").replace("^", "**")
    theirs = theirs.replace("sqrt", "np.sqrt").replace("log", "np.log")
    fits = []
    for seed in (1, 2):
        frame = simulated(seed).to_pandas()
        if family == "linear":
            fits.append(smf.ols(theirs, frame).fit())
        else:
            kind = Binomial() if family == "logistic" else Poisson()
            fits.append(smf.glm(theirs, frame, family=kind).fit(tol=1e-12))
    found = Coefficients(formula=formula, family=family, level=0.9).measure(
        sf.Dataset(simulated(1)), sf.Dataset(simulated(2))
    )
    if "poly" in formula:
        # Orthogonal polynomials are other terms that span the same model.
        assert found.details["terms"] == 3
        return
    was, now = fits
    assert sorted(found.table["original"]) == pytest.approx(sorted(was.params))
    assert sorted(found.table["released_p"]) == pytest.approx(sorted(now.pvalues), rel=1e-4)
    by_size = found.table.sort("original")
    order = np.argsort(was.params.to_numpy())
    low, high = was.conf_int(alpha=0.1).to_numpy()[order].T
    low2, high2 = now.conf_int(alpha=0.1).to_numpy()[order].T
    assert by_size["original_low"].to_list() == pytest.approx(list(low), rel=1e-5)
    common = np.minimum(high, high2) - np.maximum(low, low2)
    overlap = (common / (high - low) + common / (high2 - low2)) / 2
    assert by_size["overlap"].to_list() == pytest.approx(list(overlap), rel=1e-4)
    change = np.abs(was.params - now.params) / was.bse
    assert found.value == pytest.approx(change.max(), rel=1e-5)
    assert found.details["mean_difference"] == pytest.approx(change.mean(), rel=1e-5)


@given(st.integers(0, 10_000), st.sampled_from(["linear", "logistic", "poisson"]))
@settings(max_examples=15)
def test_equal_data_keep_everything(seed, family):
    outcome = {"linear": "y", "logistic": "yes", "poisson": "count"}[family]
    data = sf.Dataset(simulated(seed))
    found = Coefficients(formula=f"{outcome} ~ x + group", family=family).measure(data, data)
    assert found.value == 0.0
    assert set(found.table["overlap"]) == {1.0}
    assert found.details["signs_kept"] == found.details["significance_kept"] == 1.0


@drawn("seed", range(3))
@pytest.mark.parametrize(
    "measure",
    [
        Coefficients(formula="systolic ~ scale(height) + weight_kg + C(smoking) + sex"),
        Coefficients(formula="sex ~ poly(height, 2) + log(glucose)", family="logistic"),
    ],
)
def test_the_order_of_records_changes_no_bit(noisy, seed, measure):
    found = measure.measure(noisy.original, noisy.released)
    other, _ = noisy.shuffle_records(seed)
    assert measure.measure(other.original, other.released).plain() == found.plain()
    assert found.value > 0


def test_declared_levels_give_the_reference(cohort):
    found = Coefficients(formula="systolic ~ education + sex").measure(cohort, cohort)
    terms = found.table["term"].to_list()
    assert "sex[T.male]" in terms
    assert "education[T.no qualification]" not in terms
    assert found.details["records_used_of_original"] < len(cohort)
    assert "records of the original have a missing value" in " ".join(found.warnings)


def test_a_category_of_two_levels_can_be_the_outcome():
    frame = simulated(3).with_columns(
        yes=pl.when(pl.col("yes") == 1).then(pl.lit("z")).otherwise(pl.lit("k"))
    )
    text = Coefficients(formula="yes ~ x", family="logistic").measure(
        sf.Dataset(frame), sf.Dataset(frame)
    )
    coded = Coefficients(formula="yes ~ x", family="logistic").measure(
        sf.Dataset(simulated(3)), sf.Dataset(simulated(3))
    )
    assert text.table.equals(coded.table)
    with pytest.raises(MeasureError, match="outcome of the formula is a category"):
        Coefficients(formula="group ~ x", family="logistic").measure(
            sf.Dataset(frame), sf.Dataset(frame)
        )


def test_names_with_spaces_dates_and_codes():
    frame = simulated(4).rename({"x": "blood pressure"})
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 3, 20), eager=True)
    frame = frame.with_columns(day=days, code=pl.Series([1, 2] * 40))
    data = sf.Dataset(frame, sf.Schema({"code": sf.Column(kind="nominal")}))
    other = sf.Dataset(frame.with_columns(pl.col("code").cast(pl.Float64)))
    found = Coefficients(formula="y ~ `blood pressure` + day + code").measure(data, other)
    assert found.table["term"].to_list() == ["Intercept", "blood pressure", "day", "code[T.2]"]
    assert found.value == 0.0


@pytest.mark.parametrize(
    ("formula", "family", "words"),
    [
        ("y ~ x + missing_here", "linear", "'missing_here' is not in the data"),
        ("y ~ gruop", "linear", "did you mean 'group'"),
        ("y ~ x + gone", "linear", "'gone', which cannot be compared: it is not in the release"),
        ("y ~ log(x)", "linear", "no finite value for some records of the original: log(x)"),
        ("y ~ log(group)", "linear", "cannot be turned into terms"),
        ("y ~ x + I(2*x)", "linear", "say nothing that the others do not say, in the original"),
        ("y ~ twin + x", "linear", "in the released data: x"),
        ("twice ~ x", "linear", "fits the original exactly"),
        ("y ~ x", "logistic", "must be 0 or 1"),
        ("x ~ y", "poisson", "must be counts"),
        ("positive ~ x", "logistic", "with certainty"),
        ("zero ~ group", "poisson", "with certainty"),
        ("y ~ new", "linear", "1 new, 0 gone"),
        ("y ~ one", "linear", "one level only"),
        ("y ~ many", "linear", "more than 200 levels"),
        ("y ~ x + empty", "linear", "no record of the original|has no value at all"),
        ("group ~ x", "linear", "is a category"),
        ("y ~ 0", "linear", "no term|cannot be turned"),
    ],
)
def test_what_cannot_be_fitted_is_an_error_and_not_zero(formula, family, words):
    frame = simulated(5, records=400).with_columns(
        gone=pl.lit(1.0),
        twice=pl.col("x") * 2 + 1,
        positive=(pl.col("x") > 0).cast(pl.Int64),
        zero=pl.when(pl.col("group") == "a").then(0).otherwise(pl.col("count")),
        new=pl.col("group"),
        one=pl.lit("same"),
        many=pl.Series([f"level {at}" for at in range(400)]),
        twin=pl.Series(np.random.default_rng(0).normal(size=400)),
        empty=pl.lit(None, dtype=pl.Float64),
    )
    released = frame.drop("gone").with_columns(
        new=pl.Series(["d", *frame["group"][1:].to_list()]), twin=pl.col("x") * 3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            (MeasureError, SchemaError), match=words.replace("(", r"\(").replace(")", r"\)")
        ):
            Coefficients(formula=formula, family=family).measure(
                sf.Dataset(frame), sf.Dataset(released)
            )


def test_errors_name_the_variable_and_no_level_of_it():
    frame = simulated(8).with_columns(
        town=pl.when(pl.col("group") == "a").then(pl.lit("[secret]ville")).otherwise(pl.lit("b")),
        none=pl.lit(-1.0),
    )
    data = sf.Dataset(frame.with_columns(same=pl.col("town")))
    for formula, named in (
        ("y ~ town + same", "the original: same."),
        ("y ~ C(town) + same:x + C(town):x", "the original: "),
        ("y ~ town:log(none)", "the original: town:log(none)."),
    ):
        with pytest.raises(MeasureError) as error:
            Coefficients(formula=formula).measure(data, data)
        assert named in str(error.value)
        assert "ville" not in str(error.value)
        assert "[" not in str(error.value)


def test_the_level_of_the_intervals_is_told():
    data = sf.Dataset(simulated(9))
    found = Coefficients(formula="y ~ x", level=0.8).measure(data, data)
    assert found.details["level"] == 0.8


def test_too_few_records_are_told():
    data = numbers({"y": [1.0, 2.0, 4.0], "x": [1.0, 5.0, 2.0], "z": [0.0, 1.0, 1.0]})
    with pytest.raises(MeasureError, match="3 complete records in the original for 3 terms"):
        Coefficients(formula="y ~ x + z").measure(data, data)
    with pytest.raises(MeasureError, match="no record to compare"):
        Coefficients(formula="y ~ x").measure(data, data.take(np.arange(0)))


@pytest.mark.parametrize("text", ["y ~ __import__('os')", "y ~ eval(x)", "y", ""])
def test_a_formula_that_is_code_is_refused_with_the_plan(text):
    with pytest.raises(PlanError, match="'formula' parameter of Coefficients"):
        Coefficients(formula=text)
    plan = sf.Plan(evaluate={"model": Coefficients(formula="y ~ x")}).text()
    with pytest.raises(PlanError, match="formula"):
        sf.Plan.parse(plan.replace('"y ~ x"', f'"{text}"'))


def test_a_name_of_python_is_a_variable_and_nothing_else():
    data = sf.Dataset(simulated(6))
    with pytest.raises(SchemaError, match="'__builtins__' is not in the data"):
        Coefficients(formula="y ~ x + __builtins__").measure(data, data)
    odd = sf.Dataset(simulated(6).rename({"x": "log", "count": "__import__('os')"}))
    found = Coefficients(formula="y ~ log + sqrt(`__import__('os')`)").measure(odd, odd)
    assert found.table["term"].to_list() == ["Intercept", "log", "sqrt(__import__('os'))"]


def test_it_needs_a_formula_and_says_so():
    with pytest.raises(PlanError, match="'formula' parameter of Coefficients must be given"):
        Coefficients()
    with pytest.raises(PlanError, match="no default"):
        _ = sf.Plan(targets={"smallest_overlap.min": 0.5}).measures


def test_intervals_that_lie_apart_overlap_less_than_nothing():
    was = simulated(7)
    found = Coefficients(formula="y ~ x").measure(
        sf.Dataset(was), sf.Dataset(was.with_columns(pl.col("y") + 10 * pl.col("x")))
    )
    row = found.table.row(by_predicate=pl.col("term") == "x", named=True)
    assert row["overlap"] < 0
    assert found.value == row["coefficients"] > 10
    assert math.isfinite(found.details["smallest_overlap"])
