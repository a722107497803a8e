from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import generalised

import sfumato as sf
from sfumato.errors import DataError, MeasureError, SchemaError, TargetError
from sfumato.methods.coarsen import Coarsen

cells = st.one_of(st.none(), st.integers(0, 4))
tables = st.lists(st.tuples(st.integers(0, 2), cells), min_size=1, max_size=40)
HIERARCHY = {
    "0": ("low", "all"), "1": ("low", "all"), "2": ("high", "all"), "3": ("high", "all"),
    "4": ("none", "all"),
}  # fmt: skip


def data(rows, kind="integer", **column) -> sf.Dataset:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "x": pl.Int64}, orient="row")
    told = sf.Column(role="sensitive", kind=kind, **column)
    return generalised(frame, sf.Schema({"a": "quasi", "x": told}))


def text(values, known=None, **column) -> sf.Dataset:
    frame = pl.DataFrame({"a": known or [0] * len(values), "x": pl.Series(values, dtype=pl.String)})
    return generalised(frame, sf.Schema({"a": "quasi", "x": sf.Column(role="sensitive", **column)}))


def shares(values, domain):
    counts = Counter(values)
    return [Fraction(counts[one], len(values)) for one in domain]


def ordered(q, p):
    if len(p) == 1:
        return Fraction(0)
    gaps = [sum(q[: at + 1]) - sum(p[: at + 1]) for at in range(len(p))]
    return sum(map(abs, gaps)) / Fraction(len(p) - 1)


def equal(q, p):
    return sum(abs(a - b) for a, b in zip(q, p, strict=True)) / Fraction(2)


def hierarchical(q, p, domain):
    """The mean over the levels of the distance between the shares of groups."""
    total = equal(q, p)
    groups: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for one, here, there in zip(domain, q, p, strict=True):
        group = "missing" if one is None else HIERARCHY[str(one)][0]
        groups[group][0] += here
        groups[group][1] += there
    above = equal(*zip(*groups.values(), strict=True))
    return (total + above) / 2


def brute(rows, distance):
    """t of each row's class, beta, delta, delta_strict; by fractions, one by one."""
    values = [x for _, x in rows]
    domain = sorted(set(values), key=lambda x: (x is not None, x or 0))
    p = shares(values, domain)
    t, beta, delta, strict = {}, Fraction(0), 0.0, False
    for a in {a for a, _ in rows}:
        q = shares([x for b, x in rows if b == a], domain)
        t[a] = {
            "ordered": lambda q=q: ordered(q, p),
            "equal": lambda q=q: equal(q, p),
            "hierarchical": lambda q=q: hierarchical(q, p, domain),
        }[distance]()
        beta = max([beta, *((b - c) / c for b, c in zip(q, p, strict=True))])
        delta = max([delta, *(abs(math.log(b / c)) for b, c in zip(q, p, strict=True) if b)])
        strict = strict or 0 in q
    return [t[a] for a, _ in rows], beta, delta, math.inf if strict else delta


@given(tables, st.sampled_from(["ordered", "equal", "hierarchical"]))
def test_agrees_with_fractions_one_by_one(rows, distance):
    kind = "integer" if distance == "ordered" else "nominal"
    given_hierarchy = HIERARCHY if distance == "hierarchical" else None
    found = sf.risk.Closeness().measure(data(rows, kind, hierarchy=given_hierarchy))
    t, beta, delta, strict = brute(rows, distance)
    assert found.records["t"].to_list() == pytest.approx([float(one) for one in t])
    assert found.value == found.details["t"] == pytest.approx(float(max(t)))
    assert found.details["beta"] == pytest.approx(float(beta))
    assert found.details["delta"] == pytest.approx(delta)
    assert found.details["delta_strict"] == pytest.approx(strict)
    assert found.table["distance"].to_list() == [distance]
    assert found.table.columns[:2] == ["variable", "closeness"]


def test_salaries_of_the_article_that_proposed_it():
    # Li et al. 2007: {3k, 4k, 5k} is 0.375 from 3k..11k, {6k, 8k, 11k} is 0.167.
    pay = [3, 4, 5, 6, 11, 8, 7, 9, 10]
    frame = pl.DataFrame({"class": [1, 1, 1, 2, 2, 2, 3, 3, 3], "pay": pay})
    schema = sf.Schema({"class": "quasi", "pay": "sensitive"})
    found = sf.risk.Closeness().measure(generalised(frame, schema))
    t = found.records["t"].to_list()
    assert t[0] == pytest.approx(0.375)
    assert t[3] == pytest.approx(1 / 6)


def test_the_worst_of_several_variables_counts():
    frame = pl.DataFrame({"a": [0, 0, 1, 1], "x": [1, 2, 1, 2], "y": ["u", "u", "v", "v"]})
    schema = sf.Schema({"a": "quasi", "x": "sensitive", "y": "sensitive"})
    found = sf.risk.Closeness().measure(generalised(frame, schema))
    assert found.table["closeness"].to_list() == [0.0, 0.5]
    assert found.value == 0.5
    assert found.details["beta"] == 1.0
    assert found.details["delta"] == pytest.approx(math.log(2))


