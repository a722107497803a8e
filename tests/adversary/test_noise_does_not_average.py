"""Can somebody who has several releases under one key average the noise away?

The claim (SECURITY.md): "Under one key, releases of the same values with noise of several sizes
tell no more of a value than the one with the smallest noise, but for at most 1/129 of its
variance."

The attacker has all releases, knows which rows belong together and how large each noise is, and is
even given the true values to find the best weights with. What somebody may change between two
releases to get a fresh draw is tried one by one: then the noise must be the very same.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.command_line import Done, sfumato

import sfumato as sf
from sfumato.engines import Chance, engine_for
from sfumato.errors import ReleaseError
from sfumato.methods.noise import Noise
from sfumato.plan import Writing
from sfumato.randomness import Key

KEY = bytes(range(32))
RECORDS = 4000
CELL = 128 / 129
"""What several sizes may leave of the smallest variance: they may share a cell of the path."""


def people(records: int = RECORDS) -> pl.DataFrame:
    random = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "id": np.arange(1, records + 1) * 7,
            "email": [f"person{number}@example.org" for number in range(records)],
            "bmi": random.normal(25, 4, records).round(2),
            "age": random.integers(18, 80, records),
            "sex": random.choice(["f", "m"], records),
        }
    )


ROLES: dict[str, Any] = {
    "id": "direct",
    "email": "direct",
    "bmi": "quasi",
    "age": "other",
    "sex": "other",
}


def dataset(frame: pl.DataFrame, **roles: Any) -> sf.Dataset:
    return sf.Dataset(frame, sf.Schema({**ROLES, **roles}))


def release(data: sf.Dataset, **size: Any) -> np.ndarray:
    noised: sf.Dataset = Noise(variables=["bmi"], **size).apply(data, key=KEY)
    return noised.column("bmi").cast(pl.Float64).to_numpy()


def combine(releases: Sequence[np.ndarray], truth: np.ndarray) -> float:
    """The error variance of the best weighted mean, with weights found by means of the truth."""
    errors = np.stack(releases) - truth
    covariance = errors @ errors.T / len(truth)
    # Minimise w' C w where the weights add up to 1; nearly equal releases make C nearly singular.
    changes = covariance[1:, 1:] - covariance[:1, 1:] - covariance[1:, :1] + covariance[0, 0]
    towards = covariance[0, 0] - covariance[0, 1:]
    weights = np.linalg.lstsq(changes, towards, rcond=1e-12)[0]
    return float(covariance[0, 0] - towards @ weights)


# Sizes -------------------------------------------------------------------------------------------


def test_ten_sizes_close_to_each_other_are_worth_one() -> None:
    frame = people()
    data, truth = dataset(frame), frame["bmi"].to_numpy()
    shares = [0.2 + number / 1000 for number in range(10)]
    releases = [release(data, variance_share=share) for share in shares]
    alone = float(np.mean((releases[0] - truth) ** 2))
    assert alone == pytest.approx(0.2 * truth.var(), rel=0.1)
    plain_average = float(np.mean((np.mean(releases, axis=0) - truth) ** 2))
    assert plain_average > alone
    # Nine weights that were fitted to the truth find nine in 4000 by chance.
    chance = 1 - 5 * 9 / RECORDS
    assert combine(releases, truth) > alone * CELL * chance


@pytest.mark.parametrize(
    "variances",
    [
        (1.0, 1.0 + 1e-9, 1.0 + 1e-6, 1.001, 1.002, 1.005),
        (0.999999, 1.0, 1.000001, 3.0, 3.9999999, 4.0),
        (2.0**-32, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e9, 2.0**32, 2.0**33),
        (1e-3, 16.0, 1e30),
        tuple(np.geomspace(0.5, 500, 12)),
    ],
    ids=["one cell", "across cells", "across blocks", "far apart", "many"],
)
def test_no_choice_of_sizes_beats_the_smallest(variances: tuple[float, ...]) -> None:
    from sfumato.randomness import Draws, Key, encrypt

    ids = encrypt(np.arange(2 * RECORDS, dtype=np.uint64).reshape(-1, 2), bytes(32))
    draws, x = Draws(Key(KEY), 0, ids), np.zeros(RECORDS)
    releases = [draws.path("x", "as it is", x, variance) for variance in variances]
    # In units of each size, so that the weights can be found; the truth is 0.
    alone = float(np.mean(releases[0] ** 2))
    errors = np.stack(releases)
    steps = np.diff(errors, axis=0)
    steps = steps / np.sqrt(np.mean(steps**2, axis=1, keepdims=True))
    weights = np.linalg.lstsq(steps.T, errors[0], rcond=1e-10)[0]
    left = float(np.mean((errors[0] - weights @ steps) ** 2))
    assert left > alone * CELL * (1 - 5 * len(variances) / RECORDS)


sizes = st.one_of(
    st.floats(0.05, 50).map(lambda size: {"variance": size}),
    st.floats(0.01, 1).map(lambda size: {"variance_share": size}),
    st.floats(0.1, 1).map(lambda size: {"sd_share": size}),
)
settled: dict[str, Any] = {"bounds": "ignore", "at_least": -1e6}


@given(st.lists(sizes, min_size=2, max_size=5), st.sampled_from([None, "log", "square_root"]))
@settings(max_examples=15)
def test_whatever_is_not_refused_is_worth_one(chosen: list[dict[str, Any]], scale: Any) -> None:
    """Random sizes in every unit: one path, so nothing is refused, and nothing is gained."""
    frame = people(1500)
    data, truth = dataset(frame), frame["bmi"].to_numpy()
    if scale:
        chosen = [{name: size / 50 for name, size in each.items()} for each in chosen]
    methods = [Noise(variables=["bmi"], scale=scale, **settled, **size) for size in chosen]
    fitted = [method.fit(data, engine_for(data.frame)) for method in methods]
    paths = [method.follows(fit) for method, fit in zip(methods, fitted, strict=True)]
    assert all(path == paths[0] for path in paths)
    forth: Any = {None: lambda x: x, "log": np.log, "square_root": lambda x: np.sqrt(np.abs(x))}
    errors = sorted(
        (
            forth[scale](method.apply(data, key=KEY).column("bmi").to_numpy()) - forth[scale](truth)
            for method in methods
        ),
        key=lambda error: float(np.mean(error**2)),
    )
    smallest = float(np.mean(errors[0] ** 2))
    assert combine(errors, np.zeros(1500)) > smallest * CELL * (1 - 8 * len(chosen) / 1500)


def test_two_sizes_do_not_solve_for_the_value() -> None:
    """One draw scaled twice would: three times the smaller less twice the larger is the value."""
    frame = people()
    data, truth = dataset(frame), frame["bmi"].to_numpy()
    small, large = release(data, variance=4.0), release(data, variance=9.0)
    assert np.mean((3 * small - 2 * large - truth) ** 2) > 4
    assert abs(np.corrcoef(small - truth, large - small)[0, 1]) < 4 / math.sqrt(RECORDS)


def test_a_uniform_exchange_of_levels_is_followed_by_another() -> None:
    """Guessing the true level from both releases is right as often as from the better one."""
    frame = people().with_columns(x=pl.Series(np.random.default_rng(3).choice([*"abcd"], RECORDS)))
    schema = {**ROLES, "x": sf.Column(role="other", kind="nominal", domain=(*"abcd",))}
    data = sf.Dataset(frame, sf.Schema(schema))
    first, second = (
        sf.methods.Misclassify(variables=["x"], retention=retention)
        .apply(data, key=KEY)
        .frame["x"]
        .to_numpy()
        for retention in (0.7, 0.6)
    )
    truth = frame["x"].to_numpy()
    alone = float(np.mean(first == truth))
    # The best rule there is for these people: for each pair of released levels the commonest truth.
    right = 0
    for one, other in itertools.product("abcd", repeat=2):
        _, counts = np.unique(truth[(first == one) & (second == other)], return_counts=True)
        right += int(counts.max(initial=0))
    assert alone == pytest.approx(0.7, abs=0.03)
    assert right / RECORDS < alone + 0.02
    # A second level that differs does not say that the first one was true.
    differ = first != second
    assert np.mean(first[differ] == truth[differ]) == pytest.approx(alone, abs=0.08)


def test_shares_of_one_covariance_are_worth_one() -> None:
    random = np.random.default_rng(5)
    a = random.normal(50, 10, RECORDS)
    frame = pl.DataFrame({"id": np.arange(RECORDS), "a": a, "b": a + random.normal(0, 5, RECORDS)})
    data = sf.Dataset(frame, sf.Schema({"id": "direct", "a": "quasi", "b": "quasi"}))
    unbiased = []
    for share in (0.3, 0.31, 0.4, 0.5):
        noise = sf.methods.CorrelatedNoise(variables=["a", "b"], noise_share=share)
        weight = math.sqrt(1 - share)
        noised = noise.apply(data, key=KEY).column("a").to_numpy()
        unbiased.append((noised - (1 - weight) * a.mean()) / weight)
    alone = float(np.mean((unbiased[0] - a) ** 2))
    assert combine(unbiased, a) > alone * CELL * (1 - 5 * 4 / RECORDS)


# Shapes ------------------------------------------------------------------------------------------


def test_normal_and_laplace_noise_share_the_path() -> None:
    """They cannot be nested, so a release refuses the second. What both tell is bounded still.

    Laplace noise is the path at an exponential time E: whoever knew E would have the smaller of
    both, v min(1, E), on average 1 - 1/e of the variance.
    """
    frame = people(20_000)
    data, truth = dataset(frame), frame["bmi"].to_numpy()
    both = [release(data, variance=4.0, distribution=shape) for shape in ("gaussian", "laplace")]
    alone = min(float(np.mean((values - truth) ** 2)) for values in both)
    assert combine(both, truth) > alone * (1 - math.exp(-1))
    average = float(np.mean((np.mean(both, axis=0) - truth) ** 2))
    assert average / 4 == pytest.approx((1 + 1 - math.exp(-1)) / 2, abs=0.04)  # 0.82
    # The best use of both: how likely the Laplace noise came first, by how far they are apart.
    apart = (both[1] - both[0]) / 2
    first = guess_that_laplace_came_first(np.abs(apart))
    best = float(np.mean((both[0] + 2 * first * apart - truth) ** 2))
    assert best / 4 == pytest.approx(0.786, abs=0.04)


def guess_that_laplace_came_first(apart: np.ndarray) -> np.ndarray:
    """Pr(E < 1 | distance), where the distance is normal with variance |1 - E|, E exponential."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    root = (nodes + 1) / 2  # of 1 - E, so that the integrand is smooth
    grid = np.geomspace(1e-4, 15, 1000)
    normal = np.exp(root**2 - grid[:, None] ** 2 / (2 * root**2)) / root
    before = (normal * weights * root).sum(axis=1) / math.sqrt(2 * math.pi)
    after = np.exp(-math.sqrt(2) * grid) / math.sqrt(2)
    likely: np.ndarray = np.interp(apart, grid, before / (before + after))
    return likely


