"""Persons with several rows: what is counted then, and how many fit where cells are missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.cells.classes import COMPARED, EquivalenceClasses
from sfumato.data import Dataset
from sfumato.evidence import Audience, Subject
from sfumato.kernels.arrays import AnyIntegers, Codes, Integers
from sfumato.units import Units

BY_PERSON = (
    "Somebody may look at one value of each person only: targets are checked against the worst "
    "choice."
)


def choose_audience(data: Dataset, subject: Subject, units: Units) -> Audience:
    """Who may see numbers of one data set: of a release everybody, if anybody could count them.

    Which rows are one person's stays inside where no released variable tells it, and so does what
    was counted by it.
    """
    hidden = not units.one_row_each and data.schema.person is None
    return "public" if subject == "released" and not hidden else "custodian"


def count_fitting_persons(
    patterns: AnyIntegers, of: AnyIntegers, classes: EquivalenceClasses
) -> tuple[Integers, Integers]:
    """How many persons fit each pattern where a missing value could be any, and how many have it.

    Parameters
    ----------
    patterns : a row per distinct combination and a column per variable, -1 where missing.
    of : the pattern of each class.
    classes : the classes, with the persons of their rows.
    """
    of_rows = of[classes.of].astype(np.int32)
    alike = classes.units.count_groups(of_rows, len(patterns))
    united = EquivalenceClasses(of_rows, alike, classes.units)
    if len(patterns) > COMPARED:
        return alike, alike
    covers = np.ones((len(patterns), len(patterns)), bool)
    for column in patterns.T:
        covers &= (column[:, None] == column) | (column < 0)[:, None]
    return np.minimum(*(united.count_united(way) for way in (covers.T, covers))), alike


@dataclass(frozen=True, eq=False)
class ChosenValues:
    """One value of each person in each class.

    Parameters
    ----------
    classes : the classes, with a row for each of their persons.
    codes : the value that was chosen.
    """

    classes: EquivalenceClasses
    codes: Codes


def choose_readings(classes: EquivalenceClasses, codes: Codes) -> Iterator[ChosenValues]:
    """Each person with one of their values in each class, chosen in four ways.

    The one that most persons of the class have, which is the best guess for all of them; the one
    that is commonest there compared with all persons, which tells most about the class; and the
    least and the greatest. A missing value is chosen where there is no other.
    """
    if classes.units.one_row_each:
        return
    width = int(codes.max(initial=0)) + 2
    # How many persons have each value, in a class and anywhere; missing is the first.
    shifted = codes.astype(np.int64) + 1
    pairs, pair_of = np.unique(classes.of * np.int64(width) + shifted, return_inverse=True)
    pair_of = pair_of.ravel()
    common = classes.units.count_groups(pair_of, len(pairs))[pair_of].astype(np.float64)
    usual = classes.units.count_groups(shifted, width)[shifted]
    share = common / classes.sizes[classes.of]
    value = codes.astype(np.float64)
    scores = (common, share / usual, -value, value)
    readings = (np.where(codes < 0, -np.inf, score) for score in scores)
    for rows in classes.choose_rows(codes, readings):
        yield ChosenValues(classes.select(rows), codes[rows])


def describe_choice(name: str) -> str:
    """A warning that several values of a person hide less than they seem to."""
    return (
        f"Persons have several values of '{name}' in a class. Taken one for each person they hide "
        "less: targets are checked against that."
    )
