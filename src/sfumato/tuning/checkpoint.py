"""Finished candidates in a folder, so that an interrupted search can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.evidence import Evidence
from sfumato.io.atomic import PRIVATE, write_file

FORMAT = 2
Draw = Mapping[str, Evidence]


@dataclass(frozen=True)
class Checkpoint:
    """A private folder with one file per candidate, named by the digest of data, plan and draws.

    Its contents were measured on the original, so it stays inside. A file is written completely or
    not at all; one that cannot be read counts as absent, and the candidate is run again.
    """

    folder: Path

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise DataError(
                f"The folder '{self.folder}' cannot be created.", hint="choose another place."
            ) from None

    def read(self, name: str) -> tuple[list[Draw], str] | None:
        """The draws of a candidate and why the data refused it; None when it is not there."""
        try:
            stored = json.loads((self.folder / f"{name}.json").read_text("utf-8"))
            if stored["format"] != FORMAT or stored["name"] != name:
                return None
            draws: list[Draw] = [
                {label: _from_json(fields) for label, fields in draw.items()}
                for draw in stored["draws"]
            ]
            return draws, str(stored["refused"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, name: str, draws: Iterable[Draw], refused: str) -> None:
        """Store a candidate."""
        content = {
            "format": FORMAT,
            "name": name,
            "refused": refused,
            "draws": [
                {label: _to_json(evidence) for label, evidence in draw.items()} for draw in draws
            ],
        }
        # Infinity and NaN too: only we read it.
        write_file(self.folder / f"{name}.json", json.dumps(content), mode=PRIVATE)


def _to_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "name": evidence.name,
        "subject": evidence.subject,
        "value": evidence.value,
        "direction": evidence.direction,
        "interval": evidence.interval,
        "baseline": evidence.baseline,
        "details": dict(evidence.details),
        "assumptions": list(evidence.assumptions),
        "warnings": list(evidence.warnings),
        "audience": evidence.audience,
        "reason": evidence.reason,
        "sampled": evidence.sampled,
    }


def _from_json(fields: Mapping[str, Any]) -> Evidence:
    interval, value, sampled = fields["interval"], fields["value"], fields["sampled"]
    return Evidence(
        **{
            **fields,
            "value": math.nan if value is None else value,
            "interval": None if interval is None else (interval[0], interval[1]),
            "assumptions": tuple(fields["assumptions"]),
            "warnings": tuple(fields["warnings"]),
            "sampled": None if sampled is None else (sampled[0], sampled[1]),
        }
    )
