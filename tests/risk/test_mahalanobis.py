from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.conftest import LIBRARIES, in_library

import sfumato as sf
from sfumato.kernels.mcd import robust_covariance
from sfumato.parameters import ParameterError
from sfumato.risk.mahalanobis import Mahalanobis

NAMES = ["a", "b", "c"]


def data(values, names=NAMES) -> sf.Dataset:
    frame = values if isinstance(values, pl.DataFrame) else pl.DataFrame(values, schema=names)
    return sf.Dataset(frame, sf.Schema(dict.fromkeys(frame.columns, "quasi")))


def drawn(records=300, variables=3, seed=0):
    draws = np.random.default_rng(seed)
    values = draws.standard_normal((records, variables)) @ (np.eye(variables) + 0.3)
    values[:, -1] = np.exp(values[:, -1])
    return values


def noisy(values, share=0.02, seed=1):
    noise = np.random.default_rng(seed).standard_normal(values.shape)
    return values + share * np.nanstd(values, axis=0) * noise


def slow(original, released, *, w1=0.01, w2=0.05, m=1, definition="sdcmicro", by=None):
    """As R does it, with the matrix of all distances. `by`: whose mean and SD the release has."""
    by = released if by is None else by
    x = (original - original.mean(0)) / original.std(0, ddof=1)
    y = (released - by.mean(0)) / by.std(0, ddof=1)
    spread = robust_covariance(np.ascontiguousarray(x.T)).covariance
    squared = (x * np.linalg.solve(spread, x.T).T).sum(axis=1)
    half = w1 * (0.05 * np.sqrt(squared) if definition == "sdcmicro" else squared)
    inside = np.abs(x - y) <= half[:, None]
    risk1 = inside.any(axis=1) if definition == "sdcmicro" else inside.all(axis=1)
    far = np.sqrt(((y[:, None] - y[None]) ** 2).sum(axis=2))
    np.fill_diagonal(far, np.inf)
    return risk1, risk1 & ((far <= w2).sum(axis=1) < m)


@pytest.fixture(scope="module")
def titanic(shared_data):
    original = pl.read_csv(shared_data / "titanic.csv").with_columns(pl.col("Age").fill_null(28.0))
    where = shared_data.parent / "reference" / "titanic_anonymised.csv"
    both = original.select("PassengerId", "Age", "Fare").join(
        pl.read_csv(where).select("PassengerId", "Age", "Fare"),
        on="PassengerId",
        suffix="_released",
        validate="1:1",
        maintain_order="left",
    )
    released = both.select(
        pl.col("Age_released").alias("Age"), pl.col("Fare_released").alias("Fare")
    )
    return data(both.select("Age", "Fare")), data(released)


def test_titanic_gives_the_published_numbers(titanic):
    found = Mahalanobis().measure(*titanic)
    assert found.details["risk1_records"] == 38
    assert found.details["risk2_records"] == 8
    assert found.value == found.details["risk1"] == 38 / 891
    assert round(found.value, 4) == 0.0426
    assert round(found.details["risk2"], 3) == 0.009
    assert found.records["at_risk"].sum() == 38
    assert found.records["unsafe"].sum() == 8
    assert found.audience == "custodian"
    assert any("original's scale" in one for one in found.warnings)


def test_titanic_risk_grows_with_w1_and_falls_with_w2(titanic):
    wide, near = [0.002, 0.005, 0.01, 0.02, 0.05], [0.01, 0.05, 0.2]
    curve = Mahalanobis().curve(*titanic, w1=wide, w2=near)
    assert curve.columns == ["w1", "w2", "risk1", "risk2"]
    assert len(curve) == 15
    for two in near:
        part = curve.filter(w2=two)
        assert part["risk1"].is_sorted()
        assert part["risk2"].is_sorted()
    for one in wide:
        assert curve.filter(w1=one)["risk1"].n_unique() == 1
        assert curve.filter(w1=one)["risk2"].is_sorted(descending=True)
    here = curve.row(by_predicate=(pl.col("w1") == 0.01) & (pl.col("w2") == 0.05), named=True)
    assert (here["risk1"], here["risk2"]) == (38 / 891, 8 / 891)


@pytest.mark.parametrize("definition", ["sdcmicro", "paper"])
@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("kind", ["numbers", "ties"])
def test_agrees_with_the_matrix_of_all_distances(definition, m, kind):
    original = drawn(400)
    released = noisy(original, 0.01 if definition == "sdcmicro" else 0.05)
    if kind == "ties":
        released = np.round(released, 1)
    w2 = 0.2
    found = Mahalanobis(definition=definition, m=m, w1=0.02, w2=w2).measure(
        data(original), data(released)
    )
    for scale, by in (("", released), ("_on_original_scale", original)):
        risk1, risk2 = slow(original, released, w1=0.02, w2=w2, m=m, definition=definition, by=by)
        assert 0 < risk2.sum() < risk1.sum() < 400
        assert found.records[f"at_risk{scale}"].to_list() == risk1.tolist()
        assert found.records[f"unsafe{scale}"].to_list() == risk2.tolist()
        assert found.details[f"risk1{scale}"] == risk1.mean()
        assert found.details[f"risk2_records{scale}"] == risk2.sum()


def test_a_stretched_release_is_told():
    values = drawn()
    found = Mahalanobis().measure(data(values), data(2 * values + 5))
    assert found.value == 1.0
    assert found.details["risk1_on_original_scale"] < 0.2
    assert any("can be undone" in one for one in found.warnings)