# Weights that are rounded at random --------------------------------------------------------------

STEPS = np.array([150.0, 270.0, 330.0, 390.0, 470.0, 720.0])


def survey(records: int) -> pl.DataFrame:
    random = np.random.default_rng(11)
    return pl.DataFrame(
        {
            "id": np.arange(records) * 3 + 1,
            "weight": np.clip(random.gamma(8, 47, records), 151, 719).round(3),
            "region": random.choice([*"nesw"], records),
        }
    )


def round_weights(frame: pl.DataFrame, domains: Sequence[str] = ("region",)) -> dict[int, float]:
    """What is released for each person, between levels that stay."""
    roles: Any = {"id": "direct", "weight": "weight", "region": "other"}
    data = sf.Dataset(frame, sf.Schema(roles))
    method = sf.methods.Weights(variables=["weight"], domains=[*domains])
    chance = Chance(Key(KEY), 0)
    fitted = {"weight": {"levels": STEPS.tolist()}}
    released = method.transform(data, fitted, engine=engine_for(data.frame), chance=chance)
    return dict(zip(frame["id"].to_list(), released.frame["weight"].to_list(), strict=True))


@pytest.mark.parametrize("domains", [(), ("region",)])
def test_who_comes_or_goes_moves_at_most_one_other_weight(domains: tuple[str, ...]) -> None:
    frame = survey(600)
    complete = round_weights(frame, domains)
    for row in range(0, 600, 23):
        fewer = frame.filter(pl.int_range(pl.len()) != row).sample(fraction=1, shuffle=True, seed=1)
        moved = [
            person for person, weight in round_weights(fewer, domains).items()
            if weight != complete[person]
        ]  # fmt: skip
        assert len(moved) <= 1


