"""Links to the source become links to the pages that are made from it.

The pages of methods, measures, profiles, classes and commands exist on the site only. So that
their links also open where the repository is read, the docs link to the file behind each page:
`../../src/sfumato/methods/noise.py` is the page of `noise` on the site.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((?:\.\./)+(?P<path>src/sfumato[^)#\s]*|[A-Z]+\.md)(?P<anchor>#[^)]*)?\)")
_FROM_ROOT = re.compile(r"\]\(docs/(?P<path>[^)\s]+)\)")
_PAGES = (
    (r"src/sfumato/methods", "reference/methods/index.md"),
    (r"src/sfumato/(?:risk|utility)", "reference/measures/index.md"),
    (r"src/sfumato/profiles", "reference/profiles/index.md"),
    (r"src/sfumato/cli", "reference/command-line.md"),
    (r"src/sfumato/__init__\.py", "reference/python.md"),
    (r"src/sfumato", "reference/classes/index.md"),
    (r"src/sfumato/data/__init__\.py", "reference/classes/Dataset.md"),
    (r"src/sfumato/schema/__init__\.py", "reference/classes/Schema.md"),
    (r"src/sfumato/plan/__init__\.py", "reference/classes/Plan.md"),
    (r"src/sfumato/evidence\.py", "reference/classes/Evidence.md"),
    (r"src/sfumato/release\.py", "reference/classes/Release.md"),
    (r"src/sfumato/methods/(\w+)\.py", r"reference/methods/\1.md"),
    (r"src/sfumato/(?:risk|utility)/(\w+)\.py", r"reference/measures/\1.md"),
    (r"src/sfumato/profiles/([\w-]+)\.toml", r"reference/profiles/\1.md"),
)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page with the links that work on the site."""
    where = page.file.src_uri
    markdown = _LINK.sub(lambda found: _link_to_page(found, where), markdown)
    if where.startswith("project/"):  # it stands at the root of the repository
        markdown = _FROM_ROOT.sub(r"](../\g<path>)", markdown)
    return markdown


def find_page(path: str) -> str | None:
    """The page of the site that is made from a file of the repository.

    Examples
    --------
    >>> find_page("src/sfumato/risk/peers.py"), find_page("SECURITY.md")
    ('reference/measures/peers.md', 'project/security.md')
    """
    if path.endswith(".md"):
        return f"project/{path.lower()}"
    for pattern, target in _PAGES:
        if re.fullmatch(pattern, path.rstrip("/")):
            return re.sub(pattern, target, path.rstrip("/"))
    return None


def _link_to_page(found: re.Match[str], where: str) -> str:
    target = find_page(found["path"])
    if target is None:
        return found[0]  # the strict build names it
    return f"]({posixpath.relpath(target, posixpath.dirname(where))}{found['anchor'] or ''})"
