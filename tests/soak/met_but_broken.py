"""Random data under random plans, attacked: does a release ever say "met" and is broken?

    python -m tests.soak.met_but_broken --cases 1000

Each case makes a small table with nasty cells, a plan with one to three steps and some targets,
protects it, and hands what comes out to the attackers of `tests.soak.attackers`. Three things
count: an error that is not one of Sfumato's, a target called met that an attacker breaks, and an
original value in a message or in a public text. Anything else (a release, a refusal with a
reason) is fine.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.release import align_original
from sfumato.storage.verifying import verify_release
from tests.soak import attackers

KEY = bytes(range(32))
_LEVELS = (
    "f", "m", "F", " f", "f ", "\uff46", "f\u200b", "*", "{f;m}", "[1;9]", "9**", "\\*",
    "é", "e\u0301", "<b>", "=1+1", "0017", "17", "nan", "NA", "", "a;b", "]", "ß",
)  # fmt: skip
_DISEASES = ("HIV", "hiv", "HIV ", "H\u200bIV", "flu", "Flu", "cold", "none")
_WRITTEN = 25
_CENTS = (90000.0, 90000.01, 90000.02, 1200.5, 0.0, -3.25)


class BrokenPromiseError(AssertionError):
    """A promise that an attacker broke."""


@dataclass
class Tally:
    """What the cases came to."""

    outcomes: Counter[str] = field(default_factory=Counter)
    attacks: Counter[str] = field(default_factory=Counter)


def _column(draw: st.DrawFn, kind: str, size: int) -> list[Any]:
    cells: dict[str, st.SearchStrategy[Any]] = {
        "few": st.integers(0, 3),
        "integer": st.integers(0, 99),
        "large": st.integers(10**9, 10**9 + 5),
        "number": st.integers(-500, 5000).map(lambda cents: cents / 100),
        "date": st.integers(0, 20000).map(lambda days: dt.date(1950, 1, 1) + dt.timedelta(days)),
        "boolean": st.booleans(),
        "level": st.sampled_from(draw(st.sampled_from([("f", "m"), ("a", "b", "c"), _LEVELS]))),
        "disease": st.sampled_from(_DISEASES),
        "income": st.sampled_from(_CENTS),
    }
    cell = cells[kind]
    if draw(st.integers(0, 3)) == 0:
        cell = st.one_of(st.none(), cell, cell, cell)
    return draw(st.lists(cell, min_size=size, max_size=size))


_TYPES = {
    "few": pl.Int64, "integer": pl.Int64, "large": pl.Int64, "number": pl.Float64,
    "date": pl.Date, "boolean": pl.Boolean, "level": pl.String, "disease": pl.String,
    "income": pl.Float64,
}  # fmt: skip
_NUMBERS = ("few", "integer", "large", "number", "income")


@dataclass(frozen=True)
class Case:
    """A table, a plan for it, and what the plan is to promise."""

    frame: pl.DataFrame
    plan: sf.Plan
    kinds: dict[str, str]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A random table with a random plan."""
    size = draw(st.one_of(*[st.integers(8, 30)] * 5, st.integers(1, 8)))
    kinds: dict[str, str] = {}
    roles: dict[str, Any] = {}
    for position in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["few", "integer", "large", "number", "date", "boolean",
                                     "level", "level"]))  # fmt: skip
        kinds[f"q{position}"], roles[f"q{position}"] = kind, "quasi"
    for position in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["disease", "income", "level"]))
        kinds[f"s{position}"], roles[f"s{position}"] = kind, "sensitive"
    if draw(st.booleans()):
        kinds["id"], roles["id"] = "id", "direct"
    columns = {}
    for name, kind in kinds.items():
        if kind == "id":
            columns[name] = pl.Series(name, [f"person {row:04d}" for row in range(size)])
        else:
            columns[name] = pl.Series(name, _column(draw, kind, size), dtype=_TYPES[kind])
    steps, targets = draw(_plans(kinds))
    return Case(pl.DataFrame(columns), sf.Plan(schema=roles, steps=steps, targets=targets), kinds)


