"""How far protected figures are from the unprotected ones: 12 kinds, 4 protections, 6 data sets.

The distance is the one that captions tell: the largest difference in the share of the records on
one side of a line, or in one corner of two; of a curve of survival, in the share without the event.
`SFUMATO_DATA=… python -m benchmarks.study_figures` prints two tables in percentage points: the
median and the largest of the six data sets, then all of them.

Of more than 2000 records, 2000 are drawn. Data sets without a time and an event lend another number
and a yes or no: the arithmetic of the figure is the same.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf

KEY = bytes(range(32))
PROTECTIONS = ("suppress", "generalise", "deterministic", "noise")
RECORDS = 2000
DATA_SETS = ("adult", "titanic", "diabetes", "cervical", "exam", "national2019")
SCHOOLING = ("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad",
             "Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school",
             "Doctorate")  # fmt: skip
COLUMNS: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "adult": (
        pl.col("age"),
        pl.col("education").replace_strict(SCHOOLING, range(1, 17), return_dtype=pl.Int64),
        pl.col("marital_status"),
        pl.col("age"),
        pl.col("marital_status") != "Never-married",
    ),
    "titanic": (
        pl.col("Age"), pl.col("Fare"), pl.col("Parch"), pl.col("Age"), pl.col("Survived") == 0,
    ),
    "diabetes": (
        pl.col("lab_procedures"), pl.col("medications"), pl.col("race"), pl.col("lab_procedures"),
        pl.col("readmitted") != "NO",
    ),
    "cervical": (
        pl.col("age"), pl.col("pregnancies"), pl.col("pregnancies"), pl.col("age"),
        pl.col("biopsy") == 1,
    ),
    "exam": (
        pl.col("standLRT"), pl.col("normexam"), pl.col("vr"),
        (pl.col("normexam") - pl.col("normexam").min()), pl.col("sex") == "F",
    ),
    "national2019": (
        pl.col("AGEP").cast(pl.Int64),
        pl.col("PINCP").cast(pl.Float64, strict=False),
        pl.col("EDU"),
        pl.col("AGEP").cast(pl.Int64),
        pl.col("DREM") == "1",
    ),
}  # fmt: skip
"""Two numbers, categories, a time and an event."""


def load(name: str) -> pl.DataFrame:
    """The five variables of a data set, complete records, at most so many."""
    path = Path(os.environ["SFUMATO_DATA"]) / f"{name}.csv"
    raw = pl.read_csv(path, infer_schema=name != "national2019", infer_schema_length=None)
    names = ("x", "y", "level", "time", "event")
    columns = [expression.alias(own) for own, expression in zip(names, COLUMNS[name], strict=True)]
    frame = raw.select(columns).drop_nulls().filter(pl.col("time") >= 0)
    return frame.sample(RECORDS, seed=1) if len(frame) > RECORDS else frame


def fit_outcomes(frame: pl.DataFrame) -> pl.DataFrame:
    """Fitted values, residuals and leverages of a straight line of y on x."""
    x, y = frame["x"].to_numpy().astype(float), frame["y"].to_numpy().astype(float)
    slope, intercept = np.polyfit(x, y, 1)
    fitted = intercept + slope * x
    leverage = 1 / len(x) + (x - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    return pl.DataFrame({"fitted": fitted, "residual": y - fitted, "leverage": leverage})


KINDS: dict[str, Callable[..., Any]] = {
    "bar": lambda frame, **way: sf.plots.bar(frame, "level", **way),
    "histogram": lambda frame, **way: sf.plots.histogram(frame, "x", **way),
    "density": lambda frame, **way: sf.plots.density(frame, "x", **way),
    "violin": lambda frame, **way: sf.plots.violin(frame, "y", **way),
    "box": lambda frame, **way: sf.plots.box(frame, ["x", "y"], **way),
    "survival": lambda frame, **way: sf.plots.survival(frame, "time", "event", **way),
    "scatter": lambda frame, **way: sf.plots.scatter(frame, "x", "y", **way),
    "heatmap": lambda frame, **way: sf.plots.heatmap(frame, "x", "y", **way),
    "contour": lambda frame, **way: sf.plots.contour(frame, "x", "y", **way),
    "residuals": lambda frame, **way: sf.plots.residuals(fit_outcomes(frame), **way),
    "qq": lambda frame, **way: sf.plots.qq(frame, "y", **way),
    "leverage": lambda frame, **way: sf.plots.leverage(fit_outcomes(frame), **way),
}


def measure(frame: pl.DataFrame, kind: str, protection: str) -> float | None:
    """The distance of one figure; None where it is refused."""
    try:
        plot = KINDS[kind](frame, protection=protection, key=KEY)
    except sf.outputs.OutputRefused:
        return None
    return float(plot.details["distance"])


def format_points(share: float | None) -> str:
    """In percentage points."""
    return "refused" if share is None else f"{100 * share:.1f}"


def list_rows(found: dict[tuple[str, str, str], float | None]) -> Iterator[str]:
    """The two tables."""
    yield f"| kind | {' | '.join(PROTECTIONS)} |"
    yield "| --- |" + " --- |" * len(PROTECTIONS)
    for kind in KINDS:
        cells = []
        for protection in PROTECTIONS:
            all_of_them = [found[name, kind, protection] for name in DATA_SETS]
            shares = [share for share in all_of_them if share is not None]
            cells.append(f"{100 * statistics.median(shares):.1f} ({100 * max(shares):.1f})"
                         if shares else "refused")  # fmt: skip
        yield f"| {kind} | {' | '.join(cells)} |"
    yield ""
    yield f"| kind | data | {' | '.join(PROTECTIONS)} |"
    yield "| --- | --- |" + " --- |" * len(PROTECTIONS)
    for kind in KINDS:
        for name in DATA_SETS:
            cells = [format_points(found[name, kind, protection]) for protection in PROTECTIONS]
            yield f"| {kind} | {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    found: dict[tuple[str, str, str], float | None] = {}
    for name in DATA_SETS:
        frame = load(name)
        for kind in KINDS:
            for protection in PROTECTIONS:
                found[name, kind, protection] = measure(frame, kind, protection)
    print("\n".join(list_rows(found)))


if __name__ == "__main__":
    main()
