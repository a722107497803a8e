from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, generalised, in_library

import sfumato as sf
from sfumato.cells.classes import find_equivalence_classes
from sfumato.errors import MeasureError, PlanError
from sfumato.risk.disclosure.evaluation import evaluate_predicate
from sfumato.risk.disclosure.predicate import list_variables, parse

MEASURES = ["Closeness", "Diversity", "AttributeDisclosure"]
each_measure = pytest.mark.parametrize("name", MEASURES)


def take(name, frame, schema=None):
    told = schema or {"a": "quasi", "b": "quasi", "x": "sensitive"}
    return getattr(sf.risk, name)().measure(generalised(frame, sf.Schema(told)))


def told(found):
    return {**found.plain(), "records": found.records.to_dict(as_series=False)}


# Classes


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.text("ab", max_size=2)),
            st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, 1e300])),
            st.one_of(st.none(), st.sampled_from([-(2**63), 0, 5, 2**63 - 1])),
        ),
        max_size=30,
    )
)
def test_classes_are_counted_one_by_one(rows):
    schema = {"a": pl.String, "b": pl.Float64, "c": pl.Int64}
    data = generalised(pl.DataFrame(rows, schema=schema, orient="row"))
    found = find_equivalence_classes(data, ["a", "b", "c"])
    counts = Counter(rows)
    assert found.sizes[found.of].tolist() == [counts[row] for row in rows]
    assert len(found) == len(counts)
    order = found.order.tolist()
    assert sorted(order) == list(range(len(rows)))
    for first, last in zip(found.starts, found.starts[1:], strict=False):
        assert len({rows[at] for at in order[first:last]}) == 1


KEYS: dict[str, Any] = {
    "string": ["u", "v", None],
    "category": pl.Series(["u", "v", None], dtype=pl.Categorical),
    "enum": pl.Series(["u", "v", None], dtype=pl.Enum(["w", "v", "u"])),
    "bool": [True, False, None],
    "int": [1, 2, None],
    "big": pl.Series([2**64 - 1, 2**63, None], dtype=pl.UInt64),
    "float": [0.5, 1.5, None],
    "decimal": [Decimal("0.5"), Decimal("1.5"), None],
    "date": [dt.date(2020, 1, 1), dt.date(1900, 1, 1), None],
    "datetime": [dt.datetime(2020, 1, 1, 1), dt.datetime(1900, 1, 1), None],  # noqa: DTZ001
    "time": [dt.time(1), dt.time(2), None],
    "bytes": [b"u", b"\xff", None],
    "nothing": pl.Series([None, None, None], dtype=pl.Null),
}


