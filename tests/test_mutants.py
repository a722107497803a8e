"""The mutation tool: what it mutates, which tests it asks, and what counts as killed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray")

from tools import mutants

SOURCE = """
from numba import njit

def add(a: int = 1 + 1, b: "int | None" = None) -> "int | float":
    for _ in range(3):
        a = a + 2
    return max(a, 0) if a > 1 else len(list(zip([a], [a], strict=True)))
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A tree with one module and one test that notices all but one of its mutants."""
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    for name in ("benchmarks", "replication", "docs", "tools", "tests/risk"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    package = tmp_path / "src/sfumato/risk"
    package.mkdir(parents=True)
    (package / "added.py").write_text(SOURCE)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (tmp_path / "tests/risk/test_added.py").write_text(
        "from sfumato.risk import added\n\n\ndef test_added():\n    assert added.add(1) == 7\n"
    )
    for cached in (mutants.possible_mutants, mutants.importers, mutants._test_files, mutants._text):
        cached.cache_clear()
    yield tmp_path
    for cached in (mutants.possible_mutants, mutants.importers, mutants._test_files, mutants._text):
        cached.cache_clear()


def test_what_cannot_change_a_result_is_no_mutant(root):
    path = root / "src/sfumato/risk/added.py"
    made = mutants.possible_mutants(path)
    assert {mutant.line for mutant in made} == {4, 5, 6, 7}
    changed = set()
    for mutant in made:
        changed.add(mutant.write(root)[1])
        path.write_text(SOURCE)
    assert any("a - 2" in line for line in changed)
    assert not any("strict=False" in line or "a << 2" in line for line in changed)
    assert not any("for _ in []" in line for line in changed)


def test_the_same_seed_draws_the_same_sample(root):
    once = mutants.draw_mutants(("risk",), 5, 3)
    assert once == mutants.draw_mutants(("risk",), 5, 3)
    assert len(set(once)) == 5


def test_a_test_that_fails_kills_and_one_that_failed_before_does_not(root, tmp_path_factory):
    file = Path("src/sfumato/risk/added.py")
    assert next(mutants.concerned_tests(file))[0] == "tests/risk/test_added.py"
    made = {mutant.operator: mutant for mutant in mutants.possible_mutants(root / file)}
    fewer = made["core/ReplaceBinaryOperator_Add_Sub"]
    laboratory = mutants.Laboratory(tmp_path_factory.mktemp("laboratory"))
    killer, old, new = laboratory.examine(fewer, 60, 60)
    assert killer == "tests/risk/test_added.py::test_added (failed)"
    assert (old, new) == ("a = a + 2", "a = a - 2")
    assert (laboratory.infected / file).read_text() == SOURCE
    laboratory.innocent["tests/risk/test_added.py::test_added"] = False
    assert laboratory.examine(fewer, 60, 60)[0] == "survived"
