"""The list of what the papers hold names nothing that is not there."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest
import typer.main
from replication.__main__ import make_parser
from replication.papers import PAPERS
from tests.docs.blocks import ROOT

import sfumato as sf
from sfumato.cli.app import app

PAGE = ROOT / "docs" / "evidence" / "papers.md"
STATES = ("works", "in kind", "differs", "partly", "outside")
COUNTS = {
    "centres": (65, 54, 5, 4, 1, 1),
    "noise": (83, 69, 6, 6, 0, 2),
    "crowds": (49, 35, 8, 3, 1, 2),
    "figures": (54, 52, 0, 2, 0, 0),
    "individuals": (44, 40, 0, 3, 0, 1),
}
"""Items of each paper, and how many have each state, as the page sums them up."""
CODE = re.compile(r"`([^`]+)`")
OWN = "__own__"
"""Stands for what a reader brings."""


class Item(NamedTuple):
    """A line of the list."""

    paper: str
    where: str
    what: str
    how: tuple[str, ...]
    tests: tuple[str, ...]
    state: str
    reason: str


def read_items() -> list[Item]:
    """The lines of the tables below the headings of papers."""
    items, paper = [], ""
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"## .*\{ #(\w+) \}", line):
            paper = heading[1]
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not (paper and line.startswith("| ")) or cells[0] in ("where", "---"):
            continue
        where, what, spans, state = cells
        name, _, reason = state.partition(": ")
        tests = tuple(span for span in CODE.findall(spans) if span.startswith("tests/"))
        how = tuple(span for span in CODE.findall(spans) if span not in tests)
        items.append(Item(paper, where, what, how, tests, name, reason))
    return items


ITEMS = read_items()


def resolve(node: ast.expr) -> Any:
    """What a name, an attribute or a call stands for; of a call, the class that it gives."""
    if isinstance(node, ast.Name):
        assert node.id == "sf", node.id
        return sf
    if isinstance(node, ast.Attribute):
        return getattr(resolve(node.value), node.attr)
    assert isinstance(node, ast.Call), ast.dump(node)
    return check_call(node)


def check_call(node: ast.Call) -> Any:
    """The class that a call gives; its arguments must be there, and be taken where all are said."""
    callee = resolve(node.func)
    names = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    if dataclasses.is_dataclass(callee):
        taken = {field.name for field in dataclasses.fields(callee)}
    else:
        parameters = inspect.signature(callee).parameters
        free = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        taken = names if free else set(parameters)
    assert names <= taken, (names - taken, callee)
    said = ast.unparse(node)
    if isinstance(callee, type) and OWN not in said:
        eval(said, {"sf": sf})  # noqa: S307 - our own page
    for part in (*node.args, *(keyword.value for keyword in node.keywords)):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Call):
                check_call(inner)
    return callee


def check_python(span: str) -> None:
    """A call such as `sf.risk.Peers(q=0.1)`."""
    tree = ast.parse(span.replace("(…)", "()").replace("…", OWN), mode="eval").body
    if "(…)" in span:  # only the name is said
        assert isinstance(tree, ast.Call)
        assert callable(resolve(tree.func))
        return
    resolve(tree)


def check_command(span: str) -> None:
    """A command with options, such as `sfumato plot --edges`."""
    _, name, *options = span.split()
    main: Any = typer.main.get_command(app)
    command = main.get_command(None, name)
    assert command is not None, name
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(options) <= known, set(options) - known


def check_module(span: str) -> None:
    """A module that can be run, such as `python -m tools.gallery`; the replication, of a paper."""
    _, _, module, *words = span.split()
    path = ROOT / module.replace(".", "/")
    assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()
    if module == "replication":
        chosen = make_parser().parse_args(words)
        assert set(chosen.paper) <= {paper.name for paper in PAPERS}, span


@pytest.mark.parametrize("span", sorted({span for item in ITEMS for span in item.how}))
def test_what_does_it_exists(span):
    if span.startswith("sf."):
        check_python(span)
    elif span.startswith("sfumato "):
        check_command(span)
    else:
        assert span.startswith("python -m ")
        check_module(span)


def test_the_tests_that_are_named_exist():
    missing = []
    for name in sorted({name for item in ITEMS for name in item.tests}):
        path, _, function = name.partition("::")
        if not (ROOT / path).is_file():
            missing.append(path)
        elif function and f"def {function}(" not in (ROOT / path).read_text():
            missing.append(name)
    assert missing == []


def test_every_item_has_a_way_a_test_and_a_state_with_its_reason():
    for item in ITEMS:
        assert item.how, item
        assert item.tests, item
        assert item.state in STATES, item
        assert bool(item.reason) == (item.state != "works"), item
    assert len({(item.paper, item.where, item.what) for item in ITEMS}) == len(ITEMS)


def test_the_sums_are_those_of_the_lists():
    states = Counter((item.paper, item.state) for item in ITEMS)
    by_state = {paper: [states[paper, state] for state in STATES] for paper in COUNTS}
    assert {paper: (sum(counts), *counts) for paper, counts in by_state.items()} == COUNTS
    page = PAGE.read_text()
    for paper, counts in COUNTS.items():
        numbers = " | ".join(map(str, counts))
        assert re.search(rf"\| \[[^]]+\]\(#{paper}\) \| {re.escape(numbers)} \|", page), numbers


def test_what_is_wrong_is_noticed():
    with pytest.raises(AttributeError):
        check_python("sf.risk.Piers()")
    with pytest.raises(AssertionError):
        check_python('sf.risk.Peers(shar="0.1")')
    with pytest.raises(sf.SfumatoError):
        check_python('sf.risk.Mahalanobis(definition="none")')
    with pytest.raises(AssertionError):
        check_python("sf.plots.scatter(data=…, colour=…)")
    with pytest.raises(AssertionError):
        check_command("sfumato plot --colour")
    with pytest.raises(AssertionError):
        check_module("python -m tools.galery")
    with pytest.raises(AssertionError):
        check_module("python -m replication --paper crowd")
    with pytest.raises(SystemExit):
        check_module("python -m replication --papers crowds")