@pytest.mark.parametrize("key", KEYS)
def test_every_type_of_key_and_of_value(key):
    # sdcMicro makes one class of all records when keys are text.
    values = pl.Series("a", KEYS[key])
    frame = pl.DataFrame([values, values.alias("x")])
    frame = pl.concat([frame, frame])
    data = generalised(frame, sf.Schema({"a": "quasi", "x": "sensitive"}))
    classes = 1 if key == "nothing" else 3
    assert find_equivalence_classes(data, ["a"]).sizes.tolist() == [6 // classes] * classes
    assert sf.risk.Diversity().measure(data).value == 1
    found = sf.risk.Closeness(distance="equal").measure(data)
    assert found.value == pytest.approx(1 - 1 / classes)
    if key != "nothing":
        assert sf.risk.AttributeDisclosure().measure(data).value == pytest.approx(2 / 3)


def test_codes_for_missing_are_told_apart_in_keys_and_not_in_values():
    frame = pl.DataFrame({"a": [-9, -8, -9], "x": [-9, -8, 1]})
    data = generalised(
        frame,
        sf.Schema(
            {
                "a": sf.Column(role="quasi", missing=(-9, -8)),
                "x": sf.Column(role="sensitive", missing=(-9, -8)),
            }
        ),
    )
    assert find_equivalence_classes(data, ["a"]).sizes.tolist() == [2, 1]
    assert sf.risk.Diversity().measure(data, data.without(["a"])).value == 2


def test_nothing_known_is_one_class():
    assert find_equivalence_classes(
        generalised(pl.DataFrame({"a": [1, 2]})), []
    ).sizes.tolist() == [2]


# The traps that other tools fell into


ROWS = {"a": [1, 1, 2, 2, 2, None], "b": list("uuvvvv"), "x": [5, 6, 7, 7, 8, 7]}


@each_measure
@pytest.mark.parametrize("index", ["sorted", "filtered", "duplicated", "multi", "text", "shuffled"])
def test_labels_and_positions_of_pandas_are_never_mixed(name, index):
    # pycanon 1.3.6: l = 2 and t = 0.33 on a sorted frame where the truth is 1 and 0.50.
    import pandas as pd

    frame = pd.DataFrame(ROWS)
    if index == "sorted":
        frame = frame.sort_values(["x", "b"], ascending=False)
    elif index == "filtered":
        frame = pd.concat([frame, frame]).iloc[[3, 0, 1, 8, 4, 11]]
    elif index == "duplicated":
        frame.index = pd.Index([0, 0, 1, 1, 0, 0])
    elif index == "multi":
        frame.index = pd.MultiIndex.from_product([[1, 0], ["z", "y", "x"]])
    elif index == "text":
        frame.index = pd.Index(list("fedcba"))
    else:
        frame = frame.sample(frac=1, random_state=3)
    plain = pl.from_pandas(frame.reset_index(drop=True), nan_to_null=True)
    found, expected = take(name, frame), take(name, plain)
    assert found.plain() == expected.plain()
    assert found.records.to_dict("list") == expected.records.to_dict(as_series=False)


def test_the_numbers_on_a_sorted_frame():
    import pandas as pd

    frame = pd.DataFrame(
        {"a": [1, 2, 1, 2], "b": [0, 0, 0, 0], "x": ["s", "t", "s", "t"]}
    ).sort_values("a")
    assert take("Diversity", frame).value == 1
    assert take("Closeness", frame).value == 0.5
    assert take("AttributeDisclosure", frame).value == 1.0


@each_measure
def test_unused_levels_of_categories_make_no_class_and_no_value(name):
    # pycanon: k = 0 with unused levels.
    import pandas as pd

    plain = pd.DataFrame({"a": list("uuvv"), "b": list("wwww"), "x": list("stst")})
    levels = ["u", "v", "w", "s", "t", "never", "ever"]
    category = plain.astype(pd.CategoricalDtype(levels))
    assert take(name, category).plain() == take(name, plain).plain()


@each_measure
def test_a_record_with_a_gap_in_a_key_is_a_class_of_its_own(name):
    # pycanon drops it and reports k = 2.
    frame = pl.DataFrame({"a": [1, 1, None], "b": [1, 1, 1], "x": ["s", "t", "s"]})
    found = take(name, frame)
    assert found.details["smallest_class"] == 1
    assert found.value == {"Closeness": 1 / 3, "Diversity": 1, "AttributeDisclosure": 1 / 3}[name]


@each_measure
def test_text_in_keys_and_odd_names(name):
    frame = pl.DataFrame({"a": ["1", "01", "1"], "b": ["", " ", ""], "x": ["s", "t", "t"]})
    odd = frame.rename({"a": "__sfumato_at__", "b": "value", "x": "at"})
    schema = {"__sfumato_at__": "quasi", "value": "quasi", "at": "sensitive"}
    found = take(name, odd, schema)
    assert found.details["classes"] == 2
    assert found.value == take(name, frame).value


@each_measure
@drawn("library", LIBRARIES)
def test_whole_numbers_with_gaps_are_the_same_in_every_library(name, library):
    frame = pl.DataFrame({"a": [1, None, 1, 2], "b": [1, 1, 1, 1], "x": [None, 3, 4, 4]})
    levels = sf.Column(role="sensitive", kind="ordinal", domain=(3, 4, 5))
    schema = {"a": "quasi", "b": "quasi", "x": levels}
    found = take(name, in_library(frame, library), schema)
    assert found.plain() == take(name, frame, schema).plain()


# Statements


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "x >", "1 < 2", "x < y", "x + 1 > 2", "f(x) > 1", "x.y > 1", "x[0] > 1",
        "lambda: 1", "(x := 1) > 0", "x is None", "x == None", "x in 'abc'", "x in []",
        "1 in [1]", "[1] in x", "x == 1j", "x == b'a'", "x > 1 if y > 1 else z > 1",
        "x in [y]", "x == f'{y}'", "x > 1; y > 1", "x = 1", "*x > 1", "x == -'a'", "x == ...",
        "x in {1: 2}", "x in [1 for x in y]", "`x > 1", "x == 'a\\d'", "x > 1e999", "\0 > 1",
        "not x", "x and y", "x > " + "1" * 6000, "(" * 3000 + "x > 1" + ")" * 3000,
        "x > 1 #" * 2000, "not " * 60 + "x > 1",
        "await x > 1", "x > ~1", "x < 1 < [2]",
    ],
)  # fmt: skip
def test_nothing_else_is_ever_read(text):
    with pytest.raises(ValueError, match="compares variables with values|use == for equal"):
        parse(text)


