"""What an outsider finds, by what the outsider knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, label_axes, name_row, rows_only, sheet
from sfumato.figures._sheet.style import ORIGINAL, RELEASED, Mark, house_style, mark
from sfumato.figures._sheet.words import clean
from sfumato.figures.custodian.bars import Bar, ends_of, put_bars, set_reach
from sfumato.figures.custodian.source import Source, nothing, real, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEEDED = ("known", "reidentification")
_LOOKS = {"original": ORIGINAL, "released": RELEASED}
_BETWEEN = " + "
_MOST = 63
_OF_FOUR = 15
"""Combinations of four groups."""
_SHOWN = 20
_FEWEST = 3
"""Records that a public picture shows at least."""
_ROUNDING = 1e-6
_LETTERS = 42


def known_groups(
    evidence: Source,
    beside: Source | None = None,
    *,
    names: Sequence[str] | None = None,
    records: int | None = None,
    public: bool = False,
) -> Picture:
    """The share of records that can be singled out, for every combination of what is known.

    Question: which knowledge of an outsider is dangerous, and what does protection change?
    Assumes: nothing.

    Parameters
    ----------
    evidence : of the measure "reidentification" with `groups`, or its table. With more than 4
        groups the 20 combinations with the highest risk are drawn, the riskiest first.
    beside : a second one to draw beside it, such as that of the original.
    names : what the one or two are called. Default: original and released, where these were
        measured.
    records : how many records the shares are of, where the evidence does not say.
    public : the custodian's word that it may be shown outside. 1 or 2 records are drawn as none.

    Examples
    --------
    >>> rows = [{"known": "census", "reidentification": 0.1},
    ...         {"known": "census + spatial", "reidentification": 0.7}]
    >>> known_groups(rows).title
    'Records that can be singled out, by what is known'

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Fig. S3.
    """
    given = [evidence] if beside is None else [evidence, beside]
    shares = [_shares(one, records, public=public) for one in given]
    rows = list(shares[0])
    if any(set(one) != set(rows) for one in shares):
        raise SfumatoError(
            "The two tables of 'known_groups' do not hold the same combinations of groups.",
            hint="measure both with the same `groups`.",
        )
    if not any(math.isfinite(value) for one in shares for value in one.values()):
        raise nothing("known_groups")
    looks = _looks(given, names)
    rows, left = _chosen(rows, shares, given)
    some = f"the {len(rows)} riskiest combinations, {left} are left out" if left else ""
    with house_style():
        figure, (axes,) = sheet(0.75 + (0.26 + 0.1 * len(given)) * len(rows))
        rows_only(axes, len(rows))
        _fill(axes, rows, shares, looks)
        label_axes(axes, f"Share of records that can be singled out: {some}".strip(" :"), width=60)
        return finish(
            figure,
            "Records that can be singled out, by what is known",
            "A bar is the share of records that may be the only ones to fit what the outsider "
            "knows, in the worst case."
            + (f" Shown: {some}." if some else "")
            + (f" Fewer than {_FEWEST} records are drawn as none." if public else ""),
            public=public,
            legend=looks if len(looks) > 1 or names else (),
        )


def _chosen(
    rows: list[str], shares: Sequence[dict[str, float]], given: Sequence[Source]
) -> tuple[list[str], int]:
    """As they come up to four groups; of more, the riskiest first, and how many are left out.

    The risk that counts is that of the released data, where they stand beside the original.
    """
    if len(rows) <= _OF_FOUR:
        return rows, 0
    subjects = [one.subject if isinstance(one, Evidence) else "" for one in given]
    counts = [one for one, of in zip(shares, subjects, strict=True) if of == "released"] or shares

    def risk(name: str) -> tuple[float, float]:
        first, every = (
            max((one[name] for one in some if math.isfinite(one[name])), default=-1.0)
            for some in (counts, shares)
        )
        return -first, -every

    ranked = sorted(rows, key=risk)
    return ranked[:_SHOWN], len(ranked[_SHOWN:])


def _shares(source: Source, records: int | None, *, public: bool) -> dict[str, float]:
    """The risk of each combination; when public, 0 where it is that of one or two records."""
    if isinstance(source, Evidence) and not _by_groups(source):
        raise SfumatoError(
            f"The picture 'known_groups' needs risks by what is known; '{source.name}' was "
            "measured without groups.",
            hint='measure it with groups={"census": [...], "family": [...]}.',
        )
    rows = rows_of(source, NEEDED, picture="known_groups")
    if len(rows) > _MOST:
        raise SfumatoError(f"The table has {len(rows)} rows; the picture shows {_MOST} at most.")
    found = {str(row["known"]): real(row["reidentification"]) for row in rows}
    if not public:
        return found
    told = source.details.get("records") if isinstance(source, Evidence) else None
    size = records if told is None else told
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise SfumatoError(
            "A public 'known_groups' must hide 1 or 2 records, and shares alone do not tell them.",
            hint="say how many records there are: records=...",
        )
    return {
        name: 0.0 if share * size < _FEWEST - _ROUNDING else share for name, share in found.items()
    }


def _by_groups(evidence: Evidence) -> bool:
    if evidence.table is None:
        return False
    return "known" in rows_of(evidence, [], picture="known_groups")[0]


def _looks(given: Sequence[Source], names: Sequence[str] | None) -> tuple[Mark, ...]:
    """Outlines and filled bars, so that nobody needs to tell colours apart."""
    subjects = [one.subject if isinstance(one, Evidence) else "" for one in given]
    known = len(set(subjects)) == len(given) and set(subjects) <= set(_LOOKS)
    if len(given) > 1 and not known and names is None:
        raise SfumatoError(
            "The picture 'known_groups' cannot tell the two apart: they are not the original and "
            "the released data.",
            hint='name them, for instance names=["k = 5", "k = 20"].',
        )
    looks = [_LOOKS[one] if known else mark(at, f"{at + 1}") for at, one in enumerate(subjects)]
    if names is not None:
        if isinstance(names, str) or len(names) != len(given):
            raise SfumatoError("The picture 'known_groups' needs a name for each, in a list.")
        looks = [replace(look, name=name) for look, name in zip(looks, names, strict=True)]
    hollow = [one == "original" or (not known and at > 0) for at, one in enumerate(subjects)]
    return tuple(
        replace(look, marker="s", line="", hollow=empty)
        for look, empty in zip(looks, hollow, strict=True)
    )


def _fill(
    axes: Axes, rows: list[str], shares: Sequence[dict[str, float]], looks: Sequence[Mark]
) -> None:
    bars = [
        Bar(at, one[name], place, len(shares))
        for place, one in enumerate(shares)
        for at, name in enumerate(rows)
    ]
    set_reach(axes, ends_of(bars), room=4.2, most=1.0)
    for place, look in enumerate(looks):
        put_bars(axes, [bar for bar in bars if bar.place == place], look)
    for at, name in enumerate(rows):
        name_row(axes, at, _short(name))


def _short(name: str) -> str:
    """The combination on two lines, each of its groups cut alike: no two become the same."""
    parts = [clean(one) for one in name.split(_BETWEEN)]
    room = max(4, _LETTERS // len(parts) - len(_BETWEEN))
    if len(_BETWEEN.join(parts)) > _LETTERS:
        parts = [one if len(one) <= room else f"{one[: room - 1].rstrip()}…" for one in parts]
    return _BETWEEN.join(parts)
