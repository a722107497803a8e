"""Whole plans on random tables of persons and visits: what every release of persons must keep."""

from __future__ import annotations

import datetime as dt
import warnings
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import HeavyLossWarning, MethodError, TargetError, WeakProtectionWarning
from sfumato.plan import Writing

KEY = bytes(range(32))
CONSTANT = ("sex", "height", "birth")
QUASI = ("sex", "height", "birth", "age", "ward")
DATES = ("birth", "admitted", "sampled")


@st.composite
def visit_tables(draw: st.DrawFn) -> pl.DataFrame:
    """Persons with one to six rows, in any order; some values missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    persons = draw(st.integers(2, 24))
    rows = rng.integers(1, draw(st.integers(2, 7)), persons)
    person = np.repeat(np.arange(persons), rows)
    total, levels = len(person), draw(st.integers(1, 4))
    first = dt.date(2018, 1, 1)
    admitted = rng.integers(0, 900, total)
    born = rng.integers(1, 4 if levels == 1 else 30_000, persons)

    def write_dates(days: Any) -> list[dt.date]:
        return [first + dt.timedelta(days=int(day)) for day in days]

    frame = pl.DataFrame(
        {
            "patient": [f"P{number:02d}" for number in person],
            "sex": rng.choice(list("fmx")[:levels], persons)[person],
            "height": rng.choice([160.5, 170.0, 181.0], persons)[person],
            "birth": write_dates(-born[person]),
            "age": (admitted + born[person]) // 365,
            "ward": rng.choice(list("abcd")[:levels], total),
            "admitted": write_dates(admitted),
            "sampled": write_dates(admitted + rng.integers(0, 9, total)),
            "ill": rng.choice(list("uvw"), total),
        }
    )
    if draw(st.booleans()):
        missing = pl.Series(rng.random(total) < 0.1)
        frame = frame.with_columns(
            frame["ward"].set(missing, None), frame["sampled"].set(missing, None)
        )
    return frame[rng.permutation(total)]


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Steps in an order that makes sense, and the targets."""
    k = draw(st.integers(2, 4))
    steps: list[Any] = []
    linked = draw(st.booleans())
    steps.append(sf.methods.Pseudonymise(variables=["patient"]) if linked else sf.methods.Drop())
    if draw(st.booleans()):
        most = draw(st.integers(1, 3))
        ordered = draw(st.booleans())
        steps.append(sf.methods.ThinRows(most=most, variables=["admitted"] if ordered else None))
    unit = draw(st.sampled_from(["days", "weeks"]))
    steps.append(sf.methods.ShiftDates(window=364, unit=unit, variables=list(DATES)))
    if draw(st.booleans()):
        steps.append(sf.methods.Noise(variables=["height"], sd_share=0.2))
    protection = draw(st.sampled_from(["all", "constants", "range", "none"]))
    if protection == "all":
        steps.append(sf.methods.KAnonymity(k=k, output="value"))
    elif protection == "range":
        steps.append(sf.methods.KAnonymity(k=k))
    elif protection == "constants":
        steps.append(sf.methods.KAnonymity(variables=["sex", "height", "birth"], k=k))
    targets: dict[str, Any] = {"k.min": k}
    if linked and draw(st.booleans()):
        targets["k_of_trajectories.min"] = k
    return {"k": k, "steps": steps, "targets": targets}


def declare() -> sf.Schema:
    roles: dict[str, Any] = dict.fromkeys(QUASI, "quasi")
    return sf.Schema(
        {
            "patient": "person",
            **roles,
            "birth": sf.Column(role="quasi", kind="date"),
            "admitted": "other",
            "sampled": "other",
            "ill": "sensitive",
        }
    )


def protect(frame: pl.DataFrame, plan: dict[str, Any]) -> sf.Release | None:
    """The release, or None where targets are missed or there are too few persons for k."""
    asked = sf.Plan(
        schema=declare(),
        steps=plan["steps"],
        targets=plan["targets"],
        release=Writing(accept_attacks="a test"),
    )
    with warnings.catch_warnings():
        for kind in (HeavyLossWarning, WeakProtectionWarning):
            warnings.simplefilter("ignore", kind)
        try:
            return sf.protect(sf.Dataset(frame), asked, key=KEY)
        except (TargetError, MethodError):
            return None