def test_names_in_backticks_hide_no_other_name():
    found = parse('`blood group` == "A`B" and _0 > 1 and `class` > 1 and `a\'b` < 1')
    assert list_variables(found) == ("blood group", "_0", "class", "a'b")


ALIKE = ["\u00b5g", "\u03bcg", "e\u0301", "\u00e9", "\uff58", "x", "\u212b", "\u00c5", "\ufb01x"]


@pytest.mark.parametrize("name", ALIKE)
def test_names_that_look_alike_are_told_apart(name):
    assert list_variables(parse(f"{name} > 1")) == (name,)
    assert list_variables(parse(f"1 < {name}<2 and (not `{name}`>1)")) == (name,)
    frame = pl.DataFrame({one: [at == ALIKE.index(name)] for at, one in enumerate(ALIKE)})
    assert evaluate_predicate(generalised(frame), parse(f"{name} == True")).surely.tolist() == [
        True
    ]


def test_names_in_texts_and_comments_are_left_alone():
    for quote in ('"', "'", '"""', "'''"):
        made: Any = parse(f"\u00b5g == {quote}\u00b5g `b` # it{quote}")
        assert (made.variable, made.constants) == ("\u00b5g", ("\u00b5g `b` # it",))
    made = parse("\u00b5g == '''it's \u00b5g `b`'''")
    assert made.constants == ("it's \u00b5g `b`",)
    made = parse("(x > 1 # it's `b \n and \u00b5g > 1 and y == 'a')")
    assert list_variables(made) == ("x", "\u00b5g", "y")
    made = parse("a_0 > 1 and a\uff3f0 > 1 and `a_0` > 1 and __0 > 1")
    assert list_variables(made) == ("a_0", "a\uff3f0", "__0")


@pytest.mark.parametrize(
    "text",
    [
        "c == '\\ud800'", "c in ['a', '\\udfff']", "c == '\ud800'", "\ud800 > 1", "`\ud800` > 1",
        "x \u2264 5", "x\u00a0> 5", "x == \u201ca\u201d", "\u00b5g \u00b5g > 1", "1\u00b5g > 1",
    ],
)  # fmt: skip
def test_text_that_cannot_be_written_is_refused(text):
    with pytest.raises(ValueError, match="compares variables with values") as caught:
        parse(text)
    assert not isinstance(caught.value, UnicodeError)
    with pytest.raises(PlanError):
        sf.risk.AttributeDisclosure(where=text)


NUMBER = st.one_of(
    st.none(),
    st.just("*"),
    st.integers(-2, 6).map(str),
    st.tuples(st.integers(-2, 6), st.integers(0, 4)).map(lambda p: f"[{p[0]};{p[0] + p[1]}]"),
    st.lists(st.integers(-2, 6), min_size=1, max_size=3).map(
        lambda held: "{" + ";".join(map(str, held)) + "}"
    ),
)
ATOMS = st.one_of(
    st.tuples(st.sampled_from("xy"), st.sampled_from(["<", "<=", ">", ">=", "==", "!="])).flatmap(
        lambda p: st.integers(-1, 5).map(lambda c: f"{p[0]} {p[1]} {c}")
    ),
    st.tuples(st.sampled_from("xy"), st.integers(-1, 2), st.integers(2, 5)).map(
        lambda p: f"{p[1]} <= {p[0]} < {p[2]}"
    ),
    st.tuples(
        st.sampled_from("xy"), st.sampled_from(["in", "not in"]),
        st.lists(st.integers(-1, 5), min_size=1, max_size=4),
    ).map(lambda p: f"{p[0]} {p[1]} {p[2]}"),
)  # fmt: skip
STATEMENTS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda p: f"({p[0]}) {p[1]} ({p[2]})"
        ),
    ),
    max_leaves=4,
)


