"""What a model of ranges and sets gives back: Mondrian releases of the cohort against the original.

Records of the synthetic cohort keep their height, household size, income (skewed), education in
three levels, and HDL; an outcome with known coefficients is drawn. The first four are generalised
by `k_anonymity`. Compared with the fit to the original are `sf.fit`, the middles of ranges (a set
counts in equal parts for its levels), and ranges as categories, which leave a coefficient only for
HDL. `python -m benchmarks.study_fit_cells --sets 30 --k 5 --into FOLDER` goes on where it stopped.

With `--predictors normal` height is normal, income log-normal and household size a rounded normal
number, each given the others: the shape that the model of true values has. What bias is left then
is that of the method; what the cohort has more of comes from its shape.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.analysis.formula import read_model_formula
from sfumato.analysis.generalised_cells import build_cell_category, build_cell_number
from sfumato.analysis.problem_building import build_problem, resolve_family
from sfumato.analysis.release_input import read_release_input
from sfumato.analysis.samplers.metropolis.chain import Chain
from sfumato.analysis.samplers.metropolis.start import prepare_start
from sfumato.analysis.variables import prepare_variables
from sfumato.kernels.arrays import Floats

QUASI = ["height", "household_size", "income", "education"]
LEVELS = ("low", "middle", "degree")
GROUPS = {
    "no qualification": "low",
    "lower secondary": "low",
    "upper secondary": "middle",
    "vocational": "middle",
    "degree": "degree",
    "higher degree": "degree",
}
NUMBERS = ("height", "household_size", "income", "hdl")
EFFECTS = {"height": 0.3, "household_size": -0.25, "income": 0.3, "hdl": -0.3}
"""Of one SD of the cohort, in SD of the residual."""
BY_LEVEL = {"middle": 0.3, "degree": 0.6}
FORMULA = "y ~ height + household_size + income + education + hdl"
TERMS = ["Intercept", *NUMBERS[:3], "education[T.middle]", "education[T.degree]", "hdl"]
WARNINGS = {
    "Of the variance of": "much variance within ranges",
    "The chains do not agree": "chains do not agree",
}
"""How warnings of a fit begin, and what they are of."""
MUCH = 0.3
"""A share of a sum of squares by which a record decides on a coefficient."""
Row = dict[str, Any]


def build_schema() -> sf.Schema:
    """The variables of the study."""
    declared = sf.datasets.cohort_schema()
    columns = {name: sf.Column(role="quasi", kind=declared[name].kind) for name in QUASI[:3]}
    return sf.Schema(
        {
            **columns,
            "education": sf.Column(role="quasi", kind="ordinal", domain=LEVELS),
            "hdl": sf.Column(role="other", kind="continuous"),
            "y": sf.Column(role="sensitive", kind="continuous"),
        }
    )


def scale_effects() -> tuple[dict[str, float], dict[str, float]]:
    """Coefficients for a unit of each number, and the mean from which they count."""
    cohort = sf.datasets.cohort(20_000, seed=999)
    sd = {name: float(cohort[name].drop_nulls().std()) for name in NUMBERS}  # type: ignore[arg-type]
    mean = {name: float(cohort[name].drop_nulls().mean()) for name in NUMBERS}  # type: ignore[arg-type]
    return {name: EFFECTS[name] / sd[name] for name in NUMBERS}, mean


def draw_from_cohort(records: int, seed: int) -> pl.DataFrame:
    """Predictors of the synthetic cohort."""
    names = [*NUMBERS, "education"]
    cohort = sf.datasets.cohort(int(records * 1.3) + 100, seed=seed).select(names).drop_nulls()
    return cohort.head(records).with_columns(pl.col("education").replace_strict(GROUPS))


def draw_normal(records: int, seed: int) -> pl.DataFrame:
    """Predictors of about the same means and spreads, of the shape that the model has."""
    rng = np.random.default_rng(seed + 10_000)
    correlation = np.array(
        [[1, 0.05, 0.2, 0.1], [0.05, 1, 0.3, 0], [0.2, 0.3, 1, 0.1], [0.1, 0, 0.1, 1]]
    )
    z = rng.normal(size=(records, 4)) @ np.linalg.cholesky(correlation).T
    level = rng.choice(3, size=records, p=[0.46, 0.35, 0.19])
    size = np.clip(np.rint(2.75 + 1.18 * z[:, 1]), 1, None)
    income = np.round(np.exp(10.2 + 0.5 * z[:, 2] + 0.15 * level))
    return pl.DataFrame(
        {
            "height": np.round(169.4 + 9.3 * z[:, 0] + level, 1),
            "household_size": size.astype(np.int64),
            "income": income.astype(np.int64),
            "hdl": np.round(1.49 + 0.41 * z[:, 3], 2),
            "education": [LEVELS[code] for code in level],
        }
    )


PREDICTORS = {"cohort": draw_from_cohort, "normal": draw_normal}


def simulate(
    records: int, seed: int, family: str, predictors: str = "cohort"
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Records with an outcome of known coefficients."""
    slopes, mean = scale_effects()
    frame = PREDICTORS[predictors](records, seed)
    rng = np.random.default_rng(seed)
    line = np.zeros(frame.height)
    for name, slope in slopes.items():
        line += slope * (frame[name].to_numpy() - mean[name])
    for level, effect in BY_LEVEL.items():
        line += effect * (frame["education"] == level).to_numpy()
    if family == "gaussian":
        y = line + rng.normal(size=frame.height)
    elif family == "poisson":
        y = rng.poisson(np.exp(line)).astype(float)
    else:
        y = (rng.uniform(size=frame.height) < 1 / (1 + np.exp(-line))).astype(float)
    truth = {**slopes, **{f"education[T.{level}]": effect for level, effect in BY_LEVEL.items()}}
    truth["Intercept"] = -sum(slopes[name] * mean[name] for name in NUMBERS)
    return frame.with_columns(y=y), truth


