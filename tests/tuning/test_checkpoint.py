"""Candidates that are kept in a folder."""

from __future__ import annotations

import math
import stat
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.tuning.checkpoint import Checkpoint

FOUND = sf.Evidence(
    name="uniqueness",
    subject="released",
    value=0.25,
    interval=(0.1, math.inf),
    baseline=1.0,
    details={"k": 3, "journalist": math.nan, "journalist_reason": "no weights"},
    assumptions=("one",),
    warnings=("two",),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "runs")
    failed = sf.Evidence.failed("peers", "released", "no sensitive variable")
    kept.write("abc", [{"uniqueness": FOUND, "peers": failed}], "")
    found = kept.read("abc")
    assert found is not None
    draws, refused = found
    assert refused == ""
    one, other = draws[0]["uniqueness"], draws[0]["peers"]
    assert vars(one).keys() == vars(FOUND).keys()
    assert (one.value, one.interval, one.details["k"]) == (0.25, (0.1, math.inf), 3)
    # What could not be computed is still not computed: never 0, never gone.
    assert math.isnan(one.number("journalist"))
    assert math.isnan(other.value)
    assert other.reason == "no sensitive variable"


def test_the_folder_is_private_and_nothing_half_written_stays(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "runs")
    kept.write("abc", [], "refused")
    files = list((tmp_path / "runs").iterdir())
    assert [one.name for one in files] == ["abc.json"]
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o700
    assert kept.read("abc") == ([], "refused")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 99}', '"x"', "null"])
def test_a_broken_file_is_no_file(tmp_path: Path, text: str) -> None:
    kept = Checkpoint(tmp_path)
    (tmp_path / "abc.json").write_text(text)
    assert kept.read("abc") is None
    assert kept.read("other") is None


def test_a_file_under_another_name_is_not_taken(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path)
    kept.write("abc", [{"uniqueness": FOUND}], "")
    (tmp_path / "abc.json").rename(tmp_path / "def.json")
    assert kept.read("def") is None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be created"):
        Checkpoint(tmp_path / "file" / "runs")
