"""Finished candidates in a folder, so that a search can go on where it stopped."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.evidence import Evidence
from sfumato.io.atomic import replacing

FORMAT = 1
Draw = Mapping[str, Evidence]


@dataclass(frozen=True)
class Kept:
    """A private folder: a file a candidate, named by the digest of data, plan and draws.

    What is in it was measured on the original, so it stays inside. Files are written whole or not
    at all; one that cannot be read is as if it were not there, and the candidate is run again.
    """

    folder: Path

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise DataError(
                f"The folder '{self.folder}' cannot be made.", hint="choose another place."
            ) from None

    def read(self, name: str) -> tuple[list[Draw], str] | None:
        """What is kept of a candidate; None when there is nothing."""
        try:
            told = json.loads((self.folder / f"{name}.json").read_text("utf-8"))
            if told["format"] != FORMAT or told["name"] != name:
                return None
            draws: list[Draw] = [
                {label: _evidence(one) for label, one in draw.items()} for draw in told["draws"]
            ]
            return draws, str(told["refused"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, name: str, draws: Iterable[Draw], refused: str) -> None:
        """Keep a candidate."""
        told = {
            "format": FORMAT,
            "name": name,
            "refused": refused,
            "draws": [{label: _plain(one) for label, one in draw.items()} for draw in draws],
        }
        with replacing(self.folder / f"{name}.json") as sibling:
            handle = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(told, file)  # infinity and NaN too: it is read by ourselves


def _plain(one: Evidence) -> dict[str, Any]:
    return {
        "name": one.name,
        "subject": one.subject,
        "value": one.value,
        "direction": one.direction,
        "interval": one.interval,
        "baseline": one.baseline,
        "details": dict(one.details),
        "assumptions": list(one.assumptions),
        "warnings": list(one.warnings),
        "audience": one.audience,
        "reason": one.reason,
    }


def _evidence(told: Mapping[str, Any]) -> Evidence:
    interval = told["interval"]
    value = told["value"]
    return Evidence(
        **{
            **told,
            "value": math.nan if value is None else value,
            "interval": None if interval is None else (interval[0], interval[1]),
            "assumptions": tuple(told["assumptions"]),
            "warnings": tuple(told["warnings"]),
        }
    )
