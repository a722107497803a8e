"""How an attacker reads a release: what they know, how they compare, whom they look for."""

from __future__ import annotations

from sfumato.attackers.knowledge import Knowledge, knowledge
from sfumato.attackers.redraws import Redrawn, redrawn
from sfumato.attackers.rescaling import rescaled
from sfumato.attackers.shrinkage import expected
from sfumato.attackers.spaces import Space, space
from sfumato.attackers.targets import Groups, at_quantiles, order_values, tenths

__all__ = [
    "Groups",
    "Knowledge",
    "Redrawn",
    "Space",
    "at_quantiles",
    "expected",
    "knowledge",
    "order_values",
    "redrawn",
    "rescaled",
    "space",
    "tenths",
]
