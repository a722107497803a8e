"""h by numbers and categories, and attackers who know less: against references by definition."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.risk.attacks.attacker_view import OrderedView, view_release
from sfumato.risk.attacks.imperfect_knowledge import blur_knowledge, draw_present, list_subsets

SCHEMA = sf.Schema(
    {
        "age": sf.Column(role="quasi", kind="continuous"),
        "town": sf.Column(role="quasi", kind="nominal"),
        "school": sf.Column(role="quasi", kind="ordinal", domain=("low", "mid", "high")),
    }
)
RANK = {"low": 0, "mid": 1, "high": 2}
person = st.tuples(
    st.integers(0, 9).map(float), st.sampled_from("abc"), st.sampled_from(sorted(RANK))
)
pairs = st.lists(st.tuples(person, person), min_size=3, max_size=14)


def frame_of(rows) -> sf.Dataset:
    types = {"age": pl.Float64, "town": pl.String, "school": pl.String}
    return sf.Dataset(pl.DataFrame(rows, schema=types, orient="row"), SCHEMA)


def spread(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)) or 1.0


def split(rows):
    """The original and the release, which shows no town that nobody lives in."""
    before, after = [list(side) for side in zip(*rows, strict=True)]
    towns = {row[1] for row in before}
    return before, [row if row[1] in towns else (row[0], before[0][1], row[2]) for row in after]


def slow(before, after, p):
    """Gower's distance, squared: every target against every record, as the definition says."""
    sds = [spread([row[0] for row in before]), spread([RANK[row[2]] for row in before])]
    fits = [all(b[at] == a[at] for b, a in zip(before, after, strict=True)) for at in range(3)]

    def apart(one, other, *, rule_out):
        cost = ((one[0] - other[0]) / sds[0]) ** 2 + (one[1] != other[1])
        cost += ((RANK[one[2]] - RANK[other[2]]) / sds[1]) ** 2
        if rule_out:
            cost += sum(1e6 for at in range(3) if fits[at] and one[at] != other[at])
        return cost

    below, zero, means = [], [], []
    for target in before:
        shown = [apart(target, other, rule_out=True) for other in after]
        found = [j for j, cost in enumerate(shown) if cost <= min(shown) * (1 + 1e-9)]
        true = [apart(target, other, rule_out=False) for other in before]
        h = [sum(d < true[j] / (1 + 1e-9) for d in true) for j in found]
        below.append(sum(one < p for one in h) / len(h))
        zero.append(sum(one == 0 for one in h) / len(h))
        means.append(sum(h) / len(h))
    count = len(before)
    return sum(below) / count, sum(zero) / count, sum(means) / count


@settings(max_examples=80, deadline=None)
@given(pairs, st.integers(1, 4))
def test_agrees_with_the_definition(rows, p):
    before, after = split(rows)
    found = sf.risk.MixedHIndex(p=p).measure(frame_of(before), frame_of(after))
    below, zero, mean = slow(before, after, p)
    assert found.value == pytest.approx(below)
    assert found.details["mixed_h_0"] == pytest.approx(zero)
    assert found.details["mixed_mean_h"] == pytest.approx(mean)
    assert found.at_worst == max(found.value, found.details["mixed_h_index_by_noise"])


@pytest.fixture(scope="module")
def cohort() -> sf.Dataset:
    data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    return data.take(data.column("height").is_not_null().arg_true().to_numpy())


NUMBERS = ["height", "systolic"]
KNOWN = [*NUMBERS, "sex", "region"]


@pytest.fixture(scope="module")
def noisy(cohort) -> sf.Dataset:
    noise = sf.methods.Noise(variables=NUMBERS, variance_share=0.2)
    changed = sf.methods.Misclassify(variables=["sex", "region"], retention=0.7)
    released: sf.Dataset = changed.apply(noise.apply(cohort, key=bytes(32)), key=bytes(32))
    return released


def test_is_the_h_index_where_only_numbers_are_known(cohort, noisy):
    mixed = sf.risk.MixedHIndex(known=NUMBERS).measure(cohort, noisy)
    plain = sf.risk.HIndex(variables=NUMBERS).measure(cohort, noisy)
    assert mixed.value == pytest.approx(plain.value)
    assert mixed.details["mixed_mean_h"] == pytest.approx(plain.details["mean_h"])
    assert mixed.details["mixed_h_0"] == pytest.approx(plain.details["pr_h_0"])


