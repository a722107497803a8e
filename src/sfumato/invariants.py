"""What a protection may leave as it was: each method says it, and attacks exploit it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

Invariant = Literal[
    "centres",
    "extremes",
    "gaps",
    "group composition",
    "neighbourhoods",
    "order",
    "repeated readings",
    "sums",
    "support points",
    "wording",
]
"""What may be left as it was, of the variables that a method touches:

centres : groups of near records share a centre, and the same values have the same one.
extremes : whoever is far out stays far out.
gaps : how far a person's dates lie apart.
group composition : which rows belong together.
neighbourhoods : who lives near a released place.
order : a larger value stays the larger one.
repeated readings : readings of one quantity, in several variables or releases, average.
sums : a linear relation between variables still holds, or nearly.
support points : where true values pile up, released ones pile up around the same points.
wording : what was not recognised stays as it was written.
"""


def require_known_invariants(owner: str, named: Iterable[str]) -> None:
    """Refuse what no attack can be looked up for: a misspelt word would silence all of them.

    Examples
    --------
    >>> require_known_invariants("Swap", ["gap"])
    Traceback (most recent call last):
    ...
    TypeError: Swap.preserves names 'gap', which is none of centres, extremes, ...
    """
    known = get_args(Invariant)
    for name in named:
        if name not in known:
            msg = f"{owner}.preserves names '{name}', which is none of {', '.join(known)}."
            raise TypeError(msg)
