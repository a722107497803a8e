"""The best levels of hierarchies, on Adult with the nine hierarchies of ARX (`SFUMATO_DATA`).

The baseline is one polars `group_by` of all columns: what it takes to find the classes of one of
the 12,960 choices of levels. The larger data are Adult drawn again and again, with age, education
and occupation drawn by themselves, so that most records differ.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import polars as pl

import sfumato as sf
from benchmarks.rows import Row, compare
from sfumato.engines import LocalEngine

FILES = {
    "gender": "sex",
    "age": "age",
    "race": "race",
    "marital_status": "marital-status",
    "education": "education",
    "native_country": "native-country",
    "workclass": "workclass",
    "salary": "salary-class",
    "occupation": "occupation",
}
ADULT, LARGE = 30_162, 1_200_000
SETUP = """
import polars as pl
import sfumato as sf
from benchmarks.bench_generalise import read_adult
data = read_adult({records})
frame = data.frame
sf.methods.Generalise(k=5).apply(read_adult(30_162, most=1000))
frame.head(100).group_by(frame.columns).len()
"""
OURS = "sf.methods.Generalise(k=5).apply(data)"
THEIRS = "frame.group_by(frame.columns).len()"


def read_adult(records: int, most: int | None = None) -> sf.Dataset:
    """Adult, or as many records drawn from it."""
    folder = Path(os.environ["SFUMATO_DATA"])
    frame = pl.read_csv(folder / "adult.csv")
    if records > len(frame):
        drawn = frame.sample(records, with_replacement=True, seed=1)
        alone = [
            frame[name].sample(records, with_replacement=True, seed=seed)
            for seed, name in enumerate(("age", "education", "occupation"))
        ]
        frame = drawn.with_columns(alone)
    columns = {
        name: sf.Column(
            role="quasi",
            kind="integer" if name == "age" else "nominal",
            hierarchy=sf.hierarchies.read(folder / f"arx/hierarchies/adult_hierarchy_{file}.csv"),
        )
        for name, file in FILES.items()
    }
    return sf.Dataset(frame.head(most or records), sf.Schema(columns))


ROWS = [
    Row(
        f"the best of 12,960 choices of levels, 9 variables, {records:,} records",
        OURS,
        THEIRS,
        "one polars group_by of all columns",
        SETUP.format(records=records),
        quick=records == ADULT,
    )
    for records in (ADULT, LARGE)
]


def main() -> None:
    """Granularity (higher is better), what is suppressed, and CPU seconds, by loss."""
    data = read_adult(ADULT)
    print(
        f"{'loss':>16} {'limit':>6} {'least loss':>11} {'suppressed':>11} {'tried':>6} {'CPU s':>6}"
    )
    for loss in ("granularity", "entropy", "discernibility", "class size"):
        for limit in (0.0, 0.05, 1.0):
            start = time.process_time()
            method = sf.methods.Generalise(k=5, suppression=limit, loss=loss)
            fitted = method.fit(data, LocalEngine())
            seconds = time.process_time() - start
            print(
                f"{loss:>16} {limit:>6} {fitted['loss']:>11.5f} {fitted['suppressed']:>11.4f} "
                f"{fitted['tried']:>6} {seconds:>6.2f}"
            )


if __name__ == "__main__":
    list(compare(ROWS))
    main()