def explain(truth: np.ndarray, *shown: np.ndarray) -> float:
    """The error of the best guess from what is shown, with the truth of all to find it."""
    _, codes = np.unique(np.stack(shown), axis=1, return_inverse=True)
    codes = codes.ravel()
    means = np.bincount(codes, truth) / np.bincount(codes)
    return float(np.sqrt(np.mean((truth - means[codes]) ** 2)))


def test_twenty_versions_of_rounded_weights_are_worth_one() -> None:
    """Every month one in a hundred leaves and another comes: 20 releases of 2000 people."""
    frame = survey(2400)
    versions = [round_weights(frame.slice(20 * month, 2000)) for month in range(20)]
    always = frame.slice(380, 1620)
    truth = always["weight"].to_numpy()
    shown = np.array([[version[person] for person in always["id"]] for version in versions])
    alone = float(np.sqrt(np.mean((shown - truth) ** 2)))
    together = float(np.sqrt(np.mean((shown.mean(axis=0) - truth) ** 2)))
    assert together > 0.97 * alone
    # Whose weight moves lies between the two levels, whoever stays may lie on either side.
    lowest, highest, half = shown.min(axis=0), shown.max(axis=0), np.median(shown, axis=0)
    assert np.mean(lowest < highest) < 0.05
    assert explain(truth, lowest, highest, half) > 0.96 * explain(truth, shown[0])
    # And the totals of each region are kept as before: within a step or two of some 190,000.
    first = frame.head(2000).with_columns(
        released=pl.Series([versions[0][person] for person in frame["id"][:2000]])
    )
    totals = first.group_by("region").agg(pl.col("released", "weight").sum())
    assert (totals["released"] / totals["weight"] - 1).abs().max() < 0.002  # type: ignore[operator]


