"""Full-domain generalisation: against a reference that goes through the whole lattice by hand."""

from __future__ import annotations

import itertools
import math
import os
import re
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines import engine_for
from sfumato.errors import MethodError, PlanError
from sfumato.methods._generalisation import search
from sfumato.parameters import ParameterError

REGION = {
    "Ash": ("North", "Land"),
    "Birk": ("North", "Land"),
    "Cove": ("South", "Land"),
    "Dale": ("South", "Land"),
}
AGE = sf.hierarchies.intervals(20, 39, [5, 10])
SCHEMA = sf.Schema(
    {
        "region": sf.Column(role="quasi", kind="nominal", hierarchy=REGION),
        "age": sf.Column(role="quasi", kind="integer", hierarchy=AGE),
        "sex": sf.Column(role="quasi", kind="nominal"),
        "illness": sf.Column(role="sensitive", kind="nominal"),
    }
)
TYPES = {"region": pl.String, "age": pl.Int64, "sex": pl.String, "illness": pl.String}
records = st.tuples(
    st.one_of(st.none(), st.sampled_from(list(REGION))),
    st.one_of(st.none(), st.integers(20, 39)),
    st.sampled_from(["f", "m"]),
    st.sampled_from(["flu", "gout", "hiv"]),
)
KNOWN = ("region", "age", "sex")


def data_of(rows, schema=SCHEMA) -> sf.Dataset:
    return sf.Dataset(pl.DataFrame(rows, schema=TYPES, orient="row"), schema)


# The slow reference: nothing of it is from the package ------------------------------------------


def paths_of(rows):
    """For each variable, the cell of each value at each level, and how many values are behind it.

    A value, its groups, `*`; missing stays missing up to `*`.
    """
    tables: list[dict[Any, list[str]]] = [
        {value: [value, *groups] for value, groups in REGION.items()},
        {int(value): [value, *groups] for value, groups in AGE.items()},
        {row[2]: [row[2]] for row in rows},
    ]
    found = []
    for table in tables:
        depth = len(next(iter(table.values())))
        cells = {value: [*path, "*"] for value, path in table.items()}
        behind = Counter(cell for path in cells.values() for cell in set(path))
        found.append(({**cells, None: [None] * depth + ["*"]}, behind, len(table)))
    return found


def distance(part, whole):
    """Half the sum of the differences of two distributions."""
    values = set(part) | set(whole)
    sizes = sum(part.values()), sum(whole.values())
    return sum(abs(part[v] / sizes[0] - whole[v] / sizes[1]) for v in values) / 2


def keeps(members, rows, k, least, t):
    illnesses = Counter(rows[i][3] for i in members)
    whole = Counter(row[3] for row in rows)
    return (
        len(members) >= k
        and (least is None or len(illnesses) >= least)
        and (t is None or distance(illnesses, whole) <= t + 1e-12)
    )


def slow_loss(rows, node, tables, bounds, loss):
    """What the best suppression at a node loses; None where it is not possible."""
    suppression, *rules = bounds
    shown = [
        tuple(
            table[0][row[at]][level]
            for at, (table, level) in enumerate(zip(tables, node, strict=True))
        )
        for row in rows
    ]
    classes = defaultdict(list)
    for index, cells in enumerate(shown):
        classes[cells].append(index)
    broken = {cells for cells, of in classes.items() if not keeps(of, rows, *rules)}
    most = math.floor(suppression * len(rows) + 1e-9)
    kept = [cells for cells in classes if cells not in broken]
    # One class more is enough where only k and l hold; t is tried without suppression.
    options = [broken] if not broken else [broken, *({*broken, cells} for cells in kept)]
    losses = []
    for hidden in options:
        gone = [i for cells in hidden for i in classes[cells]]
        if len(gone) > most or (gone and not keeps(gone, rows, *rules)):
            continue
        after = [("*",) * len(node) if cells in hidden else cells for cells in shown]
        losses.append(LOSSES[loss](rows, after, tables))
    return min(losses, default=None)


