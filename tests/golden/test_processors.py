"""What is promised to the byte does not depend on the processor, nor on the number of threads.

The linear algebra, the vector instructions of numpy and the compiled kernels are switched to what
other processors have, in a process of its own, and the table of digests is computed there: released
records, fitted values and manifests must be the same to the byte, all other results to the table's
tolerance.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _list_features() -> list[str]:
    """The vector instructions that numpy chooses at run time and this processor has."""
    inside = import_module("numpy._core._multiarray_umath")
    has: dict[str, bool] = inside.__cpu_features__
    return [name for name in inside.__cpu_dispatch__ if has.get(name)]


OLDEST = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": " ".join(_list_features()),
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}
"""What a processor of 2004 can do, in one thread."""

PROCESSORS = {
    "sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge", "OPENBLAS_NUM_THREADS": "2"},
    "haswell": {"OPENBLAS_CORETYPE": "Haswell", "NUMBA_NUM_THREADS": "1"},
    "zen": {"OPENBLAS_CORETYPE": "Zen", "POLARS_MAX_THREADS": "1"},
    "generic": {**OLDEST, "NUMBA_CPU_NAME": "generic"},
}
if any("AVX512F" in name or name == "X86_V4" for name in _list_features()):
    PROCESSORS["skylakex"] = {"OPENBLAS_CORETYPE": "SkylakeX"}


def compute_again(groups: list[str], processor: Mapping[str, str], cache: Path) -> None:
    """The table of digests as another processor would compute it; differences fail the test."""
    # Compiled code is cached by processor; that of tests that run beside this one stays as it is.
    apart = {"NUMBA_CACHE_DIR": str(cache)} if "NUMBA_CPU_NAME" in processor else {}
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden.digest_table", "--only", *groups],
        env={**os.environ, **processor, **apart}, cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_an_old_processor_releases_the_same_bytes(tmp_path):
    compute_again(["methods", "demo", "families"], OLDEST, tmp_path)


@pytest.mark.study
@pytest.mark.parametrize("name", PROCESSORS)
def test_every_processor_releases_the_same_bytes(name, tmp_path, shared_data):
    from tests.golden import digest_table

    prose = ("names", "commands", "fields")
    groups = [group for group in digest_table.GROUPS if group not in prose]
    compute_again(groups, PROCESSORS[name], tmp_path)
