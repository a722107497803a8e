"""How an attacker reads a release: what they know, how they compare, whom they look for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.risk.attacks.adjustments import expected, rescaled
from sfumato.risk.attacks.distances import Space, space
from sfumato.risk.attacks.knowledge import Knowledge, knowledge
from sfumato.risk.attacks.targets import Groups, at_quantiles, order_values, tenths

if TYPE_CHECKING:
    from sfumato.run.attacks import attacks, tried
    from sfumato.tuning.redraws import Redrawn, averaged_over, redrawn, several

# What runs whole plans stands above the measures; `sf.attackers` is only a door to it.
_ABOVE = {
    "Redrawn": "tuning.redraws",
    "attacks": "run.attacks",
    "averaged_over": "tuning.redraws",
    "redrawn": "tuning.redraws",
    "several": "tuning.redraws",
    "tried": "run.attacks",
}

__all__ = [
    "Groups",
    "Knowledge",
    "Redrawn",
    "Space",
    "at_quantiles",
    "attacks",
    "averaged_over",
    "expected",
    "knowledge",
    "order_values",
    "redrawn",
    "rescaled",
    "several",
    "space",
    "tenths",
    "tried",
]


def __getattr__(name: str) -> Any:
    if name in _ABOVE:
        return getattr(import_module(f"sfumato.{_ABOVE[name]}"), name)
    msg = f"module 'sfumato.attackers' has no attribute '{name}'"
    raise AttributeError(msg)