def granularity(rows, after, tables):
    shares = []
    for row, cells in zip(rows, after, strict=True):
        for value, cell, (_, behind, size) in zip(row[:3], cells, tables, strict=True):
            if value is None:
                shares.append(0.0)
            else:
                opened = size if cell == "*" else behind[cell]
                shares.append((opened - 1) / max(size - 1, 1))
    return sum(shares) / len(shares)


def discernibility(rows, after, tables):
    del tables
    n, sizes = len(rows), Counter(after)
    hidden = ("*",) * len(after[0])
    pairs = sum(
        size * (n - 1) if cells == hidden else size * (size - 1) for cells, size in sizes.items()
    )
    return pairs / (n * (n - 1))


def entropy(rows, after, tables):
    bits = most = 0.0
    for at in range(len(tables)):
        values = Counter(row[at] for row in rows if row[at] is not None)
        n = sum(values.values())
        for count in values.values():
            most += count * math.log2(n / count)
        for row, cells in zip(rows, after, strict=True):
            if row[at] is None:
                continue
            path = tables[at][0]
            cell = cells[at]
            like = [v for v in values if cell == "*" or cell in path[v]]
            bits += math.log2(sum(values[v] for v in like) / values[row[at]])
    return bits / (most or 1.0)


def class_size(rows, after, tables):
    del tables
    return len(rows) / len(set(after))


LOSSES = {
    "granularity": granularity,
    "discernibility": discernibility,
    "entropy": entropy,
    "class size": class_size,
}


def slow_best(rows, k, suppression, loss, *, least=None, t=None):
    tables = paths_of(rows)
    depths = [len(next(iter(table[0].values()))) for table in tables]
    losses = [
        slow_loss(rows, node, tables, (suppression, k, least, t), loss)
        for node in itertools.product(*map(range, depths))
    ]
    return min((loss for loss in losses if loss is not None), default=None)


# What must hold ----------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.lists(records, min_size=6, max_size=30),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.1, 0.3, 1.0]),
    st.sampled_from(list(LOSSES)),
)
def test_is_the_optimum_of_the_whole_lattice(rows, k, suppression, loss):
    method = sf.methods.Generalise(k=k, suppression=suppression, loss=loss)
    data = data_of(rows)
    fitted = method.fit(data, engine_for(data.frame))
    assert fitted["loss"] == pytest.approx(slow_best(rows, k, suppression, loss), abs=1e-9)
    assert fitted["gap"] == 0
    after = method.apply(data)
    if loss != "discernibility" or fitted["suppressed"] == 0:
        cells = [tuple(row) for row in after.frame.select(KNOWN).cast(pl.String).rows()]
        again = LOSSES[loss](rows, cells, paths_of(rows))
        assert fitted["loss"] == pytest.approx(again, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(records, min_size=6, max_size=30),
    st.sampled_from([(2, None), (None, 0.4), (2, 0.5)]),
    st.sampled_from([0.0, 0.2]),
)
def test_l_and_t_hold_in_every_class_also_the_suppressed(rows, bounds, suppression):
    least, t = bounds
    assume(len({row[3] for row in rows}) >= 2)
    data = data_of(rows)
    method = sf.methods.Generalise(k=2, l=least, t=t, suppression=suppression)
    after = method.apply(data).frame
    classes = defaultdict(list)
    for index, cells in enumerate(after.select(KNOWN).rows()):
        classes[cells].append(index)
    assert all(keeps(members, rows, 2, least, t) for members in classes.values())
    if t is None or suppression == 0:
        fitted = method.fit(data, engine_for(data.frame))
        best = slow_best(rows, 2, suppression, "granularity", least=least, t=t)
        assert fitted["loss"] == pytest.approx(best, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, min_size=6, max_size=30), st.sampled_from([0.0, 0.2]))
