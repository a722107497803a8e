"""Histograms: every bar of at least k records, whatever the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, in_library

import sfumato as sf
from sfumato.errors import PlanError, SfumatoError
from sfumato.figures.public import histogram
from sfumato.outputs import Log, Rules
from sfumato.outputs.output import OutputRefused

KEY = bytes(range(32))


def frame(records: int = 300, seed: int = 1) -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "x": chance.lognormal(0, 0.5, records),
            "age": chance.integers(18, 90, records),
            "sex": np.where(chance.random(records) < 0.4, "f", "m"),
        }
    )


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=30, max_size=120),
    st.sampled_from(["suppress", "generalise", "deterministic", "noise", None]),
    st.integers(3, 8),
)
@settings(max_examples=25)
def test_every_bar_holds_at_least_k(values: list[float], protection: object, k: int) -> None:
    data = pl.DataFrame({"x": values})
    try:
        made = histogram(data, "x", protection=protection, k=k, key=KEY, density=False)  # type: ignore[arg-type]
    except (OutputRefused, SfumatoError):
        assume(False)
    assert made.table["records"].min() >= k  # type: ignore[operator]
    # A bar may end at a round number, which an extreme may happen to be.
    ends = made.table["low"].min(), made.table["high"].max()
    for extreme, end in zip((min(values), max(values)), ends, strict=True):
        assert end != extreme or extreme == round(extreme)


@pytest.mark.parametrize("protection", ["suppress", "generalise", "deterministic", "noise"])
def test_same_bytes_for_any_order_and_library(protection: str, tmp_path: Path) -> None:
    data = frame()
    made = histogram(data, "x", protection=protection, key=KEY)  # type: ignore[arg-type]
    first = made.save(tmp_path / "first.svg").read_bytes()
    mixed = data.sample(fraction=1, shuffle=True, seed=3)
    again = histogram(mixed, "x", protection=protection, key=KEY)  # type: ignore[arg-type]
    assert again.save(tmp_path / "again.svg").read_bytes() == first
    for library in LIBRARIES[1:]:
        other = histogram(in_library(data, library), "x", protection=protection, key=KEY)  # type: ignore[arg-type]
        assert other.table.equals(made.table)


def test_density_is_that_of_the_records_shown() -> None:
    made = histogram(frame(), "x")
    widths = made.table["high"] - made.table["low"]
    assert (made.table["density"] * widths).sum() == pytest.approx(1)


def test_choice_is_said() -> None:
    even = histogram(frame(), "x")
    assert even.rule["protection"] == "suppress"
    assert "loses little" in even.description
    few = histogram(frame(60), "x")
    assert few.rule["protection"] == "generalise"
    assert "Bins adapt" in few.description
    assert few.details["suppressed"] == 0


def test_whole_numbers_have_whole_bins() -> None:
    made = histogram(frame(), "age")
    assert ((made.table["high"] - made.table["low"]) % 1 == 0).all()
    assert (made.table["low"] % 1 == 0.5).all()


def test_groups_are_protected_by_themselves() -> None:
    made = histogram(frame(), "x", hue="sex", density=False)
    assert made.table["group"].unique().sort().to_list() == ["f", "m"]
    assert made.table["records"].min() >= 3  # type: ignore[operator]


def test_limits_and_verdict() -> None:
    data = frame()
    assert histogram(data, "x", limits=(0, 4)).verdict == "pass"
    ends = (data["x"].min(), data["x"].max())
    own = histogram(data, "x", limits=ends)  # type: ignore[arg-type]
    assert own.verdict == "review"
    assert "extremes" in own.reasons[0]
    declared = sf.Dataset(data, sf.Schema({"x": sf.Column(kind="continuous", domain=(0.0, 5.0))}))
    assert histogram(declared, "x", bins=10).table["low"].min() == 0


def test_small_bars_are_shown_only_of_protected_values() -> None:
    shown = histogram(frame(60), "x", protection="deterministic", small="show", bins=20)
    assert shown.verdict == "review"
    with pytest.raises(OutputRefused, match="never shown"):
        histogram(frame(), "x", protection="suppress", small="show")
    with pytest.raises(PlanError, match="small"):
        histogram(frame(), "x", small="some")  # type: ignore[arg-type]


def test_all_in_one_bar_needs_a_second_look() -> None:
    data = pl.DataFrame({"x": np.random.default_rng(1).normal(size=50)})
    made = histogram(data, "x", limits=(-100, 100), bins=1)
    assert made.verdict == "review"
    with pytest.raises(OutputRefused, match="one cell"):
        histogram(data, "x", limits=(-100, 100), bins=1, rules=Rules(full="hide"))


def test_log_lists_what_was_made_and_what_was_refused() -> None:
    log = Log()
    made = histogram(frame(), "x", log=log)
    with pytest.raises(OutputRefused):
        histogram(frame(), "x", bins=250, log=log)
    # The same people less two: somebody could take the difference.
    near = histogram(frame().head(298), "x", log=log)
    assert [one.verdict for one in log] == ["pass", "refuse", "review"]
    assert (made.verdict, near.verdict) == ("pass", "review")
    assert "key" not in next(iter(log)).rule


def test_export_and_odd_names(tmp_path: Path) -> None:
    data = frame().rename({"x": "a $b$ <c>"})
    made = histogram(data, "a $b$ <c>")
    made.save(tmp_path / "odd.svg")
    assert pl.read_csv(made.export(tmp_path / "odd.csv")).columns == ["low", "high", "density"]
    made.export(tmp_path / "odd.json")
    with pytest.raises(SfumatoError, match="exists"):
        made.export(tmp_path / "odd.csv")
    with pytest.raises(SfumatoError, match="suffixes"):
        made.export(tmp_path / "odd.xlsx")
    assert "50" not in repr(made) or "rows" in repr(made)


def test_dark_pages_get_the_ink_of_the_page() -> None:
    made = histogram(frame(), "x")
    assert "currentColor" in made.svg()
    assert "fill: #ffffff" not in made.svg()


def test_a_release_can_be_drawn(cohort: sf.Dataset) -> None:
    plan = sf.Plan(schema=cohort.schema, steps=[sf.methods.Drop()])
    made = histogram(sf.protect(cohort, plan), "height")
    assert made.verdict == "pass"
