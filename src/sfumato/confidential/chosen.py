"""The confidential variables of a method."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.clustered.coded import Variable
from sfumato.confidential.values import Coded, coded, confidential_variables
from sfumato.data import Dataset


def confidential(
    data: Dataset, named: str | list[str] | None, changed: Sequence[Variable]
) -> list[Coded]:
    """The confidential variables as codes, by default all whose role is "sensitive"."""
    listed = [named] if isinstance(named, str) else named
    known = [one.name for one in changed]
    return [coded(data, name) for name in confidential_variables(listed, known, data, "original")]
