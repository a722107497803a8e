"""How HTML is made: every report extends `templates/base.html` and shares its style."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sfumato import __version__
from sfumato.report.wording import format_percent


def render_page(template: str, **values: Any) -> str:
    """One page that loads nothing and runs nothing."""
    return get_environment().get_template(template).render(version=__version__, **values)


def render_block(template: str, block: str, **values: Any) -> Markup:
    """A part of a page, to stand in another one."""
    page = get_environment().get_template(template)
    # Escaped like the page that it is a part of.
    return Markup("".join(page.blocks[block](page.new_context(values))))  # noqa: S704


@cache
def get_environment() -> Environment:
    """The templates of reports."""
    return make_environment("report/templates")


def make_environment(folder: str) -> Environment:
    """Templates of a folder of ours, as pages need them.

    Names, titles and categories are untrusted text: everything is escaped.
    """
    environment = Environment(
        loader=PackageLoader("sfumato", folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = format_percent
    return environment