def test_every_cell_is_a_node_at_the_level_of_its_variable_or_suppressed(rows, suppression):
    data = data_of(rows)
    method = sf.methods.Generalise(k=3, suppression=suppression)
    levels = method.fit(data, engine_for(data.frame))["levels"]
    after = method.apply(data)
    hidden = 0
    for row, cells in zip(rows, after.frame.select(KNOWN).cast(pl.String).rows(), strict=True):
        nodes = tuple(
            table[0][value][levels[name]]
            for name, value, table in zip(KNOWN, row[:3], paths_of(rows), strict=True)
        )
        hidden += cells != nodes
        assert cells in (nodes, ("*",) * 3)
    assert hidden <= suppression * len(rows)
    assert sf.risk.Uniqueness().measure(after).details["k"] >= 3


@settings(max_examples=40, deadline=None)
@given(st.lists(records, min_size=6, max_size=30), st.sampled_from([0.0, 0.2, 1.0]))
def test_more_choices_than_can_be_gone_through_leave_a_gap_that_holds_the_optimum(rows, limit):
    with mock.patch.object(search, "MOST_NODES", 1):
        data = data_of(rows)
        method = sf.methods.Generalise(k=3, suppression=limit)
        fitted = method.fit(data, engine_for(data.frame))
        assert sf.risk.Uniqueness().measure(method.apply(data)).details["k"] >= 3
    best = slow_best(rows, 3, limit, "granularity")
    assert fitted["loss"] - fitted["gap"] - 1e-9 <= best <= fitted["loss"] + 1e-9


def test_numbers_become_ordered_ranges_that_measures_read():
    rows = [("Ash", 20 + i % 10, "f", "flu") for i in range(20)]
    data = data_of(rows)
    after = sf.methods.Generalise(k=5, suppression=0).apply(data)
    assert set(after.frame["age"]) == {"[20;24]", "[25;29]"}
    assert after.schema["age"].generalised
    assert after.frame["region"].to_list() == ["Ash"] * 20
    found = sf.utility.InformationLoss().measure(data, after)
    fitted = sf.methods.Generalise(k=5, suppression=0).fit(data, engine_for(data.frame))
    shares = dict(zip(found.table["variable"], found.table["granularity"], strict=True))
    assert shares["region"] == 0
    assert fitted["levels"] == {"region": 0, "age": 1, "sex": 0}


def test_fewer_than_k_suppressed_are_joined_by_a_class():
    rows = (
        [("Ash", 20, "f", "flu")] * 9 + [("Dale", 39, "m", "flu")] + [("Cove", 30, "f", "flu")] * 4
    )
    after = sf.methods.Generalise(k=4, suppression=0.5).apply(data_of(rows))
    assert Counter(after.frame["region"]) == {"Ash": 9, "*": 5}
    assert sf.risk.Uniqueness().measure(after).details["k"] == 5


def test_persons_are_counted_and_not_rows():
    schema = SCHEMA.with_columns({"who": sf.Column(role="person")})
    rows = [("Ash", 20, "f", "flu")] * 3 + [("Birk", 20, "f", "flu")] * 2
    frame = data_of(rows).frame.with_columns(who=pl.Series(["a", "a", "a", "b", "c"]))
    method = sf.methods.Generalise(k=3, suppression=0)
    assert set(method.apply(sf.Dataset(frame, schema)).frame["region"]) == {"North"}
    # Three rows of one person are three records where nobody says whose they are.
    rows = rows[:3] + [("Birk", 20, "f", "flu")] * 3
    assert set(method.apply(data_of(rows)).frame["region"]) == {"Ash", "Birk"}


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"highest": {"age": 0, "region": 0, "sex": 0}, "suppression": 0}, MethodError, "50 %"),
        ({"lowest": {"age": 9}}, PlanError, "levels 0 to 3"),
        ({"highest": {"height": 1}}, PlanError, "'height'"),
        ({"k": 99}, MethodError, "4 records"),
    ],
)
def test_what_is_not_possible_is_refused(arguments, error, said):
    rows = [("Ash", 20, "f", "flu")] * 2 + [("Dale", 39, "m", "flu"), ("Cove", 30, "f", "flu")]
    with pytest.raises(error, match=said) as raised:
        sf.methods.Generalise(**{"k": 2, **arguments}).apply(data_of(rows))
    assert raised.value.hint


