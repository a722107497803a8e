"""Which picture shows which evidence: the one registry, read by the album and by the report.

A measure names its picture by the class attribute `picture`. What is drawn from a table alone can
be drawn anywhere, also from a file; what shows single records needs the measure and the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.displacement import displacement
from sfumato.figures.custodian.forest import forest
from sfumato.figures.custodian.known_groups import NUMBERS as BY_KNOWLEDGE
from sfumato.figures.custodian.known_groups import known_groups
from sfumato.figures.custodian.landing import landing
from sfumato.figures.custodian.masked_values import NEEDED as MASKED_VALUES
from sfumato.figures.custodian.masked_values import masked_values
from sfumato.figures.custodian.moments import NEEDED as MOMENTS
from sfumato.figures.custodian.moments import moments
from sfumato.figures.custodian.peers import alternatives, gains, protection, widths
from sfumato.figures.custodian.propensity import propensity
from sfumato.figures.custodian.records import at_risk
from sfumato.figures.custodian.risk_curve import risk_curve
from sfumato.figures.custodian.source import Row, Source, read_rows
from sfumato.figures.custodian.sweep import sweep
from sfumato.figures.sheet.picture import Picture
from sfumato.measure import Measure

Details = Mapping[str, Any]
BY_NUMBER = ("known_variables", "mean", "highest")
"""The columns of what is linked by how many variables are known."""
_WIDTHS = [0.0, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
_NEAR = [0.01, 0.05, 0.1, 0.2]
_ORDERED = ("integer", "date", "ordinal")
_BUDGET = 200_000_000
"""Generalisations times records times combinations for a picture: some seconds."""


@dataclass(frozen=True)
class _FromTable:
    """A picture that needs a table with these columns, and some of the details."""

    columns: tuple[str, ...]
    draw: Callable[[Source, Details, bool], Picture]
    holds: Callable[[list[Row]], bool] = bool


_FROM_TABLES = {
    "forest": _FromTable(
        ("term", "original_low", "released_low"),
        lambda source, details, public: forest(source, level=details.get("level"), public=public),
    ),
    "known_groups": _FromTable(
        ("known",),
        lambda source, details, public: known_groups(
            source, records=details.get("records"), public=public
        ),
        lambda rows: any(name in rows[0] for name in BY_KNOWLEDGE),
    ),
    "landing": _FromTable(
        ("from_quantile", "to_quantile", "up_to_0"),
        lambda source, details, public: landing(source, by=details.get("by"), public=public),
    ),
    "masked_values": _FromTable(
        MASKED_VALUES,
        lambda source, _, public: masked_values(source, public=public),
        lambda rows: any(row["masked_records"] for row in rows),
    ),
    "moments": _FromTable(
        MOMENTS,
        lambda source, _, public: moments(source, public=public),
        lambda rows: any(row["statistic"] == "correlation" for row in rows),
    ),
    "propensity": _FromTable(
        ("data", "q1", "median", "q3"),
        lambda source, details, public: propensity(
            source, share=details.get("share_released"), public=public
        ),
    ),
    "sweep": _FromTable(
        BY_NUMBER,
        lambda source, _, public: sweep(
            source,
            BY_NUMBER[0],
            {"Share of persons linked, over subsets": BY_NUMBER[1:]},
            public=public,
        ),
    ),
}


def find_picture(measure: str) -> str | None:
    """The picture that a measure of this name has; None where it has none or is not installed."""
    from sfumato import catalogue

    known = catalogue.measures().get(measure)
    return None if known is None else known.picture


def draw_evidence(
    picture: str | None, table: Source, details: Details, *, public: bool = False
) -> Picture | None:
    """The picture of some evidence as far as its table and details can show it.

    None where there is no such picture, or where the table does not hold what it needs.

    Parameters
    ----------
    picture : its name in `sf.pictures`, as the measure says.
    table : a frame or rows.
    details : of the evidence.
    public : whether the evidence may be shown outside.

    Examples
    --------
    >>> rows = [{"from_quantile": 0.0, "to_quantile": 1.0, "up_to_0": 0.4, "up_to_1": 0.6}]
    >>> draw_evidence("landing", rows, {}).title
    'How far off an attacker lands'
    """
    entry = _FROM_TABLES.get(picture or "")
    if entry is None or not _fits(entry, table):
        return None
    return entry.draw(table, details, public)


def _fits(entry: _FromTable, table: Source) -> bool:
    try:
        rows = read_rows(table, entry.columns, picture="album")
    except SfumatoError:
        return False
    return entry.holds(rows)


def album(
    found: Mapping[str, Evidence],
    measures: Mapping[str, Measure],
    original: Dataset,
    released: Dataset,
) -> tuple[dict[str, Picture], dict[str, str]]:
    """All pictures by name, and for those that could not be drawn the reason.

    Parameters
    ----------
    found : the evidence by label.
    measures : the measures that gave it, by the same labels.
    original, released : what was measured, record by record.
    """
    pictures: dict[str, Picture] = {}
    failed: dict[str, str] = {}
    for label, evidence in found.items():
        if not evidence.computed:
            continue
        drawings = _list_drawings(label, evidence, measures[label], original, released)
        for name, draw in drawings.items():
            try:
                pictures[name] = draw()
            except SfumatoError as error:
                failed[name] = error.what
    return pictures, failed


def album_of_original(
    found: Mapping[str, Evidence], measures: Mapping[str, Measure], data: Dataset
) -> tuple[dict[str, Picture], dict[str, str]]:
    """Pictures of the data as they are, before any release; and why some could not be drawn.

    Parameters
    ----------
    found : the evidence by label.
    measures : the measures that gave it, by the same labels.
    data : what was measured.
    """
    drawings: dict[str, Callable[[], Picture]] = {}
    for label, evidence in found.items():
        measure: Any = measures[label]
        if not evidence.computed:
            continue
        if measure.picture == "protection":
            drawings |= _list_peer_drawings(label, evidence, measure, data)
            drawings |= _list_further_peer_drawings(label, evidence, measure, data)
        elif evidence.table is not None:
            entry = _FROM_TABLES.get(measure.picture or "")
            if entry is not None and _fits(entry, evidence.table):
                drawings[label] = partial(entry.draw, evidence, evidence.details, False)
    pictures: dict[str, Picture] = {}
    failed: dict[str, str] = {}
    for name, draw in drawings.items():
        try:
            pictures[name] = draw()
        except SfumatoError as error:
            failed[name] = error.what
    return pictures, failed


def _list_further_peer_drawings(
    label: str, evidence: Evidence, measure: Any, data: Dataset
) -> dict[str, Callable[[], Picture]]:
    """Which values can be ruled out, and how much coarser variables would protect."""
    from sfumato.risk.known import known_variables
    from sfumato.risk.protection.equal_widths import widths as try_widths
    from sfumato.risk.protection.who import who

    known = known_variables(measure.known, data, "original")
    worst = str(evidence.details["worst_variable"])
    asked = {
        name: getattr(measure, name)
        for name in ("p", "q", "domains", "most", "effort", "tolerance", "relative_tolerance",
                     "individuals", "budget")
    }  # fmt: skip
    drawings: dict[str, Callable[[], Picture]] = {
        f"{label}-alternatives": lambda: alternatives(who(data, measure.sensitive, known, **asked))
    }
    for variable in known:
        if variable != worst and data.schema[variable].kind in _ORDERED:
            drawings[f"{label}-by-width-of-{variable}"] = partial(
                _draw_widths,
                lambda name: try_widths(data, worst, name, known, measure.p, budget=_BUDGET),
                variable,
            )
    return drawings


def _draw_widths(compute: Callable[[str], Any], variable: str) -> Picture:
    return widths(compute(variable), variable=variable)


def _list_drawings(
    label: str, evidence: Evidence, measure: Any, original: Dataset, released: Dataset
) -> dict[str, Callable[[], Picture]]:
    """The pictures of one piece of evidence, and those that belong beside them."""
    picture = measure.picture
    if picture == "at_risk":
        return {
            f"{label}-at-risk": lambda: at_risk(original, released, evidence),
            f"{label}-by-width": lambda: risk_curve(
                measure.curve(original, released, w1=_WIDTHS, w2=_NEAR)
            ),
        }
    if picture == "protection":
        return _list_peer_drawings(label, evidence, measure, released)
    if picture == "displacement":
        return {label: lambda: displacement(evidence)}
    if picture == "known_groups" and evidence.table is not None:
        # Beside what the original would have given away, measured alike.
        draw = lambda: known_groups(measure.measure(original), evidence)  # noqa: E731
        fits = _fits(_FROM_TABLES[picture], evidence.table)
        return {f"{label}-by-knowledge": draw} if fits else {}
    # Only some of these measures have a table over what varies.
    varies = picture != "sweep" or _fits(_FROM_TABLES[picture], evidence.table)
    if picture in _FROM_TABLES and varies:
        return {label: lambda: _FROM_TABLES[picture].draw(evidence, evidence.details, False)}
    return {}


def _list_peer_drawings(
    label: str, evidence: Evidence, measure: Any, released: Dataset
) -> dict[str, Callable[[], Picture]]:
    """The map of people, and what would protect them where the variable is in most danger."""
    from sfumato.risk.known import known_variables
    from sfumato.risk.protection.gains import gains as compute_gains

    known = known_variables(measure.known, released, "released")
    worst = str(evidence.details["worst_variable"])
    return {
        label: lambda: protection(evidence, p=measure.p),
        f"{label}-gains": lambda: gains(compute_gains(released, worst, known, measure.p)),
    }
