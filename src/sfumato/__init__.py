"""Sfumato: share sensitive microdata without giving anyone away.

Blur the person, keep the picture.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from sfumato import datasets, methods, outputs, risk, sites, utility
    from sfumato.analysis.efficiency import efficiency
    from sfumato.analysis.explore import explore
    from sfumato.analysis.fit import fit
    from sfumato.analysis.model_comparison import compare_models
    from sfumato.data import Dataset, read, scan
    from sfumato.data.linked import LinkedTables, read_tables
    from sfumato.errors import SfumatoError
    from sfumato.evidence import Evidence
    from sfumato.figures import custodian as pictures
    from sfumato.figures import public as plots
    from sfumato.noise.description import (
        CodeNoise,
        CorrelatedGaussian,
        Gaussian,
        Laplace,
        Misclassification,
    )
    from sfumato.noise.scales import Growth, Scale
    from sfumato.outputs import tables
    from sfumato.plan import Plan
    from sfumato.randomness import Key
    from sfumato.release import Release
    from sfumato.risk import attacks as attackers
    from sfumato.run import assess, evaluate, protect
    from sfumato.run.tiers import TieredRelease, protect_tiers
    from sfumato.schema import Column, Schema
    from sfumato.storage.opened_tables import open_tables
    from sfumato.storage.opening import open_release
    from sfumato.suggestion.search import suggest_plans
    from sfumato.tuning.calibrate import calibrate
    from sfumato.tuning.plans import compare_plans
    from sfumato.tuning.search import tune
    from sfumato.tuning.sweep import sweep

# Names are found when they are first used, so that importing Sfumato costs next to nothing.
_HOMES = {
    "CodeNoise": "noise.description",
    "Column": "schema",
    "CorrelatedGaussian": "noise.description",
    "Dataset": "data",
    "Evidence": "evidence",
    "Gaussian": "noise.description",
    "Growth": "noise.scales",
    "Key": "randomness",
    "Laplace": "noise.description",
    "LinkedTables": "data.linked",
    "Misclassification": "noise.description",
    "Plan": "plan",
    "Release": "release",
    "Scale": "noise.scales",
    "Schema": "schema",
    "SfumatoError": "errors",
    "TieredRelease": "run.tiers",
    "assess": "run",
    "calibrate": "tuning.calibrate",
    "compare_models": "analysis.model_comparison",
    "compare_plans": "tuning.plans",
    "efficiency": "analysis.efficiency",
    "evaluate": "run",
    "explore": "analysis.explore",
    "fit": "analysis.fit",
    "open_release": "storage.opening",
    "open_tables": "storage.opened_tables",
    "protect": "run",
    "protect_tiers": "run.tiers",
    "read": "data",
    "read_tables": "data.linked",
    "scan": "data",
    "suggest_plans": "suggestion.search",
    "sweep": "tuning.sweep",
    "tune": "tuning.search",
}
_ROOMS = {
    "attackers": "risk.attacks",
    "datasets": "datasets",
    "hierarchies": "schema.hierarchies",
    "methods": "methods",
    "outputs": "outputs",
    "peering": "risk.protection",
    "pictures": "figures.custodian",
    "plots": "figures.public",
    "risk": "risk",
    "sites": "sites",
    "tables": "outputs.tables",
    "utility": "utility",
}

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
    "LinkedTables",
    "Misclassification",
    "Plan",
    "Release",
    "Scale",
    "Schema",
    "SfumatoError",
    "TieredRelease",
    "__version__",
    "assess",
    "attackers",
    "calibrate",
    "compare_models",
    "compare_plans",
    "datasets",
    "efficiency",
    "evaluate",
    "explore",
    "fit",
    "hierarchies",
    "methods",
    "open_release",
    "open_tables",
    "outputs",
    "peering",
    "pictures",
    "plots",
    "protect",
    "protect_tiers",
    "read",
    "read_tables",
    "risk",
    "scan",
    "sites",
    "suggest_plans",
    "sweep",
    "tables",
    "tune",
    "utility",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"sfumato.{_ROOMS[name]}")
    if name in _HOMES:
        return getattr(import_module(f"sfumato.{_HOMES[name]}"), name)
    msg = f"module 'sfumato' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
