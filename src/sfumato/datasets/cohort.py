"""A synthetic birth cohort of any size. No real person is in it.

Every value is computed from a seed and the record's number: names come from lists of common
names, streets and regions are invented, health numbers begin with digits that no patient has,
e-mail domains are reserved. Nothing was fitted to, or copied from, anybody's data.

It is made to be as awkward as a real file: identifiers that must go, birth dates and postcodes
that single out nearly everybody, rare levels, skewed and correlated measurements, values missing
at random and not at random, a few extreme people, pupils within schools.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfumato.datasets import identifiers, society
from sfumato.datasets.people import People
from sfumato.datasets.variables import FIRST_BIRTH, cohort_schema
from sfumato.errors import DataError
from sfumato.randomness import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

__all__ = ["cohort", "cohort_schema"]

BATCH = 1 << 17
"""Records made at a time: what is needed besides the result stays small."""
EPOCH = dt.date(1970, 1, 1)
"""From which a frame counts the days of a date."""


def cohort(records: int = 2000, *, seed: int = 0) -> pl.DataFrame:
    """A birth cohort of people who do not exist.

    Record i depends on the seed and on i alone, so a smaller cohort is the beginning of a larger
    one. `cohort_schema` says what each variable is.

    Examples
    --------
    >>> cohort(3).select("person_id", "sex", "region").rows()
    [('C0000001', 'female', 'Norlund'),
     ('C0000002', 'male', 'Westrel'),
     ('C0000003', 'female', 'Norlund')]
    """
    _check(records, seed)
    key = Key(hashlib.sha256(f"sfumato cohort {seed}".encode()).digest())
    # An empty cohort has the same columns and types: it is the first record, taken away.
    made = max(records, 1)
    batches = [
        _frame(People(key, np.arange(start, min(start + BATCH, made))))
        for start in range(0, made, BATCH)
    ]
    return pl.concat(batches).head(records)


def _check(records: object, seed: object) -> None:
    if not isinstance(records, int) or isinstance(records, bool) or records < 0:
        raise DataError(
            "The number of records of a cohort must be a whole number, 0 or more.",
            hint="for instance cohort(2000).",
        )
    if records > identifiers.LARGEST:
        raise DataError(
            f"A cohort has at most {identifiers.LARGEST} records, as many as health numbers.",
            hint="make several cohorts, each with a seed of its own.",
        )
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise DataError(
            "The seed of a cohort must be a whole number.",
            hint="for instance cohort(2000, seed=1).",
        )


def _frame(people: People) -> pl.DataFrame:
    """All variables, in the order of the schema, with the missing values blanked."""
    columns = {
        **_identity(people),
        **_background(people),
        **{name: pl.Series(values) for name, values in people.measured.items()},
        "survey_weight": pl.Series(people.survey_weight),
        "exam_score": pl.Series(people.exam),
    }
    for name in ("income", "systolic", "children", "household_size"):
        columns[name] = columns[name].cast(pl.Int64)
    missing = {name: pl.Series(mask) for name, mask in _missing(people).items()}
    return pl.DataFrame({name: columns[name] for name in cohort_schema()}).with_columns(
        pl.when(~mask).then(pl.col(name)).alias(name) for name, mask in missing.items()
    )


def _identity(people: People) -> dict[str, pl.Series]:
    prefix = _labelled([prefix for prefix, _ in society.REGIONS.values()], people.region)
    return {
        "person_id": identifiers.record_number(people.counter),
        **identifiers.names(people.draws, people.counter, people.female),
        "nhs_number": identifiers.health_number(people.counter, people.key),
        "address": identifiers.address(people.draws),
        "postcode": identifiers.postcode(people.draws, prefix),
        "school": "S" + pl.Series(people.school + 1).cast(pl.String).str.zfill(5),
    }


def _background(people: People) -> dict[str, pl.Series]:
    first = (FIRST_BIRTH - EPOCH).days
    return {
        "birth_date": pl.Series(people.birth + first).cast(pl.Int32).cast(pl.Date),
        "sex": _labelled(society.SEX, (~people.female).astype(np.int64)),
        "ethnicity": _labelled(society.ETHNICITY, people.ethnicity),
        "region": _labelled(society.REGIONS, people.region),
        "household_size": pl.Series(people.household),
        "marital_status": _labelled(society.MARITAL, people.marital),
        "education": _labelled(society.EDUCATION, people.education),
        "smoking": _labelled(society.SMOKING, people.smoking),
        "diagnosis": _labelled(society.DIAGNOSES, people.diagnosis),
        "children": pl.Series(people.children),
    }


def _labelled(levels: Iterable[str], codes: npt.NDArray[np.int64]) -> pl.Series:
    return pl.Series(list(levels), dtype=pl.String).gather(codes)


def _missing(people: People) -> dict[str, npt.NDArray[np.bool_]]:
    """Who lacks what: by chance alone, by what others can see, or by the value itself."""
    from scipy.special import expit  # scipy is slow to import

    heavy = (people.usual["weight_kg"] - 77) / 16
    blood = np.array([0.03, 0.05, 0.08])[people.smoking]
    chance = {
        "email": 0.06,
        "ethnicity": 0.02,
        "education": 0.015,
        # Not at random: the rich say less, and so do the heavy.
        "income": expit(-2.9 + 0.9 * people.wealth),
        "weight_kg": expit(-4.0 + 0.6 * heavy),
        # At random given smoking: one blood sample for both.
        "glucose": blood,
        "hdl": blood,
        "exam_score": np.where(people.female, 0.02, 0.04),
    }
    shared = {"hdl": "glucose"}
    return {
        name: people.draws.uniform(f"missing {shared.get(name, name)}") < share
        for name, share in chance.items()
    }