# What may be changed between two releases --------------------------------------------------------


def spell(frame: pl.DataFrame, change: Callable[[pl.Expr], pl.Expr]) -> sf.Dataset:
    return dataset(frame.with_columns(change(pl.col("id")).alias("id")))


VARIATIONS: dict[str, Callable[[pl.DataFrame], sf.Dataset]] = {
    "text": lambda frame: spell(frame, lambda id_: id_.cast(pl.String)),
    "padded": lambda frame: spell(frame, lambda id_: id_.cast(pl.String).str.zfill(9)),
    "trailing blank": lambda frame: spell(frame, lambda id_: id_.cast(pl.String) + " "),
    "invisible": lambda frame: spell(frame, lambda id_: "\ufeff" + id_.cast(pl.String)),
    "fraction": lambda frame: spell(frame, lambda id_: id_.cast(pl.Float64)),
    "fraction as text": lambda frame: spell(frame, lambda id_: id_.cast(pl.String) + ".0"),
    "32-bit id": lambda frame: spell(frame, lambda id_: id_.cast(pl.UInt32)),
    "category": lambda frame: spell(frame, lambda id_: id_.cast(pl.String).cast(pl.Categorical)),
    "32-bit value": lambda frame: dataset(frame.with_columns(pl.col("bmi").cast(pl.Float32))),
    "another role": lambda frame: dataset(frame, id="other"),
    "a role for the other": lambda frame: dataset(frame, email="other"),
    "both roles": lambda frame: dataset(frame, id="sensitive", email="sensitive"),
    "another identifier first": lambda frame: dataset(
        frame.select("email", "sex", "id", "bmi", "age")
    ),
    "without the other": lambda frame: sf.Dataset(
        frame.drop("email"), sf.Schema({k: v for k, v in ROLES.items() if k != "email"})
    ),
    "other content": lambda frame: dataset(frame.with_columns(age=pl.col("age") + 1)),
    "another variable": lambda frame: sf.Dataset(
        frame.with_columns(more=1), sf.Schema({**ROLES, "more": "other"})
    ),
    "renamed": lambda frame: sf.Dataset(
        frame.rename({"id": "person_id"}),
        sf.Schema({"person_id" if k == "id" else k: v for k, v in ROLES.items()}),
    ),
    "another order": lambda frame: dataset(frame.reverse()),
    "a subset": lambda frame: dataset(frame.gather_every(3)),
    "a duplicate": lambda frame: dataset(
        pl.concat([frame, frame.head(1).with_columns(bmi=pl.lit(40.0))])
    ),
    "missing identifiers": lambda frame: spell(
        frame, lambda id_: pl.when(id_ > 70).then(id_).otherwise(None)
    ),
}


