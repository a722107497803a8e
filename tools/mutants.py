"""Mutation testing: change the code in one place, and see whether a test notices.

    make mutants                                          # 60 mutants, seed 19
    .venv/bin/python -m tools.mutants --sample 200 --seed 3 --rooms kernels risk

Cosmic Ray's operators make the mutants: other operators and comparisons, numbers one higher or
lower, `not` added, conditions turned, loops that do not run. A place is drawn first (room by room
in equal shares, files by their length, then a line), and one of the changes possible there second.
What cannot change a result is left out (annotations, decorators, imports, `strict=` of `zip`,
`repr=` of a field), and so is what the interpreter or the compiler refuses by itself (bit operators
in place of arithmetic, empty lists in kernels).

A mutant lives in a copy of the tree; nothing here is touched. The tests that concern it run one
after the other until one fails: the file of the same name in `tests/`, the examples in the module
itself, the digests of what the room gives out, the files that import it or name its method or
measure, those that import what imports it, and the rest of the room. A mutant survives if all of
them pass, or if none has failed when its time is up: processor time, so that a busy machine lets no
more of them live. One that takes more of it than the tests may is killed. A test that fails without
the mutant too, or takes too long without it, kills nobody.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast  # type: ignore[import-untyped]
from cosmic_ray.mutating import mutate_code  # type: ignore[import-untyped]
from cosmic_ray.plugins import get_operator, operator_names  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[1]
ROOMS = ("kernels", "risk", "methods", "analysis")
_LEFT_OUT = re.compile(
    "RemoveDecorator|NoOp|Variable|(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(Bit|.Shift)|"
    "(Eq|NotEq|Lt|LtE|Gt|GtE)_Is|_Invert"
)
_NO_TESTS = 5
_FAR = 5
_AT_ONCE = 4
_DIGESTS = "tests/golden/test_digests.py"
_DIGESTED = {
    "kernels": ("methods", "measures"),
    "risk": ("measures",),
    "methods": ("methods",),
    "analysis": ("fits",),
}
"""Which groups of digests concern a room."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::\S+|\S+\.py)", re.MULTILINE)
_COMPILED = re.compile(r"^from sfumato\.kernels\.compiled import|^from numba import", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """One change of one place: the file relative to the root, and Cosmic Ray's name for it."""

    file: Path
    operator: str
    occurrence: int
    line: int

    def is_python(self) -> bool:
        """Whether the changed file can be read at all."""
        code = (ROOT / self.file).read_text("utf-8")
        try:
            ast.parse(mutate_code(code, get_operator(self.operator)(), self.occurrence))
        except SyntaxError:
            return False
        return True

    def write(self, root: Path) -> tuple[str, str]:
        """Put the mutant into the file; the changed lines, before and after."""
        path = root / self.file
        before = path.read_text("utf-8")
        after = mutate_code(before, get_operator(self.operator)(), self.occurrence)
        path.write_text(after, "utf-8")
        pairs = zip(before.splitlines(), after.splitlines(), strict=False)
        old, new = next((old, new) for old, new in pairs if old != new)
        return old.strip(), new.strip()


def draw_mutants(rooms: tuple[str, ...], size: int, seed: int) -> list[Mutant]:
    """A random sample, the same for the same code and seed, equally many of each room."""
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    drawn: dict[Mutant, None] = {}
    for position in range(size):
        files = sorted((ROOT / "src/sfumato" / rooms[position % len(rooms)]).rglob("*.py"))
        lengths = [len(file.read_bytes()) for file in files]
        while True:
            candidates = possible_mutants(rng.choices(files, lengths)[0])
            if candidates:
                places = sorted({mutant.line for mutant in candidates})
                line = rng.choice(places)
                mutant = rng.choice([one for one in candidates if one.line == line])
                if mutant not in drawn and mutant.is_python():
                    drawn[mutant] = None
                    break
    return list(drawn)


@cache
def possible_mutants(path: Path) -> tuple[Mutant, ...]:
    """All mutants of a file that could change a result."""
    text = path.read_text("utf-8")
    tree, exempt = get_ast(text), _exempt_positions(text)
    found = []
    for name in operator_names():
        if _LEFT_OUT.search(name) or get_operator(name).arguments():
            continue
        if "ZeroIteration" in name and _COMPILED.search(text):
            continue
        operator = get_operator(name)()
        positions = (
            start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)
        )
        for occurrence, start in enumerate(positions):
            if not any(first <= start < last for first, last in exempt):
                found.append(Mutant(path.relative_to(ROOT), name, occurrence, start[0]))
    return tuple(found)


