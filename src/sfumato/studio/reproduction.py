"""How a release is made again without the studio: at the command line, and in Python."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from sfumato.plan import Plan
from sfumato.studio.source import DataSource

PLAN = "plan.toml"
"""What the plan is called when it is downloaded."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that a release follows from.

    Parameters
    ----------
    source, plan : of the session.
    key : the file with the session's secret.
    to : where the release goes.
    ledger : whether earlier releases are looked up in the ledger.
    overwrite : whether an earlier release is replaced.
    """

    source: DataSource
    plan: Plan
    key: Path
    to: Path
    ledger: bool = True
    overwrite: bool = False

    @property
    def where(self) -> str:
        """The file, the folder or the database; without the password of a database."""
        return self.source.title if "://" in self.source.where else self.source.where

    def write_command(self) -> str:
        """The command line that writes the same release."""
        words = ["sfumato", "protect", self.where, "--plan", PLAN, "--out", str(self.to),
                 "--key", str(self.key)]  # fmt: skip
        for flag, value in (("--table", self.source.table), ("--query", self.source.query)):
            words += [flag, value] if value else []
        words += [] if self.ledger else ["--no-ledger"]
        words += ["--overwrite"] if self.overwrite else []
        return shlex.join(words)

    def write_script(self) -> str:
        """The Python script that writes the same release."""
        options = "" if self.ledger else ", ledger=False"
        options += ", overwrite=True" if self.overwrite else ""
        verb = "protect_tiers" if self.plan.tiers else "protect"
        lines = [
            "from pathlib import Path",
            "",
            "import sfumato as sf",
            "",
            f"plan = sf.Plan.load({PLAN!r})",
            *self._write_reading(),
            f"release = sf.{verb}(data, plan, key=Path({str(self.key)!r}))",
            f"release.write({str(self.to)!r}{options})",
        ]
        return "\n".join(lines) + "\n"

    def _write_reading(self) -> list[str]:
        table, query = self.source.table, self.source.query
        if not self.plan.tables:
            named = "".join(f", {name}={value!r}" for name, value in
                            (("table", table), ("query", query)) if value)  # fmt: skip
            return [f"data = sf.read({self.where!r}, **plan.read{named})"]
        schema = "" if table is None else f"    schema={table.removesuffix('.*')!r},\n"
        return [
            "data = sf.read_tables(",
            f"    {self.where!r},",
            "    files=plan.files,",
            "    tables=list(plan.tables),",
            "    options={name: own.read for name, own in plan.tables.items()},",
            f"{schema})",
        ]