def fit_plain(x: Floats, y: Floats, family: str) -> tuple[Floats, Floats]:
    """Maximum likelihood estimates and standard errors."""
    import statsmodels.api as sm

    families = {"bernoulli": sm.families.Binomial, "poisson": sm.families.Poisson}
    model = sm.OLS(y, x) if family == "gaussian" else sm.GLM(y, x, family=families[family]())
    result = model.fit()
    return np.asarray(result.params), np.asarray(result.bse)


def build_design(numbers: dict[str, Floats], shares: Floats) -> Floats:
    """The columns of `TERMS`."""
    first = [numbers[name] for name in NUMBERS[:3]]
    ones = np.ones(len(shares))
    return np.column_stack([ones, *first, shares[:, 1], shares[:, 2], numbers["hdl"]])


def read_middles(released: sf.Dataset) -> Floats:
    """The columns with middles of ranges, and sets in equal parts."""
    numbers = {"hdl": released.column("hdl").to_numpy()}
    for name in NUMBERS[:3]:
        values, column = released.column(name), released.schema[name]
        numbers[name] = (
            build_cell_number(values, column, "number").at_face_value()
            if column.generalised
            else values.cast(pl.Float64).to_numpy()
        )
    education = released.column("education")
    possible = np.column_stack([(education == level).to_numpy() for level in LEVELS]).astype(float)
    if released.schema["education"].generalised:
        category = build_cell_category(education, released.schema["education"])
        inside = (category.density > -1).astype(float)
        possible = np.zeros((len(education), len(LEVELS)))
        for index, level in enumerate(category.levels):
            possible[:, LEVELS.index(level)] = inside[:, index]
    return build_design(numbers, possible / possible.sum(axis=1, keepdims=True))


def fit_cells_as_categories(released: sf.Dataset, y: Floats, family: str) -> tuple[float, float]:
    """The coefficient of HDL beside a column for every distinct cell, and its standard error."""
    columns = [np.ones(len(y)), released.column("hdl").to_numpy()]
    for name in QUASI:
        cells = released.column(name).cast(pl.String)
        columns += [(cells == cell).to_numpy().astype(float) for cell in cells.unique().sort()[1:]]
    x = np.column_stack(columns)
    try:
        value, error = fit_plain(x, y, family)
    except Exception:  # noqa: BLE001 - separation: no estimate is a result too
        return float("nan"), float("nan")
    return float(value[1]), float(error[1])


def release_cells(frame: pl.DataFrame, k: int, seed: int) -> sf.Release:
    """The records with four variables generalised."""
    data = sf.Dataset(frame, build_schema())
    plan = sf.Plan(schema=data.schema, steps=[sf.methods.KAnonymity(variables=QUASI, k=k)])
    return sf.protect(data, plan, key=sf.Key(seed.to_bytes(32, "big")))


