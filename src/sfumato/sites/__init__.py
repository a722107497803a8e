"""Several sites, one analysis: every site answers a request with a bundle; bundles are combined.

`sf.sites.answer(data, request, site="North", log=log)` lives in `answering.py`,
`sf.sites.combine([first, second])` in `combining.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.sites.answering import answer
    from sfumato.sites.bundle import Bundle, FitRound
    from sfumato.sites.combining import PooledResults, combine, run_rounds
    from sfumato.sites.request import SiteRequest

_HOMES = {
    "Bundle": "bundle",
    "PooledResults": "combining",
    "FitRound": "bundle",
    "SiteRequest": "request",
    "answer": "answering",
    "combine": "combining",
    "run_rounds": "combining",
}

__all__ = ["Bundle", "FitRound", "PooledResults", "SiteRequest", "answer", "combine", "run_rounds"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sfumato.sites.{_HOMES[name]}"), name)
    msg = f"module 'sfumato.sites' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
