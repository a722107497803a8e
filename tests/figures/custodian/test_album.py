"""Pictures from data and evidence, as people ask for them."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato import catalogue
from sfumato.figures import custodian as pictures
from sfumato.figures.custodian.album import draw_evidence, find_picture
from sfumato.methods.deterministic import Deterministic

METHOD = Deterministic(variables=["hdl", "glucose"], strata=["sex"], missing="drop")


@pytest.fixture(scope="module")
def pair():
    data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    kept = data.take(data.batch(METHOD.variables).with_row_index().drop_nulls()["index"].to_numpy())
    return kept, METHOD.apply(kept)


def test_the_steps_of_a_method_on_data(pair):
    picture = pictures.steps(pair[0], METHOD)
    assert picture.stamp == "Inside only: shows the original data"
    assert "female" in picture.svg()
    with pytest.raises(sf.SfumatoError, match="two variables that the method blurs"):
        pictures.steps(pair[0], METHOD, variables=["hdl"])
    with pytest.raises(sf.SfumatoError, match="single records"):
        pictures.steps(pair[0], METHOD, public=True)


def test_records_at_risk_from_evidence(pair):
    risk = sf.risk.Mahalanobis(variables=["hdl", "glucose"], w1=1.0)
    found = risk.measure(*pair)
    picture = pictures.at_risk(pair[0], pair[1], found)
    assert f"risk1: {found.details['risk1_records']:,} of" in picture.svg()
    with pytest.raises(sf.SfumatoError, match="a row per record"):
        pictures.at_risk(pair[0], pair[1], found.public())
    one = sf.risk.Mahalanobis(variables=["hdl"]).measure(*pair)
    with pytest.raises(sf.SfumatoError, match="only one was compared"):
        pictures.at_risk(pair[0], pair[1], one)


def test_an_album_holds_every_picture_and_says_which_failed(pair):
    measures = {
        "near": sf.risk.Mahalanobis(variables=["hdl"]),
        "moved": sf.utility.Displacement(variables=["hdl", "glucose"]),
        "model": sf.utility.Coefficients(formula="glucose ~ hdl"),
        "unique": sf.risk.Uniqueness(),
    }
    found = sf.evaluate(pair[0], pair[1], measures, paired=True)
    made, failed = pictures.album(found, measures, *pair)
    assert set(made) == {"near-by-width", "moved", "model"}
    assert set(failed) == {"near-at-risk"}
    assert all(one.stamp for one in made.values())


def test_a_measure_names_a_picture_that_there_is():
    named = {name: kind.picture for name, kind in catalogue.measures().items() if kind.picture}
    assert set(named.values()) <= set(pictures.__all__)
    assert {name: find_picture(name) for name in named} == named
    assert find_picture("nobody's measure") is None


def test_evidence_is_drawn_from_its_table_where_that_holds_what_is_needed():
    rows = [{"from_quantile": 0.0, "to_quantile": 1.0, "up_to_0": 0.4, "up_to_1": 0.6}]
    drawn = draw_evidence("landing", rows, {}, public=True)
    assert drawn is not None
    assert drawn.audience == "public"
    assert draw_evidence("landing", [{"from_quantile": 0.0}], {}) is None
    assert draw_evidence("at_risk", rows, {}) is None
    assert draw_evidence(None, rows, {}) is None
    means = [{"statistic": "mean", "variable": "age", "original": 1.0, "released": 1.1}]
    assert draw_evidence("moments", means, {}) is None
