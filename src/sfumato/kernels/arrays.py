"""The types of arrays, each defined once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
"""Values of a variable as small whole numbers."""
Positions = npt.NDArray[np.intp]
"""Rows of a frame or of an array."""
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
AnyIntegers = npt.NDArray[np.integer[Any]]
Array = npt.NDArray[Any]
UNWEIGHTED: Integers = np.empty(0, np.int64)
"""In place of weights: every row is one record."""
