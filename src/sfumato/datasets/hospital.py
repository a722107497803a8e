"""A synthetic hospital: patients, stays, laboratory. No real person is in it.

As in the cohort, every value is computed from a seed and the patient's number. Names come from
lists of common names, regions are invented, health numbers begin with digits that no patient has.

It is made to be as awkward as the real thing: most patients come once and a few come again and
again, a chronic illness brings the same diagnosis back, planned admissions avoid weekends and
holidays, the very old stand out by their age, and whoever was in hospital on a certain day is known
to neighbours.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from sfumato.datasets import identifiers, society
from sfumato.datasets.society import ETHNICITY, REGIONS, SEX
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.randomness import Draws, Key
from sfumato.schema import Column, Schema

__all__ = ["hospital", "hospital_schemas"]

BATCH = 1 << 16
"""Patients made at a time: what is needed besides the result stays small."""
EPOCH = dt.date(1970, 1, 1)
FIRST_DAY, LAST_DAY = dt.date(2018, 1, 1), dt.date(2023, 12, 31)
"""The stays of these years are in the files, from admission to discharge."""
OLDEST = 99
FIRST_BIRTH = dt.date(1918, 1, 1)
PATIENT, STAY, SAMPLE = 0, 1, 2
"""Steps of the draws: the patient, the stay and the sample of one number share nothing."""

AGES: dict[tuple[int, int], float] = {
    # years at the first admission: share
    (0, 1): 0.04,
    (1, 16): 0.06,
    (16, 30): 0.11,
    (30, 45): 0.15,
    (45, 60): 0.17,
    (60, 75): 0.24,
    (75, 90): 0.20,
    (90, OLDEST): 0.03,
}
CHILD, OLD = 16, 75
FERTILE = (16, 45)
FEMALE_SHARE = 0.53
CHRONIC: dict[str, tuple[float, float, float]] = {
    # share of the patients under 45, from 45 to 74, and older
    "none": (0.90, 0.58, 0.40),
    "heart": (0.01, 0.13, 0.27),
    "lung": (0.03, 0.09, 0.10),
    "kidney": (0.01, 0.04, 0.08),
    "diabetes": (0.04, 0.10, 0.10),
    "cancer": (0.01, 0.06, 0.05),
}
MIDDLE = 45
MORE_STAYS = (0.30, 0.70)
"""Chance that another stay follows each one: without a chronic illness, and with one."""
MOST_STAYS = 40

DIAGNOSES: dict[str, tuple[str, float, dict[str, float]]] = {
    # ICD-10 code: chapter, share, how many times more common under a condition
    "I50": ("I", 0.020, {"heart": 22.0, "child": 0.02, "old": 1.5}),
    "I21": ("I", 0.030, {"heart": 3.0, "child": 0.0, "man": 1.6}),
    "I63": ("I", 0.028, {"child": 0.02, "old": 2.2}),
    "J44": ("J", 0.006, {"lung": 90.0, "child": 0.0}),
    "J18": ("J", 0.070, {"lung": 2.0, "child": 1.5, "old": 1.8}),
    "N18": ("N", 0.004, {"kidney": 150.0}),
    "N39": ("N", 0.045, {"woman": 1.8, "old": 1.6}),
    "E11": ("E", 0.008, {"diabetes": 40.0, "child": 0.05}),
    "C34": ("C", 0.004, {"cancer": 60.0, "child": 0.0}),
    "C50": ("C", 0.003, {"cancer": 80.0, "child": 0.0, "man": 0.02}),
    "C61": ("C", 0.003, {"cancer": 80.0, "child": 0.0, "woman": 0.0}),
    "S72": ("S", 0.035, {"old": 4.0, "woman": 1.4}),
    "K35": ("K", 0.035, {"child": 3.0, "old": 0.3, "again": 0.0}),
    "K80": ("K", 0.050, {"child": 0.02, "woman": 1.5, "again": 0.2}),
    "O80": ("O", 0.160, {"not fertile": 0.0}),
    "A41": ("A", 0.022, {"old": 2.0, "kidney": 2.0}),
    "F32": ("F", 0.040, {"child": 0.3, "old": 0.4}),
    "R07": ("R", 0.090, {"child": 0.1, "heart": 1.5}),
    "G35": ("G", 0.0030, {"child": 0.02, "woman": 2.4}),
    "B20": ("B", 0.0012, {"man": 2.0}),
    "E84": ("E", 0.0008, {"child": 4.0, "old": 0.0}),
}
"""The main diagnosis of a stay."""
STAYS: dict[str, tuple[str, float, float, float]] = {
    # ward, usual days, share that is planned, share that die before 75
    "I50": ("cardiology", 7.0, 0.20, 0.050),
    "I21": ("cardiology", 5.0, 0.05, 0.050),
    "I63": ("neurology", 9.0, 0.00, 0.060),
    "J44": ("respiratory", 6.0, 0.10, 0.035),
    "J18": ("respiratory", 6.0, 0.00, 0.040),
    "N18": ("nephrology", 4.0, 0.60, 0.025),
    "N39": ("general medicine", 4.0, 0.05, 0.010),
    "E11": ("general medicine", 4.0, 0.30, 0.008),
    "C34": ("oncology", 7.0, 0.70, 0.090),
    "C50": ("oncology", 4.0, 0.85, 0.030),
    "C61": ("oncology", 4.0, 0.85, 0.025),
    "S72": ("surgery", 11.0, 0.00, 0.030),
    "K35": ("surgery", 3.0, 0.00, 0.002),
    "K80": ("surgery", 3.0, 0.70, 0.002),
    "O80": ("obstetrics", 2.5, 0.10, 0.0002),
    "A41": ("intensive care", 11.0, 0.00, 0.170),
    "F32": ("psychiatry", 21.0, 0.40, 0.001),
    "R07": ("general medicine", 1.5, 0.05, 0.001),
    "G35": ("neurology", 6.0, 0.50, 0.005),
    "B20": ("general medicine", 8.0, 0.20, 0.020),
    "E84": ("respiratory", 10.0, 0.50, 0.020),
}
PAEDIATRICS = "paediatrics"
WARDS = (*dict.fromkeys(ward for ward, *_ in STAYS.values()), PAEDIATRICS)
DESTINATIONS = ("home", "care home", "another hospital", "died")
LONGEST = 120
HOLIDAYS = {(1, 1): 1, (12, 25): 2, (12, 26): 1}
"""Month and day of a holiday, and after how many days planned work begins again."""
GAP = 7
"""Days at home between two stays, at least: more than a holiday and a weekend move one."""
PREGNANCY = 330
DAYS_AT_HOME = 170.0
"""Mean days between two stays, beyond `GAP`."""
UNKNOWN_ETHNICITY = 0.03
UNTESTED = {"obstetrics": 0.6, "psychiatry": 0.7}
"""Share of the stays on a ward of which the laboratory gets no sample."""
NO_CRP = 0.08
INFECTIONS = ("J18", "N39", "K35", "A41")
MOST_SAMPLES = 15
A_DAY_LATE = 0.3
BOUNDS: dict[str, tuple[float, float]] = {
    "age": (0, OLDEST + 7),
    "albumin": (10.0, 60.0),
    "crp": (0.3, 500.0),
    "creatinine": (15, 1500),
    "haemoglobin": (40.0, 220.0),
}
"""What the laboratory would accept. Nothing in the hospital lies outside."""
HAEMOGLOBIN = {
    "intercept": 138.0,
    "female": -13.0,
    "albumin": 0.9,
    "patient_sd": 9.0,
    "residual_sd": 7.0,
}
"""haemoglobin = intercept + female·[sex = female] + albumin·(albumin - 38) + patient + rest, and
the standard deviations of the patient's effect and of the rest: what a two-level model finds."""
ALBUMIN = {"mean": 38.0, "patient_sd": 3.0, "residual_sd": 3.0}
UNITS = {"albumin": "g/l", "crp": "mg/l", "creatinine": "µmol/l", "haemoglobin": "g/l"}
_THURSDAY, _SATURDAY = 3, 5
"""The weekday of the first day of 1970, and that of a Saturday, from Monday on."""
_DECIMALS = {"albumin": 1, "crp": 1, "creatinine": 0, "haemoglobin": 0}


