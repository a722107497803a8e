"""What a release is good for: the certificate, answer by answer."""

from __future__ import annotations

import math
from typing import Any

from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.utility.purpose import Purpose

FORMAT = 1


def describe_certificate(evidence: Evidence, purpose: Purpose | None) -> dict[str, Any]:
    """Every answer before and after, as plain values. It stays inside: it quotes the original.

    Parameters
    ----------
    evidence : of the measure `purpose`.
    purpose : what the plan says that the data are for; None: the usual questions were asked.
    """
    rows: list[dict[str, Any]] = frames.wrap(evidence.table).rows(named=True)
    return {
        "format": FORMAT,
        "stated": purpose is not None and purpose.items is not None,
        "kept": evidence.value,
        "kept_as_released": evidence.number("purpose_as_released"),
        **({} if evidence.sampled is None else {"sampled": list(evidence.sampled)}),
        "not_single": list(evidence.details["not_single"]),
        "items": [_describe_item(row) for row in rows],
        "assumptions": list(evidence.assumptions),
    }


def _describe_item(row: dict[str, Any]) -> dict[str, Any]:
    noisy = row["corrected"] is not None
    return {
        "name": row["name"],
        "item": row["item"],
        "original": _finite(row["original"]),
        "interval": [_finite(row["low"]), _finite(row["high"])],
        "released": _finite(row["released"]),
        **({"noise_taken_out": _finite(row["corrected"])} if noisy else {}),
        "kept": row["kept"],
        "kept_as_released": row["kept_as_released"],
        **({"reason": row["reason"]} if row["reason"] else {}),
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
