"""Draws for ArviZ, of either generation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import SfumatoError


def to_arviz(
    names: Sequence[str], draws: npt.NDArray[np.float64], attributes: Mapping[str, Any]
) -> Any:
    """Draws (chain, draw, parameter) as ArviZ takes them."""
    try:
        with warnings.catch_warnings():
            # Version 0.x warns of version 1 when it is imported.
            warnings.simplefilter("ignore")
            arviz = import_module("arviz")
    except ImportError:
        raise SfumatoError(
            "ArviZ is not installed.", hint="pip install arviz; or take `.draws`, a plain frame."
        ) from None
    posterior = {name: np.ascontiguousarray(draws[:, :, at]) for at, name in enumerate(names)}
    if int(arviz.__version__.partition(".")[0]) >= 1:
        # In a tree a slash parts a branch from its leaf.
        leaves = {name.replace("/", "\u2215"): one for name, one in posterior.items()}
        made: Any = arviz.from_dict({"posterior": leaves})
    else:
        made = arviz.from_dict(posterior=posterior)
    made["posterior"].attrs.update(attributes)
    return made