# The hospital


def hospital(patients: int = 1000, *, seed: int = 0) -> dict[str, pl.DataFrame]:
    """Patients, stays and laboratory values of people who do not exist, as three tables.

    `patient_id` leads from a stay and from a laboratory sample to the patient, `stay_id` from a
    sample to its stay. What concerns patient i depends on the seed and on i alone, so that the
    tables of a smaller hospital are the beginnings of those of a larger one. `hospital_schemas`
    says what each variable is.

    Examples
    --------
    >>> tables = hospital(100)
    >>> {name: table.height for name, table in tables.items()}
    {'patients': 100, 'stays': 187, 'laboratory': 628}
    >>> tables["stays"].columns[:5]
    ['stay_id', 'patient_id', 'admitted', 'discharged', 'age']
    """
    identifiers.require_size("hospital", "patients", patients, seed)
    key = Key(hashlib.sha256(f"sfumato hospital {seed}".encode()).digest())
    batches = []
    # An empty hospital has the same columns and types: it is the first patient, taken away.
    for start in range(0, max(patients, 1), BATCH):
        some = Patients(key, np.arange(start, min(start + BATCH, max(patients, 1))))
        stays = _draw_stays(some)
        batches.append((_build_patients(some), stays, _draw_samples(some, stays)))
    registered, stays, samples = (pl.concat(part) for part in zip(*batches, strict=True))
    tables = {
        "patients": registered,
        "stays": _number_rows(stays, "stay_id", "A"),
        "laboratory": _number_rows(samples, "sample_id", "L"),
    }
    tables["laboratory"] = tables["laboratory"].join(
        tables["stays"].select("stay_id", "patient_id", "visit"),
        on=["patient_id", "visit"],
        how="left",
        maintain_order="left",
    )
    return {
        name: tables[name].select(list(schema)).head(patients * tables[name].height)
        for name, schema in hospital_schemas().items()
    }


