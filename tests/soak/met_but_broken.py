"""Random data under random plans, attacked: does a release ever say "met" and is broken?

    python -m tests.soak.met_but_broken --first 0 --cases 1000 [--log soak.log]

Each case has a number, from which all of it follows: a small table with nasty cells, a plan with
one to three steps and some targets. It is protected, and what comes out is handed to the attackers
of `tests.soak.attackers`. Three things count: an error that is not one of Sfumato's, a target
called met that an attacker breaks, and an original value in a message or in a public text.
Anything else (a release, a refusal with a reason) is fine. A failure is written to the log with
the number of its case, and the run goes on.
"""

from __future__ import annotations

import os

# Cells are few here: threads would wait for each other more than they work.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import datetime as dt
import json
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.plan import Writing
from sfumato.release import align_original
from sfumato.storage.verifying import verify_release
from tests.soak import attackers

KEY = bytes(range(32))
_LEVELS = (
    "f", "m", "F", " f", "f ", "\uff46", "f\u200b", "*", "{f;m}", "[1;9]", "9**", "\\*",
    "é", "e\u0301", "<b>", "=1+1", "0017", "17", "nan", "NA", "", "a;b", "]", "ß",
)  # fmt: skip
_DISEASES = ("HIV", "hiv", "HIV ", "H\u200bIV", "flu", "Flu", "cold", "none")
_CENTS = (90000.0, 90000.01, 90000.02, 1200.5, 0.0, -3.25)
_WRITTEN, _COMPOSED = 60, 8
"""One case in so many is written and forged, or released a second time under another plan."""
_PROGRESS = 500


class BrokenPromiseError(AssertionError):
    """A promise that an attacker broke."""


@dataclass
class Tally:
    """What the cases came to."""

    outcomes: Counter[str] = field(default_factory=Counter)
    attacks: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


# Random tables -----------------------------------------------------------------------------------

_TYPES = {
    "few": pl.Int64, "integer": pl.Int64, "large": pl.Int64, "number": pl.Float64,
    "date": pl.Date, "boolean": pl.Boolean, "level": pl.String, "disease": pl.String,
    "income": pl.Float64, "code": pl.Float64, "sum": pl.Float64, "noise": pl.Int64,
}  # fmt: skip
_NUMBERS = ("few", "integer", "large", "number", "income")


def _draw_cells(chance: random.Random, kind: str, size: int) -> list[Any]:
    levels = chance.choice([("f", "m"), ("a", "b", "c"), _LEVELS])
    draws: dict[str, Callable[[], Any]] = {
        "few": lambda: chance.randrange(4),
        "integer": lambda: chance.randrange(100),
        "large": lambda: 10**9 + chance.randrange(6),
        "number": lambda: chance.randrange(-500, 5000) / 100,
        "date": lambda: dt.date(1950, 1, 1) + dt.timedelta(chance.randrange(20000)),
        "boolean": lambda: chance.random() < 0.5,
        "level": lambda: chance.choice(levels),
        "disease": lambda: chance.choice(_DISEASES),
        "income": lambda: chance.choice(_CENTS),
        "noise": lambda: chance.randrange(5),
    }
    cells = [draws[kind]() for _ in range(size)]
    if kind != "noise" and chance.randrange(4) == 0:
        cells = [None if chance.randrange(4) == 0 else cell for cell in cells]
    return cells


def _draw_dependent(
    chance: random.Random, columns: dict[str, list[Any]], kinds: dict[str, str], size: int
) -> tuple[str, list[Any]]:
    """A column that stands for others, as a survey weight stands for region and household size."""
    names = [name for name in columns if name.startswith("q")]
    numbers = [name for name in names if kinds[name] in _NUMBERS]
    kind = chance.choice(["code", "code", "sum", "noise"])
    if kind == "sum" and numbers:
        name = chance.choice(numbers)
        factor, start = chance.choice([1.0, 0.5, -2.0]), chance.choice([0.0, 1.5])
        cells = [None if v is None else start + factor * v for v in columns[name]]
        return kind, cells
    if kind == "noise":
        return kind, _draw_cells(chance, "noise", size)
    chosen = chance.sample(names, min(len(names), chance.choice([1, 1, 2])))
    keys = list(zip(*(columns[name] for name in chosen), strict=True))
    distinct = sorted({repr(key) for key in keys})
    codes = dict(zip(distinct, chance.sample(range(100, 9999), len(distinct)), strict=True))
    exact = chance.random() < 0.7
    return "code", [
        codes[repr(key)] / 100 if exact or chance.random() < 0.9 else chance.randrange(9999) / 100
        for key in keys
    ]


