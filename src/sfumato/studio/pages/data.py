"""Data: open a file, a folder or a database, and see what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.studio.view import Page, View

page = Page("data")


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """How the data were read, and the first records."""
    if view.session.state.source is None:
        return {"preview": None}
    return {"preview": await view.ask("preview")}
