"""What does a green light promise, and can somebody else break it?

The claim (docs/explanation/attacks.md): "Green means that every attack that applies was tried, and
that none succeeds too often."

The attackers here share no code with the measures. They read the written file as an outsider would,
with pandas and plain Python: one looks people up by what is known of them, one joins on a variable
that left as it was, one follows a table from an unchanged variable to a protected one. What they
achieve on a release with a green light must be within what the lights call acceptable: on a release
that one of them breaks, the light is not green.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import TargetError
from sfumato.plan import Writing

ROLES: dict[str, Any] = {
    "id": "direct", "age": "quasi", "town": "quasi", "ill": "sensitive", "w": "weight",
}  # fmt: skip
KEY = bytes(range(32))
K = 5
ROOM = 0.06


def people(seed: int, records: int = 150) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    town = random.choice(["ash", "bow", "cray", "dun"], records)
    base = dict(zip(["ash", "bow", "cray", "dun"], random.uniform(1, 9, 4).round(3), strict=True))
    return pl.DataFrame(
        {
            "id": [f"p{number}" for number in range(records)],
            "age": random.integers(18, 90, records),
            "town": town,
            "ill": random.choice(["no", "flu", "gout"], records, p=[0.6, 0.3, 0.1]),
            # One weight for each town, or one for each person.
            "w": [base[name] for name in town] if seed % 2 else random.uniform(1, 9, records),
        }
    )


def protect(frame: pl.DataFrame, *steps: sf.Method, **writing: Any) -> sf.Release:
    schema = sf.Schema(ROLES)
    plan = sf.Plan(
        schema=schema,
        steps=[sf.methods.Drop(), *steps],
        release=Writing(attack_seconds=60, keep_order=True, format="csv", **writing),
    )
    return sf.protect(sf.Dataset(frame, schema), plan, key=KEY)


def fits(cell: Any, value: Any) -> bool:
    """Whether a released cell may stand for a value, by the notation that the manual explains."""
    text = str(cell)
    if text == "*":
        return True
    if numbers := re.fullmatch(r"\[(.+);(.+)\]", text):
        return float(numbers[1]) <= float(value) <= float(numbers[2])
    if text.startswith("{"):
        return str(value) in text.strip("{}").split(";")
    return text == str(value)


def look_up(original: pl.DataFrame, released: pd.DataFrame) -> float:
    """The share of persons who are found by their age and town; the rows are in one order."""
    cells = list(released[["age", "town"]].itertuples(index=False, name=None))
    found = 0.0
    for position, (age, town) in enumerate(original.select("age", "town").iter_rows()):
        fitting = [
            row for row, cell in enumerate(cells) if fits(cell[0], age) and fits(cell[1], town)
        ]
        found += 1 / len(fitting) if position in fitting else 0
    return found / len(cells)


def join_on(original: pl.DataFrame, released: pd.DataFrame, name: str) -> float:
    """The share of records that one exact value of a variable finds for certain."""
    count = Counter(released[name].tolist())
    pairs = zip(original[name].to_list(), released[name].tolist(), strict=True)
    certain = sum(bool(mine == shown and count[shown] == 1) for mine, shown in pairs)
    return certain / len(released)


def follow(original: pl.DataFrame, released: pd.DataFrame, tool: str, secret: str) -> float:
    """The share of changed cells of a variable that a table by another one gives back."""
    if (original[tool].to_numpy() != released[tool].to_numpy()).any():
        return 0.0
    seen: defaultdict[Any, set[Any]] = defaultdict(set)
    for key, value in zip(original[tool].to_list(), original[secret].to_list(), strict=True):
        seen[key].add(value)
    shown = released[secret] if secret in released else [None] * len(released)
    cells = zip(original[tool].to_list(), original[secret].to_list(), shown, strict=True)
    changed = [key for key, value, cell in cells if str(value) != str(cell)]
    # Whoever stands alone in the table learns nothing from others.
    alike = Counter(original[tool].to_list())
    return (
        sum(len(seen[key]) == 1 < alike[key] for key in changed) / len(changed) if changed else 0.0
    )


METHODS: dict[str, list[sf.Method]] = {
    "as it is": [],
    "k": [sf.methods.KAnonymity(k=K)],
    "k and weights": [sf.methods.Weights(levels=3), sf.methods.KAnonymity(k=K)],
    "no weight": [sf.methods.Drop(variables=["w"]), sf.methods.KAnonymity(k=K)],
    "no town": [
        sf.methods.Drop(variables=["town"]),
        sf.methods.KAnonymity(variables=["age"], k=K),
    ],
    "town only": [
        sf.methods.Drop(variables=["w"]),
        sf.methods.KAnonymity(variables=["town"], k=K),
    ],
    "noise": [
        sf.methods.Drop(variables=["w", "town"]),
        sf.methods.Noise(variables=["age"], variance_share=0.5),
    ],
}


@settings(max_examples=10)
@given(st.sampled_from(sorted(METHODS)), st.integers(0, 50))
def test_whoever_breaks_a_release_finds_no_green_light(tmp_path_factory, name, seed):
    frame = people(seed)
    release = protect(frame, *METHODS[name], accept_attacks="tried here by others")
    folder = release.write(tmp_path_factory.mktemp("out") / "release", ledger=False)
    shown = pd.read_csv(folder / "data.csv")
    achieved = []
    if {"age", "town"} <= {*shown.columns}:
        achieved.append(look_up(frame, shown) - (1 / K + ROOM))
    if "w" in shown.columns:
        achieved.append(join_on(frame, shown, "w") - 0.05)
        achieved.append(follow(frame, shown, "w", "town") - 0.1)
    broken = max(achieved, default=-1.0) > 0
    assert not (broken and release.lights.attacks.colour == "green")
    if name == "k and weights":
        assert not broken


@pytest.mark.parametrize("name", ["as it is", "no town", "town only"])
def test_what_is_broken_is_not_released(name, tmp_path):
    with pytest.raises(TargetError, match="too often"):
        protect(people(1), *METHODS[name]).write(tmp_path / "out", ledger=False)
    assert not list(Path(tmp_path).iterdir())
