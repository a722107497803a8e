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
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sfumato.datasets import body, identifiers, society
from sfumato.datasets.society import (
    DIAGNOSES,
    EDUCATION,
    ETHNICITY,
    MARITAL,
    MOST_CHILDREN,
    REGIONS,
    SEX,
    SMOKING,
)
from sfumato.kernels.arrays import Floats, Integers, Mask, Words
from sfumato.randomness import Draws, Key
from sfumato.schema import Column, Kind, Schema

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["cohort", "cohort_schema"]

BATCH = 1 << 17
"""Records made at a time: what is needed besides the result stays small."""
EPOCH = dt.date(1970, 1, 1)
"""From which a frame counts the days of a date."""
FIRST_BIRTH = dt.date(1958, 1, 1)
LAST_BIRTH = dt.date(1970, 12, 31)

BOUNDS: dict[str, tuple[float, float]] = {
    "income": (0, 5_000_000),
    "height": (120.0, 230.0),
    "weight_kg": (30.0, 250.0),
    "glucose": (2.0, 40.0),
    "hdl": (0.3, 6.0),
    "systolic": (70, 260),
    "survey_weight": (50.0, 2500.0),
    "exam_score": (0.0, 100.0),
}
"""What an instrument or a questionnaire would accept. Nothing in the cohort lies outside."""
PERSON, SCHOOL = 0, 1
"""Steps of the draws: a person and a school of the same number have nothing in common."""
SCHOOL_BLOCK, SCHOOLS_PER_BLOCK = 240, 4
MOVED = 0.1
"""Share of people who do not live where their school is, as far as the dice tell."""
BORN_LATE = 2190
"""Days after the first birth, about half of the span."""
EXAM = {"intercept": 55.0, "female": 3.0, "log_income": 4.0, "school_sd": 5.0, "residual_sd": 9.0}
"""exam_score = intercept + female·[sex = female] + log_income·(log(income) - 10.3) + school + rest,
and the standard deviations of the school's effect and of the rest: what a model should find."""
_EXAM_SCALE = (56.5, 10.64)  # mean and standard deviation that follow from EXAM
OBESE, HIGH_GLUCOSE, HIGH_PRESSURE = 30, 7.0, 140
"""Body mass index (kg/m²), glucose (mmol/l), pressure (mmHg) from which a diagnosis is likely."""
_DECIMALS = {
    "height": 1,
    "weight_kg": 1,
    "glucose": 2,
    "hdl": 2,
    "systolic": 0,
    "income": 0,
    "survey_weight": 3,
    "exam_score": 1,
}


# The cohort


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
    identifiers.require_size("cohort", "records", records, seed)
    key = Key(hashlib.sha256(f"sfumato cohort {seed}".encode()).digest())
    # An empty cohort has the same columns and types: it is the first record, taken away.
    count = max(records, 1)
    batches = [
        _build_frame(People(key, np.arange(start, min(start + BATCH, count))))
        for start in range(0, count, BATCH)
    ]
    return pl.concat(batches).head(records)


def _build_frame(people: People) -> pl.DataFrame:
    """All variables, in the order of the schema, with the missing values blanked."""
    columns = {
        **_build_identity(people),
        **_build_background(people),
        **{name: pl.Series(values) for name, values in people.measurements.items()},
        "survey_weight": pl.Series(people.survey_weight),
        "exam_score": pl.Series(people.exam),
    }
    for name in ("income", "systolic", "children", "household_size"):
        columns[name] = columns[name].cast(pl.Int64)
    missing = {name: pl.Series(mask) for name, mask in _draw_missing(people).items()}
    return pl.DataFrame({name: columns[name] for name in cohort_schema()}).with_columns(
        pl.when(~mask).then(pl.col(name)).alias(name) for name, mask in missing.items()
    )


def _build_identity(people: People) -> dict[str, pl.Series]:
    prefix = society.label_levels([prefix for prefix, _ in society.REGIONS.values()], people.region)
    return {
        "person_id": identifiers.make_record_numbers(people.counter),
        **identifiers.make_names(people.draws, people.counter, people.female),
        "nhs_number": identifiers.make_health_numbers(people.counter, people.key),
        "address": identifiers.make_addresses(people.draws),
        "postcode": identifiers.make_postcodes(people.draws, prefix),
        "school": "S" + pl.Series(people.school + 1).cast(pl.String).str.zfill(5),
    }


def _build_background(people: People) -> dict[str, pl.Series]:
    first = (FIRST_BIRTH - EPOCH).days
    return {
        "birth_date": pl.Series(people.birth + first).cast(pl.Int32).cast(pl.Date),
        "sex": society.label_levels(society.SEX, (~people.female).astype(np.int64)),
        "ethnicity": society.label_levels(society.ETHNICITY, people.ethnicity),
        "region": society.label_levels(society.REGIONS, people.region),
        "household_size": pl.Series(people.household),
        "marital_status": society.label_levels(society.MARITAL, people.marital),
        "education": society.label_levels(society.EDUCATION, people.education),
        "smoking": society.label_levels(society.SMOKING, people.smoking),
        "diagnosis": society.label_levels(society.DIAGNOSES, people.diagnosis),
        "children": pl.Series(people.children),
    }


