"""Values as text: as they are, masked, or as the period they lie in."""

from __future__ import annotations

import polars as pl

from sfumato.io.frames import canonical

_LENGTHS = {"month": "1mo", "quarter": "1q", "year": "1y"}


def texts_of(values: pl.Series) -> pl.Series:
    """One text for each value, the same for every frame library: days have no time of day."""
    if values.dtype != pl.Datetime:
        return canonical(values)
    days, moments = values.dt.date(), values.dt.replace_time_zone(None).cast(pl.Datetime("us"))
    midnight = (days.cast(pl.Datetime("us")) == moments).fill_null(value=False)
    exact = moments.dt.to_string("%Y-%m-%d %H:%M:%S%.6f")
    return days.cast(pl.String).zip_with(midnight, exact).alias(values.name)


def are_codes(values: pl.Series) -> bool:
    """Whether there are characters to keep: only text and whole numbers from 0 on have some."""
    if values.dtype == pl.String or values.null_count() == len(values):
        return True
    if not values.dtype.is_numeric():
        return False
    whole = values == values.cast(pl.Int64, strict=False)
    return bool(((values >= 0) & whole).fill_null(values.is_null()).all())


def masked(texts: pl.Series, keep: int) -> pl.Series:
    """Codes with only their beginning left: `937**`."""
    rest = texts.str.slice(keep).str.replace_all(r"(?s).", "*")
    return (texts.str.head(keep) + rest).alias(texts.name)


def in_periods(values: pl.Series, period: str, output: str) -> pl.Series:
    """The month, quarter or year of dates, as the range of its days or as a label."""
    days = values.cast(pl.Date) if values.dtype == pl.Null else values.dt.date()
    if output == "label":
        if period == "quarter":
            quarter = days.dt.quarter().cast(pl.String)
            return (days.dt.to_string("%Y-Q") + quarter).alias(values.name)
        return days.dt.to_string("%Y" if period == "year" else "%Y-%m").alias(values.name)
    first = days.dt.truncate(_LENGTHS[period])
    last = first.dt.offset_by(_LENGTHS[period]).dt.offset_by("-1d")
    written = first.dt.to_string("[%Y-%m-%d;") + last.dt.to_string("%Y-%m-%d]")
    return written.alias(values.name)
