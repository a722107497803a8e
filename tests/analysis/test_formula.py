"""Formulas with groups, and terms of noised variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis.formula import (
    Transformation,
    parse_transformation,
    read_model_formula,
    split_product,
)
from sfumato.analysis.problem import Problem
from sfumato.analysis.problem_building import build_problem, resolve_family
from sfumato.analysis.release_input import read_release_input
from sfumato.analysis.variables import prepare_variables
from sfumato.errors import MeasureError, SfumatoError

SECRET = 987654.5


def problem_of(
    formula: str, frame: pl.DataFrame, noise: Mapping[str, Any], family: str = "gaussian", **more
):
    read = read_model_formula(formula)
    got = read_release_input(frame, noise, read.variables)
    ready = prepare_variables(got, read, more.pop("measured", {}), more.pop("trials", None))
    known, link = resolve_family(family, None)
    problem, _ = build_problem(
        read, ready, got.noise, family=known, link=link, shape="auto", clustered=True
    )
    return problem


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    n = 60
    return pl.DataFrame(
        {
            "y": rng.normal(size=n),
            "x": rng.normal(size=n) + 8,
            "z z": rng.normal(size=n) + 8,
            "sex": np.clip(rng.integers(0, 2, n) + rng.normal(size=n), 0, 1),
            "kind": [("a", "b", "c")[one] for one in rng.integers(0, 3, n)],
            "school|no": [f"s{one % 12}" for one in range(n)],
        }
    )


NOISE = {
    "x": sf.Gaussian(variance=0.2),
    "sex": sf.CodeNoise(variance=0.2, levels=[0, 1], ends="clip"),
}


@pytest.mark.parametrize(
    ("text", "group", "fixed", "random"),
    [
        ("y ~ x", None, "v0 ~ v1", None),
        ("y ~ x + (1 | g)", "g", "v0 ~ v1", "v0 ~ 1"),
        ("y ~ (1|g)", "g", "v0 ~ 1", "v0 ~ 1"),
        ("y ~ (1|g) + x", "g", "v0 ~ v1", "v0 ~ 1"),
        ("y ~ a + (0 + x | `the school`) + x", "the school", "v0 ~ v1 + v2", "v0 ~ 0 + v1"),
        ("log(y) ~ (a + b)^2 + (x | g)", "g", "log( v0 ) ~ ( v1 + v2 ) ** 2", "log( v0 ) ~ v1"),
        ("y ~ `a|b` + (1 | `c|(d`)", "c|(d", "v0 ~ v1", "v0 ~ 1"),
    ],
)
def test_the_part_with_groups_is_taken_apart(text, group, fixed, random):
    read = read_model_formula(text)
    assert read.fixed.write_with_aliases() == fixed
    parts = [(part.name, part.effects.write_with_aliases()) for part in read.parts]
    assert parts == ([] if group is None else [(group, random)])


@pytest.mark.parametrize(
    ("text", "fixed", "parts"),
    [
        ("y ~ (1 | g) + x + (0 + x|h)", "v0 ~ v1", {"g": "v0 ~ 1", "h": "v0 ~ 0 + v1"}),
        ("y ~ x + (1 + x | a/b)", "v0 ~ v1", {"a": "v0 ~ 1 + v1", "a:b": "v0 ~ 1 + v1"}),
        ("y ~ (1 | a / `b/c` / d)", "v0 ~ 1", {"a": "v0 ~ 1", "a:b/c": "v0 ~ 1",
                                               "a:b/c:d": "v0 ~ 1"}),
        ("y ~ x + (1 | a:b) + offset(z)", "v0 ~ v1", {"a:b": "v0 ~ 1"}),
    ],
)  # fmt: skip
def test_several_parts_with_groups_are_those_of_lme4(text, fixed, parts):
    read = read_model_formula(text)
    assert read.fixed.write_with_aliases() == fixed
    assert {part.name: part.effects.write_with_aliases() for part in read.parts} == parts
    assert set(read.group_variables) == {name for part in read.parts for name in part.by}


@pytest.mark.parametrize(
    ("reason", "texts"),
    [
        (
            "outside a part with groups",
            ["y ~ x + (1 || g)", "y ~ x | g", "(1 | g) ~ x", "y ~ x + (1 | g", "| ~ |",
             "y ~ x + ((1) | g)"],
        ),
        ("both a / and a colon", ["y ~ x + (1 | g:h/i)"]),
        (
            "part with groups cannot be read",
            ["y ~ x + ( | g)", "y ~ x + (1 | 3)", "y ~ x + (1 |)", "y ~ x + (1 | g/)"],
        ),
        ("added to the others with a \\+", ["y ~ x * (1 | g)", "y ~ (1|g) x"]),
        ("needs one ~", ["y + x"]),
        ("calls '__import__'", ["y ~ __import__(x)"]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(reason, texts):
    for text in texts:
        with pytest.raises(MeasureError, match=reason):
            read_model_formula(text)


def names_of(problem: Problem) -> list[str]:
    return [one.name for one in problem.terms]


def test_terms_have_the_names_of_formulaic_and_the_parts_of_the_formula(frame):
    made = problem_of("y ~ x*sex + I(x**2) + `z z` + kind:x + (1 + x | `school|no`)", frame, NOISE)
    assert names_of(made) == [
        "Intercept", "x", "sex", "I(x ** 2)", "z z", "x:sex", "kind[T.b]:x", "kind[T.c]:x",
    ]  # fmt: skip
    assert made.random == (0, 1)
    assert made.groups is not None
    assert len(set(made.groups.tolist())) == 12
    assert [one.name for one in made.numbers] == ["x"]
    assert made.categories[0].levels == ("0", "1")
    assert made.terms[5].numbers == ((0, None),)
    assert made.terms[5].levels == ((0, 1),)
    assert made.terms[3].numbers[0][1] == Transformation("I(x ** 2)")
    # The constant, the clean number, and both dummies; each once.
    assert made.covariates.shape == (60, 4)


def test_the_columns_of_true_values_are_those_of_formulaic(frame):
    formulaic = pytest.importorskip("formulaic")
    text = "y ~ x + C(sex)*kind + I(x * `z z`**2) + log(x):`z z` + poly(`z z`, 2):x + sqrt(exp(x))"
    made = problem_of(text, frame, NOISE)
    rng = np.random.default_rng(1)
    true, codes = rng.uniform(1, 3, 60), rng.integers(0, 2, 60)
    columns = made.design(true[:, None], codes[:, None])
    read = read_model_formula(text)
    ready = prepare_variables(read_release_input(frame, NOISE, read.variables), read, {})
    clean = ready.build_frame(read.fixed.variables)
    at = {name: f"v{place}" for place, name in enumerate(read.fixed.variables)}
    clean[at["x"]] = true
    import pandas as pd

    clean[at["sex"]] = pd.Categorical.from_codes(codes.tolist(), categories=pd.Index(["0", "1"]))
    expected = formulaic.Formula(read.fixed.write_with_aliases()).get_model_matrix(
        clean, context={"sqrt": np.sqrt}
    )
    assert names_of(made) == [read.fixed.name_column(c, ready.labels) for c in expected.rhs.columns]
    np.testing.assert_allclose(columns, expected.rhs.to_numpy(dtype=float), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y ~ center(x)", "standardises"), ("y ~ C(x)", "standardises"),
        ("y ~ poly(x, 2)", "standardises"), ("y ~ log(sex)", "category"),
        ("y ~ I(x + `z z`)", "mixes"), ("y ~ log(x * `z z`)", "mixes"),
        ("y ~ kind + (1 + x | `school|no`)", "fixed terms"), ("y ~ 0", "no term"),
        ("y ~ nobody", "not in the data"), ("kind ~ x", "category"), ("sex ~ x", "category"),
        ("log(y) ~ kind", "finite"), ("y ~ log(`z z` - 1000)", "finite"),
    ],
)  # fmt: skip
def test_refusals_name_the_variable_and_no_value(frame, text, said):
    odd = frame.with_columns(pl.lit(SECRET).alias("x"))
    with pytest.raises(SfumatoError, match=said) as caught:
        problem_of(text, odd, NOISE)
    assert "98765" not in str(caught.value)
    assert not any(f"'{one}'" in str(caught.value) for one in ("a", "b", "c"))


def test_more_levels_and_text_levels_become_dummies(frame):
    noise = {
        "kind": sf.Misclassification(
            levels=["c", "a", "b"], matrix=[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
        )
    }
    made = problem_of("y ~ kind", frame, noise)
    assert names_of(made) == ["Intercept", "kind[T.a]", "kind[T.b]"]
    assert made.terms[2].levels == ((0, 2),)


def test_noise_on_a_logarithm_that_the_model_takes_is_noise_on_the_term(frame):
    noise = {"x": sf.Gaussian(variance=0.1, scale=sf.Scale(name="log"))}
    made = problem_of("y ~ log(x) + kind:log(x)", frame, noise)
    assert made.simple is False  # a product with a dummy
    assert problem_of("y ~ log(x)", frame, noise).simple
    assert made.numbers[0].scale is None
    np.testing.assert_allclose(np.sort(made.numbers[0].observed), np.sort(np.log(frame["x"])))
    assert problem_of("y ~ x", frame, noise).numbers[0].scale is not None
    assert problem_of("y ~ log(x) + x", frame, noise).numbers[0].scale is not None


def test_noised_outcomes(frame):
    noise = {"y": sf.Gaussian(variance=0.3), **NOISE}
    made = problem_of("y ~ x", frame, noise)
    assert made.outcome_number is not None
    assert made.outcome_number.variance == 0.3
    assert [one.name for one in made.numbers] == ["x"]
    binary = problem_of("sex ~ x", frame, noise, "bernoulli")
    assert binary.outcome_category is not None
    assert binary.categories == ()
    assert set(binary.y) == {0.0, 1.0}
    with pytest.raises(MeasureError, match="function"):
        problem_of("exp(y) ~ x", frame, noise)
    scaled = {"x": sf.Gaussian(variance=0.1, scale=sf.Scale(name="log"))}
    undone = problem_of("log(x) ~ kind", frame, scaled).outcome_number
    assert undone is not None
    assert undone.scale is None


def test_families_and_links():
    assert resolve_family("logistic", None) == ("bernoulli", "logit")
    assert resolve_family("binomial", "probit") == ("binomial", "probit")
    with pytest.raises(MeasureError, match="no family 'gamma'"):
        resolve_family("gamma", None)
    for family, link in (("gaussian", "log"), ("poisson", "logit")):
        with pytest.raises(MeasureError, match=f"'{family}' has no link '{link}'"):
            resolve_family(family, link)


def test_trials(frame):
    counts = frame.with_columns(pl.lit(3).alias("n"), pl.lit(2).alias("k"))
    made = problem_of("k ~ x", counts, NOISE, "binomial", trials="n")
    assert made.trials is not None
    assert made.trials.tolist() == [3.0] * 60
    with pytest.raises(MeasureError, match="trials"):
        problem_of("k ~ x", counts, NOISE, "binomial")
    with pytest.raises(SfumatoError, match="fewer trials"):
        problem_of("n ~ x", counts, NOISE, "binomial", trials="k")


def test_functions():
    x = np.array([1.0, 4.0])
    assert parse_transformation("v3", "v3") is None
    assert parse_transformation("I(v3)", "v3") is None
    transform = parse_transformation("I((v3 - 1) / 2 + -v3 * 3)", "v3")
    assert transform is not None
    np.testing.assert_allclose(transform(x), [-3, -10.5])
    assert Transformation("I(x ** 3)").power == 3
    assert Transformation("log(x)").power is None
    assert Transformation("I(sqrt(I(x)))").call == "sqrt"
    assert split_product("I(v1 * (v2 * v3))") == ["I(v1)", "I(v2)", "I(v3)"]
    for text in ("v1 + v2", "v1.real", "v1[0]", "print(v1)", "log(v1, 2)", "v1 if 1 else 2"):
        with pytest.raises((ValueError, SyntaxError)):
            parse_transformation(text, "v1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y ~", "no term after"),
        ("y ~ x +", r"ends with '\+'"),
        ("3 ~ x", "no outcome before"),
        ("y ~ x + I(y ** 2)", "'y' is the outcome, and also"),
        ("y ~ x + (1 + y | g)", "'y' is the outcome, and also"),
    ],
)
def test_both_sides_are_there_and_apart(text, said):
    with pytest.raises(MeasureError, match=said):
        read_model_formula(text)


def test_a_name_may_be_a_sign():
    read = read_model_formula("`~` ~ `|` + (1 | `a | b`)")
    assert read.fixed.outcome == "~"
    assert read.variables == ("~", "|", "a | b")
    assert read_model_formula("y ~ + (1 | g)").fixed == read_model_formula("y ~ 1").fixed
    frame = pl.DataFrame({"~": [1.0, 2, 4, 4, 6], "|": [1.0, 2, 3, 4, 5.5]})
    made = sf.fit("`~` ~ `|`", frame, noise={"|": sf.Gaussian(variance=0.1)}, method="moments")
    assert made.terms == ("Intercept", "|")