@st.composite
def _plans(draw: st.DrawFn, kinds: dict[str, str]) -> tuple[list[Any], dict[str, Any]]:
    secrets = [name for name in kinds if name.startswith("s")]
    numbers = [name for name, kind in kinds.items() if kind in _NUMBERS and name != "id"]
    levels = [name for name, kind in kinds.items() if kind in ("level", "disease")]
    k = draw(st.integers(2, 5))
    methods = sf.methods
    steps: list[Any] = [methods.Drop(variables=["id"])] if "id" in kinds else []
    targets: dict[str, Any] = {}
    choices = ["k_anonymity", "k_anonymity", "suppress", "suppress", "mean", "leave"]
    choices += ["l_diversity", "t_closeness"] if secrets else []
    choices += ["noise", "deterministic"] if numbers else []
    choices += ["misclassify"] if levels else []
    for choice in draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2, unique=True)):
        if choice == "k_anonymity":
            output = draw(st.sampled_from(["range", "set", "range"]))
            clustering = draw(st.sampled_from(["mondrian", "mondrian", "origin"]))
            steps.append(methods.KAnonymity(k=k, output=output, clustering=clustering))
        elif choice == "mean":
            steps.append(methods.KAnonymity(k=k, output=draw(st.sampled_from(["mode", "median"]))))
        elif choice == "suppress":
            missing = draw(st.sampled_from(["value", "wildcard"]))
            steps.append(methods.Suppress(k=k, missing=missing))
        elif choice == "l_diversity":
            steps.append(methods.LDiversity(k=k, l=2, confidential=[secrets[0]]))
            targets["l.min"] = 2
        elif choice == "t_closeness":
            t = draw(st.sampled_from([0.2, 0.4, 0.6]))
            steps.append(methods.TCloseness(k=k, t=t, confidential=[secrets[0]], distance="equal"))
            targets["t.max"] = t
        elif choice == "noise":
            name = draw(st.sampled_from(numbers))
            steps.append(
                methods.Noise(variables=[name], variance_share=draw(st.sampled_from([0.1, 0.5])))
            )
        elif choice == "deterministic":
            steps.append(methods.Deterministic(variables=numbers, k=k + 1))
        elif choice == "misclassify":
            name = draw(st.sampled_from(levels))
            steps.append(methods.Misclassify(variables=[name], retention=0.7))
    targets |= draw(_targets(k, secrets, numbers))
    return steps, targets


@st.composite
def _targets(draw: st.DrawFn, k: int, secrets: Sequence[str], numbers: Sequence[str]) -> Any:
    offered = {"k.min": k, "k_by_fitting.min": k, "reidentification.max": 0.0,
               "singling_out.max": draw(st.sampled_from([0.0, 0.2]))}  # fmt: skip
    if secrets:
        offered |= {"attribute_disclosure.max": 0.0, "l.min": 2}
    if numbers:
        offered |= {"stayed.max": 0.2, "linkage.max": 0.2}
    names = draw(st.lists(st.sampled_from(sorted(offered)), max_size=3, unique=True))
    return {name: offered[name] for name in names}


@dataclass(frozen=True)
class Scene:
    """What an attacker sees: the originals, the release, and which variables mean what."""

    case: Case
    original: list[dict[str, Any]]
    released: list[dict[str, Any]]

    @property
    def known(self) -> list[str]:
        """What an outsider may know."""
        return [name for name in self.case.kinds if name.startswith("q")]

    @property
    def secrets(self) -> list[str]:
        """What nobody should learn."""
        return [name for name in self.case.kinds if name.startswith("s")]

    @property
    def numbers(self) -> list[str]:
        """Numbers that left as numbers: those known, or else the secret ones."""
        numbers = [name for name, kind in self.case.kinds.items() if kind in _NUMBERS]
        known = [name for name in numbers if name.startswith("q")] or numbers
        return [
            name for name in known if not any(isinstance(row[name], str) for row in self.released)
        ]


Attempt = Callable[[Scene, float], str | None]


def _fit(scene: Scene, k: float) -> str | None:
    return attackers.match_by_fitting(scene.original, scene.released, scene.known, int(k))


def _match(scene: Scene, k: float) -> str | None:
    # Where blanks fit anything, fitting is the attack: an outsider does not match blanks.
    wildcards = any(getattr(step, "missing", "") == "wildcard" for step in scene.case.plan.steps)
    return None if wildcards else attackers.match_exactly(scene.released, scene.known, int(k))


def _read_secrets(scene: Scene, least: float) -> str | None:
    broken = (
        attackers.count_secrets(scene.released, scene.known, secret, least)
        for secret in scene.secrets
    )
    return next(filter(None, broken), None)


def _compare_classes(scene: Scene, largest: float) -> str | None:
    if scene.case.kinds["s0"] != "disease":
        return None  # the attacker's distance is that of levels
    return attackers.measure_closeness(scene.released, scene.known, "s0", largest)


def _look_for_unmoved(scene: Scene, share: float) -> str | None:
    return attackers.find_unmoved(scene.original, scene.released, scene.numbers, share)


def _link(scene: Scene, share: float) -> str | None:
    return attackers.link_by_one(scene.original, scene.released, scene.numbers, share)


def _state_ends(scene: Scene, share: float) -> str | None:
    return attackers.state_ends(scene.original, scene.released, scene.known, share)