def _draw_missing(people: People) -> dict[str, npt.NDArray[np.bool_]]:
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


# Its schema, as its custodian would write it by hand


def cohort_schema() -> Schema:
    """Roles, kinds, domains and accessibility of every variable of `cohort`.

    Examples
    --------
    >>> cohort_schema().having("direct")
    ('person_id', 'name', 'email', 'nhs_number', 'address')
    """
    return Schema({**_declare_identifiers(), **_declare_background(), **_declare_sensitive()})


def _declare_identifiers() -> dict[str, Column]:
    return {
        "person_id": Column(role="direct", kind="text", accessibility=0.1),
        "name": Column(role="direct", kind="text", accessibility=1.0),
        "email": Column(role="direct", kind="text", accessibility=0.8),
        "nhs_number": Column(role="direct", kind="text", accessibility=0.2),
        "address": Column(role="direct", kind="text", accessibility=0.9),
    }


def _declare_background() -> dict[str, Column]:
    broader = {level: (group,) for level, (_, _, group) in ETHNICITY.items()}
    return {
        "postcode": Column(role="quasi", kind="text", accessibility=0.9),
        "birth_date": Column(
            role="quasi", kind="date", domain=(FIRST_BIRTH, LAST_BIRTH), accessibility=0.8
        ),
        "sex": Column(role="quasi", kind="nominal", domain=SEX, accessibility=1.0),
        "ethnicity": Column(
            role="quasi",
            kind="nominal",
            domain=tuple(ETHNICITY),
            hierarchy=broader,
            accessibility=0.8,
        ),
        "region": Column(role="quasi", kind="nominal", domain=tuple(REGIONS), accessibility=1.0),
        # No domain: a larger cohort has more schools. Their numbers are invented.
        "school": Column(role="cluster", kind="nominal", accessibility=0.7, cells="values"),
        "household_size": Column(
            role="quasi", kind="integer", domain=(1, MOST_CHILDREN + 4), accessibility=0.7
        ),
        "marital_status": Column(
            role="quasi", kind="nominal", domain=tuple(MARITAL), accessibility=0.8
        ),
        "education": Column(
            role="quasi", kind="ordinal", domain=tuple(EDUCATION), accessibility=0.6
        ),
    }


def _declare_sensitive() -> dict[str, Column]:
    def declare(name: str, kind: Kind, accessibility: float) -> Column:
        domain = BOUNDS[name]
        return Column(role="sensitive", kind=kind, domain=domain, accessibility=accessibility)

    chapters = {code: (chapter,) for code, (chapter, _, _) in DIAGNOSES.items()}
    return {
        "smoking": Column(
            role="sensitive", kind="nominal", domain=tuple(SMOKING), accessibility=0.5
        ),
        "income": declare("income", "integer", 0.2),
        # Anybody who meets the person sees it.
        "height": Column(
            role="quasi", kind="continuous", domain=BOUNDS["height"], accessibility=0.5
        ),
        "weight_kg": declare("weight_kg", "continuous", 0.3),
        "glucose": declare("glucose", "continuous", 0.0),
        "hdl": declare("hdl", "continuous", 0.0),
        "systolic": declare("systolic", "integer", 0.05),
        "diagnosis": Column(
            role="sensitive",
            kind="nominal",
            domain=tuple(DIAGNOSES),
            hierarchy=chapters,
            accessibility=0.1,
        ),
        "children": Column(
            role="quasi", kind="integer", domain=(0, MOST_CHILDREN), accessibility=0.8
        ),
        "survey_weight": Column(
            role="weight", kind="continuous", domain=BOUNDS["survey_weight"], accessibility=0.0
        ),
        "exam_score": declare("exam_score", "continuous", 0.2),
    }


# A batch of people: who depends on what


