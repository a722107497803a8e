"""What a figure gives away: every number that can be read from its files and its artists."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.kernels.arrays import Floats

NUMBER = re.compile(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
_LONG = 2000
PNG_CHUNKS = {b"IHDR", b"IDAT", b"IEND", b"pHYs", b"tEXt"}


def numbers_in(text: str) -> Floats:
    """Every number in a text."""
    return np.array([float(one) for one in NUMBER.findall(text)])


def pdf_text(made: bytes) -> str:
    """A PDF with its streams unpacked; those that are images are pixels and stay out."""
    told = [re.sub(rb"stream\r?\n.*?endstream", b"", made, flags=re.DOTALL).decode("latin-1")]
    for match in re.finditer(rb"stream\r?\n(.*?)endstream", made, re.DOTALL):
        head = made[made.rfind(b" obj", 0, match.start()) : match.start()]
        stream = match.group(1)
        if b"/Image" in head or b"/Length1" in head:
            continue
        try:
            told.append(zlib.decompress(stream).decode("latin-1"))
        except zlib.error:
            told.append(stream.decode("latin-1"))
    return "\n".join(told)


def png_parts(made: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks of a PNG."""
    found, at = [], 8
    while at < len(made):
        size = int.from_bytes(made[at : at + 4], "big")
        found.append((made[at + 4 : at + 8], made[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def without_images(svg: str) -> str:
    """An SVG less the pixels in it."""
    return re.sub(r'(href|xlink:href)="data:image[^"]*"', "", svg)


def held_by(figure: Any) -> Iterator[tuple[str, Floats]]:
    """The data that the artists of a figure hold: somebody may go on with them, or pickle them."""
    for artist in figure.findobj():
        called = type(artist).__name__
        for part in _parts(artist):
            if part is not None and np.size(part):
                yield called, _plain(part)
        for path in artist.get_paths() if hasattr(artist, "get_paths") else ():
            yield called, path.vertices.ravel()


def _parts(artist: Any) -> Iterator[Any]:
    asked = ("get_xydata", "get_offsets", "get_array", "get_data", "get_xlim", "get_ylim")
    for name in asked:
        if hasattr(artist, name):
            found = getattr(artist, name)()
            yield from found if isinstance(found, tuple) else (found,)
    if hasattr(artist, "dataLim"):
        limits = artist.dataLim.get_points()
        yield limits[np.isfinite(limits)]  # empty ones are infinite


def _plain(part: Any) -> Floats:
    made: Floats = np.ma.filled(np.ma.asarray(part, float), np.nan).ravel()
    return made


def same(found: Floats, original: Floats, *, digits: float = 1e-9) -> Floats:
    """Which of the original values are among those found."""
    if not len(found):
        return np.empty(0)
    ordered = np.sort(found[np.isfinite(found)])
    at = np.clip(np.searchsorted(ordered, original), 1, max(len(ordered) - 1, 1)) - 1
    near = np.stack([ordered[np.clip(at + step, 0, len(ordered) - 1)] for step in (0, 1)])
    away = np.abs(near - original).min(axis=0)
    met: Floats = original[away <= digits * np.maximum(np.abs(original), 1e-6)]
    return met


def vertices_in(svg: str) -> Floats:
    """The places that the paths of an SVG go through."""
    found: list[tuple[float, float]] = []
    for path in re.findall(r' d="([^"]*)"', svg):
        values = numbers_in(path)
        if len(values) % 2 == 0:
            found += [(a, b) for a, b in values.reshape(-1, 2)]
    return np.array(found) if found else np.empty((0, 2))


def words_in(text: str) -> str:
    """The words of an SVG or a PDF; another text as it is, unless it is a table of values."""
    if "<svg" in text:
        return " ".join(re.findall(r">([^<>]+)<", text))
    if "%PDF" in text:
        lines = re.findall(r"\[([^\[\]]*)\]\s*TJ|(\([^()]*\))\s*Tj", text)
        return " ".join("".join(re.findall(r"\(([^()]*)\)", a or b)) for a, b in lines)
    return "" if len(text) > _LONG else text
