"""Write what is installed beside the command: its man page, and completions for three shells.

    .venv/bin/python -m tools.manual

They are committed under packaging/, so that a wheel is built without running Sfumato, and
`tests/e2e/test_packaging.py` says when they are out of date.
"""

from __future__ import annotations

from pathlib import Path

from typer.completion import get_completion_script  # type: ignore[attr-defined]

from sfumato.cli.app import GROUPS

FOLDER = Path(__file__).parent.parent / "packaging"
SHELLS = {"bash": "sfumato", "zsh": "_sfumato", "fish": "sfumato.fish"}
_EXIT_CODES = {
    "0": "done",
    "1": "a bug in Sfumato",
    "2": "the input or the plan cannot be used",
    "3": "a target was missed or a house rule broken, and nothing is released",
    "4": "a release is not what it says, or cannot be written",
    "130": "interrupted; nothing was left half-written",
}


def write_man_page() -> str:
    """The page of `man sfumato`: the commands by what one wants to do."""
    lines = [
        '.TH SFUMATO 1 "" "Sfumato" "User Commands"',
        ".SH NAME",
        r"sfumato \- share sensitive microdata without giving anyone away",
        ".SH SYNOPSIS",
        r".B sfumato",
        r".I COMMAND",
        r"[\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        "Sfumato measures who could be singled out in a file of records about people, protects",
        "them by a plan, attacks the result, and writes a release folder with data, report and",
        "codebook. What must stay with the custodian is in its folder custody.",
        r"\fBsfumato COMMAND \-\-help\fR explains a command.",
    ]
    for group, commands in GROUPS.items():
        lines.append(f".SH {group.upper()}")
        for name, (_, about) in commands.items():
            lines += [".TP", f".B {name}", about.replace("-", r"\-")]
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXIT_CODES.items():
        lines += [".TP", f".B {code}", meaning.replace("-", r"\-")]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        ".B SFUMATO_LEDGER",
        "The folder of the ledger of releases.",
        ".TP",
        ".B SFUMATO_DEBUG",
        "Show where an unexpected error comes from. This may show values of the data.",
        ".SH EXAMPLE",
        ".nf",
        r"sfumato inspect cohort.csv \-\-plan plan.toml",
        r"sfumato protect cohort.csv \-\-plan plan.toml \-\-out release",
        r"sfumato verify release \-\-original cohort.csv",
        ".fi",
    ]
    return "\n".join(lines) + "\n"


def write_completion(shell: str) -> str:
    """The script that completes `sfumato` in a shell; it asks the installed version."""
    script: str = get_completion_script(
        prog_name="sfumato", complete_var="_SFUMATO_COMPLETE", shell=shell
    )
    return f"{script.rstrip()}\n"


def list_files() -> dict[Path, str]:
    """Every file with its content."""
    completions = {FOLDER / name: write_completion(shell) for shell, name in SHELLS.items()}
    return {FOLDER / "sfumato.1": write_man_page(), **completions}


def main() -> None:
    """Write all of them."""
    for path, content in list_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, "utf-8")
        print(path)


if __name__ == "__main__":
    main()
