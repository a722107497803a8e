"""Matplotlib's SVG made fit for a page: no ids, no references, no style that leaks out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # only what we drew ourselves is parsed

from sfumato.figures._sheet.style import INK
from sfumato.figures._sheet.words import TRUE_TEXT

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONTS = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_INHERITED = "stroke-linejoin: round; stroke-linecap: butt"
_KEPT = {"d", "x", "y", "width", "height", "transform", "style", "viewBox", "points"}


def for_page(drawn: bytes, *, label: str, paper: bool) -> str:
    """The picture as a part of an HTML page, in the ink of the page unless it needs paper."""
    root = _plain(drawn)
    _name_fonts(root)
    if not paper:
        _remove_background(root)
        _use_ink_of_page(root)
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": label,
        "style": f"display: block; width: 100%; max-width: 720px; height: auto; {_INHERITED}",
    }
    return ET.tostring(root, encoding="unicode")


def for_file(drawn: bytes, *, title: str, text: str) -> bytes:
    """The picture as a file of its own, with its title and description inside."""
    size = ET.fromstring(drawn).attrib  # noqa: S314 - our own drawing
    root = _plain(drawn)
    _name_fonts(root)
    root.attrib = {
        "xmlns": _SVG,
        "viewBox": root.attrib["viewBox"],
        "width": size["width"],
        "height": size["height"],
        "style": _INHERITED,
    }
    for at, (tag, words) in enumerate([("title", title), ("desc", text)]):
        told = ET.Element(tag)
        told.text = words
        root.insert(at, told)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return (head + ET.tostring(root, encoding="unicode") + "\n").encode()


def _plain(drawn: bytes) -> ET.Element:
    """The drawing without names, links, clips and notes; what was referred to stands in place."""
    root = ET.fromstring(drawn)  # noqa: S314 - our own drawing
    kept = {one.get("id"): one for one in root.iter() if one.get("id")}
    _strip(root, kept)
    return root


def _strip(node: ET.Element, kept: dict[str | None, ET.Element]) -> None:
    node.tag = node.tag.removeprefix(f"{{{_SVG}}}")
    identity = node.get("id", "")
    if identity.startswith(TRUE_TEXT):
        _restore_text(node, identity)
    for at, child in reversed(list(enumerate(node))):
        tag = child.tag.removeprefix(f"{{{_SVG}}}")
        if tag in ("metadata", "defs"):
            node.remove(child)
            continue
        if tag == "use":
            node[at] = _in_place(child, kept)
        _strip(node[at], kept)
    image = node.get(_HREF) if node.tag == "image" else None
    node.attrib = {key: value for key, value in node.attrib.items() if key in _KEPT}
    if image:
        node.set("href", image)


def _in_place(use: ET.Element, kept: dict[str | None, ET.Element]) -> ET.Element:
    """A copy of what is referred to, at the place where it is used."""
    meant = kept[use.attrib[_HREF].removeprefix("#")]
    style = "; ".join(one for one in (use.get("style"), meant.get("style")) if one)
    x, y = use.get("x", "0"), use.get("y", "0")
    turned = meant.get("transform", "")
    return ET.Element(
        "path",
        {
            "d": " ".join(meant.attrib["d"].split()),
            "style": style,
            "transform": f"translate({x} {y}) {turned}".strip(),
        },
    )


def _restore_text(group: ET.Element, identity: str) -> None:
    """The true text where the drawing has boxes for signs that our font lacks."""
    lines = bytes.fromhex(identity.removeprefix(TRUE_TEXT)).decode().split("\n")
    drawn = [one for one in group.iter() if one.tag.endswith("text")]
    for one, line in zip(drawn, lines, strict=True):
        one.text = line


def _name_fonts(root: ET.Element) -> None:
    for one in root.iter("text"):
        one.set(
            "style", re.sub(r"font-family: [^;]+", f"font-family: {_FONTS}", one.get("style", ""))
        )
        # A turn by nothing only makes the file longer.
        if one.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
            del one.attrib["transform"]


def _remove_background(root: ET.Element) -> None:
    """The first thing drawn is the sheet of paper."""
    sheet = root[0][0]
    if "fill: #ffffff" in sheet[0].get("style", ""):
        root[0].remove(sheet)


def _use_ink_of_page(root: ET.Element) -> None:
    for one in root.iter():
        style = one.get("style")
        if style:
            one.set("style", style.replace(INK, "currentColor"))
