"""The purpose: each line is read, estimated as other programs do, and held against the release."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import PlanError, TargetError
from sfumato.utility.purposes.statements import read_statement
from sfumato.utility.purposes.survival import estimate_survival, fit_hazards

DRAW = np.random.default_rng(11)
N = 600
AGE = DRAW.integers(20, 80, N)
SEX = DRAW.choice(["f", "m"], N)
PAY = 20 + 0.5 * AGE + 5 * (SEX == "m") + DRAW.normal(0, 8, N)
TIME = DRAW.exponential(10 + 5 * (SEX == "f")).round(1) + 0.1
DIED = (DRAW.random(N) < 0.7).astype(int)
FRAME = pl.DataFrame({"age": AGE, "sex": SEX, "pay": PAY, "time": TIME, "died": DIED})
SCHEMA = sf.Schema({"age": "quasi", "sex": "quasi", "pay": "sensitive", "time": "other",
                    "died": "sensitive"})  # fmt: skip
DATA = sf.Dataset(FRAME, SCHEMA)


def measure(released: sf.Dataset, *items: str, **options: list[str]) -> pl.DataFrame:
    found = sf.utility.Purpose(items=list(items), **options).measure(DATA, released)
    table: pl.DataFrame = found.table
    assert found.details["items"] == len(table)
    assert found.value == pytest.approx(table["kept"].mean()) or found.details["not_single"]
    return table


@pytest.mark.parametrize(
    ("text", "kind", "variables"),
    [("pay ~ age + C(sex)", "model", ("pay", "age", "sex")),
     ("poisson: died ~ age", "model", ("died", "age")),
     ("survival(time, died) by sex", "survival", ("time", "died", "sex")),
     ("survival( time , died )", "survival", ("time", "died")),
     ("survival(time, died) ~ age + sex", "hazards", ("time", "died", "age", "sex")),
     ("mean pay by sex", "means", ("pay", "sex")), ("mean(pay) by sex", "means", ("pay", "sex")),
     ("pay by sex", "means", ("pay", "sex")), ("sex * died", "table", ("sex", "died")),
     ("correlation(age, pay)", "correlation", ("age", "pay")), ("pay", "margin", ("pay",)),
     ("mean pay", "margin", ("pay",)), ("`odd name` by `other one`", "means",
                                        ("odd name", "other one"))],
)  # fmt: skip
def test_each_line_is_read(text, kind, variables):
    statement = read_statement(text)
    assert (statement.kind, statement.variables) == (kind, variables)


@pytest.mark.parametrize("text", ["", "pay ~", "~ age", "pay by sex by age", "import os",
                                  "survival(time) by sex", "survival(time, died) by a + b",
                                  "pay ~ __import__('os')", "a * b * c"])  # fmt: skip
def test_what_cannot_be_read_says_what_a_purpose_looks_like(text):
    with pytest.raises(PlanError, match="purpose"):
        read_statement(text)
    with pytest.raises(sf.SfumatoError, match="items"):
        sf.utility.Purpose(items=[text])


def test_models_hazards_and_curves_are_those_of_statsmodels():
    import statsmodels.formula.api as smf
    from statsmodels.duration.hazard_regression import PHReg
    from statsmodels.duration.survfunc import SurvfuncRight

    frame = FRAME.to_pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear = smf.ols("pay ~ age + sex", frame).fit()
        logistic = smf.logit("died ~ age + pay", frame).fit(disp=0)
        terms = np.column_stack([AGE, (SEX == "m").astype(float)])
        hazards = PHReg(TIME, terms, status=DIED, ties="breslow").fit()
        curve = SurvfuncRight(TIME[SEX == "f"], DIED[SEX == "f"])
    table = measure(DATA, "pay ~ age + sex", "died ~ age + pay", "survival(time, died) ~ age + sex",
                    "survival(time, died) by sex")  # fmt: skip
    by_item = {key[0]: part for key, part in table.group_by("item", maintain_order=True)}
    for model, item in ((linear, "pay ~ age + sex"), (logistic, "died ~ age + pay")):
        truth = sorted(model.params.drop("Intercept"))
        assert sorted(by_item[item]["original"]) == pytest.approx(truth, rel=1e-6)
    low = sorted(linear.conf_int().drop("Intercept")[0])
    assert sorted(by_item["pay ~ age + sex"]["low"]) == pytest.approx(low, rel=1e-6)
    found = by_item["survival(time, died) ~ age + sex"]
    assert found["original"].to_list() == pytest.approx(hazards.params.tolist(), rel=1e-5)
    model = fit_hazards(TIME, DIED > 0, terms)
    assert model.error == pytest.approx(hazards.bse, rel=1e-5)
    at = np.quantile(TIME, [0.25, 0.5, 0.75])
    last = [int((curve.surv_times <= t).sum()) - 1 for t in at]
    mine = estimate_survival(TIME[SEX == "f"], DIED[SEX == "f"] > 0, at)
    assert mine.share == pytest.approx(curve.surv_prob[last])
    assert mine.error == pytest.approx(curve.surv_prob_se[last])
    assert by_item["survival(time, died) by sex"]["original"].to_list()[:3] == pytest.approx(
        mine.share
    )
    assert table["kept"].all()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=2, max_size=30))
def test_a_survival_curve_is_the_product_of_its_steps(records):
    time, event = (np.array(column) for column in zip(*records, strict=True))
    curve = estimate_survival(time.astype(float), event, np.arange(0.0, 11.0))
    share, truth = 1.0, []
    for moment in range(11):
        at_risk = int((time >= moment).sum())
        if moment and at_risk:
            share *= 1 - int(((time == moment) & event).sum()) / at_risk
        truth.append(share)
    assert curve.share == pytest.approx(truth)


def test_what_changes_is_not_kept_and_what_is_gone_says_why():
    shifted = DATA.with_columns(FRAME.select(pl.col("pay") + 40))
    table = measure(shifted, "mean pay by sex", "sex", "pay ~ age")
    kept = dict(zip(table["name"], table["kept"], strict=True))
    assert not kept["mean pay, sex = f"]
    assert kept["sex = f"]
    assert kept["age"]
    gone = DATA.without(["sex"])
    table = measure(gone, "mean pay by sex", "pay")
    assert table["reason"].to_list() == ["'sex' is not in the release."] * 2 + [""]
    assert table["released"].is_null().to_list() == [True, True, False]


def test_a_conclusion_that_turns_is_not_kept_though_the_estimate_is_near():
    # Significant before, and by a hair not after.
    x = DRAW.normal(size=N)
    y = 0.09 * x + DRAW.normal(size=N)
    y += (0.087 - np.polyfit(x, y, 1)[0]) * x
    data = sf.Dataset(pl.DataFrame({"x": x, "y": y}))
    weaker = sf.Dataset(pl.DataFrame({"x": x, "y": y - 0.03 * x}))
    found = sf.utility.Purpose(items=["y ~ x"]).measure(data, weaker)
    row = found.table.row(0, named=True)
    assert row["low"] <= row["released"] <= row["high"]
    assert not row["kept"]


def test_noise_is_taken_out_of_predictors():
    noise = sf.methods.Noise(variables=["pay"], sd_share=0.8)
    released = noise.apply(DATA, key=bytes(32))
    row = measure(released, "age ~ pay").row(0, named=True)
    assert not row["kept_as_released"]
    assert row["kept"]
    assert abs(row["corrected"] - row["original"]) < abs(row["released"] - row["original"]) / 2
    # Classes are no noise: nothing is taken out of them.
    classes = sf.methods.KAnonymity(variables=["age", "pay"], k=10, output="value").apply(DATA)
    assert measure(classes, "died ~ pay")["corrected"].is_null().all()


def test_ranges_enter_with_their_average_and_single_values_may_be_asked_for():
    released = sf.methods.KAnonymity(variables=["age"], k=5, output="range").apply(DATA)
    assert measure(released, "pay ~ age", "age", "correlation(age, pay)")["kept"].all()
    found = sf.utility.Purpose(items=["age"], single=["age"]).measure(DATA, released)
    assert found.value == 0
    assert found.details["not_single"] == ("age",)


def test_the_plan_states_it_and_a_release_that_misses_it_is_refused(tmp_path):
    steps = [sf.methods.KAnonymity(k=5, output="value"), sf.methods.Noise(sd_share=0.2)]
    items = ["pay ~ age + sex", "mean pay by sex"]
    plan = sf.Plan(schema=SCHEMA, steps=steps, targets={"k.min": 5, "purpose.min": 0.9},
                   purpose=items)  # fmt: skip
    assert plan.purpose is not None
    assert plan.purpose.items == items
    assert sf.Plan.parse(plan.text()) == sf.Plan.parse(plan.text(comments=True)) == plan
    assert "[purpose]" in plan.text()
    release = sf.protect(DATA, plan, key=bytes(32))
    assert release.lights.use is not None
    assert release.lights.use.colour == "green"
    folder = release.write(tmp_path / "out", ledger=False)
    certificate = json.loads((folder / "custody" / "purpose.json").read_text())
    assert len(certificate["items"]) == 4
    assert {"name", "original", "released", "interval", "kept"} <= {*certificate["items"][0]}
    assert not (folder / "purpose.json").exists()
    spoilt = [*steps, sf.methods.Misclassify(variables=["sex"], retention=0.5)]
    worse = sf.Plan(schema=SCHEMA, steps=spoilt, targets={"purpose.min": 0.9}, purpose=items)
    with pytest.raises(TargetError, match="purpose at least 0.9 .*: MISSED"):
        sf.protect(DATA, worse, key=bytes(32))


def test_without_a_purpose_the_usual_questions_are_asked():
    plan = sf.Plan(schema=SCHEMA, steps=[sf.methods.KAnonymity(k=5, output="value")],
                   targets={"k.min": 5})  # fmt: skip
    release = sf.protect(DATA, plan, key=bytes(32))
    found = release.case.purpose
    assert found is not None
    assert not found.details["stated"]
    assert found.details["items"] > 10
    colours = {part: light["colour"] for part, light in release.lights.plain().items()}
    assert {*colours} == {"targets", "attacks", "use"}


@pytest.mark.parametrize("how", ["empty", "one", "constant", "missing"])
def test_odd_data_are_refused_or_answered(how):
    frame = {"empty": FRAME.clear(), "one": FRAME[:1],
             "constant": FRAME.with_columns(pay=pl.lit(3.0)),
             "missing": FRAME.with_columns(pay=pl.lit(None, pl.Float64))}[how]  # fmt: skip
    data = sf.Dataset(frame, SCHEMA)
    asked = sf.utility.Purpose(items=["pay ~ age", "mean pay by sex", "sex"])
    try:
        found = asked.measure(data, data)
    except sf.SfumatoError as error:
        assert error.what
    else:
        assert 0 <= found.value <= 1