def stands_for(cell):
    """All whole numbers a cell stands for; far ones stand for all beyond the constants."""
    if cell is None or cell == "*":
        return range(-40, 41)
    if cell.startswith("["):
        low, high = map(int, cell[1:-1].split(";"))
        return range(low, high + 1)
    return [int(one) for one in cell.strip("{}").split(";")]


@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=6), STATEMENTS)
def test_statements_about_ranges_agree_with_trying_every_value(rows, statement):
    frame = pl.DataFrame(rows, schema={"x": pl.String, "y": pl.String}, orient="row")
    whole = sf.Column(kind="integer")
    data = generalised(frame, sf.Schema({"x": whole, "y": whole}))
    found = evaluate_predicate(data, parse(statement))
    used = list_variables(parse(statement))
    for at, (x, y) in enumerate(rows):
        held = [
            eval(statement, {}, {"x": one, "y": other})  # noqa: S307
            for one in (stands_for(x) if "x" in used else [0])
            for other in (stands_for(y) if "y" in used else [0])
        ]
        gap = any(cell is None for name, cell in (("x", x), ("y", y)) if name in used)
        if gap:
            # Three-valued logic may miss that a statement holds whatever is missing, never the
            # other way round.
            assert not found.surely[at] or all(held)
        else:
            assert found.surely[at] == all(held)
            assert found.possibly[at] == any(held)
            assert not found.unknown[at]


def test_missing_satisfies_neither_a_statement_nor_its_opposite():
    data = generalised(pl.DataFrame({"x": [1, None], "y": [None, 3]}))
    for statement in ("x > 0", "not x > 0", "x != 7", "x not in [7]", "x == 1 or x != 1"):
        found = evaluate_predicate(data, parse(statement))
        assert not found.surely[1]
        assert found.unknown[1]
        assert not found.possibly[1]
    # What is not missing can decide.
    assert evaluate_predicate(data, parse("x > 0 or y == 3")).surely.tolist() == [True, True]
    assert evaluate_predicate(data, parse("x > 0 and y == 4")).unknown.tolist() == [True, False]


@drawn("library", LIBRARIES)
def test_dates_are_compared_with_text(library):
    days = [dt.date(2019, 12, 31), dt.date(2020, 1, 31), None]
    moments = [dt.datetime(2020, 1, 31, 12), dt.datetime(2020, 1, 31), None]  # noqa: DTZ001
    frame = in_library(pl.DataFrame({"day": days, "moment": moments}), library)
    data = generalised(frame)
    assert evaluate_predicate(data, parse('day >= "2020-01-31"')).surely.tolist() == [
        False,
        True,
        False,
    ]
    assert evaluate_predicate(data, parse('moment > "2020-01-30"')).surely.tolist() == [
        True,
        True,
        False,
    ]
    late = parse('moment == "2020-01-31T12:00"')
    assert evaluate_predicate(data, late).surely.tolist() == [True, False, False]


def test_moments_are_those_on_the_clock_of_their_zone():
    zone = pl.Series([dt.datetime(2020, 1, 31, 12)]).dt.replace_time_zone("Asia/Tokyo")  # noqa: DTZ001
    data = generalised(pl.DataFrame({"x": zone}))
    assert evaluate_predicate(data, parse('x == "2020-01-31 12:00"')).surely.tolist() == [True]


DAY = dt.datetime(2020, 1, 31)  # noqa: DTZ001
AROUND = [
    DAY - dt.timedelta(microseconds=1), DAY, DAY + dt.timedelta(hours=12),
    DAY + dt.timedelta(days=1, microseconds=-1), DAY + dt.timedelta(days=1),
]  # fmt: skip