@dataclass(frozen=True)
class Case:
    """A table, a plan for it, and what the plan is to promise."""

    frame: pl.DataFrame
    plan: sf.Plan
    kinds: dict[str, str]
    number: int = 0


def make_case(number: int) -> Case:
    """A random table with a random plan: the same for the same number, on any machine."""
    chance = random.Random(number)  # noqa: S311 - no secret
    dependent = chance.random() < 0.35
    size = (
        chance.randint(30, 60) if dependent else chance.choice([*range(8, 31)] * 2 + [*range(1, 9)])
    )
    kinds: dict[str, str] = {}
    roles: dict[str, Any] = {}
    offered = ["few", "integer", "large", "number", "date", "boolean", "level", "level"]
    if dependent:
        offered += ["few"] * 8
    for position in range(chance.randint(1, 3)):
        kinds[f"q{position}"], roles[f"q{position}"] = chance.choice(offered), "quasi"
    for position in range(chance.randint(0, 2)):
        kind = chance.choice(["disease", "income", "level"])
        kinds[f"s{position}"], roles[f"s{position}"] = kind, "sensitive"
    columns = {name: _draw_cells(chance, kind, size) for name, kind in kinds.items()}
    for position in range(chance.randint(1, 2) if dependent else 0):
        name = f"o{position}"
        kinds[name], columns[name] = _draw_dependent(chance, columns, kinds, size)
        roles[name] = chance.choice(["other", "weight"]) if position == 0 else "other"
    if chance.random() < 0.5:
        kinds["id"], roles["id"] = "id", "direct"
        columns["id"] = [f"person {row:04d}" for row in range(size)]
    frame = pl.DataFrame(
        [pl.Series(name, cells, _TYPES.get(kinds[name])) for name, cells in columns.items()]
    )
    steps, targets = _draw_plan(chance, kinds)
    release = Writing(accept_attacks="the attackers of the soak are harder")
    plan = sf.Plan(schema=roles, steps=steps, targets=targets, release=release)
    return Case(frame, plan, kinds, number)


def _draw_plan(chance: random.Random, kinds: dict[str, str]) -> tuple[list[Any], dict[str, Any]]:
    secrets = [name for name in kinds if name.startswith("s")]
    numbers = [
        name for name, kind in kinds.items() if kind in _NUMBERS and not name.startswith("o")
    ]
    k = chance.randint(2, 5)
    steps: list[Any] = [sf.methods.Drop(variables=["id"])] if "id" in kinds else []
    targets: dict[str, Any] = {}
    for build in dict.fromkeys(
        chance.choices(_list_builders(kinds, secrets, numbers), k=chance.randint(1, 2))
    ):
        step, promised = build(chance, k)
        steps += [] if step is None else [step]
        targets |= promised
    offered = {"k.min": k, "k_by_fitting.min": k, "reidentification.max": 0.0,
               "uniqueness.max": 0.0, "singling_out.max": chance.choice([0.0, 0.2])}  # fmt: skip
    if secrets:
        offered |= {"attribute_disclosure.max": 0.0, "l.min": 2}
    if numbers:
        offered |= {"stayed.max": 0.2, "linkage.max": 0.2}
    if any(name.startswith("o") for name in kinds):
        offered |= {"recoverable.max": 0.2}
    names = chance.sample(sorted(offered), chance.randint(0, 3))
    return steps, targets | {name: offered[name] for name in names}


Builder = Callable[[random.Random, int], tuple[Any, dict[str, Any]]]


