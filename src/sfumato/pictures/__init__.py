"""Pictures of evidence: drawn last, from what was measured, and stamped when they must stay inside.

A picture that shows single records, or compares with the original, says so in itself. Only those
that show sums over many records may be marked as public.
"""

from __future__ import annotations

from sfumato.pictures.album import album
from sfumato.pictures.at_risk import at_risk, at_risk_from
from sfumato.pictures.balance import balance
from sfumato.pictures.calibrated import calibrated
from sfumato.pictures.compared import compared
from sfumato.pictures.displacement import displacement
from sfumato.pictures.forest import forest
from sfumato.pictures.gains import gains
from sfumato.pictures.known_groups import known_groups
from sfumato.pictures.landing import landing
from sfumato.pictures.moments import moments
from sfumato.pictures.picture import Picture
from sfumato.pictures.propensity import propensity
from sfumato.pictures.protection import protection
from sfumato.pictures.risk_curve import risk_curve
from sfumato.pictures.risk_utility import risk_utility
from sfumato.pictures.steps import steps, steps_from
from sfumato.pictures.surface import surface
from sfumato.pictures.sweep import sweep
from sfumato.pictures.widths import widths

__all__ = [
    "Picture",
    "album",
    "at_risk",
    "at_risk_from",
    "balance",
    "calibrated",
    "compared",
    "displacement",
    "forest",
    "gains",
    "known_groups",
    "landing",
    "moments",
    "propensity",
    "protection",
    "risk_curve",
    "risk_utility",
    "steps",
    "steps_from",
    "surface",
    "sweep",
    "widths",
]