def test_a_value_that_the_hierarchy_does_not_know_is_counted_and_not_quoted():
    rows = [("Ash", 20, "f", "flu")] * 5 + [("Elm", 20, "f", "flu")] * 2
    with pytest.raises(MethodError, match="2 records with a value") as raised:
        sf.methods.Generalise().apply(data_of(rows))
    assert "Elm" not in str(raised.value)


def test_parameters_that_say_nothing_are_refused():
    with pytest.raises(ParameterError, match="for l and t"):
        sf.methods.Generalise(confidential="illness")
    with pytest.raises(ParameterError, match="weights are for"):
        sf.methods.Generalise(loss="discernibility", weights={"age": 2})


def test_weights_and_lowest_levels_move_the_choice():
    ages = (20, 22, 27, 29) * 2
    data = data_of([(region, age, "f", "flu") for region in REGION for age in ages])

    def choose(**more):
        method = sf.methods.Generalise(k=4, suppression=0, **more)
        return method.fit(data, engine_for(data.frame))["levels"]

    assert choose(weights={"region": 50})["region"] == 0
    assert choose(weights={"age": 50})["age"] == 0
    assert choose(lowest={"age": 2})["age"] == 2


# Adult with the hierarchies of ARX --------------------------------------------------------------

HIERARCHIES = {
    "gender": "sex",
    "age": "age",
    "race": "race",
    "marital_status": "marital-status",
    "education": "education",
    "native_country": "native-country",
    "workclass": "workclass",
    "salary": "salary-class",
    "occupation": "occupation",
}
FOLDER = Path(os.environ.get("SFUMATO_DATA", "")) / "arx" / "hierarchies"
needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="SFUMATO_DATA has no hierarchies")


def read_adult() -> sf.Dataset:
    columns = {
        name: sf.Column(
            role="quasi",
            kind="integer" if name == "age" else "nominal",
            hierarchy=sf.hierarchies.read(FOLDER / f"adult_hierarchy_{file}.csv"),
        )
        for name, file in HIERARCHIES.items()
    }
    return sf.Dataset(pl.read_csv(FOLDER.parents[1] / "adult.csv"), sf.Schema(columns))


@needs_data
@pytest.mark.parametrize(
    ("suppression", "granularity"), [(0.0, 0.36446), (0.05, 0.73037), (1.0, 0.77230)]
)
def test_adult_has_the_optimum_of_every_one_of_its_12_960_choices(suppression, granularity):
    """The granularity is that of `test_adult_by_brute_force`."""
    data = read_adult()
    fitted = sf.methods.Generalise(suppression=suppression).fit(data, engine_for(data.frame))
    assert (fitted["choices"], fitted["gap"]) == (12960, 0)
    assert 1 - fitted["loss"] == pytest.approx(granularity, abs=5e-6)


