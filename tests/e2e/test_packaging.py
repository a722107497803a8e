"""What is packed and installed beside the command, and whether two builds have the same bytes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.manual import list_files

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LATER = {"SOURCE_DATE_EPOCH": "1700000000"}
COMES_WITH = {
    "llvmlite": "numba",
    "markupsafe": "jinja2",
    "mpl_toolkits": "matplotlib",
    "py4j": "pyspark",
    "pydantic_core": "pydantic",
    "sklearn": "scikit-learn",
    "spacy": "presidio-analyzer",
}
"""Modules of another name than the library that is asked for."""


def build_packages(source: Path, target: Path) -> dict[str, bytes]:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", target],
        cwd=source,
        check=True,
        capture_output=True,
        env={**os.environ, **LATER},
    )
    return {path.name: path.read_bytes() for path in target.iterdir()}


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("packages")
    build_packages(ROOT, folder)
    return folder


def test_man_page_and_completions_are_up_to_date():
    for path, content in list_files().items():
        assert path.read_text("utf-8") == content, "run python -m tools.manual"


def test_packages_built_elsewhere_from_the_source_distribution_have_the_same_bytes(
    packages, tmp_path
):
    [source] = packages.glob("*.tar.gz")
    with tarfile.open(source) as packed:
        # Debian's Python 3.11.2 has no filters yet.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(tmp_path)  # noqa: S202 - it is our own
    [folder] = tmp_path.iterdir()
    for path in folder.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    built = build_packages(folder, tmp_path / "built")
    assert len(built) == 2
    assert built == {path.name: path.read_bytes() for path in packages.iterdir()}


def test_the_wheel_has_what_is_installed_and_nothing_else(packages):
    [wheel] = packages.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    shared = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"].values()
    assert all(any(name.endswith(f"data/{target}") for name in names) for target in shared)
    assert "sfumato/py.typed" in names
    assert not any("__pycache__" in name or name.startswith("tests") for name in names)


def test_the_lock_has_every_library_that_the_project_asks_for():
    lines = (ROOT / "requirements.lock").read_text("utf-8")
    locked = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lines, re.MULTILINE)
    }
    project = PROJECT["project"]
    asked = [*project["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    for extra in ("formats", "postgres", "spark", "studio"):
        asked += project["optional-dependencies"][extra]
    for requirement in map(Requirement, asked):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked; run make lock"
        assert requirement.specifier.contains(version), f"{requirement}, but locked is {version}"


def test_every_library_that_is_imported_is_asked_for():
    # A library that is only there because another needs it may be gone after that one's update.
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    asked = {
        canonicalize_name(Requirement(line).name)
        for line in [*project["dependencies"], *(line for extra in extras for line in extra)]
    }
    needed = {
        canonicalize_name(COMES_WITH.get(name, name))
        for name in imported - set(sys.stdlib_module_names) - {"sfumato"}
    }
    assert not needed - asked
