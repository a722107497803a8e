"""What do two manifests tell, of n records and of n - 1?

The claim (SECURITY.md): "the manifest, the public report and the data of figures tell nothing of a
person by the difference between two of them, with and without that person, beyond what the two
released files show".

The attacker has both public manifests, knows every parameter of the plan, and knows who was left
out. The comparison goes through every method of the catalogue with every example of its contract,
so that a method of another package is asked the same question. Whatever differs must be on the
list below, with the reason why it may. What may differ now and then is attacked on its own.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

import numpy as np
import polars as pl
import pytest
from pydantic import Field

import sfumato as sf
from sfumato import catalogue
from sfumato.cells.notation import format_value
from sfumato.method import Fitted, RowWise
from sfumato.parameters import parameters
from sfumato.plan import Writing
from sfumato.randomness import Draws
from sfumato.report import describe_codebook, render_codebook, render_report
from sfumato.run.lights import list_public
from sfumato.run.measuring import take_measures
from sfumato.schema import ROLES

KEY = bytes(range(32))
RECORDS = 240
EXTREME = (1, 2)
"""The person who is extreme in everything, and the one who has a level alone."""
CASES = [
    pytest.param(name, example, id=f"{name}-{position}")
    for name, method in catalogue.methods().items()
    for position, example in enumerate(method.examples)
]


# The comparison ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allowed:
    """A published value that may differ between n and n - 1 records, and why."""

    path: str
    reason: str
    shown_by: Callable[[sf.Release, Any], bool] | None = None
    """Where given: the value must follow from the released file alone, and this recomputes it."""


def is_number_of_rows(release: sf.Release, value: Any) -> bool:
    return bool(value == len(release.dataset))


def is_told_by_repeated_cells(release: sf.Release, value: Any) -> bool:
    """Whether a variable is a cluster, as repeated pseudonyms are: anybody can see them repeat."""
    columns = (release.dataset.column(name) for name in release.dataset.columns)
    return value == "other" or any(column.n_unique() < len(column) for column in columns)


def is_declared_or_in_cells(release: sf.Release, value: Any) -> bool:
    """Whether a word is the plan's, or stands in a released cell: alone, in a set or a range."""
    cells = {
        format_value(cell)
        for name in release.dataset.columns
        for cell in release.dataset.column(name).unique().drop_nulls().to_list()
    }
    words = {word for cell in cells for word in (cell, *re.split(r"[\[\]{};]", cell))}
    for column in release.plan.schema.values():
        words.update(map(format_value, column.domain or ()))
        for level, groups in (column.hierarchy or {}).items():
            words.update((level, *groups))
        words.update((column.labels or {}).values())
    return str(value).startswith("(another value") or format_value(value) in words


def is_step_of_cells(release: sf.Release, value: Any) -> bool:
    """Whether some variable's numbers are all multiples of this step: anybody can see that."""
    columns = (release.dataset.column(name) for name in release.dataset.columns)
    return any(
        column.dtype.is_numeric()
        and all(abs(x / value - round(x / value)) < 1e-6 for x in column.drop_nulls().to_list())
        for column in columns
    )


ALLOWED = (
    Allowed(r"(codebook\.)?records", "the number of rows of the released file", is_number_of_rows),
    Allowed(
        r"variables\.[^.]+\.(domain|hierarchy)\..*",
        "a word of the plan that some cell shows, or of a cell",
        is_declared_or_in_cells,
    ),
    Allowed(
        r"(codebook\.)?variables\.[^.]+\.(labels|levels)\..*",
        "the codebook's word for a value that some cell shows, or of the plan",
        is_declared_or_in_cells,
    ),
    Allowed(
        r"(codebook\.)?variables\.[^.]+\.role", "pseudonyms that repeat", is_told_by_repeated_cells
    ),
    Allowed(
        r"codebook\.variables\.[^.]+\.role_means",
        "the same in words",
        lambda release, value: value in ROLES.values() and bool(release),
    ),
    Allowed(r"codebook\.variables\.[^.]+\.noise", "in words what the manifest says of the noise"),
    Allowed(
        r"noise\.variables\.[^.]+\.steps?(\.[^.]+)?",
        "the last digit of released numbers",
        is_step_of_cells,
    ),
    Allowed(r"methods\.\d+\.joined\..*", "the name of levels in cells", is_declared_or_in_cells),
    Allowed(r"evidence\..*", "measured on the released file alone: see the test of it"),
    Allowed(
        r"noise\.variables\.[^.]+\.variance",
        "on a grid whose steps are worth twenty records: attacked below",
    ),
    Allowed(
        r"noise\.variables\.[^.]+\.(matrix|strata)\..*",
        "from counts with secret thresholds and noise: attacked below",
    ),
    Allowed(r"methods\.\d+\.k(\.\d+)?", "a small whole number chosen for all records together"),
)
MOSTLY_THE_SAME = tuple(allowed.path for allowed in ALLOWED if allowed.shown_by is None)


