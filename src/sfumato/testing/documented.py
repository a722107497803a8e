"""What the docstring of every method and measure says, and how."""

from __future__ import annotations

import inspect

from sfumato import catalogue
from sfumato.data import Dataset

_LONGEST_LABEL = 60


def check_documented(entry: catalogue.Entry, position: int, data: Dataset) -> None:
    """The docstring says the question, the assumption and an example, and every parameter.

    What it says of a parameter begins with a clause that a form can show in place of its name.
    """
    del data
    doc = inspect.getdoc(entry) or ""
    assert catalogue.first_line(entry).endswith("."), "the first line is no sentence"
    for part in ("Question:", "Assumes:", ">>>"):
        assert part in doc, f"the docstring lacks '{part}'"
    parameters = catalogue.parameters_of(entry)
    undescribed = [parameter.name for parameter in parameters if not parameter.help]
    assert not undescribed, f"nothing is said of {undescribed}"
    labels = [parameter.label for parameter in parameters]
    long = [
        label for label in labels if len(label) > _LONGEST_LABEL or label[0] == '"' or "`" in label
    ]
    assert not long, f"no short first clause that says what it is: {long}"
    assert len(set(labels)) == len(labels), f"two parameters begin alike: {labels}"
    unknown = set(entry.examples[position]) - {parameter.name for parameter in parameters}
    assert not unknown, f"no parameters: {sorted(unknown)}"
