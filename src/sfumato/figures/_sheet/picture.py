"""A finished picture: it can be saved, and it can be put into a page."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.evidence import Audience
from sfumato.figures._sheet.style import house_style
from sfumato.figures._sheet.vector import for_file, for_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True, eq=False, kw_only=True)
class Picture:
    """What was drawn, with its words.

    Parameters
    ----------
    figure : the matplotlib figure.
    title : what it shows, in a few words.
    caption : how to read it.
    audience : "public", or "custodian": it must stay inside, and a stamp in it says so.
    stamp : the text of that stamp; empty when the picture is public.
    """

    figure: Figure
    title: str
    caption: str
    audience: Audience = "custodian"
    stamp: str = ""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write an SVG, PNG or PDF, as the suffix says; the same picture gives the same bytes.

        What must stay inside can be read by its owner only.
        """
        from sfumato.io.atomic import replacing

        target = Path(path)
        made = self._bytes(target.suffix.lower().removeprefix("."))
        if target.exists() and not overwrite:
            raise SfumatoError(
                f"'{target}' exists already.",
                hint="choose another name, or pass overwrite=True.",
            )
        mode = 0o644 if self.audience == "public" else 0o600
        with replacing(target) as sibling:
            handle = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(made)
        return target

    def svg(self) -> str:
        """The picture for an HTML page: no script, no reference, no id, as wide as its place.

        It has no background and takes the page's own ink, so it suits light and dark pages. A
        picture of single records keeps its white paper: its points are pixels. A page whose content
        policy forbids images, such as our report, would not show them.
        """
        return for_page(self._drawn("svg"), label=self.title, paper=self._holds_pixels())

    def _holds_pixels(self) -> bool:
        return any(one.get_rasterized() for one in self.figure.findobj())

    def _bytes(self, kind: str) -> bytes:
        if kind not in _FORMATS:
            raise SfumatoError(
                f"A picture cannot be saved as '{kind or 'a file without a suffix'}'.",
                hint="the suffixes are .svg, .png and .pdf.",
            )
        made = self._drawn(kind)
        told = f"{self.stamp}. {self.caption}" if self.stamp else self.caption
        return for_file(made, title=self.title, text=told) if kind == "svg" else made

    def _drawn(self, kind: str) -> bytes:
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
        with house_style():
            self.figure.savefig(buffer, format=kind, metadata=metadata[kind])
        return buffer.getvalue()
