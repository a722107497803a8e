"""How the parts of `lattice` are compiled that only work on arrays they are given."""

from __future__ import annotations

from typing import Any

from numba.core.registry import cpu_target

BORROWING: dict[str, Any] = {"cache": True, "nogil": True}
"""No reference counts, where numba lets us leave them out: counting references to the same arrays
takes a third of the time. It refuses to compile such a function if it makes an array."""
if hasattr(cpu_target.options, "_nrt"):
    BORROWING["_nrt"] = False