def list_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word of a manifest, with the way to it."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from list_leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        for position, item in enumerate(value):
            yield from list_leaves(item, f"{path}.{position}")
    else:
        yield path, value


def list_published(release: sf.Release) -> dict[str, Any]:
    """Every leaf of the manifest, and of the codebook that goes out with it."""
    codebook = describe_codebook(release.manifest)
    # By name, as in the manifest.
    codebook["variables"] = {entry["name"]: entry for entry in codebook["variables"]}
    published = {**release.manifest, "codebook": codebook}
    return dict(list_leaves(json.loads(json.dumps(published))))


def find_differences(first: sf.Release, second: sf.Release) -> dict[str, tuple[Any, Any]]:
    """What a reader of both manifests and codebooks sees to differ."""
    leaves = [list_published(release) for release in (first, second)]
    paths = sorted({*leaves[0], *leaves[1]})
    return {
        path: (leaves[0].get(path), leaves[1].get(path))
        for path in paths
        if leaves[0].get(path) != leaves[1].get(path)
    }


def require_allowed(first: sf.Release, second: sf.Release) -> set[str]:
    """Fail on a difference that is not on the list; else the paths that are only mostly equal."""
    unlike = set()
    for path, values in find_differences(first, second).items():
        bare = path.removesuffix(".length")
        rules = [
            rule
            for rule in ALLOWED
            if re.fullmatch(rule.path, path) or re.fullmatch(rule.path, f"{bare}.0")
        ]
        assert rules, f"{path} tells n from n - 1"
        for rule in rules:
            if rule.shown_by is None:
                unlike.add(rule.path)
            elif not path.endswith(".length"):
                for release, value in zip((first, second), values, strict=True):
                    assert value is None or rule.shown_by(release, value), f"{path}: {rule.reason}"
    return unlike


# The data, with somebody at each edge ------------------------------------------------------------


@cache
def cohort_frame(records: int = RECORDS) -> pl.DataFrame:
    """The cohort with a person who is extreme in everything, and a level that one person has."""
    frame = sf.datasets.cohort(records)
    return frame.with_columns(
        income=pl.when(pl.int_range(pl.len()) == 1).then(900_000).otherwise("income"),
        glucose=pl.when(pl.int_range(pl.len()) == 1).then(30.0).otherwise("glucose"),
        children=pl.when(pl.int_range(pl.len()) == 1).then(8).otherwise("children"),
        smoking=pl.when(pl.int_range(pl.len()) == 2)
        .then(pl.lit("current"))
        .otherwise(pl.col("smoking").replace("current", "never")),
    )


def strip_domains(schema: sf.Schema) -> sf.Schema:
    """The same roles and kinds, and nothing declared: what is published can only be observed."""
    return sf.Schema(
        {
            name: dataclasses.replace(column, domain=None, hierarchy=None)
            for name, column in schema.items()
        }
    )


def protect(
    frame: pl.DataFrame, step: sf.Method, schema: sf.Schema, **more: Any
) -> sf.Release | None:
    """The release of one step; None where the method refuses such data."""
    direct = [name for name in schema.having("direct") if name not in step.touches(schema)]
    drops = [sf.methods.Drop(variables=direct)] if direct else []
    plan = sf.Plan(schema=schema, steps=[*drops, step], **more)
    try:
        return sf.protect(sf.Dataset(frame, schema), plan, key=KEY)
    except sf.SfumatoError:
        return None


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "example"), CASES)
def test_two_manifests_differ_in_nothing_that_the_release_does_not_show(name, example):
    compare_manifests(catalogue.methods()[name](**example), EXTREME, declared=True)


@pytest.mark.study
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "undeclared"])
@pytest.mark.parametrize(("name", "example"), CASES)
def test_nor_for_other_persons_or_where_nothing_is_declared(name, example, declared):
    frame = cohort_frame()
    rare = frame["ethnicity"].value_counts().sort("count", "ethnicity")["ethnicity"][0]
    rows = pl.arg_where(pl.Series(frame["ethnicity"] == rare), eager=True).to_list()
    persons = [*EXTREME, *rows[:2], 5, 77, 144, 239]
    compare_manifests(catalogue.methods()[name](**example), persons, declared=declared)


