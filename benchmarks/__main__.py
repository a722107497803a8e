"""Run all benchmarks, or those whose names are given: python -m benchmarks [name …]."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    names = [one.name for one in pkgutil.iter_modules(benchmarks.__path__)]
    wanted = sys.argv[1:] or [name for name in names if name.startswith("bench_")]
    for name in wanted:
        module = importlib.import_module(f"benchmarks.{name.removesuffix('.py')}")
        print(f"== {name}: {(module.__doc__ or '').strip().splitlines()[0]}")
        module.main()


if __name__ == "__main__":
    main()
