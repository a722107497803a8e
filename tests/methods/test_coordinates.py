"""Places: recognised as pairs, put on a grid, displaced within rings of people, traced."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.coordinates import (
    EARTH_KM,
    find_radii,
    find_vectors,
    move_places,
    round_up,
)
from sfumato.errors import (
    DataError,
    HeavyLossWarning,
    MethodError,
    PlanError,
    SchemaError,
    WeakProtectionWarning,
)
from sfumato.methods import DisplaceCoordinates, GridCoordinates
from sfumato.plan import Writing
from sfumato.risk import LocationIntersection
from sfumato.schema import Role
from sfumato.schema.inference.coordinates import find_coordinates
from sfumato.suggestion.first_plan import first_plan

KEY = bytes(range(32))
PLACES = st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=30)


def measure_km(first, second) -> float:
    """The haversine formula, for one pair."""
    (a, b), (c, d) = ([math.radians(x) for x in place] for place in (first, second))
    chord = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(min(1.0, chord)))


def make_homes(persons: int, seed: int = 1) -> np.ndarray:
    """Homes in some towns and in the country between them."""
    random = np.random.default_rng(seed)
    towns = random.uniform([48, 11], [49, 13], (8, 2))
    near = towns[random.integers(8, size=persons)] + random.normal(0, 0.02, (persons, 2))
    country = random.uniform([48, 11], [49, 13], (persons, 2))
    return np.where(random.random((persons, 1)) < 0.3, country, near)


def make_data(homes, **more) -> sf.Dataset:
    types = {"lat": pl.Float64, "lon": pl.Float64}
    frame = pl.DataFrame(np.asarray(homes, float), schema=types, orient="row").fill_nan(None)
    roles: dict[str, Role] = {"lat": "quasi", "lon": "quasi", **dict.fromkeys(more, "quasi")}
    if "patient" in more:
        roles["patient"] = "person"
    return sf.Dataset(frame.with_columns(**{n: pl.Series(v) for n, v in more.items()}),
                      sf.Schema(roles))  # fmt: skip


def trace(data: sf.Dataset, released: sf.Dataset, **settings):
    return LocationIntersection(variables=["lat", "lon"], **settings).measure(data, released)


# -- recognised ---------------------------------------------------------------------------------


def test_pairs_are_told_by_their_names():
    names = ["age", "HomeLat", "HomeLong", "lat", "lng", "work_latitude", "latte", "long_covid"]
    assert [tuple(pair) for pair in find_coordinates(names)] == [
        ("HomeLat", "HomeLong"),
        ("lat", "lng"),
    ]


def test_inspect_gives_both_the_role_and_says_that_they_are_one_place():
    frame = pl.DataFrame(make_homes(60), schema=["lat", "lon"])
    schema = sf.Schema.infer(frame)
    assert {column.role for column in schema.values()} == {"quasi"}
    assert all("one place" in column.reason for column in schema.values())
    beyond = sf.Schema.infer(frame.with_columns(lat=pl.col("lat") + 60))
    assert "one place" not in beyond["lon"].reason


def test_a_place_has_one_role():
    data = make_data(make_homes(60))
    schema = sf.Schema({"lat": "quasi", "lon": "other"})
    with pytest.raises(SchemaError, match="'lat', 'lon' are latitude and longitude"):
        sf.protect(data, sf.Plan(schema=schema), key=KEY)


# -- grid ---------------------------------------------------------------------------------------


@given(places=PLACES, cell_km=st.floats(0.1, 800))
@settings(max_examples=80, deadline=None)
def test_the_middle_of_a_cell_is_near_and_its_own_middle(places, cell_km):
    grid = GridCoordinates(cell_km=cell_km)
    released = grid.apply(make_data(places))
    again = grid.apply(released.with_schema({"lat": "quasi", "lon": "quasi"}))
    for before, middle in zip(places, released.frame.rows(), strict=True):
        # Half a diagonal of a cell; cells are at most twice as wide as asked for, at the poles.
        assert measure_km(before, middle) <= 1.6 * cell_km
    assert again.frame.equals(released.frame)


@pytest.mark.parametrize("latitude", [0.0, 52.0, -71.0])
def test_cells_are_as_wide_as_high_wherever_they_are(latitude):
    east = np.linspace(10, 14, 4001)
    data = make_data(np.column_stack([np.full(4001, latitude), east]))
    middles = GridCoordinates(cell_km=10).apply(data).frame["lon"].unique().sort()
    width = measure_km((latitude, middles[3]), (latitude, middles[4]))
    assert width == pytest.approx(10, rel=0.02)


def test_a_place_with_one_missing_coordinate_is_missing():
    data = make_data([(48.0, 11.0), (None, 11.5), (48.5, None)])
    assert GridCoordinates(cell_km=1).apply(data).frame.rows()[1:] == [(None, None)] * 2


# -- displacement -------------------------------------------------------------------------------


@given(place=st.tuples(st.floats(-89, 89), st.floats(-180, 180)), km=st.floats(0.01, 5000),
       bearing=st.floats(0, 6.28))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_a_moved_place_is_as_far_away_as_it_should_be(place, km, bearing):
    moved = move_places(*(np.array([x]) for x in (*place, km, bearing)))
    assert measure_km(place, (moved[0][0], moved[1][0])) == pytest.approx(km, rel=1e-6, abs=1e-4)


def count_in_ring(homes, place, person, outer, inner) -> int:
    distances = [measure_km(place, home) for j, home in enumerate(homes) if j != person]
    return sum(inner * outer < km <= outer for km in distances)


@given(
    seed=st.integers(0, 10**6),
    persons=st.integers(3, 25),
    k=st.integers(2, 6),
    inner=st.sampled_from([0.0, 0.25, 0.6]),
)
@settings(max_examples=60, deadline=None)
def test_the_radius_is_the_smallest_step_with_k_others_in_the_ring(seed, persons, k, inner):
    """Against counting one by one."""
    homes = make_homes(persons, seed).round(3)
    vectors = find_vectors(homes[:, 0], homes[:, 1])
    radii = find_radii(vectors, np.arange(persons), vectors, k=k, inner=inner)
    for person, radius in enumerate(radii):
        if persons <= k:
            assert math.isinf(radius)
            continue
        # Smaller steps hold fewer; a person on the edge of a ring may count either way.
        step = round_up(np.array([1e-3]))[0]
        while step < min(radius, 30_000) * 0.99:
            assert count_in_ring(homes, homes[person], person, step * (1 - 1e-9), inner) < k + 1
            step *= math.sqrt(2)
        if math.isfinite(radius):
            assert count_in_ring(homes, homes[person], person, radius * (1 + 1e-9), inner) >= k - 1


@given(seed=st.integers(0, 10**6), k=st.integers(2, 8))
@settings(max_examples=30, deadline=None)
def test_everybody_moves_out_of_the_hole_and_not_beyond_the_ring(seed, k):
    homes = make_homes(40, seed)
    data = make_data(homes)
    released = DisplaceCoordinates(k=k).apply(data, key=KEY).frame
    vectors = find_vectors(homes[:, 0], homes[:, 1])
    radii = find_radii(vectors, np.arange(40), vectors, k=k, inner=0.25)
    for home, shown, radius in zip(homes, released.rows(), radii, strict=True):
        assert 0.25 * radius - 0.01 <= measure_km(home, shown) <= radius + 0.01


def test_displacements_are_uniform_in_the_area_of_the_ring():
    homes = np.full((4000, 2), [48.0, 11.0]) + np.arange(4000)[:, None] * 1e-6
    method = DisplaceCoordinates(k=100, inner=0.5, persons_per_km2=100)
    shown = method.apply(make_data(homes), key=KEY).frame.rows()
    km = np.array([measure_km(a, b) for a, b in zip(homes, shown, strict=True)])
    outer = round_up(np.sqrt([1 / math.pi / 0.75]))[0]
    share = ((km / outer) ** 2 - 0.25) / 0.75
    assert share.min() >= 0
    assert share.max() <= 1.001
    # Of 4,000 uniform draws the largest gap of the distribution exceeds this once in 10,000 times.
    gap = np.abs(np.sort(share) - (np.arange(4000) + 0.5) / 4000).max()
    assert gap < 2.23 / math.sqrt(4000)
    north = np.mean([b[0] > a[0] for a, b in zip(homes, shown, strict=True)])
    assert abs(north - 0.5) < 4 * 0.5 / math.sqrt(4000)


def test_all_rows_of_a_person_move_once_and_again_in_the_next_extract():
    homes = make_homes(200)
    rows = np.repeat(np.arange(200), 3)
    data = make_data(homes[rows], patient=[f"p{n}" for n in rows])
    method = DisplaceCoordinates(k=5)
    released = method.apply(data, key=KEY).frame
    assert released.group_by("patient").agg(pl.col("lat", "lon").n_unique())["lat"].max() == 1
    single = make_data(homes, patient=[f"p{n}" for n in range(200)])
    shuffled = single.take(np.random.default_rng(5).permutation(200))
    later = method.apply(shuffled, key=KEY, step=3).frame
    together = released.unique().sort("patient").drop("patient")
    assert together.equals(later.sort("patient").drop("patient"))


def test_a_newcomer_moves_hardly_anybody_elses_place():
    homes = make_homes(300)
    names = [f"p{n}" for n in range(300)]
    method = DisplaceCoordinates(k=5)
    first = method.apply(make_data(homes, patient=names), key=KEY).frame
    second = method.apply(make_data(homes[:-3], patient=names[:-3]), key=KEY).frame
    same = (first[:-3]["lat"] == second["lat"]).mean()
    assert same > 0.9


def test_only_those_who_are_alike_are_counted():
    homes = make_homes(600)
    data = make_data(homes, sex=["f"] * 300 + ["m"] * 300)
    alike = DisplaceCoordinates(k=10)
    whatever = DisplaceCoordinates(k=10, alike=[])
    moved = [method.apply(data, key=KEY) for method in (alike, whatever)]
    far, near = (
        np.mean([measure_km(a, b[:2]) for a, b in zip(homes, some.frame.rows(), strict=True)])
        for some in moved
    )
    assert far > 1.2 * near
    # The attacker knows the sex of everybody: the narrower rings give more away.
    first, second = trace(data, moved[0], k=10), trace(data, moved[1], k=10, alike=[])
    assert second.value > 1.2 * first.value
    assert first.details["homes_that_fit"] > 10 > second.details["homes_that_fit"]


def test_places_of_too_few_are_blanked_and_most_of_them_are_refused():
    data = make_data(make_homes(100), sex=["f"] * 96 + ["x"] * 4)
    with pytest.warns(HeavyLossWarning, match=r"4 of 100 places \('lat', 'lon'\) were blanked"):
        released = DisplaceCoordinates(k=5).apply(data, key=KEY)
    assert released.frame["lat"].null_count() == released.frame["lon"].null_count() == 4
    own = make_data(make_homes(100), age=list(range(100)))
    with pytest.raises(MethodError, match="fewer than 5 other persons") as error:
        DisplaceCoordinates(k=5).apply(own, key=KEY)
    assert "after those that generalise" in error.value.hint


def test_density_may_come_from_a_variable():
    homes = make_homes(100)
    density = [10.0] * 50 + [1000.0] * 49 + [None]
    data = make_data(homes, density=density)
    with pytest.warns(HeavyLossWarning, match="1 of 100"):
        shown = DisplaceCoordinates(k=20, persons_per_km2="density").apply(data, key=KEY).frame
    km = [
        measure_km(a, b)
        for a, b in zip(homes[:-1], shown.select("lat", "lon").rows()[:-1], strict=True)
    ]
    assert np.mean(km[:50]) == pytest.approx(10 * np.mean(km[50:]), rel=0.5)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"variables": ["lat", "note"]}, DataError, "'note' holds no numbers"),
        ({"variables": ["far", "lat"]}, DataError, "'far' has values beyond 90"),
        ({"variables": ["lat", "nowhere"]}, SchemaError, "'nowhere'"),
        ({"persons_per_km2": "note"}, DataError, "'note' holds no numbers"),
    ],
)
@pytest.mark.parametrize("method", [DisplaceCoordinates, GridCoordinates])
def test_what_is_no_place_is_refused(method, wrong, error, message):
    data = make_data(make_homes(30), note=["x"] * 30, far=[100.0] * 30)
    settings = {"k": 3, "alike": []} if method is DisplaceCoordinates else {"cell_km": 1}
    if method is GridCoordinates and "persons_per_km2" in wrong:
        return
    if method is GridCoordinates and "note" in message:
        error = MethodError
        message = "variable 'note'"
    with pytest.raises(error, match=message):
        method(**settings, **wrong).apply(data, key=KEY)


def test_two_pairs_or_none_must_be_named():
    data = make_data(make_homes(30))
    renamed = sf.Dataset(data.frame.rename({"lat": "x", "lon": "y"}))
    with pytest.raises(MethodError, match="No two variables are called"):
        GridCoordinates(cell_km=1).apply(renamed)
    with pytest.raises(PlanError, match="names something twice"):
        DisplaceCoordinates(variables=["lat", "lat"], k=3)


# -- traced -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [3, 5, 10])
def test_about_one_in_k_is_traced_and_no_more(k):
    data = make_data(make_homes(2000))
    found = trace(data, DisplaceCoordinates(k=k).apply(data, key=KEY), k=k)
    assert 0.4 / k < found.value < 1 / k + 0.06
    assert found.number("location_intersection_at_worst") >= found.value
    assert found.baseline == pytest.approx(1 / 2000)


def trace_slowly(homes, shown, k, inner) -> float:
    """Every person against every home, by the haversine formula and counting."""
    steps = [2 ** (n / 2) for n in range(-20, 30)]

    def ring(person):
        return next(s for s in steps if count_in_ring(homes, homes[person], person, s, inner) >= k)

    radii = [ring(person) for person in range(len(homes))]
    found = 0.0
    for person, place in enumerate(shown):
        weights = [
            1 / radius**2 if inner * radius - 0.005 <= measure_km(home, place) <= radius + 0.005
            else 0.0
            for home, radius in zip(homes, radii, strict=True)
        ]  # fmt: skip
        best = [j for j, weight in enumerate(weights) if weight > max(weights) * (1 - 1e-9)]
        found += (person in best) / len(best)
    return found / len(homes)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_attack_equals_a_slow_one(seed):
    homes = make_homes(60, seed)
    data = make_data(homes)
    released = DisplaceCoordinates(k=4).apply(data, key=KEY)
    slow = trace_slowly(homes, released.frame.rows(), 4, 0.25)
    found = trace(data, released, k=4)
    assert dict(found.table.select("way", "location_intersection").rows())[
        "homes that fit"
    ] == pytest.approx(slow, abs=1e-9)


def test_rows_that_are_displaced_one_by_one_are_intersected_and_averaged():
    """What a tool does that forgets that a person has several rows."""
    homes = make_homes(400)
    visits = 8
    once = make_data(homes, patient=[f"p{n}" for n in range(400)])
    shown = [DisplaceCoordinates(k=5).apply(once, key=bytes([n]) * 32).frame for n in range(visits)]
    data = make_data(np.tile(homes, (visits, 1)), patient=[f"p{n}" for n in range(400)] * visits)
    one_by_one = data.with_columns(pl.concat(shown).select("lat", "lon"))
    found = trace(data, one_by_one, k=5)
    ways = dict(found.table.select("way", "location_intersection").rows())
    assert ways["homes that fit"] > 0.8
    assert ways["nearest home"] > 0.25
    together = trace(data, DisplaceCoordinates(k=5).apply(data, key=KEY), k=5)
    single = trace(once, DisplaceCoordinates(k=5).apply(once, key=KEY), k=5)
    assert together.value == single.value < 0.4


def test_persons_with_several_places_are_found_by_the_pattern():
    homes, works = make_homes(300, 1), make_homes(300, 2)
    data = make_data(np.vstack([homes, works]), patient=[f"p{n}" for n in range(300)] * 2)
    found = trace(data, DisplaceCoordinates(k=5).apply(data, key=KEY), k=5)
    assert found.details["persons_with_several_places"] == 300
    assert found.value > 0.5


def test_a_place_that_many_have_in_common_is_warned_of():
    rows = np.vstack([make_homes(100), np.full((100, 2), [48.5, 12.0])])
    data = make_data(rows, patient=[f"p{n}" for n in range(100)] * 2)
    with pytest.warns(WeakProtectionWarning, match="rows of 100 of 100 persons"):
        DisplaceCoordinates(k=5).apply(data, key=KEY)


def test_others_of_the_population_hide_a_person():
    homes = make_homes(500)
    data = make_data(homes)
    how = {"k": 50, "persons_per_km2": 500.0}
    found = trace(data, DisplaceCoordinates(**how).apply(data, key=KEY), **how)
    assert found.value < 1 / 50
    assert any("population" in line for line in found.assumptions)


# -- plans --------------------------------------------------------------------------------------


def test_the_first_plan_displaces_places_and_its_release_meets_the_verdict(tmp_path):
    homes = make_homes(1500)
    sex = np.random.default_rng(2).choice(["f", "m"], 1500)
    frame = pl.DataFrame(homes, schema=["lat", "lon"]).with_columns(sex=pl.Series(sex))
    data = sf.Dataset(frame)
    plan = first_plan(data)
    assert [step.name for step in plan.steps] == ["displace_coordinates"]
    plan = sf.Plan(schema=plan.schema, steps=plan.steps, targets=plan.targets,
                   release=Writing(attack_seconds=60))  # fmt: skip
    release = sf.protect(data, plan, key=KEY)
    assert release.dataset.schema["lat"].role == "other"
    tried = release.attacks["location_intersection"]
    assert tried.computed
    assert tried.value < 0.2
    release.write(tmp_path / "out")
    assert release.manifest["methods"][0]["alike"] == ["sex"]


def test_with_more_to_generalise_the_first_plan_treats_places_with_the_rest():
    data = make_data(make_homes(300), age=list(range(20, 80)) * 5)
    steps = [step.name for step in first_plan(data, data.schema).steps]
    assert "k_anonymity" in steps
    assert "displace_coordinates" not in steps


def test_a_second_release_with_another_k_under_the_same_key_is_refused(tmp_path):
    data = make_data(make_homes(300), patient=[f"p{n}" for n in range(300)])
    for k in (5, 6):
        plan = sf.Plan(
            schema=data.schema,
            steps=[DisplaceCoordinates(k=k), sf.methods.Drop()],
            release=Writing(accept_composition="a test"),
        )
        release = sf.protect(data, plan, key=KEY)
        if k == 5:
            release.write(tmp_path / "first", ledger=tmp_path / "ledger")
        else:
            with pytest.raises(sf.SfumatoError, match="drawn again"):
                release.write(tmp_path / "second", ledger=tmp_path / "ledger")