def _number_rows(table: pl.DataFrame, name: str, letter: str) -> pl.DataFrame:
    """A running number of the rows, as a hospital gives one."""
    numbers = pl.int_range(1, pl.len() + 1).cast(pl.String).str.zfill(8)
    return table.with_columns((letter + numbers).alias(name))


# Its schemas, as its custodian would write them by hand


def hospital_schemas() -> dict[str, Schema]:
    """Roles, kinds, domains and accessibility of every variable of `hospital`, by table.

    Examples
    --------
    >>> {name: schema.having("quasi") for name, schema in hospital_schemas().items()}
    {'patients': ('birth_date', 'sex', 'ethnicity', 'postcode', 'region'),
     'stays': ('admitted', 'discharged', 'age', 'ward'),
     'laboratory': ('sampled',)}
    """
    patient = Column(role="person", kind="text", accessibility=0.1)
    stay = Column(role="direct", kind="text", identity=False, accessibility=0.1)
    return {
        "patients": Schema({"patient_id": patient, **_declare_patients()}),
        "stays": Schema({"stay_id": stay, "patient_id": patient, **_declare_stays()}),
        "laboratory": Schema(
            {
                "sample_id": Column(role="direct", kind="text", identity=False, accessibility=0.0),
                "patient_id": patient,
                "stay_id": stay,
                **_declare_laboratory(),
            }
        ),
    }


def _declare_patients() -> dict[str, Column]:
    broader = {level: (group,) for level, (_, _, group) in ETHNICITY.items()}
    return {
        "name": Column(role="direct", kind="text", accessibility=1.0),
        "nhs_number": Column(role="direct", kind="text", accessibility=0.2),
        "birth_date": Column(
            role="quasi", kind="date", domain=(FIRST_BIRTH, LAST_DAY), accessibility=0.8
        ),
        "sex": Column(role="quasi", kind="nominal", domain=SEX, accessibility=1.0),
        "ethnicity": Column(
            role="quasi",
            kind="nominal",
            domain=tuple(ETHNICITY),
            hierarchy=broader,
            accessibility=0.8,
        ),
        "postcode": Column(role="quasi", kind="text", accessibility=0.9),
        "region": Column(role="quasi", kind="nominal", domain=tuple(REGIONS), accessibility=1.0),
    }


def _declare_stays() -> dict[str, Column]:
    day = Column(role="quasi", kind="date", domain=(FIRST_DAY, LAST_DAY), accessibility=0.6)
    chapters = {code: (chapter,) for code, (chapter, _, _) in DIAGNOSES.items()}
    return {
        "admitted": day,
        "discharged": day,
        "age": Column(role="quasi", kind="integer", domain=BOUNDS["age"], accessibility=0.8),
        "ward": Column(role="quasi", kind="nominal", domain=WARDS, accessibility=0.5),
        "diagnosis": Column(
            role="sensitive",
            kind="nominal",
            domain=tuple(DIAGNOSES),
            hierarchy=chapters,
            accessibility=0.1,
        ),
        "discharged_to": Column(
            role="sensitive", kind="nominal", domain=DESTINATIONS, accessibility=0.4
        ),
    }


