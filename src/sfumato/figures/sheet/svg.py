"""Matplotlib's SVG made fit for a page: no ids, no references, no style that leaks out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # only what we drew ourselves is parsed

from sfumato.figures.sheet.style import INK
from sfumato.figures.sheet.text import TRUE_TEXT

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONTS = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_INHERITED = "stroke-linejoin: round; stroke-linecap: butt"
_ATTRIBUTES = {"d", "x", "y", "width", "height", "transform", "style", "viewBox", "points"}


def render_for_page(drawing: bytes, *, label: str, paper: bool) -> str:
    """The picture as a part of an HTML page, in the ink of the page unless it needs paper."""
    root = _parse_without_references(drawing)
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


def render_for_file(drawing: bytes, *, title: str, text: str) -> bytes:
    """The picture as a file of its own, with its title and description inside."""
    size = ET.fromstring(drawing).attrib  # noqa: S314 - our own drawing
    root = _parse_without_references(drawing)
    root.attrib = {
        "xmlns": _SVG,
        "viewBox": root.attrib["viewBox"],
        "width": size["width"],
        "height": size["height"],
        "style": _INHERITED,
    }
    for index, (tag, words) in enumerate([("title", title), ("desc", text)]):
        element = ET.Element(tag)
        element.text = words
        root.insert(index, element)
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return (head + ET.tostring(root, encoding="unicode") + "\n").encode()


def _parse_without_references(drawing: bytes) -> ET.Element:
    """The drawing without ids, links, clips and metadata; what was referred to is copied in."""
    root = ET.fromstring(drawing)  # noqa: S314 - our own drawing
    by_id = {node.get("id"): node for node in root.iter() if node.get("id")}
    _strip(root, by_id)
    _name_fonts(root)
    return root


def _strip(node: ET.Element, by_id: dict[str | None, ET.Element]) -> None:
    node.tag = node.tag.removeprefix(f"{{{_SVG}}}")
    identity = node.get("id", "")
    if identity.startswith(TRUE_TEXT):
        _restore_text(node, identity)
    for index, child in reversed(list(enumerate(node))):
        tag = child.tag.removeprefix(f"{{{_SVG}}}")
        if tag in ("metadata", "defs"):
            node.remove(child)
            continue
        if tag == "use":
            node[index] = _copy_referred(child, by_id)
        _strip(node[index], by_id)
    image = node.get(_HREF) if node.tag == "image" else None
    node.attrib = {key: value for key, value in node.attrib.items() if key in _ATTRIBUTES}
    if image:
        node.set("href", image)


def _copy_referred(use: ET.Element, by_id: dict[str | None, ET.Element]) -> ET.Element:
    """A copy of what is referred to, where it is used."""
    source = by_id[use.attrib[_HREF].removeprefix("#")]
    style = "; ".join(text for text in (use.get("style"), source.get("style")) if text)
    x, y = use.get("x", "0"), use.get("y", "0")
    transform = f"translate({x} {y}) {source.get('transform', '')}".strip()
    path = " ".join(source.attrib["d"].split())
    return ET.Element("path", {"d": path, "style": style, "transform": transform})


def _restore_text(group: ET.Element, identity: str) -> None:
    """The true text where the drawing has boxes for characters that our font lacks."""
    lines = bytes.fromhex(identity.removeprefix(TRUE_TEXT)).decode().split("\n")
    texts = [node for node in group.iter() if node.tag.endswith("text")]
    for node, line in zip(texts, lines, strict=True):
        node.text = line


def _name_fonts(root: ET.Element) -> None:
    for node in root.iter("text"):
        style = re.sub(r"font-family: [^;]+", f"font-family: {_FONTS}", node.get("style", ""))
        node.set("style", style)
        # A rotation by nothing only makes the file longer.
        if node.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
            del node.attrib["transform"]


def _remove_background(root: ET.Element) -> None:
    """The first thing drawn is the sheet of paper."""
    sheet = root[0][0]
    if "fill: #ffffff" in sheet[0].get("style", ""):
        root[0].remove(sheet)


def _use_ink_of_page(root: ET.Element) -> None:
    for node in root.iter():
        style = node.get("style")
        if style:
            node.set("style", style.replace(INK, "currentColor"))
