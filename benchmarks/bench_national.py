"""NIST's national 2019 excerpt: how releases look to an outside judge, and who is found.

Ten demographic features, 27,253 records. k-marginal, unique exact match and DiSCO are computed here
from their published definitions, without code of ours; linkage is ours (`mixed_linkage`), because
none of the three sees it. Baselines are the published reports of sdcMicro (k = 6) and of MST
(epsilon = 1) on the same ten features.

SFUMATO_DATA=... python -m benchmarks bench_national: k = 6 with "balanced" values reaches 992 /
4.8 % / .258 with 6.1 % linked (with modes 961 / 5.0 % / .267, 6.8 %); k = 10 and a light exchange
of all nine categories 969 / 4.6 % / .059, 2.6 %. The whole table is in docs/comparison.md.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl

import sfumato as sf
from sfumato import catalogue

TEN = ("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET",
       "DEYE")  # fmt: skip
KEY = bytes(range(32))
PUBLISHED = (("sdcMicro k = 6 (published)", 907, 0.474, 0.329),
             ("MST epsilon = 1 (published)", 958, 0.125, 0.098))  # fmt: skip


def k_marginal(original: pl.DataFrame, released: pl.DataFrame) -> float:
    """(2 - mean sum of absolute differences of two-way shares) x 500, age in tens."""
    frames = [
        frame.with_columns((pl.col("AGEP").cast(pl.Float64) // 10).cast(pl.String))
        for frame in (original, released)
    ]
    gaps = []
    for pair in itertools.combinations(TEN, 2):
        first, second = (
            frame.group_by(pair).len().with_columns(pl.col("len") / frame.height)
            for frame in frames
        )
        both = first.join(second, on=pair, how="full", nulls_equal=True).select(
            pl.col("len").fill_null(0), pl.col("len_right").fill_null(0)
        )
        gaps.append((both["len"] - both["len_right"]).abs().sum())
    return float((2 - sum(gaps) / len(gaps)) * 500)


def unique_exact_match(original: pl.DataFrame, released: pl.DataFrame) -> float:
    """Of the unique original records, the share that the release shows as they are."""
    counts = Counter(original.iter_rows())
    unique = [row for row, count in counts.items() if count == 1]
    shown = set(released.iter_rows())
    return sum(row in shown for row in unique) / len(unique)


def disco(original: pl.DataFrame, released: pl.DataFrame) -> float:
    """Disclosive in synthetic, correct in original: who knows sex, race and two more variables."""
    shares = []
    rest = [name for name in TEN if name not in ("SEX", "RAC1P")]
    for more in itertools.combinations(rest, 2):
        known = ["SEX", "RAC1P", *more]
        for target in (name for name in rest if name not in more):
            single = (
                released.group_by(known)
                .agg(pl.col(target).n_unique().alias("kinds"), pl.col(target).first())
                .filter(pl.col("kinds") == 1)
                .drop("kinds")
            )
            hits = original.join(single, on=[*known, target], how="semi")
            shares.append(hits.height / original.height)
    return sum(shares) / len(shares)


def linkage(original: sf.Dataset, released: sf.Dataset) -> float:
    """The share of people whom a register of all ten variables names."""
    return catalogue.measure("mixed_linkage")().measure(original, released).value


def main() -> None:
    """Print the table."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        print("SFUMATO_DATA is not set: the excerpt is not part of the project.")
        return
    path = Path(folder) / "national2019.csv"
    frame = (
        pl.read_csv(path, infer_schema=False)
        .select(TEN)
        .with_columns(pl.col("AGEP").cast(pl.Int64))
    )
    roles = {name: sf.Column(role="quasi", kind="nominal") for name in TEN[1:]}
    schema = sf.Schema({"AGEP": sf.Column(role="quasi", kind="integer"), **roles})
    data = sf.Dataset(frame, schema)
    secrets = ["MSP", "EDU", "PINCP_DECILE", "OWN_RENT"]

    def classes(k: int, output: str) -> sf.methods.KAnonymity:
        return sf.methods.KAnonymity(k=k, output=output)

    def exchange(variables: Sequence[str], retention: float) -> sf.methods.Misclassify:
        return sf.methods.Misclassify(
            variables=list(variables), retention=retention, towards="marginal"
        )

    plans = {
        "k = 6, mode": [classes(6, "mode")],
        "k = 10, mode": [classes(10, "mode")],
        "k = 4, balanced": [classes(4, "balanced")],
        "k = 6, balanced": [classes(6, "balanced")],
        "k = 10, balanced": [classes(10, "balanced")],
        "k = 20, balanced": [classes(20, "balanced")],
        "k = 6, mode, 4 secrets .9": [classes(6, "mode"), exchange(secrets, 0.9)],
        "k = 10, balanced, 4 secrets .9": [classes(10, "balanced"), exchange(secrets, 0.9)],
        "k = 10, balanced, all nine .98": [classes(10, "balanced"), exchange(TEN[1:], 0.98)],
        "k = 10, balanced, all nine .97": [classes(10, "balanced"), exchange(TEN[1:], 0.97)],
        "k = 20, balanced, all nine .97": [classes(20, "balanced"), exchange(TEN[1:], 0.97)],
    }
    print(f"{len(frame):,} people, {len(TEN)} variables")
    print(
        f"{'file':34} {'k-marginal':>10} {'unique match':>12} {'DiSCO':>6} {'linked':>7} {'s':>5}"
    )
    for name, score, match, disclosed in PUBLISHED:
        print(f"{name:34} {score:10.0f} {match:12.1%} {disclosed:6.3f} {'?':>7}")
    for name, steps in plans.items():
        start = time.perf_counter()
        plan = sf.Plan(schema=dict(data.schema), steps=steps)
        released = sf.protect(data, plan, key=KEY).dataset
        seconds = time.perf_counter() - start
        shown = pl.DataFrame(released.frame).with_columns(
            pl.col("AGEP").cast(pl.Float64).round().cast(pl.Int64)
        )
        print(
            f"{name:34} {k_marginal(frame, shown):10.0f} {unique_exact_match(frame, shown):12.1%} "
            f"{disco(frame, shown):6.3f} {linkage(data, released):7.1%} {seconds:5.1f}"
        )