def _declare_laboratory() -> dict[str, Column]:
    values = {
        name: Column(
            role="sensitive",
            kind="continuous" if _DECIMALS[name] else "integer",
            domain=BOUNDS[name],
            accessibility=0.0,
            unit=unit,
        )
        for name, unit in UNITS.items()
    }
    day = Column(role="quasi", kind="date", domain=(FIRST_DAY, LAST_DAY), accessibility=0.4)
    return {"sampled": day, **values}


# A batch of patients: who depends on what


@dataclass(frozen=True)
class Patients:
    """A batch of patients, given by their numbers. Each property is one thing about all of them."""

    key: Key
    counter: Integers

    def draw(self, step: int, patient: Integers, number: Integers) -> Draws:
        """Chance that belongs to a patient, or to something that is numbered within the patient."""
        ids = np.column_stack([self.counter[patient], number]).astype(np.uint64)
        return Draws(self.key, step, ids)

    @cached_property
    def draws(self) -> Draws:
        """Chance that belongs to the patient."""
        everybody = np.arange(len(self.counter))
        return self.draw(PATIENT, everybody, np.zeros_like(everybody))

    @cached_property
    def female(self) -> Mask:
        """Who is a woman or a girl."""
        return self.draws.uniform("sex") < FEMALE_SHARE

    @cached_property
    def first_admission(self) -> Integers:
        """Any day of the years, in days since 1970."""
        first, last = ((day - EPOCH).days for day in (FIRST_DAY, LAST_DAY))
        return first + (self.draws.uniform("admitted") * (last - first)).astype(np.int64)

    @cached_property
    def age(self) -> Floats:
        """Years at the first admission."""
        ends = np.array(list(AGES), np.float64)
        band = society.choose_levels(self.draws.uniform("age"), list(AGES.values()))
        low, high = ends[band].T
        years: Floats = low + self.draws.uniform("age", 1) * (high - low)
        return years

    @cached_property
    def birth(self) -> Integers:
        """Days since 1970."""
        return self.first_admission - (self.age * 365.25).astype(np.int64)

    @cached_property
    def region(self) -> Integers:
        """Where the patient lives."""
        shares = [share for _, share in REGIONS.values()]
        return society.choose_levels(self.draws.uniform("region"), shares)

    @cached_property
    def ethnicity(self) -> Integers:
        """More mixed in the port city."""
        shares = [[level[group] for level in ETHNICITY.values()] for group in (0, 1)]
        port = self.region == list(REGIONS).index(society.PORT)
        return society.choose_levels(self.draws.uniform("ethnicity"), shares, port.astype(np.int64))

    @cached_property
    def chronic(self) -> Integers:
        """The chronic illness that brings the patient back, more often of the old."""
        group = (self.age >= MIDDLE).astype(np.int64) + (self.age >= OLD)
        table = society.build_share_table(CHRONIC)
        return society.choose_levels(self.draws.uniform("chronic"), table, group)

    @cached_property
    def visits(self) -> Integers:
        """How many stays there would be if the years had no end and nobody died."""
        again = np.array(MORE_STAYS)[(self.chronic > 0).astype(np.int64)]
        # Another one with the same chance each time: a geometric number.
        more = np.floor(np.log(self.draws.uniform("visits")) / np.log(again)).astype(np.int64)
        stays: Integers = np.minimum(1 + more, MOST_STAYS)
        return stays


def _build_patients(patients: Patients) -> pl.DataFrame:
    prefix = society.label_levels([prefix for prefix, _ in REGIONS.values()], patients.region)
    names = identifiers.make_names(patients.draws, patients.counter, patients.female)
    unknown = pl.Series(patients.draws.uniform("missing ethnicity") < UNKNOWN_ETHNICITY)
    ethnicity = society.label_levels(ETHNICITY, patients.ethnicity)
    return pl.DataFrame(
        {
            "patient_id": _name_patients(patients.counter),
            "name": names["name"],
            "nhs_number": identifiers.make_health_numbers(patients.counter, patients.key),
            "birth_date": _read_days(patients.birth),
            "sex": society.label_levels(SEX, (~patients.female).astype(np.int64)),
            "ethnicity": ethnicity.set(unknown, None),
            "postcode": identifiers.make_postcodes(patients.draws, prefix),
            "region": society.label_levels(REGIONS, patients.region),
        }
    )


