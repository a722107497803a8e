"""The replication of the papers: every difference has its reason, the data are the right ones."""

from __future__ import annotations

import http.server
import math
import threading
from functools import partial

import pytest

from sfumato.datasets.replication import sources as store
from sfumato.datasets.replication.comparison import Row, chance_tolerance, round_tolerance
from sfumato.datasets.replication.page import render_page
from sfumato.datasets.replication.papers import PAPERS, replicate
from sfumato.datasets.replication.sources import DIGESTS, Sources
from sfumato.errors import DataError, PlanError


@pytest.fixture(scope="module")
def found(shared_data):
    # The noise paper simulates for a minute; its parts have tests of their own below.
    return replicate(["centres", "crowds", "figures", "individuals"], Sources.locate(shared_data))


def test_no_difference_is_without_a_reason(found):
    for rows in found.values():
        for one in rows:
            assert one.status != "different", (one.place, one.what, one.published, one.ours)
            assert one.why or one.status in ("same", "ours")


def test_what_numerics_predicts(found):
    """The differences that are known, and no other."""
    by = {(name, one.place, one.what): one for name, rows in found.items() for one in rows}
    assert by["centres", "text", "the paper's release: risk1, records"].ours == 38
    assert by["centres", "text", "our release: risk1, records"].ours == 29
    assert by["crowds", "Table S6", "lowest age of the first class"].status == "explained"
    assert by["figures", "Figure 3A", "D1: hidden cells of 900"].ours == 187
    assert by["figures", "Figure 3A", "D1: hidden cells of 225"].ours == 53
    distinct = "adult: different records (printed as unique)"
    assert by["individuals", "Table 2", distinct].ours == 19502
    # Every printed number of the paper's own release of the Titanic, to its last digit.
    printed = [one for one in found["centres"] if "the paper's release" in one.what]
    assert len(printed) == 5 + 49
    assert all(one.status == "same" for one in printed)


def test_everything_that_can_be_recomputed_is(found):
    cannot = {one.place for rows in found.values() for one in rows if one.status == "cannot"}
    assert cannot == {
        "Table 4, Figures 5 and 6", "Figures 7 and 8", "Figures 1 to 15",
        "Figures S1 to S7, Tables S1, S3 to S5, S10",
    }  # fmt: skip


def test_the_noise_paper_in_short(monkeypatch, shared_data):
    from sfumato.datasets.replication import known_noise

    monkeypatch.setattr(known_noise, "PAPER", 60)
    monkeypatch.setattr(known_noise, "_DRAWS_2", {1000: 20, 5000: 10})
    monkeypatch.setattr(known_noise, "_DRAWS_3", 30)
    monkeypatch.setattr(known_noise, "_SETS", 6)
    rows = list(known_noise.compare_rows(Sources.locate(shared_data)))
    assert all(one.status != "different" for one in rows)
    table_5 = {one.what: one for one in rows if one.place == "Table 5"}
    assert len(table_5) == 9
    assert table_5["original: reading score"].status == "same"
    residual = next(one for one in rows if one.what == "naive: residual variance")
    assert residual.ours == pytest.approx(1.27, abs=0.05)


def test_the_page_has_every_paper_and_every_reason(found):
    text = render_page(found)
    for name in found:
        assert f"{{ #{name} }}" in text
    for rows in found.values():
        for one in rows:
            if one.status not in ("same", "ours"):
                assert f"{one.why[0].upper()}{one.why[1:]}" in text
    assert "**different**" not in text
    assert render_page({"crowds": [Row(place="x", what="y", published=1, ours=2)]}).count(
        "**different**"
    )


def test_a_row_says_what_it_is():
    assert (
        Row(place="", what="", published=0.19, ours=0.1949, within=round_tolerance(2)).status
        == "same"
    )
    assert Row(
        place="", what="", published=0.19, ours=0.1951, within=round_tolerance(2)
    ).status == ("different")
    assert Row(place="", what="", published=1, ours=math.nan).status == "cannot"
    assert Row(place="", what="", published=None, ours=3.0).status == "ours"
    told = Row(place="a", what="b", published=1, ours=2, why="c").to_json()
    assert (told["status"], told["difference"]) == ("explained", 1)
    assert chance_tolerance(0.5, 100, 100) == pytest.approx(4 * math.sqrt(0.25 * 2 / 100))


def test_without_data_it_says_so(monkeypatch):
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    found = replicate()
    assert set(found) == {one.name for one in PAPERS}
    (row,) = found["centres"]
    assert row.status == "cannot"
    assert "titanic.csv" in row.why
    assert any(one.place == "Table S9" for one in found["crowds"])  # needs no data


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