@dataclass(frozen=True)
class People:
    """A batch of records, given by their numbers. Each property is one thing about all of them."""

    key: Key
    counter: Integers

    @cached_property
    def draws(self) -> Draws:
        """Chance that belongs to the person."""
        return Draws(self.key, PERSON, _make_ids(self.counter))

    @cached_property
    def school_draws(self) -> Draws:
        """Chance that all pupils of a school share."""
        return Draws(self.key, SCHOOL, _make_ids(self.school))

    @cached_property
    def female(self) -> Mask:
        """Who is a woman."""
        return self.draws.uniform("sex") < society.FEMALE_SHARE

    @cached_property
    def school(self) -> Integers:
        """Number of the school: four for every 240 records, some larger than others."""
        seat = self.draws.uniform("school") ** 1.3
        within = (seat * SCHOOLS_PER_BLOCK).astype(np.int64)
        return self.counter // SCHOOL_BLOCK * SCHOOLS_PER_BLOCK + within

    @cached_property
    def region(self) -> Integers:
        """Where the school is, unless the person has moved."""
        shares = [share for _, share in society.REGIONS.values()]
        at_school = society.choose_levels(self.school_draws.uniform("region"), shares)
        elsewhere = society.choose_levels(self.draws.uniform("region"), shares)
        return np.where(self.draws.uniform("moved") < MOVED, elsewhere, at_school)

    @cached_property
    def ethnicity(self) -> Integers:
        """More mixed in the port city."""
        shares = [[level[group] for level in society.ETHNICITY.values()] for group in (0, 1)]
        port = self.region == list(society.REGIONS).index(society.PORT)
        return society.choose_levels(self.draws.uniform("ethnicity"), shares, port.astype(np.int64))

    @cached_property
    def birth(self) -> Integers:
        """Days after the first birth."""
        days = (LAST_BIRTH - FIRST_BIRTH).days + 1
        return (self.draws.uniform("birth_date") * days).astype(np.int64)

    @cached_property
    def usual(self) -> dict[str, Floats]:
        """The measurements before a few people are made extreme."""
        return body.draw_measurements(self.draws, self.female)

    @cached_property
    def measurements(self) -> dict[str, Floats]:
        """The measurements as they are written down."""
        extreme = body.add_outliers(self.draws, self.usual)
        income = np.exp(extreme.pop("log_income"))
        return {
            name: _round_measurement(name, values)
            for name, values in {**extreme, "income": income}.items()
        }

    @cached_property
    def wealth(self) -> Floats:
        """Log income with mean 0 and standard deviation 1."""
        mean, spread = body.TARGETS["log_income"].female
        return (self.usual["log_income"] - mean) / spread

    @cached_property
    def exam(self) -> Floats:
        """The outcome of the two-level model `EXAM`."""
        centred = self.usual["log_income"] - body.TARGETS["log_income"].female[0]
        expected = EXAM["intercept"] + EXAM["female"] * self.female + EXAM["log_income"] * centred
        school = EXAM["school_sd"] * self.school_draws.normal("exam_score")
        residual = EXAM["residual_sd"] * self.draws.normal("exam_score")
        return _round_measurement("exam_score", expected + school + residual)

    @cached_property
    def education(self) -> Integers:
        """Better with the exam, with wealth and with luck."""
        mean, spread = _EXAM_SCALE
        luck = self.draws.normal("education")
        # The last factor makes the variance 1, given the correlation of wealth and exam, 0.21.
        propensity = 0.45 * self.wealth + 0.35 * (self.exam - mean) / spread + 0.781 * luck
        return society.rank_education(propensity)

    @cached_property
    def marital(self) -> Integers:
        """By sex and by half of the birth years."""
        group = 2 * ~self.female + (self.birth >= BORN_LATE)
        table = society.build_share_table(society.MARITAL)
        return society.choose_levels(self.draws.uniform("marital_status"), table, group)

    @cached_property
    def children(self) -> Integers:
        """How many children the person ever had."""
        return society.draw_children(self.draws.uniform("children"), self.marital)

    @cached_property
    def household(self) -> Integers:
        """The person, a partner, the children still at home and sometimes others."""
        partner = np.isin(np.array(list(society.MARITAL)), society.PARTNERED)[self.marital]
        at_home = society.count_at_home(self.draws.uniform("household_size"), self.children)
        others = society.choose_levels(self.draws.uniform("household_size", 1), [0.90, 0.08, 0.02])
        return 1 + partner + at_home + others

    @cached_property
    def smoking(self) -> Integers:
        """Less with more education."""
        table = society.build_share_table(society.SMOKING)
        return society.choose_levels(self.draws.uniform("smoking"), table, self.education)

    @cached_property
    def diagnosis(self) -> Integers:
        """The main diagnosis follows from the body, from smoking and from who one is."""
        metres = self.measurements["height"] / 100
        black = [group == "Black" for *_, group in society.ETHNICITY.values()]
        conditions = {
            "woman": self.female,
            "man": ~self.female,
            "poor": self.wealth < -1,
            "obese": self.measurements["weight_kg"] >= OBESE * metres**2,
            "high glucose": self.measurements["glucose"] >= HIGH_GLUCOSE,
            "high pressure": self.measurements["systolic"] >= HIGH_PRESSURE,
            "smoker": self.smoking == list(society.SMOKING).index("current"),
            "black": np.array(black)[self.ethnicity],
        }
        return society.draw_diagnosis(self.draws.uniform("diagnosis"), conditions)

    @cached_property
    def survey_weight(self) -> Floats:
        """How many people one stands for: more where fewer were asked or answered."""
        by_region = np.linspace(1.25, 0.5, len(society.REGIONS))[self.region]
        by_education = np.linspace(1.2, 0.85, len(society.EDUCATION))[self.education]
        by_sex = np.where(self.female, 0.95, 1.05)
        residual = np.exp(0.25 * self.draws.normal("survey_weight"))
        weight = 350 * by_region * by_education * by_sex * residual
        return _round_measurement("survey_weight", weight)


def _round_measurement(name: str, values: Floats) -> Floats:
    """As the file has it: within bounds and rounded, which also hides a library's last digit."""
    return np.asarray(np.round(np.clip(values, *BOUNDS[name]), _DECIMALS[name]), np.float64)


def _make_ids(numbers: Integers) -> Words:
    ids = np.zeros((len(numbers), 2), np.uint64)
    ids[:, 0] = numbers
    return ids
