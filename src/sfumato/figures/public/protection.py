"""How a plot is protected: the four ways of paper 003, or a method of your own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from sfumato.errors import PlanError, did_you_mean
from sfumato.method import Method
from sfumato.outputs.output import OutputRefused
from sfumato.parameters import list_settings
from sfumato.randomness import Key

if TYPE_CHECKING:
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

Named = Literal["suppress", "generalise", "deterministic", "mahalanobis", "noise", "growing_noise"]
NOISY = ("noise", "growing_noise")
Protecting = Named | Method
Keyed = Key | bytes | str | None
Small = Literal["hide", "show"]
_CELLS = ("suppress", "generalise")
_NO_KEY = (
    "Without a key the noise is new each time; several drawings could be averaged (pass key=…)."
)


@dataclass(frozen=True, kw_only=True)
class Protection:
    """One protection of one plot, checked against the house rules.

    Parameters
    ----------
    name : "suppress", "generalise", "deterministic", "noise", or the name of a method.
        "mahalanobis" is "deterministic" with neighbours by a distance that takes out correlation;
        "growing_noise" is "noise" that grows with the distance from the middle.
    k : fewest records behind anything drawn, and how many share in a centre.
    sd_share : SD of the noise as a share of the variable's; of a method, what the house asks of
        noise at least.
    key : the custodian's secret; the same key repeats the noise.
    method : a method of the user's own.
    reason : why it was chosen, a sentence for the caption; empty when it was asked for.
    concerns : why somebody should have a second look.
    wording : what it does in this plot, where the usual sentence does not fit.
    unit : what k counts: "records", "persons" or "groups".
    """

    name: str
    k: int = 3
    sd_share: float = 0.25
    key: Key | None = field(default=None, repr=False)
    method: Method | None = field(default=None, repr=False)
    reason: str = ""
    concerns: tuple[str, ...] = ()
    wording: str = ""
    unit: str = "records"

    @property
    def cells(self) -> bool:
        """Whether it shows the original's cells with at least k records, rather than new values."""
        return self.name in _CELLS

    def sentence(self) -> str:
        """What it does, in words."""
        if self.wording:
            return self.wording
        if self.method is not None:
            return f"Every value is protected by the method '{self.name}'."
        return {
            "suppress": f"Cells with fewer than {self.k} {self.unit} are hidden.",
            "generalise": f"Cells are wide, and those with fewer than {self.k} {self.unit} are "
            "hidden.",
            "deterministic": f"Every value is the centre of {self.k} neighbouring {self.unit}.",
            "mahalanobis": f"Every value is the centre of {self.k} neighbouring {self.unit}, by "
            "the distance of Mahalanobis.",
            "noise": "Every value has random noise, its standard deviation "
            f"{100 * self.sd_share:g} % of the variable's.",
            "growing_noise": "Every value has random noise, its standard deviation "
            f"{100 * self.sd_share:g} % of the variable's in the middle, and more the farther out.",
        }[self.name]

    def with_wording(self, sentences: Mapping[str, str]) -> Protection:
        """The same, described by the sentence for its name where there is one."""
        sentence = sentences.get(self.name, "").format(k=self.k, unit=self.unit)
        return replace(self, wording=sentence or self.wording)

    def rule(self) -> dict[str, Any]:
        """The protection and its parameters, for the log. Never the key."""
        rule: dict[str, Any] = {"protection": self.name, "k": self.k}
        if self.unit != "records":
            rule["unit"] = self.unit
        if self.name in NOISY and self.method is None:
            rule["sd_share"] = self.sd_share
        if self.method is not None:
            rule["method"] = {"method": self.method.name, **list_settings(self.method)}
        return rule


def resolve_rules(rules: Rules | None, log: Log | None, k: int | None) -> tuple[Rules, int]:
    """The rules given, or else those the log was begun with; and k, by default theirs."""
    from sfumato.outputs.log import Log as LogOfOutputs
    from sfumato.outputs.rules import Rules as HouseRules

    if log is not None and not isinstance(log, LogOfOutputs):
        raise PlanError("log must be a Log.", hint="for instance log=sf.outputs.Log('outputs').")
    house = log.rules if rules is None and log is not None else rules
    if house is not None and not isinstance(house, HouseRules):
        raise PlanError("rules must be Rules.", hint="sf.outputs.Rules.load('rules.toml').")
    house = HouseRules() if house is None else house
    return house, house.k if k is None else k


