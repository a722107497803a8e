"""A finished picture: it can be saved, and it can be put into a page."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.evidence import Audience
from sfumato.figures.sheet.style import use_house_style
from sfumato.figures.sheet.svg import render_for_file, render_for_page
from sfumato.parameters import write_short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True, eq=False, kw_only=True)
class Picture:
    """What was drawn, with its title and caption.

    Parameters
    ----------
    figure : the matplotlib figure.
    title : what it shows, in a few words.
    caption : how to read it.
    audience : "public", or "custodian": it must stay inside, and a stamp in it says so.
    stamp : the text of that stamp; empty when the picture is public.
    description : the long form, for who wants to know more than the caption says.
    """

    figure: Figure
    title: str
    caption: str
    audience: Audience = "custodian"
    stamp: str = ""
    description: str = ""

    __repr__ = write_short

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write an SVG, PNG or PDF, as the suffix says; the same picture gives the same bytes.

        What must stay inside can be read by its owner only.
        """
        target = Path(path)
        kind = target.suffix.lower().removeprefix(".")
        if kind not in _FORMATS:
            raise SfumatoError(
                f"A picture cannot be saved as '{kind or 'a file without a suffix'}'.",
                hint="the suffixes are .svg, .png and .pdf.",
            )
        content = self._render(kind)
        if kind == "svg":
            told = (f"{self.stamp}." if self.stamp else "", self.caption, self.description)
            text = " ".join(part for part in told if part)
            content = render_for_file(content, title=self.title, text=text)
        return self._write(target, content, overwrite=overwrite)

    def svg(self) -> str:
        """The picture for an HTML page: no script, no reference, no id, as wide as its column.

        It has no background and takes the page's own ink, so it suits light and dark pages. A
        picture of single records keeps its white paper: its points are pixels. A page whose content
        policy forbids images, such as our report, would not show them.
        """
        return render_for_page(self._render("svg"), label=self.title, paper=self._holds_pixels())

    def _holds_pixels(self) -> bool:
        return any(artist.get_rasterized() for artist in self.figure.findobj())

    def _write(self, target: Path, content: bytes, *, overwrite: bool) -> Path:
        """Write a file whole or not at all; readable by its owner only unless it is public."""
        from sfumato.io.atomic import PRIVATE, PUBLIC, write_file

        if target.exists() and not overwrite:
            raise SfumatoError(
                f"'{target}' exists already.",
                hint="choose another name, or pass overwrite=True.",
            )
        public = self.audience == "public"
        write_file(target, content, mode=PUBLIC if public else PRIVATE)
        return target

    def _render(self, kind: str) -> bytes:
        # No date and no version: the same picture has the same bytes tomorrow.
        metadata: dict[str, dict[str, Any]] = {
            "svg": {"Date": None, "Creator": None},
            "png": {"Software": None, "Title": self.title, "Comment": self.stamp or "Public"},
            "pdf": {
                "Creator": None,
                "Producer": None,
                "CreationDate": None,
                "Title": self.title,
                "Subject": self.stamp or "Public",
            },
        }
        buffer = io.BytesIO()
        with use_house_style():
            self.figure.savefig(buffer, format=kind, metadata=metadata[kind])
        return buffer.getvalue()
