"""What an outsider knows: the variables by which records are told apart."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Subject

_NOTHING = "nothing that is left in the data"


def known_variables(
    named: Sequence[str] | None, data: Dataset, subject: Subject
) -> tuple[str, ...]:
    """The variables an outsider can compare with; by default all whose role is "quasi"."""
    known = data.schema.having("quasi") if named is None else tuple(named)
    if subject == "released":
        # What the release left out, nobody can compare with.
        return tuple(name for name in known if name in data.schema)
    data.schema.require(known)
    if not known:
        raise MeasureError(
            "No variable is declared as known to outsiders.",
            hint='give some variables the role "quasi", or name them: known = [...].',
        )
    return known


def require_records(records: int) -> None:
    """Refuse data without a record."""
    if not records:
        raise MeasureError("There is no record to measure.", hint="are the data empty?")


def describe_known(known: Sequence[str]) -> str:
    """The assumption that goes with it."""
    names = ", ".join(known) or _NOTHING
    return f"The outsider knows that the person is in the data, and knows exactly: {names}."
