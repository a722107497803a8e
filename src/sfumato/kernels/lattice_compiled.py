"""How the parts of `lattice` are compiled that only work on arrays they are given."""

from __future__ import annotations

from typing import Any

BORROWING: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
"""No reference counts: threads that count references to the same arrays spend a third of their
time on that. Numba refuses to compile such a function if it makes an array."""
