"""Households and other groups: what belongs to a group stays the same within it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines import LocalEngine
from sfumato.errors import MethodError, PlanError
from sfumato.methods import KAnonymity, Misclassify, Noise, NoisyCodes, Pseudonymise, Weights
from sfumato.methods.groups import find_group_level, number_groups
from sfumato.schema import Role
from sfumato.suggestion.first_plan import first_plan
from sfumato.testing.partitioned import PartitionedEngine

KEY = bytes(range(32))
ROLES: dict[str, Role | sf.Column] = {
    "house": "cluster",
    "region": "quasi",
    "rooms": sf.Column(role="quasi", kind="integer"),
    "age": sf.Column(role="quasi", kind="integer"),
    "sex": "quasi",
    "rent": "sensitive",
    "weight": "weight",
}


def make_households(households: int = 150, seed: int = 1, most: int = 5) -> sf.Dataset:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, most + 1, households)
    house = np.repeat(np.arange(households), sizes)
    frame = pl.DataFrame(
        {
            "house": [f"H{number:04d}" for number in house],
            "region": np.array(list("abcdefgh"))[random.integers(0, 8, households)][house],
            "rooms": random.integers(1, 7, households)[house],
            "age": random.integers(0, 95, len(house)),
            "sex": np.array(["f", "m"])[random.integers(0, 2, len(house))],
            "rent": random.lognormal(6, 0.5, households).round()[house],
            "weight": random.uniform(50, 500, households).round(1)[house],
        }
    )
    return sf.Dataset(frame, sf.Schema(ROLES))


def count_contradictions(data: sf.Dataset, released: sf.Dataset, name: str) -> int:
    rows = pl.DataFrame([data.frame["house"], released.frame[name].alias("shown")])
    return int((rows.group_by("house").agg(pl.col("shown").n_unique())["shown"] > 1).sum())


def test_what_belongs_to_a_household_is_found():
    data = make_households()
    names = [name for name in data.columns if name != "house"]
    expected = {"house": ["region", "rooms", "rent", "weight"]}
    assert find_group_level(data, names, LocalEngine()) == expected
    for seed in range(3):
        assert find_group_level(data, names, PartitionedEngine(seed)) == expected


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.sampled_from("abc"),
            st.none() | st.sampled_from("xy"),
            st.none() | st.sampled_from([1, 2]),
        ),
        min_size=1,
        max_size=12,
    ),
    seed=st.integers(0, 5),
)
@settings(max_examples=80, deadline=None)
def test_the_search_equals_a_slow_one_on_every_engine(rows, seed):
    types = {"group": pl.String, "first": pl.String, "second": pl.Int64}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    data = sf.Dataset(frame, sf.Schema({"group": "cluster"}))
    expected = []
    for column, name in ((1, "first"), (2, "second")):
        values: dict[str, list[Any]] = {}
        for row in rows:
            if row[0] is not None and row[column] is not None:
                values.setdefault(row[0], []).append(row[column])
        several = any(len(some) > 1 for some in values.values())
        if several and all(len(set(some)) == 1 for some in values.values()):
            expected.append(name)
    for engine in (LocalEngine(), PartitionedEngine(seed)):
        found = find_group_level(data, ["first", "second"], engine)
        assert found == ({"group": expected} if expected else {})


def test_rows_without_a_group_are_their_own():
    assert len(set(number_groups(pl.Series(["a", None, "a", None])).tolist())) == 3


@pytest.mark.parametrize(
    "method",
    [
        KAnonymity(k=5),
        KAnonymity(k=5, output="value"),
        KAnonymity(k=3, strata=["sex"]),
        KAnonymity(k=4, variables=["region", "rooms"]),
        KAnonymity(k=5, output={"region": "set", "age": "mean"}),
        Misclassify(variables=["region"], retention=0.7),
        NoisyCodes(variables=["rooms"], variance=0.3),
        Noise(variables=["rent"], sd_share=0.3),
        Weights(),
    ],
    ids=lambda method: method.name,
)
def test_what_belongs_to_a_household_stays_the_same_within_it(method):
    """Region differed within 53 % of the households of a survey."""
    data = make_households()
    released = method.apply(data, key=KEY)
    for name in ("region", "rooms", "rent", "weight"):
        assert count_contradictions(data, released, name) == 0
    changed = [n for n in method.touches(data.schema) if n in data.columns]
    assert any(not released.frame[name].equals(data.frame[name]) for name in changed)


@pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning")
@given(
    seed=st.integers(0, 10**6),
    households=st.integers(6, 60),
    most=st.integers(1, 6),
    k=st.integers(2, 6),
    strata=st.sampled_from([[], ["sex"]]),
)
@settings(max_examples=25, deadline=None)
def test_no_class_is_smaller_than_k_and_no_member_contradicts_another(
    seed, households, most, k, strata
):
    data = make_households(households, seed, most)
    try:
        released = KAnonymity(k=k, strata=strata).apply(data)
    except MethodError:
        # Fewer than k records of a sex, or fewer households than k.
        sexes = data.frame["sex"].value_counts()["count"].min()
        assert households < k or len(data) < k or (strata and sexes < k)
        return
    known = ["region", "rooms", "age", "sex"]
    sizes = released.frame.group_by(known).len()["len"]
    assert sizes.min() >= k
    several = data.frame["house"].is_duplicated().any()
    for name in ("region", "rooms"):
        assert not several or count_contradictions(data, released, name) == 0


def test_groups_that_hide_their_members_keep_what_belongs_to_them():
    random = np.random.default_rng(1)
    site = np.repeat(np.arange(3), 40)
    frame = pl.DataFrame(
        {
            "site": site,
            "country": np.array(["AT", "CH", "DE"])[site],
            "age": random.integers(18, 90, 120),
        }
    )
    data = sf.Dataset(frame, sf.Schema({"site": "cluster", "country": "quasi", "age": "quasi"}))
    released = KAnonymity(k=5).apply(data)
    assert released.frame["country"].equals(frame["country"])
    assert released.frame.group_by("country", "age").len()["len"].min() >= 5


def test_too_few_groups_are_an_error_that_names_the_variable():
    data = make_households(3, most=2)
    with pytest.raises(MethodError, match="'region', 'rooms' belong to groups") as error:
        KAnonymity(k=4).apply(sf.Dataset(pl.concat([data.frame] * 2), data.schema))
    assert error.value.hint


def test_elsewhere_it_is_refused():
    data = make_households(40)
    with pytest.raises(MethodError, match="same within each group of 'house'"):
        KAnonymity(k=3).apply(data, engine=PartitionedEngine(1))


def test_noise_of_a_group_is_the_same_in_the_next_extract_and_said_in_the_manifest():
    data = make_households(60)
    later = data.take(np.random.default_rng(3).permutation(len(data))[: len(data) // 2])
    method = Noise(variables=["rent"], sd_share=0.3)
    first, second = (method.apply(some, key=KEY).frame for some in (data, later))
    before = dict(first.select("house", "rent").iter_rows())
    # The standard deviation of fewer households is another one, and so is the size of the noise.
    same = Noise(variables=["rent"], variance=100.0)
    first, second = (same.apply(some, key=KEY).frame for some in (data, later))
    before = dict(first.select("house", "rent").iter_rows())
    assert all(before[house] == rent for house, rent in second.select("house", "rent").iter_rows())
    fitted = method.fit(data, LocalEngine())
    assert method.public(fitted)["drawn_once_per_group"] == ["rent"]
    assert method.follows(fitted)["rent"]["by_group"] is True


def test_numbers_of_households_never_leave_as_they_are():
    data = make_households()
    steps = [KAnonymity(k=5), Noise(sd_share=0.2), Weights()]
    with pytest.raises(PlanError, match="groups of 'house' would be released") as error:
        sf.protect(data, sf.Plan(schema=data.schema, steps=steps), key=KEY)
    assert "pseudonymise" in error.value.hint
    hidden = [*steps, Pseudonymise(variables=["house"])]
    release = sf.protect(data, sf.Plan(schema=data.schema, steps=hidden), key=KEY)
    codes = release.dataset.frame["house"]
    assert not set(codes) & set(data.frame["house"])
    assert codes.n_unique() == data.frame["house"].n_unique()
    new_numbers = data.schema.with_columns({"house": sf.Column(role="cluster", cells="values")})
    assert sf.protect(data, sf.Plan(schema=new_numbers, steps=steps), key=KEY)


def test_numbers_of_large_groups_never_leave_as_they_are_either():
    frame = pl.DataFrame({"school": ["north"] * 40 + ["south"] * 40, "age": [*range(40)] * 2})
    data = sf.Dataset(frame, sf.Schema({"school": "cluster", "age": "other"}))
    with pytest.raises(PlanError, match="groups of 'school' would be released"):
        sf.protect(data, sf.Plan(schema=data.schema), key=KEY)
    hiding: Any = first_plan(sf.Dataset(frame), data.schema).steps[-1]
    assert hiding.variables == ["school"]
    hidden = Pseudonymise(variables=["school"], namespace="group")
    codes = [
        sf.protect(some, sf.Plan(schema=data.schema, steps=[hidden]), key=KEY).data["school"]
        for some in (data, data.take(np.arange(60)))
    ]
    assert codes[0].n_unique() == 2
    assert codes[0][:60].equals(codes[1])  # the same in a later release


@pytest.mark.parametrize(
    "step",
    [
        sf.methods.LDiversity(variables=["region", "age"], confidential="rent", l=2, k=4),
        sf.methods.TCloseness(variables=["region", "age"], confidential="rent", t=0.6, k=4),
        sf.methods.Deterministic(variables=["rent", "age"], k=3),
    ],
)
def test_a_method_that_lets_members_contradict_each_other_is_refused(step):
    data = make_households()
    steps = [step, Pseudonymise(variables=["house"])]
    name = "rent" if step.name == "deterministic" else "region"
    with pytest.raises(PlanError, match=f"In '{name}', members of a group") as error:
        sf.protect(data, sf.Plan(schema=data.schema, steps=steps), key=KEY)
    assert "k_anonymity" in error.value.hint
    unseen = [step, sf.methods.Drop(variables=["house"])]
    assert sf.protect(data, sf.Plan(schema=data.schema, steps=unseen), key=KEY)


def test_the_first_plan_of_a_household_survey_hides_the_numbers():
    data = make_households(300)
    frame = data.frame.drop("region", "rooms", "weight")
    schema = sf.Schema({name: ROLES[name] for name in frame.columns})
    plan = first_plan(sf.Dataset(frame), schema)
    assert plan.steps[-1].name == "pseudonymise"
    release = sf.protect(sf.Dataset(frame), plan, key=KEY)
    assert not set(release.dataset.frame["house"]) & set(frame["house"])
    assert count_contradictions(data, release.dataset, "rent") == 0
