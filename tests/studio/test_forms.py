"""Forms follow from the catalogue: every method and measure can be shown, sent and read back."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from sfumato import catalogue
from sfumato.parameters import list_settings
from sfumato.studio.forms import list_fields, read_form
from sfumato.studio.texts import load_texts, say
from sfumato.studio.view import explain

ENTRIES: dict[str, catalogue.Entry] = {**catalogue.methods(), **catalogue.measures()}


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_what_a_form_shows_is_what_it_sends_back(name):
    entry = ENTRIES[name]
    for settings in entry.examples:
        given = list_settings(entry(**settings))
        fields = list_fields(entry, given, ["age", "sex"])
        sent = {
            field.name: field.value if field.kind == "names" else [field.value] for field in fields
        }
        read = list_settings(entry(**read_form(entry, sent)))
        if isinstance(given.get("confidential"), str) or len(given.get("confidential", ())) == 1:
            # One name may stand there with or without a list around it.
            read["confidential"], given["confidential"] = (
                "".join(read["confidential"]),
                "".join(given["confidential"]),
            )
        assert read == given


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_every_field_says_what_it_is(name):
    for field in list_fields(ENTRIES[name]):
        assert field.label != field.name, f"{name}.{field.name}"
        assert field.kind != "choice" or field.choices


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_every_entry_is_explained(name):
    about = explain(name)
    assert about["line"]
    assert about["question"]
    assert about["assumes"]


def test_every_text_that_a_template_names_is_there():
    texts = load_texts()
    room = files("sfumato.studio") / "templates"
    used = {
        place
        for file in room.iterdir()
        for place in re.findall(r"\bt\(['\"]([\w.]+)['\"][,)]", file.read_text("utf-8"))
    }
    assert used
    assert sorted(used - set(texts)) == []
    assert say("shell.undo_title", what="x") == "Undo: x"
