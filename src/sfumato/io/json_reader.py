"""Read our own JSON so that everybody who reads the file reads the same.

Readers of JSON differ where a text is ambiguous: of two equal names most take the last and some the
first, `1e999` is infinite or an error, and `NaN` is no JSON at all. Whoever forges a file can use
this: what we check is then not what another program sees. So all of it is refused.
"""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(content: bytes) -> Any:
    """The value of a JSON text in UTF-8; ValueError where its meaning is not beyond doubt.

    Examples
    --------
    >>> parse_json(b'{"k": 5}')
    {'k': 5}
    >>> parse_json(b'{"k": 5, "k": 1}')
    Traceback (most recent call last):
    ValueError: a name stands twice
    """
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_read_object,
            parse_float=_read_number,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        msg = "a name stands twice"
        raise ValueError(msg)
    return content


def _read_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        msg = "a number beyond all floats"
        raise ValueError(msg)
    return number


def _refuse_constant(name: str) -> float:
    msg = f"{name} is no JSON"
    raise ValueError(msg)
