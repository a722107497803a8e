"""A batch of people who do not exist: who depends on what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.datasets import body, society
from sfumato.datasets.variables import BOUNDS, FIRST_BIRTH, LAST_BIRTH
from sfumato.kernels.arrays import Floats, Integers, Mask, Words
from sfumato.randomness import Draws, Key

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


@dataclass(frozen=True)
class People:
    """A batch of records, given by their numbers. Each property is one thing about all of them."""

    key: Key
    counter: Integers

    @cached_property
    def draws(self) -> Draws:
        """Chance that belongs to the person."""
        return Draws(self.key, PERSON, _ids(self.counter))

    @cached_property
    def school_draws(self) -> Draws:
        """Chance that all pupils of a school share."""
        return Draws(self.key, SCHOOL, _ids(self.school))

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
        near = society.choose(self.school_draws.uniform("region"), shares)
        far = society.choose(self.draws.uniform("region"), shares)
        return np.where(self.draws.uniform("moved") < MOVED, far, near)

    @cached_property
    def ethnicity(self) -> Integers:
        """More mixed in the port city."""
        shares = [[level[group] for level in society.ETHNICITY.values()] for group in (0, 1)]
        port = self.region == list(society.REGIONS).index(society.PORT)
        return society.choose(self.draws.uniform("ethnicity"), shares, port.astype(np.int64))

    @cached_property
    def birth(self) -> Integers:
        """Days after the first birth."""
        days = (LAST_BIRTH - FIRST_BIRTH).days + 1
        return (self.draws.uniform("birth_date") * days).astype(np.int64)

    @cached_property
    def usual(self) -> dict[str, Floats]:
        """The measurements before a few people are made extreme."""
        return body.measurements(self.draws, self.female)

    @cached_property
    def measured(self) -> dict[str, Floats]:
        """The measurements as they are written down."""
        extreme = body.with_outliers(self.draws, self.usual)
        income = np.exp(extreme.pop("log_income"))
        return {
            name: _written(name, values) for name, values in {**extreme, "income": income}.items()
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
        rest = EXAM["residual_sd"] * self.draws.normal("exam_score")
        return _written("exam_score", expected + school + rest)

    @cached_property
    def education(self) -> Integers:
        """Better with the exam, with wealth and with luck."""
        mean, spread = _EXAM_SCALE
        luck = self.draws.normal("education")
        # The last factor makes the variance 1, given the correlation of wealth and exam, 0.21.
        propensity = 0.45 * self.wealth + 0.35 * (self.exam - mean) / spread + 0.781 * luck
        return society.education(propensity)

    @cached_property
    def marital(self) -> Integers:
        """By sex and by half of the birth years."""
        group = 2 * ~self.female + (self.birth >= BORN_LATE)
        table = society.share_table(society.MARITAL)
        return society.choose(self.draws.uniform("marital_status"), table, group)

    @cached_property
    def children(self) -> Integers:
        """How many children the person ever had."""
        return society.children(self.draws.uniform("children"), self.marital)

    @cached_property
    def household(self) -> Integers:
        """The person, a partner, the children still at home and sometimes others."""
        partner = np.isin(np.array(list(society.MARITAL)), society.PARTNERED)[self.marital]
        at_home = society.at_home(self.draws.uniform("household_size"), self.children)
        others = society.choose(self.draws.uniform("household_size", 1), [0.90, 0.08, 0.02])
        return 1 + partner + at_home + others

    @cached_property
    def smoking(self) -> Integers:
        """Less with more education."""
        table = society.share_table(society.SMOKING)
        return society.choose(self.draws.uniform("smoking"), table, self.education)

    @cached_property
    def diagnosis(self) -> Integers:
        """The main diagnosis follows from the body, from smoking and from who one is."""
        metres = self.measured["height"] / 100
        black = [group == "Black" for *_, group in society.ETHNICITY.values()]
        conditions = {
            "woman": self.female,
            "man": ~self.female,
            "poor": self.wealth < -1,
            "obese": self.measured["weight_kg"] >= OBESE * metres**2,
            "high glucose": self.measured["glucose"] >= HIGH_GLUCOSE,
            "high pressure": self.measured["systolic"] >= HIGH_PRESSURE,
            "smoker": self.smoking == list(society.SMOKING).index("current"),
            "black": np.array(black)[self.ethnicity],
        }
        return society.diagnosis(self.draws.uniform("diagnosis"), conditions)

    @cached_property
    def survey_weight(self) -> Floats:
        """How many people one stands for: more where fewer were asked or answered."""
        by_region = np.linspace(1.25, 0.5, len(society.REGIONS))[self.region]
        by_education = np.linspace(1.2, 0.85, len(society.EDUCATION))[self.education]
        by_sex = np.where(self.female, 0.95, 1.05)
        rest = np.exp(0.25 * self.draws.normal("survey_weight"))
        weight = 350 * by_region * by_education * by_sex * rest
        return _written("survey_weight", weight)


def _written(name: str, values: Floats) -> Floats:
    """As the file has it: within bounds and rounded, which also hides a library's last digit."""
    return np.asarray(np.round(np.clip(values, *BOUNDS[name]), _DECIMALS[name]), np.float64)


def _ids(numbers: Integers) -> Words:
    ids = np.zeros((len(numbers), 2), np.uint64)
    ids[:, 0] = numbers
    return ids
