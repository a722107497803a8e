"""What leaves a site: nothing that rests on a few records, no original value, nothing twice."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sites.examples import ROLES, VARIABLES, make_request, make_sites, simulate

import sfumato as sf
from sfumato.outputs.quantiles import FIVE, find_windows
from sfumato.sites.bundle import FitRound, ModelStep
from sfumato.sites.regression import compute_leverage
from sfumato.sites.suppression import hide_small_counts, join_small_bins, merge_intervals

ALL = (
    {"name": "ages", "kind": "histogram", "x": "age", "by": "sex"},
    {"name": "map", "kind": "heatmap", "x": "bmi", "y": "visits"},
    {"name": "box", "kind": "box", "x": "age", "by": "sex"},
    {"name": "dots", "kind": "scatter", "x": "age", "y": "bmi"},
    {"name": "alive", "kind": "survival", "time": "years", "event": "died"},
    {"name": "both", "kind": "crosstab", "rows": "sex", "columns": "smoking"},
    {"name": "linear", "kind": "model", "formula": "bmi ~ age + sex"},
    {"name": "link", "kind": "model", "formula": "died ~ age", "family": "logistic"},
)


def as_dataset(frame: pl.DataFrame) -> sf.Dataset:
    return sf.Dataset(frame, sf.Schema(ROLES))


def answer(data, request, log=None, **more):
    return sf.sites.answer(data, request, site="North", log=log or sf.outputs.Log(), **more)


def is_withheld(data, *results, log=None, **more) -> bool:
    bundle = answer(data, make_request(*results, **more), log)
    return all(answered.kind == "withheld" for answered in bundle.results.values())


def list_numbers(node) -> list[float]:
    if isinstance(node, dict):
        return [number for part in node.values() for number in list_numbers(part)]
    if isinstance(node, list):
        return [number for part in node for number in list_numbers(part)]
    return [node] if isinstance(node, (int, float)) and not isinstance(node, bool) else []


# No original value, nothing that rests on a few records


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), records=st.integers(3, 90), rare=st.integers(0, 4))
def test_no_original_value_is_in_a_bundle_and_every_count_is_large(seed, records, rare):
    frame = simulate(records, seed)
    sexes = ["m"] * min(rare, records) + ["f"] * max(records - rare, 0)
    data = as_dataset(frame.with_columns(pl.Series("sex", sexes)))
    request = make_request(*ALL)
    bundle = answer(data, request)
    content = json.loads(bundle.text())
    text = json.dumps(content)
    for name in ("age", "bmi", "years"):
        assert not [value for value in frame[name] if repr(value) in text]
    assert not [person for person in frame["id"] if person in text]
    shown = {float(number) for number in list_numbers(content["results"])}
    assert not shown & set(frame["age"]) | shown & set(frame["bmi"]) | shown & set(frame["years"])
    for answered in bundle.results.values():
        assert not [count for count in answered.list_counts() if 0 < count < bundle.k]


@pytest.fixture(scope="module")
def north():
    return make_sites()["North"]


@pytest.fixture(scope="module")
def bundle(north):
    return answer(north, make_request(*ALL))


def test_every_answer_of_a_large_site_is_there(bundle):
    assert not [name for name, part in bundle.results.items() if part.kind == "withheld"]


def test_counts_are_counted_anew(bundle, north):
    frame = north.frame
    edges = np.linspace(20, 90, 15)
    for sex, bins in bundle.get_answer("ages").groups.items():
        values = frame.filter(pl.col("sex") == sex)["age"].to_numpy()
        assert list(bins.counts) == np.histogram(values, edges[list(bins.edges)])[0].tolist()
        assert bundle.get_answer("box").groups[sex].counts == bins.counts
    life = bundle.get_answer("alive").groups[""]
    ends = np.linspace(0, 10, 21)[list(life.times)]
    place = np.searchsorted(ends, frame["years"].to_numpy())
    for counts, died in ((life.events, 1), (life.ends, 0)):
        rows = place[frame["died"].to_numpy() == died]
        assert list(counts) == np.bincount(rows, minlength=len(ends)).tolist()


def test_the_quantiles_of_a_site_are_means_of_k_neighbours_on_a_coarse_grid(bundle, north):
    values = np.sort(north.frame.filter(pl.col("sex") == "f")["age"].to_numpy())
    windows = find_windows(len(values), FIVE, 3)
    for value, start in zip(bundle.get_answer("box").groups["f"].five, windows, strict=True):
        assert abs(value - values[start : start + 3].mean()) < 0.5
        assert value not in values


def test_a_factor_holds_the_sums_of_squares_and_cross_products(bundle, north):
    rows = bundle.get_answer("linear").factor
    factor = np.zeros((len(rows), len(rows)))
    for index, row in enumerate(rows):
        factor[index, index:] = row
    frame = north.frame
    male = (frame["sex"] == "m").to_numpy().astype(float)
    terms = np.column_stack([np.ones(len(frame)), frame["age"], male, frame["bmi"]])
    assert factor.T @ factor == pytest.approx(terms.T @ terms, rel=1e-9)


@pytest.mark.parametrize("records", [0, 1, 5, 9])
def test_a_small_site_says_nothing_not_even_how_small_it_is(records, north):
    request = make_request(*ALL)
    silent = answer(north.take(np.arange(records)), request)
    assert {part.kind for part in silent.results.values()} == {"withheld"}
    assert silent == answer(north.take(np.arange(7, 14)), request)


def test_records_that_the_request_leaves_out_count_for_nothing(north):
    request = make_request(
        {"name": "ages", "kind": "histogram", "x": "age"},
        variables=VARIABLES | {"age": {"low": 40, "high": 60, "bins": 4}},
    )
    kept = ((north.frame["age"] >= 40) & (north.frame["age"] <= 60)).sum()
    found = answer(north, request)
    assert sum(found.get_answer("ages").groups[""].counts) == kept
    assert found.left_out.startswith("about")


def test_levels_may_be_numbers_or_truth_values(north):
    request = make_request({"name": "deaths", "kind": "crosstab", "rows": "died"})
    cells = answer(north, request).get_answer("deaths").cells
    for changed in (pl.col("died") * 1.0, pl.col("died").cast(pl.String)):
        data = as_dataset(north.frame.with_columns(changed.alias("died")))
        assert answer(data, request).get_answer("deaths").cells == cells
    truth = as_dataset(north.frame.with_columns(pl.col("died") == 1))
    request = make_request(
        {"name": "deaths", "kind": "crosstab", "rows": "died"},
        variables={"died": {"levels": ["false", "true"]}},
    )
    assert answer(truth, request).get_answer("deaths").cells == cells


# Differencing


HISTOGRAM = {"name": "ages", "kind": "histogram", "x": "age"}


def test_the_same_histogram_of_all_but_one_is_withheld(north):
    oldest = float(north.frame["age"].max())
    variables = VARIABLES | {"age": {"low": 20, "high": 90, "bins": 14}}
    log = sf.outputs.Log()
    everybody = make_request(HISTOGRAM, variables=variables)
    but_one = make_request(
        HISTOGRAM, variables=variables, where=[{"variable": "age", "high": oldest - 1e-9}]
    )
    assert answer(north, everybody, log).get_answer("ages").kind == "histogram"
    assert answer(north, but_one, log).get_answer("ages").kind == "withheld"
    assert list(log)[-1].verdict == "refuse"
    assert "gives few people away" in list(log)[-1].reasons[0]


def test_one_record_fewer_in_the_data_is_noticed_as_well(north):
    log, request = sf.outputs.Log(), make_request(HISTOGRAM)
    answer(north, request, log)
    fewer = north.take(np.arange(1, len(north)))
    assert answer(fewer, request, log).get_answer("ages").kind == "withheld"
    # What was withheld was not shown, so that the first can be given again.
    assert answer(north, request, log).get_answer("ages").kind == "histogram"


def test_another_request_about_most_of_the_same_people_is_withheld(north):
    log = sf.outputs.Log()
    answer(north, make_request({"name": "m", "kind": "model", "formula": "bmi ~ age"}), log)
    gap = north.frame.with_columns(
        pl.when(pl.col("id") == "P0-5").then(None).otherwise(pl.col("visits")).alias("visits")
    )
    other = {"name": "v", "kind": "histogram", "x": "visits"}
    assert is_withheld(as_dataset(gap), other, log=log)


def test_a_request_about_half_of_the_people_is_answered(north):
    log = sf.outputs.Log()
    wide = VARIABLES | {"age": {"low": 20, "high": 90, "bins": 4}}
    answer(north, make_request(HISTOGRAM, variables=wide), log)
    women = make_request(HISTOGRAM, variables=wide, where=[{"variable": "sex", "levels": ["f"]}])
    assert answer(north, women, log).get_answer("ages").kind == "histogram"
    # In narrow bins, all less the women are a few men.
    log = sf.outputs.Log()
    answer(north, make_request(HISTOGRAM), log)
    assert is_withheld(north, HISTOGRAM, where=[{"variable": "sex", "levels": ["f"]}], log=log)


def test_a_histogram_of_fewer_bins_tells_nothing_of_a_joined_one(north):
    log = sf.outputs.Log()
    answer(north, make_request(HISTOGRAM), log)
    other = {"name": "ages", "kind": "histogram", "x": "age"}
    found = answer(
        north,
        make_request(other, variables=VARIABLES | {"age": {"low": 20, "high": 90, "bins": 13}}),
        log,
    )
    judged = list(log)[-1]
    assert (found.get_answer("ages").kind == "withheld") == (judged.verdict == "refuse")
    assert judged.verdict == "refuse"


# Models


def model(formula: str, **more: str) -> dict[str, str]:
    return {"name": "m", "kind": "model", "formula": formula, **more}


def test_a_term_that_picks_out_the_oldest_person_is_refused(north):
    assert not is_withheld(north, model("bmi ~ age"))
    assert is_withheld(north, model("bmi ~ exp(age * 9)"))
    assert is_withheld(north, model("bmi ~ age + I((age / 90) ** 9) * exp(age * 5)"))


def test_two_terms_that_differ_in_one_record_are_refused(north):
    ages = north.frame["age"].to_numpy().copy()
    ages[3] += 7
    data = as_dataset(north.frame.with_columns(visits=pl.Series(ages)))
    variables = VARIABLES | {"visits": {"low": 0, "high": 100}}
    log = sf.outputs.Log()
    assert is_withheld(data, model("bmi ~ age + visits"), variables=variables, log=log)
    assert "nearly all of a sum" in list(log)[-1].reasons[0]


def test_estimates_sent_to_weigh_a_single_record_are_refused(north):
    request = make_request(model("died ~ age", family="logistic"))
    ages = np.sort(north.frame["age"].to_numpy())
    slope = -400.0  # weights that fall from one to next to nothing within a tenth of a year
    steps = {
        "harmless": (-4.0, 0.05),
        "picks": (-slope * float(ages[-1]), slope),
    }
    kinds = {}
    for name, beta in steps.items():
        current = FitRound(
            number=1, request=request.digest, models={"m": ModelStep(beta=beta, sites=("North",))}
        )
        kinds[name] = answer(north, request, round=current).get_answer("m").kind
    assert kinds == {"harmless": "model", "picks": "withheld"}


def test_a_level_of_few_records_is_refused(north):
    rare = north.frame.with_columns(
        pl.when(pl.col("id").is_in(["P0-1", "P0-2"])).then(pl.lit("pipe"))
        .otherwise(pl.col("smoking")).alias("smoking")
    )  # fmt: skip
    variables = VARIABLES | {"smoking": {"levels": ["never", "former", "current", "pipe"]}}
    log = sf.outputs.Log()
    assert is_withheld(as_dataset(rare), model("bmi ~ smoking"), variables=variables, log=log)
    assert "'smoking'" in list(log)[-1].reasons[0]


def test_two_levels_that_meet_in_few_records_are_refused(north):
    meets = (pl.col("sex") == "m") & (pl.col("smoking") == "current")
    last = north.frame.with_row_index().filter(meets)["index"].to_list()[:2]
    frame = north.frame.with_row_index().filter(~meets | pl.col("index").is_in(last))
    assert is_withheld(as_dataset(frame.drop("index")), model("bmi ~ sex + smoking"))


def test_too_many_terms_for_the_records_are_refused(north):
    few = north.take(np.arange(24))
    assert not is_withheld(few, model("bmi ~ age + visits"))
    assert is_withheld(few, model("bmi ~ (age + visits + years) ** 3"))


def test_rounds_and_requests_are_counted_together(north):
    """A model of two terms takes five equations a round; ninety records allow eighteen."""
    log, rounds = sf.outputs.Log(), 0
    request, few = make_request(model("died ~ age", family="logistic")), north.take(np.arange(90))

    def ask(number):
        steps = {"m": ModelStep(beta=(-4.0 + 1e-4 * number, 0.05), sites=("North",))}
        current = FitRound(number=number, request=request.digest, models=steps)
        return answer(few, request, log, round=current).get_answer("m").kind

    while ask(rounds + 1) == "model":
        assert list(log)[-1].rule["equations left"] == (90 - 5 * (rounds + 1)) // 10 * 10
        rounds += 1
    assert rounds == 18
    assert "asked too much of variable" in list(log)[-1].reasons[0]
    # Another model of the same variables has no more to ask either.
    assert is_withheld(few, model("bmi ~ age"), log=log)
    # Nor is the last answer counted once more when it is asked for once more.
    assert ask(18) == "model"


# What several answers tell together


@pytest.mark.parametrize(
    "result",
    [
        {"name": "stay", "kind": "histogram", "x": "stay"},
        {"name": "stay", "kind": "box", "x": "stay"},
        {"name": "stay", "kind": "model", "formula": "stay ~ 1 + pulse"},
    ],
    ids=lambda result: result["kind"],
)
def test_four_windows_of_one_variable_never_add_up_to_a_person(result):
    """The second and the third less the first and the fourth are one patient."""
    chance = np.random.default_rng(8)
    frame = pl.DataFrame(
        {"id": range(170), "since": np.arange(170.0), "stay": chance.gamma(2, 5, 170),
         "pulse": chance.normal(70, 9, 170)}
    )  # fmt: skip
    data = sf.Dataset(frame, sf.Schema({"id": "direct"}))
    variables = {"stay": {"low": 0, "high": 500, "bins": 1}, "since": {"low": 0, "high": 999},
                 "pulse": {"low": 0, "high": 500}}  # fmt: skip
    windows = [(0, 54), (0, 90), (91, 169), (56, 169)]
    for order in list(permutations(windows))[::5]:
        log = sf.outputs.Log()
        withheld = [
            is_withheld(
                data, result, variables=variables, log=log,
                where=[{"variable": "since", "low": low, "high": high}],
            )
            for low, high in order
        ]  # fmt: skip
        # Quantiles of two windows may rest on nearly the same people: that is another reason.
        if result["kind"] == "box" and any(withheld[:3]):
            continue
        assert withheld == [False, False, False, True]
        assert "outputs 1, 2, 3" in " ".join(list(log)[-1].reasons)


def make_staff(records, seed):
    """Ages in whole years, some of them one person's; and pay."""
    chance = np.random.default_rng(seed)
    age = np.clip(np.round(chance.normal(52, 11, records)), 27, 76)
    pay = chance.lognormal(10, 0.5, records).round(2)
    return sf.Dataset(
        pl.DataFrame({"id": range(records), "age": age, "pay": pay}), sf.Schema({"id": "direct"})
    )