def _exempt_positions(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a change cannot change a result: see the top of this file."""
    nodes: list[ast.AST] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            nodes += node.decorator_list
        if isinstance(node, ast.FunctionDef) and node.returns:
            nodes.append(node.returns)
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            nodes.append(node.annotation)
        if isinstance(node, ast.Import | ast.ImportFrom):
            nodes.append(node)
        if isinstance(node, ast.keyword) and node.arg in ("strict", "repr"):
            nodes.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes.append(node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "examples"):
            nodes.append(node)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))  # type: ignore[attr-defined]
        for node in nodes
    ]


def module_name(file: Path) -> str:
    """`src/sfumato/risk/peers.py` as Python imports it."""
    return ".".join(file.with_suffix("").parts[1:]).removesuffix(".__init__")


@cache
def importers(module: str) -> tuple[Path, ...]:
    """The files of the library that import a module, relative to the root."""
    parent, _, name = module.rpartition(".")
    pattern = re.compile(
        rf"from {re.escape(module)} import|import {re.escape(module)}\b"
        rf"|from {re.escape(parent)} import (?:\([^)]*|[^\n(]*)\b{name}\b"
    )
    files = sorted((ROOT / "src/sfumato").rglob("*.py"))
    return tuple(
        file.relative_to(ROOT) for file in files if pattern.search(file.read_text("utf-8"))
    )


def concerned_tests(file: Path) -> Iterator[list[str]]:
    """Arguments of pytest for a mutant, nearest first."""
    module, room = module_name(file), file.parts[2]
    name = file.stem.strip("_")
    mirror = sorted((ROOT / "tests" / room).rglob(f"test_{name}*.py"))
    yield [*(str(path.relative_to(ROOT)) for path in mirror), str(file)]
    seen = set(mirror)
    if file.parent.name in ("risk", "methods"):
        contract = f"tests/contract/test_{'measures' if room == 'risk' else room}.py"
        yield [contract, "-k", name]
    if (ROOT / _DIGESTS).exists():
        groups = ("names", "fields", *_DIGESTED[room])
        yield [f"{_DIGESTS}::test_nothing_changed[{group}]" for group in groups]
    modules, reached = [module], {module}
    for _ in range(_FAR):
        nearest = [path for path in _test_files() if path not in seen and _names(path, modules)]
        seen.update(nearest)
        nearest.sort(key=lambda path: (room not in path.parts, path.stat().st_size))
        yield from _together(nearest)
        modules = [
            module_name(path)
            for module in modules
            for path in importers(module)
            if module_name(path) not in reached
        ]
        reached.update(modules)
    yield from _together(
        [path for path in _test_files() if path not in seen and room in path.parts]
    )


def _together(paths: list[Path]) -> Iterator[list[str]]:
    """Some files in one process: to import the library takes longer than most of them."""
    for first in range(0, len(paths), _AT_ONCE):
        yield [str(path.relative_to(ROOT)) for path in paths[first : first + _AT_ONCE]]


@cache
def _test_files() -> tuple[Path, ...]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    slow = ("soak", "golden", "docs", "e2e", "postgres")
    return tuple(path for path in files if not set(slow) & set(path.parts))


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _names(path: Path, modules: list[str]) -> bool:
    """Whether a test file imports one of the modules, or uses the measure or method in it."""
    return any(
        re.search(rf"\b{re.escape(module)}\b", _text(path))
        or (
            re.fullmatch(r"sfumato\.(risk|methods)\.[a-z_]+", module)
            and re.search(
                rf"\b{module.split('.')[1]}\.{module.split('.')[2].title().replace('_', '')}\b",
                _text(path),
            )
        )
        for module in modules
    )


def _processor_seconds() -> float:
    """What the tests have taken until now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Laboratory:
    """Two copies of the tree: one stays as it is, mutants live in the other."""

    def __init__(self, folder: Path) -> None:
        self.clean, self.infected = folder / "clean", folder / "infected"
        self.innocent: dict[str, bool] = {}
        for copy in (self.clean, self.infected):
            for name in ("src", "tests", "benchmarks", "replication", "docs", "tools"):
                shutil.copytree(ROOT / name, copy / name)
            shutil.copy2(ROOT / "pyproject.toml", copy)

    def compiled_importers(self, file: Path) -> set[Path]:
        """The files whose machine code may hold that of this one: numba does not know."""
        reached, todo = {file}, [file]
        while todo:
            for path in importers(module_name(todo.pop())):
                if path not in reached and _COMPILED.search((ROOT / path).read_text("utf-8")):
                    reached.add(path)
                    todo.append(path)
        return reached - {file}

    def pytest(self, root: Path, arguments: list[str], seconds: float) -> tuple[str, str]:
        """Run tests: "passed", "failed" or "hung", and what was printed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        surroundings = {**os.environ, "PYTHONPATH": str(root / "src")}
        limited = f"ulimit -t {seconds:.0f}; exec {shlex.join([*command, *arguments])}"
        run = subprocess.run(  # noqa: S602 - our own tests
            limited, shell=True, cwd=root, env=surroundings, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if run.returncode in (0, _NO_TESTS):
            return "passed", run.stdout
        return ("failed" if _FAILED.search(run.stdout) else "hung"), run.stdout

    def restore(self, file: Path, touched: set[Path]) -> None:
        """The infected copy is as the clean one again, machine code included."""
        for path in (file, *touched):
            shutil.copy2(self.clean / path, self.infected / path)
            cache = path.parent / "__pycache__"
            for stale in (self.infected / cache).glob(f"{path.stem}.*"):
                stale.unlink()
            for kept in (self.clean / cache).glob(f"{path.stem}.*"):
                shutil.copy2(kept, self.infected / cache / kept.name)

    def examine(self, mutant: Mutant, seconds: float, hanging: float) -> tuple[str, str, str]:
        """What killed the mutant, or "survived", and the changed line before and after."""
        touched = self.compiled_importers(mutant.file)
        old, new = mutant.write(self.infected)
        for path in touched:
            os.utime(self.infected / path)
        start = _processor_seconds()
        killer = "survived"
        for arguments in concerned_tests(mutant.file):
            if _processor_seconds() - start > seconds:
                killer = "survived (time is up)"
                break
            result, printed = self.pytest(self.infected, arguments, hanging)
            if result == "passed":
                continue
            test = next(iter(_FAILED.findall(printed)), " ".join(arguments))
            if self.is_innocent(test, hanging):
                killer = f"{test} ({result})"
                break
        self.restore(mutant.file, touched)
        return killer, old, new

    def is_innocent(self, test: str, hanging: float) -> bool:
        """Whether a test passes without the mutant."""
        if test not in self.innocent:
            self.innocent[test] = self.pytest(self.clean, test.split(), hanging)[0] == "passed"
        return self.innocent[test]


def main() -> None:
    """Draw, examine, report; the exit code is 1 if fewer are killed than the goal."""
    parser = argparse.ArgumentParser(description="Mutation testing of a random sample.")
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--only", type=int, nargs="+", help="these mutants of the sample")
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS), choices=ROOMS)
    parser.add_argument(
        "--seconds", type=float, default=120, help="CPU seconds; no new file of tests after them"
    )
    parser.add_argument(
        "--hanging", type=float, default=90, help="CPU seconds for one file of tests"
    )
    parser.add_argument("--goal", type=float, default=0.95)
    parser.add_argument("--list", action="store_true", help="only list the sample")
    given = parser.parse_args()
    mutants = draw_mutants(tuple(given.rooms), given.sample, given.seed)
    if given.list:
        for mutant in mutants:
            print(f"{mutant.file}:{mutant.line} {mutant.operator} {mutant.occurrence}")
        return
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory(Path(folder))
        for number in given.only or range(len(mutants)):
            mutant = mutants[number]
            start = _processor_seconds()
            killer, old, new = laboratory.examine(mutant, given.seconds, given.hanging)
            took = _processor_seconds() - start
            print(f"{number} {mutant.file}:{mutant.line} {took:.0f} s: {killer}", flush=True)
            print(f"    - {old}\n    + {new}", flush=True)
            if killer.startswith("survived"):
                survivors.append(f"{mutant.file}:{mutant.line}\n    - {old}\n    + {new}")
    examined = len(given.only or mutants)
    killed = examined - len(survivors)
    print(f"killed {killed} of {examined} ({killed / examined:.1%}), seed {given.seed}; survivors:")
    print("\n".join(survivors) or "none")
    sys.exit(int(killed < given.goal * examined))


if __name__ == "__main__":
    main()
