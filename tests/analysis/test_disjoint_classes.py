"""Classes that were cut apart: what is listed is true of the original, and draws keep to it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.analysis.formula import read_model_formula
from sfumato.analysis.problem import GeneralisedNumber, Partition, Problem, Term
from sfumato.analysis.release_input import read_release_input
from sfumato.analysis.samplers.metropolis.disjoint import DisjointClasses
from sfumato.analysis.tight_ranges import bound_grid_steps
from sfumato.analysis.variables import ModelVariables, prepare_variables
from sfumato.cells.grids import NumberGrid
from sfumato.kernels.arrays import Floats

KEY = sf.Key(bytes(range(32)))
COLUMNS = {
    "person": sf.Column(role="other", kind="integer"),
    "size": sf.Column(role="quasi", kind="integer"),
    "height": sf.Column(role="quasi", kind="continuous"),
    "income": sf.Column(role="quasi", kind="integer"),
    "area": sf.Column(role="quasi", kind="nominal"),
    "grade": sf.Column(role="quasi", kind="ordinal", domain=("low", "middle", "high")),
    "born": sf.Column(role="quasi", kind="date"),
    "y": sf.Column(role="sensitive", kind="continuous"),
}


def simulate(records: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    height = np.round(rng.normal(170, 9, records), 1)
    days = rng.integers(0, 20_000, records)
    return pl.DataFrame(
        {
            "person": np.arange(records),
            "size": 1 + rng.poisson(1.6, records),
            "height": height,
            "income": np.round(np.exp(rng.normal(10, 0.6, records))).astype(int),
            "area": rng.choice(["east", "north", "west"], records, p=[0.5, 0.3, 0.2]),
            "grade": rng.choice(["low", "middle", "high"], records),
            "born": pl.Series(days.astype(np.int32)).cast(pl.Date),
            "y": 0.1 * (height - 170) + rng.normal(size=records),
        }
    )


def protect(frame: pl.DataFrame, *steps: sf.Method) -> sf.Release:
    data = sf.Dataset(frame, sf.Schema(COLUMNS))
    return sf.protect(data, sf.Plan(schema=data.schema, steps=list(steps)), key=KEY)


def read_variables(release: Any, formula: str) -> ModelVariables:
    parsed = read_model_formula(formula)
    given_input = read_release_input(release, None, parsed.variables)
    return prepare_variables(given_input, parsed, {}, None)


def build(variables: ModelVariables, names: list[str]) -> DisjointClasses:
    numbers = tuple(variables.numbers[name] for name in names)
    problem = Problem(
        family="gaussian",
        link="identity",
        y=np.zeros(len(variables.released)),
        numbers=numbers,
        terms=(Term(name="1"),),
        covariates=np.ones((len(variables.released), 1)),
        partition=variables.partition,
    )
    assert variables.partition is not None
    return DisjointClasses(problem, variables.partition)


def read_true_values(variables: ModelVariables, names: list[str], frame: pl.DataFrame) -> Any:
    """(record, number) the original's values, on the scale of the latent ones."""
    # The model has an order of its own, which `person` undoes.
    person = variables.released["person"].to_numpy()
    columns = []
    for name in names:
        values = frame[name].to_physical().cast(pl.Float64).to_numpy()[person]
        scale = variables.numbers[name].scale
        columns.append(values if scale is None else scale.forth(values))
    return np.column_stack(columns)


METHODS: dict[str, Any] = {
    "k_anonymity": sf.methods.KAnonymity,
    "l_diversity": sf.methods.LDiversity,
    "t_closeness": sf.methods.TCloseness,
}
OPTIONS: dict[str, Any] = {"k_anonymity": {}, "l_diversity": {"l": 2}, "t_closeness": {"t": 0.5}}
STEPS = [
    ("k_anonymity", ["height", "income", "size", "area"]),
    ("k_anonymity", ["height", "born", "grade"]),
    ("l_diversity", ["height", "income"]),
    ("t_closeness", ["height", "income", "size"]),
]


def list_cells(variables: ModelVariables, names: list[str]) -> list[GeneralisedNumber]:
    numbers = [variables.numbers[name] for name in names]
    return [number for number in numbers if isinstance(number, GeneralisedNumber)]


