"""Killed at any point, a release is either not there or whole."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys

import pytest

from sfumato.storage.verifying import verify_release


def write(folder: str, *, overwrite: bool) -> None:
    """A small release; the one that overwrites has other values."""
    import sfumato as sf
    from sfumato.plan import Writing

    data = sf.Dataset(sf.datasets.cohort(50), sf.datasets.cohort_schema())
    coarse = sf.methods.Coarsen(variables=["height"], intervals=2 + overwrite)
    plan = sf.Plan(
        schema=data.schema,
        steps=[sf.methods.Drop(), coarse],
        targets={"k.min": 2},
        release=Writing(attack_seconds=0, accept_attacks="a test"),
        evaluate=[sf.risk.Uniqueness(known=["sex"])],
    )
    sf.protect(data, plan, key=bytes(32)).write(folder, overwrite=overwrite)


# Kill the process itself at the n-th call of anything that touches the disk.
SCRIPT = f"""
import os, signal, sys
from sfumato.io import atomic
from sfumato.storage import writing

{inspect.getsource(write)}

folder, wanted, at = sys.argv[1], sys.argv[2] == "overwrite", int(sys.argv[3])
calls = 0

def deadly(function):
    def called(*args, **kwargs):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return called

written = ("create_file", "write_table", "write_evidence", "_measure_again", "put_folder_in_place")
for module, names in ((writing, written), (atomic, ("_flush_to_disk", "_exchange_names"))):
    for name in names:
        setattr(module, name, deadly(getattr(module, name)))
write(folder, overwrite=wanted)
"""


def strike(folder, mode: str, at: int) -> subprocess.CompletedProcess[str]:
    """A writer of its own, which is killed."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), mode, str(at)],
        capture_output=True,
        text=True,
        check=False,
    )


def whole(folder) -> bool:
    return all(one.passed for one in verify_release(folder))


@pytest.mark.parametrize("at", [1, 2, 5, 7, 8, 9, 10, 11, 12, 13])
def test_a_new_release_is_all_or_nothing(tmp_path, at):
    folder = tmp_path / "out"
    done = strike(folder, "new", at)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    assert whole(folder) if folder.exists() else done.returncode != 0
    write(folder, overwrite=folder.exists())
    assert whole(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "leftovers are cleaned up"


@pytest.mark.parametrize("at", [3, 9, 10, 11, 12, 13, 14])
def test_an_overwritten_release_is_the_old_or_the_new_one(tmp_path, at):
    folder = tmp_path / "out"
    write(folder, overwrite=False)
    strike(folder, "overwrite", at)
    assert whole(folder)
