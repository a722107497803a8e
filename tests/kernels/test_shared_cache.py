"""Several processes compile one kernel for several types at once, and each gets its own code."""

import subprocess
import sys
import time
from pathlib import Path

KERNEL = """
from sfumato.kernels.compiled import compiled

@compiled
def total(values):
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result
"""
# One number for both would be given out here, and the file of the first written last.
SLOWLY = """
index, data = caching.IndexDataCacheFile._save_index, caching.IndexDataCacheFile._save_data
before_index, before_data = {"int64": (0.4, 1.2), "float64": (0.8, 0.0)}[kind]
def save_index(self, overloads):
    time.sleep(before_index)
    index(self, overloads)
def save_data(self, name, content):
    time.sleep(before_data)
    data(self, name, content)
caching.IndexDataCacheFile._save_index = save_index
caching.IndexDataCacheFile._save_data = save_data
"""
RUN = """
import sys, time
import numpy as np
from numba.core import caching
kind, start, slowly = sys.argv[1], float(sys.argv[2]), sys.argv[3]
exec(slowly)
sys.path.insert(0, ".")
import kernel
while time.time() < start:
    pass
print(kernel.total(np.array([1, 2, 3], kind)))
"""


def test_nobody_runs_the_code_of_another_type(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    kinds = ("int64", "float64")
    start = str(time.time() + 4)
    at_once = [
        subprocess.Popen([sys.executable, "-c", RUN, kind, start, SLOWLY], cwd=tmp_path,
                         stdout=subprocess.DEVNULL)
        for kind in kinds
    ]  # fmt: skip
    assert [process.wait() for process in at_once] == [0, 0]
    later = [
        subprocess.run([sys.executable, "-c", RUN, kind, "0", ""], cwd=tmp_path, check=True,
                       capture_output=True, text=True).stdout.strip()
        for kind in kinds
    ]  # fmt: skip
    assert later == ["6", "6.0"]
