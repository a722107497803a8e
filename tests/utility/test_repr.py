"""What holds original values shows none of them."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.pairs.alignment import align_variable, compare_numbers, read_pair
from sfumato.pairs.standardisation import standardise_pair
from sfumato.utility.models.covariates import align_covariates
from sfumato.utility.models.formula import read_formula
from sfumato.utility.models.propensity import (
    build_design,
    fit_logistic,
    merge_records,
    score_permutations,
)
from sfumato.utility.models.regression import fit_both

ODD = 7431.25
FRAME = pl.DataFrame(
    {
        "x": [ODD, *(float(at * at % 11) + 0.5 for at in range(19))],
        "y": [float(at % 7) + 0.5 for at in range(20)],
        "town": ["secretville", "elsewhere"] * 10,
    }
)
DATA = sf.Dataset(FRAME)
FORMULA = read_formula("y ~ x + town")


def merged():
    return merge_records(DATA, DATA, None, owner="test")


MADE = {
    "alike": lambda: align_variable(DATA, DATA, "town"),
    "compared": lambda: compare_numbers(DATA, DATA, None, owner="test"),
    "covariates": lambda: align_covariates(DATA, DATA, FORMULA, binary=False),
    "design": lambda: build_design(merged(), interactions=False),
    "fit": lambda: fit_logistic(build_design(merged(), interactions=False)),
    "merged": merged,
    "paired": lambda: read_pair(DATA, DATA, None, owner="test"),
    "regression": lambda: fit_both(DATA, DATA, FORMULA, "linear", level=0.95),
    "scores": lambda: score_permutations(build_design(merged(), interactions=False), 3),
    "standardised": lambda: standardise_pair(DATA, DATA, None, owner="test"),
}


@pytest.mark.parametrize("name", MADE)
def test_it_shows_no_value(name):
    shown = repr(MADE[name]())
    assert str(int(ODD)) not in shown
    assert "secretville" not in shown
    for sign in ("array(", "DataFrame", "Series", "dtype", "0.5,"):
        assert sign not in shown
