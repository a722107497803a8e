# ruff: noqa: T201, S311 - a script that prints, and chance that hides nothing
"""Disasters while a release is written: is what lies there afterwards whole, or nothing?

    python -m tests.soak.kills --points 200

Each trial is a process of its own that writes a release, new or over an earlier one, and is struck:
killed at a random event of the interpreter or at a random time, or out of disk, file size or
memory. Then another process looks: a folder under the release's name must verify in full, as the
old release or as the new one, the ledger must know it if it is new, and the next writer must
succeed and leave nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STRUCK = 77
"""Exit code of a writer that was refused in words."""
_SIZES = (8, 40, 80, 120, 200, 300)
"""Kilobytes of disk, and of a file."""


@dataclass(frozen=True)
class Trial:
    """One disaster.

    Parameters
    ----------
    kind : "event", "time", "exchange", "disk", "file", "memory" or "none".
    number : which event, how many seconds, or how many kilobytes.
    overwrite : whether there is an earlier release.
    """

    kind: str
    number: float = 0
    overwrite: bool = False


# In the process that is struck --------------------------------------------------------------------


def write(folder: str, trial: Trial) -> None:
    """Write a release and be struck."""
    import sfumato as sf
    from sfumato.io import atomic
    from sfumato.run import attacks

    def try_none(*_: Any, **__: Any) -> dict[str, Any]:
        return {}

    attacks.try_attacks = try_none  # the strikes are to hit the writing
    data = sf.Dataset(sf.datasets.cohort(60), sf.datasets.cohort_schema())
    steps = [
        sf.methods.Drop(),
        sf.methods.Coarsen(variables=["height"], intervals=3 if trial.overwrite else 2),
    ]
    plan = sf.Plan(schema=data.schema, steps=steps, targets={"unique_records.max": 60})
    release = sf.protect(data, plan, key=bytes(32))
    if trial.kind == "exchange":  # a file system that cannot swap two names
        atomic._exchange_names = lambda first, second: False
    print("ready", flush=True)
    _prepare(trial)
    try:
        release.write(folder, overwrite=trial.overwrite)
    except (sf.SfumatoError, MemoryError):
        os._exit(STRUCK)
    sys.setprofile(None)
    print(json.dumps({"events": _EVENTS[0]}), flush=True)


_EVENTS = [0]


def _prepare(trial: Trial) -> None:
    """Arm what strikes from within."""
    if trial.kind in ("event", "none", "exchange"):
        last = int(trial.number)

        def count(*_: object) -> None:
            _EVENTS[0] += 1
            if _EVENTS[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)

        threading.setprofile(count)
        sys.setprofile(count)
    elif trial.kind == "file":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(trial.number) * 1024,) * 2)
    elif trial.kind == "memory":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + int(trial.number) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (room, room))


# In the process that looks ------------------------------------------------------------------------


def run(folder: Path, trial: Trial) -> subprocess.CompletedProcess[str]:
    """Run one trial in a process of its own."""
    words = [sys.executable, "-m", "tests.soak.kills", "--child", str(folder)]
    words += ["--kind", trial.kind, "--number", str(trial.number)]
    words += ["--overwrite"] if trial.overwrite else []
    if trial.kind == "disk":
        folder.parent.mkdir(exist_ok=True)
        return _run_on_small_disk(words, folder, int(trial.number))
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    if trial.kind == "time" and child.stdout.readline():
        time.sleep(trial.number)
        child.kill()
    out, err = child.communicate()
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def can_mount() -> bool:
    """Whether this machine lets us make a small disk."""
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(words, capture_output=True, check=False).returncode
    )


def _run_on_small_disk(
    words: list[str], folder: Path, size: int
) -> subprocess.CompletedProcess[str]:
    """With a disk of so many kilobytes; what is there afterwards is listed on the last line."""
    script = (
        f'mount -t tmpfs -o size={size}k tmpfs "{folder.parent}" && '
        f'{{ "$@"; code=$?; ls -A "{folder.parent}" | tr "\\n" " "; exit $code; }}'
    )
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def is_whole(folder: Path) -> bool:
    """Whether all of a release is there and verifies."""
    from sfumato.errors import SfumatoError
    from sfumato.storage.verifying import verify_release

    try:
        return all(check.passed for check in verify_release(folder))
    except SfumatoError:
        return False


def is_known(folder: Path) -> bool:
    """Whether the ledger can be read and knows a release."""
    from sfumato.storage.contents import is_file_with
    from sfumato.storage.ledger import Ledger

    digests = [entry.manifest_sha256 for entry in Ledger().read()]
    return any(is_file_with(folder / "manifest.json", digest) for digest in digests)


def find_fault(place: Path, trial: Trial, done: subprocess.CompletedProcess[str]) -> str:
    """What is wrong after a trial; empty if nothing is."""
    folder = place / "out"
    expected = (0, -signal.SIGKILL, STRUCK, -signal.SIGABRT, -signal.SIGSEGV)
    if done.returncode not in expected and trial.kind != "memory":
        return f"exit code {done.returncode}: {done.stderr[-300:]}"
    if trial.kind == "disk":
        left = done.stdout.splitlines()[-1].split() if done.returncode else []
        return (
            f"left on the full disk: {left}" if [name for name in left if name != "ready"] else ""
        )
    if folder.exists() and not is_whole(folder):
        return "a partial release"
    aside = [path for path in place.iterdir() if path.name.endswith(".sfumato-replaced")]
    faults = {
        "a release that the ledger does not know": folder.exists()
        and not trial.overwrite
        and not is_known(folder),
        "the old release is gone": trial.overwrite
        and not folder.exists()
        and not any(map(is_whole, aside)),
        "others can look into a partial folder": any(
            path.stat().st_mode & 0o077 and not is_whole(path)
            for path in place.glob(".sfumato-partial*")
            if path.is_dir()
        ),
    }
    return next((fault for fault, is_there in faults.items() if is_there), "")


def check_successor(place: Path) -> str:
    """Whether the next writer succeeds and leaves nothing behind."""
    folder = place / "out"
    restored = folder.exists() or (place / ".out.sfumato-replaced").exists()
    done = run(folder, Trial("none", overwrite=restored))
    if done.returncode or not is_whole(folder):
        return f"the next writer failed: {done.stderr[-300:]}"
    left = sorted(path.name for path in place.iterdir() if path.name != "out")
    return f"left behind: {left}" if left else ""


def list_trials(points: int, seed: int, events: dict[bool, int], seconds: float) -> list[Trial]:
    """Two thirds kills, at events and at times; the rest runs out of something."""
    chance = random.Random(seed)
    makers: list[Callable[[bool], Trial]] = [
        lambda over: Trial("event", chance.randint(1, events[over]), over),
        lambda over: Trial("time", chance.uniform(0, seconds), over),
        lambda over: Trial("event", chance.randint(int(events[over] * 0.9), events[over]), over),
        lambda over: Trial("exchange", chance.randint(int(events[True] * 0.9), events[True]), True),
        lambda over: Trial("file", chance.choice(_SIZES), over),
        lambda over: Trial("memory", chance.choice([64, 1024, 8192, 65536]), over),
    ]
    if can_mount():
        makers.append(lambda over: Trial("disk", chance.choice(_SIZES), False))
    return [makers[index % len(makers)](chance.random() < 0.5) for index in range(points)]


def main() -> int:
    """Strike so many times, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--child")
    parser.add_argument("--kind", default="none")
    parser.add_argument("--number", type=float, default=0)
    parser.add_argument("--overwrite", action="store_true")
    given = parser.parse_args()
    if given.child:
        write(given.child, Trial(given.kind, given.number, given.overwrite))
        return 0
    faults, outcomes, begun = [], Counter[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SFUMATO_LEDGER"] = str(Path(scratch) / "ledger of the first")
        events, seconds = measure(Path(scratch) / "first")
        old = Path(scratch) / "first" / "out"
        for index, trial in enumerate(list_trials(given.points, given.seed, events, seconds)):
            place = Path(scratch) / str(index)
            place.mkdir()
            os.environ["SFUMATO_LEDGER"] = str(Path(scratch) / f"ledger {index}")
            if trial.overwrite:
                shutil.copytree(old, place / "out")
            done = run(place / "out", trial)
            fault = find_fault(place, trial, done)
            if not fault and index % 5 == 0 and trial.kind != "disk":
                fault = check_successor(place)
            if fault:
                faults.append((trial, fault))
                print("FAULT", trial, fault, flush=True)
            struck = "was struck" if done.returncode else "got through"
            outcomes[f"{trial.kind}: {struck}"] += 1
            if index % 20 == 19:
                print(f"{index + 1} trials, {len(faults)} faults", flush=True)
            shutil.rmtree(place)
    print(json.dumps(dict(sorted(outcomes.items())), indent=1))
    minutes = (time.monotonic() - begun) / 60
    found = f"{len(faults)} partial releases or other faults"
    print(f"{given.points} trials in {minutes:.0f} minutes: {found}")
    return 1 if faults else 0


def measure(place: Path) -> tuple[dict[bool, int], float]:
    """How many events writing has, new and over an earlier one, and how long it takes."""
    place.mkdir()
    events = {}
    for overwrite in (False, True):
        done = run(place / "out", Trial("none", overwrite=overwrite))
        assert done.returncode == 0, done.stderr
        events[overwrite] = json.loads(done.stdout.splitlines()[-1])["events"]
    begun = time.monotonic()
    run(place / "again", Trial("none"))
    whole = time.monotonic() - begun
    shutil.rmtree(place / "again")
    return events, whole / 3


if __name__ == "__main__":
    sys.exit(main())
