"""The studio: how long a click takes, what it holds in memory, and fifty people's clicks at once.

The baseline of a click is the server's first page, which asks nobody anything; that of memory
is the frame. `python -m benchmarks.bench_studio [records ...]`; people click once a second.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.studio.visitor import Answer, RunningStudio, start_studio, stop_studio

import sfumato as sf

SIZES = (32_000, 1_000_000)
PAGES = ("data", "roles", "risk", "protect", "compare", "release", "outputs", "analyse")
PEOPLE, CLICKS = 50, 20
_BEGIN = """
import polars as pl, sys
frame = pl.read_parquet(sys.argv[1])
print(frame.estimated_size())
"""


def main(sizes: tuple[int, ...] = SIZES) -> None:
    """Print the seconds of clicks, memory, and what many people at once do to them."""
    for records in sizes:
        with tempfile.TemporaryDirectory() as name:
            _measure(records, Path(name))


def _measure(records: int, folder: Path) -> None:
    file = folder / "cohort.parquet"
    sf.datasets.cohort(records).write_parquet(file)
    sized = subprocess.run([sys.executable, "-c", _BEGIN, str(file)], capture_output=True,
                           text=True, check=True)  # fmt: skip
    frame = int(sized.stdout) / 2**20
    studio = start_studio(folder / "sessions", folder)
    try:
        studio.enter()
        session = studio.begin("empty")
        studio.post(f"{session}/data/open", {"path": str(file)})
        _accept_suggestions(studio, session)
        base = statistics.median(_click(studio, "/")[0] for _ in range(5))
        print(f"{records:,} records, {frame:,.0f} MB in memory; first page {base * 1000:.0f} ms")
        print(f"{'page':>10} {'first click ms':>15} {'again ms':>9} {'ratio':>6}")
        for page in PAGES:
            first, _ = _click(studio, f"{session}/{page}")
            _wait(studio, session, page)
            again, _ = _click(studio, f"{session}/{page}")
            print(f"{page:>10} {first * 1000:>15.0f} {again * 1000:>9.0f} {again / base:>6.1f}")
        held = sum(_read_peaks(studio.process.pid).values())
        print(f"peak of all processes {held:,.0f} MB, {held / frame:.1f} times the frame")
        _let_people_click(studio, session)
    finally:
        stop_studio(studio)


def _accept_suggestions(studio: RunningStudio, session: str) -> None:
    _wait(studio, session, "roles")
    studio.post(f"{session}/roles/accept_all")
    _wait(studio, session, "roles")


def _click(studio: RunningStudio, path: str) -> tuple[float, Answer]:
    start = time.perf_counter()
    answer = studio.get(path)
    return time.perf_counter() - start, answer


def _wait(studio: RunningStudio, session: str, page: str, seconds: float = 600) -> None:
    """Until nothing on the page is being worked on any more."""
    end = time.monotonic() + seconds
    while "data-await=" in studio.get(f"{session}/{page}").text and time.monotonic() < end:
        time.sleep(0.25)


def _read_peaks(process: int) -> dict[int, float]:
    """MB at the peak of a process and of those that it started."""
    peaks = {}
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True,  # noqa: S607
                           check=False).stdout.split()  # fmt: skip
    for number in (process, *map(int, found)):
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        peaks[number] = int(line.split()[1]) / 1024
    return peaks


def _let_people_click(studio: RunningStudio, session: str) -> None:
    """Fifty people, each of whom clicks about once a second."""
    seconds: list[float] = []
    wrong: list[int] = []

    def click(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - who clicks what
        for _ in range(CLICKS):
            time.sleep(chance.uniform(0.5, 1.5))
            taken, answer = _click(studio, f"{session}/{chance.choice(PAGES)}")
            seconds.append(taken)
            if answer.status != 200:  # noqa: PLR2004
                wrong.append(answer.status)

    people = [threading.Thread(target=click, args=(seed,)) for seed in range(PEOPLE)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    ranked = sorted(seconds)
    print(
        f"{PEOPLE} people, {len(seconds):,} clicks: {len(wrong)} errors, median "
        f"{statistics.median(ranked) * 1000:.0f} ms, 95 % within "
        f"{ranked[int(0.95 * len(ranked))] * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main(tuple(int(size) for size in sys.argv[1:]) or SIZES)