@pytest.mark.parametrize("variation", VARIATIONS)
def test_no_variation_gives_a_fresh_draw(variation: str) -> None:
    frame = people(400)
    once = dict(zip(frame["email"], release(dataset(frame), variance=4.0), strict=True))
    varied = VARIATIONS[variation](frame)
    wide = dataset(frame).frame if "email" not in varied.columns else varied.frame
    again = release(varied, variance=4.0)
    touched = {"person0@example.org"} if variation == "a duplicate" else set()
    if variation == "missing identifiers":
        touched = set(frame["email"][:10])
    moved = [
        abs(once[email] - value)
        for email, value in zip(wide["email"].to_list(), again.tolist(), strict=True)
        if email not in touched
    ]
    assert len(moved) >= 130
    assert max(moved) < 1e-5


def test_the_name_of_a_variable_in_other_letters_is_no_fresh_draw() -> None:
    frame = people(100)
    once = release(dataset(frame), variance=4.0)
    renamed = sf.Dataset(frame.rename({"bmi": "BMI "}), sf.Schema({"id": "direct"}))
    again = Noise(variables=["BMI "], variance=4.0).apply(renamed, key=KEY).column("BMI ")
    assert again.to_list() == once.tolist()


# What would be a fresh draw is refused -----------------------------------------------------------


def plan(*steps: sf.method.Method, identity: str | None = None, **roles: Any) -> sf.Plan:
    schema: dict[str, Any] = {**ROLES, **roles}
    if identity:
        schema[identity] = sf.Column(role="direct", identity=True)
    drop = [name for name, role in schema.items() if name in ("id", "email")]
    return sf.Plan(
        schema=schema,
        steps=[*steps, sf.methods.Drop(variables=drop)],
        release=Writing(accept_composition="a test"),
    )