@drawn("library", LIBRARIES)
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("x == '2020-01-31'", [False, True, True, True, False]),
        ("x != '2020-01-31'", [True, False, False, False, True]),
        ("x < '2020-01-31'", [True, False, False, False, False]),
        ("x <= '2020-01-31'", [True, True, True, True, False]),
        ("x > '2020-01-31'", [False, False, False, False, True]),
        ("x >= '2020-01-31'", [False, True, True, True, True]),
        ("x in ['2020-01-30', '2020-02-01']", [True, False, False, False, True]),
        ("'2020-01-31' == x", [False, True, True, True, False]),
        ("'2020-01-31' < x", [False, False, False, False, True]),
        ("x == '2020-01-31' and x != '2020-01-31 12:00'", [False, True, False, True, False]),
        ("x >= '2020-01-31 12:00'", [False, False, True, True, True]),
    ],
)
def test_a_date_among_moments_is_the_whole_day(library, statement, expected):
    data = generalised(in_library(pl.DataFrame({"x": AROUND}), library))
    assert evaluate_predicate(data, parse(statement)).surely.tolist() == expected


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_days_before_1970_are_whole_days_too(unit):
    held = [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1970, 1, 1)]  # noqa: DTZ001
    data = generalised(pl.DataFrame({"x": pl.Series(held, dtype=pl.Datetime(unit))}))
    assert evaluate_predicate(data, parse("x == '1969-12-31'")).surely.tolist() == [True, False]
    assert evaluate_predicate(data, parse("x >= '1970-01-01'")).surely.tolist() == [False, True]
    end = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001
    last = generalised(pl.DataFrame({"x": [end]}))
    assert evaluate_predicate(last, parse("x == '9999-12-31'")).surely.tolist() == [True]


