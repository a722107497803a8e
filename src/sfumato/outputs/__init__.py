"""What may leave, and the log of what did."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.outputs.log import Log
    from sfumato.outputs.output import Output, OutputRefused, Verdict, digest_of, worst
    from sfumato.outputs.rules import Rules

_HOMES = {
    "Log": "log",
    "Output": "output",
    "OutputRefused": "output",
    "Rules": "rules",
    "Verdict": "output",
    "digest_of": "output",
    "worst": "output",
}

__all__ = ["Log", "Output", "OutputRefused", "Rules", "Verdict", "digest_of", "worst"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sfumato.outputs.{_HOMES[name]}"), name)
    msg = f"module 'sfumato.outputs' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