def _draw_stays(patients: Patients) -> pl.DataFrame:
    """The stays of each patient, one after the other, as far as the years and a life go."""
    of = np.repeat(np.arange(len(patients.counter)), patients.visits)
    starts = np.cumsum(patients.visits) - patients.visits
    visit = np.arange(len(of)) - starts[of]
    draws = patients.draw(STAY, of, visit)
    diagnosis = society.draw_diagnosis(
        draws.uniform("diagnosis"), _list_conditions(patients, of, visit), DIAGNOSES
    )
    usual, planned, deadly = np.array([numbers for _, *numbers in STAYS.values()]).T
    days = np.minimum(usual[diagnosis] * np.exp(0.7 * draws.normal("days") - 0.245), LONGEST)
    days = days.astype(np.int64)
    at_home = GAP + (-np.log(draws.uniform("at home")) * DAYS_AT_HOME).astype(np.int64)
    at_home += np.where(diagnosis == list(DIAGNOSES).index("O80"), PREGNANCY, 0)
    since_first = _sum_before(days + at_home, starts[of])
    admitted = patients.first_admission[of] + since_first
    admitted = np.where(
        draws.uniform("planned") < planned[diagnosis], _find_working_days(admitted), admitted
    )
    age = patients.age[of] + since_first / 365.25
    died = draws.uniform("died") < deadly[diagnosis] * np.where(age >= OLD, 2.5, 1.0)
    alive = _sum_before(died.astype(np.int64), starts[of]) == 0
    is_kept = alive & (admitted + days <= (LAST_DAY - EPOCH).days)
    stays = pl.DataFrame(
        {
            "patient_id": _name_patients(patients.counter[of]),
            "visit": visit,
            "patient": of,
            "admitted": _read_days(admitted),
            "discharged": _read_days(admitted + days),
            "birth": _read_days(patients.birth[of]),
            "ward": _choose_wards(diagnosis, age),
            "diagnosis": society.label_levels(DIAGNOSES, diagnosis),
            "discharged_to": _choose_destinations(draws, age, died),
        }
    )
    return stays.filter(pl.Series(is_kept)).with_columns(_count_years().alias("age")).drop("birth")


def _list_conditions(patients: Patients, of: Integers, visit: Integers) -> dict[str, Mask]:
    """What makes a diagnosis more or less common, for each stay."""
    female, age = patients.female[of], patients.age[of]
    fertile = female & (age >= FERTILE[0]) & (age < FERTILE[1])
    chronic = {
        name: patients.chronic[of] == code for code, name in enumerate(CHRONIC) if name != "none"
    }
    return {
        "woman": female,
        "man": ~female,
        "child": age < CHILD,
        "old": age >= OLD,
        "not fertile": ~fertile,
        "again": visit > 0,
        **chronic,
    }


def _choose_wards(diagnosis: Integers, age: Floats) -> pl.Series:
    """By the diagnosis; children have a ward of their own."""
    ward = np.array([WARDS.index(ward) for ward, *_ in STAYS.values()])[diagnosis]
    return society.label_levels(WARDS, np.where(age < CHILD, WARDS.index(PAEDIATRICS), ward))


def _choose_destinations(draws: Draws, age: Floats, died: Mask) -> pl.Series:
    """Where a patient goes; the old more often to a care home."""
    shares = [[0.94, 0.01, 0.05], [0.76, 0.17, 0.07]]
    group = (age >= OLD).astype(np.int64)
    going = society.choose_levels(draws.uniform("discharged_to"), shares, group)
    return society.label_levels(DESTINATIONS, np.where(died, DESTINATIONS.index("died"), going))


def _find_working_days(days: Integers) -> Integers:
    """The same day, or the next one that is neither a holiday nor at a weekend."""
    dates = pl.Series(days).cast(pl.Int32).cast(pl.Date)
    month, day = dates.dt.month().to_numpy(), dates.dt.day().to_numpy()
    for (holiday_month, holiday), wait in HOLIDAYS.items():
        days = days + np.where((month == holiday_month) & (day == holiday), wait, 0)
    weekday = (days + _THURSDAY) % 7
    return np.asarray(days + np.maximum(0, 7 - weekday) * (weekday >= _SATURDAY), np.int64)


def _sum_before(values: Integers, start: Integers) -> Integers:
    """The sum of the values before each row, from the row on where its patient begins."""
    before = np.cumsum(values) - values
    return np.asarray(before - before[start], np.int64)