def test_strict_delta_is_infinite_where_a_class_lacks_a_value_and_null_in_json():
    lacking = sf.risk.Closeness().measure(data([(0, 1), (0, 2), (1, 1), (1, 1)]))
    assert lacking.details["delta_strict"] == math.inf
    assert lacking.plain()["details"]["delta_strict"] is None
    complete = sf.risk.Closeness().measure(data([(0, 1), (0, 2), (1, 1), (1, 1), (1, 2)]))
    assert complete.details["delta_strict"] == complete.details["delta"] < math.inf


def test_hierarchical_sums_stay_exact_for_a_million_records():
    # ARX 3.9.2 overflows 32 bits here and calls 182 290 records safe.
    rng = np.random.default_rng(1)
    n, leaves = 1_190_000, [f"c{at}" for at in range(12)]
    tree = {leaf: (f"g{at // 3}", f"h{at // 6}", "all") for at, leaf in enumerate(leaves)}
    known, codes = rng.integers(0, 5, n), rng.integers(0, 12, n)
    codes[known == 0] = rng.integers(0, 4, (known == 0).sum())
    frame = pl.DataFrame({"a": known, "x": pl.Series(leaves).gather(codes)})
    told = sf.Column(role="sensitive", kind="nominal", hierarchy=tree)
    found = sf.risk.Closeness().measure(generalised(frame, sf.Schema({"a": "quasi", "x": told})))
    counts = np.zeros((5, 12), int)
    np.add.at(counts, (known, codes), 1)
    worst = 0.0
    for held in counts:
        levels = []
        for width in (1, 3, 6):
            here, all_ = (one.reshape(-1, width).sum(1).tolist() for one in (held, counts.sum(0)))
            pairs = zip(here, all_, strict=True)
            levels.append(sum(abs(Fraction(q, sum(here)) - Fraction(p, n)) for q, p in pairs) / 2)
        worst = max(worst, float(sum(levels) / 3))
    assert found.value == pytest.approx(worst, rel=1e-15)
    assert found.value > 0.2
    assert found.details["smallest_class"] == np.bincount(known).min()


def test_ordered_sums_stay_exact_for_a_million_records():
    rng = np.random.default_rng(2)
    n = 1_000_000
    known = rng.integers(0, 3, n)
    codes = np.minimum(rng.integers(0, 50, n), np.where(known == 0, 10, 49))
    frame = pl.DataFrame({"a": known, "x": codes})
    schema = sf.Schema({"a": "quasi", "x": "sensitive"})
    found = sf.risk.Closeness().measure(generalised(frame, schema))
    p = [Fraction(one, n) for one in np.bincount(codes, minlength=50).tolist()]
    far = []
    for a in range(3):
        counts = np.bincount(codes[known == a], minlength=50).tolist()
        far.append(ordered([Fraction(one, sum(counts)) for one in counts], p))
    assert found.value == pytest.approx(float(max(far)), rel=1e-15)


def test_the_top_of_the_hierarchy_does_not_dilute_the_distance():
    # A root, or several levels of it, must change nothing: any two groups are fully apart there.
    rows = [("a", 0), ("b", 0), ("c", 1), ("d", 1)]
    values, known = zip(*rows, strict=True)
    groups = {"a": "1", "b": "1", "c": "2", "d": "2"}
    found = [
        sf.risk.Closeness().measure(
            text(
                values,
                list(known),
                kind="nominal",
                hierarchy={one: (group, *top) for one, group in groups.items()},
            )
        )
        for top in ((), ("*",), ("all", "*"))
    ]
    assert [one.value for one in found] == [0.5, 0.5, 0.5]


def test_a_cell_that_is_a_group_of_the_hierarchy_lies_below_its_own_groups():
    tree = {"a": ("1", "x"), "b": ("1", "x"), "c": ("2", "y")}
    # Class 0 holds a and the group 1, class 1 holds c twice: apart at every level.
    found = sf.risk.Closeness().measure(
        text(["a", "1", "c", "c"], [0, 0, 1, 1], kind="nominal", hierarchy=tree)
    )
    assert found.value == 0.5
    # Leaves differ, groups do not: one level of three.
    found = sf.risk.Closeness().measure(text(["a", "1"], [0, 1], kind="nominal", hierarchy=tree))
    assert found.value == pytest.approx(0.5 / 3)


def test_what_the_hierarchy_does_not_list_is_as_far_away_as_can_be():
    tree = {"a": ("1",), "b": ("1",), "c": ("2",)}
    found = sf.risk.Closeness().measure(text(["a", "z"], [0, 1], kind="nominal", hierarchy=tree))
    assert found.value == 0.5


