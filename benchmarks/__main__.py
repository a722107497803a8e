"""Run all benchmarks, or those whose names are given: python -m benchmarks [--check] [name …].

What is compared with a baseline goes into the ledger. `--check` runs the quick rows only, writes
nothing, and fails where one got slower.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

import benchmarks
from benchmarks import ledger
from benchmarks.rows import compare


def list_modules(wanted: list[str]) -> Iterator[tuple[str, ModuleType]]:
    """The benchmarks by name."""
    names = [one.name for one in pkgutil.iter_modules(benchmarks.__path__)]
    for name in wanted or [name for name in names if name.startswith("bench_")]:
        yield name, importlib.import_module(f"benchmarks.{name.removesuffix('.py')}")


def main(arguments: list[str]) -> int:
    """The exit code."""
    wanted = [one for one in arguments if one != "--check"]
    if "--check" in arguments:
        best = ledger.find_best(ledger.read())
        rows = [row for _, module in list_modules(wanted) for row in getattr(module, "ROWS", ())]
        wrong = [
            told for row in rows if row.quick and (told := ledger.check(row, best.get(row.name)))
        ]
        print(*wrong, sep="\n")
        return int(bool(wrong))
    for name, module in list_modules(wanted):
        print(f"== {name}: {(module.__doc__ or '').strip().splitlines()[0]}")
        group = getattr(module, "GROUP", "kernel")
        for comparison in compare(getattr(module, "ROWS", ())):
            ledger.add([(group, comparison)])
        if hasattr(module, "main"):
            module.main()
    ledger.PAGE.write_text(ledger.write_page(ledger.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
