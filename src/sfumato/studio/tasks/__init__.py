"""What the worker process does for the pages: one function a question, plain values in and out.

A task is found by its name. It gets a `Work`, which has the data and the plan of the session, and
parameters that are plain values; it returns plain values, which become JSON. It says how far it is
through `sfumato.progress`, like everything else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import PlanError
from sfumato.io.atomic import PRIVATE, create_file
from sfumato.plan import Plan
from sfumato.randomness import Key
from sfumato.studio.source import DataSource, parse_plan

if TYPE_CHECKING:
    from sfumato.data import Dataset
    from sfumato.data.linked import LinkedTables
    from sfumato.studio.worker import Workshop

KEY = "key"
"""The file in the folder of a session that holds the secret of its releases."""
Lane = Literal["quick", "slow"]
Depends = Literal["nothing", "source", "schema", "plan"]


@dataclass(frozen=True)
class Task:
    """A function that the worker process can be asked for.

    Parameters
    ----------
    function : gets a `Work` and parameters by name.
    lane : "quick" for what answers at once; "slow" for what may take long. Each lane works off one
        question after the other, so that a long one never holds up a short one.
    depends : on which part of the plan the answer depends: only on how the data are read, also on
        roles and kinds, or on all of it; on "nothing" of the session, not even on its data. As long
        as that stays the same, the answer is kept.
    keep : whether the answer may be kept on the disk. What shows single records, or writes
        something, is asked for each time.
    """

    function: Callable[..., Any]
    lane: Lane
    depends: Depends
    keep: bool

    @property
    def name(self) -> str:
        """What it is asked for by."""
        return self.function.__name__


def task(
    *, lane: Lane = "slow", depends: Depends = "plan", keep: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function one that the worker process can be asked for."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        function.studio_task = Task(function, lane, depends, keep)  # type: ignore[attr-defined]
        return function

    return mark


@cache
def list_tasks() -> Mapping[str, Task]:
    """All tasks by name, found in the files of this folder."""
    tasks: dict[str, Task] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            marked = getattr(value, "studio_task", None)
            if isinstance(marked, Task) and value.__module__ == module.__name__:
                tasks[marked.name] = marked
    return tasks


@dataclass(frozen=True)
class Work:
    """What a task works with.

    Parameters
    ----------
    workshop : what the worker process keeps between tasks.
    source : where the records come from.
    plan_text : the plan as it stands, as TOML; empty where there is none yet.
    folder : the private folder of the session.
    """

    workshop: Workshop
    source: DataSource
    plan_text: str
    folder: Path

    @cached_property
    def plan(self) -> Plan:
        """The plan as it stands."""
        plan = parse_plan(self.plan_text, linked=self.source.linked)
        if plan is None:
            raise PlanError(
                "The keys between these tables are not set yet.",
                hint="accept or correct the keys between them under Roles.",
            )
        return plan

    @property
    def table_plan(self) -> Plan:
        """The plan of a single table."""
        return self.plan.require_one_table()

    @cached_property
    def key(self) -> Key:
        """The secret of all that this session releases, made once."""
        path = self.folder / KEY
        with suppress(FileExistsError):  # the other lane may just have made it
            create_file(path, f"{Key.new().text}\n".encode(), mode=PRIVATE)
        return Key.of(path)

    @property
    def raw(self) -> Dataset:
        """The records of a single table as they were read, with what the file itself declares."""
        return self.workshop.read(self.source, dict(self.table_plan.read))

    @property
    def data(self) -> Dataset:
        """The records of a single table, with the roles of the plan."""
        return self.table_plan.declare(self.raw)

    @property
    def tables(self) -> Mapping[str, Dataset]:
        """The records of several tables, by name, as they were read."""
        plan = parse_plan(self.plan_text, linked=True)
        return self.workshop.read_several(self.source, plan)

    @property
    def joined(self) -> LinkedTables:
        """Several tables with the roles and keys of the plan, linked as an outsider could."""
        return self.workshop.link(self.source, self.plan)