def test_ranges_are_ordered_by_their_ends():
    known, plain = [0, 0, 1, 1], [1, 2, 3, 4]
    ranges = ["[0;9]", "[10;19]", "[100;199]", "[1000;1999]"]
    by_ranges = sf.risk.Closeness().measure(text(ranges, known, kind="integer"))
    assert by_ranges.value == pytest.approx(1 / 3)
    assert any("lower" in one for one in by_ranges.assumptions)
    by_numbers = sf.risk.Closeness().measure(data(list(zip(known, plain, strict=True))))
    assert by_ranges.value == by_numbers.value
    # Re-read from a file they are text of no declared kind, and still ranges of numbers.
    assert sf.risk.Closeness().measure(text(ranges, known)).value == by_numbers.value


def test_what_coarsening_leaves_behind_keeps_its_order():
    rows = [(0, 1), (0, 12), (1, 105), (1, 950)]
    coarse = Coarsen(variables=["x"], breaks=[10, 100, 900]).apply(data(rows, domain=(0, 1000)))
    found = sf.risk.Closeness().measure(coarse)
    assert found.table["distance"].to_list() == ["ordered"]
    assert found.value == pytest.approx(1 / 3)


def test_declared_levels_give_the_order():
    levels = ("small", "medium", "large")
    values, known = ["small", "medium", "large", "large"], [0, 0, 1, 1]
    found = sf.risk.Closeness().measure(text(values, known, kind="ordinal", domain=levels))
    alike = sf.risk.Closeness().measure(data([(0, 0), (0, 1), (1, 2), (1, 2)]))
    assert found.value == alike.value
    some = ["small", "[small;medium]", "{medium;large}", "large"]
    found = sf.risk.Closeness().measure(text(some, known, kind="ordinal", domain=levels))
    assert found.value == pytest.approx(1 / 3)
    with pytest.raises(MeasureError, match="none of its declared levels") as error:
        sf.risk.Closeness().measure(text(["huge"], kind="ordinal", domain=levels))
    assert "huge" not in str(error.value)


def test_suppressed_cells_count_as_missing_and_it_is_said():
    found = sf.risk.Closeness().measure(text(["1", "*", None, "3"], [0, 1, 1, 0], kind="integer"))
    alike = sf.risk.Closeness().measure(data([(0, 1), (1, None), (1, None), (0, 3)]))
    assert found.value == alike.value
    assert any("`*`" in one for one in found.assumptions)


def test_codes_for_missing_are_one_value():
    rows = [(0, -9), (0, 1), (1, -8), (1, 1)]
    found = sf.risk.Closeness().measure(data(rows, missing=(-9, -8)))
    assert found.value == 0.0


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ({"kind": "nominal"}, "have no order"),
        ({"kind": "integer"}, "neither a number"),
    ],
)
def test_no_order_is_guessed(column, match):
    with pytest.raises((MeasureError, DataError), match=match) as error:
        sf.risk.Closeness(distance="ordered").measure(text(["ape", "bee"], **column))
    assert "ape" not in str(error.value)


def test_a_hierarchy_that_is_not_there_is_told():
    with pytest.raises(MeasureError, match="no hierarchy"):
        sf.risk.Closeness(distance="hierarchical").measure(text(["a", "b"], kind="nominal"))


def test_dates_are_ordered():
    days = [dt.date(2020, 1, 1), dt.date(2020, 5, 1), dt.date(2021, 1, 1), dt.date(2024, 1, 1)]
    frame = pl.DataFrame({"a": [0, 0, 1, 1], "x": days})
    schema = sf.Schema({"a": "quasi", "x": "sensitive"})
    found = sf.risk.Closeness().measure(generalised(frame, schema))
    assert found.value == pytest.approx(1 / 3)


def test_a_constant_variable_is_no_reassurance():
    found = sf.risk.Closeness().measure(data([(0, 1), (1, 1)]))
    assert found.value == 0.0
    assert "anybody knows it" in found.warnings[0]


def test_no_confidential_variable_is_an_error():
    frame = pl.DataFrame({"a": [1, 2], "x": [1, 2]})
    none = generalised(frame, sf.Schema({"a": "quasi", "x": "other"}))
    with pytest.raises(MeasureError, match="declared as confidential.*role"):
        sf.risk.Closeness().measure(none)
    with pytest.raises(SchemaError, match="did you mean 'x'"):
        sf.risk.Closeness(confidential=["xx"]).measure(none)
    with pytest.raises(MeasureError, match="Both known"):
        sf.risk.Closeness(known=["a"], confidential=["a"]).measure(none)


def test_what_is_not_released_is_left_out():
    both = data([(0, 1), (1, 2)])
    with pytest.raises(MeasureError, match="nothing to learn"):
        sf.risk.Closeness(confidential=["x"]).measure(both, both.without(["x"]))
    found = sf.risk.Closeness().measure(both, both.without(["a"]))
    assert (found.value, found.baseline) == (0.0, 0.5)  # nothing known: one class of all


def test_targets_on_all_its_numbers(cohort):
    one = cohort.without(cohort.schema.having("direct"))
    for target in ({"t.max": 0.1}, {"beta.max": 0.5}, {"delta.max": 0.5}):
        with pytest.raises(TargetError):
            sf.protect(one, sf.Plan(schema=one.schema, targets=target), key=bytes(32))