FIRST = Noise(variables=["bmi"], variance=4.0)
REFUSED = {
    "distribution": plan(Noise(variables=["bmi"], variance=4.0, distribution="laplace")),
    "scale": plan(Noise(variables=["bmi"], variance=0.1, scale="log")),
    "depends otherwise": plan(
        Noise(variables=["bmi"], growth=sf.Growth(form="linear", constant=1.0, slope=0.1))
    ),
    "another method": plan(
        sf.methods.CorrelatedNoise(variables=["bmi"], noise_share=0.3, partly=True)
    ),
    "other steps before it": plan(sf.methods.Topcode(variables=["bmi"], top=40.0), FIRST),
    "told apart by": plan(FIRST, identity="email"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_fresh_draw_under_the_same_key_is_refused_and_says_what_changed(
    what: str, tmp_path: Path
) -> None:
    data = dataset(people(300))
    sf.protect(data, plan(FIRST), key=KEY).write(tmp_path / "spring")
    # The key knows where it comes from, wherever the new folder is and whatever the ledger knows.
    key = tmp_path / "spring" / "custody" / "key"
    with pytest.raises(ReleaseError, match=what):
        sf.protect(data, REFUSED[what], key=key).write(tmp_path / "far" / "autumn", ledger=False)
    assert not (tmp_path / "far" / "autumn").exists()
    with pytest.raises(ReleaseError, match=what):
        sf.protect(data, REFUSED[what], key=key).write(tmp_path / "spring", overwrite=True)


def test_the_ledger_remembers_when_the_folder_is_gone(tmp_path: Path) -> None:
    data = dataset(people(300))
    sf.protect(data, plan(FIRST), key=KEY).write(tmp_path / "spring")
    shutil.rmtree(tmp_path / "spring" / "custody")
    with pytest.raises(ReleaseError, match="another scale"):
        sf.protect(data, REFUSED["scale"], key=KEY).write(tmp_path / "far" / "autumn")
    sf.protect(data, plan(FIRST), key=KEY).write(tmp_path / "far" / "summer")


def test_another_size_of_laplace_noise_is_refused(tmp_path: Path) -> None:
    """Several sizes would show for whom the time is short, and so who got little noise."""
    data = dataset(people(300))
    first, second = (
        plan(Noise(variables=["bmi"], variance=variance, distribution="laplace"))
        for variance in (4.0, 4.5)
    )
    sf.protect(data, first, key=KEY).write(tmp_path / "spring")
    sf.protect(data, first, key=KEY).write(tmp_path / "summer")
    with pytest.raises(ReleaseError, match="Laplace noise of another size"):
        sf.protect(data, second, key=KEY).write(tmp_path / "autumn")


@pytest.mark.parametrize(
    ("what", "changed"),
    [("other levels", {"levels": 9}), ("other domains", {"domains": ["sex"]})],
)
def test_weights_are_not_rounded_anew(tmp_path: Path, what: str, changed: dict[str, Any]) -> None:
    """Between other levels each weight is rounded again; who has both takes their mean."""
    data = dataset(people(300))
    first, second = (plan(sf.methods.Weights(variables=["bmi"], **more)) for more in ({}, changed))
    sf.protect(data, first, key=KEY).write(tmp_path / "spring")
    sf.protect(data, first, key=KEY).write(tmp_path / "summer")
    with pytest.raises(ReleaseError, match=what):
        sf.protect(data, second, key=KEY).write(tmp_path / "autumn")


def test_another_size_under_the_same_key_is_not_refused(tmp_path: Path) -> None:
    data = dataset(people(300))
    sf.protect(data, plan(FIRST), key=KEY).write(tmp_path / "spring")
    more = plan(Noise(variables=["bmi"], variance=4.5))
    sf.protect(data, more, key=KEY).write(tmp_path / "autumn")
    record = json.loads((tmp_path / "autumn" / "custody" / "custody.json").read_text())
    assert record["input"]["identity"] == "identifier 'id'"
    assert record["input"]["identity_columns"] == ["id"]


def test_the_command_line_refuses_and_says_what_changed(tmp_path: Path) -> None:
    people(200).write_csv(tmp_path / "people.csv")
    for name, steps in (("first", FIRST), ("second", REFUSED["scale"].steps[0])):
        (tmp_path / f"{name}.toml").write_text(plan(steps).text())

    def protect(name: str, *options: str) -> Done:
        told = ("protect", "people.csv", "--plan", f"{name}.toml", "--out", name, *options)
        return sfumato(*told, cwd=tmp_path)

    assert protect("first").returncode == 0
    refused = protect("second", "--key", "first/custody/key")
    assert refused.returncode not in (0, 3)
    assert "'bmi' has noise on another scale" in " ".join(refused.stderr.split())


# The digits of released numbers ------------------------------------------------------------------


def find_grid(values: np.ndarray) -> int:
    """How many decimals suffice for all values, as anybody finds it."""
    for decimals in range(-20, 40):
        if all(round(value, decimals) == value for value in values.tolist()):
            return decimals
    return 40


def find_binary_grid(values: np.ndarray) -> int:
    for power in range(-60, 60):
        scaled = values / 2.0**power
        if not (scaled == np.rint(scaled)).all():
            return power - 1
    return 60


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakProtectionWarning")
@pytest.mark.parametrize("decimals", [2, 15])
@pytest.mark.parametrize("method", ["noise", "correlated"])
def test_the_digits_do_not_tell_the_size_of_the_noise(method: str, decimals: int) -> None:
    """They are those of the original; where it has all digits, so has the release."""
    random = np.random.default_rng(7)
    bmi = random.normal(25, 4, 500).clip(12, 60).round(decimals)
    frame = people(500).with_columns(bmi=bmi)
    grids = set()
    for power in range(-8, 4):
        step: sf.method.Method = Noise(
            variables=["bmi"], variance=4.0**power, at_least=12.0, at_most=60.0
        )
        if method == "correlated":
            share = 0.5 * 1.5 ** (power - 4)
            step = sf.methods.CorrelatedNoise(variables=["bmi"], noise_share=share, partly=True)
        noised = step.apply(dataset(frame), key=KEY).column("bmi").to_numpy()
        grids.add(find_grid(noised))
        # In steps of a power of two there are all digits that such numbers have.
        assert find_binary_grid(noised) < -40
    assert grids == {min(decimals, 13)}


def test_the_digits_do_not_tell_the_scale_of_the_noise() -> None:
    random = np.random.default_rng(7)
    frame = people(2000).with_columns(bmi=random.normal(25, 4, 2000))
    for scale in ("log", "square_root"):
        noise = Noise(variables=["bmi"], variance=0.01, scale=scale)
        noised = noise.apply(dataset(frame), key=KEY).column("bmi").to_numpy()
        there = np.log(noised) if scale == "log" else np.sqrt(noised)
        assert find_binary_grid(there[np.abs(there) > 0.1]) < -48
        np.testing.assert_array_equal(noised, [float(f"{value:.12g}") for value in noised])
        noised = noise.apply(dataset(people(2000)), key=KEY).column("bmi").to_numpy()
        assert find_grid(noised) == 2


def test_many_rounded_sizes_tell_no_more_than_the_smallest_before_it_was_rounded() -> None:
    """Each is rounded after the draw: together they may undo the rounding, and never the noise."""
    frame = people()
    truth = frame["bmi"].to_numpy()
    exact, coarse = (
        dataset(frame, bmi=sf.Column(role="quasi", digits=digits)) for digits in (15, 0)
    )
    shares = np.linspace(0.1, 0.3, 12).tolist()
    alone = float(np.mean((release(exact, variance_share=shares[0]) - truth) ** 2))
    rounded = [release(coarse, variance_share=share) for share in shares]
    assert find_grid(rounded[0]) == 0
    chance = 1 - 5 * len(shares) / RECORDS
    assert combine(rounded, truth) > alone * CELL * chance
    # Nor does somebody gain who has the rounded and the exact release of one size.
    assert combine([release(exact, variance_share=shares[0]), *rounded], truth) > (
        alone * CELL * chance
    )


def test_the_last_digits_tell_nothing_of_the_parts() -> None:
    """Sums of large parts have few digits after the point; on the grid all have the same."""
    small, large = np.zeros(3000), np.full(3000, 1e6)
    frame = pl.DataFrame({"id": np.arange(6000), "x": np.concatenate([small, large])})
    data = sf.Dataset(frame, sf.Schema({"id": "direct", "x": "quasi"}))
    noised = Noise(variables=["x"], variance=1e12).apply(data, key=KEY).column("x").to_numpy()
    near = np.abs(noised) < 2e5
    for part in (near[:3000], near[3000:]):
        assert part.sum() > 100
    grids = [find_grid(noised[:3000][near[:3000]]), find_grid(noised[3000:][near[3000:]])]
    assert grids[0] == grids[1]
