"""The reference pages that follow from the code: methods, measures, profiles, commands, classes.

Run by mkdocs-gen-files while the site is built. A new file in `methods/` or `risk/` gets its page
here without a change.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import mkdocs_gen_files
import typer

import sfumato
from sfumato import catalogue
from sfumato.cli.app import GROUPS, app
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.profiles import ACTIONS, Profile, Rule, list_profiles

ROOT = Path(__file__).parents[1]
_ROOMS = {
    "Data to try things on: sf.datasets": sfumato.datasets,
    "Figures that may be released: sf.plots": sfumato.plots,
    "Tables that may be released: sf.tables": sfumato.tables,
    "Rules and log of outputs: sf.outputs": sfumato.outputs,
    "Several sites without pooling: sf.sites": sfumato.sites,
    "Attacks: sf.attackers": sfumato.attackers,
    "Peers: sf.peering": sfumato.peering,
    "Hierarchies: sf.hierarchies": sfumato.hierarchies,
    "Pictures of evidence: sf.pictures": sfumato.pictures,
}
_GENERATED = {"Commands", "Classes", "Methods", "Measures", "Profiles"}
_CLASSES = {
    "Data": {
        "Dataset": "data",
        "Schema": "schema",
        "Column": "schema",
        "LinkedTables": "data.linked",
    },
    "Plans": {
        "Plan": "plan",
        "Target": "plan.targets",
        "Writing": "plan",
    },
    "What was measured": {
        "Evidence": "evidence",
        "Judgement": "plan.targets",
        "Lights": "run.lights",
        "Light": "run.lights",
        "Dossier": "run.dossier",
        "Check": "storage.verifying",
    },
    "Releases": {
        "Release": "release",
        "LinkedRelease": "run.tables",
        "TieredRelease": "run.tiers",
        "Key": "randomness",
        "Tuned": "tuning.result",
    },
    "Noise and models": {
        "Gaussian": "noise.description",
        "Laplace": "noise.description",
        "CorrelatedGaussian": "noise.description",
        "CodeNoise": "noise.description",
        "Misclassification": "noise.description",
        "Growth": "noise.scales",
        "Scale": "noise.scales",
        "Fit": "analysis.result",
    },
    "Outputs": {
        "Rules": "outputs.rules",
        "Log": "outputs.log",
        "Table": "outputs.tables.table",
        "Plot": "figures.public.plot",
    },
    "Errors": {"SfumatoError": "errors"},
}
"""Each class that a reader holds in hand, by what it is about, and where it lives."""
_SECTION = re.compile(r"\n(Parameters|Examples)\n-{3,}\n")


def put(path: str, lines: Iterable[str]) -> None:
    """Add a page to the site."""
    with mkdocs_gen_files.open(path, "w") as page:
        page.write("\n".join(lines) + "\n")


def table(head: list[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """A Markdown table; the signs that would break it are escaped."""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    for row in rows:
        yield "| " + " | ".join(_cell(one) for one in row) + " |"
    yield ""


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def said(entry: catalogue.Entry) -> Iterator[str]:
    """The prose of a docstring: first line, question, assumption, and what else it says."""
    text = _SECTION.split(inspect.getdoc(entry) or "")[0].strip()
    for part in re.split(r"\n\n", text):
        for line in re.split(r"\n(?=(?:Question|Assumes):)", part):
            words = " ".join(line.split())
            yield re.sub(r"^(Question|Assumes): ?(\w)", _headed, words)
            yield ""


def _headed(found: re.Match[str]) -> str:
    return f"**{found[1]}.** {found[2].upper()}"


def example(entry: catalogue.Entry) -> Iterator[str]:
    """The example of a docstring as a Python session."""
    _, _, after = (inspect.getdoc(entry) or "").partition("Examples\n--------\n")
    session = after.partition("\n\nReferences:")[0].strip()
    if session:
        yield from ("## In Python", "", "```pycon", session, "```", "")


def references(entry: catalogue.Entry) -> Iterator[str]:
    """Where it comes from."""
    _, _, after = (inspect.getdoc(entry) or "").partition("References:")
    if after:
        yield from ("## References", "", " ".join(after.split()), "")


def parameters(entry: catalogue.Entry) -> Iterator[str]:
    """What may be set, from the fields and the docstring."""
    yield from ("## Parameters", "")
    rows = [
        (
            f"`{one.name}`",
            _typed(one.type),
            "must be given" if one.required else _default(one.default),
            one.help,
        )
        for one in catalogue.parameters_of(entry)
    ]
    yield from table(["name", "type", "default", "meaning"], rows)


def _typed(text: str) -> str:
    words = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}
    text = text.replace("list[float | dt.date", "list of numbers or dates")
    text = words.get(text, text)
    return re.sub(r"'([^']*)'", r"`\1`", text.replace(", '", " or '"))


def _default(value: Any) -> str:
    if value is None:
        return "not set"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def snippets(entry: catalogue.Entry) -> Iterator[str]:
    """How it stands in a plan, from the examples that the tests run on the bundled cohort."""
    yield from ("## In a plan", "", "Each of these runs on the bundled cohort.", "")
    for given in entry.examples:
        if issubclass(entry, Method):
            text = Plan(steps=[entry(**given)]).text()
            part = text[text.index("[[steps]]") : text.index("[release]")]
        else:
            text = Plan(evaluate={entry.name: entry(**given)}).text()
            # What the data are for has a section of its own.
            first = "[purpose]" if "[purpose]" in text else "[evaluate"
            part = text[text.index(first) : text.index("[release]")]
        yield from ("```toml", part.strip(), "```", "")


def entry_page(entry: catalogue.Entry) -> Iterator[str]:
    """The page of one method or measure."""
    yield from (f"# {entry.name}", "", *said(entry), *parameters(entry), *snippets(entry))
    if issubclass(entry, Measure):
        yield from target_names(entry)
    elif entry.keyed:
        yield from ("Its result depends on the key.", "")
    if more := entry.runs_on[1:]:
        yield from (f"It also runs on {' and '.join(more)}, with the same result.", "")
    yield from example(entry)
    yield from references(entry)


def target_names(entry: type[Measure]) -> Iterator[str]:
    """The numbers a target may be set on."""
    better = "A lower" if entry.direction == "lower" else "A higher"
    names = ", ".join(f"`{name}`" for name in [number.name for number in entry.numbers])
    yield from ("## Numbers for targets", "")
    yield f"A target may be set on {names}. {better} value of `{entry.name}` is better."
    yield ""


def room(folder: str, title: str, entries: Mapping[str, catalogue.Entry], lead: str) -> list[Any]:
    """The pages of all methods or of all measures; what the navigation shows of them."""
    rows = [
        (f"[{name}]({name}.md)", catalogue.first_line(entry), ", ".join(entry.runs_on[1:]))
        for name, entry in entries.items()
    ]
    index = f"reference/{folder}/index.md"
    put(index, [f"# {title}", "", lead, "", *table(["name", "what it does", "also runs on"], rows)])
    pages: list[Any] = [{"All": index}]
    for name, entry in entries.items():
        put(f"reference/{folder}/{name}.md", entry_page(entry))
        pages.append({name: f"reference/{folder}/{name}.md"})
    return [{title: pages}]


def profile_pages() -> list[Any]:
    """A page for each profile; what the navigation shows of them."""
    entries = list_profiles()
    rows = [
        (
            f"[{name}]({name}.md)",
            one.title,
            "tables, figures" if one.outputs else "files of records",
        )
        for name, one in entries.items()
    ]
    index = "reference/profiles/index.md"
    lead = (
        "A profile holds the rules of an authority or a data centre. Take one with "
        '`profile = "NAME"` in a plan, or `--profile NAME` for a table or figure: '
        "[how to](../../how-to/meet-a-rule.md). None of this is legal advice."
    )
    put(index, ["# Profiles", "", lead, "", *table(["name", "what it is", "for"], rows)])
    pages: list[Any] = [{"All": index}]
    for name, one in entries.items():
        put(f"reference/profiles/{name}.md", profile_page(one))
        pages.append({name: f"reference/profiles/{name}.md"})
    return [{"Profiles": pages}]


def profile_page(profile: Profile) -> Iterator[str]:
    """What a profile asks for, where it comes from, and what it does not say."""
    yield from (f"# {profile.name}", "", f"**{profile.title}.** {profile.applies}", "")
    yield from (f"- Who: {profile.issuer}", f"- Edition: {profile.edition}")
    yield from (f"- Source: <{profile.source}>", f"- Was it read? {_link(profile.read)}", "")
    yield from ("## Rules", "")
    rows = [
        (rule.title, rule.text, "; ".join(_checks(rule, profile)), rule.asks)
        for rule in profile.rules
    ]
    yield from table(["", "the rule", "how it is checked", "for a person"], rows)
    if profile.identifiers:
        found = [(one.name, one.title, ACTIONS[one.action]) for one in profile.identifiers]
        yield from ("## Identifiers", "", *table(["", "what", "what is done"], found))
    if profile.outputs:
        settings = [(f"`{key}`", f"`{value}`") for key, value in profile.outputs.items()]
        yield from ("## Rules for outputs", "", *table(["setting", "value"], settings))
        yield from ("What is not listed keeps [its default](../python.md).", "")
    yield from ("## What it does not say", "", *(f"- {line}" for line in profile.silent), "")
    yield from ("None of this is legal advice.", "")


def _link(text: str) -> str:
    return re.sub(r"https?://[^\s)]+", lambda found: f"<{found[0]}>", text)


def _checks(rule: Rule, profile: Profile) -> Iterator[str]:
    for name, ends in rule.target.items():
        for end, number in ends.items():
            whose = "" if rule.bound_by == "rule" else " (Sfumato's limit)"
            yield f"`{name}.{end} = {number:g}`{whose}"
    if rule.attacks:
        links = ", ".join(f"[{name}](../measures/{name}.md)" for name in rule.attacks)
        yield f"attack: {links}{', which decides' if rule.judged_by_attacks else ''}"
    yield from (f"`{key} = {profile.outputs[key]}`" for key in rule.outputs)


def command_pages() -> list[Any]:
    """A page for each command; what the navigation shows of them."""
    main: Any = typer.main.get_command(app)
    put("reference/command-line.md", command_index(main.help))
    pages: list[Any] = []
    for name in main.list_commands(None):
        put(f"reference/commands/{name}.md", command_page(name, main.get_command(None, name)))
        pages.append({name: f"reference/commands/{name}.md"})
    return [{"Commands": pages}]


def command_index(lead: str) -> Iterator[str]:
    """All commands, by what they are for."""
    yield from ("# Command line", "", lead, "")
    yield "Results go to standard output, messages to standard error. With `--json`, standard "
    yield "output holds one JSON document and nothing else. See also the "
    yield from ("[exit codes](exit-codes.md).", "")
    for group, commands in GROUPS.items():
        rows = [
            (f"[sfumato {name}](commands/{name}.md)", what) for name, (_, what) in commands.items()
        ]
        yield from (f"## {group}", "", *table(["command", "what it does"], rows))


def command_page(name: str, command: Any) -> Iterator[str]:
    """A command with its arguments and options, from the application itself."""
    yield from (f"# sfumato {name}", "", *inspect.cleandoc(command.help).split("\n"), "")
    shown = [one for one in command.params if one.name != "help"]
    arguments = [one for one in shown if one.param_type_name == "argument"]
    words = " ".join(
        one.name.upper() if one.required else f"[{one.name.upper()}]" for one in arguments
    )
    yield from ("```text", f"sfumato {name} [OPTIONS] {words}".strip(), "```", "")
    rows = [(f"`{one.name.upper()}`", _need(one), one.help) for one in arguments] + [
        (_flags(one), _need(one), one.help) for one in shown if one not in arguments
    ]
    yield from table(["argument or option", "default", "meaning"], rows)
    yield from (f"{command.epilog}".replace("Example: ", "Example: `") + "`", "")


def _flags(one: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in (*one.opts, *one.secondary_opts))


def _need(one: Any) -> str:
    if one.required:
        return "must be given"
    if one.default in (None, "") or isinstance(one.default, bool):
        return ""
    return f"`{one.default}`"


_VERBS = ("read", "assess", "protect", "evaluate", "sweep")


def class_pages() -> list[Any]:
    """A page for each class, with its example; what the navigation shows of them."""
    index = "reference/classes/index.md"
    lines = ["# Classes", "", "What the functions of Sfumato take and return. Nobody changes one: "]
    lines += [
        "every step gives a new one. The functions are on the page [Python](../python.md).",
        "",
    ]
    pages: list[Any] = [{"All": index}]
    for title, homes in _CLASSES.items():
        rows = []
        for name, home in homes.items():
            entry = getattr(import_module(f"sfumato.{home}"), name)
            rows.append((f"[{name}]({name}.md)", catalogue.first_line(entry)))
            put(f"reference/classes/{name}.md", class_page(name, home))
            pages.append({name: f"reference/classes/{name}.md"})
        lines += [f"## {title}", "", *table(["class", "what it is"], rows)]
    put(index, lines)
    return [{"Classes": pages}]


def class_page(name: str, home: str) -> Iterator[str]:
    """A class with its parameters, its example and its members, from the docstrings."""
    place = f"`sf.{name}`" if name in sfumato.__all__ else f"`sfumato.{home}.{name}`"
    yield from (f"# {name}", "", f"In Python: {place}. [All classes](index.md).", "")
    yield from (f"::: sfumato.{home}.{name}", "    options:", "      heading_level: 2")
    yield from ("      show_root_heading: false", "      show_root_toc_entry: false", "")


def python_names() -> Iterator[str]:
    """The public functions, each from its docstring; classes have pages of their own."""
    homes = sfumato._HOMES  # noqa: SLF001 - where each public name lives, written down once
    listed = {name for names in _CLASSES.values() for name in names}
    if forgotten := [name for name in homes if name[0].isupper() and name not in listed]:
        message = f"These classes have no page: {forgotten}"
        raise ValueError(message)
    rest = tuple(name for name in homes if name not in (*_VERBS, *listed))
    yield from ("# Python", "", "All public names are those of `import sfumato as sf`. ")
    yield "Anything else may move without notice. Methods and measures have "
    yield "[pages](methods/index.md) [of their own](measures/index.md): `sf.methods.Coarsen` is "
    yield from ("`coarsen`, `sf.risk.Uniqueness` is `uniqueness`.", "")
    yield from (
        "Classes such as `sf.Dataset` and `sf.Plan` have [pages](classes/index.md), too.",
        "",
    )
    for title, names in {"Verbs": _VERBS, "More": rest}.items():
        yield from (f"## {title}", "")
        for name in names:
            yield from (f"::: sfumato.{homes[name]}.{name}", "    options:")
            yield from ("      heading_level: 3", "")
    for title, room in _ROOMS.items():
        yield from (f"## {title}", "")
        for name in _public(room):
            if any(name in names for names in _CLASSES.values()):
                continue
            home = getattr(getattr(room, name), "__module__", "")
            if home.startswith("sfumato."):  # an alias of a type has no page of its own
                yield from (f"::: {home}.{name}", "    options:", "      heading_level: 3", "")


def _public(room: Any) -> list[str]:
    """The names of a room, or of a module all that it defines itself."""
    told = getattr(room, "__all__", None) or [
        name
        for name, one in vars(room).items()
        if not name.startswith("_")
        and callable(one)
        and getattr(one, "__module__", "") == room.__name__
    ]
    return sorted(told)


def project_pages() -> None:
    """The pages about the project stand at its root, where people look for them."""
    for name in ("changelog", "contributing", "security"):
        text = (ROOT / f"{name.upper()}.md").read_text("utf-8")
        put(f"project/{name}.md", [text])


def main() -> None:
    """Make all pages, and hang commands, methods, measures and profiles into the navigation."""
    put("reference/python.md", python_names())
    project_pages()
    added = command_pages() + class_pages()
    added += room(
        "methods",
        "Methods",
        catalogue.methods(),
        "A method changes some variables and never measures. All others stay as they are.",
    ) + room(
        "measures",
        "Measures",
        catalogue.measures(),
        "A measure answers one question about the data, and never changes them.",
    )
    added += profile_pages()
    nav: Any = mkdocs_gen_files.config["nav"]
    reference = next(one["Reference"] for one in nav if "Reference" in one)
    # The site is built again and again by `mkdocs serve`, always with the same configuration.
    reference[:] = [one for one in reference if not _GENERATED & set(one)] + added


main()
