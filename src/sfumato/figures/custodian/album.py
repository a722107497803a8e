"""Every picture that some evidence has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures.custodian.at_risk import at_risk
from sfumato.figures.custodian.displacement import displacement
from sfumato.figures.custodian.forest import forest
from sfumato.figures.custodian.gains import gains
from sfumato.figures.custodian.known_groups import NEEDED, known_groups
from sfumato.figures.custodian.landing import landing
from sfumato.figures.custodian.moments import moments
from sfumato.figures.custodian.propensity import propensity
from sfumato.figures.custodian.protection import protection
from sfumato.figures.custodian.risk_curve import risk_curve
from sfumato.io.frames import wrap
from sfumato.measure import Measure
from sfumato.risk._known import known_variables
from sfumato.risk.mahalanobis import Mahalanobis
from sfumato.risk.peers import Peers

_FROM_EVIDENCE: dict[str, Callable[[Evidence], Picture]] = {
    "coefficients": forest,
    "displacement": displacement,
    "h_index": landing,
    "moments": moments,
    "peers": protection,  # with the measure's own threshold, see below
    "propensity": propensity,
}
_WIDTHS = [0.0, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
_NEAR = [0.01, 0.05, 0.1, 0.2]


def album(
    found: Mapping[str, Evidence],
    measures: Mapping[str, Measure],
    original: Dataset,
    released: Dataset,
) -> tuple[dict[str, Picture], dict[str, str]]:
    """All pictures by name, and for those that could not be drawn the reason.

    Parameters
    ----------
    found : the evidence by label.
    measures : the measures that gave it, by the same labels.
    original, released : what was measured, record by record.
    """
    made: dict[str, Picture] = {}
    failed: dict[str, str] = {}
    for label, one in found.items():
        for name, draw in _drawn(label, one, measures[label], original, released).items():
            try:
                made[name] = draw()
            except SfumatoError as error:
                failed[name] = error.what
    return made, failed


def _drawn(
    label: str, one: Evidence, measure: Measure, original: Dataset, released: Dataset
) -> dict[str, Callable[[], Picture]]:
    if one.computed and isinstance(measure, Peers):
        return _of_peers(label, one, measure, released)
    if one.computed and one.name in _FROM_EVIDENCE:
        return {label: lambda: _FROM_EVIDENCE[one.name](one)}
    if one.computed and isinstance(measure, Mahalanobis):
        return {
            f"{label}-at-risk": lambda: at_risk(original, released, one),
            f"{label}-by-width": lambda: risk_curve(
                measure.curve(original, released, w1=_WIDTHS, w2=_NEAR)
            ),
        }
    if one.computed and one.table is not None and set(NEEDED) <= set(wrap(one.table).columns):
        # Beside what the original would have given away, measured alike.
        return {
            f"{label}-by-knowledge": lambda: known_groups(measure.look(original, "original"), one)
        }
    return {}


def _of_peers(
    label: str, one: Evidence, measure: Peers, released: Dataset
) -> dict[str, Callable[[], Picture]]:
    """The map of people, and what would protect them where the variable is in most danger."""
    from sfumato.risk._peers.gains import gains as measured

    known = known_variables(measure.known, released, "released")
    worst = str(one.details["worst_variable"])
    return {
        label: lambda: protection(one, p=measure.p),
        f"{label}-gains": lambda: gains(measured(released, worst, known, measure.p)),
    }
