"""The log of outputs: every figure and table of an analysis, for the person who checks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.kernels.arrays import Integers
from sfumato.outputs.differencing import Population, compared, population_of
from sfumato.outputs.judged import Output, another_way, worst
from sfumato.outputs.kept import Kept
from sfumato.outputs.rules import Rules

VERSION = 1


class Log:
    """All outputs in the order they were made, with the rule and the verdict of each.

    Question: what was made from these data, and may it all leave together?
    Assumes: outputs that are not in the log are not known to it. Records are told apart by their
    identity: give the data a direct identifier, or pass the same variables each time.

    Parameters
    ----------
    folder : where the log lasts over several runs: `log.json` for the output checker, and
        `inside/` with keyed record hashes that never leave. Without one it lives in memory.
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
        self._kept = Kept(None if folder is None else Path(folder))
        told = self._kept.read()
        self._entries: list[dict[str, Any]] = told.get("outputs", [])
        self.rules = _rules(rules, told.get("rules"))

    def add(
        self,
        output: Output,
        data: Dataset | Any,
        *,
        parts: Sequence[Integers] | None = None,
        grouped: bool = False,
    ) -> Output:
        """Note an output and the records behind it; what comes back has the final verdict.

        Differences from earlier outputs that come down to very few records make the verdict
        "review".

        Parameters
        ----------
        output : what was made.
        data : exactly the records that the output shows, with their identity.
        parts : for each way in which the output splits the records, the part each is in; below 0
            where the part is hidden. Default: by the groups of the output, none hidden.
        grouped : besides, compare the groups of the output as if it had no parts. What they add
            up to is not shown.
        """
        with self._kept.locked():
            self._entries = self._kept.read().get("outputs", self._entries)
            key, groups = self._kept.key, output.groups
            made = population_of(_dataset(data), groups, key, parts, grouped=grouped)
            found = [*self._compared(made, output), *self._again(made, output)]
            judged = replace(
                output,
                verdict=worst([output.verdict, *(["review"] if found else [])]),  # type: ignore[list-item]
                reasons=(*output.reasons, *found),
                population=made.fingerprint(),
            )
            self._note(judged, made)
        return judged

    def refused(self, output: Output, data: Dataset | Any = None) -> Output:
        """Note an output that was not made, and why."""
        del data  # nothing of it was shown
        judged = replace(output, verdict="refuse")
        with self._kept.locked():
            self._entries = self._kept.read().get("outputs", self._entries)
            self._note(judged, None)
        return judged

    def _compared(self, made: Population, output: Output) -> list[str]:
        if output.verdict == "refuse":
            return []
        earlier = [
            (entry["number"], entry["title"], self._kept.population(entry["number"]))
            for entry in self._entries
            if entry["verdict"] != "refuse" and entry["population"]
        ]
        return compared(made, earlier, fewest=self.rules.difference)

    def _again(self, made: Population, output: Output) -> list[str]:
        """The same values protected in another way: each tells a little more of them."""
        found = []
        for entry in self._entries if output.verdict != "refuse" else ():
            if entry["verdict"] == "refuse" or not another_way(output, entry):
                continue
            if made.meets(self._kept.population(entry["number"])):
                found.append(entry["number"])
        if not found:
            return []
        listed = ", ".join(map(str, found))
        said = (
            f"Output {listed} shows the same variables of these records, protected in the same way "
            "with other settings: two answers to one question narrow the truth down."
        )
        return [said]

    def _note(self, output: Output, made: Population | None) -> None:
        number = len(self._entries) + 1
        entry = {
            "number": number,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            **output.plain(),
        }
        if made is not None:
            self._kept.keep(number, made)
        self._entries = [*self._entries, entry]
        self._kept.write(self.plain())

    def __iter__(self) -> Iterator[Output]:
        return iter([_output(entry) for entry in self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return True  # an empty log is a log

    def __repr__(self) -> str:
        counts = dict.fromkeys(("pass", "review", "refuse"), 0)
        for entry in self._entries:
            counts[entry["verdict"]] += 1
        told = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        return f"Log({len(self)} outputs{': ' if told else ''}{told})"

    def plain(self) -> dict[str, Any]:
        """The whole log as plain values."""
        return {"version": VERSION, "rules": self.rules.plain(), "outputs": self._entries}

    def to_json(self, path: str | Path) -> None:
        """Write the log for the output checker; only its owner can read the file."""
        self._kept.put(Path(path), json.dumps(self.plain(), indent=1, ensure_ascii=False))

    def page(self, path: str | Path) -> None:
        """Write the log as one page: no script, nothing to load, light and dark."""
        from sfumato.outputs.page import render

        self._kept.put(Path(path), render(self.plain()))

    def frame(self) -> pl.DataFrame:
        """One line an output."""
        listed = ("variables", "groups", "reasons")
        rows = [
            {key: value if key not in listed else "; ".join(value) for key, value in entry.items()}
            | {"rule": json.dumps(entry["rule"])}
            for entry in self._entries
        ]
        names = ("number", "made", *Output.__dataclass_fields__)
        schema = {name: pl.Int64 if name == "number" else pl.String for name in names}
        return pl.DataFrame(rows, schema=schema)


def _rules(given: Rules | None, kept: dict[str, Any] | None) -> Rules:
    if kept is None:
        return given or Rules()
    known = Rules(**kept)
    if given is not None and given != known:
        raise DataError(
            "This log was begun under other rules.",
            hint="leave the rules out, or begin a new log.",
        )
    return known


def _dataset(data: Any) -> Dataset:
    inner = getattr(data, "dataset", data)  # of a release
    return inner if isinstance(inner, Dataset) else Dataset(data)


def _output(entry: dict[str, Any]) -> Output:
    names: Sequence[str] = tuple(Output.__dataclass_fields__)
    return Output(**{name: entry[name] for name in names})
