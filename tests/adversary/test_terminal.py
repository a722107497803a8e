"""Claim: "Names in a file or a plan cannot give commands to the terminal." """

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sfumato.cli import console

HOSTILE = {
    "title": "a\x1b]0;owned\x07b",
    "colour": "a\x1b[31mb",
    "eight bits": "a\x9b31mb",
    "turned around": "a\u202eb",
    "isolated": "a\u2066b",
    "overwritten": "a\rb",
}


@pytest.fixture
def screen(monkeypatch):
    stream = io.StringIO()
    for name in ("out", "err"):
        monkeypatch.setattr(console, name, Console(file=stream, highlight=False, width=200))
    return stream


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_no_name_commands_the_terminal(screen, name):
    console.say(f"Error: no variable {name}\nHint: none")
    console.show_table(f"Variables of {name}", ["variable"], [[name], ["Zoë\u200c 李明"]])
    shown = screen.getvalue()
    assert not set("\x1b\x07\r\x9b\u202e\u2066") & set(shown)
    assert "Zoë\u200c 李明" in shown
    assert "\nHint: none\n" in shown, "our own lines stay lines"
