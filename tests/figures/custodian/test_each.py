"""What each picture shows, and what it says when there is nothing to show."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text
from tests.figures.custodian.samples import coefficients, evidence, forest, records

import sfumato as sf
from sfumato.figures import custodian as pictures
from sfumato.figures.custodian.displacement import _count_steps, _merge_small_bins
from sfumato.figures.custodian.records import draw_steps
from sfumato.figures.custodian.source import read_rows
from sfumato.figures.sheet.text import format_number, format_tick

NAN = math.nan


def told(picture) -> str:
    """All texts of a picture; its ticks are not among them."""
    return "\n".join(one.get_text() for one in picture.figure.findobj(Text) if one.get_text())


def refused(match: str):
    return pytest.raises(sf.SfumatoError, match=match)


def test_forest_leaves_the_intercept_out_unless_asked():
    rows = coefficients(["Intercept", "(Intercept)", "const", "age"])
    assert "Intercept" not in told(pictures.forest(rows))
    assert "Intercept" in told(pictures.forest(rows, intercept=True))
    assert "age" not in told(pictures.forest(rows, terms=["const"]))
    with refused("no term 'agee'. Hint: did you mean 'age'"):
        pictures.forest(rows, terms=["agee"])
    with refused("no term besides its intercept"):
        pictures.forest(rows[:1])


def test_forest_on_either_scale():
    rows = coefficients(["age"])
    assert "standard errors of the original" in told(pictures.forest(rows))
    raw = told(pictures.forest(rows, scale="coefficient"))
    assert "standard errors" not in raw


def test_forest_says_the_level_that_it_knows():
    rows = coefficients(["age"])
    assert "lines their intervals;" in pictures.forest(rows).caption
    assert "95\u00a0% intervals" in pictures.forest(rows, level=0.95).caption
    for level, words in ((0.9, "90\u00a0%"), (0.999, "99.9\u00a0%")):
        found = evidence("coefficients", rows, details={"level": level})
        assert f"lines their {words} intervals;" in pictures.forest(found).caption


def test_forest_takes_the_standard_error_of_the_table():
    wide = [{**row, "original_se": 0.01} for row in coefficients(["age"])]
    axes = pictures.forest(wide).figure.axes[0]
    points = [
        float(np.ravel(one.get_xdata())[0])
        for one in axes.lines
        if one.get_marker() not in ("None", "")
    ]
    middle = wide[0]["original"]
    assert sorted(points) == pytest.approx([middle / 0.01, (middle + 0.1) / 0.01])
    without = [{k: v for k, v in row.items() if k != "original_se"} for row in wide]
    pictures.forest(without, scale="coefficient")
    with refused("lacks original_se"):
        pictures.forest(without)


def test_forest_with_what_could_not_be_estimated():
    rows = coefficients(["age", "sex", "bmi"])
    rows[0] = {**rows[0], "original": None, "original_low": None, "original_high": None}
    rows[1] = {**rows[1], "original_se": 0.0}
    rows[2] = {**rows[2], "released_low": -1e12, "released_high": 1e12}
    texts = told(pictures.forest(rows))
    assert "no interval" in texts
    assert "none" in texts
    gone = {key: None for key in rows[0] if key != "term"}
    with refused("not one number"):
        pictures.forest([{**gone, "term": "age"}])
    with refused("201 terms; a picture shows 200"):
        forest([f"x{at}" for at in range(201)])


def test_a_table_that_does_not_fit_is_told():
    with refused("needs the columns term, .* lacks original_low"):
        pictures.forest([{"term": "a", "original": 1.0}])
    with refused("nothing to show"):
        pictures.propensity([])
    failed = sf.Evidence.failed("coefficients", "pair", "the model does not converge")
    with refused("has none \\(the model does not converge\\)"):
        pictures.forest(failed)
    with refused("not a frame"):
        pictures.forest(3)


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_tables_of_every_library_give_the_same_picture(library):
    from tests.conftest import in_library

    rows = coefficients(["age", "sex"])
    frame = in_library(pl.DataFrame(rows), library)
    assert read_rows(frame, ["term"], picture="forest") == rows


def box(name: str, *five: float) -> dict[str, object]:
    return {"data": name, **dict(zip(("low", "q1", "median", "q3", "high"), five, strict=True))}


def test_propensity_of_constant_missing_and_wrong_scores():
    same = [0.5] * 5
    assert "0.5000" in told(pictures.propensity([box("original", *same), box("released", *same)]))
    half = pictures.propensity([box("original", *same), box("released", *[NAN] * 5)])
    assert "no scores" in told(half)
    with refused("not one number"):
        pictures.propensity([box("original", *[NAN] * 5), box("released", *[NAN] * 5)])
    with refused("one row for 'original' and one for 'released'"):
        pictures.propensity([box("somebody", *same)])
    uneven = evidence("propensity", [box("original", *same)], details={"share_released": 0.25})
    assert "Near 0.25" in pictures.propensity(uneven).caption


def risks(*rows: tuple[float, ...]) -> list[dict[str, float]]:
    return [dict(zip(("w1", "w2", "risk1", "risk2"), row, strict=True)) for row in rows]


def test_risk_curve_states():
    assert "w2 = 0.05" in told(pictures.risk_curve(risks((0.01, 0.05, 0.0, 0.0))))
    with refused("different values of risk1 for one w1"):
        pictures.risk_curve(risks((0.01, 0.05, 0.1, 0.1), (0.01, 0.1, 0.2, 0.1)))
    with refused("not one number"):
        pictures.risk_curve(risks((0.01, 0.05, NAN, NAN)))
    with refused("without w1 or w2"):
        pictures.risk_curve(risks((NAN, 0.05, 0.1, 0.1)))
    with refused("13 values of w2; 12 lines at most"):
        pictures.risk_curve(risks(*((0.01, at, 0.1, 0.1) for at in range(1, 14))))


def shares(picture) -> list[list[float]]:
    lines = [line for axes in picture.figure.axes for line in axes.lines]
    return [np.asarray(line.get_ydata()).tolist() for line in lines]


def test_a_public_risk_curve_never_shows_one_or_two_records():
    widths = (0.0, 0.01, 0.02, 0.05, 0.1)

    def rows(*counts: int) -> list[dict[str, float]]:
        return risks(*((w, 0.05, n / 70, max(n - 1, 0) / 70)
                       for w, n in zip(widths, counts, strict=True)))  # fmt: skip

    inside = pictures.risk_curve(rows(0, 1, 2, 3, 4))
    assert shares(inside)[0] == pytest.approx([0, 1 / 70, 2 / 70, 3 / 70, 4 / 70])
    assert "drawn as none" not in inside.caption
    public = pictures.risk_curve(rows(0, 1, 2, 3, 4), records=70, public=True)
    assert shares(public)[0] == pytest.approx([0, 0, 0, 3 / 70, 4 / 70])
    assert shares(public)[1] == pytest.approx([0, 0, 0, 0, 3 / 70])
    assert "Fewer than 3 records are drawn as none." in public.caption
    none = pictures.risk_curve(rows(0, 0, 0, 3, 4), records=70, public=True)
    assert none.svg() == public.svg()
    # Nothing tells whether there was something to hide.
    assert none.caption == public.caption
    for wrong in (None, 0, True, 2.5):
        with refused("records=..."):
            pictures.risk_curve(rows(0, 1, 2, 3, 4), records=wrong, public=True)  # type: ignore[arg-type]


def test_sweep_means_spreads_and_gaps():
    runs = [{"k": k, "repeat": at, "u": float(k + at)} for k in (3, 5) for at in range(3)]
    picture = pictures.sweep(runs)
    drawn = [one for one in picture.figure.axes[0].lines if one.get_marker() == "o"]
    assert [np.asarray(one.get_ydata()).tolist() for one in drawn] == [[4.0, 6.0]]
    assert "one standard deviation" in picture.caption
    gone = pictures.sweep([*runs, {"k": 7, "repeat": 0, "u": None}])
    assert "1 of 7 numbers could not be computed" in gone.caption
    assert "One run" in pictures.sweep(runs[:1]).caption


def test_sweep_of_a_table_as_the_sweep_gives_it():
    runs = pl.DataFrame(
        {
            "k": [3, 5],
            "records": [100, 100],
            "repeat": [0, 0],
            "displacement[age]": [0.1, 0.2],
            "met": [True, None],
            "reason": ["", "no"],
        }
    )
    texts = told(pictures.sweep(runs))
    assert "displacement[age]" in texts
    assert "met" not in texts.split("\n")


def test_sweep_states():
    runs = [{"k": k, "u": NAN, "v": 1.0} for k in (1, 100)]
    panels = {"U": ["u"], "V": ["v"]}
    assert "no number to draw" in told(pictures.sweep(runs, "k", panels))
    assert "100" in told(pictures.sweep(runs, "k", panels, log_x=True))
    with refused("not one number"):
        pictures.sweep(runs, "k", {"U": ["u"]})
    with refused("lacks w"):
        pictures.sweep(runs, "k", {"W": ["w"]})
    with refused("at least one number per panel"):
        pictures.sweep(runs, "k", {"U": []})
    with refused("no logarithmic scale"):
        pictures.sweep([{"k": 0, "v": 1.0}], "k", log_x=True)
    with refused("at most 12 panels with 12 lines"):
        pictures.sweep([{"k": 1, **{f"v{at}": 1.0 for at in range(13)}}])
    with refused("'k' is not a number in every run"):
        pictures.sweep([{"k": "three", "v": 1.0}])


def moved(values: list[float], **more: object) -> pictures.Picture:
    frame = pl.DataFrame({"distance": pl.Series(values, dtype=pl.Float64)})
    found = evidence("displacement", records=frame, details={"within": 0.01})
    return pictures.displacement(found, **more)  # type: ignore[arg-type]


def test_displacement_never_shows_one_or_two_records():
    values = [0.0] * 4 + [1e-9, 0.001, *np.geomspace(0.01, 3.0, 50), 700.0]
    bins = _merge_small_bins(_count_steps(values, 0.01))
    assert all(one.count == 0 or one.count >= 3 for one in bins)
    assert sum(one.count for one in bins) == len(values)
    assert all(a.last + 1 == b.first for a, b in pairwise(bins))
    texts = told(moved([0.001, 0.002, *[0.5] * 30]))
    assert "Within 0.01: fewer than 3" in texts
    assert "Farther: all others" in texts
    assert "Within 0.01: 25.0\u00a0%" in told(moved([0.001] * 10 + [0.5] * 30)).replace(
        " %", "\xa0%"
    )


def test_displacement_states():
    assert "about 0" in told(moved([0.0, 0.0, 0.0]))
    told(moved([0.2] * 5))
    with refused("Fewer than 3 records"):
        moved([0.1])
    with refused("not one number|nothing to show"):
        moved([NAN, NAN])
    with refused("`within` above 0"):
        moved([0.1] * 5, within=0.0)
    with refused("evidence with a row per record"):
        pictures.displacement(evidence("displacement"))


def test_moments_states():
    rows = [
        {"statistic": "quantile 0.05", "variable": "age", "original": 18.0, "released": 18.2},
        {"statistic": "mean", "variable": "age", "original": 50.0, "released": 50.0},
    ]
    assert "Mean in the original" in told(pictures.moments(rows, statistic="mean"))
    with refused("no statistic 'correlation'"):
        pictures.moments(rows)
    with refused("somebody's value"):
        pictures.moments(rows, statistic="quantile 0.05", public=True)
    gone = [{**rows[1], "original": None, "released": None}]
    with refused("not one number"):
        pictures.moments(gone, statistic="mean")


def test_steps_of_few_constant_and_missing_records():
    one = np.array([[1.0, 2.0]])
    pictures.steps_from(one, one * 0, one, ["a"], ("age", "fare"))
    same = np.ones((4, 2))
    pictures.steps_from(same, same * 0, same, list("aabb"), ("age", "fare"))
    original, centroids, released = records(20)
    original[3, 0] = NAN
    picture = pictures.steps_from(original, centroids, released, ["a"] * 20, ("age", "fare"))
    assert "is missing: 1 record." in picture.caption
    with refused("nothing to draw"):
        pictures.steps_from(same * NAN, same, same, list("aabb"), ("age", "fare"))
    with refused("number of records differs"):
        pictures.steps_from(same, same[:2], same, list("aabb"), ("age", "fare"))
    with refused("two columns"):
        pictures.steps_from(np.ones((3, 3)), same, same, list("aab"), ("age", "fare"))
    with refused("lacks: standardised"):
        draw_steps({"original": same, "centroids": same, "released": same}, [], ("a", "b"))


def test_steps_name_twelve_strata_and_the_rest_together():
    original, centroids, released = records(60)
    strata = [f"s{at % 20}" for at in range(60)]
    assert "8 other strata" in told(
        pictures.steps_from(original, centroids, released, strata, ("a", "b"))
    )


def test_at_risk_counts():
    original, _, released = records(40)
    none, some = np.zeros(40, dtype=bool), np.arange(40) < 5
    texts = told(pictures.at_risk_from(original, released, some, none, ("age", "fare")))
    assert "risk1: 5 of 40" in texts
    assert "risk2: 0 of 40" in texts


def test_numbers_are_written_for_people():
    assert [format_number(one) for one in (0.0, -2.5, 10000.0, 2.5e7, 1.2e-7)] == [
        "0", "\u22122.5", "10,000", "2.5e7", "1.2e\u22127",
    ]  # fmt: skip
    assert [format_tick(one, [-0.25, 0.0, 0.25]) for one in (-0.25, 0.0)] == ["\u22120.25", "0.00"]
    assert format_tick(5.0, [5.0]) == "5"
    assert format_tick(2e-6, [0.0, 1e-6, 2e-6]) == "2e\u22126"


def test_nothing_public_holds_a_value_of_a_record():
    original, _, released = records(50)
    raw = {*original.ravel().tolist(), *released.ravel().tolist()}
    distance = np.abs(original - released).max(axis=1)
    raw |= set(distance.tolist())
    frame = pl.DataFrame({"distance": distance})
    found = evidence("displacement", records=frame, details={"within": 0.5})
    made = [pictures.displacement(found, public=True).svg(), forest(public=True).svg()]
    formatted = {f"{one:.{digits}f}" for one in raw for digits in (3, 4, 6)}
    for svg in made:
        assert not formatted & set(re.findall(r"-?\d+\.\d+", svg))


def test_the_measures_evidence_can_be_drawn(cohort):
    released = cohort.with_frame(cohort.frame) if hasattr(cohort, "with_frame") else cohort
    chosen = ["height", "weight_kg", "glucose"]
    found = sf.utility.Displacement(variables=chosen).measure(cohort, released)
    assert pictures.displacement(found).stamp
    found = sf.utility.Moments(variables=chosen).measure(cohort, released)
    assert "height" in told(pictures.moments(found))
    found = sf.utility.Propensity(variables=chosen, permutations=0).measure(cohort, released)
    assert "Original" in told(pictures.propensity(found))
