"""Which variable to generalise, and how far: what would protect people who have too few peers."""

from __future__ import annotations

from sfumato.peering.gains import Gains, gains
from sfumato.peering.joint import JointRecommendation, recommend_jointly
from sfumato.peering.recommended import Recommendation, recommend
from sfumato.peering.who import by_value, who
from sfumato.peering.widths import widths

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
