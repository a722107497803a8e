"""Does what a method leaves as it was give people away, and is the gate told?

The claim (docs/explanation/adversary.md): "What a method preserves is an attacker's tool, so each
method says what it preserves, and all attacks that exploit that are tried."

Each family has data with the hole, which must be refused or amber with the right reason, the same
data without the hole, which must be released, and an attacker who shares no code with the measures.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import TargetError
from sfumato.plan import Writing

KEY = bytes(range(32))


def try_release(
    frame: pl.DataFrame, roles: dict[str, Any], steps: list[sf.Method], k: int | None = None
) -> sf.Release:
    schema = sf.Schema(roles)
    targets = {"k.min": k} if k else {}
    writing = Writing(keep_order=True, attack_seconds=60)
    plan = sf.Plan(schema=schema, steps=steps, targets=targets, release=writing)
    return sf.protect(sf.Dataset(frame, schema), plan, key=KEY)


def list_reasons(release: sf.Release) -> str:
    lights = release.lights
    return " ".join((*lights.targets.reasons, *lights.attacks.reasons))


# Clumped values under noise ----------------------------------------------------------------------


def draw_salaries(seed: int, *, clumped: bool, people: int = 900) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    scales = random.choice([2400.0, 3350.0, 4100.0, 6200.0], people, p=[0.3, 0.3, 0.25, 0.15])
    pay = scales + random.normal(0, 12, people) if clumped else random.normal(3500, 1200, people)
    return pl.DataFrame({"age": random.integers(20, 65, people) // 15 * 15, "pay": pay.round(2)})


def fit_mixture(shown: np.ndarray, sd: float, points: int) -> np.ndarray:
    """Expectation maximisation from quantiles: the mean of the likeliest component, for each."""
    centres = np.quantile(shown, (np.arange(points) + 0.5) / points)
    shares = np.full(points, 1 / points)
    for _ in range(500):
        weights = shares * np.exp(-((shown[:, None] - centres) ** 2) / (2 * sd**2))
        weights /= weights.sum(axis=1, keepdims=True)
        shares = weights.mean(axis=0)
        centres = (weights * shown[:, None]).sum(axis=0) / weights.sum(axis=0)
    likeliest: np.ndarray = centres[weights.argmax(axis=1)]
    return likeliest


@pytest.mark.parametrize("seed", [1, 2])
def test_noise_on_pay_scales_is_refused(seed):
    frame = draw_salaries(seed, clumped=True)
    release = try_release(
        frame,
        {"age": "quasi", "pay": "sensitive"},
        [sf.methods.Noise(variables=["pay"], sd_share=0.2)],
        k=5,
    )
    # The attacker has the file and the manifest, and finds nearly everybody's pay to 1 %.
    sd = release.manifest["noise"]["variables"]["pay"]["variance"] ** 0.5
    guess = fit_mixture(release.data["pay"].to_numpy(), sd, 4)
    true = frame["pay"].to_numpy()
    assert (np.abs(guess - true) <= 0.01 * true).mean() > 0.6
    with pytest.raises(TargetError, match="clumped values.*'pay'"):
        release.case.require_attacks_held()
    assert release.lights.attacks.colour == "red"
    assert "Spread each clump" in list_reasons(release)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_noise_on_smooth_pay_is_released(seed):
    release = try_release(
        draw_salaries(seed, clumped=False),
        {"age": "quasi", "pay": "sensitive"},
        [sf.methods.Noise(variables=["pay"], sd_share=0.2)],
        k=5,
    )
    release.case.require_attacks_held()
    assert release.attacks["clumps"].value < 0.1


def test_noise_on_counts_is_refused():
    random = np.random.default_rng(5)
    frame = pl.DataFrame({"age": random.integers(2, 6, 900) * 10, "visits": random.poisson(2, 900)})
    release = try_release(
        frame,
        {"age": "quasi", "visits": sf.Column(role="sensitive", kind="integer")},
        [sf.methods.Noise(variables=["visits"], sd_share=0.25, whole=False)],
    )
    # Rounding is enough.
    assert (release.data["visits"].round() == frame["visits"]).mean() > 0.8
    assert release.lights.attacks.colour == "red"


@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "uniform"])
def test_smooth_values_give_next_to_nothing_back(shape, distribution):
    for seed in range(3):
        random = np.random.default_rng(seed)
        values = {
            "normal": random.normal(0, 1, 700),
            "lognormal": random.lognormal(0, 1, 700),
            "uniform": random.uniform(0, 1, 700),
        }[shape]
        data = sf.Dataset(pl.DataFrame({"x": values}), sf.Schema({"x": "sensitive"}))
        for share in (0.1, 0.3, 0.8):
            noise = sf.methods.Noise(variables=["x"], sd_share=share, distribution=distribution)
            found = sf.risk.Clumps(variables=["x"]).measure(data, noise.apply(data, key=KEY))
            assert found.value < 0.15, (shape, share)


def test_clumps_under_noise_on_another_scale():
    random = np.random.default_rng(6)
    pay = random.choice([1500.0, 2900.0, 6400.0, 14000.0], 800) * random.uniform(0.995, 1.005, 800)
    data = sf.Dataset(pl.DataFrame({"pay": pay}), sf.Schema({"pay": "sensitive"}))
    noise = sf.methods.Noise(variables=["pay"], sd_share=0.2, scale="log")
    released = noise.apply(data, key=KEY)
    assert sf.risk.Clumps(variables=["pay"], scale="log").measure(data, released).value > 0.5
    # Who is not told the scale sees that the noise grows.
    assert sf.risk.Clumps(variables=["pay"]).measure(data, released).value > 0.2


def test_clumps_under_noise_that_keeps_the_spread():
    random = np.random.default_rng(7)
    frame = pl.DataFrame(
        {"pay": random.choice([10.0, 20.0, 35.0], 800), "years": random.normal(10, 4, 800)}
    )
    data = sf.Dataset(frame, sf.Schema({"pay": "sensitive", "years": "sensitive"}))
    step = sf.methods.CorrelatedNoise(variables=["pay", "years"], noise_share=0.05)
    found = sf.risk.Clumps(variables=["pay", "years"]).measure(data, step.apply(data, key=KEY))
    assert found.value > 0.5
    assert found.details["worst_variable"] == "pay"


# Totals ------------------------------------------------------------------------------------------


def draw_totals(seed: int, *, rule: str, people: int = 600) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    wage, rent = random.integers(800, 6000, people), random.integers(0, 2500, people)
    other, unrelated = random.integers(0, 3000, people), random.integers(0, 9000, people)
    total = {
        "sum": wage + rent,
        "weighted": 2 * wage - rent,
        "with a third": wage + rent + other,
        "rounded": (wage + rent + 25) // 50 * 50,
        "with exceptions": np.where(random.random(people) < 0.1, unrelated, wage + rent),
        "ratio": wage / (rent + 1),
        "none": unrelated,
    }[rule]
    frame = pl.DataFrame({"wage": wage, "rent": rent, "other": other, "total": total})
    return frame if rule == "with a third" else frame.drop("other")


def look_up_total(frame: pl.DataFrame, released: pl.DataFrame, total: np.ndarray) -> float:
    """The share of people alone among the rows that fit their wage and rent and have their total.

    The attacker has worked out `total` from what he knows, and reads the ranges.
    """
    ranges = [
        tuple(
            tuple(float(end) for end in str(cell).strip("[]").split(";"))
            for cell in (row["wage"], row["rent"])
        )
        for row in released.iter_rows(named=True)
    ]
    shown, alone = released["total"].to_numpy(), 0
    for person, (wage, rent) in enumerate(frame.select("wage", "rent").iter_rows()):
        fits = [
            w[0] <= wage <= w[-1] and r[0] <= rent <= r[-1] and abs(value - total[person]) < 1e-6
            for (w, r), value in zip(ranges, shown, strict=True)
        ]
        alone += fits[person] and sum(fits) == 1
    return alone / len(frame)


@pytest.mark.parametrize("role", ["other", "sensitive"])
@pytest.mark.parametrize(
    "rule", ["sum", "weighted", "with a third", "rounded", "with exceptions", "ratio"]
)
def test_a_total_of_what_is_known_is_refused(rule, role):
    frame = draw_totals(3, rule=rule)
    roles = dict.fromkeys(frame.columns, role) | {"wage": "quasi", "rent": "quasi"}
    steps = [sf.methods.KAnonymity(variables=["wage", "rent"], k=5, output="range")]
    release = try_release(frame, roles, steps, k=5)
    if rule == "sum":
        wage, rent = (frame[name].to_numpy() for name in ("wage", "rent"))
        assert look_up_total(frame, release.data, wage + rent) > 0.9
    with pytest.raises(TargetError, match="Whoever knows 'wage', 'rent' knows.*'total'"):
        release.case.require_attacks_held()


@pytest.mark.parametrize("role", ["other", "sensitive"])
def test_what_does_not_follow_is_released(role):
    frame = draw_totals(3, rule="none")
    roles = {"wage": "quasi", "rent": "quasi", "total": role}
    steps = [sf.methods.KAnonymity(variables=["wage", "rent"], k=5, output="range")]
    release = try_release(frame, roles, steps, k=5)
    release.case.require_attacks_held()
    assert release.attacks["mixed_linkage"].details["implied"] == ()


def test_a_total_made_again_from_the_release_is_released():
    frame = draw_totals(3, rule="sum")
    roles = {"wage": "quasi", "rent": "quasi", "total": "quasi"}
    steps = [sf.methods.KAnonymity(k=5, output="range")]
    try_release(frame, roles, steps, k=5).case.require_attacks_held()


# Households --------------------------------------------------------------------------------------


def draw_households(seed: int, houses: int = 220) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 6, houses)
    house = np.repeat(np.arange(houses), sizes)
    people = len(house)
    return pl.DataFrame(
        {
            "house": [f"H{number}" for number in house],
            "age": random.integers(0, 90, people),
            "sex": random.choice(["f", "m"], people),
            "ill": random.choice(["no", "yes"], people),
        }
    )


AGES = [0, 10, 20, 30, 40, 50, 60, 70, 80]
HOUSE_ROLES: dict[str, Any] = {
    "house": "cluster",
    "age": sf.Column(role="quasi", kind="integer", domain=(0, 89)),
    "sex": "quasi",
    "ill": "sensitive",
}


def find_houses(frame: pl.DataFrame, released: pl.DataFrame) -> float:
    """The share of households whose sorted released rows no other household has."""
    profiles: dict[str, list[tuple[str, str]]] = {}
    for row in released.iter_rows(named=True):
        profiles.setdefault(row["house"], []).append((str(row["age"]), str(row["sex"])))
    sorted_profiles = [tuple(sorted(rows)) for rows in profiles.values()]
    assert len(profiles) == frame["house"].n_unique()
    alone = sum(sorted_profiles.count(profile) == 1 for profile in sorted_profiles)
    return alone / len(sorted_profiles)


def test_pseudonymised_households_are_refused():
    frame = draw_households(1)
    steps = [
        sf.methods.Pseudonymise(variables=["house"], namespace="house"),
        sf.methods.Coarsen(variables=["age"], breaks=AGES),
    ]
    release = try_release(frame, HOUSE_ROLES, steps, k=5)
    assert find_houses(frame, release.data) > 0.6
    with pytest.raises(TargetError, match=r"Finding groups.*'house'.*k_of_households"):
        release.case.require_attacks_held()


def test_households_without_their_pseudonym_are_released():
    steps = [
        sf.methods.Drop(variables=["house"]),
        sf.methods.Coarsen(variables=["age"], breaks=AGES),
    ]
    release = try_release(draw_households(1), HOUSE_ROLES, steps, k=5)
    release.case.require_attacks_held()
    assert "group_profiles" not in release.attacks


def test_households_whose_members_look_alike_are_released():
    steps = [
        sf.methods.Pseudonymise(variables=["house"], namespace="house"),
        sf.methods.Drop(variables=["age", "sex"]),
    ]
    frame = draw_households(1).with_columns(town=pl.lit("ash"))
    release = try_release(frame, HOUSE_ROLES | {"town": "quasi"}, steps, k=5)
    release.case.require_attacks_held()
    assert release.attacks["group_profiles"].value < 0.1


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_counted_as_plain_python_counts_them(seed):
    random = np.random.default_rng(seed)
    frame = draw_households(seed, houses=40).with_columns(pl.col("age") // 30 * 30)
    schema = sf.Schema(HOUSE_ROLES | {"age": sf.Column(role="quasi", kind="integer")})
    data = sf.Dataset(frame.sample(fraction=1, shuffle=True, seed=int(random.integers(99))), schema)
    houses: dict[str, list[tuple[int, str]]] = {}
    for row in data.frame.iter_rows(named=True):
        houses.setdefault(row["house"], []).append((row["age"], row["sex"]))
    # The same people, each at least once: whose rows fit nobody is another house.
    chances = [
        1 / sum(len(mine) == len(other) and set(mine) == set(other) for other in houses.values())
        for mine in houses.values()
    ]
    found = sf.risk.GroupProfiles().measure(data, data)
    assert found.value == pytest.approx(np.mean(chances))


# Gaps between shifted dates ----------------------------------------------------------------------


def draw_visits(seed: int, people: int = 300, visits: int = 5) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    patient = np.repeat([f"P{number:04}" for number in range(people)], visits)
    days = pl.Series(18_000 + random.integers(0, 900, people * visits)).cast(pl.Int32)
    sex = np.repeat(random.choice(["f", "m"], people), visits)
    return pl.DataFrame({"patient": patient, "sex": sex, "seen": days.cast(pl.Date)})


VISIT_ROLES = {"patient": "person", "sex": "quasi", "seen": "other"}


def match_gaps(frame: pl.DataFrame, released: pl.DataFrame) -> float:
    """The share of patients whose sorted gaps, known from the original, one pseudonym has."""

    def list_gaps(table: pl.DataFrame) -> list[tuple[int, ...]]:
        by_patient: dict[str, list[Any]] = {}
        for row in table.iter_rows(named=True):
            by_patient.setdefault(row["patient"], []).append(row["seen"])
        return [
            tuple((later - earlier).days for earlier, later in pairwise(sorted(days)))
            for days in by_patient.values()
        ]

    shown = list_gaps(released)
    return sum(shown.count(gaps) == 1 for gaps in list_gaps(frame)) / len(shown)


def test_gaps_between_shifted_dates_are_amber():
    frame = draw_visits(1)
    steps = [
        sf.methods.Pseudonymise(variables=["patient"]),
        sf.methods.ShiftDates(variables=["seen"], window=364),
    ]
    release = try_release(frame, VISIT_ROLES, steps, k=5)
    assert match_gaps(frame, release.data) > 0.95
    assert release.attacks["gaps"].value == pytest.approx(match_gaps(frame, release.data), abs=0.05)
    assert release.lights.attacks.colour != "green"
    assert "the time between their dates" in list_reasons(release)
    assert "'seen'" in list_reasons(release)


@pytest.mark.parametrize("hole", ["one visit", "order"])
def test_without_gaps_nobody_is_found_by_them(hole):
    frame = draw_visits(1, visits=1 if hole == "one visit" else 5)
    shift = (
        sf.methods.ShiftDates(variables=["seen"], window=364)
        if hole == "one visit"
        else sf.methods.ShiftDates(variables=["seen"], origin="seen", count="order")
    )
    steps = [sf.methods.Pseudonymise(variables=["patient"]), shift]
    release = try_release(frame, VISIT_ROLES, steps, k=5)
    release.case.require_attacks_held()
    assert release.attacks["gaps"].value < 0.1
    assert "time between" not in list_reasons(release)


# Extremes under noise ----------------------------------------------------------------------------


def draw_with_outlier(seed: int, *, far: bool) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    income = random.normal(3000, 500, 500)
    income[random.integers(500)] = 21_000 if far else 4000
    return pl.DataFrame({"sex": random.choice(["f", "m"], 500), "income": income.round(2)})


OUTLIER_ROLES: dict[str, Any] = {"sex": "quasi", "income": "sensitive"}
OUTLIER_NOISE = sf.methods.Noise(variables=["income"], sd_share=0.3)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_far_outlier_under_noise_is_amber(sign):
    frame = draw_with_outlier(1, far=True).with_columns(pl.col("income") * sign)
    release = try_release(frame, OUTLIER_ROLES, [OUTLIER_NOISE], k=5)
    data = sf.Dataset(frame, sf.Schema(OUTLIER_ROLES))
    farthest = (frame["income"] * sign).arg_max()
    for key in range(12):
        shown = OUTLIER_NOISE.apply(data, key=bytes([key] * 32)).frame["income"]
        assert (shown * sign).arg_max() == farthest
    assert release.attacks["extremes"].details["worst_end"] == (
        "largest" if sign > 0 else "smallest"
    )
    assert release.lights.attacks.colour == "amber"
    assert "Top-code or bottom-code" in list_reasons(release)


def test_a_top_coded_outlier_is_not():
    frame = draw_with_outlier(1, far=True)
    steps = [sf.methods.Topcode(variables=["income"], top=4000), OUTLIER_NOISE]
    for chosen, table in ((steps, frame), ([OUTLIER_NOISE], draw_with_outlier(1, far=False))):
        release = try_release(table, OUTLIER_ROLES, chosen, k=5)
        release.case.require_attacks_held()
        assert "farthest out" not in list_reasons(release)


@pytest.mark.parametrize("seed", range(3))
def test_the_chance_to_stay_at_the_end_is_that_of_many_draws(seed):
    random = np.random.default_rng(seed)
    values = random.lognormal(0, 0.7, 300)
    data = sf.Dataset(pl.DataFrame({"x": values}), sf.Schema({"x": "sensitive"}))
    released = sf.methods.Noise(variables=["x"], variance=0.2).apply(data, key=KEY)
    found = sf.risk.Extremes(variables=["x"]).measure(data, released)
    stays = [
        (values + random.normal(0, 0.2**0.5, 300)).argmax() == values.argmax() for _ in range(3000)
    ]
    chances = dict(zip(found.table["end"], found.table["extremes"], strict=True))
    assert chances["largest"] == pytest.approx(np.mean(stays), abs=0.06)


# Readings of one quantity ------------------------------------------------------------------------


def draw_readings(seed: int, *, apart: float) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    pressure = random.normal(130, 15, 800)
    columns = {
        name: (pressure + random.normal(0, apart, 800)).round()
        for name in ("first", "second", "third")
    }
    return pl.DataFrame({"sex": random.choice(["f", "m"], 800), **columns})


READINGS = ["first", "second", "third"]
READING_ROLES: dict[str, Any] = {"sex": "quasi"} | {
    name: sf.Column(role="sensitive", kind="continuous") for name in READINGS
}


def test_three_readings_with_noise_of_their_own_are_refused():
    frame = draw_readings(1, apart=0.8)
    release = try_release(
        frame, READING_ROLES, [sf.methods.Noise(variables=READINGS, sd_share=0.2)], k=5
    )
    # The attacker averages the three by their published variances.
    noise = release.manifest["noise"]["variables"]
    weights = np.array([1 / noise[name]["variance"] for name in READINGS])
    average = release.data.select(READINGS).to_numpy() @ weights / weights.sum()
    true = frame["first"].to_numpy()
    assert (average.round() == true).mean() > 1.3 * (release.data["first"].round() == true).mean()
    with pytest.raises(TargetError, match=r"Averaging readings.*measure nearly the same"):
        release.case.require_attacks_held()


@pytest.mark.parametrize("hole", ["other quantities", "one noise", "one reading"])
def test_readings_that_do_not_average_are_released(hole):
    frame = draw_readings(1, apart=12 if hole == "other quantities" else 0.8)
    steps: list[sf.Method] = [sf.methods.Noise(variables=READINGS, sd_share=0.2)]
    if hole == "one noise":
        steps = [sf.methods.CorrelatedNoise(variables=READINGS, noise_share=0.1)]
    if hole == "one reading":
        steps = [
            sf.methods.Drop(variables=READINGS[1:]),
            sf.methods.Noise(variables=READINGS[:1], sd_share=0.2),
        ]
    release = try_release(frame, READING_ROLES, steps, k=5)
    release.case.require_attacks_held()
    assert release.attacks["repeated_readings"].value < 0.2
