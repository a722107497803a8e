"""What the ends of ranges tell, at people's values and on a grid: the cohort, Adult and Titanic.

Adult and Titanic are read from SFUMATO_DATA. For each clustered file: how many classes there are,
the smallest, the information loss, and for each variable with ranges how often "this class, and an
end of its range" isolates one original person, beside the control of `singling_out`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl

import sfumato as sf

COHORT = ["birth_date", "sex", "ethnicity", "region", "household_size"]
HEIGHTS = ["birth_date", "sex", "height"]
ADULT = ["gender", "race", "marital_status", "education", "workclass", "occupation"]
ENDS = "a class, and an end of its range"


def read_data() -> Iterator[tuple[str, sf.Dataset, list[str]]]:
    """The data sets with the variables that an outsider may know."""
    cohort = sf.Dataset(sf.datasets.cohort(2000), sf.datasets.cohort_schema())
    yield "cohort, 2,000", cohort, COHORT
    yield "cohort, 2,000", cohort, HEIGHTS
    number = sf.Column(role="quasi", kind="continuous")
    age = sf.Column(role="quasi", kind="integer")
    level = sf.Column(role="quasi", kind="nominal")
    folder = Path(os.environ["SFUMATO_DATA"])
    for label, name, columns in (
        ("Adult", "adult", {"age": age, **dict.fromkeys(ADULT, level)}),
        ("Titanic", "titanic", {"Age": number, "Fare": number, "Pclass": age, "Sex": level}),
    ):
        frame = pl.read_csv(folder / f"{name}.csv", infer_schema_length=None).select(list(columns))
        yield f"{label}, {len(frame):,}", sf.Dataset(frame, sf.Schema(columns)), list(columns)


def main(k: int = 5) -> None:
    """Print a row for each file, way of ending ranges, and variable."""
    head = f"{'data':<16} {'ends':<9} {'classes':>7} {'k':>3} {'loss':>6}"
    print(f"{head}  isolated by an end (control)")
    for label, data, names in read_data():
        for ends in ("observed", "grid"):
            released = sf.methods.KAnonymity(variables=names, k=k, ends=ends).apply(data)
            sizes = released.frame.group_by(names).len()["len"]
            loss = sf.utility.InformationLoss(variables=names).measure(data, released).value
            table = sf.risk.SinglingOut(known=names).measure(data, released).table
            rows = table.filter(pl.col("statement") == ENDS).sort("of")
            rates = ", ".join(
                f"{row['of']} {row['singling_out']:.3f} ({row['baseline']:.3f})"
                for row in rows.to_dicts()
            )
            print(f"{label:<16} {ends:<9} {len(sizes):>7,} {sizes.min():>3} {loss:>6.3f}  {rates}")


if __name__ == "__main__":
    main()