STAFF = {"age": {"low": 20, "high": 90, "bins": 5}, "pay": {"low": 0, "high": 1e7, "bins": 5}}


def make_bumps(number):
    centres = np.linspace(29 + number * 0.8, 75, 8)
    bumps = (f"I(exp(-((age-{centre:.2f})/{3 + number})**2))" for centre in centres)
    return f"pay ~ 0 + {' + '.join(bumps)}"


def find_solved_ages(ages, counts, formulas, k):
    """The attacker: all products of terms at every age; which ages of few follow from them."""
    rows = []
    for formula in formulas:
        bumps = re.findall(r"age-([\d.]+)\)/(\d+)", formula)
        terms = [np.exp(-(((ages - float(c)) / float(w)) ** 2)) for c, w in bumps]
        rows += [first * second for first in terms for second in terms] if terms else []
    solved = np.linalg.lstsq(np.array(rows), np.array(rows) @ counts, rcond=1e-12)[0]
    _, values, space = np.linalg.svd(np.array(rows), full_matrices=False)
    space = space[values > 1e-9 * values[0]]
    exact = (space**2).sum(axis=0) > 1 - 1e-9
    return [age for age, n, s, e in zip(ages, counts, solved, exact, strict=True)
            if n < k and e and abs(n - s) < 0.01]  # fmt: skip


