"""Sfumato: share sensitive microdata without giving anyone away.

Blur the person, keep the picture.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato import (
        attackers,
        datasets,
        methods,
        outputs,
        pictures,
        plots,
        risk,
        tables,
        utility,
    )
    from sfumato.analysis.efficiency import efficiency
    from sfumato.analysis.fit import fit
    from sfumato.data import Dataset, read
    from sfumato.errors import SfumatoError
    from sfumato.evidence import Evidence
    from sfumato.noised.described import (
        CodeNoise,
        CorrelatedGaussian,
        Gaussian,
        Laplace,
        Misclassification,
    )
    from sfumato.noised.scales import Growth, Scale
    from sfumato.plan import Plan
    from sfumato.randomness import Key
    from sfumato.release import Release
    from sfumato.run import assess, evaluate, protect
    from sfumato.schema import Column, Schema
    from sfumato.sweeps import sweep
    from sfumato.tuning.calibrate import calibrate
    from sfumato.tuning.search import tune

# Names are found when they are first used, so that importing Sfumato costs next to nothing.
_HOMES = {
    "CodeNoise": "noised.described",
    "Column": "schema",
    "CorrelatedGaussian": "noised.described",
    "Dataset": "data",
    "Evidence": "evidence",
    "Gaussian": "noised.described",
    "Growth": "noised.scales",
    "Key": "randomness",
    "Laplace": "noised.described",
    "Misclassification": "noised.described",
    "Plan": "plan",
    "Release": "release",
    "Scale": "noised.scales",
    "Schema": "schema",
    "SfumatoError": "errors",
    "assess": "run",
    "calibrate": "tuning.calibrate",
    "efficiency": "analysis.efficiency",
    "evaluate": "run",
    "fit": "analysis.fit",
    "protect": "run",
    "read": "data",
    # Not in a module of its own name, which would hide the function once it is imported.
    "sweep": "sweeps",
    "tune": "tuning.search",
}
_ROOMS = (
    "attackers",
    "datasets",
    "hierarchies",
    "methods",
    "outputs",
    "peering",
    "pictures",
    "plots",
    "risk",
    "tables",
    "utility",
)

__all__ = [
    "CodeNoise",
    "Column",
    "CorrelatedGaussian",
    "Dataset",
    "Evidence",
    "Gaussian",
    "Growth",
    "Key",
    "Laplace",
    "Misclassification",
    "Plan",
    "Release",
    "Scale",
    "Schema",
    "SfumatoError",
    "__version__",
    "assess",
    "attackers",
    "calibrate",
    "datasets",
    "efficiency",
    "evaluate",
    "fit",
    "hierarchies",
    "methods",
    "outputs",
    "peering",
    "pictures",
    "plots",
    "protect",
    "read",
    "risk",
    "sweep",
    "tables",
    "tune",
    "utility",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"sfumato.{name}")
    if name in _HOMES:
        return getattr(import_module(f"sfumato.{_HOMES[name]}"), name)
    msg = f"module 'sfumato' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
