"""What holds original values shows none of them."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.cells.alike import alike
from sfumato.cells.compared import compared
from sfumato.cells.pairs import paired
from sfumato.cells.standardised import standardised
from sfumato.utility.models.covariates import covariates
from sfumato.utility.models.design import design
from sfumato.utility.models.formula import read_formula
from sfumato.utility.models.logistic import fit, scores
from sfumato.utility.models.merged import merge
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
    return merge(DATA, DATA, None, owner="test")


MADE = {
    "alike": lambda: alike(DATA, DATA, "town"),
    "compared": lambda: compared(DATA, DATA, None, owner="test"),
    "covariates": lambda: covariates(DATA, DATA, FORMULA, binary=False),
    "design": lambda: design(merged(), interactions=False),
    "fit": lambda: fit(design(merged(), interactions=False)),
    "merged": merged,
    "paired": lambda: paired(DATA, DATA, None, owner="test"),
    "regression": lambda: fit_both(DATA, DATA, FORMULA, "linear", level=0.95),
    "scores": lambda: scores(design(merged(), interactions=False), 3),
    "standardised": lambda: standardised(DATA, DATA, None, owner="test"),
}


@pytest.mark.parametrize("name", MADE)
def test_it_shows_no_value(name):
    shown = repr(MADE[name]())
    assert str(int(ODD)) not in shown
    assert "secretville" not in shown
    for sign in ("array(", "DataFrame", "Series", "dtype", "0.5,"):
        assert sign not in shown
