"""What is installed beside the command, and whether two builds have the same bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools.manual import list_files

ROOT = Path(__file__).parents[2]
LATER = {"SOURCE_DATE_EPOCH": "1700000000"}


def test_man_page_and_completions_are_up_to_date():
    for path, content in list_files().items():
        assert path.read_text("utf-8") == content, "run python -m tools.manual"


@pytest.mark.study
def test_two_builds_of_the_wheel_have_the_same_bytes(tmp_path):
    digests = []
    for name in ("first", "second"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / name],
            cwd=ROOT,
            check=True,
            capture_output=True,
            env={**os.environ, **LATER},
        )
        [wheel] = (tmp_path / name).iterdir()
        digests.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    shared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    targets = shared["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"].values()
    assert all(any(name.endswith(f"data/{target}") for name in names) for target in targets)
    assert "sfumato/py.typed" in names
    assert not any("__pycache__" in name or name.startswith("tests") for name in names)