@pytest.mark.parametrize(("records", "k"), [(150, 3), (600, 10)])
@pytest.mark.parametrize("seed", [1, 2])
def test_six_models_of_bumps_do_not_add_up_to_single_ages(records, k, seed):
    data = make_staff(records, seed)
    log = sf.outputs.Log(rules=sf.outputs.Rules(k=k))
    answered = [
        formula
        for formula in map(make_bumps, range(6))
        if not is_withheld(data, model(formula), variables=STAFF, log=log)
    ]
    assert len(answered) < 6
    reasons = " ".join(reason for output in log for reason in output.reasons)
    assert "gives few people away" in reasons or "asked too much" in reasons
    ages, counts = np.unique(data.frame["age"].to_numpy(), return_counts=True)
    assert find_solved_ages(ages, counts, list(map(make_bumps, range(6))), k)
    assert not answered or not find_solved_ages(ages, counts, answered, k)


def test_two_terms_that_meet_between_two_models_are_refused(north):
    """Those above 88 less those above 85 are two people."""
    ages = np.sort(make_staff(300, 3).frame["age"].to_numpy())
    high = [float(ages[-30]), float(ages[-30] + 1)]
    data = make_staff(300, 3)
    between = ((ages > high[0] - 0.5) & (ages <= high[1] - 0.5)).sum()
    log = sf.outputs.Log(rules=sf.outputs.Rules(k=int(between) + 1))
    kinds = [
        is_withheld(
            data,
            model(f"pay ~ I(1 / (1 + exp(({cut - 0.5} - age) * 14)))"),
            variables=STAFF,
            log=log,
        )
        for cut in high
    ]
    assert kinds == [False, True]


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("bmi ~ age + sex", "linear"),
        ("bmi ~ age + sex + smoking + visits + years", "linear"),
        ("died ~ age + sex + smoking", "logistic"),
        ("visits ~ age + I(age**2) + sex + smoking + bmi", "poisson"),
        ("bmi ~ age + I(age**2) + sex * smoking + visits", "linear"),
    ],
)
@pytest.mark.parametrize("rounded", [True, False])
def test_an_ordinary_model_is_answered_to_its_last_round(north, formula, family, rounded):
    frame = north.frame.with_columns(pl.col("age").round(0)) if rounded else north.frame
    data, log = as_dataset(frame), sf.outputs.Log()
    request = make_request(model(formula, family=family))
    pooled = sf.sites.run_rounds(lambda current: [answer(data, request, log, round=current)])
    assert "m" in pooled.models
    assert {output.verdict for output in log} == {"pass"}


