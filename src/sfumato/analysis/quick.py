"""Quick looks by name: corrected moments, regression calibration, simulation-extrapolation."""

from __future__ import annotations

from sfumato.analysis.calibration import calibration
from sfumato.analysis.modelled import Modelled, left_out, missing
from sfumato.analysis.naive import Estimates
from sfumato.analysis.result import Method
from sfumato.analysis.simex import simex
from sfumato.errors import MeasureError


def quick(model: Modelled, method: Method, seed: int) -> tuple[Estimates, tuple[str, ...]]:
    """Estimates with standard errors, and what is to be known of them."""
    if method != "moments" and model.naive.note:
        raise MeasureError(
            f"There is {model.naive.note}, so no quick look at it.", hint='use method="posterior".'
        )
    if method == "calibration":
        return calibration(model, seed)
    if method == "simex":
        return simex(model, model.noise, seed)
    if model.corrected is None:
        raise MeasureError(
            f"There are no corrected moments for this model: {model.why_not}.",
            hint='use method="posterior", or "simex" for a quick look.',
        )
    gone = int(missing(model.problem).sum())
    notes: tuple[str, ...] = (left_out(gone),) if gone else ()
    if model.problem.groups is not None:
        notes = (
            *notes,
            "Corrected moments weigh records as if each group had an intercept of its own.",
        )
    return model.corrected.estimates, notes
