"""k, l and t on the file, re-read with the standard library and counted by the definition."""

from __future__ import annotations

import csv
import datetime as dt
import math
import tempfile
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.notation import format_value
from sfumato.plan import Writing

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning")
KEY = sf.Key(bytes(range(32)))
GRADES = ("low", "mid", "high")
ILLNESS = {"flu": ("lungs",), "cold": ("lungs",), "ulcer": ("gut",), "colic": ("gut",)}
DAYS = st.dates(dt.date(1960, 1, 1), dt.date(1962, 1, 1))
QUASI = ("age", "height", "grade", "town", "born")
SCHEMA = sf.Schema(
    {
        "age": sf.Column(role="quasi", kind="integer", missing=(-9,)),
        "height": sf.Column(role="quasi", kind="continuous"),
        "grade": sf.Column(role="quasi", kind="ordinal", domain=GRADES),
        "town": sf.Column(role="quasi", kind="nominal"),
        "born": sf.Column(role="quasi", kind="date"),
        "charge": sf.Column(role="sensitive", kind="integer"),
        "illness": sf.Column(role="sensitive", kind="nominal", hierarchy=ILLNESS),
    }
)


@st.composite
def worlds(draw, least=1):
    size = draw(st.integers(least, 40))

    def column(values):
        return draw(st.lists(values, min_size=size, max_size=size))

    return pl.DataFrame(
        {
            "age": column(st.sampled_from([None, -9, 18, 19, 20, 30, 44, 45, 90])),
            "height": column(st.one_of(st.none(), st.floats(1.5, 2.0, width=16))),
            "grade": column(st.sampled_from([None, *GRADES])),
            "town": column(st.sampled_from([None, "ulm", "bonn", "a,b", 'sa"y', "  x", "=1"])),
            "born": column(st.one_of(st.none(), DAYS)),
            "charge": column(st.integers(0, 9)),
            "illness": column(st.sampled_from(list(ILLNESS))),
        },
        schema_overrides={
            "age": pl.Int64, "height": pl.Float64, "grade": pl.String, "town": pl.String,
            "born": pl.Date,
        },
    )  # fmt: skip


def on_disk(frame, step):
    """The rows of the written file, as text."""
    plan = sf.Plan(schema=SCHEMA, steps=[step], release=Writing(format="csv"))
    release = sf.protect(sf.Dataset(frame, SCHEMA), plan, key=KEY)
    with tempfile.TemporaryDirectory() as place:
        release.write(Path(place) / "out")
        with (Path(place) / "out" / "data.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    assert len(rows) == len(frame)
    assert set(rows[0]) == set(frame.columns)  # no row number joins the file
    assert Counter(int(row["charge"]) for row in rows) == Counter(frame["charge"].to_list())
    return rows, release


def classes(rows):
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in QUASI)].append(row)
    return list(found.values())


def fits(cell, value, name):
    """Whether a released cell includes the original value."""
    if value is None or value == -9:
        return cell in ("", "*", "-9")
    if cell == "*":
        return True
    if cell.startswith("{"):
        return format_value(value) in cell[1:-1].split(";")
    parts = cell[1:-1].split(";") if cell.startswith("[") else [cell, cell]
    if name in ("age", "height"):
        return float(parts[0]) <= value <= float(parts[1])
    if name == "grade":
        return GRADES.index(parts[0]) <= GRADES.index(value) <= GRADES.index(parts[1])
    return parts[0] <= str(value) <= parts[1]


@settings(max_examples=20)
@given(worlds(), st.integers(2, 6), st.sampled_from(["range", "set"]))
def test_k_holds_and_every_cell_is_true(frame, k, output):
    step = sf.methods.KAnonymity(k=k, output=output)
    if len(frame) < k:
        return
    rows, release = on_disk(frame, step)
    assert min(map(len, classes(rows))) >= k
    for was, now in zip(frame.rows(named=True), release.data.rows(named=True), strict=True):
        for name in QUASI:
            assert fits("" if now[name] is None else str(now[name]), was[name], name)


@settings(max_examples=20)
@given(worlds(least=6), st.integers(1, 4), st.floats(0.05, 0.9))
def test_t_holds_for_both_confidential_variables(frame, k, t):
    rows, release = on_disk(frame, sf.methods.TCloseness(k=k, t=t))
    assert release.evidence["closeness"].value <= t + 1e-9  # every such release reports it
    for part in classes(rows):
        assert len(part) >= k
        assert ordered([int(row["charge"]) for row in part], frame["charge"].to_list()) <= t + 1e-9
        assert tree([row["illness"] for row in part], frame["illness"].to_list()) <= t + 1e-9


@settings(max_examples=60)
@given(st.data(), st.integers(2, 7), st.one_of(st.none(), st.floats(0.02, 0.6)))
def test_the_published_algorithm_keeps_its_bound_for_every_number_of_records(data, k, t):
    frame = data.draw(worlds(least=k))
    ages = [abs(age or 0) for age in frame["age"].to_list()]
    slim = frame.select(pl.Series("age", ages), "charge")
    schema = sf.Schema({"age": "quasi", "charge": "sensitive"})
    step = sf.methods.TCloseness(k=k, t=t, clustering="spread")
    made = step.apply(sf.Dataset(slim, schema)).frame
    every, limit = slim["charge"].to_list(), t
    if t is None:
        n = len(slim)
        limit = (n - k) / (2 * (n - 1) * k) if n > 1 else 0
    for part in made.partition_by("age"):
        assert len(part) >= k
        assert ordered(part["charge"].to_list(), every) <= limit + 1e-9


@settings(max_examples=20)
@given(worlds(least=4), st.floats(1, 4), st.sampled_from(["distinct", "entropy", "recursive"]))
def test_l_holds_or_is_refused_with_what_is_possible(frame, least, kind):
    step = sf.methods.LDiversity(k=2, l=least, kind=kind, c=1.5, confidential="illness")
    best = diversity(frame["illness"].to_list(), kind)
    if best < least:
        try:
            on_disk(frame, step)
        except sf.SfumatoError as error:
            assert "No cluster can reach" in str(error)
            return
        assert best > least - 1e-6
        return
    rows, _ = on_disk(frame, step)
    for part in classes(rows):
        assert len(part) >= 2
        assert diversity([row["illness"] for row in part], kind) >= least - 1e-9


def ordered(part, whole):
    seen = sorted(set(whole))
    here, there = Counter(part), Counter(whole)
    running, total = Fraction(0), Fraction(0)
    for value in seen:
        running += Fraction(here[value], len(part)) - Fraction(there[value], len(whole))
        total += abs(running)
    return total / (len(seen) - 1) if len(seen) > 1 else Fraction(0)


def tree(part, whole):
    """Half the differences at the values and at their groups, on average."""

    def apart(name):
        here, there = Counter(map(name, part)), Counter(map(name, whole))
        return sum(
            abs(Fraction(here[one], len(part)) - Fraction(there[one], len(whole))) for one in there
        )

    # The declared hierarchy decides how high it is, not which of its groups occur.
    return (apart(str) + apart(lambda one: ILLNESS[one][0])) / 4


def diversity(part, kind):
    counts = sorted(Counter(part).values(), reverse=True)
    if kind == "distinct":
        return len(counts)
    if kind == "entropy":
        return math.exp(-sum(x / len(part) * math.log(x / len(part)) for x in counts))
    return max(
        (at + 1 for at in range(len(counts)) if counts[0] < 1.5 * sum(counts[at:])), default=0
    )
