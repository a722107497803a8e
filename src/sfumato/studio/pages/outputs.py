"""To be written: the page outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.studio.view import Page, View

page = Page("outputs", roles=("checker",))


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """What the page shows."""
    del view
    return {}
