"""The studio: how long a click takes, what it holds in memory, and fifty people's clicks at once.

The baseline of a click is the server's first page, which asks nobody anything; that of memory
is the frame, as polars states its size. polars leaves out 16 bytes of every text, so what a process
grows by when it reads the file stands beside it. What the libraries take is the peak of a studio
in which the same pages were clicked on with a file of a few records.

Peaks are those of the server and of the worker process added up, though they need not be at the
same time, and what both share (the code of the libraries) counts twice.

`python -m benchmarks.bench_studio [records ...]`; people click once a second.
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
FEW = 1000
"""Records of the studio whose memory is that of the libraries."""
PAGES = ("data", "roles", "risk", "protect", "compare", "release", "outputs", "analyse")
PEOPLE, CLICKS = 50, 20
_READ = """
import polars as pl, pyarrow, sys
def get_memory():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
before = get_memory()
frame = pl.read_parquet(sys.argv[1])
print(frame.estimated_size() / 2**20, get_memory() - before)
"""


def main(sizes: tuple[int, ...] = SIZES) -> None:
    """Print the seconds of clicks, memory, and what many people at once do to them."""
    libraries = _measure(FEW, None)
    print(f"libraries alone (the same clicks with {FEW:,} records): {libraries:,.0f} MB\n")
    for records in sizes:
        _measure(records, libraries)
        print()


def _measure(records: int, libraries: float | None) -> float:
    """MB at the peak. Everything is printed where it is known what the libraries take of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "cohort.parquet"
        sf.datasets.cohort(records).write_parquet(file)
        studio = start_studio(folder / "sessions", folder)
        try:
            studio.enter()
            session = studio.begin("empty")
            studio.post(f"{session}/data/open", {"path": str(file)})
            _accept_suggestions(studio, session)
            _click_through(studio, session, records if libraries is not None else None)
            peaks = _read_peaks(studio.process.pid)
            if libraries is not None:
                _print_memory(peaks, file, libraries)
                _let_people_click(studio, session)
        finally:
            stop_studio(studio)
    return sum(peaks)


def try_the_plan(folder: Path, file: str) -> None:
    """Start a studio, open a file, take every suggestion, try the plan once, and stop."""
    with tempfile.TemporaryDirectory() as sessions:
        studio = start_studio(Path(sessions) / "kept", folder)
        try:
            studio.enter()
            session = studio.begin("empty")
            studio.post(f"{session}/data/open", {"path": str(folder / file)})
            _accept_suggestions(studio, session)
            _wait(studio, session, "protect")
            answer = studio.post(f"{session}/protect/try")
            assert answer.status in (200, 303), answer.text  # noqa: S101 - it was tried
            _wait(studio, session, "protect")
        finally:
            stop_studio(studio)


def _click_through(studio: RunningStudio, session: str, records: int | None) -> None:
    """Click on every page twice; the times are printed where the number of records is given."""
    base = statistics.median(_click(studio, "/")[0] for _ in range(5))
    rows = [f"{records:,} records; first page {base * 1000:.0f} ms"] if records else []
    rows.append(f"{'page':>10} {'first click ms':>15} {'again ms':>9} {'ratio':>6}")
    for page in PAGES:
        first, _ = _click(studio, f"{session}/{page}")
        _wait(studio, session, page)
        again, _ = _click(studio, f"{session}/{page}")
        rows.append(f"{page:>10} {first * 1000:>15.0f} {again * 1000:>9.0f} {again / base:>6.1f}")
    if records:
        print("\n".join(rows))


def _print_memory(peaks: tuple[float, float], file: Path, libraries: float) -> None:
    """The peak beside the frame, with and without what the libraries take."""
    command = [sys.executable, "-c", _READ, str(file)]
    read = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    frame, grown = map(float, read)
    peak = sum(peaks)
    print(f"frame {frame:,.0f} MB as polars states it; a process grows by {grown:,.0f} MB")
    print(f"peak {peak:,.0f} MB: server {peaks[0]:,.0f}, worker {peaks[1]:,.0f}")
    print(
        f"times the frame: {peak / frame:.1f} with the libraries, "
        f"{(peak - libraries) / frame:.1f} without ({peak - libraries:,.0f} MB)"
    )


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


def _read_peaks(server: int) -> tuple[float, float]:
    """MB at the peak of the server and of its worker processes together."""
    workers = subprocess.run(["pgrep", "-P", str(server)], capture_output=True, text=True,  # noqa: S607
                             check=False).stdout.split()  # fmt: skip
    return _read_peak(server), sum(_read_peak(int(worker)) for worker in workers)


def _read_peak(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


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