def test_categories_help_the_attacker_and_misclassification_hinders(cohort, noisy):
    exact = sf.methods.Noise(variables=NUMBERS, variance_share=0.2).apply(cohort, key=bytes(32))
    numbers = sf.risk.MixedHIndex(known=NUMBERS, p=1).measure(cohort, exact).at_worst
    with_them = sf.risk.MixedHIndex(known=KNOWN, p=1).measure(cohort, exact).at_worst
    misclassified = sf.risk.MixedHIndex(known=KNOWN, p=1).measure(cohort, noisy).at_worst
    assert numbers < misclassified < with_them


def test_a_likelihood_finds_more_than_the_plain_distance_where_noise_differs(cohort):
    # A useless number with much noise, and towns that are nearly all true.
    noise = sf.methods.Noise(variables=["height"], variance_share=1.0)
    changed = sf.methods.Misclassify(variables=["region"], retention=0.95)
    released = changed.apply(noise.apply(cohort, key=bytes(32)), key=bytes(32))
    found = sf.risk.MixedHIndex(known=["height", "region", "children"]).measure(cohort, released)
    assert found.details["mixed_h_index_by_noise"] > found.value


def test_errors_are_as_large_as_stated_and_the_same_whatever_the_order(cohort):
    views, _ = view_release(cohort, cohort, KNOWN, owner="test")
    blurred = blur_knowledge(views, {"height": 0.3, "region": 0.4})
    height, systolic, sex, region = (
        (after.persons, before.persons) for after, before in zip(blurred, views, strict=True)
    )
    assert np.array_equal(*systolic)
    assert np.array_equal(*sex)
    assert isinstance(views[0], OrderedView)
    assert views[0].spread * 0.3 == pytest.approx(np.std(height[0] - height[1]), rel=0.15)
    shares = np.bincount(region[1].astype(int)) / len(cohort)
    expected = 0.4 * (1 - (shares**2).sum())
    assert np.mean(region[0] != region[1]) == pytest.approx(expected, abs=0.07)
    order = np.random.default_rng(1).permutation(len(cohort))
    again, _ = view_release(cohort.take(order), cohort.take(order), KNOWN, owner="test")
    turned = blur_knowledge(again, {"height": 0.3, "region": 0.4})
    for one, other in zip(turned, blurred, strict=True):
        assert np.array_equal(one.persons, other.persons[order])
    with pytest.raises(MeasureError, match="'heigth' has errors but is not compared"):
        blur_knowledge(views, {"heigth": 0.1})


@pytest.mark.parametrize("measure", [sf.risk.MixedLinkage, sf.risk.MixedHIndex])
def test_who_knows_less_finds_fewer(cohort, noisy, measure):
    exact = measure(known=KNOWN).measure(cohort, noisy).at_worst
    wrong = measure(known=KNOWN, errors=0.8).measure(cohort, noisy).at_worst
    partly = measure(known=KNOWN, sampling_fraction=0.3).measure(cohort, noisy).at_worst
    assert wrong < exact
    assert partly < exact
    assert (
        "with errors (0.8)"
        in measure(known=KNOWN, errors=0.8).measure(cohort, noisy).assumptions[0]
    )


@settings(max_examples=40, deadline=None)
@given(pairs, st.sampled_from([0.3, 0.5, 0.8]))
def test_a_person_who_is_not_there_is_never_linked(rows, fraction):
    before, after = split(rows)
    pair = frame_of(before), frame_of(after)
    found = sf.risk.MixedLinkage(sampling_fraction=fraction).measure(*pair)
    views, _ = view_release(*pair, list(SCHEMA), owner="test")
    present = draw_present(views, fraction, pair[0].units)
    assert present is not None
    assert present.sum() == max(1, round(fraction * len(rows)))
    sds = [spread([row[0] for row in before]), spread([RANK[row[2]] for row in before])]
    fits = [all(b[at] == a[at] for b, a in zip(before, after, strict=True)) for at in range(3)]
    chances = []
    for own, target in enumerate(before):
        costs = {
            j: ((target[0] - other[0]) / sds[0]) ** 2 + (target[1] != other[1])
            + ((RANK[target[2]] - RANK[other[2]]) / sds[1]) ** 2
            + sum(1e6 for at in range(3) if fits[at] and target[at] != other[at])
            for j, other in enumerate(after)
            if present[j]
        }  # fmt: skip
        nearest = [j for j, c in costs.items() if c <= min(costs.values()) * (1 + 1e-9)]
        chances.append((own in nearest) / len(nearest))
    assert found.value == pytest.approx(sum(chances) / len(chances))
    there = [chance for chance, is_there in zip(chances, present, strict=True) if is_there]
    assert found.details["linked_if_in_file"] >= sum(there) / len(there) - 1e-12
    assert found.records["linked"].to_list() == pytest.approx(chances)
    assert math.isnan(found.details["mixed_assigned"])


