from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import generalised

import sfumato as sf
from sfumato.errors import MeasureError, SchemaError, TargetError
from sfumato.parameters import ParameterError

cells = st.one_of(st.none(), st.integers(0, 3))
tables = st.lists(st.tuples(cells, cells), min_size=1, max_size=30)


def data(rows) -> sf.Dataset:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "x": pl.Int64}, orient="row")
    return generalised(frame, sf.Schema({"a": "quasi", "x": "sensitive"}))


def text(known, values, **column) -> sf.Dataset:
    frame = pl.DataFrame({"a": known, "x": pl.Series(values, dtype=pl.String)})
    return generalised(frame, sf.Schema({"a": "quasi", "x": sf.Column(role="sensitive", **column)}))


def measure(one, **parameters):
    return sf.risk.AttributeDisclosure(**parameters).measure(one)


# Table S6 of the article: charges and diagnoses of two classes of three.
CHARGES = [505_785, 1_083_683, 252_303, 107_179, 34_392, 24_846]
DIAGNOSES = [
    "Pneumonia", "Meningitis", "Necrosis", "Breast Cancer", "Kidney Cancer", "Stomach Cancer",
]  # fmt: skip


def patients() -> sf.Dataset:
    frame = pl.DataFrame(
        {
            "age": ["[42;52]"] * 3 + ["[57;70]"] * 3,
            "gender": ["Male"] * 3 + ["{Female;Male}"] * 3,
            "charge": CHARGES,
            "diagnosis": DIAGNOSES,
        }
    )
    schema = sf.Schema(
        {"age": "quasi", "gender": "quasi", "charge": "sensitive", "diagnosis": "sensitive"}
    )
    return generalised(frame, schema)


def test_the_published_example():
    # The first class is known to be charged above 250,000, the second to have cancer.
    charged = measure(patients(), where="charge > 250000")
    assert (charged.value, charged.details["disclosed_records"]) == (1.0, 3)
    cancers = [one for one in DIAGNOSES if "Cancer" in one]
    assert measure(patients(), where=f"diagnosis in {cancers}").value == 1.0
    # Four are above 100,000; the one in the second class hides among the others.
    above = measure(patients(), where="charge > 100000")
    assert above.value == 0.75
    assert above.records["disclosed"].to_list() == [True] * 3 + [False] * 3
    assert measure(patients(), where='diagnosis == "Necrosis"').value == 0.0
    assert measure(patients()).value == 0.0  # no exact value is learned


@given(tables)
def test_statements_agree_with_looking_one_by_one(rows):
    holds = [x is not None and x >= 2 for _, x in rows]
    expected = [
        holds[i] and all(holds[j] for j in range(len(rows)) if rows[j][0] == rows[i][0])
        for i in range(len(rows))
    ]
    if not any(holds):
        with pytest.raises(MeasureError, match="No record satisfies"):
            measure(data(rows), where="x >= 2")
        return
    found = measure(data(rows), where="x >= 2")
    assert found.value == sum(expected) / sum(holds)
    assert found.details["disclosed_records"] == sum(expected)
    assert found.details["satisfying_records"] == sum(holds)
    assert found.details["undecided_for_missing"] == sum(x is None for _, x in rows)
    assert found.records["disclosed"].to_list() == expected
    assert found.records["satisfies"].to_list() == holds


@given(tables)
def test_values_agree_with_looking_one_by_one(rows):
    expected = [x is not None and all(y == x for b, y in rows if b == a) for a, x in rows]
    if all(x is None for _, x in rows):
        with pytest.raises(MeasureError, match="could be learned"):
            measure(data(rows))
        return
    found = measure(data(rows))
    assert found.value == sum(expected) / len(rows)
    assert found.records["disclosed"].to_list() == expected


def test_the_worst_variable_counts_and_all_are_told():
    frame = pl.DataFrame(
        {"a": [0, 0, 1, 2], "x": [1, 1, None, 2], "y": ["u", "v", "w", "w"], "z": [None] * 4}
    ).with_columns(pl.col("z").cast(pl.Int64))
    schema = sf.Schema({"a": "quasi", "x": "sensitive", "y": "sensitive", "z": "sensitive"})
    found = measure(generalised(frame, schema))
    assert found.table["variable"].to_list() == ["x", "y", "z"]
    assert found.table["attribute_disclosure"].to_list() == [0.75, 0.5, 0.0]
    assert found.value == 0.75
    assert found.details["disclosed_records"] == 3
    assert found.details["records_with_any_value_disclosed"] == 4


