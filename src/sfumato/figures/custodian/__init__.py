"""Pictures of evidence: drawn last, from what was measured, and stamped when they must stay inside.

A picture that shows single records, or compares with the original, says so in itself. Only those
that show sums over many records may be marked as public.
"""

from __future__ import annotations

from sfumato.figures._sheet.picture import Picture
from sfumato.figures.custodian.album import album
from sfumato.figures.custodian.at_risk import at_risk, at_risk_from
from sfumato.figures.custodian.balance import balance
from sfumato.figures.custodian.calibrated import calibrated
from sfumato.figures.custodian.compared import compared
from sfumato.figures.custodian.displacement import displacement
from sfumato.figures.custodian.forest import forest
from sfumato.figures.custodian.gains import gains
from sfumato.figures.custodian.known_groups import known_groups
from sfumato.figures.custodian.landing import landing
from sfumato.figures.custodian.moments import moments
from sfumato.figures.custodian.propensity import propensity
from sfumato.figures.custodian.protection import protection
from sfumato.figures.custodian.risk_curve import risk_curve
from sfumato.figures.custodian.risk_utility import risk_utility
from sfumato.figures.custodian.steps import steps, steps_from
from sfumato.figures.custodian.surface import surface
from sfumato.figures.custodian.sweep import sweep
from sfumato.figures.custodian.widths import widths

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