def measure_spread(options: argparse.Namespace, seed: int) -> Floats:
    """By how much drawn true numbers spread more than the original ones, as shares of their SD."""
    frame, _ = simulate(options.records, seed, options.family, options.predictors)
    formula = read_model_formula(FORMULA)
    records = read_release_input(
        release_cells(frame, options.k, seed), None, list(formula.variables)
    )
    variables = prepare_variables(records, formula, {})
    family, link = resolve_family(options.family, None)
    problem, _ = build_problem(
        formula, variables, records.noise, family=family, link=link, shape="mixture", clustered=True
    )
    with np.errstate(all="ignore"):
        start = prepare_start(problem, seed)
        chain = Chain(start, np.random.SeedSequence(seed), options.draws)
        spreads = []
        for number_of_pass in range(2 * options.draws):
            chain.step()
            if number_of_pass >= options.draws:
                true = [n.true(chain.latent[:, i]) for i, n in enumerate(start.problem.numbers)]
                spreads.append(np.std(true, axis=1))
    original = [frame[n.name].to_numpy().std() for n in start.problem.numbers]
    return np.asarray(np.mean(spreads, axis=0) / original - 1)


def print_spread(options: argparse.Namespace) -> None:
    """The mean of `measure_spread` over data sets, with its Monte Carlo error."""
    seeds = range(options.first, options.first + options.sets)
    excess = 100 * np.array([measure_spread(options, seed) for seed in seeds])
    error = excess.std(axis=0, ddof=1) / len(excess) ** 0.5
    print(f"{options.sets} data sets; spread of drawn true values against the original's")
    for name, mean, its_error in zip(NUMBERS, excess.mean(axis=0), error, strict=False):
        print(f"{name:<22} {mean:>+6.1f} % ({its_error:.1f} %)")


def study_set(options: argparse.Namespace, seed: int) -> Row:
    """All fits of one data set."""
    family, k = options.family, options.k
    frame, truth = simulate(options.records, seed, family, options.predictors)
    release = release_cells(frame, k, seed)
    released = release.dataset
    # The release has an order of its own.
    y, released_y = frame["y"].to_numpy(), released.column("y").to_numpy()
    shares = np.column_stack([(frame["education"] == level).to_numpy() for level in LEVELS])
    numbers = {name: frame[name].cast(pl.Float64).to_numpy() for name in NUMBERS}
    original, error = fit_plain(build_design(numbers, shares.astype(float)), y, family)
    middles = fit_plain(read_middles(released), released_y, family)
    as_categories = fit_cells_as_categories(released, released_y, family)
    # Income is skewed, so that "auto" chooses a mixture, and would fit a normal one beside it.
    found = sf.fit(
        FORMULA, release, family=family, chains=2, draws=options.draws, shape="mixture", seed=seed
    )
    rows = {row["term"]: row for row in found.rows}
    terms = {
        term: {
            "truth": truth[term],
            "original": [float(original[index]), float(error[index])],
            "middles": [float(middles[0][index]), float(middles[1][index])],
            "fit": [rows[term][key] for key in ("mean", "sd", "low", "high", "ess", "rhat")],
        }
        for index, term in enumerate(TERMS)
    }
    return {
        "k": k,
        "seed": seed,
        "terms": terms,
        "categories": as_categories,
        "warnings": list(found.warnings),
    }


