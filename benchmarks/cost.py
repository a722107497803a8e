"""CPU time and peak memory of a piece of work, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass

_WRAPPER = """
import json, resource, sys
def memory():
    # Linux hands ru_maxrss on from the parent; the high-water mark of the address space is ours.
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
{setup}
before, start = memory(), cpu()
{work}
sys.stderr.write("COST " + json.dumps({{"cpu": cpu() - start, "peak": memory() - before}}) + "\\n")
"""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of the work (imports apart) and MB of memory at the peak, above the start."""

    cpu: float
    peak: float


def cost(work: str, *, setup: str = "", repeats: int = 1) -> Cost:
    """The cheapest of some runs; each in a fresh process, so that memory is its own."""
    runs = [_once(work, setup) for _ in range(repeats)]
    return Cost(min(one.cpu for one in runs), min(one.peak for one in runs))


def _once(work: str, setup: str) -> Cost:
    code = _WRAPPER.format(setup=textwrap.dedent(setup), work=textwrap.dedent(work))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    line = next(line for line in done.stderr.splitlines() if line.startswith("COST "))
    return Cost(**json.loads(line.removeprefix("COST ")))