@pytest.mark.parametrize("constant", ["2020-01-31T12:00+05:00", "2020-01-31T12:00Z"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_an_offset_is_never_dropped(constant, zone):
    data = generalised(pl.DataFrame({"x": pl.Series(AROUND).dt.replace_time_zone(zone)}))
    with pytest.raises(MeasureError, match=r"'x'.*offset") as caught:
        evaluate_predicate(data, parse(f"x > '{constant}'"))
    assert constant not in str(caught.value)


def test_ranges_and_numbers_between_whole_ones():
    cells = ["[100;101]", "[101;102]", "100.5", "{1;2.5}", "937**", None]
    continuous = sf.Column(kind="continuous")
    data = generalised(pl.DataFrame({"x": cells}), sf.Schema({"x": continuous}))
    found = evaluate_predicate(data, parse("x > 100.5"))
    assert found.surely.tolist() == [False, True, False, False, True, False]
    assert found.possibly.tolist() == [True, True, False, False, True, False]
    found = evaluate_predicate(data, parse("x in [1, 2.5]"))
    assert found.surely.tolist() == [False, False, False, True, False, False]


def test_ranges_of_dates():
    data = generalised(pl.DataFrame({"day": ["[2020-01-01;2020-03-31]", "2020-05-01", "*"]}))
    found = evaluate_predicate(data, parse('day < "2020-04-01"'))
    assert found.surely.tolist() == [True, False, False]
    assert found.possibly.tolist() == [True, False, True]
    assert evaluate_predicate(data, parse('day < "2020-02-01"')).possibly.tolist() == [
        True,
        False,
        True,
    ]


def test_sets_masks_and_groups_of_categories():
    tree = {"E10": ("E",), "E11": ("E",), "I10": ("I",)}
    cells = ["E11", "{E10;E11}", "E", "{E11;I10}", "I", "*", None]
    column = sf.Column(kind="nominal", hierarchy=tree)
    data = generalised(pl.DataFrame({"x": cells}), sf.Schema({"x": column}))
    both = evaluate_predicate(data, parse('x in ["E10", "E11"]'))
    assert both.surely.tolist() == [True, True, True, False, False, False, False]
    assert both.possibly.tolist() == [True, True, True, True, False, True, False]
    group = evaluate_predicate(data, parse('x == "E"'))  # any of the group
    assert group.surely.tolist() == both.surely.tolist()
    other = evaluate_predicate(data, parse('x != "E11"'))
    assert other.surely.tolist() == [False, False, False, False, True, False, False]
    codes = generalised(pl.DataFrame({"zip": ["93701", "937**", "94***"]}))
    found = evaluate_predicate(codes, parse('zip == "93701"'))
    assert (found.surely.tolist(), found.possibly.tolist()) == (
        [True, False, False],
        [True, True, False],
    )


def test_a_value_that_nobody_has_is_satisfied_by_nobody():
    data = generalised(pl.DataFrame({"x": ["a", "*"], "y": [1, 2]}))
    found = evaluate_predicate(data, parse('x == "nobody"'))
    assert (found.surely.tolist(), found.possibly.tolist()) == ([False] * 2, [False, True])
    assert evaluate_predicate(data, parse('x != "nobody"')).surely.tolist() == [True, False]


def test_codes_for_missing_satisfy_nothing_even_if_named():
    codes = sf.Column(kind="integer", missing=("-9",))
    data = generalised(pl.DataFrame({"x": ["-9", "[1;3]", "5"]}), sf.Schema({"x": codes}))
    assert evaluate_predicate(data, parse("x == -9")).surely.tolist() == [False] * 3
    assert evaluate_predicate(data, parse("x != -9")).surely.tolist() == [False, True, True]
    assert evaluate_predicate(data, parse("x > -9")).unknown.tolist() == [True, False, False]
    text = sf.Column(kind="nominal", missing=("none",))
    data = generalised(pl.DataFrame({"x": ["none", "a", "b"]}), sf.Schema({"x": text}))
    assert evaluate_predicate(data, parse('x == "none"')).surely.tolist() == [False] * 3
    assert evaluate_predicate(data, parse('x in ["none", "a"]')).surely.tolist() == [
        False,
        True,
        False,
    ]
    with pytest.raises(MeasureError, match="stands for anything"):
        evaluate_predicate(data, parse('x == "*"'))


def test_declared_levels_have_an_order_and_others_do_not():
    levels = ("low", "middle", "high")
    cells = ["low", "[low;middle]", "[middle;high]", "high", None]
    ordinal = sf.Column(kind="ordinal", domain=levels)
    data = generalised(pl.DataFrame({"x": cells}), sf.Schema({"x": ordinal}))
    found = evaluate_predicate(data, parse('x >= "middle"'))
    assert found.surely.tolist() == [False, False, True, True, False]
    assert found.possibly.tolist() == [False, True, True, True, False]
    with pytest.raises(MeasureError, match="order of variable 'x'"):
        evaluate_predicate(data, parse('x > "medium"'))
    with pytest.raises(MeasureError, match="order of variable 'x'"):
        evaluate_predicate(generalised(pl.DataFrame({"x": ["a", "b"]})), parse('x > "a"'))


def test_numbers_keep_their_last_digit():
    big = 2**60
    data = generalised(pl.DataFrame({"x": [big, big + 1, None]}))
    assert evaluate_predicate(data, parse(f"x > {big}")).surely.tolist() == [False, True, False]
    data = generalised(pl.DataFrame({"x": pl.Series([2**64 - 1, 5], dtype=pl.UInt64)}))
    assert evaluate_predicate(data, parse(f"x == {2**64 - 1}")).surely.tolist() == [True, False]
    yes = generalised(pl.DataFrame({"x": [True, False, None]}))
    assert evaluate_predicate(yes, parse("x == True")).surely.tolist() == [True, False, False]
    tenths = generalised(pl.DataFrame({"x": [Decimal("0.1"), Decimal("0.2")]}))
    assert evaluate_predicate(tenths, parse("x == 0.1")).surely.tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "statement", "match"),
    [
        ([1, 2], 'x == "a"', "holds numbers"),
        (["a", "b"], "x == 1", "holds text"),
        ([dt.date(2020, 1, 1)], "x > 5", "holds dates"),
        ([dt.datetime(2020, 1, 1)], "x > 'today'", "holds dates"),  # noqa: DTZ001
        ([b"a"], "x == 'a'", "no statement"),
        ([dt.time(1)], "x == '01:00'", "no statement"),
    ],
)
def test_constants_of_another_type_are_refused(values, statement, match):
    with pytest.raises(MeasureError, match=match):
        evaluate_predicate(generalised(pl.DataFrame({"x": values})), parse(statement))


def test_too_many_combinations_are_refused():
    names = [f"x{at}" for at in range(8)]
    data = generalised(pl.DataFrame({name: [1] for name in names}))
    listed = list(range(40))
    with pytest.raises(MeasureError, match="too many"):
        evaluate_predicate(data, parse(" and ".join(f"{name} in {listed}" for name in names)))


def test_many_records_against_numpy():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=300_000), rng.integers(0, 9, 300_000)
    data = generalised(pl.DataFrame({"x": x, "y": y}))
    found = evaluate_predicate(data, parse("-0.5 <= x < 1.25 and not y in [2, 3] or y == 8"))
    expected = (x >= -0.5) & (x < 1.25) & ~np.isin(y, [2, 3]) | (y == 8)
    assert (found.surely == expected).all()
