"""The replication of the papers: every difference has its reason, the data are the right ones."""

from __future__ import annotations

import http.server
import math
import re
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from replication.comparison import (
    Bound,
    Printed,
    Row,
    bound_by_chance,
    bound_by_scatter,
    share_error,
)
from replication.page import render_page
from replication.papers import PAPERS, replicate
from replication.sources import DIGESTS, Sources

from replication import (
    birth_cohort,
    deterministic,
    figures,
    known_noise,
    noise_models,
    sugar_farms,
)
from replication import sources as store
from sfumato.errors import DataError, PlanError

SHORT = ("centres", "crowds", "figures", "individuals")
FEW_SETS = {"Table 1": 60, "Table 3": 60, "ten variables": 12, 1000: 10, 5000: 5, 10_000: 5}
PAPER_FILES = dict(zip([paper.name for paper in PAPERS], ("000", "001", "002", "003", "004"),
                       strict=True))  # fmt: skip


@pytest.fixture(scope="module")
def found(shared_data):
    # The noise paper simulates for half a minute; it is run in short below.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deterministic, "TIE_ORDERS", 10)
        patch.setattr(birth_cohort, "COHORTS", 2)
        patch.setattr(birth_cohort, "FEW", 1)
        return replicate(SHORT, Sources.locate(shared_data))


@pytest.fixture(scope="module")
def noise(shared_data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_noise, "SETS", FEW_SETS)
        patch.setattr(noise_models, "SETS", 12)
        patch.setattr(noise_models, "NOISE_DRAWS", 3)
        patch.setattr(noise_models, "_CHAINS", 50)
        for name, size in {"SETS": 10, "FITS": 1, "DRAWS": 80, "REDRAWS": 2}.items():
            patch.setattr(sugar_farms, name, size)
        return replicate(["noise"], Sources.locate(shared_data))["noise"]


def test_no_difference_is_without_a_bound(found, noise):
    for rows in (*found.values(), noise):
        for row in rows:
            assert row.status != "different", (row.place, row.what, row.printed, row.ours)
            if row.status == "explained":
                assert row.why
                assert row.bound is not None
                assert row.bound.low <= row.bound.high
            if row.status == "cannot":
                assert row.why


def test_every_published_number_is_printed_in_the_paper(found, noise, shared_data):
    papers = shared_data.parent / "papers"
    if not papers.is_dir():
        pytest.skip("the papers are not there")
    for name, rows in {**found, "noise": noise}.items():
        text = next(papers.glob(f"{PAPER_FILES[name]}_*.txt")).read_text()
        numbers = set(re.findall(r"(?<![\d.])<?-?\d+(?:\.\d+)?(?:e-?\d+)?%?(?![\d])", text))
        numbers |= {number.lstrip("-") for number in numbers} | set(re.findall(r"\d/\d", text))
        for row in rows:
            assert not row.printed or row.printed in numbers, (name, row.place, row.what)
    by_paper = {name: sum(1 for row in rows if row.printed) for name, rows in found.items()}
    assert by_paper == {"centres": 137, "crowds": 80, "figures": 2, "individuals": 34}


def test_every_cell_of_a_table_is_there_or_listed(found, noise):
    cells = Counter(row.place for row in noise if row.printed)
    assert cells["Table 1"] == 20 * 9
    assert cells["Table 2"] == 3 * 20
    assert cells["Table 3"] == 6 * 5
    assert cells["Table 4"] == 2 * 4
    assert cells["Table 5"] == 3 * 5 * 2
    listed = {row.what for row in noise if row.status == "cannot"}
    assert listed == {
        "h of 20 and more (9)", "standard errors in brackets (6)", "bias in percent (4)",
        "sugar-cane farms",
    }  # fmt: skip
    table_3 = [row for row in found["centres"] if row.place == "Table 3"]
    assert len(table_3) == 4 * 7 + 2 * 5 * 7
    assert sum(row.what.endswith(", p") for row in table_3) == 7 + 2 * 7


def test_the_birth_cohort_in_kind_is_as_the_paper_says(found):
    rows = {row.what: row for row in found["centres"] if row.place.endswith("in kind")}
    assert {row.place.partition(",")[0] for row in rows.values()} == {
        "text on the 1958 cohort", "Table 4", "Figure 5", "Figure 6", "Figure 7", "Figure 8"
    }  # fmt: skip
    assert sum(birth_cohort.SIZES.values()) == 1211
    cohort = birth_cohort.invent_cohort().draw(1211)
    assert sorted(cohort.group_by("sex", "smoker").len()["len"]) == [111, 140, 468, 492]
    # The paper's own numbers are of the same size.
    assert rows["U, mean of 2 cohorts"].ours == pytest.approx(0.00005, rel=0.5)
    for name, printed in (("glucose", 0.0466), ("hdl", 0.0229), ("height", 0.0296)):
        assert rows[f"δ of {name}, mean of 2 cohorts"].ours == pytest.approx(printed, rel=0.6)
    assert rows["risk1, mean of 2 cohorts"].ours < 0.05