@needs_data
@pytest.mark.study
def test_adult_by_brute_force():
    """Every choice of levels by polars: files read as text, groups counted, nothing left out."""
    frame = pl.read_csv(FOLDER.parents[1] / "adult.csv", infer_schema=False)
    cells, shares = {}, {}
    for name, file in HIERARCHIES.items():
        lines = (FOLDER / f"adult_hierarchy_{file}.csv").read_text().splitlines()
        paths = {line.split(";")[0]: line.split(";") for line in lines}
        for level in range(len(next(iter(paths.values())))):
            cell_of = {value: path[level] for value, path in paths.items()}
            behind = Counter(cell_of.values())
            cells[name, level] = frame[name].replace_strict(cell_of).cast(pl.Categorical)
            open_of = {cell: (behind[cell] - 1) / (len(paths) - 1) for cell in behind}
            shares[name, level] = frame[name].replace_strict(cell_of).replace_strict(open_of)
    depths = [range(sum(name == key[0] for key in cells)) for name in HIERARCHIES]
    best = dict.fromkeys((0.0, 0.05, 1.0), math.inf)
    for node in itertools.product(*depths):
        levels = list(zip(HIERARCHIES, node, strict=True))
        shown = pl.DataFrame([cells[level].to_physical().alias(level[0]) for level in levels])
        lost = pl.sum_horizontal(*(shares[level].alias(level[0]) for level in levels)) / 9
        classes = (
            shown.with_columns(pl.select(lost.alias("lost")).to_series())
            .group_by(list(HIERARCHIES))
            .agg(pl.len(), pl.col("lost").first())
        )
        small = classes.filter(pl.col("len") < 5)
        large = classes.filter(pl.col("len") >= 5)
        hidden = int(small["len"].sum())
        loss = (float((large["len"] * large["lost"]).sum()) + hidden) / frame.height
        for most in best:
            if hidden <= most * frame.height and not 0 < hidden < 5:
                best[most] = min(best[most], loss)
    assert [round(1 - loss, 5) for loss in best.values()] == [0.36446, 0.73037, 0.7723]


# What ARX stored of its own search ---------------------------------------------------------------


def read_project():
    """The records that ARX's example project worked on, and what ARX wrote of each choice."""
    with zipfile.ZipFile(FOLDER.parent / "example.deid") as project:
        frame = pl.read_csv(project.read("data/input.csv"), separator=";", infer_schema=False)
        words = -(-len(frame) // 64)
        stored = project.read("input/config.dat")
        first = stored.index(words.to_bytes(4, "big")) + 4
        bits = np.frombuffer(stored[first : first + 8 * words], ">u8").astype("<u8")
        inside = np.unpackbits(bits.view(np.uint8), bitorder="little")[: len(frame)]
        columns = {}
        for name in frame.columns:
            lines = project.read(f"input/hierarchies/{name}.csv").decode().splitlines()
            paths = (line.split(";") for line in lines)
            groups = {value: tuple(path) for value, *path in paths}
            columns[name] = sf.Column(
                role="quasi", kind="nominal", domain=tuple(groups), hierarchy=groups
            )
        lattice = project.read("lattice.xml").decode()
    found = re.findall(r"<t>\[(.*?)\]</t>.*?<u>(.*?)</u>\s*<f>(.*?)</f>", lattice, re.DOTALL)
    losses = {tuple(map(int, t.split(", "))): float(u) for t, u, f in found if u == f}
    return sf.Dataset(frame.filter(pl.Series(inside == 1)), sf.Schema(columns)), losses


@needs_data
def test_finds_what_arx_found_and_loses_what_arx_says():
    """ARX's "Loss" is the geometric mean of what each variable loses; it stored 3,677 of them."""
    data, losses = read_project()
    assert (len(data), len(losses)) == (5692, 3677)
    ranked = sorted(losses, key=losses.get)
    method = sf.methods.Generalise(suppression=1)
    assert tuple(method.fit(data, engine_for(data.frame))["levels"].values()) == ranked[0]
    for node in ranked[::400]:
        levels = dict(zip(data.columns, node, strict=True))
        after = sf.methods.Generalise(suppression=1, lowest=levels, highest=levels).apply(data)
        shares = sf.utility.InformationLoss().measure(data, after).table["granularity"]
        product = math.prod(1 + share for share in shares)
        assert product ** (1 / len(node)) - 1 == pytest.approx(losses[node], abs=1e-9)
