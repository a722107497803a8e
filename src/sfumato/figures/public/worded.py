"""A protection that says in its plot's own words what it does there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from sfumato.figures.public.protection import Protection


@dataclass(frozen=True, kw_only=True)
class Worded(Protection):
    """The same protection, told in other words.

    Parameters
    ----------
    words : the sentence for the caption; empty leaves the usual one.
    """

    words: str = ""

    def sentence(self) -> str:
        """What it does, in words."""
        return self.words or super().sentence()


def worded(protection: Protection, words: Mapping[str, str]) -> Worded:
    """The protection with the sentence that belongs to its name, where there is one."""
    values = {one.name: getattr(protection, one.name) for one in fields(Protection)}
    said = words.get(protection.name, "").format(k=protection.k)
    return Worded(**values, words=said)
