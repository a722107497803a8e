"""The log: what was made, what it gives away together, and what stays inside."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.outputs.elimination import list_known_groups

import sfumato as sf
from sfumato.errors import DataError
from sfumato.outputs import Log, Output, OutputRefused, Rules
from sfumato.outputs.tables.attack import compute_feasibility_intervals

FRAME = pl.DataFrame(
    {"id": range(60), "sex": ["f", "m"] * 30, "age": [20 + i % 40 for i in range(60)]}
)
ID = sf.Schema({"id": "direct"})
DATA = sf.Dataset(FRAME, ID)


def some(condition):
    return sf.Dataset(FRAME.filter(condition), ID)


def made(title="Age", groups=(), **told):
    return Output(kind="histogram", title=title, variables=("age",), groups=groups, **told)


def test_the_same_population_twice_passes():
    log = Log()
    first = log.add(made("Age"), DATA)
    shuffled = sf.Dataset(FRAME.sample(fraction=1, shuffle=True, seed=1), ID)
    second = log.add(made("Height"), shuffled)
    assert (first.verdict, second.verdict) == ("pass", "pass")
    assert first.population == second.population
    assert len(log) == 2


@pytest.mark.parametrize(
    ("gone", "verdict"), [(1, "review"), (2, "review"), (3, "pass"), (20, "pass")]
)
def test_populations_that_differ_by_one_or_two_are_flagged(gone, verdict):
    for one, other in ((DATA, some(pl.col("id") >= gone)), (some(pl.col("id") >= gone), DATA)):
        log = Log()
        assert log.add(made("All"), one).verdict == "pass"
        later = log.add(made("Fewer"), other)
        assert later.verdict == verdict
        assert (verdict == "pass") == (not later.reasons)
        if later.reasons:
            assert "output 1 ('All')" in later.reasons[0]


@settings(max_examples=40)
@given(st.sets(st.integers(0, 59), min_size=5), st.sets(st.integers(0, 59), min_size=5))
def test_flagged_exactly_when_sets_say_so(one, other):
    log = Log()
    log.add(made("One"), some(pl.col("id").is_in(list(one))))
    flagged = log.add(made("Other"), some(pl.col("id").is_in(list(other)))).verdict == "review"
    few = max(len(one - other), len(other - one)) < 3 and one != other and bool(one & other)
    assert flagged == few


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(-1, 2), min_size=20, max_size=20),
    st.lists(st.integers(-1, 2), min_size=20, max_size=20),
)
def test_groups_are_flagged_when_sets_say_so_and_what_passes_gives_nobody_away(one, other):
    """Both outputs rest on the same records; -1 marks the part that is hidden."""
    log = Log()
    data = some(pl.col("id") < 20)
    log.add(made("One"), data, parts=[np.array(one)])
    flagged = log.add(made("Other"), data, parts=[np.array(other)]).verdict == "review"
    ways = [
        [{at for at in range(20) if parts[at] == part} for part in range(3)] + [set(range(20))]
        for parts in (one, other)
    ]
    few = any(
        0 < max(len(mine - theirs), len(theirs - mine)) < 3
        and mine & theirs
        and min(len(mine), len(theirs)) >= 3
        for mine in ways[0]
        for theirs in ways[1]
    )
    assert flagged or not few
    if not flagged:
        rows = [
            [[int(at in part) for at in range(20)] for part in way if len(part) >= 3]
            for way in ways
        ]
        alone = list_known_groups(rows[0], 3) | list_known_groups(rows[1], 3)
        assert list_known_groups([*rows[0], *rows[1]], 3) <= alone


def test_a_rest_of_two_outputs_is_flagged():
    for order in ([0, 1, 2], [1, 0, 2], [1, 2, 0]):
        parts = [DATA, some(pl.col("id") < 30), some(pl.col("id").is_between(31, 59))]
        log = Log()
        verdicts = [log.add(made(str(at)), parts[at]).verdict for at in order]
        assert verdicts == ["pass", "pass", "review"]
    log = Log()
    for part in (DATA, some(pl.col("id") < 30), some(pl.col("id") >= 30)):
        assert log.add(made(), part).verdict == "pass"


def test_groups_that_differ_by_one_are_flagged_although_populations_do_not():
    other = FRAME.with_columns(sex=pl.when(pl.col("id") == 0).then(pl.lit("m")).otherwise("sex"))
    log = Log()
    log.add(made("By sex", groups=("sex",)), DATA)
    later = log.add(made("By sex again", groups=("sex",)), sf.Dataset(other, ID))
    assert later.verdict == "review"
    assert "groups" in later.reasons[0]
    assert log.add(made("By age", groups=("age",)), DATA).verdict == "pass"


@pytest.mark.parametrize(("beside", "shown"), [(4, True), (30, False)])
def test_a_finer_and_a_coarser_table_give_the_hidden_cell_away(beside, shown):
    """Twelve are in their twenties, eleven of them 25: where both are shown, one is 29."""
    age = [*[25] * 11, 29, *[35] * beside, *[45] * 30]
    frame = pl.DataFrame({"id": range(len(age)), "fine": age, "coarse": [a // 10 for a in age]})
    data = sf.Dataset(frame, ID)
    log = Log(rules=Rules(zeros="show", full="show"))
    assert sf.tables.crosstab(data, "coarse", log=log).verdict == "pass"
    fine = sf.tables.crosstab(data, "fine", log=log)
    # The cheapest cell hides the one who is 29: those of 35 if they are few, else those of 25.
    assert fine.cells.filter(pl.col("fine") == "25")["hidden"].item() == (not shown)
    assert any("output 1" in reason for reason in fine.reasons) == shown


def test_a_table_and_a_figure_are_compared_too():
    log = Log(rules=Rules(zeros="show", full="show"))
    sf.tables.crosstab(DATA, "sex", log=log)
    later = log.add(made("Men but one", groups=("sex",)), some(pl.col("id") != 1))
    assert later.verdict == "review"


def test_content_alone_cannot_always_tell_and_says_so():
    log = Log()
    plain = FRAME.drop("id").with_columns(extra=pl.int_range(60))
    log.add(made(), sf.Dataset(plain))
    later = log.add(made(), sf.Dataset(plain.drop("extra")))
    assert later.verdict == "review"
    assert "direct identifier" in later.reasons[0]


def test_refusals_are_noted_and_never_compared():
    log = Log()
    with pytest.raises(OutputRefused):
        sf.tables.crosstab(some(pl.col("id") < 5), "sex", log=log)
    with pytest.raises(OutputRefused):
        sf.tables.crosstab(DATA, "sex", values="age", aggregate="max", log=log)
    assert [one.verdict for one in log] == ["refuse", "refuse"]
    assert next(iter(log)).population == ""
    assert log.add(made(), some(pl.col("id") < 6)).verdict == "pass"


def test_a_folder_lasts_over_processes_and_keeps_its_secrets(tmp_path):
    folder = tmp_path / "outputs"
    log = Log(folder, Rules(difference=5))
    log.add(made("Age"), DATA)
    code = (
        "import sys, polars as pl, sfumato as sf\n"
        "frame = pl.DataFrame({'id': range(4, 60)})\n"
        "log = sf.outputs.Log(sys.argv[1])\n"
        "told = sf.outputs.Output(kind='box', title='Less')\n"
        "print(log.add(told, sf.Dataset(frame, sf.Schema({'id': 'direct'}))).verdict)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "review"
    again = Log(folder)
    assert [one.title for one in again] == ["Age", "Less"]
    assert again.rules.difference == 5
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert len({one.population for one in again}) == 2
    with pytest.raises(DataError, match="other rules"):
        Log(folder, Rules())
    (folder / "inside" / "key").unlink()
    with pytest.raises(DataError, match="key of this log is gone"):
        Log(folder).add(made(), DATA)


def test_a_broken_log_is_told(tmp_path):
    (tmp_path / "log.json").write_text("[1]")
    with pytest.raises(DataError, match="not a log of outputs"):
        Log(tmp_path)


def test_the_log_tells_no_count_of_records_and_no_value(tmp_path):
    log = Log()
    log.add(made("Age"), DATA)
    log.add(made("Less"), some(pl.col("id") >= 1))
    log.to_json(tmp_path / "log.json")
    told = (tmp_path / "log.json").read_text()
    assert json.loads(told)["outputs"][1]["verdict"] == "review"
    assert not re.search(r"\b(59|60)\b", re.sub(r'"made": "[^"]*"', "", told))
    assert stat.S_IMODE((tmp_path / "log.json").stat().st_mode) == 0o600
    assert log.frame()["verdict"].to_list() == ["pass", "review"]
    assert "1 review" in repr(log)


def test_the_page_is_one_file_without_script_and_escapes_all(tmp_path):
    log = Log()
    log.add(made("<script>alert(1)</script>"), DATA)
    log.add(made("Less"), some(pl.col("id") >= 1))
    log.refused(made("Extremes", reasons=("A 'max' may not leave.",)))
    log.page(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "1 of 2 outputs ask for a second look" in page
    assert "may not leave" in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert "prefers-color-scheme" in page
    empty = Log()
    empty.page(tmp_path / "empty.html")
    assert "Nothing to release" in (tmp_path / "empty.html").read_text()
    passing = Log()
    passing.add(made(), DATA)
    passing.page(tmp_path / "passing.html")
    assert "The output passes" in (tmp_path / "passing.html").read_text()


def test_cells_that_two_thresholds_leave_open_are_worked_out():
    """One table hides other cells than the other; together they may hide nothing."""
    flagged = 0
    for seed in range(12):
        chance = np.random.default_rng(seed)
        frame = pl.DataFrame(
            {
                "row": chance.choice(list("abcd"), 120, p=[0.4, 0.3, 0.2, 0.1]),
                "column": chance.choice(list("wxyz"), 120, p=[0.5, 0.25, 0.15, 0.1]),
            }
        )
        log = Log()
        first, second = (sf.tables.crosstab(frame, "row", "column", k=k, log=log) for k in (3, 5))
        one, other = (table.shown["count"] for table in (first, second))
        known = np.where(np.isnan(one), other, one)
        ends = compute_feasibility_intervals(first.lattice, known).high[np.isnan(one)]
        told = any("worked out" in reason for reason in second.reasons)
        assert told == bool(((ends < 3 - 1e-6) & (ends > 0)).any())
        flagged += told
        again = sf.tables.crosstab(frame, "row", "column", log=Log())
        assert not any("worked out" in reason for reason in again.reasons)
    assert flagged


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"protection": "noise", "sd_share": 0.25}, {"protection": "noise", "sd_share": 0.3}, True),
        ({"protection": "deterministic", "k": 3}, {"protection": "deterministic", "k": 4}, True),
        ({"protection": "deterministic", "k": 3}, {"protection": "deterministic", "k": 3}, False),
        ({"protection": "round", "base": 5}, {"protection": "round", "base": 7}, True),
        ({"protection": "suppress", "k": 3}, {"protection": "suppress", "k": 4}, False),
    ],
)
def test_the_same_values_moved_twice_ask_for_a_second_look(first, second, told):
    log = Log()
    log.add(Output(kind="scatter", title="One", variables=("x", "y"), rule=first), DATA)
    later = log.add(Output(kind="scatter", title="Two", variables=("x", "y"), rule=second), DATA)
    assert later.verdict == ("review" if told else "pass")
    others = log.add(Output(kind="scatter", title="Three", variables=("z",), rule=second), DATA)
    assert others.verdict == "pass"


def test_noise_under_another_key_asks_for_a_second_look():
    log, rule = Log(), {"protection": "noise", "sd_share": 0.25}
    for digest, verdict in (("a", "pass"), ("a", "pass"), ("b", "review")):
        output = Output(kind="qq", title="x", variables=("x",), rule=rule, digest=digest)
        assert log.add(output, DATA).verdict == verdict


def test_records_of_one_person_ask_for_a_second_look():
    visits = pl.DataFrame({"person": [1] * 12 + list(range(48)), "row": ["a"] * 12 + ["b"] * 48})
    data = sf.Dataset(visits, sf.Schema({"person": "direct"}))
    table = sf.tables.crosstab(data, "row")
    assert table.verdict == "review"
    assert "fewer persons" in " ".join(table.reasons)


def test_what_is_too_much_to_try_is_told_and_not_called_safe(monkeypatch):
    from sfumato.outputs import account

    monkeypatch.setattr(account, "_MOST_BOUNDED_ATOMS", 0)
    frame = pl.DataFrame(
        {"id": range(60), "a": ["x"] * 40 + ["y"] * 18 + ["z"] * 2, "b": ["p", "q"] * 30}
    )
    data = sf.Dataset(frame, sf.Schema({"id": "direct", "a": "quasi", "b": "quasi"}))
    log = sf.outputs.Log()
    sf.tables.crosstab(data, "a", log=log)
    sf.tables.crosstab(data, "a", "b", log=log)
    last = list(log)[-1]
    assert last.verdict == "review"
    assert any("too many cells in common" in one for one in last.reasons)
