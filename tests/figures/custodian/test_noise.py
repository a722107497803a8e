"""Pictures of noise: how far off an attacker lands, what was tried, what it costs."""

from __future__ import annotations

import pytest
from tests.figures.custodian.samples import balance, calibrated, landing
from tests.figures.custodian.test_each import told

import sfumato as sf
from sfumato.figures import custodian as pictures


def test_landing_shows_all_and_a_few_groups() -> None:
    text = told(landing())
    assert "All targets" in text
    assert "From 0 to 0.1" in text
    assert "From 0.9 to 1" in text
    assert "From 0.5 to 0.6" not in text


def test_landing_names_quantiles() -> None:
    row = {"from_quantile": 0.1, "to_quantile": 0.1, "up_to_0": 0.4, "up_to_1": 0.6}
    everybody = row | {"from_quantile": 0.0, "to_quantile": 1.0}
    assert "At quantile 0.1" in told(pictures.landing([everybody, row]))


def test_calibrated_marks_what_was_chosen_only_where_something_was() -> None:
    assert "Chosen" in told(calibrated())
    with pytest.raises(sf.SfumatoError, match="calibrate"):
        pictures.calibrated([{"share": 0.1, "achieved": 2, "margin": 0.1}])


def test_balance_writes_the_parameter_at_its_points() -> None:
    text = told(balance())
    assert all(one in text for one in ("0.1", "0.2", "0.4", "0.8"))
    with pytest.raises(sf.SfumatoError, match="nothing to show"):
        pictures.balance([{"variance_share": 1, "h_index": None, "efficiency": 0.5}])
