"""How an attacker reads a release: what they know, how they compare, whom they look for."""

from __future__ import annotations

from sfumato.attackers.knowledge import Knowledge, knowledge
from sfumato.attackers.redraws import Redrawn, redrawn
from sfumato.attackers.rescaling import rescaled
from sfumato.attackers.several import averaged_over, several
from sfumato.attackers.shrinkage import expected
from sfumato.attackers.spaces import Space, space
from sfumato.attackers.targets import Groups, at_quantiles, order_values, tenths
from sfumato.attackers.tried import attacks, tried

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