def test_what_a_model_weighs_records_by_is_not_readable_in_the_folder(north, tmp_path):
    log = sf.outputs.Log(tmp_path / "log")
    assert not is_withheld(north, model("bmi ~ age"), log=log)
    stored = pl.read_parquet(next((tmp_path / "log" / "inside").glob("*.parquet")))
    ages = set(north.frame["age"].to_list())
    for column in stored.columns:
        words = stored[column]
        numbers = words.to_numpy().view(np.float64) if words.dtype == pl.UInt64 else words
        assert not ages & set(numbers.tolist() if hasattr(numbers, "tolist") else numbers)
    again = sf.outputs.Log(tmp_path / "log")
    assert not is_withheld(north, model("bmi ~ age"), log=again)


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_leverage_is_the_largest_share_of_a_record_in_any_combination(seed):
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(12, 3)) * rng.exponential(size=(12, 1))
    leverage = compute_leverage(columns)
    combined = (columns @ rng.normal(size=(3, 400))) ** 2
    shares = combined / combined.sum(axis=0)
    assert (shares <= leverage[:, None] + 1e-12).all()
    projection = columns @ np.linalg.pinv(columns)
    assert leverage == pytest.approx(np.diag(projection))


# Counts that are hidden or joined


@given(
    counts=st.lists(st.lists(st.integers(0, 12), min_size=5, max_size=5), min_size=4, max_size=4),
    k=st.integers(3, 6),
)
@settings(max_examples=60, deadline=None)
def test_hidden_cells_protect_one_another_in_every_line(counts, k):
    grid = np.array(counts)
    shown = hide_small_counts(grid, k, rows=True, columns=True)
    assert not ((shown > 0) & (shown < k)).any()
    assert ((shown == grid) | (shown == 0)).all()
    hidden = (grid > 0) & (shown == 0)
    for lines, masks in (
        (grid, hidden),
        (grid.T, hidden.T),
        (grid.reshape(1, -1), hidden.reshape(1, -1)),
    ):
        for line, mask in zip(lines, masks, strict=True):
            if mask.any() and (shown_left := (line > 0) & ~mask).any():
                assert mask.sum() >= 2, shown_left
                assert line[mask].sum() >= k