ATTACKS: Sequence[tuple[str, str, Attempt]] = (
    ("k.min", "fitting", _fit),
    ("k.min", "exact matching", _match),
    ("k_by_fitting.min", "fitting", _fit),
    ("reidentification.max", "fitting", lambda scene, _: _fit(scene, 2)),
    ("l.min", "spelling variants", _read_secrets),
    ("attribute_disclosure.max", "spelling variants", lambda scene, _: _read_secrets(scene, 2)),
    ("t.max", "closeness", _compare_classes),
    ("stayed.max", "unmoved values", _look_for_unmoved),
    ("linkage.max", "linking by one variable", _link),
    ("singling_out.max", "end points", _state_ends),
)


def attack(case: Case, release: Any, tally: Tally) -> None:
    """Hand a release to every attacker whose promise it makes."""
    released = release.dataset
    scene = Scene(
        case, _rows(align_original(release.original, released).frame), _rows(released.frame)
    )
    if not scene.released:
        raise BrokenPromiseError("an empty release")
    targets = _bounds(case.plan)
    for target, label, attempt in ATTACKS:
        if target in targets:
            tally.attacks[label] += 1
            if broken := attempt(scene, targets[target]):
                raise BrokenPromiseError(f"{label}: {broken}")
    tally.attacks["quotation"] += 1
    public = json.dumps(release.manifest, ensure_ascii=False, default=str)
    if broken := attackers.find_quoted(public, scene.original, scene.released):
        raise BrokenPromiseError(f"manifest: {broken}")


def _bounds(plan: sf.Plan) -> dict[str, float]:
    least = {f"{target.name}.min": target.least for target in plan.targets}
    most = {f"{target.name}.max": target.most for target in plan.targets}
    return {name: bound for name, bound in (least | most).items() if bound is not None}


def _rows(frame: Any) -> list[dict[str, Any]]:
    return list(pl.DataFrame(frame).to_dicts())


def run_case(case: Case, tally: Tally, folder: Path | None = None) -> None:
    """Protect, attack, and sometimes write, verify and forge."""
    data = sf.Dataset(case.frame, case.plan.schema)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = sf.protect(data, case.plan, key=KEY)
    except SfumatoError as error:
        tally.outcomes[f"refused: {type(error).__name__}"] += 1
        if broken := attackers.find_quoted(str(error), _rows(case.frame), []):
            raise BrokenPromiseError(f"message: {broken}") from error
        return
    tally.outcomes["released"] += 1
    attack(case, release, tally)
    if folder is not None:
        _forge(release, folder, tally)


def _forge(release: Any, folder: Path, tally: Tally) -> None:
    """Write the release, verify it, change one byte somewhere, verify again."""
    with tempfile.TemporaryDirectory(dir=folder) as private:
        target = Path(private) / "release"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                release.write(target, ledger=False)
        except SfumatoError as error:
            tally.outcomes[f"not written: {type(error).__name__}"] += 1
            return
        tally.outcomes["written"] += 1
        if failed := [check.name for check in verify_release(target) if check.passed is False]:
            raise BrokenPromiseError(f"an honest release fails {failed}")
        files = sorted(path for path in target.rglob("*") if path.is_file())
        chance = random.Random(release.plan.digest)  # noqa: S311 - no secret
        path = chance.choice(files)
        content = bytearray(path.read_bytes())
        if not content:
            return
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.chmod(0o600)
        path.write_bytes(bytes(content))
        tally.attacks["forgery"] += 1
        try:
            passed = all(check.passed is not False for check in verify_release(target))
        except SfumatoError:
            return
        if passed:
            raise BrokenPromiseError(f"a changed byte of {path.relative_to(target)} passes")


BATCH = 500
"""Cases under one seed: a batch can be run again by itself."""


def soak(first: int, count: int, *, seconds: float = 1e9) -> Tally:
    """Run so many cases, or until the time is up; the first that breaks something is raised."""
    tally, start = Tally(), time.monotonic()
    batch = first
    with tempfile.TemporaryDirectory() as scratch:
        # Nobody's own ledger: every case writes releases of its own people.
        os.environ["SFUMATO_LEDGER"] = str(Path(scratch) / "ledger")
        while tally.outcomes["cases"] < count and time.monotonic() - start < seconds:
            _run_batch(batch, min(BATCH, count), tally, Path(scratch))
            batch += 1
    return tally


def _run_batch(number: int, count: int, tally: Tally, scratch: Path) -> None:
    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def try_case(case: Case) -> None:
        tally.outcomes["cases"] += 1
        run_case(case, tally, scratch if int(case.plan.digest, 16) % _WRITTEN == 0 else None)

    try:
        try_case()
    except BaseException as error:
        error.add_note(f"batch {number}: --first {number} --cases {count} repeats it")
        raise


def main() -> int:
    """Soak for so many cases, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first batch")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1e9)
    chosen = parser.parse_args()
    start = time.monotonic()
    tally = soak(chosen.first, chosen.cases, seconds=60 * chosen.minutes)
    facts = {
        "outcomes": dict(tally.outcomes.most_common()),
        "attacks": dict(tally.attacks.most_common()),
        "seconds": round(time.monotonic() - start),
    }
    sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
