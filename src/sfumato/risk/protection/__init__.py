"""Which variable to generalise, and how far: what would protect people who have too few peers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.risk.protection.equal_widths import widths
from sfumato.risk.protection.gains import Gains, gains
from sfumato.risk.protection.who import by_value, who

if TYPE_CHECKING:
    from sfumato.tuning.recommendation.joint import JointRecommendation, recommend_jointly
    from sfumato.tuning.recommendation.single import Recommendation, recommend

# Steps of a plan are recommended above the measures; `sf.peering` is only a door to them.
_ABOVE = {
    "JointRecommendation": "joint",
    "Recommendation": "single",
    "recommend": "single",
    "recommend_jointly": "joint",
}

__all__ = [
    "Gains",
    "JointRecommendation",
    "Recommendation",
    "by_value",
    "gains",
    "recommend",
    "recommend_jointly",
    "who",
    "widths",
]


def __getattr__(name: str) -> Any:
    if name in _ABOVE:
        return getattr(import_module(f"sfumato.tuning.recommendation.{_ABOVE[name]}"), name)
    msg = f"module 'sfumato.peering' has no attribute '{name}'"
    raise AttributeError(msg)