@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=12), k=st.integers(3, 6))
@settings(max_examples=100, deadline=None)
def test_joined_bins_lose_nobody_and_show_no_small_count(counts, k):
    total = sum(counts)
    if 0 < total < k:
        with pytest.raises(sf.outputs.OutputRefused):
            join_small_bins(np.array(counts), k)
        return
    edges = join_small_bins(np.array(counts), k)
    sums = [sum(counts[low:high]) for low, high in pairwise(edges)]
    assert edges[0] == 0
    assert edges[-1] == len(counts)
    assert sum(sums) == total
    assert all(count == 0 or count >= k for count in sums)


@given(
    pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=10),
    k=st.integers(3, 5),
)
@settings(max_examples=100, deadline=None)
def test_intervals_hold_no_event_or_k_and_no_end_or_k(pairs, k):
    events, ends = (np.array(column) for column in zip(*pairs, strict=True))
    try:
        stops = merge_intervals(events, ends, k)
    except sf.outputs.OutputRefused:
        assert 0 < events.sum() < k or 0 < ends.sum() < k
        return
    for counts in (events, ends):
        parts = [counts[low:high].sum() for low, high in zip([0, *stops], stops, strict=False)]
        assert all(part == 0 or part >= k for part in parts)
        assert sum(parts) == counts.sum()


