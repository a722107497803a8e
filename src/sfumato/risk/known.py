"""What an outsider knows: the variables by which records are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Subject

_NOTHING = "nothing that is left in the data"
_MOST = 6
"""Groups whose combinations are all measured: 63 of them."""
BETWEEN = " + "
"""Stands between the groups of a combination."""
Groups = dict[str, list[str]]
"""What outsiders may know together, by a name for it."""


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


def check_groups(groups: Groups | None) -> None:
    """Refuse groups that are none, too many, without a usable name or without variables."""
    if groups is None:
        return
    if not groups:
        msg = "groups must hold one group or more."
        raise ValueError(msg)
    if len(groups) > _MOST:
        msg = (
            f"groups holds {len(groups)} groups, and all their combinations are measured: "
            f"{_MOST} groups at most. Hint: join some of them."
        )
        raise ValueError(msg)
    for name, variables in groups.items():
        if not name or BETWEEN in name:
            msg = f"a group needs a name, and one without '{BETWEEN}'."
            raise ValueError(msg)
        if not variables or len(set(variables)) < len(variables):
            msg = f"the group '{name}' must have variables, each named once."
            raise ValueError(msg)


def list_combinations(
    groups: Groups | None, data: Dataset, subject: Subject
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every combination of groups with its variables, small ones first.

    Small ones are what somebody most likely knows.
    """
    variables = {name: known_variables(of, data, subject) for name, of in (groups or {}).items()}
    for size in range(1, len(variables) + 1):
        for chosen in combinations(variables, size):
            together = chain.from_iterable(variables[name] for name in chosen)
            yield BETWEEN.join(chosen), tuple(dict.fromkeys(together))


def warn_of_unknown_variables(
    known: Sequence[str], combined: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """A warning where groups hold variables that the value does not count as known."""
    beyond = dict.fromkeys(
        name for names in combined.values() for name in names if name not in known
    )
    if beyond:
        yield (
            f"The groups hold variables that are not among those known: {', '.join(beyond)}. "
            "The value does not count them; the table does."
        )
