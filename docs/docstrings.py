"""Our docstrings for mkdocstrings: `name : what it means` where numpydoc expects a type."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", re.MULTILINE)
_HEADED = re.compile(r"^(Question|Assumes): ?(\w)", re.MULTILINE)


class HouseStyle(griffe.Extension):
    """Types stand in the signature; the docstring says what a parameter means."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite a docstring before it is parsed."""
        if isinstance(obj, griffe.Function) and any(
            "takes(" in str(d.value) for d in obj.decorators
        ):
            _complete(obj)
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def _complete(function: griffe.Function) -> None:
    """What a figure has in common with others is filled in when it is imported."""
    made = getattr(import_module(function.module.path), function.name)
    function.docstring = griffe.Docstring(inspect.getdoc(made) or "", parent=function)
    function.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                one.name,
                annotation=one.annotation,
                kind=griffe.ParameterKind(one.kind.description),
                default=None if one.default is one.empty else repr(one.default),
            )
            for one in inspect.signature(made).parameters.values()
        )
    )


def rewritten(text: str) -> str:
    """The same docstring with meanings below names, and its questions set off."""
    text, returned = _without_returns(text)
    head, mark, after = text.partition("Parameters\n----------\n")
    head = _HEADED.sub(lambda found: f"\n**{found[1]}.** {found[2].upper()}", head)
    if returned:
        head = f"{head.rstrip()}\n\n**Returns.** {returned}\n\n"
    if mark:
        section, rest = _split(after)
        after = _PARAMETER.sub(r"\1\n    \2", section) + rest
    before, raises, errors = after.partition("Raises\n------\n")
    return head + mark + before + raises + _PARAMETER.sub(r"\1\n    \2", errors)


def _without_returns(text: str) -> tuple[str, str]:
    """What is returned is a sentence in our docstrings, not a type."""
    before, mark, after = text.partition("Returns\n-------\n")
    if not mark:
        return text, ""
    section, rest = _split(after)
    return before + rest.lstrip("\n"), section.strip()


def _split(after: str) -> tuple[str, str]:
    """A section, and what follows it."""
    end = re.search(r"\n\n(?=\S)", after)
    return (after, "") if end is None else (after[: end.start()], after[end.start() :])
