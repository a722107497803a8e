"""The public manifest: enough to read the cells, nothing that the cells do not show."""

from __future__ import annotations

import datetime as dt
import json

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.vocabulary import restrict_vocabulary, vocabulary_from_json, vocabulary_to_json

TOWNS = {
    "ulm": ("swabia", "south"),
    "augsburg": ("swabia", "south"),
    "passau": ("lower bavaria", "south"),
    "kiel": ("holstein", "north"),
    "plön": ("holstein", "north"),
}
CELLS = [*TOWNS, "swabia", "holstein", "south", "north", "{kiel;ulm}", "*"]


@given(st.lists(st.sampled_from(CELLS), min_size=1, max_size=12), st.booleans(), st.booleans())
def test_measures_read_the_same_from_what_is_published(cells, declared, rooted):
    towns = {town: (*groups, "*") for town, groups in TOWNS.items()} if rooted else TOWNS
    column = sf.Column(
        role="quasi", kind="nominal", hierarchy=towns, domain=tuple(TOWNS) if declared else None
    )
    values = pl.Series("town", cells)
    public = restrict_vocabulary(column, lambda: values)
    for one in (column, public):
        data = sf.Dataset(values.to_frame(), sf.Schema({"town": one}))
        found = sf.risk.Reidentification().measure(data)
        if one is column:
            full = found
    assert found.records.equals(full.records)
    named = {part for cell in cells for part in cell.strip("{}").split(";")}
    told = json.dumps([public.domain, public.hierarchy], ensure_ascii=False)
    for town in TOWNS:
        assert town in named or f'"{town}"' not in told


def test_a_hidden_value_is_not_in_the_manifest():
    column = sf.Column(role="quasi", kind="nominal", hierarchy=TOWNS, domain=tuple(TOWNS))
    frame = pl.DataFrame({"town": ["ulm", "ulm", "kiel", "plön", "passau", "ulm"]})
    schema = sf.Schema({"town": column})
    plan = sf.Plan(schema=schema, steps=[sf.methods.KAnonymity(k=3, output="level")])
    manifest = sf.protect(sf.Dataset(frame, schema), plan, key=bytes(32)).manifest
    assert "passau" not in json.dumps(manifest)
    assert "ulm" in json.dumps(manifest["variables"])


def test_the_vocabulary_survives_json():
    for column in (
        sf.Column(kind="date", domain=(dt.date(1958, 1, 1), dt.date(1970, 12, 31))),
        sf.Column(kind="integer", domain=(0, 120)),
        sf.Column(kind="ordinal", domain=("low", "high")),
        sf.Column(kind="nominal", hierarchy=TOWNS),
        sf.Column(kind="continuous"),
    ):
        again = vocabulary_from_json(
            json.loads(json.dumps(vocabulary_to_json(column))), column.kind
        )
        assert sf.Column(kind=column.kind, **again) == column
