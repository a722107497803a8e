"""Pictures of evidence: drawn last, from what was measured, and stamped when they must stay inside.

A picture that shows single records, or compares with the original, says so in itself. Only those
that show sums over many records may be marked as public.
"""

from __future__ import annotations

from sfumato.figures.custodian.album import album
from sfumato.figures.custodian.compared import compared
from sfumato.figures.custodian.displacement import displacement
from sfumato.figures.custodian.forest import forest
from sfumato.figures.custodian.known_groups import known_groups
from sfumato.figures.custodian.landing import landing
from sfumato.figures.custodian.masked_values import masked_values
from sfumato.figures.custodian.moments import moments
from sfumato.figures.custodian.peers import alternatives, gains, protection, widths
from sfumato.figures.custodian.propensity import propensity
from sfumato.figures.custodian.records import at_risk, at_risk_from, steps, steps_from
from sfumato.figures.custodian.risk_curve import risk_curve
from sfumato.figures.custodian.sweep import balance, surface, sweep
from sfumato.figures.custodian.tuning import calibrated, risk_utility
from sfumato.figures.sheet.picture import Picture

__all__ = [
    "Picture",
    "album",
    "alternatives",
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
    "masked_values",
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