def _list_builders(
    kinds: dict[str, str], secrets: Sequence[str], numbers: Sequence[str]
) -> list[Builder]:
    """The steps that these variables allow, the usual ones twice."""
    methods = sf.methods
    levels = [name for name, kind in kinds.items() if kind in ("level", "disease")]

    def generalise(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        output = chance.choice(["range", "set", "range"])
        clustering = chance.choice(["mondrian", "mondrian", "origin"])
        return methods.KAnonymity(k=k, output=output, clustering=clustering), {}

    def represent(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        return methods.KAnonymity(k=k, output=chance.choice(["mode", "median"])), {}

    def suppress(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        return methods.Suppress(k=k, missing=chance.choice(["value", "wildcard"])), {}

    def leave(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        del chance, k
        return None, {}

    def diversify(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        del chance
        return methods.LDiversity(k=k, l=2, confidential=[secrets[0]]), {"l.min": 2}

    def bring_close(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        t = chance.choice([0.2, 0.4, 0.6])
        step = methods.TCloseness(k=k, t=t, confidential=[secrets[0]], distance="equal")
        return step, {"t.max": t}

    def blur(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        del k
        share = chance.choice([0.1, 0.5])
        return methods.Noise(variables=[chance.choice(numbers)], variance_share=share), {}

    def centre(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        del chance
        return methods.Deterministic(variables=[*numbers], k=k + 1), {}

    def misclassify(chance: random.Random, k: int) -> tuple[Any, dict[str, Any]]:
        del k
        return methods.Misclassify(variables=[chance.choice(levels)], retention=0.7), {}

    builders = [generalise, generalise, suppress, suppress, represent, leave]
    builders += [diversify, bring_close] if secrets else []
    builders += [blur, centre] if numbers else []
    return builders + ([misclassify] if levels else [])


# Attacks -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """What an attacker sees: the originals, the release, and which variables mean what."""

    case: Case
    original: list[dict[str, Any]]
    released: list[dict[str, Any]]
    filled: bool = False

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

    @property
    def wildcards(self) -> bool:
        """Whether blanks fit anything, so that an outsider does not match them."""
        return any(getattr(step, "missing", "") == "wildcard" for step in self.case.plan.steps)

    def fill_in(self) -> Scene:
        """What an attacker has who has looked protected values up by the other columns."""
        tools = [name for name in self.case.kinds if name.startswith("o")]
        filled = attackers.look_up_by_others(self.original, self.released, self.known, tools)
        return replace(self, released=filled, filled=filled != self.released)


Attempt = Callable[[Scene, float], str | None]


def _fit(scene: Scene, k: float) -> str | None:
    return attackers.match_by_fitting(scene.original, scene.released, scene.known, int(k))


def _match(scene: Scene, k: float) -> str | None:
    if scene.wildcards:
        return None  # fitting is the attack
    return attackers.match_exactly(scene.released, scene.known, int(k), filled=scene.filled)


def _fit_backwards(scene: Scene, k: float) -> str | None:
    return attackers.match_backwards(scene.original, scene.released, scene.known, int(k))


def _fill_in(attempt: Attempt) -> Attempt:
    """The same attack by somebody who has first worked out what other columns give away."""

    def attack_filled(scene: Scene, bound: float) -> str | None:
        filled = scene.fill_in()
        return attempt(filled, bound) if filled.filled else None

    return attack_filled


def _recover(scene: Scene, share: float) -> str | None:
    return attackers.count_recovered(
        scene.original, scene.released, scene.fill_in().released, scene.known, share
    )


def _read_secrets(scene: Scene, least: float) -> str | None:
    broken = (
        attackers.count_secrets(scene.released, scene.known, secret, least, filled=scene.filled)
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
    ("k.min", "dependency filling", _fill_in(_match)),
    ("uniqueness.max", "exact matching", lambda scene, _: _match(scene, 2)),
    ("uniqueness.max", "dependency filling", lambda scene, _: _fill_in(_match)(scene, 2)),
    ("k_by_fitting.min", "fitting", _fit),
    ("k_by_fitting.min", "fitting backwards", _fit_backwards),
    ("reidentification.max", "fitting", lambda scene, _: _fit(scene, 2)),
    ("reidentification.max", "fitting backwards", lambda scene, _: _fit_backwards(scene, 2)),
    ("recoverable.max", "dependency filling", _recover),
    ("l.min", "spelling variants", _read_secrets),
    ("l.min", "dependency filling", _fill_in(_read_secrets)),
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
    """Protect, attack, and sometimes release again, or write, verify and forge."""
    data = sf.Dataset(case.frame, case.plan.schema)
    release = _try_to_protect(data, case, tally)
    if release is None:
        return
    tally.outcomes["released"] += 1
    attack(case, release, tally)
    if case.number % _COMPOSED == 0:
        _compose(data, case, release, tally)
    if folder is not None and case.number % _WRITTEN == 0:
        _forge(release, folder, tally)


def _try_to_protect(
    data: sf.Dataset, case: Case, tally: Tally, earlier: Iterable[Any] = ()
) -> Any | None:
    """The release, or None where it is refused."""
    again = "again " if earlier else ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sf.protect(data, case.plan, key=KEY, earlier=earlier)
    except SfumatoError as error:
        tally.outcomes[f"{again}refused: {type(error).__name__}"] += 1
        if broken := attackers.find_quoted(str(error), _rows(case.frame), []):
            raise BrokenPromiseError(f"message: {broken}") from error
        return None


def _compose(data: sf.Dataset, case: Case, first: Any, tally: Tally) -> None:
    """Release the same people under a plan with other steps, and attack both together."""
    steps, _ = _draw_plan(random.Random(-case.number - 1), case.kinds)  # noqa: S311 - no secret
    targets = {"k.min": 2.0} | _bounds(case.plan)
    plan = sf.Plan(
        schema=dict(case.plan.schema), steps=steps, targets=targets, release=case.plan.release
    )
    second = _try_to_protect(data, replace(case, plan=plan), tally, [first])
    if second is None:
        return
    tally.outcomes["released again"] += 1
    attack(replace(case, plan=plan), second, tally)
    if len(first.dataset) == len(second.dataset) == len(case.frame):
        tally.attacks["composition"] += 1
        scenes = [Scene(case, _rows(release.original.frame), _rows(release.dataset.frame))
                  for release in (first, second)]  # fmt: skip
        broken = attackers.intersect_candidates(
            scenes[0].original, [scene.released for scene in scenes], scenes[0].known,
            int(targets["k.min"]),
        )  # fmt: skip
        if broken:
            raise BrokenPromiseError(f"composition: {broken}")


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


def soak(first: int, count: int, *, seconds: float = 1e9, log: Any = None) -> Tally:
    """Run so many cases, or until the time is up; failures are listed, and do not end it."""
    tally, start = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        # Nobody's own ledger: every case writes releases of its own people.
        os.environ["SFUMATO_LEDGER"] = str(Path(scratch) / "ledger")
        for number in range(first, first + count):
            if time.monotonic() - start > seconds:
                break
            tally.outcomes["cases"] += 1
            try:
                run_case(make_case(number), tally, Path(scratch))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is to be reported
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = (
                    f"case {number}: {type(error).__name__}: {error} ({where.name}, {where.lineno})"
                )
                tally.failures.append(text)
                if log is not None:
                    print(text, file=log, flush=True)
            if log is not None and tally.outcomes["cases"] % _PROGRESS == 0:
                spent = time.monotonic() - start
                text = f"{tally.outcomes['cases']:,} cases, {len(tally.failures)} failures"
                print(f"{text}, {spent:,.0f} s", file=log, flush=True)
    return tally


def main() -> int:
    """Soak for so many cases, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--log", type=Path, help="where progress and failures go; else to stderr")
    chosen = parser.parse_args()
    start = time.monotonic()
    log = chosen.log.open("a") if chosen.log else sys.stderr
    tally = soak(chosen.first, chosen.cases, seconds=60 * chosen.minutes, log=log)
    facts = {
        "outcomes": dict(tally.outcomes.most_common()),
        "attacks": dict(tally.attacks.most_common()),
        "failures": tally.failures,
        "seconds": round(time.monotonic() - start),
    }
    text = json.dumps(facts, indent=2) + "\n"
    sys.stdout.write(text)
    if chosen.log:
        log.write(text)
        log.close()
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
