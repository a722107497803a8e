"""Numbers in captions, as rough as they must be: nobody works out a few records from them."""

from __future__ import annotations

import math

_ROUGH = 100
_FINEST = 0.01


def records_said(records: int) -> str:
    """How many records a figure rests on, rounded down.

    Examples
    --------
    >>> records_said(497), records_said(38)
    ('at least 490 records', 'at least 35 records')
    """
    step = 5 if records < _ROUGH else 10 ** max(1, len(str(records)) - 2)
    return f"at least {records // step * step:,} records"


def share_said(share: float, *, records: int, k: int) -> str:
    """A share of the records in words; never so fine that it stands for fewer than k of them.

    Examples
    --------
    >>> share_said(0.0712, records=5000, k=3), share_said(0.0002, records=5000, k=3)
    ('about 7 %', 'less than 1 %')
    >>> share_said(0.05, records=20, k=3)
    'less than 30 %'
    """
    finest = max(_FINEST, math.ceil(200 * k / max(records, 1)) / 100)
    if share < finest:
        return f"less than {100 * min(finest, 1.0):.0f} %"
    steps = round(share / finest)
    return f"about {min(100 * finest * steps, 100):.0f} %"