def test_a_range_satisfies_a_statement_only_with_all_its_values():
    ranges = ["[10;19]", "[20;29]", "[20;29]", "*"]
    one = text([0, 0, 1, 2], ranges, kind="integer")
    found = measure(one, where="x >= 20")
    assert found.value == 0.5  # of the two that surely satisfy it, one shares its class
    found = measure(one, where="x >= 15")
    assert found.details["satisfying_records"] == 2
    assert found.details["may_satisfy_records"] == 2
    assert found.details["disclosed_records"] == 1
    assert found.details["disclosed_records_if_all_that_may_satisfy_do"] == 4


def test_suppressed_cells_teach_nothing():
    found = measure(text([0, 0, 1], ["*", "*", "u"]))
    assert found.details["disclosed_records"] == 1
    with pytest.raises(MeasureError, match="could be learned"):
        measure(text([0, 0], ["*", None]))
    with pytest.raises(MeasureError, match="No record satisfies"):
        measure(text([0, 0], ["*", "*"]), where='x == "u"')


def test_a_dropped_known_variable_joins_classes():
    frame = pl.DataFrame({"a": [0, 1], "b": [0, 0], "x": [1, 2]})
    one = generalised(frame, sf.Schema({"a": "quasi", "b": "quasi", "x": "sensitive"}))
    found = sf.risk.AttributeDisclosure().measure(one, one.without(["a"]))
    assert (found.value, found.baseline) == (0.0, 1.0)


def test_what_is_not_released_cannot_be_learned():
    one = data([(0, 1), (1, 2)])
    gone = one.without(["x"])
    with pytest.raises(MeasureError, match="nothing to learn"):
        sf.risk.AttributeDisclosure(confidential=["x"]).measure(one, gone)
    with pytest.raises(MeasureError, match="that the released data lack: x"):
        sf.risk.AttributeDisclosure(where="x > 0").measure(one, gone)
    with pytest.raises(SchemaError, match="'y' is not in the data"):
        measure(one, where="y > 0")
    with pytest.raises(MeasureError, match="Both known"):
        measure(one, where="a > 0")


def test_odd_parameters_are_refused_when_they_are_set():
    with pytest.raises(ParameterError, match="either where or confidential"):
        sf.risk.AttributeDisclosure(where="x > 1", confidential=["x"])
    with pytest.raises(ParameterError, match="'where' parameter .*compares variables with values"):
        sf.risk.AttributeDisclosure(where="__import__('os').system('true')")


def test_statements_stand_in_plans_and_targets_are_held_against_them(cohort):
    one = cohort.without(cohort.schema.having("direct"))
    plan = sf.Plan.parse(
        sf.Plan(
            schema=one.schema,
            evaluate={"rich": sf.risk.AttributeDisclosure(where="income > 30000")},
            targets={"rich.attribute_disclosure.max": 0.1},
        ).text()
    )
    with pytest.raises(TargetError):
        sf.protect(one, plan, key=bytes(32))


GROUPS = {"home": ["a", "b"], "work": ["c"]}
grouped_rows = st.lists(st.tuples(cells, cells, cells, cells, cells), min_size=1, max_size=25)


def grouped(rows) -> sf.Dataset:
    frame = pl.DataFrame(rows, schema=dict.fromkeys("abcxy", pl.Int64), orient="row")
    roles: Any = dict.fromkeys("abc", "quasi") | dict.fromkeys("xy", "sensitive")
    return generalised(frame, sf.Schema(roles))


@given(grouped_rows)
def test_every_combination_of_groups_agrees_with_looking_one_by_one(rows):
    if all(row[3] is None and row[4] is None for row in rows):
        return
    found = measure(grouped(rows), groups=GROUPS)
    assert found.table["known"].to_list() == ["home", "work", "home + work"]
    for row, columns in zip(found.table.rows(named=True), ([0, 1], [2], [0, 1, 2]), strict=True):
        disclosed = {
            name: sum(
                mine[at] is not None
                and all(
                    other[at] == mine[at]
                    for other in rows
                    if all(other[i] == mine[i] for i in columns)
                )
                for mine in rows
            )
            for name, at in (("x", 3), ("y", 4))
        }
        assert row["disclosed_records"] == max(disclosed.values())
        assert row["attribute_disclosure"] == max(disclosed.values()) / len(rows)
        assert disclosed[row["worst_variable"]] == max(disclosed.values())
        assert row["attribute_disclosure_at_worst"] >= row["attribute_disclosure"]
    alone, _, together = found.table["disclosed_records"].to_list()
    # Who knows more learns of no fewer.
    assert alone <= together == found.details["disclosed_records"]
    assert found.value == measure(grouped(rows)).value


