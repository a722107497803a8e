"""Seven public data sets that custodians have tried, drawn anew from their public descriptions.

Each has the shape that made trouble: a weight that stands for region and household size, a variable
and its logarithm, dates whose difference is an age, visits of the same patient, coded incomes.
`anes96` and `randhie` are the real ones, which statsmodels brings along.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl


def silc(n: int = 3000, seed: int = 1) -> pl.DataFrame:
    """Households in the manner of EU-SILC: 71 weights, one for each region and household size."""
    rng = np.random.default_rng(seed)
    regions = np.array([f"AT{number}" for number in range(1, 10)])
    region = rng.integers(0, 9, n)
    size = np.minimum(1 + rng.poisson(1.4, n), 8)
    size[(region == 0) & (size == 8)] = 7
    weight = np.round(300 + 41.7 * region + 23.9 * size + 0.37 * region * size, 4)
    age = rng.integers(16, 95, n)
    income = np.round(np.exp(rng.normal(9.8, 0.7, n)), 2)
    return pl.DataFrame(
        {
            "db030": np.arange(100_000, 100_000 + n),
            "region": regions[region],
            "household_size": size,
            "age": age,
            "sex": rng.choice(["female", "male"], n),
            "citizenship": rng.choice(["AT", "EU", "other"], n, p=[0.87, 0.08, 0.05]),
            "employee_income": income,
            "survey_weight": weight,
        }
    )


def pbcseq(patients: int = 200, seed: int = 2) -> pl.DataFrame:
    """Visits of liver patients: a few rows for each, whose age and sex never change."""
    rng = np.random.default_rng(seed)
    visits = 1 + rng.poisson(5, patients)
    person = np.repeat(np.arange(patients), visits)
    n = len(person)
    first = np.concatenate([np.arange(count) for count in visits])
    bili = np.exp(rng.normal(0.6, 1.0, patients))[person] * np.exp(rng.normal(0, 0.3, n))
    return pl.DataFrame(
        {
            "id": person + 1,
            "age": np.round(rng.normal(50, 10, patients), 5)[person],
            "sex": rng.choice(["f", "m"], patients, p=[0.88, 0.12])[person],
            "trt": rng.integers(0, 2, patients)[person],
            "day": first * 190 + rng.integers(0, 20, n) * (first > 0),
            "ascites": rng.integers(0, 2, n),
            "bili": np.round(bili, 1),
            "albumin": np.round(rng.normal(3.4, 0.4, n), 2),
            "platelet": rng.integers(60, 500, n),
            "stage": rng.integers(1, 5, n),
        }
    )


def cgd(children: int = 128, seed: int = 3) -> pl.DataFrame:
    """Infections of children in a trial, with the date on which each was randomised."""
    rng = np.random.default_rng(seed)
    rows = 1 + rng.poisson(0.6, children)
    child = np.repeat(np.arange(children), rows)
    start = dt.date(1988, 8, 28)
    days = rng.integers(0, 230, children)
    return pl.DataFrame(
        {
            "id": child + 1,
            "center": rng.choice([f"Hospital {letter}" for letter in "ABCDEFGHIJKLM"], children)[
                child
            ],
            "random": [start + dt.timedelta(int(day)) for day in days[child]],
            "treat": rng.choice(["placebo", "rIFN-g"], children)[child],
            "sex": rng.choice(["male", "female"], children, p=[0.81, 0.19])[child],
            "age": rng.integers(1, 45, children)[child],
            "height": np.round(rng.uniform(76, 189, children), 1)[child],
            "weight": np.round(rng.uniform(10, 101, children), 1)[child],
            "inherit": rng.choice(["X-linked", "autosomal"], children)[child],
            "status": rng.integers(0, 2, len(child)),
        }
    )


def jasa(n: int = 103, seed: int = 4) -> pl.DataFrame:
    """Heart transplants: dates of birth and acceptance, whose difference is the age in days."""
    rng = np.random.default_rng(seed)
    birth = [dt.date(1909, 1, 1) + dt.timedelta(int(day)) for day in rng.integers(0, 15_000, n)]
    accepted = [dt.date(1967, 9, 1) + dt.timedelta(int(day)) for day in rng.integers(0, 2300, n)]
    follow_up = rng.integers(1, 1800, n)
    return pl.DataFrame(
        {
            "birth_dt": birth,
            "accept_dt": accepted,
            "fu_date": [a + dt.timedelta(int(d)) for a, d in zip(accepted, follow_up, strict=True)],
            "fustat": rng.integers(0, 2, n),
            "surgery": rng.integers(0, 2, n),
            "age_days": [(a - b).days for a, b in zip(accepted, birth, strict=True)],
            "futime": follow_up,
            "transplant": rng.integers(0, 2, n),
        }
    )


def anes96() -> pl.DataFrame:
    """Voters: a town's population and its logarithm, incomes in 24 codes (944 records)."""
    import statsmodels.api as sm

    frame: pl.DataFrame = pl.from_pandas(sm.datasets.anes96.load_pandas().data)
    whole = [name for name in frame.columns if name != "logpopul"]
    return frame.with_columns(pl.col(whole).cast(pl.Int64))


def birthwt(n: int = 189, seed: int = 5) -> pl.DataFrame:
    """Births: `low` says whether the weight of the child is below 2,500 g."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(2945, 730, n).clip(700, 5000).round().astype(int)
    return pl.DataFrame(
        {
            "low": (weight < 2500).astype(int),
            "age": rng.integers(14, 46, n),
            "lwt": rng.normal(130, 30, n).clip(80, 250).round().astype(int),
            "race": rng.integers(1, 4, n),
            "smoke": rng.integers(0, 2, n),
            "ptl": rng.poisson(0.2, n),
            "ht": (rng.random(n) < 0.06).astype(int),
            "bwt": weight,
        }
    )


def randhie(n: int = 20_190) -> pl.DataFrame:
    """Doctor's visits of insured people: many rows, few columns, all numbers."""
    import statsmodels.api as sm

    frame: pl.DataFrame = pl.from_pandas(sm.datasets.randhie.load_pandas().data.head(n))
    return frame