def compare_manifests(step: sf.Method, persons: Sequence[int], *, declared: bool) -> None:
    frame, schema = cohort_frame(), sf.datasets.cohort_schema()
    schema = schema if declared else strip_domains(schema)
    whole = protect(frame, step, schema)
    assert whole is not None or not declared, "an example of the contract works on the cohort"
    for row in persons if whole is not None else ():
        part = protect(frame.filter(pl.int_range(pl.len()) != row), step, schema)
        # One that refuses the fewer records has no second manifest to compare.
        if part is not None and whole is not None:
            require_allowed(whole, part)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("persons", "most"), [(12, 4), pytest.param(100, 20, marks=pytest.mark.study)]
)
def test_most_persons_leave_no_trace_at_all(persons, most):
    """Fitted values stay the same for nearly everybody: a difference is rare to begin with."""
    frame = cohort_frame(400)
    steps = [
        sf.methods.Noise(variables=["systolic", "height"], variance_share=0.1),
        sf.methods.Misclassify(
            variables=["region"], retention=0.8, towards="marginal", invariant=True
        ),
        sf.methods.Deterministic(
            variables=["height"], missing="median", at_most=0.2, within=0.02, strata=["sex"]
        ),
    ]
    for step in steps if persons > 20 else steps[:2]:
        whole = protect(frame, step, sf.datasets.cohort_schema())
        assert whole is not None
        unlike = 0
        for row in range(3, 400, 400 // persons):
            part = protect(
                frame.filter(pl.int_range(pl.len()) != row), step, sf.datasets.cohort_schema()
            )
            assert part is not None
            unlike += bool(require_allowed(whole, part))
        assert unlike <= most, step.name


@parameters
class PublishesTheLargest(RowWise):
    """A method that publishes a fitted value: somebody's income."""

    name = "publishes_the_largest"
    variables: Annotated[list[str], Field(min_length=1)]

    def fit(self, data: sf.Dataset, engine: Any) -> dict[str, Any]:
        del engine
        return {name: data.column(name).max() for name in self.variables}

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        del draws
        return batch.select(pl.col(name) * 0 + value / 7 for name, value in fitted.items())

    def public(self, fitted: Fitted) -> dict[str, Any]:
        return {"method": self.name, "limits": dict(fitted)}


def test_the_comparison_finds_a_method_that_tells():
    frame = cohort_frame()
    step = PublishesTheLargest(variables=["income"])
    whole = protect(frame, step, sf.datasets.cohort_schema())
    part = protect(frame.filter(pl.int_range(pl.len()) != 1), step, sf.datasets.cohort_schema())
    assert whole is not None
    assert part is not None
    with pytest.raises(AssertionError, match="limits.income tells n from n - 1"):
        require_allowed(whole, part)


def test_a_pseudonym_that_repeats_is_no_more_in_the_manifest_than_in_the_file():
    frame = cohort_frame()
    twice = pl.concat([frame, frame[:1]])
    step = sf.methods.Pseudonymise(variables=["person_id"])
    # Who releases an identifier that repeats must say that its rows are different people.
    schema = sf.datasets.cohort_schema()
    denied = schema.changed(schema.having("direct"), identity=False)
    releases = [protect(some, step, denied) for some in (twice, frame)]
    first, second = releases
    assert first is not None
    assert second is not None
    assert not require_allowed(first, second)
    assert "variables.person_id.role" in find_differences(first, second)


def test_what_is_said_of_attacks_tells_nobody():
    """Colours and rates may differ without a person; what is published of attacks does not."""
    frame = cohort_frame().select("person_id", "sex", "height", "smoking", "survey_weight")
    schema = sf.datasets.cohort_schema()
    schema = sf.Schema({name: schema[name] for name in frame.columns})
    plan = sf.Plan(
        schema=schema,
        steps=[sf.methods.Drop(), sf.methods.Weights(levels=3), sf.methods.KAnonymity(k=10)],
        release=Writing(attack_seconds=60),
    )
    shares, public = set(), []
    for row in (-1, *EXTREME, 77):
        some = frame.filter(pl.int_range(pl.len()) != row)
        release = sf.protect(sf.Dataset(some, schema), plan, key=KEY)
        public.append(list_public(release.plan, release.attacks))
        shares.add(release.attacks["mixed_linkage"].at_worst)
    assert len(shares) > 1
    assert all(facts == public[0] for facts in public)


# Exchanged categories ----------------------------------------------------------------------------

LEVELS = ("asthma", "diabetes", "hiv")


def release_categories(values: Sequence[str], **settings: Any) -> sf.Release:
    ids = [f"p{number}" for number in range(len(values))]
    column = sf.Column(role="sensitive", kind="nominal", domain=LEVELS)
    schema = sf.Schema({"id": "direct", "x": column})
    step = sf.methods.Misclassify(variables=["x"], retention=0.8, **settings)
    plan = sf.Plan(schema=schema, steps=[sf.methods.Drop(variables=["id"]), step])
    return sf.protect(sf.Dataset(pl.DataFrame({"id": ids, "x": values}), schema), plan, key=KEY)


def solve_for_shares(manifest: Mapping[str, Any]) -> np.ndarray:
    """The frequencies behind a matrix: an invariant one is in detailed balance with them."""
    matrix = np.array(manifest["noise"]["variables"]["x"]["matrix"])
    ratios = matrix[0] / matrix[:, 0]
    ratios[0] = 1.0
    shares: np.ndarray = ratios / ratios.sum()
    return shares


@pytest.mark.parametrize("towards", ["equal", "marginal"])
def test_the_category_of_an_added_person_is_not_told_by_two_matrices(towards):
    """On exact shares, 60 of 60 manifests differed and 60 of 60 categories were recovered."""
    random = np.random.default_rng(17)
    recovered, same = 0, 0
    for _ in range(60):
        values = random.choice(LEVELS, size=400).tolist()
        with_them, without = (
            release_categories(some, towards=towards, invariant=True).manifest
            for some in (values, values[:-1])
        )
        gain = solve_for_shares(with_them) - solve_for_shares(without)
        same += not gain.any()
        # The best guess where nothing differs is any of the three.
        guess = LEVELS[int(np.argmax(gain))] if gain.any() else str(random.choice(LEVELS))
        recovered += guess == values[-1]
    assert same >= 48
    # A guess is right in 20 of 60, with a standard deviation of 3.7.
    assert recovered <= 31


def test_the_counts_of_the_original_cannot_be_read_off_the_matrix():
    """Each published count is off by a few steps of ten records, in either direction."""
    errors = []
    for seed in range(20):
        counts = np.random.default_rng(seed).integers(20, 400, size=3)
        values = np.repeat(LEVELS, counts).tolist()
        shares = solve_for_shares(release_categories(values, invariant=True).manifest)
        errors += (shares * counts.sum() - counts).round(6).tolist()
    assert np.mean(np.abs(errors) < 1) < 0.2
    assert 5 < np.std(errors) < 40


def test_where_two_matrices_differ_the_change_names_no_category():
    """All levels get new noise when one count passes its threshold, so the rise misleads."""
    random = np.random.default_rng(3)
    right, changed = 0, 0
    values = np.repeat(LEVELS, 300).tolist()
    before = release_categories(values, invariant=True).manifest
    for more in range(1, 61):
        level = str(random.choice(LEVELS))
        after = release_categories([*values, level], invariant=True).manifest
        gain = solve_for_shares(after) - solve_for_shares(before)
        if gain.any():
            changed += 1
            right += LEVELS[int(np.argmax(gain))] == level
        values, before = [*values, level], after
        assert len(values) == 900 + more
    assert changed <= 20
    # One third by guessing; without the noise it is every time.
    assert right <= 0.8 * changed + 1


def test_a_level_that_only_a_few_have_is_declared_or_not_published():
    values = ["asthma"] * 60 + ["diabetes"] * 60 + ["kuru"]
    schema = sf.Schema({"x": sf.Column(role="sensitive", kind="nominal")})
    for step in (
        sf.methods.Misclassify(variables=["x"], retention=0.8),
        sf.methods.NoisyCodes(variables=["x"], variance=0.5),
    ):
        data = sf.Dataset(pl.DataFrame({"x": values}), schema)
        with pytest.raises(sf.SfumatoError, match="declare all levels") as refusal:
            sf.protect(data, sf.Plan(schema=schema, steps=[step]), key=KEY)
        assert "kuru" not in str(refusal.value)
        without = sf.Dataset(pl.DataFrame({"x": values[:-1]}), schema)
        manifest = sf.protect(without, sf.Plan(schema=schema, steps=[step]), key=KEY).manifest
        assert manifest["noise"]["variables"]["x"]["levels"] == ["asthma", "diabetes"]


# Sizes of noise ----------------------------------------------------------------------------------


def release_numbers(values: np.ndarray, **settings: Any) -> sf.Release:
    ids = [f"p{number}" for number in range(len(values))]
    schema = sf.Schema({"id": "direct", "x": sf.Column(role="quasi", kind="continuous")})
    step = sf.methods.Noise(variables=["x"], variance_share=0.1, **settings)
    plan = sf.Plan(schema=schema, steps=[sf.methods.Drop(variables=["id"]), step])
    return sf.protect(sf.Dataset(pl.DataFrame({"id": ids, "x": values}), schema), plan, key=KEY)


@pytest.mark.parametrize("records", [50, 500])
def test_two_variances_do_not_solve_for_the_value_of_a_person(records):
    """The attacker knows the share and the mean without the person, and solves for the distance."""
    random = np.random.default_rng(records)
    hits, guesses = 0, 0
    for _ in range(30):
        values = random.normal(size=records)
        sizes = [
            release_numbers(some).manifest["noise"]["variables"]["x"]["variance"] / 0.1
            for some in (values, values[:-1])
        ]
        mean, true = values[:-1].mean(), values[-1]
        # Var(n) (n - 1) = Var(n - 1) (n - 2) + (x - mean)^2 (n - 1) / n
        squared = (sizes[0] * (records - 1) - sizes[1] * (records - 2)) * records / (records - 1)
        distance = math.sqrt(max(squared, 0.0))
        hits += min(abs(mean + distance - true), abs(mean - distance - true)) < 0.1
        # Without any manifest: half of all lie about 0.67 standard deviations from the mean.
        guesses += min(abs(mean + 0.67 - true), abs(mean - 0.67 - true)) < 0.1
    assert hits <= guesses + 5


def test_an_outlier_is_told_by_two_variances_no_better_than_by_the_released_value():
    """Nothing hides how large the largest is, but the manifest must not tell it more exactly."""
    random = np.random.default_rng(9)
    by_manifest, by_value = [], []
    for true in np.linspace(15, 60, 15):
        values = np.append(random.normal(size=400), true)
        with_them, without = release_numbers(values), release_numbers(values[:-1])
        sizes = [
            release.manifest["noise"]["variables"]["x"]["variance"] / 0.1
            for release in (with_them, without)
        ]
        squared = (sizes[0] * 400 - sizes[1] * 399) * 401 / 400
        by_manifest.append(abs(values[:-1].mean() + math.sqrt(max(squared, 0.0)) - true))
        by_value.append(abs(float(with_them.dataset.column("x")[-1]) - true))
    assert np.median(by_manifest) > np.median(by_value)


def test_means_and_covariances_of_correlated_noise_are_for_accredited_analysts():
    frame, schema = cohort_frame(), sf.datasets.cohort_schema()
    for strata in ([], ["sex"]):
        step = sf.methods.CorrelatedNoise(
            variables=["height", "weight_kg"], noise_share=0.2, strata=strata, partly=True
        )
        releases = [
            protect(some, step, schema)
            for some in (frame, frame.filter(pl.int_range(pl.len()) != 1))
        ]
        assert releases[0] is not None
        assert releases[1] is not None
        noise = [release.manifest["noise"] for release in releases]  # type: ignore[union-attr]
        assert noise[0] == noise[1]
        told = noise[0]["variables"]["height"]
        assert not {"mean", "covariance", "strata"} & set(told)
        full = releases[0].accredited
        assert full is not None
        assert {"covariance", "strata"} & set(full["noise"]["variables"]["height"])


# What was measured -------------------------------------------------------------------------------


def test_public_evidence_follows_from_the_released_file_alone():
    """Whoever has the file can measure it too: nothing in it needs the original."""
    frame, schema = cohort_frame(), sf.datasets.cohort_schema()
    measures = {
        name: measure() for name, measure in catalogue.measures().items() if measure.of == "one"
    }
    step = sf.methods.KAnonymity(variables=["birth_date", "sex", "household_size"], k=5)
    release = protect(frame, step, schema, evaluate=measures)
    assert release is not None
    published = release.manifest["evidence"]
    assert published
    bare = dataclasses.replace(release.dataset, given_identity=None)
    again = take_measures({name: measures[name] for name in published}, None, bare)
    for name, evidence in again.items():
        assert json.dumps(published[name]) == json.dumps(evidence.public().plain()), name


def test_a_target_on_a_comparison_with_the_original_is_met_without_its_number(tmp_path):
    """A bias to six digits, beside the release, would be the original's own coefficient."""
    frame, schema = cohort_frame(), sf.datasets.cohort_schema()
    step = sf.methods.Noise(variables=["systolic", "height"], variance_share=0.1)
    more = {
        "targets": {"uniqueness.max": 0.5, "moments.max": 1000.0},
        "evaluate": {"uniqueness": sf.risk.Uniqueness(known=["sex"])},
    }
    release = protect(frame, step, schema, **more)
    assert release is not None
    folder = release.write(tmp_path / "out")
    manifest = json.loads((folder / "manifest.json").read_text())
    by_name = {target["target"]: target for target in manifest["targets"]}
    measured = {target["target"]: target for target in release.custody["targets"]}
    assert by_name["uniqueness"]["value"] == measured["uniqueness"]["value"]
    assert by_name["moments"]["value"] is None
    assert by_name["moments"]["withheld"]
    assert by_name["moments"]["met"]
    number = measured["moments"]["value"]
    assert isinstance(number, float)
    report = (folder / "report.html").read_text()
    assert "kept inside" in report
    for digits in (4, 6, 17):
        assert f"{number:.{digits}g}" not in report
    inside = (folder / "custody" / "report.html").read_text()
    assert f"{number:.6g}" in inside
    part = protect(frame.filter(pl.int_range(pl.len()) != 1), step, schema, **more)
    assert part is not None
    differing = [path for path in find_differences(release, part) if path.startswith("targets")]
    # That of uniqueness is measured on the released file.
    assert differing in ([], ["targets.0.value"])


def test_the_public_report_is_made_of_the_manifest_alone():
    """So what holds for the manifest holds for the report, and the two cannot part."""
    frame, schema = cohort_frame(), sf.datasets.cohort_schema()
    step = sf.methods.Misclassify(variables=["region"], retention=0.8, towards="marginal")
    release = protect(frame, step, schema, release=Writing(noise="all"))
    assert release is not None
    manifest = json.loads(json.dumps(release.manifest))
    assert render_report(manifest) == render_report(release.manifest)
    assert render_codebook(manifest) == render_codebook(release.manifest)


def test_labels_name_only_what_a_cell_shows():
    """A label of a code that one person had is gone with that person."""
    codes = {"a": "asthma", "b": "bronchitis", "k": "kuru", "-9": "refused"}
    column = sf.Column(role="quasi", kind="text", labels=codes, missing=("-9",))
    schema = sf.Schema({"id": "direct", "x": column})
    values = [*"aaaabbbb", "k"]
    told = []
    for some in (values, values[:-1]):
        frame = pl.DataFrame({"id": [f"p{row}" for row in range(len(some))], "x": some})
        plan = sf.Plan(schema=schema, steps=[sf.methods.Drop(variables=["id"])])
        release = sf.protect(sf.Dataset(frame, schema), plan, key=KEY)
        told.append(release.manifest["variables"]["x"]["labels"])
        assert ("kuru" in render_codebook(release.manifest)) == ("k" in some)
    assert told == [codes, {code: text for code, text in codes.items() if code != "k"}]


# Figures -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A public figure as somebody asks for it."""

    kind: str
    variables: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.parametrize("protection", ["deterministic", "noise"])
@pytest.mark.parametrize(
    "figure",
    [Figure("histogram", {"x": "glucose"}), Figure("scatter", {"x": "height", "y": "weight_kg"})],
    ids=lambda figure: figure.kind,
)
def test_what_stands_beside_a_figure_is_the_same_with_and_without_a_person(figure, protection):
    """Title, caption and rule hold no fitted value. What is drawn, the log compares."""
    import matplotlib.pyplot as plt

    frame, schema = cohort_frame(), sf.datasets.cohort_schema()
    plots = []
    for some in (frame, frame.filter(pl.int_range(pl.len()) != 77)):
        draw = getattr(sf.plots, figure.kind)
        data = sf.Dataset(some, schema)
        try:
            plots.append(draw(data, **figure.variables, protection=protection, key=KEY))
        except sf.SfumatoError:
            pytest.skip("not drawn with this protection")
        finally:
            plt.close("all")
    first, second = plots
    assert dict(first.rule) == dict(second.rule)
    assert (first.title, first.caption) == (second.title, second.caption)