def test_a_statement_by_what_is_known():
    rows = [(0, 0, 0, 5, 0), (0, 0, 1, 1, 0), (1, 0, 1, 5, 0), (1, 0, 1, 5, 0)]
    found = measure(grouped(rows), where="x > 2", groups=GROUPS)
    assert found.table["attribute_disclosure"].to_list() == pytest.approx([2 / 3, 1 / 3, 1.0])
    assert found.table["disclosed_records"].to_list() == [2, 1, 3]
    picture = sf.pictures.known_groups(found)
    assert picture.title == "Records with a disclosed value, by what is known"


def test_a_public_picture_hides_one_or_two_disclosed_records():
    rows = [(0, 0, 0, 5, 0), (0, 0, 1, 1, 0), (1, 0, 1, 5, 0), (1, 0, 1, 5, 0)]
    found = measure(grouped(rows), where="x > 2", groups=GROUPS)
    bars: Any = sf.pictures.known_groups(found, public=True).figure.axes[0].patches
    widths = [bar.get_width() for bar in bars]
    assert [width for width in widths if width > 0] == [pytest.approx(1.0)]


def test_groups_cannot_hold_what_is_confidential():
    with pytest.raises(MeasureError, match="Both known to the outsider and confidential: x"):
        measure(grouped([(0, 0, 0, 1, 1)]), groups={"all": ["a", "x"]})
    with pytest.raises(ParameterError, match="groups must hold"):
        measure(grouped([(0, 0, 0, 1, 1)]), groups={})


# Secrets that are nearly one value ---------------------------------------------------------------


def at_worst(found) -> float:
    return float(found.details.get("attribute_disclosure_at_worst", found.value))


def test_salaries_within_a_few_hundred_are_learned():
    random = np.random.default_rng(3)
    pay = random.normal(60_000, 25_000, 90).round().tolist()
    near = (120_000 + random.permutation(400)[:9]).tolist()
    frame = pl.DataFrame({"a": [n // 9 for n in range(90)] + [10] * 9, "x": pay + near})
    one = sf.Dataset(frame, sf.Schema({"a": "quasi", "x": "sensitive"}))
    found = measure(one)
    assert found.value == 0
    assert at_worst(found) == 9 / 99
    assert at_worst(measure(one, close_within=0)) == 0
    # A single one who earns something else hides them, unless most of a class are enough.
    other = one.with_columns(frame.select(pl.col("x").replace(near[0], 20_000)))
    assert at_worst(measure(other)) == 0
    assert at_worst(measure(other, close_share=0.8)) == 9 / 99


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 60))),
        min_size=3,
        max_size=40,
    ),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.sampled_from([0.6, 0.8, 1.0]),
)
def test_near_values_against_plain_python(rows, within, share):
    values = [x for _, x in rows if x is not None]
    if not values:
        return
    column = sf.Column(role="sensitive", kind="integer")
    one = sf.Dataset(
        pl.DataFrame(rows, schema={"a": pl.Int64, "x": pl.Int64}, orient="row"),
        sf.Schema({"a": "quasi", "x": column}),
    )
    ordered = sorted(values)
    quarters = [ordered[max(0, math.ceil(q * len(values)) - 1)] for q in (0.25, 0.75)]
    spread = statistics.pstdev(values)
    if quarters[1] > quarters[0]:
        spread = min(spread, (quarters[1] - quarters[0]) / 1.349)
    width = within * spread
    disclosed = 0
    for a in {a for a, _ in rows}:
        mine = [x for b, x in rows if b == a and x is not None]
        held = max((sum(low <= x <= low + width for x in mine) for low in mine), default=0)
        if mine and (len(set(mine)) == 1 or (width > 0 and held >= share * len(mine) - 1e-9)):
            disclosed += sum(b == a for b, _ in rows)
    found = measure(one, close_within=within, close_share=share, same_within=0)
    assert at_worst(found) == pytest.approx(disclosed / len(rows))


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["HIV stage 1", "HIV stage 2", "HIV stage 3", "AIDS"], {}),
        (["E10", "E11.9", "E66", "E78"], {}),
        (["ash", "oak", "elm", "yew"], {"hierarchy": {"ash": ("tree",), "oak": ("tree",),
          "elm": ("tree",), "yew": ("tree",), "cod": ("fish",), "eel": ("fish",)}}),
    ],
)  # fmt: skip
def test_stages_and_chapters_are_learned_together(values, column):
    others = {"E10": ["I10", "F32"], "ash": ["cod", "eel"]}.get(values[0], ["flu", "gout"])
    one = text([1] * 4 + [2] * 4, [*values, values[0], others[0], others[1], others[0]], **column)
    found = measure(one)
    assert found.value == 0
    assert at_worst(found) == 0.5
    assert "one group" in " ".join(found.warnings)


def test_words_that_hold_no_group_are_left_alone():
    one = text([1] * 4, ["none", "asthma", "gout", "aidsaid"])
    assert at_worst(measure(one)) == 0
