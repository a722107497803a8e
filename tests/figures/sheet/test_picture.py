"""What all pictures keep: the stamp, the same bytes, readable files, nothing that leaks."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from tests.figures.custodian.samples import (
    ALL,
    OF_MANY,
    OF_RECORDS,
    drawn,
    inlined,
    propensity,
    records,
)

import sfumato as sf
from sfumato.figures.custodian import Picture, at_risk_from

KINDS = ("svg", "png", "pdf")
INSIDE = "Inside only"


def text_of(svg: str | bytes) -> str:
    return "\n".join(ET.fromstring(svg).itertext())  # noqa: S314 - our own file


@pytest.mark.parametrize("name", ALL)
def test_what_stays_inside_says_so_in_itself(name, tmp_path):
    picture = drawn(name)
    stamp = f"{INSIDE}: {'shows' if name in OF_RECORDS else 'compares with'} the original data"
    assert picture.audience == "custodian"
    assert picture.stamp == stamp
    assert stamp in text_of(inlined(name))
    assert stamp in text_of(picture.save(tmp_path / "x.svg").read_bytes())
    assert (tmp_path / "x.svg").stat().st_mode & 0o077 == 0


def test_the_stamp_is_in_png_and_pdf_too(tmp_path):
    assert INSIDE.encode() in drawn("propensity").save(tmp_path / "inside.png").read_bytes()
    inside = drawn("propensity").save(tmp_path / "inside.pdf").read_bytes()
    outside = drawn("propensity", public=True).save(tmp_path / "outside.pdf").read_bytes()
    assert b"/Subject (Inside only: compares with the original data)" in inside
    assert INSIDE.encode() not in outside
    lengths = [
        sum(
            len(zlib.decompress(one))
            for one in re.findall(rb"stream\n(x.*?)\nendstream", file, re.DOTALL)
        )
        for file in (inside, outside)
    ]
    assert lengths[0] > lengths[1]


@pytest.mark.parametrize("name", OF_MANY)
def test_the_custodian_may_mark_pictures_of_many_records_as_public(name, tmp_path):
    picture = drawn(name, public=True)
    assert picture.audience == "public"
    assert INSIDE not in text_of(inlined(name, public=True))
    assert INSIDE.encode() not in picture.save(tmp_path / "x.svg").read_bytes()


@pytest.mark.parametrize("name", OF_RECORDS)
def test_a_picture_of_single_records_is_never_public(name):
    with pytest.raises(sf.SfumatoError, match="single records .* cannot be public"):
        OF_RECORDS[name](public=True)


def test_the_stamp_can_be_seen_in_pixels(tmp_path):
    from PIL import Image

    def vermilion(picture: Picture, name: str) -> Any:
        with Image.open(picture.save(tmp_path / name)) as image:
            head = image.convert("RGB").crop((0, 0, image.width, 90))
        return (np.asarray(head) == (213, 94, 0)).all(axis=2).sum()

    assert vermilion(drawn("propensity"), "inside.png") > 500
    assert vermilion(drawn("propensity", public=True), "outside.png") == 0


@pytest.mark.parametrize("name", ALL)
def test_a_page_can_hold_it_without_scripts_references_or_ids(name):
    svg = inlined(name)
    root = ET.fromstring(svg)  # noqa: S314
    assert root.tag == "svg"
    assert root.get("role") == "img"
    assert root.get("aria-label") == drawn(name).title
    assert "width: 100%" in root.get("style", "")
    assert "width" not in root.attrib
    for one in root.iter():
        assert one.tag in {"svg", "g", "path", "text", "image"}
        assert not set(one.attrib) & {"id", "class", "clip-path", "src"}
        assert not [key for key in one.attrib if key.startswith("on") or ":" in key]
        assert one.get("href", "data:image/png").startswith("data:image/png")
    assert not re.search(r"url\(|@import|https?:|<\?xml|<!DOCTYPE|<style|<defs|<!--", svg)


@pytest.mark.parametrize("name", OF_MANY)
def test_it_takes_the_ink_of_the_page_and_no_background(name):
    svg = inlined(name)
    assert "currentColor" in svg
    assert "#1d2228" not in svg
    assert "#ffffff" not in svg
    assert "system-ui" in svg


def test_single_records_are_pixels_and_their_number_does_not_show_in_the_file():
    def parts(times: int) -> int:
        original, _, released = (np.tile(one, (times, 1)) for one in records(30))
        risk = np.arange(len(original)) % 5 == 0
        svg = at_risk_from(original, released, risk, risk, ("age", "height")).svg()
        return sum(1 for _ in ET.fromstring(svg).iter("path"))  # noqa: S314

    assert parts(1) == parts(8)
    assert "#ffffff" in inlined("steps")  # pixels keep their paper


@pytest.mark.parametrize("name", ["forest", "at_risk"])
def test_the_same_picture_has_the_same_bytes(name, tmp_path):
    one, other = drawn(name), ALL[name]()
    other.save(tmp_path / "first.png")  # what was saved before does not matter
    for kind in KINDS if name == "forest" else ("svg", "png"):
        made = [p.save(tmp_path / f"{at}.{kind}") for at, p in enumerate((one, other))]
        assert made[0].read_bytes() == made[1].read_bytes()


def test_another_process_gives_the_same_bytes():
    code = (
        "import hashlib\nfrom tests.figures.custodian.samples import propensity\n"
        "print(hashlib.sha256(propensity().svg().encode()).hexdigest())"
    )
    env = {**os.environ, "PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout.strip() == hashlib.sha256(inlined("propensity").encode()).hexdigest()


def test_the_users_settings_neither_count_nor_change():
    plain = inlined("propensity")
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "text.usetex": False}):
        before = dict(mpl.rcParams)
        assert propensity().svg() == plain
        assert dict(mpl.rcParams) == before


def test_drawing_needs_no_pyplot_and_importing_no_matplotlib():
    code = (
        "import sys\nimport sfumato.figures.custodian\nassert 'matplotlib' not in sys.modules\n"
        "from tests.figures.custodian.samples import forest\nforest().svg()\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_saving_refuses_what_it_cannot_do(tmp_path):
    picture = drawn("propensity")
    for name in ("x.jpg", "x.html", "x"):
        with pytest.raises(sf.SfumatoError, match=r"Hint: the suffixes are .svg, .png and .pdf"):
            picture.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    picture.save(tmp_path / "x.PNG")
    with pytest.raises(sf.SfumatoError, match="exists already"):
        picture.save(tmp_path / "x.PNG")
    before = (tmp_path / "x.PNG").read_bytes()
    picture.save(str(tmp_path / "x.PNG"), overwrite=True)
    assert (tmp_path / "x.PNG").read_bytes() == before
    with pytest.raises(sf.SfumatoError, match="does not exist"):
        picture.save(tmp_path / "nowhere" / "x.svg")


def test_a_file_tells_what_it_is(tmp_path):
    root = ET.fromstring(drawn("forest").save(tmp_path / "x.svg").read_bytes())  # noqa: S314
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == "Coefficients from the original and from the release"
    assert (root.findtext(f"{space}desc") or "").startswith("Inside only")
    with pytest.raises(AttributeError):
        drawn("forest").title = "other"  # type: ignore[misc]
