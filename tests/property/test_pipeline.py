"""Random data through random plans: a release that holds, or a clear refusal. Nothing else."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.plan import Writing
from sfumato.storage.opening import open_release
from sfumato.storage.verifying import verify_release

KEY = sf.Key(bytes(range(32)))
text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp")),
    min_size=1,
    max_size=6,
).filter(lambda name: name.strip() == name)
roles = st.sampled_from(["direct", "quasi", "sensitive", "other", "cluster"])


@st.composite
def columns(draw, size: int):
    """One variable of any type, with gaps, constants and nonsense."""
    dtype, values = draw(
        st.sampled_from(
            [
                (pl.Int64, st.integers(-5, 120)),
                (pl.Float64, st.floats(allow_nan=True, allow_infinity=True, width=32)),
                (pl.String, text),
                (pl.Boolean, st.booleans()),
                (pl.Date, st.dates(dt.date(1900, 1, 1), dt.date(2050, 1, 1))),
            ]
        )
    )
    cells = draw(st.lists(st.one_of(st.none(), values), min_size=size, max_size=size))
    return pl.Series(values=cells, dtype=dtype)


@st.composite
def worlds(draw):
    size = draw(st.integers(0, 25))
    names_here = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    frame = pl.DataFrame([draw(columns(size)).alias(name) for name in names_here])
    schema = sf.Schema({name: draw(roles) for name in names_here})
    some = st.lists(st.sampled_from(names_here), min_size=1, max_size=3, unique=True)
    step = st.one_of(
        st.just(sf.methods.Drop()),
        some.map(lambda one: sf.methods.Drop(variables=one)),
        some.map(lambda one: sf.methods.Pseudonymise(variables=one)),
        some.map(lambda one: sf.methods.Topcode(variables=one, top_quantile=0.9, bottom=0)),
        some.map(lambda one: sf.methods.Coarsen(variables=one, intervals=3, edges="observed")),
        some.map(lambda one: sf.methods.Coarsen(variables=one, breaks=[0, 50])),
    )
    plan = sf.Plan(
        schema=schema,
        steps=draw(st.lists(step, max_size=4)),
        targets=draw(st.sampled_from([{}, {"k.min": 2}, {"uniqueness.max": 0.5}])),
        release=Writing(
            format=draw(st.sampled_from(["csv", "parquet", "arrow"])),
            keep_order=draw(st.booleans()),
        ),
    )
    return frame, plan


@settings(max_examples=150)
@given(worlds())
def test_a_release_that_holds_or_a_clear_refusal(world):
    frame, plan = world
    assert sf.Plan.parse(plan.text(comments=True)).digest == plan.digest
    before = frame.clone()
    with tempfile.TemporaryDirectory() as place:
        try:
            release = sf.protect(sf.Dataset(frame), plan, key=KEY)
            folder = release.write(Path(place) / "out")
        except sf.SfumatoError as error:
            assert str(error)
            assert list(Path(place).iterdir()) == []
        else:
            assert all(one.passed for one in verify_release(folder))
            opened = open_release(folder)
            assert len(opened.data) == len(frame)
            assert not set(opened.dataset.schema.having("direct"))
            paired = opened.paired(sf.Dataset(frame))
            untouched = set(release.dataset.columns)
            untouched -= {n for step in plan.steps for n in step.touches(plan.schema)}
            for name in untouched:
                was = release.dataset.column(name)
                order = release.order()
                kept = was if order is None else was.gather(order)
                assert paired.column(name).to_list() == kept.to_list()
    assert frame.equals(before)