# Who may ask what


def test_a_direct_identifier_is_never_answered(north):
    request = sf.sites.SiteRequest.parse(
        {
            "variables": {"id": {"levels": ["P0-1", "P0-2"]}},
            "results": [{"name": "who", "kind": "crosstab", "rows": "id"}],
        }
    )
    log = sf.outputs.Log()
    assert answer(north, request, log).get_answer("who").kind == "withheld"
    assert "names people" in list(log)[-1].reasons[0]


def test_noise_needs_a_key_and_is_the_same_next_time(north):
    request = make_request(
        {"name": "dots", "kind": "scatter", "x": "age", "y": "bmi", "protection": "noise"}
    )
    with pytest.raises(sf.errors.PlanError, match="need a key"):
        answer(north, request)
    key = sf.Key.new()
    first, second = (answer(north, request, key=key).get_answer("dots") for _ in range(2))
    assert first == second
    assert first.sd_share == pytest.approx(0.25)


def test_ends_of_a_range_are_reached_by_k_records(north):
    request = sf.sites.SiteRequest.parse(
        {
            "variables": {"age": {"step": 0.5}},
            "results": [{"name": "reach", "kind": "ranges", "of": ["age"]}],
        }
    )
    low, high = answer(north, request).get_answer("reach").ranges["age"]
    values = np.sort(north.frame["age"].to_numpy())
    assert low == math.floor(values[2] / 0.5) * 0.5
    assert high == math.ceil(values[-3] / 0.5) * 0.5


