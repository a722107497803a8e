"""The picker: a list of folders and files for the field of a form, in the dialog."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, get_args

from sfumato.errors import PlanError
from sfumato.studio.picker import Want, find_start, list_folder
from sfumato.studio.security import Role
from sfumato.studio.view import Page, View

page = Page("pick", roles=("checker", "analyst"))
_WANTED: Mapping[Role, tuple[Want, ...]] = {
    "custodian": get_args(Want),
    "checker": ("key",),
    "analyst": ("release",),
}
"""What each may look for: nobody sees the names of files that they have no use for."""


@page.part("list")
async def show_list(view: View) -> Mapping[str, Any]:
    """What is in a folder; `at` is what the field says so far."""
    query, places = view.query, view.studio.settings.places
    want = next((want for want in _WANTED[view.user.role] if want == query.get("want")), None)
    if want is None:
        raise PlanError("There is nothing to choose here.")
    text = query.get("folder")
    if text is None:
        text = await asyncio.to_thread(find_start, query.get("at", ""), places)
    folder = await asyncio.to_thread(
        list_folder, text, places, search=query.get("find", ""), want=want
    )
    return {"folder": folder, "want": want, "field": query.get("field", ""),
            "several": len(places.allowed) > 1, "find": query.get("find", "")}  # fmt: skip
