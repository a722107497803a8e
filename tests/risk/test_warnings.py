"""Each warning of a measure begins where it says: just inside nothing is said, just outside it is.

Shares are (that of the better attacker, that of the plain one).
"""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.risk import h_index, linkage, mahalanobis, mixed_linkage, undoing, uniqueness
from sfumato.risk.attacks.likelihood import _correlate


@pytest.mark.parametrize("warn", [h_index._warn_of_rescaling, h_index._warn_of_noise])
@pytest.mark.parametrize(
    ("shares", "is_said"),
    [
        ((0.1, 0.01), False),
        ((0.101, 0.01), True),
        ((0.599, 0.4), False),
        ((0.601, 0.4), True),
    ],
)
def test_h_index_says_from_half_as_many_more_on(warn, shares, is_said):
    assert bool(warn(*shares)) is is_said


@pytest.mark.parametrize(
    ("shares", "is_said"),
    [
        ((0.1, 0.01), False),
        ((0.101, 0.01), True),
        ((0.4, 0.2), False),
        ((0.401, 0.2), True),
        ((float("nan"), 0.0), False),
    ],
)
def test_h_index_says_that_the_tail_is_exposed_from_twice_as_many_on(shares, is_said):
    assert bool(h_index.HIndex()._warn_of_tail(*shares)) is is_said


@pytest.mark.parametrize(
    ("shares", "is_said"),
    [((0.0199, 0.001), False), ((0.02, 0.001), True), ((0.749, 0.5), False), ((0.75, 0.5), True)],
)
def test_linkage_says_from_half_as_many_more_on(shares, is_said):
    assert bool(linkage._warn_of_better("knows", *shares)) is is_said
    assert bool(mixed_linkage._warn_of_noise(*shares)) is is_said


@pytest.mark.parametrize(("error", "is_said"), [(0.9, False), (0.899, True)])
def test_undoing_says_from_a_tenth_of_the_error_on(error, is_said):
    assert (
        bool(undoing.Undoing(variables=["x"], k=3)._list_warnings(0.5, 0.4, error, 1.0)) is is_said
    )


@pytest.mark.parametrize(("risk", "is_said"), [(0.011, False), (0.01101, True)])
def test_journalist_says_from_a_tenth_more_on(risk, is_said):
    population = {"journalist": 0.01, "individual_risk": risk}
    assert bool(uniqueness._warn_of_journalist(population)) is is_said


@pytest.mark.parametrize(
    ("own", "of_original", "why"),
    [
        ((100, 50), (110, 55), ""),
        ((110, 55), (100, 50), ""),
        ((100, 50), (111, 50), "hide values that hardly moved"),
        ((111, 50), (100, 50), "protects nobody"),
        ((100, 50), (100, 56), "within w2"),
    ],
)
def test_mahalanobis_says_from_a_tenth_on_which_scale_matters(own, of_original, why):
    risks = {
        **{f"risk{i}_records": count for i, count in enumerate(own, 1)},
        **{f"risk{i}_records_on_original_scale": count for i, count in enumerate(of_original, 1)},
    }
    warnings = mahalanobis._warn_of_scales(risks)
    assert len(warnings) == bool(why)
    assert all(why in warning for warning in warnings)


@pytest.mark.parametrize(("errors", "is_used"), [(3.9, False), (4.1, True)])
def test_noise_counts_as_correlated_from_four_standard_errors_on(errors, is_used):
    rng = np.random.default_rng(7)
    first, other = rng.normal(size=(2, 2_500))
    first /= np.sqrt((first**2).mean())
    other -= first * (first * other).mean()
    other /= np.sqrt((other**2).mean())
    share = errors / 50
    noise = np.column_stack([first, share * first + np.sqrt(1 - share**2) * other])
    matrix = _correlate(noise)
    assert (matrix is not None) is is_used
    assert matrix is None or matrix[0, 1] == pytest.approx(share)
