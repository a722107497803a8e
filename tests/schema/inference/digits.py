"""Numbers that look like chance and are the same on every run."""

from __future__ import annotations


def digits(count: int, length: int, *, start: int = 7) -> list[str]:
    """Numbers of a length, spread by a multiplicative congruence."""
    state, made = start, []
    for _ in range(count):
        number = ""
        while len(number) < length:
            state = state * 48271 % 2147483647
            number += str(state // 1000 % 10)
        made.append(number)
    return made
