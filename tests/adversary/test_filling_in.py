"""What the rest of a release gives away is put in before targets are judged.

"k, l, t and re-identification are measured once more on the table of an attacker who has worked
out what other released variables give away of the protected ones, and targets are checked against
the worse." (promises.md)

The attackers here are dictionaries and counters: they share nothing with the measures.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import TargetError
from sfumato.plan import Writing
from sfumato.risk.dependencies import filling_in
from sfumato.risk.dependencies.filling_in import fill_in
from sfumato.risk.dependencies.rules import Finding, ReleasedView
from sfumato.storage.opening import open_release

KEY = bytes(range(32))
_REGIONS = [f"AT{number}" for number in range(9)]
_CELLS = list(itertools.product(_REGIONS, range(1, 9)))[:-1]
_KNOWN = ("region", "household_size")
_ROLES: dict[str, Any] = {
    "region": "quasi", "household_size": "quasi", "age": "other", "illness": "sensitive",
    "survey_weight": "weight",
}  # fmt: skip


def _households(size: int = 1_200) -> pl.DataFrame:
    """Households as in EU-SILC: 71 survey weights, one for each region and household size."""
    chance = random.Random(18)  # noqa: S311 - no secret
    weights = dict(zip(_CELLS, chance.sample(range(90_000, 990_000), len(_CELLS)), strict=True))
    # Small households are common, and so are the first regions.
    shares = [1 / (1 + _REGIONS.index(region)) / number for region, number in _CELLS]
    chosen = chance.choices(_CELLS, shares, k=size)
    return pl.DataFrame(
        {
            "region": [region for region, _ in chosen],
            "household_size": [number for _, number in chosen],
            "age": [chance.randrange(18, 90) for _ in chosen],
            "illness": [chance.choice(["flu", "cold", "none", "asthma"]) for _ in chosen],
            "survey_weight": [weights[cell] / 1000 for cell in chosen],
        }
    )


HOUSEHOLDS = _households()


def _look_up_and_count(
    original: list[dict[str, Any]], released: list[dict[str, Any]], tool: str
) -> int:
    """k, once every protected cell is replaced by what all others with this weight have."""
    values: dict[str, dict[Any, set[Any]]] = {name: defaultdict(set) for name in _KNOWN}
    for row in original:
        for name in _KNOWN:
            values[name][row[tool]].add(row[name])
    table = Counter(
        tuple(
            next(iter(values[name][row[tool]])) if len(values[name][row[tool]]) == 1 else row[name]
            for name in _KNOWN
        )
        for row in released
    )
    return min(table.values())


def _protect(steps: list[Any], targets: dict[str, Any], **roles: Any) -> sf.Release:
    data = sf.Dataset(HOUSEHOLDS, sf.Schema(_ROLES | roles))
    plan = sf.Plan(schema=_ROLES | roles, steps=steps, targets=targets)
    return sf.protect(data, plan, key=KEY)


_STEP = sf.methods.KAnonymity(variables=[*_KNOWN], k=5)


def test_k_is_refused_where_the_weight_gives_region_and_size_back() -> None:
    release = _protect([_STEP], {})
    attacked = _look_up_and_count(
        HOUSEHOLDS.to_dicts(), release.dataset.frame.to_dicts(), "survey_weight"
    )
    assert attacked == 1
    with pytest.raises(TargetError, match="once an attacker has worked out") as caught:
        _protect([_STEP], {"k.min": 5})
    text = str(caught.value)
    assert "k at least 5: MISSED, it is 1 once an attacker has worked out" in text
    assert "'region' from 'survey_weight'" in text
    assert "'household_size' from 'survey_weight'" in text
    assert "as released it is 5" in text
    assert 'method "weights"' in text
    details = caught.value.evidence["uniqueness"].details
    assert (details["k"], details["k_filled_in"], details["k_at_worst"]) == (5, 1, 1)


@pytest.mark.parametrize(
    ("steps", "targets"),
    [
        ([_STEP], {"reidentification.max": 0.0}),
        ([_STEP], {"k_by_fitting.min": 5}),
        ([_STEP], {"uniqueness.max": 0.0}),
        ([sf.methods.LDiversity(variables=[*_KNOWN], k=5, l=2)], {"l.min": 2}),
        ([sf.methods.TCloseness(variables=[*_KNOWN], k=5, t=0.3)], {"t.max": 0.3}),
        # Blanks are filled in, however few they are.
        ([sf.methods.Suppress(variables=[*_KNOWN], k=5)], {"k.min": 5}),
        # So is a variable that was dropped.
        (
            [
                sf.methods.Drop(variables=["region"]),
                sf.methods.KAnonymity(variables=["household_size"], k=5),
            ],
            {"k.min": 5},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_other_targets_and_other_steps(steps: list[Any], targets: dict[str, Any]) -> None:
    assert _protect(steps, {})  # nothing else is wrong with it
    with pytest.raises(TargetError, match="worked out"):
        _protect(steps, targets)


def test_a_weight_that_was_only_rounded_still_tells() -> None:
    schema = sf.Schema(_ROLES)
    data = sf.Dataset(HOUSEHOLDS, schema)
    released = _STEP.apply(data, key=KEY)
    rounded = released.with_columns(
        pl.DataFrame({"survey_weight": HOUSEHOLDS["survey_weight"].round(1)})
    )
    assert rounded.frame["survey_weight"].n_unique() > 60
    filled = fill_in(data, rounded)
    assert filled is not None
    assert {finding.protected for finding in filled.findings} == {*_KNOWN}


def test_weights_on_few_levels_are_released() -> None:
    release = _protect([_STEP, sf.methods.Weights(levels=4)], {"k.min": 5})
    table = _look_up_and_count(
        HOUSEHOLDS.to_dicts(), release.dataset.frame.to_dicts(), "survey_weight"
    )
    assert table >= 5


def test_the_bytes_on_disk_are_measured_in_the_same_way(tmp_path: Path) -> None:
    stated: dict[str, Any] = {"schema": _ROLES, "steps": [_STEP],
                              "release": Writing(accept_attacks="a test")}  # fmt: skip
    data = sf.Dataset(HOUSEHOLDS, sf.Schema(_ROLES))
    careless = sf.protect(data, sf.Plan(**stated), key=KEY)
    demanding = sf.Plan(**stated, targets={"k.min": 5})
    with pytest.raises(TargetError, match="worked out"):
        replace(careless, plan=demanding).write(tmp_path / "refused", ledger=False)
    careless.write(tmp_path / "release", ledger=False)
    opened = open_release(tmp_path / "release")
    (judgement,), _ = opened.judge(demanding, data)
    assert not judgement.met
    assert judgement.number == 1


def test_nothing_of_it_is_public() -> None:
    # Two regions only: k falls, but not below what the plan asks.
    frame = (
        HOUSEHOLDS.head(400)
        .with_columns(
            region=pl.when(pl.int_range(400) % 4 == 0)
            .then(pl.lit("north"))
            .otherwise(pl.lit("south")),
            household_size=pl.lit(1),
        )
        .with_columns(survey_weight=pl.when(region="north").then(1.25).otherwise(7.5))
    )
    plan = sf.Plan(
        schema=_ROLES,
        steps=[sf.methods.Drop(variables=["region"])],
        targets={"k.min": 5},
    )
    release = sf.protect(sf.Dataset(frame, sf.Schema(_ROLES)), plan, key=KEY)
    (judgement,) = release.verdict
    assert judgement.met
    assert judgement.number == 100
    public = repr(release.manifest)
    assert "filled_in" not in public
    assert "worked out" not in public
    assert "gives away" not in public
    assert release.manifest["targets"][0]["value"] is None


def test_tools_that_are_known_themselves_take_nothing_from_k() -> None:
    """A guess that follows from the cells of a class is the same for all of the class."""
    chance = np.random.default_rng(5)
    county = chance.integers(0, 12, 400)
    frame = pl.DataFrame(
        {"county": county, "region": county // 4, "age": chance.integers(0, 3, 400)}
    )
    schema = sf.Schema(dict.fromkeys(frame.columns, "quasi"))
    hidden = frame.with_columns(region=pl.lit(None, pl.Int64))
    data, released = sf.Dataset(frame, schema), sf.Dataset(hidden, schema)
    filled = fill_in(data, released)
    assert filled is not None
    sizes = [sf.risk.Uniqueness().measure(table).details["k"]
             for table in (released, filled.dataset)]  # fmt: skip
    assert sizes[0] == sizes[1]


def test_representatives_of_classes_are_not_taken_for_a_leak() -> None:
    """All of a class show the same cells, so the same is guessed for all of them."""
    chance = np.random.default_rng(6)
    size = chance.integers(1, 6, 600)
    frame = pl.DataFrame({"size": size, "rooms": size + chance.integers(0, 2, 600)})
    roles: dict[str, Any] = dict.fromkeys(frame.columns, "quasi")
    plan = sf.Plan(schema=roles, steps=[sf.methods.KAnonymity(k=5, output="mode")],
                   targets={"k.min": 5})  # fmt: skip
    assert sf.protect(sf.Dataset(frame, sf.Schema(roles)), plan, key=KEY).verdict[0].met


def test_chance_is_no_leak() -> None:
    """Forty unrelated variables, some with many values: nothing is put in."""
    chance = np.random.default_rng(7)
    columns = {f"o{index}": chance.integers(0, 3 + 20 * index, 400) for index in range(12)}
    frame = pl.DataFrame({"sex": chance.choice(["f", "m"], 400), **columns})
    roles: dict[str, Any] = {"sex": "quasi"} | dict.fromkeys(columns, "other")
    schema = sf.Schema(roles)
    hidden = frame.with_columns(sex=pl.lit(None, pl.String))
    assert fill_in(sf.Dataset(frame, schema), sf.Dataset(hidden, schema)) is None


def test_records_that_nobody_paired_are_not_compared() -> None:
    data = sf.Dataset(HOUSEHOLDS, sf.Schema(_ROLES))
    released = _STEP.apply(data, key=KEY)
    plain = sf.Dataset(released.frame, released.schema)
    found = sf.evaluate(data, plain, ["uniqueness"])
    assert "k_filled_in" not in found["uniqueness"].details
    found = sf.evaluate(data, plain, ["uniqueness", "recoverable"], paired=True)
    assert found["uniqueness"].details["k_filled_in"] == 1


def test_the_order_of_rows_does_not_matter() -> None:
    data = sf.Dataset(HOUSEHOLDS, sf.Schema(_ROLES))
    released = _STEP.apply(data, key=KEY)
    order = np.random.default_rng(1).permutation(len(data))
    filled, again = fill_in(data, released), fill_in(data.take(order), released.take(order))
    assert filled is not None
    assert again is not None
    assert filled.describe() == again.describe()
    assert filled.dataset.frame[order].equals(again.dataset.frame)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40
    )
)
def test_the_table_of_answers_against_a_slow_reference(rows: list[tuple[int, int, int]]) -> None:
    frame = pl.DataFrame(rows, schema=["first", "second", "secret"], orient="row")
    schema = sf.Schema({"first": "other", "second": "other", "secret": "quasi"})
    hidden = frame.with_columns(secret=pl.lit(None, pl.Int64))
    view = ReleasedView(sf.Dataset(frame, schema), sf.Dataset(hidden, schema))
    finding = Finding("secret", ("first", "second"), "same value", precision=1.0)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for first, second, secret in rows:
        groups[first, second].append(secret)
    expected = []
    for first, second, _ in rows:
        (value, count), = Counter(groups[first, second]).most_common(1)  # fmt: skip
        sure = len(groups[first, second]) > 1 and count >= 0.95 * len(groups[first, second])
        expected.append(value if sure else None)
    assert filling_in._look_up(view, finding).to_list() == expected