def pair_rows(frame: pl.DataFrame, release: sf.Release) -> tuple[list[str], pl.DataFrame]:
    """Whose each released row is, and its original values, by the identity of the rows."""
    everything = release.original.identity.digests.tolist()
    assert len(everything) == len(frame)
    row_of = {tuple(words): row for row, words in enumerate(everything)}
    original = frame[[row_of[tuple(words)] for words in release.dataset.identity.digests.tolist()]]
    return original["patient"].to_list(), original


@given(frame=visit_tables(), plan=plans())
@settings(max_examples=150, deadline=None)
def test_what_a_release_of_persons_keeps(frame, plan):
    release = protect(frame, plan)
    if release is None:
        return
    released, k = release.data, plan["k"]
    owners, original = pair_rows(frame, release)

    # No class with fewer than k persons is ever called met.
    classes: dict[tuple[Any, ...], set[str]] = {}
    shown = [name for name in QUASI if name in released.columns]
    for owner, cells in zip(owners, released.select(shown).iter_rows(), strict=True):
        classes.setdefault(cells, set()).add(owner)
    assert min(map(len, classes.values())) >= k
    if "k_of_trajectories.min" in plan["targets"]:
        rows_of: dict[str, list[Any]] = {}
        for owner, cells in zip(owners, released.select(shown).iter_rows(), strict=True):
            rows_of.setdefault(owner, []).append(cells)
        alike = Counter(tuple(sorted(rows, key=repr)) for rows in rows_of.values())
        assert min(alike.values()) >= k

    # What never changes within a person does not change after protection.
    for name in CONSTANT:
        values: dict[str, set[Any]] = {}
        for owner, cell in zip(owners, released[name], strict=True):
            values.setdefault(owner, set()).add(cell)
        assert all(len(cells) == 1 for cells in values.values()), name

    # Every interval between two dates of a person is the original one.
    dates = [name for name in DATES if released[name].dtype == pl.Date and name != "birth"]
    shifts: dict[str, set[int]] = {}
    for name in dates:
        for owner, before, after in zip(owners, original[name], released[name], strict=True):
            assert (before is None) == (after is None)
            if before is not None:
                shifts.setdefault(owner, set()).add((after - before).days)
    assert all(len(days) == 1 and 0 not in days for days in shifts.values())


@given(frame=visit_tables(), unit=st.sampled_from(["days", "weeks"]), towards=st.booleans())
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakProtectionWarning")
def test_every_interval_within_a_person_is_kept_in_every_table(frame, unit, towards):
    """Over rows, over variables and over two tables that share the persons."""
    shift = sf.methods.ShiftDates(
        window=364, unit=unit, towards="both" if towards else "past", variables=list(DATES)
    )
    stays = sf.Dataset(frame, declare())
    second = frame.select("patient", pl.col("sampled").alias("taken")).drop_nulls()
    laboratory = sf.Dataset(second, sf.Schema({"patient": "person", "taken": "other"}))
    both = sf.methods.ShiftDates(**{**_settings(shift), "variables": ["taken"]})
    moved = shift.apply(stays, key=KEY).frame
    sampled = both.apply(laboratory, key=KEY).frame
    days: dict[str, list[tuple[dt.date, dt.date]]] = {}
    for name in DATES:
        for owner, pair in zip(
            frame["patient"], zip(frame[name], moved[name], strict=True), strict=True
        ):
            if pair[0] is not None:
                days.setdefault(owner, []).append(pair)
    for owner, pair in zip(
        second["patient"], zip(second["taken"], sampled["taken"], strict=True), strict=True
    ):
        days.setdefault(owner, []).append(pair)
    for pairs in days.values():
        for (before, after), (other, shown) in combinations(pairs, 2):
            assert after - shown == before - other


def _settings(shift: sf.methods.ShiftDates) -> dict[str, Any]:
    return {name: getattr(shift, name) for name in ("window", "unit", "towards")}