def test_what_its_own_scale_hides_is_told():
    values = drawn()
    released = values.copy()
    released[:5] += 30  # five records far away change every mean and SD, and nothing else
    found = Mahalanobis().measure(data(values), data(released))
    assert found.value < 0.1
    assert found.details["risk1_records_on_original_scale"] >= 295
    assert any("hide values that hardly moved" in one for one in found.warnings)


def test_a_scale_that_only_changes_who_is_near_is_told_as_such():
    draws = np.random.default_rng(3)
    values = draws.standard_normal((400, 2))
    released = values.copy()
    released[:, 1] *= 4  # the first variable stays, so that everybody is at risk on both scales
    found = Mahalanobis().measure(data(values, NAMES[:2]), data(released, NAMES[:2]))
    details = found.details
    assert details["risk1_records"] == details["risk1_records_on_original_scale"] == 400
    assert details["risk2_records"] < 0.9 * details["risk2_records_on_original_scale"]
    (told,) = found.warnings
    assert "How many others lie within w2 depends on the standard deviation" in told
    assert "hide" not in told
    assert "undone" not in told


def test_last_digits_do_not_matter():
    original, released = drawn(110), noisy(drawn(110), 0.003)
    found = Mahalanobis().measure(data(original), data(released))
    assert 0 < found.value < 1
    for seed in range(5):
        shift = 1 + 1e-14 * np.random.default_rng(seed).standard_normal(original.shape)
        other = Mahalanobis().measure(data(original * shift), data(released))
        critical = other.records["critical_w1"].to_numpy()
        assert critical == pytest.approx(found.records["critical_w1"].to_numpy(), rel=1e-6)
        assert other.details["risk1_records"] == found.details["risk1_records"]


def test_no_warning_without_a_reason():
    values = drawn()
    assert Mahalanobis().measure(data(values), data(values)).warnings == ()


@pytest.mark.parametrize("definition", ["sdcmicro", "paper"])
def test_critical_w1_is_where_a_record_comes_to_be_at_risk(definition):
    original, released = data(drawn(200)), data(noisy(drawn(200)))
    critical = Mahalanobis(definition=definition).measure(original, released).records["critical_w1"]
    for w1 in critical.sort()[[20, 100, 180]]:
        here = Mahalanobis(definition=definition, w1=w1).measure(original, released).records
        assert here["at_risk"].to_list() == (critical <= w1).to_list()


@pytest.mark.parametrize("kind", ["numbers", "ties", "missing"])
def test_the_order_of_records_does_not_matter(kind):
    original, released = drawn(500), noisy(drawn(500))
    if kind == "ties":
        original, released = np.round(original), np.round(released)
    if kind == "missing":
        original[np.random.default_rng(5).random(original.shape) < 0.1] = np.nan
    found = Mahalanobis(w2=0.3).measure(data(original), data(released))
    order = np.random.default_rng(6).permutation(500)
    other = Mahalanobis(w2=0.3).measure(data(original[order]), data(released[order]))
    assert other.plain() == found.plain()
    assert other.records.equals(found.records[order])


def test_the_baseline_is_what_chance_gives():
    original, released = drawn(250), noisy(drawn(250))
    found = Mahalanobis(w1=0.2).measure(data(original), data(released))
    draws = np.random.default_rng(0)
    by_chance = [
        slow(original, released[draws.permutation(250)], w1=0.2)[0].mean() for _ in range(20)
    ]
    assert found.baseline == pytest.approx(np.mean(by_chance), abs=0.02)
    assert found.baseline is not None
    assert found.baseline < found.value


def test_every_library_takes_part():
    frame, moved = (pl.DataFrame(one, schema=NAMES) for one in (drawn(), noisy(drawn())))
    schema = sf.Schema(dict.fromkeys(NAMES, "quasi"))
    found = [
        Mahalanobis().measure(
            *(sf.Dataset(in_library(one, library), schema) for one in (frame, moved))
        )
        for library in LIBRARIES
    ]
    assert found[0].plain() == found[1].plain() == found[2].plain()
    assert [type(one.records).__module__.split(".")[0] for one in found] == list(LIBRARIES)


def test_one_variable_is_enough():
    values = drawn(200)[:, :1]
    found = Mahalanobis().measure(data(values, ["a"]), data(noisy(values), ["a"]))
    risk1, risk2 = slow(values, noisy(values))
    assert found.details["risk1_records"] == risk1.sum()
    assert found.details["risk2_records"] == risk2.sum()


def test_wrong_parameters_are_told():
    for wrong in ({"w1": 0}, {"w2": -1}, {"m": 0}, {"definition": "r"}, {"w1": float("inf")}):
        with pytest.raises(ParameterError, match=f"'{next(iter(wrong))}' parameter"):
            Mahalanobis(**wrong)
    pair = data(drawn(30)), data(drawn(30))
    with pytest.raises(ParameterError, match="'w2' parameter of Mahalanobis.curve"):
        Mahalanobis().curve(*pair, w2=[-1.0])
    with pytest.raises(ParameterError, match="'w1' parameter of Mahalanobis.curve"):
        Mahalanobis().curve(*pair, w1=[])
    assert Mahalanobis().curve(*pair).row(0) == (0.01, 0.05, 1.0, 1.0)


def test_many_records_need_no_matrix():
    # 60,000 records: the matrix of all distances would have 29 GB.
    original = drawn(60_000)
    same = np.round(original)  # and many of them are equal
    assert Mahalanobis().measure(data(same), data(same)).value == 1.0
    found = Mahalanobis().measure(data(original), data(noisy(original)))
    assert 0 < found.details["risk2_records"] < found.details["risk1_records"] < 60_000