def test_by_number_is_what_each_subset_gives_by_itself(cohort, noisy):
    found = sf.risk.MixedLinkage(known=KNOWN, by_number=True).measure(cohort, noisy)
    table = found.table
    assert table["known_variables"].to_list() == [1, 2, 3, 4]
    assert table["subsets"].to_list() == [4, 6, 4, 1]
    alone = [sf.risk.MixedLinkage(known=[name]).measure(cohort, noisy).at_worst for name in KNOWN]
    assert table["mean"][0] == pytest.approx(np.mean(alone))
    assert table["highest"][0] == pytest.approx(max(alone))
    assert table["worst"][0] == KNOWN[int(np.argmax(alone))]
    assert table["highest"][-1] == pytest.approx(found.at_worst)
    drawn = sf.pictures.sweep(table, "known_variables", {"linked": ["mean", "highest"]})
    assert drawn.audience == "custodian"


def test_many_subsets_are_some_of_each_size_and_always_the_same():
    chosen = list(list_subsets(9))
    assert chosen == list(list_subsets(9))
    by_size = {size: [one for one in chosen if len(one) == size] for size in range(1, 10)}
    assert [len(by_size[size]) for size in (1, 2, 3, 4, 8, 9)] == [9, 36, 40, 40, 9, 1]
    assert len(set(chosen)) == len(chosen)


def test_a_sample_meets_no_target_on_its_mean(cohort, noisy):
    found = sf.risk.MixedHIndex(known=KNOWN, individuals=50).measure(cohort, noisy)
    assert found.sampled == (50, len(cohort))
    assert math.isnan(found.details["mixed_mean_h_at_worst"])
    assert found.details["mixed_h_index_at_worst"] >= found.value


@pytest.mark.parametrize("name", ["education", "smoking"])
@pytest.mark.parametrize("ends", ["clip", "free"])
def test_noisy_codes_of_categories_are_compared_as_codes(cohort, name, ends):
    step = sf.methods.NoisyCodes(variables=[name], variance=0.3, ends=ends)
    released = step.apply(cohort, key=bytes(32))
    known = [name, "height"]
    found = sf.risk.MixedLinkage(known=known).measure(cohort, released)
    assert found.details["variables"] == (name, "height")
    assert not found.warnings
    # By hand: codes are the ranks of the declared levels; height is exact and rules others out.
    codes = {level: at for at, level in enumerate(cohort.schema[name].domain)}
    true = [(None if v is None else codes[v], h)
            for v, h in cohort.frame.select(name, "height").rows()]  # fmt: skip
    shown = released.frame.select(name, "height").rows()
    spread_of = np.std([code for code, _ in true if code is not None], ddof=1)
    chances = []
    for own, (code, height) in enumerate(true):
        costs = {
            j: 0.0 if code is None or z is None else ((code - z) / spread_of) ** 2
            for j, (z, other) in enumerate(shown)
            if other == height
        }
        if any(shown[j][0] is None for j in costs):
            continue
        nearest = [j for j, c in costs.items() if c <= min(costs.values()) * (1 + 1e-9)]
        chances.append((own, (own in nearest) / len(nearest)))
    linked = found.records["linked"].to_list()
    assert [linked[own] for own, _ in chances] == pytest.approx([one for _, one in chances])


def test_much_noise_on_codes_helps(cohort):
    shares = [
        sf.risk.MixedHIndex(known=["education", "systolic"], p=1)
        .measure(
            cohort,
            sf.methods.NoisyCodes(variables=["education"], variance=variance).apply(
                sf.methods.Noise(variables=["systolic"], sd_share=0.2).apply(cohort, key=bytes(32)),
                key=bytes(32),
            ),
        )
        .at_worst
        for variance in (0.01, 4.0)
    ]
    assert shares[1] < shares[0]
