"""CPU and wall time and peak memory of a piece of work, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import astuple, dataclass

_WRAPPER = """
import json, resource, sys, time
def memory():
    # Linux hands ru_maxrss on from the parent; the high-water mark of the address space is ours.
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
def cpu():
    # Processes that were started and have ended count too.
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in own)
{setup}
before, start, begun = memory(), cpu(), time.perf_counter()
{work}
spent, wall = cpu() - start, time.perf_counter() - begun
cost = {{"cpu": spent, "peak": memory() - before, "wall": wall, "result": {result}}}
sys.stderr.write("COST " + json.dumps(cost) + "\\n")
"""


@dataclass(frozen=True)
class Cost:
    """CPU and wall seconds of the work (imports apart), and MB at the peak above the start.

    An MB has 1024 * 1024 bytes. `result` is a number that was asked for after the work.
    """

    cpu: float
    peak: float
    wall: float
    result: float = 0.0


def cost(work: str, *, setup: str = "", repeats: int = 1, result: str = "0.0") -> Cost:
    """The cheapest of some runs; each in a fresh process, so that memory is its own."""
    runs = [_once(work, setup, result) for _ in range(repeats)]
    return Cost(*(min(values) for values in zip(*map(astuple, runs), strict=True)))


def _once(work: str, setup: str, result: str) -> Cost:
    setup, work = textwrap.dedent(setup), textwrap.dedent(work)
    code = _WRAPPER.format(setup=setup, work=work, result=result)
    # What people start has compiled its modules before.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=kept)
    if done.returncode:
        raise RuntimeError(done.stderr)
    line = next(line for line in done.stderr.splitlines() if line.startswith("COST "))
    return Cost(**json.loads(line.removeprefix("COST ")))
