"""What an outsider finds, by what the outsider knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.bars import draw_bars
from sfumato.figures.custodian.source import Source, read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import label_axes, make_picture, make_sheet, name_row, set_rows
from sfumato.figures.sheet.style import ORIGINAL, RELEASED, Mark, pick_mark, use_house_style
from sfumato.figures.sheet.text import clean_name

_TEXTS = {
    "reidentification": (
        "records that can be singled out",
        (
            "A bar is the share of records that may be the only ones to fit what the outsider "
            "knows, in the worst case."
        ),
    ),
    "attribute_disclosure": (
        "records with a disclosed value",
        (
            "A bar is the share of records whose confidential value, or whether the statement is "
            "true, becomes known to anybody who finds their class."
        ),
    ),
}
NUMBERS = tuple(_TEXTS)
"""What can be drawn by what is known."""
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
    """The share of records singled out or disclosed, for every combination of what is known.

    Question: which knowledge of an outsider is dangerous, and what does protection change?
    Assumes: nothing.

    Parameters
    ----------
    evidence : of the measure "reidentification" or "attribute_disclosure" with `groups`, or its
        table. With more than 4 groups the 20 combinations with the highest risk are drawn, the
        riskiest first.
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
    sources = [evidence] if beside is None else [evidence, beside]
    subjects = [source.subject if isinstance(source, Evidence) else "" for source in sources]
    number = _find_number(sources)
    risks = [_read_risks(source, number, records, public=public) for source in sources]
    rows = list(risks[0])
    if any(set(other) != set(rows) for other in risks):
        raise SfumatoError(
            "The two tables of 'known_groups' do not hold the same combinations of groups.",
            hint="measure both with the same `groups`.",
        )
    if not any(math.isfinite(share) for by_name in risks for share in by_name.values()):
        raise refuse_empty("known_groups")
    looks = _choose_looks(subjects, names)
    rows, left_out = _choose_rows(rows, risks, subjects)
    which = f"the {len(rows)} riskiest combinations, {left_out} are left out" if left_out else ""
    with use_house_style():
        figure, (axes,) = make_sheet(0.75 + (0.26 + 0.1 * len(sources)) * len(rows))
        set_rows(axes, len(rows))
        series = [[by_name[name] for name in rows] for by_name in risks]
        draw_bars(axes, series, looks, room=4.2, most=1.0)
        for row, name in enumerate(rows):
            name_row(axes, row, _shorten(name))
        title, reading = _TEXTS[number]
        label_axes(axes, f"Share of {title}: {which}".strip(" :"), width=60)
        return make_picture(
            figure,
            f"{title.capitalize()}, by what is known",
            reading
            + (f" Shown: {which}." if which else "")
            + (f" Fewer than {_FEWEST} records are drawn as none." if public else ""),
            public=public,
            legend=looks if len(looks) > 1 or names else (),
        )


def _choose_rows(
    rows: list[str], risks: Sequence[dict[str, float]], subjects: Sequence[str]
) -> tuple[list[str], int]:
    """As they come up to four groups; of more, the riskiest first, and how many are left out.

    The risk that counts is that of the released data, where they stand beside the original.
    """
    if len(rows) <= _OF_FOUR:
        return rows, 0
    released = [
        risk for risk, subject in zip(risks, subjects, strict=True) if subject == "released"
    ]

    def rank(name: str) -> tuple[float, ...]:
        return tuple(
            -max((risk[name] for risk in some if math.isfinite(risk[name])), default=-1.0)
            for some in (released or risks, risks)
        )

    ranked = sorted(rows, key=rank)
    return ranked[:_SHOWN], len(ranked[_SHOWN:])


def _find_number(sources: Sequence[Source]) -> str:
    """The number that the tables hold."""
    for source in sources:
        if isinstance(source, Evidence) and not _has_groups(source):
            raise SfumatoError(
                f"The picture 'known_groups' needs risks by what is known; '{source.name}' was "
                "measured without groups.",
                hint='measure it with groups={"census": [...], "family": [...]}.',
            )
    tables = [read_rows(source, ["known"], picture="known_groups")[0] for source in sources]
    numbers = [name for name in NUMBERS if all(name in row for row in tables)]
    if not numbers:
        raise SfumatoError(
            f"The picture 'known_groups' needs a column {' or '.join(NUMBERS)} in every table.",
            hint="measure both with the same measure and the same `groups`.",
        )
    return numbers[0]


def _read_risks(
    source: Source, number: str, records: int | None, *, public: bool
) -> dict[str, float]:
    """The risk of each combination; when public, 0 where it is that of one or two records."""
    rows = read_rows(source, ["known", number], picture="known_groups")
    if len(rows) > _MOST:
        raise SfumatoError(f"The table has {len(rows)} rows; the picture shows {_MOST} at most.")
    risks = {str(row["known"]): to_float(row[number]) for row in rows}
    if not public:
        return risks
    if "disclosed_records" in rows[0]:
        counts = {str(row["known"]): to_float(row["disclosed_records"]) for row in rows}
    else:
        size = _read_size(source, records)
        counts = {name: share * size for name, share in risks.items()}
    return {
        name: 0.0 if counts[name] < _FEWEST - _ROUNDING else share for name, share in risks.items()
    }


def _read_size(source: Source, records: int | None) -> int:
    """How many records the shares are of."""
    measured = source.details.get("records") if isinstance(source, Evidence) else None
    size = records if measured is None else measured
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise SfumatoError(
            "A public 'known_groups' must hide 1 or 2 records, and shares alone do not tell them.",
            hint="say how many records there are: records=...",
        )
    return size


def _has_groups(evidence: Evidence) -> bool:
    if evidence.table is None:
        return False
    return "known" in read_rows(evidence, [], picture="known_groups")[0]


def _choose_looks(subjects: Sequence[str], names: Sequence[str] | None) -> tuple[Mark, ...]:
    """Outlines and filled bars, so that nobody needs to tell colours apart."""
    known = len(set(subjects)) == len(subjects) and set(subjects) <= set(_LOOKS)
    if len(subjects) > 1 and not known and names is None:
        raise SfumatoError(
            "The picture 'known_groups' cannot tell the two apart: they are not the original and "
            "the released data.",
            hint='name them, for instance names=["k = 5", "k = 20"].',
        )
    looks = [
        _LOOKS[subject] if known else pick_mark(index, f"{index + 1}")
        for index, subject in enumerate(subjects)
    ]
    if names is not None:
        if isinstance(names, str) or len(names) != len(subjects):
            raise SfumatoError("The picture 'known_groups' needs a name for each, in a list.")
        looks = [replace(look, name=name) for look, name in zip(looks, names, strict=True)]
    return tuple(
        replace(
            look, marker="s", line="", hollow=subject == "original" or (not known and index > 0)
        )
        for index, (look, subject) in enumerate(zip(looks, subjects, strict=True))
    )


def _shorten(name: str) -> str:
    """The combination on two lines, each of its groups cut alike: no two become the same."""
    parts = [clean_name(part) for part in name.split(_BETWEEN)]
    room = max(4, _LETTERS // len(parts) - len(_BETWEEN))
    if len(_BETWEEN.join(parts)) > _LETTERS:
        parts = [part if len(part) <= room else f"{part[: room - 1].rstrip()}…" for part in parts]
    return _BETWEEN.join(parts)
