"""Which identifiers of a profile's list are still in the data: names, places, dates, ages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence, Subject
from sfumato.io import frames
from sfumato.kernels.arrays import Mask
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.profiles import Identifier, load_profile
from sfumato.risk._persons import choose_audience
from sfumato.schema.inference.formats import FORMATS, find_format
from sfumato.schema.inference.names import SIGNS, find_signs
from sfumato.schema.inference.profile import ValueProfile, read_profiles
from sfumato.schema.inference.suggestions import infer_role

LARGE = 20_000
"""More people than this live in an area of which three digits of the ZIP code may leave."""
OLDEST = 90
"""From this age on people are put into one category."""
_BIRTH = SIGNS["the date or year of birth"]
_LOOSE = ("a number or code of a record", "free text")
"""What a name may speak of by chance, so that values must bear it out."""
_NUMBERS = ("names", "places", "dates", "ages")
_NOTHING = r"^\**$"
_YEAR = r"^(\d{4})$"
_YEARS = r"^\[(?:\d{4})(?:-01-01)?;(\d{4})(?:-12-31)?\]$"
_AGE = r"\d+(?:\.\d+)?"
_OLDEST_GROUP = rf"^\[{OLDEST};{_AGE}\]$"
_ZIP3 = r"^(\d{3})\**$"
_DAYS = (18_000_101, 22_001_231)
"""Whole numbers between these, such as 20240517, are days."""


@parameters
class IdentifiersLeft(Measure):
    """Share of people of whom the data still hold an identifier that a profile lists.

    Question: is anything left of the identifiers that the rule wants gone?
    Assumes: names and values of variables tell what they are, as for `sfumato inspect`. Whatever is
    called `x17` and looks like nothing is not recognised: read the table of variables.

    Names, numbers and pictures count wherever a cell is not empty. Places smaller than a state
    count too, but for three digits of a ZIP code of an area with more than 20,000 people, or 000.
    Dates count unless they are years. Ages over 90 count, and years of birth that tell them; 90
    stands for all who are 90 or older. `names_left`, `places_left`, `dates_left` and `ages_left`
    are the shares by rule.

    Parameters
    ----------
    profile : the profile with the list.
    allow : variables that are no identifiers: whatever they are called, such as a region that is
        larger than a state.
    populations : people who live in the area of each first three ZIP digits. An area that is not
        listed counts as too small.
    year : the year for which ages are told from years of birth. Default: the latest year in any
        other date.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [34, 93], "zip": ["021", "036"], "visit_date": [2019, 2021]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "zip": "quasi", "visit_date": "quasi"}))
    >>> found = IdentifiersLeft(populations={"021": 640_000}).measure(data)
    >>> found.value, found.details["places_left"], found.details["ages_left"]
    (0.5, 0.5, 0.5)

    References: 45 CFR 164.514(b)(2).
    """

    name = "identifiers_left"
    counts_persons = True
    by_default = False
    odd = {"one row": 1, "all missing": 0}
    examples = (
        {"year": 2024},
        {"year": 2020, "allow": ["region"], "populations": {"021": 640_000}},
    )
    numbers = (
        Number.share("identifiers_left"),
        Number.share("names_left"),
        Number.share("places_left"),
        Number.share("dates_left"),
        Number.share("ages_left"),
    )
    profile: str = "hipaa-safe-harbor"
    allow: list[str] | None = None
    populations: dict[str, Annotated[int, Field(ge=0)]] | None = None
    year: Annotated[int, Field(ge=1800, le=2200)] | None = None

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Look at every variable for what the profile lists."""
        del engine  # all records are in memory
        if not len(data):
            raise MeasureError("There is no record to look at.", hint="are the data empty?")
        data.schema.require(self.allow or [])
        identifiers = recognise_identifiers(data, self.profile, self.allow or ())
        masks = {rule: np.zeros(len(data), bool) for rule in _NUMBERS}
        rows: list[dict[str, Any]] = []
        for name, identifier in identifiers.items():
            for rule, mask in self._mark(data, name, identifier, identifiers).items():
                masks[rule] |= mask
                rows.append(
                    {"variable": name, "identifier": identifier.name, "title": identifier.title,
                     "rule": rule, "share": data.units.share(mask)}
                )  # fmt: skip
        schema = {"variable": pl.String, "identifier": pl.String, "title": pl.String,
                  "rule": pl.String, "share": pl.Float64}  # fmt: skip
        left_in = sorted({row["variable"] for row in rows if row["share"] > 0})
        return Evidence(
            name=self.name,
            subject=subject,
            value=data.units.share(np.logical_or.reduce(list(masks.values()))),
            direction=self.direction,
            table=data.like(pl.DataFrame(rows, schema=schema)),
            details={
                **{f"{rule}_left": data.units.share(mask) for rule, mask in masks.items()},
                "left_in": tuple(left_in),
                "recognised": tuple(identifiers),
                "records": len(data),
            },
            assumptions=(
                "Identifiers are recognised by names and values of variables; others are not seen.",
                "Ages are in years.",
                *data.units.describe(),
            ),
            audience=choose_audience(data, subject, data.units),
        )

    def _mark(
        self,
        data: Dataset,
        name: str,
        identifier: Identifier,
        identifiers: Mapping[str, Identifier],
    ) -> dict[str, Mask]:
        """By rule, the records of which a variable still tells too much."""
        cells = to_texts(data, name)
        if identifier.action == "drop":
            return {identifier.rule: _to_mask(~cells.str.contains(_NOTHING))}
        if identifier.action == "zip3":
            return {"places": self._mark_places(cells)}
        if identifier.action == "ages":
            return {"ages": _mark_ages(cells)}
        too_fine = {"dates": _mark_dates(cells, data.column(name))}
        if not is_birth(name):
            return too_fine
        years = _read_years(cells, data.column(name))
        latest = self.year or _find_latest(data, identifiers)
        if latest is None:
            raise MeasureError(
                f"'{name}' tells ages only together with the year in which they are counted.",
                hint="say which it is: [evaluate.identifiers_left] year = 2024.",
            )
        return too_fine | {"ages": _to_mask(years < latest - OLDEST)}

    def _mark_places(self, cells: pl.Series) -> Mask:
        large = [area for area, people in (self.populations or {}).items() if people > LARGE]
        area = cells.str.extract(_ZIP3)
        may_leave = area.is_in(["000", *large]) | cells.str.contains(_NOTHING)
        return _to_mask(~may_leave.fill_null(value=False) & cells.is_not_null())


