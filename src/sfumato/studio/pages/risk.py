"""To be written: the page risk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.studio.view import Page, View

page = Page("risk")


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """What the page shows."""
    del view
    return {}
