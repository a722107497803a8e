"""What can go wrong, described so that the reader can fix it.

Every error states what is wrong and where, and offers a hint. None of them ever
quotes a cell of the data: an error may end up in a log, an e-mail or a ticket.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar


class SfumatoError(Exception):
    """Something the user can fix. `what` says what is wrong, `hint` says how to fix it.

    Examples
    --------
    >>> import sfumato as sf
    >>> try:
    ...     sf.Plan(targets={"k_anonymity.min": 5}).measures
    ... except sf.SfumatoError as error:
    ...     print(error.hint)
    did you mean 'k'?
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, *, hint: str = "") -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what} Hint: {hint}" if hint else what)


class DataError(SfumatoError):
    """The data cannot be read or used as they are."""


class SchemaError(SfumatoError):
    """The schema and the data do not match. All mismatches are reported at once."""


class PlanError(SfumatoError):
    """The plan cannot be carried out as written."""


class MethodError(SfumatoError):
    """A method cannot do on these data what it was asked to do."""


class StrataError(MethodError):
    """Some strata are too small to hide in. `strata` lists them, for the custodian's eyes only."""

    strata: Any = None


class MeasureError(SfumatoError):
    """A measure cannot be computed. Never to be read as "no risk"."""


class TargetError(SfumatoError):
    """A target was missed, so nothing is released. What was measured is kept with the error."""

    exit_code = 3
    evidence: Mapping[str, Any] = MappingProxyType({})
    verdict: tuple[Any, ...] = ()
    kept: str = ""


class ReleaseError(SfumatoError):
    """A release cannot be written, or is not what its manifest says."""

    exit_code = 4


class WeakProtectionWarning(UserWarning):
    """What was asked for protects less than it seems."""


class HeavyLossWarning(UserWarning):
    """What was asked for costs much of the data."""


class PluginWarning(UserWarning):
    """A plug-in of another package was left out, since it cannot be used."""


class RepeatedReleaseWarning(UserWarning):
    """The same data were released before under another key."""


class ReplacedReleaseWarning(UserWarning):
    """A release that was overwritten is kept, since somebody else's files are in it."""


def locate(error: BaseException) -> str:
    """Where in our own code something unexpected failed, such as "view.py:12"; no value."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}sfumato{os.sep}" in frame.filename]
    where = (ours or list(frames))[-1]
    return f"{Path(where.filename).name}:{where.lineno}"


def refuse_patterns(names: Iterable[str]) -> None:
    """Refuse names that begin with ^ and end with $: polars takes them for patterns."""
    odd = sorted(name for name in names if name.startswith("^") and name.endswith("$"))
    if odd:
        raise DataError(
            f"A variable's name cannot both begin with ^ and end with $: {', '.join(odd)}.",
            hint="rename it.",
        )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint that names the closest of the known names, or lists a few of them.

    Examples
    --------
    >>> did_you_mean("regoin", ["region", "age"])
    "did you mean 'region'?"
    """
    known = sorted(map(str, names))
    folded = {other.casefold(): other for other in known}
    near = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    begun = [other for other in folded if len(name) > 1 and other.startswith(name.casefold())]
    if near or len(begun) == 1:
        near = near or begun
        return f"did you mean '{folded[near[0]]}'?"
    if not known:
        return "there are none."
    shown = ", ".join(f"'{other}'" for other in known[:12])
    return f"known names are {shown}{' and more' if len(known) > len(known[:12]) else ''}."
