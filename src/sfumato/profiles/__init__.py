"""Rules that people must meet: one TOML file each, with its source and what it does not say."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import Field

from sfumato.errors import PlanError, did_you_mean
from sfumato.parameters import parameters

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Bounds = dict[str, Annotated[dict[Literal["min", "max"], float], Field(min_length=1, max_length=1)]]
Action = Literal["drop", "zip3", "years", "ages"]
ACTIONS: dict[Action, str] = {
    "drop": "left out",
    "zip3": "three digits where more than 20,000 people live, else 000",
    "years": "only the year is kept",
    "ages": "90 and over become 90",
}
"""What is done to an identifier, in words."""
_SUFFIX = ".toml"


@parameters
class Rule:
    """One rule of a profile, and how it is checked.

    Parameters
    ----------
    name : a short name.
    title : what it is about.
    text : the rule in words.
    sentence : what the board is told, with `{number}` for what was measured.
    target : the bound that a release must keep, as in a plan: `{ k = { min = 12 } }`.
    shows : a number that is reported without any bound.
    bound_by : whose bound it is: the rule's own, or Sfumato's reading of a rule without a number.
    attacks : the attacks that are reported with it.
    judged_by_attacks : whether these decide, by the limits of Sfumato.
    outputs : the settings of `Rules` that keep it in tables and figures.
    asks : what a person must still do or decide.
    """

    name: Text
    title: Text
    text: Text
    sentence: Text
    target: Annotated[Bounds, Field(max_length=1)] = field(default_factory=dict)
    shows: str = ""
    bound_by: Literal["rule", "sfumato"] = "rule"
    attacks: list[str] = field(default_factory=list)
    judged_by_attacks: bool = False
    outputs: list[str] = field(default_factory=list)
    asks: str = ""


@parameters
class Identifier:
    """One kind of identifier that a profile lists, by what it is recognised, and what is done.

    Parameters
    ----------
    name : as the rule counts it, such as "B".
    title : what it is.
    rule : the rule of the profile that asks for it.
    action : "drop" it; keep the "zip3", the first three digits of a US postcode; keep the "years"
        of dates; or put "ages" of 90 and over into one category.
    signs : what names of variables speak of, as `sfumato inspect` says it.
    formats : what values look like, as `sfumato inspect` says it.
    """

    name: Text
    title: Text
    rule: Literal["names", "places", "dates", "ages"]
    action: Action
    signs: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)


@parameters
class Profile:
    """A rule book: what must hold of a release or an output, by whom, and what it leaves open.

    Parameters
    ----------
    name : as it stands in a plan, `profile = "ema-0070"`.
    title : what it is called.
    issuer : who made the rule.
    edition : which version of it.
    source : where it is found.
    read : whether the original could be read when this file was written, and what was read.
    applies : to whom and to what it applies.
    silent : what it does not say.
    rules : what it asks for.
    evaluate : measures to take, as in a plan.
    outputs : settings of `sf.outputs.Rules` for tables and figures.
    identifiers : the identifiers it lists.

    Examples
    --------
    >>> load_profile("ema-0070").targets
    {'prosecutor': {'max': 0.09}, 'k': {'min': 12.0}}
    """

    name: Text
    title: Text
    issuer: Text
    edition: Text
    source: Text
    read: Text
    applies: Text
    silent: Annotated[list[Text], Field(min_length=1)]
    rules: Annotated[list[Rule], Field(min_length=1)]
    evaluate: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    identifiers: list[Identifier] = field(default_factory=list)

    @property
    def targets(self) -> dict[str, dict[str, float]]:
        """The bounds of all rules, as in a plan."""
        return {
            name: {str(end): number for end, number in ends.items()}
            for rule in self.rules
            for name, ends in rule.target.items()
        }

    def find_rule(self, target: str) -> Rule | None:
        """The rule that a target comes from."""
        return next((rule for rule in self.rules if target in rule.target), None)


@cache
def list_profiles() -> Mapping[str, Profile]:
    """Every profile by its name: each TOML file in this folder is one."""
    found = [path for path in files(__name__).iterdir() if path.name.endswith(_SUFFIX)]
    named = {path.name.removesuffix(_SUFFIX): path for path in found}
    return {name: _parse(name, named[name].read_text("utf-8")) for name in sorted(named)}


def load_profile(name: str) -> Profile:
    """A profile by its name."""
    known = list_profiles()
    if name not in known:
        begin = [other for other in known if other.startswith(name) and name]
        several = len(begin) > 1
        hint = f"choose one of {', '.join(begin)}." if several else did_you_mean(name, known)
        raise PlanError(f"There is no profile '{name}'.", hint=hint)
    return known[name]


def _parse(name: str, text: str) -> Profile:
    return Profile(name=name, **tomllib.loads(text))