def test_a_range_is_answered_once_and_hinders_nothing_else(north):
    asked = {"name": "reach", "kind": "ranges", "of": ["age"]}
    variables = {"age": {"step": 5}}
    log = sf.outputs.Log()
    first = make_request(asked, variables=variables)
    assert answer(north, first, log) == answer(north, first, log)
    where = [{"variable": "age", "high": 80}]
    assert is_withheld(north, asked, variables=variables, where=where, log=log)
    but_few = VARIABLES | {"age": {"low": 20, "high": float(np.sort(north.frame["age"])[-2])}}
    assert not is_withheld(north, HISTOGRAM, variables=but_few, log=log)


def test_the_rules_of_the_site_hold(north):
    log = sf.outputs.Log(rules=sf.outputs.Rules(k=10, records=50))
    found = answer(north, make_request(*ALL), log)
    assert found.k == 10
    for part in found.results.values():
        assert not [count for count in part.list_counts() if 0 < count < 10]


def test_persons_with_several_rows_ask_for_a_second_look(north):
    visits = pl.concat([north.frame, north.frame[:50]])
    log = sf.outputs.Log()
    answer(as_dataset(visits), make_request(HISTOGRAM), log)
    assert list(log)[-1].verdict == "review"


def test_a_table_counts_firms_where_the_rules_do(north):
    firm = np.where((north.frame["sex"] == "m") & (north.frame["smoking"] == "current"), 0, 9)
    frame = north.frame.with_columns(firm=pl.Series(firm + np.arange(len(firm)) % 6 * (firm > 0)))
    data = sf.Dataset(frame, sf.Schema(ROLES | {"firm": "cluster"}))
    request = make_request({"name": "t", "kind": "crosstab", "rows": "sex", "columns": "smoking"})
    by_records = answer(data, request).get_answer("t").cells
    by_firms = answer(data, request, sf.outputs.Log(rules=sf.outputs.Rules(unit="groups")))
    assert by_records[1][2] is not None
    assert by_firms.results["t"].kind == "withheld" or by_firms.get_answer("t").cells[1][2] is None


def test_a_variable_without_numbers_is_told(north):
    request = make_request({"name": "s", "kind": "histogram", "x": "sex"},
                           variables={"sex": {"low": 0, "high": 1}})  # fmt: skip
    with pytest.raises(sf.errors.SchemaError, match="'sex' holds no numbers"):
        answer(north, request)