def test_a_cohort_that_is_blurred_too_much_is_seen():
    """The rows in kind can fail: with k = 46 the cohort is blurred far more than the paper's."""
    drawn = birth_cohort.invent_cohort()
    runs = [birth_cohort._measure(birth_cohort._declare(drawn.draw(500)), 46)]
    wrong = [row.what for row in birth_cohort._say_means(runs) if row.status == "different"]
    assert any(what.startswith("δ") for what in wrong)


def test_the_farms_in_kind_have_every_cell_of_the_tables(noise):
    cells = Counter(row.place.removesuffix(", in kind") for row in noise)
    for table in ("6a", "6b"):
        # Five columns of five parameters with their standard errors, and a row of the text.
        assert cells[f"Table {table}"] == 5 * 5 * 2 + 1
    for table in ("7a", "7b"):
        # Five quantiles, h and the share of h = 0 for two sizes of noise, and two rows of the text.
        assert cells[f"Table {table}"] == 5 * 4 + 2
    rows = {(row.place, row.what): row.ours for row in noise}
    # Published: 254 and 530 where only predictors are mixed with noise, 148 and 150 where all are.
    for share, printed in (("5%", 254.02), ("17%", 530.2)):
        what = f"correlated noise, {share}: residual variance"
        assert rows["Table 6a, in kind", what] == pytest.approx(printed, rel=0.15)
        assert rows["Table 6b, in kind", what] == pytest.approx(150, rel=0.15)


def test_noise_that_is_left_in_the_farms_is_seen():
    """The rows in kind can fail: naive estimates are not taken for adjusted ones."""
    farms = [sugar_farms.invent_farms(np.random.default_rng([6, seed])) for seed in range(6)]
    clean = [sugar_farms.fit_least_squares(frame) for frame in farms]
    naive = [
        sugar_farms.fit_least_squares(
            sugar_farms.add_noise(frame, 0.17, sugar_farms.PREDICTORS, seed)[0]
        )
        for seed, frame in enumerate(farms)
    ]
    rows = sugar_farms._compare_adjusted_estimates("Table 6a, in kind", 0.17, clean, naive)
    wrong = {row.what.partition(": ")[2] for row in rows if row.status == "different"}
    assert {"harvest", "residual variance"} <= wrong


def test_what_numerics_predicts(found, noise):
    """The differences that are known, and no other."""
    by = {
        (name, row.place, row.what): row
        for name, rows in {**found, "noise": noise}.items()
        for row in rows
    }
    assert by["centres", "text", "the paper's release: risk1, records"].ours == 38
    risk1 = by["centres", "text", "our release: risk1, records"]
    assert risk1.ours == 29
    assert risk1.bound is not None
    assert risk1.bound.low <= 38 <= risk1.bound.high
    assert by["crowds", "Table S6", "lowest age of class 1"].status == "explained"
    assert by["figures", "Figure 3A", "D1: hidden cells of 900"].ours == 187
    assert by["figures", "Figure 3A", "D1: hidden cells of 225"].ours == 53
    distinct = "adult: different records (printed as unique)"
    assert by["individuals", "Table 2", distinct].ours == 19502
    # Every printed number of the original and of the paper's own release, to its last digit.
    printed = [
        row
        for row in found["centres"]
        if row.place in ("text", "Table 3") and "our release" not in row.what
    ]
    assert len(printed) == 7 + 9 * 7
    assert all(row.status == "same" for row in printed)
    residual = by["noise", "Table 4", "naive: residual variance"]
    assert residual.ours == pytest.approx(1.27, abs=0.05)
    assert by["noise", "Table 5", "original: reading score"].status == "same"
    remark = by["noise", "text, section 4", "10,000 records: share of h above 5"]
    assert remark.status in ("same", "explained")
    assert "chance" in remark.why


def test_everything_that_can_be_recomputed_is(found):
    cannot = {row.place for rows in found.values() for row in rows if row.status == "cannot"}
    assert cannot == {
        "Table 4, Figures 5 and 6", "Figures 7 and 8", "Figures 1 to 15",
        "Figures S1 to S7, Tables S1, S3 to S5, S10, text on them",
    }  # fmt: skip


def test_cells_are_hidden_as_in_the_figure(shared_data):
    """The quick count for the bound is that of the heatmap which stands beside the paper's."""
    frame = Sources.locate(shared_data).read("visual.csv")
    columns = [frame[name].to_numpy() for name in ("x1", "y1")]
    assert [figures.count_hidden(columns, bins) for bins in (30, 15)] == [187, 53]


def test_the_docs_are_what_the_command_writes(found):
    page = Path(__file__).parents[2] / "docs" / "replication.md"
    lines = set(page.read_text().splitlines())
    # Without the Titanic, whose ties are broken in fewer ways here.
    exact = {name: rows for name, rows in found.items() if name != "centres"}
    fresh = render_page(exact).splitlines()
    assert [line for line in fresh if line not in lines] == []


