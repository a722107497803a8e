"""What rule books there are, and what each asks for."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding

from sfumato.cli import options
from sfumato.cli.console import out, show_json, show_table
from sfumato.plan.targets import read_targets
from sfumato.profiles import ACTIONS, Profile, Rule, list_profiles, load_profile


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: sfumato profiles ema-0070")(profiles)


def profiles(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
    json: options.Json = False,
) -> None:
    """List the profiles: rules of authorities and data centres that a release or output can meet.

    A profile goes into a plan, `profile = "ema-0070"`, or to a table or figure, `--profile sacro`.
    None of this is legal advice.
    """
    chosen = list_profiles() if name is None else {name: load_profile(name)}
    if json:
        show_json({label: _describe(profile) for label, profile in chosen.items()})
    elif name is None:
        rows = [(label, profile.title, _name_use(profile)) for label, profile in chosen.items()]
        show_table("Profiles", ["name", "what it is", "for"], rows)
    else:
        _show(chosen[name])


def _name_use(profile: Profile) -> str:
    return "tables and figures" if profile.outputs else "files of records"


def _describe(profile: Profile) -> dict[str, Any]:
    return {
        **{key: getattr(profile, key) for key in ("title", "issuer", "edition", "source", "read")},
        "applies": profile.applies,
        "for": _name_use(profile),
        "rules": [
            {
                "name": rule.name,
                "title": rule.title,
                "text": rule.text,
                "target": rule.target,
                "bound_by": rule.bound_by,
                "attacks": rule.attacks,
                "outputs": {key: profile.outputs[key] for key in rule.outputs},
                "asks": rule.asks,
            }
            for rule in profile.rules
        ],
        "outputs": profile.outputs,
        "identifiers": [vars(identifier) for identifier in profile.identifiers],
        "silent": profile.silent,
    }


def _show(profile: Profile) -> None:
    out.print(profile.title, style="bold", markup=False)
    _print_below(f"{profile.issuer}. {profile.edition}.")
    _print_below(profile.source)
    _print_below(profile.read)
    _print_below(f"Applies to: {profile.applies}")
    for rule in profile.rules:
        out.print(f"\n{rule.title}", style="bold", markup=False)
        _print_below(rule.text)
        for line in _list_checks(rule, profile):
            _print_below(line)
    if profile.identifiers:
        rows = [(item.name, item.title, ACTIONS[item.action]) for item in profile.identifiers]
        out.print()
        show_table("Identifiers", ["", "what", "what is done"], rows)
    out.print("\nWhat it does not say", style="bold", markup=False)
    for line in profile.silent:
        _print_below(line)
    out.print("\nIn a plan" if not profile.outputs else "\nFor a table", style="bold", markup=False)
    how = f'profile = "{profile.name}"'
    if profile.outputs:
        how = f"sfumato table FILE --rows NAME --profile {profile.name}"
    _print_below(how)


def _list_checks(rule: Rule, profile: Profile) -> list[str]:
    """How a rule is checked, in words."""
    lines = []
    if rule.target:
        whose = "" if rule.bound_by == "rule" else " (the limit is Sfumato's; the rule has none)"
        lines.append(f"Target: {read_targets(rule.target)[0].describe()}{whose}.")
    if rule.attacks:
        decide = ", and decides" if rule.judged_by_attacks else ""
        lines.append(f"Tried: {', '.join(rule.attacks)}{decide}.")
    if rule.outputs:
        settings = ", ".join(f"{key} = {profile.outputs[key]}" for key in rule.outputs)
        lines.append(f"In tables and figures: {settings}.")
    return [*lines, *([f"A person: {rule.asks}"] if rule.asks else [])]


def _print_below(text: str) -> None:
    out.print(Padding(escape(text), (0, 0, 0, 2), expand=False))
