"""The contract that every method and every measure keeps, also those of other packages.

A package that brings its own tests them with one line each:

    from sfumato.testing import check_measure, check_method

    def test_swap_keeps_the_contract():
        check_method(Swap)

Every example of the class is run on the invented cohort: same result whatever the order of rows,
the partitioning and the frame library; input untouched; odd data handled or refused with a reason;
documented; survives the plan file. What only your method promises needs a test of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.data import Dataset
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.testing.measures import MEASURE_CHECKS
from sfumato.testing.methods import METHOD_CHECKS
from sfumato.testing.samples import invent_cohort

__all__ = ["MEASURE_CHECKS", "METHOD_CHECKS", "check_measure", "check_method"]


def check_method(method: type[Method], *, data: Dataset | None = None) -> None:
    """Run every check of the contract on every example of a method.

    Parameters
    ----------
    method : the class.
    data : what its examples are about, where that is not the bundled cohort.

    Raises
    ------
    AssertionError : with the check, the example and what was found.

    Examples
    --------
    >>> import sfumato as sf
    >>> check_method(sf.methods.Drop)
    """
    _check_all(METHOD_CHECKS, method, data)


def check_measure(measure: type[Measure], *, data: Dataset | None = None) -> None:
    """Run every check of the contract on every example of a measure; see `check_method`.

    Examples
    --------
    >>> import sfumato as sf
    >>> check_measure(sf.risk.KOfItems)
    """
    _check_all(MEASURE_CHECKS, measure, data)


def _check_all(
    checks: Mapping[str, Any], entry: type[Method | Measure], data: Dataset | None
) -> None:
    sample = invent_cohort() if data is None else data
    for position in range(len(entry.examples)):
        for name, check in checks.items():
            try:
                check(entry, position, sample)
            except AssertionError as error:
                msg = f"{entry.__name__}, example {position}: {name}: {error}"
                raise AssertionError(msg) from error
