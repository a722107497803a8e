"""Pairs of an original and a released data set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf


@dataclass(frozen=True)
class Pair:
    original: sf.Dataset
    released: sf.Dataset
    reference: Any = None

    def shuffle_records(self, seed: int) -> tuple[Pair, np.ndarray]:
        order = np.random.default_rng(seed).permutation(len(self.original))
        made = [sf.Dataset(one.frame[order], one.schema) for one in (self.original, self.released)]
        return Pair(*made), order


@pytest.fixture(scope="session")
def titanic(shared_data) -> Pair:
    """The release of paper 000, as its reference numbers were computed from it."""
    folder = shared_data.parent / "reference"
    moved = pl.read_csv(folder / "titanic_anonymised.csv")
    original = pl.read_csv(shared_data / "titanic.csv").select(
        "Survived",
        "Pclass",
        "Sex",
        pl.col("Age").fill_null(28.0),
        "Fare",
        Family=pl.col("SibSp") + pl.col("Parch") > 0,
    )
    released = original.with_columns(moved["Age"], moved["Fare"])
    reference = json.loads((folder / "000_titanic.json").read_text())
    return Pair(sf.Dataset(original), sf.Dataset(released), reference)


@pytest.fixture
def noisy(cohort) -> Pair:
    """The cohort beside a copy with noise, new gaps, filled gaps and equal records."""
    frame = pl.concat([cohort.frame, cohort.frame.head(40)])
    draw = np.random.default_rng(7)
    noise = {name: draw.normal(size=len(frame)) for name in ("height", "glucose", "weight_kg")}
    gaps = draw.random(len(frame)) < 0.05
    changed = frame.with_columns(
        pl.col("height") + pl.Series(noise["height"]),
        (pl.col("glucose") + pl.Series(noise["glucose"])).fill_null(5.0),
        pl.when(~pl.Series(gaps)).then(pl.col("weight_kg") + pl.Series(noise["weight_kg"])),
        pl.when(~pl.Series(gaps)).then(pl.col("smoking")),
    )
    return Pair(sf.Dataset(frame, cohort.schema), sf.Dataset(changed, cohort.schema))


def numbers(columns: dict[str, Any], **told: sf.Column) -> sf.Dataset:
    """A small data set."""
    schema = {name: told.get(name, sf.Column(role="quasi")) for name in columns}
    return sf.Dataset(pl.DataFrame(columns), sf.Schema(schema))