def resolve_protection(  # noqa: PLR0913 - all but one by name only
    protection: Protecting | None,
    *,
    default: Named,
    why: str,
    records: int,
    k: int,
    sd_share: float,
    key: Keyed,
    rules: Rules,
    unit: str = "records",
) -> Protection:
    """The protection asked for, or the default, checked against the house rules.

    Parameters
    ----------
    protection : what was asked for; None leaves it to the plot.
    default : what this plot takes then.
    why : the reason for that, a sentence for the caption.
    records : how many records, or units, the smallest group has.
    k : fewest records behind anything drawn.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret.
    rules : the house rules.
    unit : what k counts.
    """
    _check_k(k, records, rules)
    if isinstance(protection, Method):
        concern = f"The method '{protection.name}' was chosen by hand; no house rule covers it."
        resolved = Protection(name=protection.name, k=k, sd_share=rules.noise, method=protection,
                              concerns=(concern,), unit=unit)  # fmt: skip
        return _with_key(resolved, key) if protection.keyed else resolved
    name = default if protection is None else _check_name(protection)
    resolved = Protection(
        name=name, k=k, sd_share=sd_share, reason=why if protection is None else "", unit=unit
    )
    if name not in NOISY:
        return resolved
    if isinstance(sd_share, bool) or not isinstance(sd_share, (int, float)):
        raise PlanError("sd_share is a number.", hint=f"for instance sd_share={rules.noise:g}.")
    if not sd_share >= rules.noise:
        raise OutputRefused(
            "The noise is less than the house rules ask for.",
            hint=f"sd_share must be at least {rules.noise:g}.",
        )
    return _with_key(resolved, key)


def _with_key(protection: Protection, key: Keyed) -> Protection:
    concerns = protection.concerns if key is not None else (*protection.concerns, _NO_KEY)
    return replace(protection, key=Key.of(key), concerns=concerns)


def _check_name(name: Any) -> Named:
    if name not in get_args(Named):
        raise PlanError(
            "This protection is not known.",
            hint=did_you_mean(str(name), get_args(Named)),
        )
    return cast("Named", name)


def _check_k(k: int, records: int, rules: Rules) -> None:
    most = records - rules.k
    if isinstance(k, bool) or not isinstance(k, int):
        raise PlanError("k is a whole number.", hint=f"for instance k={rules.k}.")
    if rules.k <= k <= most:
        return
    allowed = "none with so few records"
    if most >= rules.k:
        # The exact upper end would tell the exact number of records.
        step = 5 if most >= rules.k + 5 else 1
        allowed = f"from {rules.k} to {max(rules.k, most // step * step)}"
    raise OutputRefused(
        f"k = {k} is out of the range that the house rules allow for these records.",
        hint=f"allowed: {allowed}.",
    )


def judge_small_cells(small: Small, protection: Protection) -> tuple[str, ...]:
    """Why showing small cells asks for a second look; refused where the cells are original."""
    if small not in ("hide", "show"):
        raise PlanError('small is "hide" or "show".')
    if small == "hide":
        return ()
    if protection.cells:
        raise OutputRefused(
            f"Cells of fewer than {protection.k} original records are never shown.",
            hint='leave small="hide", or take protection="deterministic" or "noise".',
        )
    return (f"Cells of fewer than {protection.k} protected values are shown.",)


def judge_full_cells(counts: Iterable[Any], rules: Rules) -> tuple[str, ...]:
    """Why a group whose records all lie in one cell needs a second look: it shows their value."""
    if rules.full == "show" or all(np.count_nonzero(cells) > 1 for cells in counts):
        return ()
    what = "All records that are shown, or all of one group, lie in one cell."
    if rules.full == "hide":
        raise OutputRefused(what, hint="take narrower cells, or other groups.")
    return (what,)
