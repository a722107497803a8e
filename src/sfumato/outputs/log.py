"""The log of outputs: every figure and table of an analysis, for the person who checks them.

On disk it is a file for the checker, and a folder of its own for what never leaves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.io.atomic import PRIVATE, replace_file, write_file
from sfumato.io.json_reader import parse_json
from sfumato.io.locks import hold_lock
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.differencing import (
    Earlier,
    compare_populations,
    is_unbounded,
    recognise_persons,
)
from sfumato.outputs.output import Output, Verdict, differs_in_settings, worst
from sfumato.outputs.population import OutputPopulation, Shown, hash_population
from sfumato.outputs.rules import Rules
from sfumato.randomness import Key

VERSION = 1
_LOG, _INSIDE, _KEY = "log.json", "inside", "key"


class Log:
    """All outputs in the order they were made, with the rule and the verdict of each.

    Question: what was made from these data, and may it all leave together?
    Assumes: outputs that are not in the log are not known to it. Records are distinguished by
    their identity: give the data a direct identifier. Without one they are recognised by their
    content, also after some of it was cleaned; where that cannot be told, the verdict is "review".

    Parameters
    ----------
    folder : where the log lasts over several runs: `log.json` for the output checker, and
        `inside/` with keyed hashes of records and cells that never leave. Without one it lives
        in memory.
    rules : the rules of the house; of a folder that has a log, those it was begun with.

    Examples
    --------
    >>> import sfumato as sf
    >>> log = sf.outputs.Log()
    >>> data = sf.Dataset(sf.datasets.cohort(100))
    >>> log.add(sf.outputs.Output(kind="histogram", title="Age", variables=("age",)), data).verdict
    'pass'
    """

    def __init__(self, folder: str | Path | None = None, rules: Rules | None = None) -> None:
        self._files = _LogFiles(None if folder is None else Path(folder))
        stored = self._files.read()
        self._entries: list[dict[str, Any]] = stored.get("outputs", [])
        self.rules = _choose_rules(rules, stored.get("rules"))

    def add(  # noqa: PLR0913 - all but two by name only
        self,
        output: Output,
        data: Dataset | Any | None,
        *,
        parts: Sequence[Integers] | None = None,
        grouped: bool = False,
        sums: Sequence[str] | None = None,
        windows: Sequence[Integers] = (),
        terms: Floats | None = None,
        outcome: str | None = None,
        refuse: bool = False,
    ) -> Output:
        """Record an output and the records behind it; what comes back has the final verdict.

        Differences from earlier outputs that come down to very few records make the verdict
        "review", or with `refuse` "refuse": then it is in the log as an output that was not made.

        Parameters
        ----------
        output : what was made.
        data : exactly the records that the output shows, with their identity; None where it shows
            no number of records, so that nothing can be subtracted.
        parts : for each way in which the output splits the records, the part each is in; below 0
            where the part is hidden. Default: by the groups of the output, none hidden.
        grouped : besides, compare the groups of the output as if it had no parts. What they add
            up to is not shown.
        sums : variables of which a sum, a mean or the like of every part is shown. Default:
            where there are no parts, all that the output shows.
        windows : for each quantile of these variables, a number for each record on which it rests,
            the same within a cell; below 0 for all others.
        terms : of a model, the terms of each record, times the root of its weight; and the weight.
        outcome : of a model, the variable whose sums it shows.
        refuse : no person looks at the output before it leaves, so that what would need a second
            look because of earlier outputs is refused, also where there was too much to try. Only
            hidden parts that were too many to bound stay "review".
        """
        with self._files.lock():
            # Read again: another process may have added an output.
            self._entries = self._files.read().get("outputs", self._entries)
            if data is None:
                self._record(output, None)
                return output
            if sums is None:
                sums = () if parts is not None else output.variables
            shown = Shown(groups=output.groups, parts=parts, grouped=grouped, sums=sums,
                          windows=windows, terms=terms, outcome=outcome)  # fmt: skip
            population = hash_population(_get_dataset(data), shown, self._files.key)
            earlier = [] if output.verdict == "refuse" else self._list_earlier()
            population = recognise_persons(population, earlier)
            reasons = [
                *compare_populations(
                    population,
                    earlier,
                    fewest=self.rules.difference,
                    fewest_in_models=self.rules.k,
                ),
                *self._find_repetitions(population, output),
            ]
            verdict: Verdict = "review" if reasons else "pass"
            if refuse and not all(map(is_unbounded, reasons)):
                verdict = "refuse"
            judged = replace(
                output,
                verdict=worst([output.verdict, verdict]),
                reasons=(*output.reasons, *reasons),
                population="" if verdict == "refuse" else population.fingerprint(),
            )
            self._record(judged, None if verdict == "refuse" else population)
        return judged

    def refused(self, output: Output, data: Dataset | Any = None) -> Output:
        """Record an output that was not made, and why."""
        del data  # nothing of it was shown
        judged = replace(output, verdict="refuse")
        with self._files.lock():
            self._entries = self._files.read().get("outputs", self._entries)
            self._record(judged, None)
        return judged

    def _list_earlier(self) -> Earlier:
        return [
            (entry["number"], entry["title"], self._files.read_population(entry["number"]))
            for entry in self._entries
            if entry["verdict"] != "refuse" and entry["population"]
        ]

    def _find_repetitions(self, population: OutputPopulation, output: Output) -> list[str]:
        """The same values protected with other settings: each discloses a little more of them."""
        numbers = []
        for entry in self._entries if output.verdict != "refuse" else ():
            if entry["verdict"] == "refuse" or not differs_in_settings(output, entry):
                continue
            if population.meets(self._files.read_population(entry["number"])):
                numbers.append(str(entry["number"]))
        if not numbers:
            return []
        reason = (
            f"Output {', '.join(numbers)} shows the same variables of these records, protected in "
            "the same way with other settings: two answers to one question narrow the truth down."
        )
        return [reason]

    def _record(self, output: Output, population: OutputPopulation | None) -> None:
        number = len(self._entries) + 1
        entry = {
            "number": number,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            **output.plain(),
        }
        entries = [*self._entries, entry]
        self._files.write({**self.plain(), "outputs": entries}, number, population)
        self._entries = entries

    def __iter__(self) -> Iterator[Output]:
        names = tuple(Output.__dataclass_fields__)
        return iter([Output(**{name: entry[name] for name in names}) for entry in self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return True  # an empty log is a log

    def __repr__(self) -> str:
        counts = dict.fromkeys(("pass", "review", "refuse"), 0)
        for entry in self._entries:
            counts[entry["verdict"]] += 1
        text = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        return f"Log({len(self)} outputs{': ' if text else ''}{text})"

    def plain(self) -> dict[str, Any]:
        """The whole log as plain values."""
        return {"version": VERSION, "rules": self.rules.plain(), "outputs": self._entries}

    def to_json(self, path: str | Path) -> None:
        """Write the log for the output checker; only its owner can read the file."""
        write_file(Path(path), _encode_json(self.plain()), mode=PRIVATE)

    def page(self, path: str | Path) -> None:
        """Write the log as one page: no script, nothing to load, light and dark."""
        from sfumato.report.outputs_page import render_outputs

        write_file(Path(path), render_outputs(self.plain()), mode=PRIVATE)

    def frame(self) -> pl.DataFrame:
        """A line for each output."""
        lists = ("variables", "groups", "reasons")
        rows = [
            {key: value if key not in lists else "; ".join(value) for key, value in entry.items()}
            | {"rule": json.dumps(entry["rule"])}
            for entry in self._entries
        ]
        names = ("number", "made", *Output.__dataclass_fields__)
        schema = {name: pl.Int64 if name == "number" else pl.String for name in names}
        return pl.DataFrame(rows, schema=schema)


def _encode_json(log: dict[str, Any]) -> str:
    return json.dumps(log, indent=1, ensure_ascii=False)


def _choose_rules(rules: Rules | None, stored: dict[str, Any] | None) -> Rules:
    if stored is None:
        return rules or Rules()
    first = Rules(**stored)
    if rules is not None and rules != first:
        raise DataError(
            "This log was begun under other rules.",
            hint="leave the rules out, or begin a new log.",
        )
    return first


def _get_dataset(data: Any) -> Dataset:
    inner = getattr(data, "dataset", data)  # of a release
    return inner if isinstance(inner, Dataset) else Dataset(data)


class _LogFiles:
    """A log's files, or its memory where there is no folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[int, OutputPopulation] = {}
        self._fresh = Key.new()
        if folder is not None:
            with self._tell_failure():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                (folder / _INSIDE).mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def _tell_failure(self) -> Iterator[None]:
        """Say that the log could not be written; libraries have types of their own for that."""
        try:
            yield
        except (OSError, pl.exceptions.PolarsError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "the disk failed"
            raise DataError(
                f"The log of outputs in '{self.folder}' could not be written: {why}. It is as "
                "before, and the output was not made.",
                hint="is there enough space, and are you allowed to write there?",
            ) from None

    @cached_property
    def key(self) -> Key:
        """The key of the record hashes; made once, and kept beside them."""
        if self.folder is None:
            return self._fresh
        path = self.folder / _INSIDE / _KEY
        if not path.exists():
            # Hashes under a lost key can be compared with nothing.
            if any((self.folder / _INSIDE).glob("*.parquet")):
                raise DataError("The key of this log is gone.", hint="begin a new log.")
            with self._tell_failure():
                write_file(path, self._fresh.text, mode=PRIVATE)
        return Key.of(path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Nobody else writes to the log meanwhile."""
        if self.folder is None:
            yield
            return
        with ExitStack() as stack:
            with self._tell_failure():
                stack.enter_context(hold_lock(self.folder / _INSIDE / "lock"))
            yield

    def read(self) -> dict[str, Any]:
        """The log as it lies in the folder; empty where there is none yet."""
        if self.folder is None or not (self.folder / _LOG).exists():
            return {}
        try:
            log = parse_json((self.folder / _LOG).read_bytes())
            return {"rules": log["rules"], "outputs": log["outputs"]}
        except (ValueError, KeyError, TypeError, OSError):
            raise DataError(
                f"'{self.folder / _LOG}' is not a log of outputs.", hint="choose another folder."
            ) from None

    def write(self, log: dict[str, Any], number: int, population: OutputPopulation | None) -> None:
        """Replace the log, and store the record hashes of its last output inside: both or none."""
        if self.folder is None:
            if population is not None:
                self._memory[number] = population
            return
        path = self._get_path(self.folder, number)
        with self._tell_failure():
            try:
                if population is not None:
                    with replace_file(path, mode=PRIVATE) as sibling:
                        population.write(sibling, self.key)
                write_file(self.folder / _LOG, _encode_json(log), mode=PRIVATE)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def read_population(self, number: int) -> OutputPopulation:
        """The record hashes of an earlier output."""
        if self.folder is None:
            return self._memory[number]
        path = self._get_path(self.folder, number)
        if not path.exists():
            raise DataError(
                f"The record hashes of output {number} are gone, so nothing can be compared.",
                hint="begin a new log.",
            )
        return OutputPopulation.read(path, self.key)

    @staticmethod
    def _get_path(folder: Path, number: int) -> Path:
        return folder / _INSIDE / f"{number:05d}.parquet"