@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    step=st.sampled_from(STEPS),
    k=st.sampled_from([3, 5, 8]),
    partial=st.booleans(),
    gaps=st.booleans(),
)
def test_true_values_are_apart_wherever_classes_are_listed_as_neighbours(
    seed, step, k, partial, gaps
):
    method, quasi = step
    frame = simulate(150, seed)
    if gaps:
        rare = np.random.default_rng(seed).uniform(size=150) < 0.1
        frame = frame.with_columns(height=pl.when(~pl.Series(rare)).then(pl.col("height")))
    release = protect(frame, METHODS[method](variables=quasi, k=k, **OPTIONS[method]))
    schema = release.dataset.schema
    # A variable that is not in the model may be what keeps two classes apart.
    used = quasi[:1] if partial else quasi
    names = [n for n in used if n in ("height", "income", "size", "born") and schema[n].generalised]
    variables = read_variables(release, f"y ~ person + {' + '.join(used)}")
    if variables.partition is None:
        return
    disjoint = build(variables, names)
    assert not disjoint.find_overlaps(read_true_values(variables, names, frame)).any()
    numbers = list_cells(variables, names)
    middles = np.column_stack([np.clip(0.0, x.lower, x.upper) for x in numbers])
    disjoint.arrange(middles, np.random.default_rng(seed))
    assert disjoint.find_overlaps(middles).mean() < 0.05


def test_neighbours_are_found_and_first_values_are_apart_within_cells():
    frame = simulate(400, 3)
    names = ["height", "income", "size"]
    release = protect(frame, sf.methods.KAnonymity(variables=[*names, "area"], k=8))
    variables = read_variables(release, "y ~ person + height + income + size + area")
    disjoint = build(variables, names)
    assert len(disjoint.neighbours) > 20
    truth = read_true_values(variables, names, frame)
    assert not disjoint.find_overlaps(truth).any()
    numbers = list_cells(variables, names)
    rng = np.random.default_rng(1)
    drawn: list[Floats] = [rng.uniform(number.lower, number.upper) for number in numbers]
    evenly = np.column_stack(drawn)
    # Where ranges overlap, evenly spread values do too.
    assert disjoint.find_overlaps(evenly).any()
    disjoint.arrange(evenly, rng)
    assert not disjoint.find_overlaps(evenly).any()
    for column, number in zip(evenly.T, numbers, strict=True):
        assert ((column >= number.lower) & (column <= number.upper)).all()
        assert number.classes is not None
        assert number.near_lower is not None
        assert number.near_upper is not None
        for label in np.unique(number.classes[number.classes >= 0]):
            members = number.classes == label
            assert (column[members] <= number.near_lower[members]).any()
            assert (column[members] >= number.near_upper[members]).any()


@pytest.mark.parametrize(
    "step",
    [
        sf.methods.KAnonymity(variables=["height", "income"], k=5, clustering="mdav"),
        sf.methods.KAnonymity(variables=["height", "income"], k=5, clustering="origin"),
        sf.methods.KAnonymity(variables=["height", "income"], k=5, strata=["area"]),
        sf.methods.KAnonymity(
            variables=["height", "income"], k=5, output={"income": "mean", "height": "range"}
        ),
        sf.methods.TCloseness(variables=["height", "income"], k=5, clustering="spread"),
    ],
)
def test_nothing_is_assumed_of_clusters_that_were_not_cut_apart(step):
    release = protect(simulate(200, 5), step)
    assert read_variables(release, "y ~ person + height").partition is None


def test_a_folder_says_what_a_release_does_and_a_frame_nothing(tmp_path):
    release = protect(simulate(200, 6), sf.methods.KAnonymity(variables=["height", "income"], k=5))
    release.write(tmp_path / "release")
    formula = "y ~ person + height + income"
    expected, folder = (read_variables(x, formula) for x in (release, tmp_path / "release"))
    assert expected.partition is not None
    assert folder.partition is not None
    assert folder.partition.neighbours.tolist() == expected.partition.neighbours.tolist()
    assert read_variables(release.dataset, formula).partition is None