def _count_years() -> pl.Expr:
    """The completed years from birth to admission."""
    born, admitted = (pl.col(name).dt for name in ("birth", "admitted"))
    birthday, today = (100 * date.month().cast(pl.Int32) + date.day() for date in (born, admitted))
    return (admitted.year() - born.year() - (today < birthday).cast(pl.Int32)).cast(pl.Int64)


def _draw_samples(patients: Patients, stays: pl.DataFrame) -> pl.DataFrame:
    """The laboratory of each stay: on the first day, then about every other day."""
    patient, visit = stays["patient"].to_numpy(), stays["visit"].to_numpy()
    days = (stays["discharged"] - stays["admitted"]).dt.total_days().to_numpy()
    untested = stays["ward"].replace_strict(UNTESTED, default=0.0).to_numpy()
    tested = patients.draw(STAY, patient, visit).uniform("tested") >= untested
    counts = np.where(tested, 1 + np.minimum(days // 2, MOST_SAMPLES - 1), 0)
    of = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(of)) - (np.cumsum(counts) - counts)[of]
    draws = patients.draw(SAMPLE, patient[of], visit[of] * MOST_SAMPLES + number)
    late = (draws.uniform("sampled") < A_DAY_LATE) & (number > 0)
    day = np.minimum(2 * number + late, days[of])
    values = _draw_values(patients, patient[of], day, stays["diagnosis"][of], draws)
    taken = stays.select("patient_id", "visit", "admitted")[of]
    return taken.select(
        "patient_id", "visit", sampled=pl.col("admitted") + pl.duration(days=pl.lit(pl.Series(day)))
    ).hstack(values)


def _draw_values(
    patients: Patients, of: Integers, day: Integers, diagnosis: pl.Series, draws: Draws
) -> pl.DataFrame:
    """The values of each sample: some part belongs to the patient, the rest to the day."""
    of_patient = {name: patients.draws.normal(name)[of] for name in UNITS}
    of_day = {name: draws.normal(name) for name in UNITS}
    infected = diagnosis.is_in(INFECTIONS).to_numpy()
    kidney = patients.chronic[of] == list(CHRONIC).index("kidney")
    albumin = (
        ALBUMIN["mean"]
        + ALBUMIN["patient_sd"] * of_patient["albumin"]
        + ALBUMIN["residual_sd"] * of_day["albumin"]
    )
    # An infection falls by about a tenth a day.
    log_crp = 2.3 + (1.9 - 0.1 * np.minimum(day, 15)) * infected
    log_crp = log_crp + 0.5 * of_patient["crp"] + 0.6 * of_day["crp"]
    log_creatinine = np.where(patients.female[of], 4.23, 4.42) + 1.1 * kidney
    log_creatinine = log_creatinine + 0.2 * of_patient["creatinine"] + 0.1 * of_day["creatinine"]
    albumin = _round_value("albumin", albumin)
    haemoglobin = (
        HAEMOGLOBIN["intercept"]
        + HAEMOGLOBIN["female"] * patients.female[of]
        + HAEMOGLOBIN["albumin"] * (albumin - ALBUMIN["mean"])
        + HAEMOGLOBIN["patient_sd"] * of_patient["haemoglobin"]
        + HAEMOGLOBIN["residual_sd"] * of_day["haemoglobin"]
    )
    measured = {
        "albumin": albumin,
        "crp": _round_value("crp", np.exp(log_crp)),
        "creatinine": _round_value("creatinine", np.exp(log_creatinine)).astype(np.int64),
        "haemoglobin": _round_value("haemoglobin", haemoglobin).astype(np.int64),
    }
    has_crp = pl.Series(draws.uniform("missing crp") >= NO_CRP)
    return pl.DataFrame(measured).with_columns(pl.when(has_crp).then("crp").alias("crp"))


def _round_value(name: str, values: Floats) -> Floats:
    """As the laboratory writes it, within bounds; rounding hides a library's last digit."""
    return np.asarray(np.round(np.clip(values, *BOUNDS[name]), _DECIMALS[name]), np.float64)


def _name_patients(numbers: Integers) -> pl.Series:
    return "P" + pl.Series(numbers + 1).cast(pl.String).str.zfill(7)


def _read_days(days: Integers) -> pl.Series:
    return pl.Series(days).cast(pl.Int32).cast(pl.Date)
