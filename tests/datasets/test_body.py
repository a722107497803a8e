"""The measurements have the shapes and correlations that are stated beside them."""

from __future__ import annotations

import hashlib
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq, fsolve
from scipy.stats import kurtosis, skew

from sfumato.datasets.body import CORRELATIONS, INTERMEDIATE, TARGETS
from sfumato.datasets.cohort import People
from sfumato.randomness import Key

LARGE = 100_000
KEY = Key(hashlib.sha256(b"sfumato cohort 0").digest())


def _fleishman(skewness: float, excess: float) -> np.ndarray:
    """Solve Fleishman's (1978) equations (5), (11), (17), (18) for b, c and d."""

    def off(p):
        b, c, d = p
        return (
            b**2 + 6 * b * d + 2 * c**2 + 15 * d**2 - 1,
            2 * c * (b**2 + 24 * b * d + 105 * d**2 + 2) - skewness,
            24 * (b * d + c**2 * (1 + b**2 + 28 * b * d))
            + 24 * d**2 * (12 + 48 * b * d + 141 * c**2 + 225 * d**2)
            - excess,
        )

    return np.asarray(fsolve(off, (0.9, 0.1, 0.03), xtol=1e-13))


@pytest.mark.parametrize("name", TARGETS)
def test_polynomials_solve_fleishmans_equations(name):
    target = TARGETS[name]
    if name == "height":  # a normal: the equations are singular there
        assert (target.skewness, target.kurtosis, target.polynomial) == (0, 0, (1, 0, 0))
        return
    solved = _fleishman(target.skewness, target.kurtosis)
    assert target.polynomial == pytest.approx(solved, abs=1e-7)
    b, c, d = solved
    assert c**2 < 3 * b * d  # rising everywhere: no fold in a tail


def test_intermediate_correlations_solve_vale_and_maurellis_cubic():
    for (i, one), (j, other) in combinations(enumerate(TARGETS.values()), 2):
        (b, c, d), (e, f, g) = one.polynomial, other.polynomial
        target = CORRELATIONS[i, j]
        linear = b * e + 3 * b * g + 3 * d * e + 9 * d * g
        solved = brentq(
            lambda r, cubic=(6 * d * g, 2 * c * f, linear, -target): np.polyval(cubic, r), -1, 1
        )
        assert INTERMEDIATE[i, j] == pytest.approx(solved, abs=1e-6)
    assert (INTERMEDIATE.T == INTERMEDIATE).all()
    assert (CORRELATIONS.T == CORRELATIONS).all()


@pytest.mark.parametrize("sex", ["female", "male"])
def test_shapes_and_correlations_hold_within_each_sex(sex):
    people = People(KEY, np.arange(LARGE))
    chosen = people.female if sex == "female" else ~people.female
    values = {name: column[chosen] for name, column in people.usual.items()}
    for name, target in TARGETS.items():
        mean, spread = getattr(target, sex)
        assert values[name].mean() == pytest.approx(mean, abs=0.015 * spread), name
        assert values[name].std() == pytest.approx(spread, rel=0.02), name
        assert skew(values[name]) == pytest.approx(target.skewness, abs=0.08), name
        # The fourth moment of a skewed variable is known to a tenth at this size.
        assert kurtosis(values[name]) == pytest.approx(target.kurtosis, rel=0.1, abs=0.15), name
    measured = np.corrcoef(np.array(list(values.values())))
    assert np.abs(measured - CORRELATIONS).max() < 0.015