def test_draws_that_keep_classes_apart_are_those_of_rejection():
    """Two classes of two records in two variables, against throwing away what overlaps."""
    rng = np.random.default_rng(2)
    copies = 500
    low, high = np.tile([0.0, 0.0, 2.0, 2.0], copies), np.tile([6.0, 6.0, 8.0, 8.0], copies)
    classes = np.repeat(np.arange(2 * copies), 2)
    pairs = np.arange(2 * copies).reshape(-1, 2)
    for whole in (False, True):
        shift = 0.5 if whole else 0.0
        number = GeneralisedNumber(
            name="x", observed=low, lower=low - shift, upper=high + shift, whole=whole
        )
        other = GeneralisedNumber(name="z", observed=low, lower=low, upper=high)
        partition = Partition(variables=("x", "z"), classes=classes, neighbours=pairs)
        problem = Problem(
            family="gaussian",
            link="identity",
            y=low,
            numbers=(number, other),
            terms=(Term(name="1"),),
            covariates=np.ones((len(low), 1)),
        )
        disjoint = DisjointClasses(problem, partition)
        corners = np.column_stack([number.lower, low]), np.column_stack([number.upper, high])
        latent = rng.uniform(*corners)
        disjoint.arrange(latent, rng)
        assert not disjoint.find_overlaps(latent).any()
        drawn = []
        for sweep in range(60):
            for index, cells in enumerate((number, other)):
                ends = disjoint.restrict(index, latent, rng)
                assert ends is not None
                bottom = np.maximum(cells.lower, ends.lower)
                latent[:, index] = rng.uniform(bottom, np.minimum(cells.upper, ends.upper))
            assert not disjoint.find_overlaps(latent).any()
            if sweep >= 10:
                drawn.append(latent.reshape(copies, 4, 2).copy())
        found = np.concatenate(drawn)
        expected = rng.uniform(corners[0][:4], corners[1][:4], size=(400_000, 4, 2))
        seen = expected.copy()
        seen[:, :, 0] = np.rint(seen[:, :, 0]) if whole else seen[:, :, 0]
        first, second = seen[:, :2], seen[:, 2:]
        apart = (first.max(axis=1) < second.min(axis=1)) | (second.max(axis=1) < first.min(axis=1))
        expected = expected[apart.any(axis=1)]
        assert found.mean(axis=0) == pytest.approx(expected.mean(axis=0), abs=0.06)
        assert found.std(axis=0) == pytest.approx(expected.std(axis=0), abs=0.06)
        # Which variable keeps them apart may change from draw to draw.
        in_x = (found[:, :2, 0].max(axis=1) < found[:, 2:, 0].min(axis=1)).mean()
        in_x_expected = (expected[:, :2, 0].max(axis=1) < expected[:, 2:, 0].min(axis=1)).mean()
        assert in_x == pytest.approx(in_x_expected, abs=0.03)


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_the_nearest_value_is_bounded_as_closely_as_the_grid_allows(parts):
    """Against all pairs of a least and a greatest value that give a range."""
    least, most = np.meshgrid(np.arange(70), np.arange(70))
    least, most = least[least < most], most[least < most]
    low, high = (np.array(ends) for ends in NumberGrid(Decimal(1), True).widen(least, most, parts))
    ranges, of_pair = np.unique(np.column_stack([low, high]), axis=0, return_inverse=True)
    farthest = np.zeros(len(ranges))
    np.maximum.at(farthest, of_pair.ravel(), np.maximum(least - low, high - most) + 1)
    ends = ranges.astype(float)
    steps = bound_grid_steps(ends[:, 0], ends[:, 1], "number", whole=True, parts=parts, limits=None)
    assert steps.tolist() == farthest.tolist()


def test_the_manifest_takes_away_what_overlap_adds_to_a_coefficient():
    frame = simulate(400, 9)
    release = protect(frame, sf.methods.KAnonymity(variables=["height", "income", "size"], k=20))
    options: dict[str, Any] = {"draws": 80, "chains": 1, "shape": "normal"}
    formula = "y ~ height + income + size"
    cut_apart, overlapping = (
        sf.fit(formula, given, **options).summary().loc["height", "mean"]
        for given in (release, release.dataset)
    )
    height = frame["height"].to_numpy()
    original = np.polyfit(height, frame["y"].to_numpy(), 1)[0]
    assert cut_apart == pytest.approx(original, rel=0.1)
    assert overlapping > 1.5 * original
