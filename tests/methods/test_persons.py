"""Methods on tables in which a person has several rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines import LocalEngine
from sfumato.errors import MethodError, WeakProtectionWarning
from sfumato.methods.persons import BY_PERSON, ONCE, count_changes, find_constant
from sfumato.testing.partitioned import PartitionedEngine
from sfumato.testing.samples import write_content as content

KEY = bytes(range(32))
SCHEMA = sf.Schema(
    {
        "patient": "person",
        "sex": sf.Column(role="quasi", kind="nominal", domain=("f", "m", "x")),
        "height": "quasi",
        "size": "sensitive",
        "age": "quasi",
        "ward": sf.Column(role="quasi", kind="nominal", domain=("a", "b", "c", "d")),
    }
)


def make_visits(persons: int, seed: int, *, gaps: bool = False) -> pl.DataFrame:
    """Visits of persons: sex, height and size are constant, age and ward change."""
    random = np.random.default_rng(seed)
    rows = 1 + random.poisson(2, persons)
    rows[0] = 3
    patient = np.repeat(np.arange(persons), rows)
    total = len(patient)
    frame = pl.DataFrame(
        {
            "patient": [f"P{number:03d}" for number in patient],
            "sex": random.choice(["f", "m"], persons)[patient],
            "height": random.normal(170, 10, persons).round(1)[patient],
            "size": random.integers(36, 47, persons)[patient],
            "age": random.integers(20, 90, persons)[patient] + random.integers(0, 3, total),
            "ward": random.choice(["a", "b", "c", "d"], total),
        }
    )
    if gaps:
        missing = pl.Series(random.random(total) < 0.2)
        frame = frame.with_columns(frame["sex"].set(missing, None))
    return frame[random.permutation(total)]


def visits(persons: int, seed: int, **options: bool) -> sf.Dataset:
    return sf.Dataset(make_visits(persons, seed, **options), SCHEMA)


def values_of(data: sf.Dataset, name: str, persons: pl.Series) -> dict[str, set[Any]]:
    """The different values of each person that are not missing."""
    found: dict[str, set[Any]] = defaultdict(set)
    for person, value in zip(persons, data.column(name), strict=True):
        found[person] |= set() if value is None else {value}
    return found


NOISES = [
    sf.methods.Noise(variables=["height", "size", "age"], variance_share=0.3),
    sf.methods.Noise(variables=["height", "age"], variance_share=0.3, distribution="laplace"),
    sf.methods.CorrelatedNoise(variables=["age", "height", "size"], noise_share=0.3, partly=True),
    sf.methods.NoisyCodes(variables=["sex", "ward"], variance=0.3),
    sf.methods.NoisyCodes(variables=["sex", "ward"], variance=0.5, ends="round"),
    sf.methods.Misclassify(variables=["sex", "ward"], retention=0.6, towards="equal"),
    sf.methods.Misclassify(
        variables=["sex", "ward"], retention={"sex": 0.7, "ward": 0.6}, invariant=True
    ),
]
CONSTANT = {"sex", "height", "size"}


@pytest.mark.parametrize("method", NOISES)
@pytest.mark.parametrize("gaps", [False, True])
@given(seed=st.integers(0, 10_000), persons=st.integers(25, 60))
@settings(max_examples=8, deadline=None)
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakProtectionWarning")
def test_constants_stay_constant(method, gaps, seed, persons):
    data = visits(persons, seed, gaps=gaps)
    released = method.apply(data, key=KEY)
    for name in method.variables:
        before, after = (values_of(d, name, data.frame["patient"]) for d in (data, released))
        assert released.column(name).is_null().equals(data.column(name).is_null())
        if name in CONSTANT:
            assert all(len(values) <= 1 for values in after.values())
            assert before != after
        else:
            assert any(len(values) > 1 for values in after.values())
    split = method.apply(data, key=KEY, engine=PartitionedEngine(seed))
    assert content(split) == content(released)


@pytest.mark.parametrize("method", NOISES)
def test_the_manifest_says_what_was_drawn_once(method):
    data = visits(40, 1)
    plan = sf.Plan(steps=[sf.methods.Pseudonymise(variables=["patient"]), method], schema=SCHEMA)
    release = sf.protect(data, plan, key=KEY)
    constant = [name for name in method.variables if name in CONSTANT]
    assert release.manifest["methods"][1][ONCE] == constant
    # A release without persons says nothing of it.
    alone = data.frame.unique("patient").drop("patient")
    fitted = method.fit(sf.Dataset(alone, SCHEMA.without(["patient"])), LocalEngine())
    assert ONCE not in method.public(fitted)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_weights_stay_constant_and_totals_are_kept(seed):
    random = np.random.default_rng(seed)
    frame = make_visits(60, seed)
    exact = dict(zip(frame["patient"].unique().sort(), random.lognormal(1, 0.5, 60), strict=True))
    frame = frame.with_columns(frame["patient"].replace_strict(exact).alias("w"))
    schema = SCHEMA.with_columns({"w": sf.Column(role="weight")})
    data = sf.Dataset(frame, schema)
    method = sf.methods.Weights(levels=5, domains=["sex"])
    released = method.apply(data, key=KEY)
    shown = values_of(released, "w", frame["patient"])
    assert all(len(values) == 1 for values in shown.values())
    order = random.permutation(len(data))
    shuffled = method.apply(sf.Dataset(frame[order], schema), key=KEY)
    assert content(shuffled) == content(released.take(order))
    levels = sorted(released.frame["w"].unique())
    most = frame["patient"].value_counts()["count"].max()
    # Within each level and domain, the rows of one person may go up together.
    room = 2 * (levels[-1] - levels[0]) * most
    cut = frame["w"].clip(levels[0], levels[-1]).sum()
    assert abs(released.frame["w"].sum() - cut) <= room


@pytest.mark.parametrize(
    "before", [None, sf.methods.Drop(), sf.methods.Pseudonymise(variables=["patient"])]
)
def test_a_table_of_persons_and_one_of_visits_get_the_same_noise(before):
    data = visits(40, 3)
    frame = data.frame.unique("patient", maintain_order=True)
    persons = sf.Dataset(frame, SCHEMA.changed(["patient"], role="direct"))
    method = sf.methods.Noise(variables=["height"], variance=9.0)
    by_row = data if before is None else before.apply(data, key=KEY)
    shown = data.frame.with_columns(method.apply(by_row, key=KEY).frame["height"].alias("noisy"))
    expected = persons.frame.with_columns(
        method.apply(persons, key=KEY).frame["height"].alias("noisy")
    )
    joined = shown.join(expected.select("patient", "noisy"), on="patient")
    assert joined["noisy"].equals(joined["noisy_right"].alias("noisy"))


def test_noise_of_persons_has_the_stated_variance_and_correlation():
    persons = 20_000
    random = np.random.default_rng(1)
    both = random.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], persons).round(3)
    patient = np.repeat(np.arange(persons), 2)
    frame = pl.DataFrame(
        {
            "patient": patient,
            "x": (both[:, 0])[patient] + random.normal(0, 0.01, 2 * persons).round(4),
            "y": both[:, 1][patient],
        }
    )
    schema = sf.Schema({"patient": "person", "x": "sensitive", "y": "sensitive"})
    method = sf.methods.CorrelatedNoise(variables=["x", "y"], noise_share=0.5)
    released = method.apply(sf.Dataset(frame, schema), key=KEY).frame
    assert released["y"].to_numpy().reshape(-1, 2).std(axis=1).max() == 0
    assert np.corrcoef(released["x"], released["y"])[0, 1] == pytest.approx(0.6, abs=0.02)
    assert released["x"].std() == pytest.approx(1, abs=0.02)
    assert released["y"].std() == pytest.approx(1, abs=0.02)


@given(seed=st.integers(0, 10_000), persons=st.integers(1, 30), gaps=st.booleans())
@settings(max_examples=25, deadline=None)
def test_changes_are_counted_as_a_loop_does(seed, persons, gaps):
    data = visits(persons, seed, gaps=gaps)
    names = ["sex", "height", "age", "ward"]
    engines = (LocalEngine(), PartitionedEngine(seed))
    for strict in (False, True):
        counted = [count_changes(data, names, e, missing_differs=strict) for e in engines]
        assert counted[0] == counted[1]
        for name in names:
            rows: dict[str, list[Any]] = defaultdict(list)
            for person, value in zip(data.frame["patient"], data.frame[name], strict=True):
                rows[person] += [value] if strict or value is not None else []
            several = [values for values in rows.values() if len(values) > 1]
            different = [values for values in several if len(set(values)) > 1]
            assert counted[0][name] == (len(several), len(different))


def test_a_variable_that_changes_for_a_few_is_warned_of():
    frame = make_visits(200, 5)
    wrong = frame.with_row_index().with_columns(
        pl.when(pl.col("index") == 7).then(pl.lit("x")).otherwise(pl.col("sex")).alias("sex")
    )
    data = sf.Dataset(wrong.drop("index"), SCHEMA)
    with pytest.warns(WeakProtectionWarning, match="'sex' has different values within 1 of"):
        assert find_constant(data, ["sex"], LocalEngine()) == []


def test_nothing_is_drawn_by_person_where_nobody_has_two_rows():
    frame = make_visits(40, 5).unique("patient", maintain_order=True)
    fitted = sf.methods.Noise(variables=["height"], variance=1.0).fit(
        sf.Dataset(frame, SCHEMA), LocalEngine()
    )
    assert BY_PERSON not in fitted["height"]


# Clusters of persons -----------------------------------------------------------------------------


def count_persons_of_classes(data: sf.Dataset, persons: pl.Series, names) -> Counter[Any]:
    """By combination of released cells how many different persons have it, in plain Python."""
    members = defaultdict(set)
    rows = data.frame.select(names).rows()
    for row, person in zip(rows, persons, strict=True):
        members[row].add(person)
    return Counter({row: len(people) for row, people in members.items()})


CLUSTERINGS: list[dict[str, Any]] = [
    {},
    {"strata": ["sex"]},
    {"variables": ["age", "height"], "clustering": "mdav", "output": "mean"},
    {"variables": ["age", "height"], "clustering": "origin"},
    {"output": {"age": "median", "ward": "mode"}},
    {"ends": "observed", "output": "set"},
]


@pytest.mark.parametrize("options", CLUSTERINGS)
@given(
    seed=st.integers(0, 10_000),
    persons=st.integers(12, 60),
    k=st.integers(2, 6),
    gaps=st.booleans(),
)
@settings(max_examples=12, deadline=None)
@pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning")
def test_no_class_has_fewer_than_k_persons(options, seed, persons, k, gaps):
    gaps = gaps and "strata" not in options
    data = visits(persons, seed, gaps=gaps)
    method = sf.methods.KAnonymity(k=k, **options)
    try:
        released = method.apply(data)
    except MethodError as error:
        assert "strat" in str(error)  # one of the two is too small
        return
    names = [*method.touches(data.schema), *method.strata]
    classes = count_persons_of_classes(released, data.frame["patient"], names)
    assert min(classes.values()) >= k
    # All rows of a person are alike.
    for name in method.touches(data.schema):
        shown = defaultdict(set)
        for person, cell in zip(data.frame["patient"], released.frame[name], strict=True):
            shown[person].add(cell)
        assert all(len(cells) == 1 for cells in shown.values())
    measured = sf.risk.Uniqueness(known=names).measure(released)
    assert measured.details["k"] == min(classes.values())


@given(seed=st.integers(0, 10_000), persons=st.integers(12, 60), gaps=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_cell_covers_all_values_of_its_class(seed, persons, gaps):
    data = visits(persons, seed, gaps=gaps)
    released = sf.methods.KAnonymity(k=3).apply(data)
    for name in ("age", "ward", "height", "sex"):
        for value, cell in zip(data.frame[name], released.frame[name], strict=True):
            text = str(cell)
            if text.startswith("["):
                low, high = map(float, text.strip("[]").split(";"))
                assert low <= value <= high
            elif text.startswith("{"):
                assert value in text.strip("{}").split(";")
            elif cell != "*":
                assert cell == value or str(cell) == str(value)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_clusters_of_persons_do_not_depend_on_the_order_of_rows(seed):
    data = visits(40, seed)
    order = np.random.default_rng(seed).permutation(len(data))
    for options in CLUSTERINGS[:4]:
        method = sf.methods.KAnonymity(k=4, **options)
        shuffled = sf.Dataset(data.frame[order], SCHEMA)
        assert content(method.apply(shuffled)) == content(method.apply(data).take(order))


def test_persons_with_one_row_are_clustered_as_records_are():
    frame = make_visits(60, 9).unique("patient", maintain_order=True)
    for options in CLUSTERINGS[:3]:
        method = sf.methods.KAnonymity(k=4, **options)
        records = SCHEMA.changed(["patient"], role="direct")
        as_records = method.apply(sf.Dataset(frame, records))
        as_persons = method.apply(sf.Dataset(frame, SCHEMA))
        assert content(as_records) == content(as_persons)


@pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning")
def test_diverse_and_close_clusters_of_persons():
    data = visits(80, 2)
    diverse = sf.methods.LDiversity(variables=["age"], confidential="sex", k=4, l=2)
    released = diverse.apply(data)
    classes = defaultdict(set)
    for age, sex in zip(released.frame["age"], data.frame["sex"], strict=True):
        classes[age].add(sex)
    assert all(len(found) == 2 for found in classes.values())
    counted = count_persons_of_classes(released, data.frame["patient"], ["age"])
    assert min(counted.values()) >= 4
    close = sf.methods.TCloseness(variables=["age"], confidential="sex", k=4, t=0.2).apply(data)
    evidence = sf.risk.Closeness(confidential=["sex"], known=["age"]).measure(close)
    assert evidence.value <= 0.2
    with pytest.raises(MethodError, match="'ward' is confidential, and has different") as refused:
        sf.methods.LDiversity(variables=["age"], confidential="ward", k=4).apply(data)
    assert "thin_rows" in refused.value.hint
    with pytest.raises(MethodError, match="'ward' is a stratum"):
        sf.methods.KAnonymity(variables=["age"], strata=["ward"], k=2).apply(data)


def test_elsewhere_clusters_of_persons_are_refused():
    with pytest.raises(MethodError, match="only where one machine"):
        sf.methods.KAnonymity(k=4).apply(visits(40, 1), engine=PartitionedEngine(1))


def test_too_few_persons_are_said():
    with pytest.raises(MethodError, match="There are 3 persons, and k = 4"):
        sf.methods.KAnonymity(k=4).apply(visits(3, 1))


# Other methods that count ------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), persons=st.integers(6, 40), k=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_suppression_counts_persons(seed, persons, k):
    data = visits(persons, seed)
    method = sf.methods.Suppress(variables=["sex", "size"], k=k)
    released = method.apply(data)
    classes = count_persons_of_classes(released, data.frame["patient"], ["sex", "size"])
    assert min(classes.values()) >= k
    assert content(method.apply(data, engine=PartitionedEngine(seed))) == content(released)
    with pytest.raises(MethodError, match="ward") as refused:
        sf.methods.Suppress(variables=["sex", "ward"], k=k).apply(visits(40, seed))
    assert "k_anonymity" in refused.value.hint


@given(seed=st.integers(0, 10_000), persons=st.integers(20, 60), fewest=st.integers(2, 12))
@settings(max_examples=20, deadline=None)
def test_joined_values_have_so_many_persons(seed, persons, fewest):
    data = visits(persons, seed)
    method = sf.methods.Recode(variables=["ward", "size"], fewest=fewest)
    released = method.apply(data)
    for name in ("ward", "size"):
        classes = count_persons_of_classes(released, data.frame["patient"], [name])
        assert min(classes.values()) >= fewest
    assert content(method.apply(data, engine=PartitionedEngine(seed))) == content(released)


@given(
    seed=st.integers(0, 10_000),
    persons=st.integers(1, 30),
    most=st.integers(1, 4),
    ordered=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_so_many_rows_stay(seed, persons, most, ordered):
    data = visits(persons, seed)
    method = sf.methods.ThinRows(most=most, variables=["age", "ward"] if ordered else None)
    kept = method.apply(data, key=KEY)
    before, after = (Counter(frame["patient"]) for frame in (data.frame, kept.frame))
    assert after == {person: min(rows, most) for person, rows in before.items()}
    if ordered:
        for person in before:
            rows = [
                sorted(frame.filter(pl.col("patient") == person).select("age", "ward").rows())
                for frame in (data.frame, kept.frame)
            ]
            assert rows[1] == rows[0][:most]
    order = np.random.default_rng(seed).permutation(len(data))
    again = method.apply(sf.Dataset(data.frame[order], SCHEMA), key=KEY)
    assert sorted(again.frame.rows()) == sorted(kept.frame.rows())
    # A smaller limit under the same key shows no row that a larger one does not.
    fewer = method.apply(kept, key=KEY)
    assert fewer.frame.equals(kept.frame)


def test_centres_of_neighbours_are_refused_where_these_may_be_rows_of_one_person():
    method = sf.methods.Deterministic(variables=["height", "age"], k=3)
    with pytest.raises(MethodError, match="a person may have several") as refused:
        method.apply(visits(40, 1))
    assert "thin_rows" in refused.value.hint
    method.apply(sf.methods.ThinRows(most=1).apply(visits(40, 1), key=KEY))


@given(seed=st.integers(0, 10_000), persons=st.integers(5, 30))
@settings(max_examples=20, deadline=None)
def test_what_never_changes_is_regenerated_once(seed, persons):
    data = visits(persons, seed, gaps=True)
    masked = np.random.default_rng(seed).random(persons) < 0.4
    masked[0] = False
    number = data.frame["patient"].str.tail(3).cast(pl.Int64).to_numpy()
    sizes = data.frame["size"].cast(pl.String).set(pl.Series(masked[number]), "*")
    schema = data.schema.changed(["size"], cells="generalised", kind="integer")
    shown = sf.Dataset(data.frame.with_columns(sizes), schema)
    method = sf.methods.Regenerate(variables=["size", "sex"], marginal="observed")
    filled = method.apply(shown, key=KEY)
    constant = filled.frame.group_by("patient").agg(pl.col("size", "sex").n_unique())
    assert constant["size"].max() == constant["sex"].max() == 1
    assert filled.frame["sex"].null_count() == 0
    told = data.frame["sex"].is_not_null()
    assert filled.frame["sex"].filter(told).equals(data.frame["sex"].filter(told))
    open_cells = pl.Series(~masked[number])
    kept = filled.frame["size"].cast(pl.Int64).filter(open_cells)
    assert kept.equals(data.frame["size"].filter(open_cells))
    assert set(method.fit(shown, LocalEngine())[ONCE]) == {"size", "sex"}
    order = np.random.default_rng(seed).permutation(len(data))
    again = method.apply(sf.Dataset(shown.frame[order], schema), key=KEY)
    assert sorted(again.frame.rows()) == sorted(filled.frame.rows())


def test_counts_of_what_never_changes_count_persons():
    frame = pl.DataFrame({"patient": [1, 1, 2, 3, 3, 3], "group": ["*", "*", "a", "*", "*", "*"]})
    group = sf.Column(role="quasi", kind="nominal", cells="generalised")
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "group": group}))
    step = sf.methods.Regenerate(variables=["group"], counts={"group": {"b": 1, "c": 1}})
    filled = step.apply(data, key=KEY).frame
    by_person = filled.group_by("patient").agg(pl.col("group").unique()).sort("patient")
    values = [group for [group] in by_person["group"].to_list()]
    assert values[1] == "a"
    assert sorted([values[0], values[2]]) == ["b", "c"]
    with pytest.raises(MethodError, match="add up to 5"):
        sf.methods.Regenerate(variables=["group"], counts={"group": {"b": 5}}).apply(data, key=KEY)


def test_a_matrix_by_frequencies_counts_persons():
    """Somebody with many rows must not move what is published by more than one record does."""
    ward = sf.Column(role="sensitive", kind="nominal", domain=("a", "b", "c"))
    rows = [(person, "abc"[person % 3]) for person in range(90)]
    schema = sf.Schema({"patient": "person", "ward": ward})
    step = sf.methods.Misclassify(variables=["ward"], retention=0.7, invariant=True)

    def fit(more):
        frame = pl.DataFrame(rows + more, schema=["patient", "ward"], orient="row")
        return step.fit(sf.Dataset(frame, schema), LocalEngine())["ward"]["strata"]

    # Five hundred rows of one person, who is there already: nothing changes.
    assert fit([(0, "a")] * 500) == fit([])
    # By rows they would.
    plain = sf.Schema({"patient": "other", "ward": ward})
    frames = [
        pl.DataFrame(rows + more, schema=["patient", "ward"], orient="row")
        for more in ([], [(0, "a")] * 500)
    ]
    by_rows = [step.fit(sf.Dataset(f, plain), LocalEngine())["ward"]["strata"] for f in frames]
    assert by_rows[0] != by_rows[1]
