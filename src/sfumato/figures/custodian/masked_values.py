"""How many records of each value were masked."""

from __future__ import annotations

from dataclasses import replace

from sfumato.errors import SfumatoError, did_you_mean
from sfumato.figures.custodian.bars import draw_bars
from sfumato.figures.custodian.source import Source, read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import label_axes, make_picture, make_sheet, name_row, set_rows
from sfumato.figures.sheet.style import ORIGINAL, RELEASED, use_house_style
from sfumato.figures.sheet.text import clean_name

NEEDED = ("variable", "value", "records", "masked_records")
_MOST_ROWS = 60
_ROOM = 4.6
_FEWEST = 3
"""Records that a public picture shows at least."""


def masked_values(
    evidence: Source, variable: str | None = None, *, public: bool = False
) -> Picture:
    """For each value of a variable its records, and how many of them were masked.

    Question: does masking hit the rare values, or everybody?
    Assumes: nothing.

    Parameters
    ----------
    evidence : of the measure "masked_cells", or its table.
    variable : which to draw. Default: the one of which most cells are masked.
    public : the custodian's word that the original's counts may be shown. Values with 1 or 2
        records, masked or left, are then left out.

    Examples
    --------
    >>> rows = [{"variable": "race", "value": "a", "records": 90, "masked_records": 9},
    ...         {"variable": "race", "value": "b", "records": 10, "masked_records": 8}]
    >>> masked_values(rows).title
    'Records and masked records, by race'

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Figs. S1 and S2.
    """
    table = read_rows(evidence, NEEDED, picture="masked_values")
    totals: dict[str, float] = {}
    for row in table:
        name = str(row["variable"])
        totals[name] = totals.get(name, 0.0) + to_float(row["masked_records"])
    if variable is not None and variable not in totals:
        raise SfumatoError(
            f"The table has no variable '{variable}'.", hint=did_you_mean(variable, totals)
        )
    chosen = max(totals, key=lambda name: totals[name]) if variable is None else variable
    rows = [row for row in table if str(row["variable"]) == chosen]
    if len(rows) > _MOST_ROWS:
        raise SfumatoError(f"'{chosen}' has {len(rows)} values; the picture shows {_MOST_ROWS}.")
    counts = [(to_float(row["records"]), to_float(row["masked_records"])) for row in rows]
    if public:
        enough = [_shows_enough(*pair) for pair in counts]
        rows = [row for row, shown in zip(rows, enough, strict=True) if shown]
        counts = [pair for pair, shown in zip(counts, enough, strict=True) if shown]
    if not rows:
        raise refuse_empty("masked_values")
    looks = (
        replace(ORIGINAL, name="All records", marker="s", line="", hollow=True),
        replace(RELEASED, name="Masked records", marker="s", line=""),
    )
    with use_house_style():
        figure, (axes,) = make_sheet(0.75 + 0.46 * len(rows))
        set_rows(axes, len(rows))
        draw_bars(axes, list(zip(*counts, strict=True)), looks, room=_ROOM)
        for index, row in enumerate(rows):
            name_row(axes, index, str(row["value"]))
        label_axes(axes, "Records")
        left_out = " Values with 1 or 2 records are left out." if public else ""
        return make_picture(
            figure,
            f"Records and masked records, by {clean_name(chosen)}",
            "A hollow bar is all records with a value, the bar below it those of them whose cell "
            f"was masked: suppressed or made broader.{left_out}",
            public=public,
            legend=looks,
        )


def _shows_enough(records: float, masked: float) -> bool:
    """Whether neither the masked records nor those that are left are one or two."""
    return not any(0 < count < _FEWEST for count in (masked, records - masked))