def print_table(rows: list[Row]) -> None:
    """Bias in posterior SD against the original's fit, and coverage of the true coefficients."""
    from scipy.stats import binomtest

    sets = len(rows)
    print(f"{sets} data sets; bias in posterior SD (Monte Carlo error), coverage of 95 % intervals")
    print(
        f"{'term':<22} {'fit':>14} {'SD of it':>8} {'chance':>6} {'coverage':>20} {'SD/SE':>6} "
        f"{'middles':>14} {'coverage':>9}"
    )
    for term in TERMS:
        cells = [row["terms"][term] for row in rows]
        mean, sd, low, high = (np.array([cell["fit"][i] for cell in cells]) for i in range(4))
        original, error = (np.array([cell["original"][i] for cell in cells]) for i in range(2))
        middle, middle_error = (np.array([cell["middles"][i] for cell in cells]) for i in range(2))
        truth = cells[0]["truth"]
        bias, other = (mean - original) / sd, (middle - original) / sd
        covered = int(((low <= truth) & (truth <= high)).sum())
        bounds = binomtest(covered, sets).proportion_ci()
        interval = f"{covered / sets:.2f} ({bounds.low:.2f} to {bounds.high:.2f})"
        naive = np.abs(middle - truth) <= 1.96 * middle_error
        # If the model is right, the original's fit is as far from the posterior mean as what the
        # release hides: its variance is the posterior variance less that of the original's fit.
        chance = np.sqrt(np.maximum(1 - (error / sd) ** 2, 0.0).mean())
        print(
            f"{term:<22} {bias.mean():>+6.2f} ({bias.std(ddof=1) / sets**0.5:.2f}) "
            f"{bias.std(ddof=1):>8.2f} {chance:>6.2f} {interval:>20} "
            f"{(sd / error).mean():>6.2f} {other.mean():>+7.2f} "
            f"({other.std(ddof=1) / sets**0.5:.2f}) {naive.mean():>9.2f}"
        )
    hdl = np.array([row["categories"] for row in rows], float)
    sd = np.array([row["terms"]["hdl"]["fit"][1] for row in rows])
    bias = (hdl[:, 0] - [row["terms"]["hdl"]["original"][0] for row in rows]) / sd
    inside = np.abs(hdl[:, 0] - rows[0]["terms"]["hdl"]["truth"]) <= 1.96 * hdl[:, 1]
    print(
        f"ranges as categories: hdl {np.nanmean(bias):+.2f} SD, coverage {inside.mean():.2f}, "
        "no other coefficient"
    )
    slopes = [row["terms"][term] for row in rows for term in TERMS[1:]]
    covered = sum(cell["fit"][2] <= cell["truth"] <= cell["fit"][3] for cell in slopes)
    by_middles = sum(
        abs(cell["middles"][0] - cell["truth"]) <= 1.96 * cell["middles"][1] for cell in slopes
    )
    print(
        f"all slopes together: coverage {covered / len(slopes):.3f} ({covered} of {len(slopes)}), "
        f"of middles {by_middles / len(slopes):.3f}"
    )
    every = [cell["fit"] for row in rows for cell in row["terms"].values()]
    print(
        f"over all coefficients: least ESS {min(cell[4] for cell in every):.0f}, "
        f"greatest R-hat {max(cell[5] for cell in every):.3f}"
    )
    print_warnings(rows)


def print_warnings(rows: list[Row]) -> None:
    """In how many data sets the program warned of each coefficient, and what it is worth then."""
    for begin, reason in WARNINGS.items():
        for term in TERMS:
            cells = [
                row["terms"][term]
                for row in rows
                if any(text.startswith(begin) and f"'{term}'" in text for text in row["warnings"])
            ]
            covered = sum(cell["fit"][2] <= cell["truth"] <= cell["fit"][3] for cell in cells)
            if cells:
                print(
                    f"warned of {term} ({reason}) in {len(cells)} of {len(rows)} data sets, of "
                    f"which its interval covers in {covered}"
                )


def print_by_leverage(rows: list[Row], records: int, predictors: str) -> None:
    """Bias of income where a single record has much of its sum of squares, and elsewhere."""
    shares, biases = [], []
    for row in rows:
        income = PREDICTORS[predictors](records, row["seed"])["income"].to_numpy()
        squares = (income - income.mean()) ** 2
        shares.append(squares.max() / squares.sum())
        cell = row["terms"]["income"]
        biases.append((cell["fit"][0] - cell["original"][0]) / cell["fit"][1])
    heavy, bias = np.array(shares) >= MUCH, np.array(biases)
    for name, some in (("with", bias[heavy]), ("without", bias[~heavy])):
        if len(some) > 1:
            error = some.std(ddof=1) / len(some) ** 0.5
            print(
                f"income, {len(some)} data sets {name} a record of {MUCH:.0%} of its sum of "
                f"squares: {some.mean():+.2f} ({error:.2f})"
            )


def main() -> None:
    """Run, or go on with, a study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--family", default="gaussian")
    parser.add_argument("--predictors", choices=sorted(PREDICTORS), default="cohort")
    parser.add_argument("--into", type=Path)
    parser.add_argument("--spread", action="store_true", help="of drawn true values, only")
    options = parser.parse_args()
    if options.spread:
        print_spread(options)
        return
    rows: list[Row] = []
    for seed in range(options.first, options.first + options.sets):
        design = [options.predictors, options.family, options.k, options.records, options.draws]
        name = "-".join(map(str, [*design, seed])) + ".json"
        path = options.into / name if options.into else None
        if path and path.is_file():
            rows.append(json.loads(path.read_text(encoding="utf-8")))
            continue
        rows.append(study_set(options, seed))
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(rows[-1]), encoding="utf-8")
    print_table(rows)
    print_by_leverage(rows, options.records, options.predictors)


if __name__ == "__main__":
    main()
