"""The worker process of a session: it has the records, and does what pages ask for.

It reads requests from its standard input and answers on its standard output, a line of JSON each,
and ends when its input ends. Whatever else the libraries print goes nowhere: it could quote a cell.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock, RLock, Thread, get_ident
from typing import Any, TextIO

from sfumato.data import Dataset, read, scan
from sfumato.data.linked import LinkedTables, read_tables
from sfumato.errors import SfumatoError, locate
from sfumato.io.atomic import FileLog, log_files
from sfumato.io.scanning import is_large
from sfumato.plan import Plan
from sfumato.progress import Cancelled, Token, current_progress, send_progress_to
from sfumato.run.tables import prepare_tables
from sfumato.studio.source import DataSource
from sfumato.studio.tasks import Work, list_tasks

_KEPT = 2
"""Data sets, and results of protecting, that are kept in memory at once."""


class Workshop:
    """What the worker process keeps between tasks, so that nothing is read or made twice.

    Tasks of both lanes use it, hence the locks, one for each kind of thing: the second that wants
    the data waits until the first has read them, but nobody who wants data waits for a release.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}
        self._locks: defaultdict[str, Any] = defaultdict(RLock)

    def keep(self, key: str, make: Callable[[], Any]) -> Any:
        """What was made under this key ("kind:…") before, or is made now; the oldest is forgotten.

        Two of each kind are kept.
        """
        kind = key.partition(":")[0]
        with self._locks[kind]:
            if key not in self._kept:
                same = [other for other in self._kept if other.partition(":")[0] == kind]
                for other in same[: max(0, len(same) + 1 - _KEPT)]:
                    del self._kept[other]
                self._kept[key] = make()
            return self._kept[key]

    def get(self, key: str) -> Any:
        """What was made under this key before; None where it was not, or was forgotten."""
        return self._kept.get(key)

    def read(self, source: DataSource, options: Mapping[str, Any]) -> Dataset:
        """The records of one table as they are in the file, read once."""
        chosen = dict(options)
        chosen |= {
            name: value
            for name, value in (("table", source.table), ("query", source.query))
            if value
        }
        key = f"data:{source.stamp}:{json.dumps(chosen, sort_keys=True, default=str)}"
        data: Dataset = self.keep(key, lambda: _read(source, chosen))
        return data

    def read_several(self, source: DataSource, plan: Plan | None) -> dict[str, Dataset]:
        """The records of several tables as they are in the files, read once."""
        options = {} if plan is None else {name: own.read for name, own in plan.tables.items()}
        files = {} if plan is None else dict(plan.files)
        names = (sorted(source.tables) or None) if plan is None else sorted(plan.tables)
        told = json.dumps([options, files, names], sort_keys=True, default=str)
        schema = None if source.table is None else source.table.removesuffix(".*")
        tables: dict[str, Dataset] = self.keep(
            f"data:{source.stamp}:{told}",
            lambda: read_tables(
                source.where,
                files=files,
                tables=names,
                options=options,
                schema=schema,
                progress=current_progress(),
            ),
        )
        return tables

    def link(self, source: DataSource, plan: Plan) -> LinkedTables:
        """Several tables with the keys and the roles of a plan."""
        tables = self.read_several(source, plan)
        linked = plan.link(tables)
        prepared = prepare_tables(linked, plan)
        return linked.with_tables({name: table.original for name, table in prepared.items()})


def _read(source: DataSource, options: Mapping[str, Any]) -> Dataset:
    large = "://" not in source.where and is_large(Path(source.where))
    return (scan if large else read)(source.where, progress=current_progress(), **options)


class Worker:
    """Works off the requests of both lanes, and answers.

    Parameters
    ----------
    answers : where answers are written, a line each.
    folder : the private folder of the session.
    """

    def __init__(self, answers: TextIO, folder: Path) -> None:
        self._answers = answers
        self._folder = folder
        self._workshop = Workshop()
        self._writing = Lock()
        self._tokens: dict[str, Token] = {}
        self._warnings: dict[int, list[str]] = {}
        self.log = FileLog()
        self._lanes: dict[str, queue.SimpleQueue[Mapping[str, Any]]] = {
            lane: queue.SimpleQueue() for lane in ("quick", "slow")
        }
        warnings.simplefilter("always")
        warnings.showwarning = self._take_warning  # type: ignore[assignment]
        for requests in self._lanes.values():
            Thread(target=self._work_off, args=(requests,), daemon=True).start()

    def take(self, request: Mapping[str, Any]) -> None:
        """Put a request into its lane, or cancel one."""
        if "cancel" in request:
            token = self._tokens.get(request["cancel"])
            if token is not None:
                token.cancel()
            return
        job = request["job"]
        self._tokens[job] = Token(lambda what, done, total: self._report(job, what, done, total))
        self._lanes[list_tasks()[request["task"]].lane].put(request)

    def _work_off(self, requests: queue.SimpleQueue[Mapping[str, Any]]) -> None:
        while True:
            request = requests.get()
            job = request["job"]
            self._warnings[get_ident()] = []
            answer: dict[str, Any] = {}
            try:
                answer["result"] = self._carry_out(request)
            except Cancelled:
                answer["cancelled"] = True
            except SfumatoError as error:
                answer["failure"] = {"what": error.what, "hint": error.hint,
                                     "kind": type(error).__name__}  # fmt: skip
            except MemoryError:
                answer["failure"] = {"what": "There is not enough memory for this.",
                                     "hint": "close other programs, or take fewer variables.",
                                     "kind": "MemoryError"}  # fmt: skip
            except Exception as error:  # noqa: BLE001 - its text could quote a cell
                if os.environ.get("SFUMATO_DEBUG"):
                    traceback.print_exception(error)
                answer["failure"] = {"what": "Something unexpected happened "
                                     f"({type(error).__name__}, {locate(error)}).",
                                     "hint": "please tell the makers of Sfumato.",
                                     "kind": "bug"}  # fmt: skip
            answer["warnings"] = list(dict.fromkeys(self._warnings.pop(get_ident(), [])))
            del self._tokens[job]
            self._say({"job": job, **answer})

    def _carry_out(self, request: Mapping[str, Any]) -> Any:
        token = self._tokens[request["job"]]
        token("starting", 0, 1)
        work = Work(
            workshop=self._workshop,
            source=DataSource.from_plain(request["source"]),
            plan_text=request["plan"],
            folder=self._folder,
        )
        with send_progress_to(token), log_files(self.log):
            return list_tasks()[request["task"]].function(work, **request["parameters"])

    def _report(self, job: str, what: str, done: int, total: int) -> None:
        self._say({"job": job, "progress": [what, done, total]})

    def _say(self, answer: Mapping[str, Any]) -> None:
        line = json.dumps(answer, default=str)
        with self._writing:
            self._answers.write(f"{line}\n")
            self._answers.flush()

    def _take_warning(self, message: Any, category: type[Warning], *args: Any) -> None:
        """Only our own warnings are passed on: those of libraries may quote a cell."""
        del args
        if category.__module__.startswith("sfumato."):
            self._warnings.get(get_ident(), []).append(str(message))


def main() -> None:
    """Work until the server goes away."""
    # Nothing but answers may go out: neither to the server nor to a terminal.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, sys.stdout.fileno())
    if not os.environ.get("SFUMATO_DEBUG"):
        os.dup2(silent, sys.stderr.fileno())
    worker = Worker(answers, Path(sys.argv[1]))
    for line in sys.stdin:
        worker.take(json.loads(line))
    worker.log.remove_incomplete()
    os._exit(0)


if __name__ == "__main__":
    main()