def test_the_page_has_every_paper_and_every_reason(found):
    text = render_page(found)
    for name in found:
        assert f"{{ #{name} }}" in text
    for rows in found.values():
        for row in rows:
            if row.status not in ("same", "ours"):
                assert f"{row.why[0].upper()}{row.why[1:]}" in text
    assert "**different**" not in text
    assert render_page({"crowds": [Row(place="x", what="y", printed="1", ours=2)]}).count(
        "**different**"
    )


def test_a_row_says_what_it_is():
    row = partial(Row, place="a", what="b")
    assert row(printed="0.19", ours=0.1949).status == "same"
    assert row(printed="0.19", ours=0.1951).status == "different"
    assert row(printed="1", ours=math.nan).status == "cannot"
    assert row(ours=3.0).status == "ours"
    content = row(printed="1", ours=2, why="c", bound=Bound(0, 2)).to_json()
    assert (content["status"], content["difference"]) == ("explained", 1)
    assert content["bound"] == {"low": 0, "high": 2, "of": "published"}


def test_a_reason_explains_only_within_its_bound():
    row = partial(Row, place="a", what="b", printed="0.50", ours=0.7, why="ties")
    assert row().status == "different"
    assert row(bound=Bound(0.6, 0.8)).status == "different"
    assert row(bound=Bound(0.5049, 0.8)).status == "explained"  # 0.5049 is printed as 0.50
    assert row(bound=Bound(0.5051, 0.8)).status == "different"
    # The paper is wrong, and ours is where the reason says; or it is not.
    assert row(bound=Bound(0.69, 0.71, of="ours")).status == "explained"
    assert row(bound=Bound(0.4, 0.6, of="ours")).status == "different"
    # A number that the paper does not print can be wrong too.
    assert row(printed="", bound=Bound(0.4, 0.6, of="ours")).status == "different"
    assert row(bound=Bound(0.5, 0.9)).strain == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "low", "value", "high"),
    [
        ("0.974", 0.9735, 0.974, 0.9745),
        ("-0.10", -0.105, -0.1, -0.095),
        ("1.0", 0.95, 1.0, 1.05),
        ("38", 38, 38, 38),
        ("30,162", 30162, 30162, 30162),
        ("59%", 0.585, 0.59, 0.595),
        ("4.12e-16", 4.115e-16, 4.12e-16, 4.125e-16),
        ("2/3", 2 / 3, 2 / 3, 2 / 3),
        ("<2e-16", -math.inf, 2e-16, 2e-16),
    ],
)
def test_a_printed_number_leaves_its_last_digit_open(text, low, value, high):
    printed = Printed.read(text)
    assert (printed.low, printed.value, printed.high) == (low, value, high)


def test_bounds_by_chance_are_four_errors_wide():
    bound = bound_by_chance(0.5, 0.03, theirs=0.04)
    assert (bound.low, bound.high) == pytest.approx((0.3, 0.7))
    assert share_error(0.5, 100) == pytest.approx(0.05)
    few = bound_by_scatter([1.0, 3.0, 2.0, 2.0])
    many = bound_by_scatter([1.0, 3.0, 2.0, 2.0] * 50)
    assert few.low < many.low < many.high < few.high
    spread = math.sqrt(100 / 199)  # of the values about 2
    assert many.high - 2 == pytest.approx(4 * spread * math.sqrt(1 + 1 / 200), rel=0.03)


def test_without_data_it_says_so(monkeypatch):
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    found = replicate()
    assert set(found) == {paper.name for paper in PAPERS}
    (row,) = found["centres"]
    assert row.status == "cannot"
    assert "titanic.csv" in row.why
    assert any(row.place == "Table S9" for row in found["crowds"])  # needs no data


def test_another_file_of_the_same_name_is_refused(tmp_path):
    (tmp_path / "titanic.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"titanic\.csv.*not the file"):
        Sources.locate(tmp_path).read("titanic.csv")
    with pytest.raises(DataError, match="not there"):
        Sources.locate(tmp_path).read("exam.csv")
    with pytest.raises(DataError, match="no folder"):
        Sources.locate(tmp_path / "nowhere")


def test_an_unknown_paper_is_refused():
    with pytest.raises(PlanError, match="no paper 'noize'"):
        replicate(["noize"], Sources(None))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_download_checks_every_file(shared_data, tmp_path, monkeypatch):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Quiet, directory=str(shared_data))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        got = Sources.download(address, into=tmp_path / "data")
        assert all(got.has(name) for name in DIGESTS)
        monkeypatch.setitem(store.DIGESTS, "exam.csv", "0" * 64)
        with pytest.raises(DataError, match=r"exam\.csv"):
            Sources.download(address, into=tmp_path / "again")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
