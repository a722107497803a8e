"""What several sites say together is what their united records say, where that is promised."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from tests.sites.examples import VARIABLES, answer_all, make_request, make_sites, unite

import sfumato as sf
from sfumato.errors import DataError, MeasureError
from sfumato.sites.drawing import pool_bins, pool_survival

BIG = ("North", "South")
EDGES = np.linspace(20, 90, 15)


def combine(*results, **more):
    return sf.sites.combine(answer_all(make_request(*results, **more)))


def run_rounds(request):
    """All rounds, each site with a log that lasts."""
    sites = make_sites()
    logs = {site: sf.outputs.Log() for site in sites}

    def answer_round(current):
        return [
            sf.sites.answer(data, request, site=site, log=logs[site], round=current)
            for site, data in sites.items()
        ]

    return sf.sites.run_rounds(answer_round)


def test_a_site_with_too_few_records_is_left_out_and_the_result_says_so():
    pooled = combine({"name": "ages", "kind": "histogram", "x": "age"})
    assert pooled.contributions["ages"] == BIG
    assert "2 of 3 sites (North, South); the rules of East let nothing out" in (
        pooled.plots["ages"].caption
    )


def test_a_pooled_histogram_is_that_of_the_united_records_where_no_bin_was_joined():
    bundles = answer_all(make_request({"name": "ages", "kind": "histogram", "x": "age"}))
    pooled = sf.sites.combine(bundles).plots["ages"].table
    united, _ = np.histogram(unite(*BIG)["age"].to_numpy(), EDGES)
    own = [bundle.get_answer("ages").groups[""] for bundle in bundles if bundle.site in BIG]
    kept = np.ones(len(united), bool)
    for bins in own:
        for low, high in zip(bins.edges, bins.edges[1:], strict=False):
            kept[low:high] &= high - low == 1
    assert kept.sum() > 5
    assert not kept.all()
    assert pooled["records"].to_numpy()[kept].tolist() == united[kept].tolist()
    # Joined bins keep their records, too.
    assert pooled["records"].sum() == pytest.approx(united.sum(), rel=1e-12)


def test_groups_of_a_histogram_add_up():
    pooled = combine({"name": "ages", "kind": "histogram", "x": "age", "by": "sex"})
    table = pooled.plots["ages"].table
    counted = table.group_by("group").agg(pl.col("records").sum()).sort("group")
    united = unite(*BIG).group_by("sex").len().sort("sex")
    assert counted["records"].to_list() == pytest.approx(united["len"].to_list())


def test_a_pooled_heat_map_adds_the_cells_that_no_site_hides():
    request = make_request({"name": "map", "kind": "heatmap", "x": "age", "y": "bmi"})
    bundles = [bundle for bundle in answer_all(request) if bundle.site in BIG]
    shown = [np.array(bundle.get_answer("map").counts) for bundle in bundles]
    exact = []
    for data in (make_sites()[site] for site in BIG):
        ages, weights = (data.column(name).to_numpy() for name in ("age", "bmi"))
        exact.append(np.histogram2d(ages, weights, [EDGES, np.linspace(12, 48, 13)])[0])
    for cells, truth in zip(shown, exact, strict=True):
        assert (cells[cells > 0] == truth[cells > 0]).all()
        assert 0 < truth.sum() - cells.sum() < 0.3 * truth.sum()
    table = sf.sites.combine(bundles).plots["map"].table
    assert table["records"].sum() == sum(int(cells.sum()) for cells in shown)


def test_a_contour_is_drawn_from_the_same_counts():
    pooled = combine({"name": "lines", "kind": "contour", "x": "age", "y": "bmi"})
    grid = combine({"name": "lines", "kind": "heatmap", "x": "age", "y": "bmi"})
    assert pooled.plots["lines"].table.equals(grid.plots["lines"].table)


def test_a_pooled_box_lies_within_a_bin_of_the_united_quantiles():
    table = combine({"name": "bmi", "kind": "box", "x": "bmi"}).plots["bmi"].table
    pooled = table.row(by_predicate=pl.col("site") == "All sites", named=True)
    united = np.quantile(unite(*BIG)["bmi"].to_numpy(), [0.05, 0.25, 0.5, 0.75, 0.95])
    width = 3.0
    for part, exact in zip(("low", "lower", "middle", "upper", "high"), united, strict=True):
        assert abs(pooled[part] - exact) < width
    assert table["site"].to_list() == ["All sites", "North", "South"]


def test_a_pooled_survival_curve_is_that_of_the_united_records_with_their_times_rounded_up():
    request = make_request(
        {"name": "alive", "kind": "survival", "time": "years", "event": "died"},
        variables=VARIABLES | {"years": {"low": 0, "high": 10, "bins": 5}},
    )
    bundles = [bundle for bundle in answer_all(request) if bundle.site in BIG]
    edges, by_site = np.linspace(0, 10, 6), []
    for bundle in bundles:
        ends = edges[list(bundle.get_answer("alive").groups[""].times)]
        years = make_sites()[bundle.site].column("years").to_numpy()
        by_site.append(ends[np.searchsorted(ends, years)])
    assert len(np.unique(by_site[0])) == 5  # the larger site joined nothing
    rounded = np.concatenate(by_site)
    curve = sf.sites.combine(bundles).plots["alive"].table
    died = unite(*BIG)["died"].to_numpy()
    share, expected = 1.0, []
    for time in (2.0, 4.0, 6.0, 8.0, 10.0):  # the definition, step by step
        at_risk, events = (rounded >= time).sum(), ((rounded == time) & (died == 1)).sum()
        share *= 1 - events / at_risk
        expected.append(share)
    assert curve["survival"].to_list() == pytest.approx(expected, rel=1e-12)


def test_intervals_that_one_site_joined_are_pooled_where_it_ends_them():
    tables = [
        sf.sites.bundle.LifeTable(times=(1, 2), events=(4, 4), ends=(0, 4)),
        sf.sites.bundle.LifeTable(times=(2,), events=(6,), ends=(6,)),
    ]
    curve = pool_survival(tables, np.array([0.0, 1.0, 2.0]))
    assert curve.times == (1.0, 2.0)
    assert curve.survival == pytest.approx((1 - 4 / 24, (1 - 4 / 24) * (1 - 10 / 20)))


def test_a_pooled_crosstab_adds_up():
    pooled = combine({"name": "both", "kind": "crosstab", "rows": "sex", "columns": "smoking"})
    cells = pooled.tables["both"].cells.filter(~pl.col("hidden"))
    united = unite(*BIG).group_by("sex", "smoking").len()
    exact = {(sex, smoking): count for sex, smoking, count in united.rows()}
    inner = cells.filter((pl.col("sex") != "All") & (pl.col("smoking") != "All"))
    assert inner.height == 6
    for row in inner.to_dicts():
        assert row["value"] == exact[row["sex"], row["smoking"]]


def test_a_cell_that_a_site_hides_is_hidden_in_the_pooled_table():
    sites = make_sites()
    frame = sites["South"].frame
    few = np.flatnonzero(
        (frame["sex"] == "m").to_numpy() & (frame["smoking"] == "current").to_numpy()
    )
    sites["South"] = sites["South"].take(np.setdiff1d(np.arange(len(frame)), few[2:]))
    request = make_request(
        {"name": "both", "kind": "crosstab", "rows": "sex", "columns": "smoking"}
    )
    table = sf.sites.combine(answer_all(request, sites)).tables["both"]
    cell = table.cells.filter((pl.col("sex") == "m") & (pl.col("smoking") == "current"))
    assert cell["hidden"].to_list() == [True]
    assert table.cells["hidden"].sum() > 1


def test_points_of_all_sites_are_drawn_with_the_name_of_their_site():
    table = combine({"name": "dots", "kind": "scatter", "x": "age", "y": "bmi"}).plots["dots"].table
    assert set(table["site"]) == set(BIG)


def assert_same_fit(fitted, results, order):
    for name, values in (("estimate", results.params), ("error", results.bse)):
        ours = dict(zip(fitted.terms, getattr(fitted, name), strict=True))
        theirs = [values[term] for term in order.values()]
        assert [ours[term] for term in order] == pytest.approx(theirs, rel=1e-7)


TERMS = {"Intercept": "Intercept", "age": "age", "sex[T.m]": "sex[T.m]",
         "smoking[T.former]": "smoking[T.former]",
         "smoking[T.current]": "smoking[T.current]"}  # fmt: skip


def make_united() -> object:
    frame = unite(*BIG).to_pandas()
    frame["smoking"] = (
        frame["smoking"].astype("category").cat.set_categories(["never", "former", "current"])
    )
    return frame


def test_a_linear_model_is_that_of_the_united_records():
    pooled = combine({"name": "bmi", "kind": "model", "formula": "bmi ~ age + sex + smoking"})
    results = smf.ols("bmi ~ age + sex + smoking", make_united()).fit()
    assert pooled.models["bmi"].records == int(results.nobs)
    assert_same_fit(pooled.models["bmi"], results, TERMS)
    assert pooled.round is None


@pytest.mark.parametrize(
    ("formula", "family", "kind"),
    [
        ("died ~ age + sex + smoking", "logistic", sm.families.Binomial()),
        ("visits ~ age + sex + smoking", "poisson", sm.families.Poisson()),
    ],
)
def test_a_model_with_a_link_is_that_of_the_united_records_after_some_rounds(formula, family, kind):
    pooled = run_rounds(
        make_request({"name": "model", "kind": "model", "formula": formula, "family": family})
    )
    results = smf.glm(formula, make_united(), family=kind).fit(tol=1e-12)
    assert pooled.models["model"].records == int(results.nobs)
    assert_same_fit(pooled.models["model"], results, TERMS)


def test_the_order_of_the_bundles_changes_nothing():
    bundles = answer_all(make_request({"name": "m", "kind": "model", "formula": "bmi ~ age"}))
    first, second = sf.sites.combine(bundles), sf.sites.combine(bundles[::-1])
    assert first.models["m"].estimate.tolist() == second.models["m"].estimate.tolist()


def test_ranges_span_those_of_all_sites():
    request = sf.sites.SiteRequest.parse(
        {
            "variables": {"age": {"step": 5}},
            "results": [{"name": "reach", "kind": "ranges", "of": ["age"]}],
        }
    )
    pooled = sf.sites.combine(answer_all(request))
    values = np.sort(unite(*BIG)["age"].to_numpy())
    low, high = pooled.ranges["age"]
    assert low % 5 == high % 5 == 0
    assert low <= values[10]
    assert high >= values[-10]
    assert values[0] not in (low, high)
    assert '[variables."age"]' in pooled.format_ranges()


def test_nothing_is_drawn_where_no_site_lets_anything_out():
    sites = {site: data.take(np.arange(8)) for site, data in make_sites().items()}
    pooled = sf.sites.combine(
        answer_all(make_request({"name": "ages", "kind": "histogram", "x": "age"}), sites)
    )
    assert not pooled.plots
    assert pooled.list_statements() == [
        "ages: No result: the rules of East, North, South let nothing out."
    ]


def test_bundles_that_do_not_belong_together_are_refused():
    one = answer_all(make_request({"name": "ages", "kind": "histogram", "x": "age"}))
    other = answer_all(make_request({"name": "ages", "kind": "histogram", "x": "bmi"}))
    with pytest.raises(DataError, match="different requests"):
        sf.sites.combine([one[0], other[1]])
    with pytest.raises(DataError, match="of one site"):
        sf.sites.combine([one[0], one[0]])
    renamed = one[0].model_copy(update={"site": "West"})
    with pytest.raises(DataError, match="same numbers under two names"):
        sf.sites.combine([one[0], renamed])


def test_a_model_cannot_lose_a_site_on_the_way():
    request = make_request(
        {"name": "m", "kind": "model", "formula": "died ~ age", "family": "logistic"}
    )
    sites = {site: make_sites()[site] for site in BIG}
    logs = {site: sf.outputs.Log() for site in sites}
    first = [
        sf.sites.answer(data, request, site=site, log=logs[site]) for site, data in sites.items()
    ]
    current = sf.sites.combine(first).round
    later = sf.sites.answer(sites["North"], request, site="North", log=logs["North"], round=current)
    with pytest.raises(MeasureError, match="began with other sites"):
        sf.sites.combine([later])


def test_joined_bins_are_spread_evenly():
    bins = sf.sites.bundle.JoinedBins(edges=(0, 2, 3), counts=(8, 5))
    assert pool_bins([bins, bins]).tolist() == [8.0, 8.0, 10.0]


def test_results_are_written_with_what_they_show(tmp_path):
    pooled = combine(
        {"name": "ages", "kind": "histogram", "x": "age"},
        {"name": "both", "kind": "crosstab", "rows": "sex"},
        {"name": "died", "kind": "model", "formula": "died ~ age", "family": "logistic"},
    )
    pooled.write(tmp_path / "results")
    written = {path.name for path in (tmp_path / "results").iterdir()}
    assert written == {"ages.svg", "ages.csv", "both.csv", "round.json", "results.json"}
    with pytest.raises(sf.errors.PlanError, match="exists already"):
        pooled.write(tmp_path / "results")
    assert sf.sites.FitRound.load(tmp_path / "results" / "round.json") == pooled.round