def recognise_identifiers(
    data: Dataset, profile: str, allow: tuple[str, ...] | list[str]
) -> dict[str, Identifier]:
    """By variable, which identifier of the profile's list it is; what is none is left out."""
    known = load_profile(profile).identifiers
    by_sign = {sign: item for item in known for sign in item.signs}
    by_format = {shown: item for item in known for shown in item.formats}
    patterns = [*dict.fromkeys(known_format.regex for known_format in FORMATS)]
    identifiers: dict[str, Identifier] = {}
    for name, profile_of_values in read_profiles(frames.wrap(data.frame), patterns):
        if name in allow or profile_of_values is None:
            continue
        identifier = _recognise(name, profile_of_values, by_sign, by_format)
        if identifier is not None:
            identifiers[name] = identifier
    return identifiers


def _recognise(
    name: str,
    values: ValueProfile,
    by_sign: Mapping[str, Identifier],
    by_format: Mapping[str, Identifier],
) -> Identifier | None:
    looks = find_format(FORMATS, values)
    if looks is not None and looks.what in by_format:
        return by_format[looks.what]
    signs = find_signs(name)
    if signs and signs[0].role == "direct" and signs[0].what not in _LOOSE:
        return by_sign.get(signs[0].what)  # whatever the values look like
    role = infer_role(name, signs, values, tall=False)
    if role.sign is not None:
        return None if _is_state(name) else by_sign.get(role.sign.what)
    if values.family == "date" or values.holds_dates or values.range_kind == "date":
        return by_format.get("dates")
    if role.role == "direct":
        return by_sign.get("a number or code of a record")
    return None


def is_birth(name: str) -> bool:
    """Whether the name of a variable speaks of the date or year of birth."""
    return find_signs(name)[:1] == [_BIRTH]


def tells_days(data: Dataset, name: str) -> bool:
    """Whether a variable with dates tells more than years."""
    return bool(_mark_dates(to_texts(data, name), data.column(name)).any())


def _is_state(name: str) -> bool:
    return any(word in name.casefold().split("_") for word in ("state", "states"))


def to_texts(data: Dataset, name: str) -> pl.Series:
    """The cells as text; codes for missing, and what no record shows, are empty."""
    values = data.column(name)
    if values.dtype.is_float():
        integers = values.cast(pl.Int64, strict=False)
        values = integers if bool((integers == values).all()) else values
    return values.cast(pl.String)


def _mark_dates(cells: pl.Series, values: pl.Series) -> Mask:
    if values.dtype.is_temporal():
        return _to_mask(cells.is_not_null())
    if values.dtype.is_numeric():
        return _to_mask(values.is_between(*_DAYS))
    coarse = cells.str.contains(f"{_NOTHING}|{_YEAR}|{_YEARS}")
    return _to_mask(~coarse)


def _read_years(cells: pl.Series, values: pl.Series) -> pl.Series:
    """The latest year that a cell may stand for."""
    if values.dtype.is_temporal():
        return values.dt.year().cast(pl.Int64)
    latest = cells.str.extract(_YEARS).fill_null(cells.str.extract(r"(\d{4})"))
    return latest.cast(pl.Int64, strict=False)


def _find_latest(data: Dataset, identifiers: Mapping[str, Identifier]) -> int | None:
    others = [
        name
        for name, identifier in identifiers.items()
        if identifier.action == "years" and not is_birth(name)
    ]
    years = [_read_years(to_texts(data, name), data.column(name)).max() for name in others]
    known = [int(year) for year in years if isinstance(year, int)]
    return max(known, default=None)


def _mark_ages(cells: pl.Series) -> Mask:
    numbers = cells.str.extract_all(_AGE).list.eval(pl.element().cast(pl.Float64))
    one_group = cells.str.contains(_OLDEST_GROUP)
    return _to_mask((numbers.list.max() > OLDEST) & ~one_group)


def _to_mask(marked: pl.Series) -> Mask:
    mask: Mask = marked.fill_null(value=False).to_numpy()
    return mask
