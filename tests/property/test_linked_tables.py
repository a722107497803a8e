"""Random persons, visits and samples: no joined class under k is ever met, and keys always join."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError, TargetError

# Of so few persons much is lost, and much is constant.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning"),
    pytest.mark.filterwarnings("ignore::sfumato.errors.WeakProtectionWarning"),
]
KEY = sf.Key(bytes(range(32)))
KEYS = {"visits.person": "persons.id", "samples.visit": "visits.visit"}
words = st.sampled_from(["a", "b", "c", None])


@st.composite
def clinics(draw):
    """Persons, their visits, and samples of the visits; some persons have none."""
    persons = draw(st.integers(2, 9))
    own = [(f"p{i}", draw(words), draw(st.integers(0, 3))) for i in range(persons)]
    owners = draw(st.lists(st.integers(0, persons - 1), min_size=1, max_size=14))
    visits = [(100 + i, f"P{owner} ", draw(words)) for i, owner in enumerate(owners)]
    of = draw(st.lists(st.integers(0, len(visits) - 1), min_size=1, max_size=14))
    samples = [(str(100 + i), draw(words)) for i in of]
    height = {f"p{i}": draw(st.integers(150, 190)) for i in range(persons)}
    return {
        "persons": pl.DataFrame(own, schema=["id", "sex", "age"], orient="row").cast(
            {"sex": pl.String}
        ),
        "visits": pl.DataFrame(visits, schema=["visit", "person", "ward"], orient="row")
        .cast({"ward": pl.String})
        .with_columns(height=pl.Series([height[p.strip().lower()] for _, p, _ in visits])),
        "samples": pl.DataFrame(samples, schema=["visit", "test"], orient="row").cast(
            {"test": pl.String}
        ),
    }


def make_plan(k: int, *, row_counts: bool, steps, noise: bool = False, targets: bool = True):
    of_visits = [sf.methods.Noise(variables=["height"], sd_share=0.5)] if noise else []
    return sf.Plan(
        tables={
            "persons": sf.Plan(schema={"sex": "quasi", "age": "quasi"}),
            "visits": sf.Plan(schema={"ward": "quasi", "height": "sensitive"}, steps=of_visits),
            "samples": sf.Plan(schema={"test": "quasi"}),
        },
        keys=KEYS,
        person="persons.id",
        steps=steps,
        targets={"k.min": k} if targets else {},
        evaluate=[sf.risk.Uniqueness(row_counts=row_counts)],
    )


def list_lives(data: dict[str, pl.DataFrame], *, row_counts: bool) -> dict[str, Any]:
    """In plain Python, all that the joined tables show of each person."""
    own = {row["id"]: (row["sex"], row["age"]) for row in data["persons"].to_dicts()}
    visits = {row["visit"]: row for row in data["visits"].to_dicts()}
    rows: dict[str, list[tuple[object, ...]]] = {person: [("persons",)] for person in own}
    for row in visits.values():
        rows[row["person"]].append(("visits", row["ward"]))
    for row in data["samples"].to_dicts():
        visit = visits[row["visit"]]
        rows[visit["person"]].append(("samples", visit["ward"], row["test"]))
    if row_counts:
        return {
            person: (own[person], tuple(sorted(Counter(rows[person]).items(), key=repr)))
            for person in own
        }
    return {person: (own[person], frozenset(rows[person])) for person in own}


def count_by_hand(data: dict[str, pl.DataFrame], *, row_counts: bool) -> int:
    """The smallest number of persons who share all of theirs, or one of their rows."""
    lives = list_lives(data, row_counts=row_counts)
    everything = Counter(lives.values())
    sets = list_lives(data, row_counts=False)
    having = Counter((own, row) for own, rows in sets.values() for row in rows)
    return min(*(everything[life] for life in lives.values()), *having.values())


def learn_by_hand(data: dict[str, pl.DataFrame], *, row_counts: bool) -> dict[str, float]:
    """What is learnt of `samples.test`, in plain Python: disclosed persons, l, and t."""
    lives = list_lives({**data, "samples": data["samples"].with_columns(test=None)},
                       row_counts=row_counts)  # fmt: skip
    own = {row["id"]: (row["sex"], row["age"]) for row in data["persons"].to_dicts()}
    visits = {row["visit"]: row for row in data["visits"].to_dicts()}
    # By what somebody knows: everything of a person, or one row that has the value.
    groups: dict[str, dict[object, dict[str, set[Any]]]] = {"everything": {}, "one row": {}}
    for row in data["samples"].to_dicts():
        visit = visits[row["visit"]]
        person = visit["person"]
        known = {"everything": lives[person], "one row": (own[person], visit["ward"])}
        for outsider, group in known.items():
            values = groups[outsider].setdefault(group, {}).setdefault(person, set())
            values.add(row["test"])
    disclosed, fewest, farthest = 0, 99, 0.0
    for by_group in groups.values():
        persons = [
            set(members)
            for members in by_group.values()
            if set.intersection(*members.values()) - {None}
        ]
        disclosed = max(disclosed, len(set().union(*persons)))
        pairs = [[v for values in m.values() for v in values] for m in by_group.values()]
        every = Counter(value for values in pairs for value in values)
        for shown in pairs:
            mine = Counter(shown)
            fewest = min(fewest, len(mine))
            apart = [mine[v] / len(shown) - n / sum(every.values()) for v, n in every.items()]
            farthest = max(farthest, sum(map(abs, apart)) / 2)
    return {"disclosed": disclosed, "l": fewest, "t": farthest}


def read(release) -> dict[str, pl.DataFrame]:
    return dict(release.data)


@settings(max_examples=60)
@given(clinics(), st.integers(2, 4), st.booleans())
def test_no_joined_class_under_k_is_ever_met(tables, k, row_counts):
    """Whatever is released as met is met when persons are counted in plain Python."""
    for steps in ([], [sf.methods.KAnonymity(k=k)]):
        plan = make_plan(k, row_counts=row_counts, steps=steps)
        try:
            release = sf.protect(tables, plan, key=KEY)
        except TargetError as missed:
            found = missed.evidence["joined view.uniqueness"]
            assert found.details["k_at_worst"] < k
            continue
        except MethodError:
            assert steps  # too few persons to hide among
            continue
        smallest = count_by_hand(read(release), row_counts=row_counts)
        assert smallest >= k
        assert release.evidence["uniqueness"].details["k_at_worst"] == smallest


@settings(max_examples=60)
@given(clinics(), st.booleans())
def test_the_joined_view_is_counted_as_in_plain_python(tables, row_counts):
    release = sf.protect(
        tables, make_plan(2, row_counts=row_counts, steps=[], targets=False), key=KEY
    )
    found = release.evidence["uniqueness"].details
    assert found["k_at_worst"] == count_by_hand(read(release), row_counts=row_counts)
    assert found["persons"] == len(tables["persons"])


@settings(max_examples=60)
@given(clinics(), st.booleans())
def test_what_is_learnt_over_tables_is_counted_as_in_plain_python(tables, row_counts):
    """Of confidential values in another table, by who knows one row and who knows everything."""
    assume(tables["samples"]["test"].is_not_null().any())
    roles: dict[str, Any] = {
        "persons": {"sex": "quasi", "age": "quasi"},
        "visits": {"ward": "quasi"},
        "samples": {"test": "sensitive"},
    }
    linked = sf.LinkedTables(
        {name: sf.Dataset(tables[name], sf.Schema(own)) for name, own in roles.items()},
        keys=KEYS,
        person="persons.id",
    )
    measures = [sf.risk.Uniqueness(row_counts=row_counts), sf.risk.AttributeDisclosure(),
                sf.risk.Diversity(), sf.risk.Closeness()]  # fmt: skip
    found = sf.assess(linked, measures)
    spelt = {**tables, "visits": tables["visits"].with_columns(
        pl.col("person").str.strip_chars().str.to_lowercase())}  # fmt: skip
    spelt["samples"] = tables["samples"].with_columns(pl.col("visit").cast(pl.Int64))
    expected = learn_by_hand(spelt, row_counts=row_counts)
    assert found["attribute_disclosure"].details["disclosed_records"] == expected["disclosed"]
    assert found["diversity"].value == expected["l"]
    assert found["closeness"].value == pytest.approx(expected["t"], abs=1e-12)
    assert found["diversity"].at_worst <= found["diversity"].value


@settings(max_examples=10)
@given(clinics(), st.booleans())
def test_two_releases_together_are_counted_as_in_plain_python(tables, row_counts):
    """Persons are alike who have the same life in both, which the same pseudonyms join."""
    releases: list[Any] = []
    for hidden in ("persons.sex", "visits.ward"):
        table, variable = hidden.split(".")
        plan = make_plan(2, row_counts=row_counts, steps=[], targets=False)
        own = plan.tables[table]
        drop = sf.methods.Drop(variables=[variable])
        changed = sf.Plan(schema=own.schema, steps=[*own.steps, drop])
        plan = sf.Plan(
            tables={**plan.tables, table: changed}, keys=KEYS, person="persons.id",
            evaluate=plan.evaluate,
        )  # fmt: skip
        releases.append(sf.protect(tables, plan, key=KEY, earlier=releases))
    blank = {"sex": pl.lit(None), "ward": pl.lit(None)}
    shown = [
        {
            "persons": read(release)["persons"].with_columns(
                **({"sex": blank["sex"]} if at == 0 else {})
            ),
            "visits": read(release)["visits"].with_columns(
                **({"ward": blank["ward"]} if at else {})
            ),
            "samples": read(release)["samples"],
        }
        for at, release in enumerate(releases)
    ]
    first, second = (list_lives(data, row_counts=row_counts) for data in shown)
    both = Counter((first[person], second[person]) for person in first)
    found = releases[1].evidence["composition"]
    assert found.value == min(both.values())
    assert found.details["composed_unique_records"] == sum(n == 1 for n in both.values())


@settings(max_examples=40)
@given(clinics(), st.integers(2, 3))
def test_k_over_all_tables_holds_for_who_does_not_know_the_number_of_rows(tables, k):
    """The step promises it, so the target is never missed after it."""
    plan = make_plan(k, row_counts=False, steps=[sf.methods.KAnonymity(k=k)])
    try:
        release = sf.protect(tables, plan, key=KEY)
    except MethodError:
        return
    assert release.verdict[0].met


@settings(max_examples=40)
@given(clinics(), st.integers(2, 3))
def test_keys_always_join_and_constants_stay_constant(tables, k):
    plan = make_plan(
        k, row_counts=False, steps=[sf.methods.KAnonymity(k=k)], noise=True, targets=False
    )
    try:
        data = read(sf.protect(tables, plan, key=KEY))
    except MethodError:
        return
    assert data["persons"]["id"].is_unique().all()
    assert {*data["visits"]["person"]} <= {*data["persons"]["id"]}
    assert {*data["samples"]["visit"]} <= {*data["visits"]["visit"]}
    assert not {*data["persons"]["id"]} & {*tables["persons"]["id"]}
    within = data["visits"].group_by("person").agg(pl.col("height").n_unique())
    before = tables["visits"].group_by("person").len()
    if (before["len"] > 1).any():  # else nothing says that it is a person's
        assert (within["height"] == 1).all()
