"""What comes from a stranger's file does nothing: neither its names nor its size."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from tests.studio.test_walk import decide_the_rest, go, press, settle
from tests.studio.visitor import RunningStudio

EVIL = (
    '<img src=x onerror="document.title=1">',
    '"><script>document.title = 1</script>',
    "../../etc/passwd",
    "{{ 7 * 7 }}",
    "' onmouseover='document.title=1",
)
PAGES = ("data", "roles", "risk", "protect", "compare", "release", "outputs", "analyse")
_BLOCK = b"1,2,3,4,5,6,7,8\n" * 65_536
_BLOCKS = 200
"""Of a megabyte each."""


def test_names_of_variables_are_text_and_nothing_else(tab, studio):
    frame = pl.DataFrame({
        name: [(row * (number + 3)) % 7 for row in range(300)] for number, name in enumerate(EVIL)
    })  # fmt: skip
    frame.with_columns(pl.lit(EVIL[0]).alias("note")).write_csv(studio.root / "evil.csv")
    tab.locator("form[action$='/begin/empty'] button").click()
    tab.wait_for_url("**/data")
    tab.locator("#path").fill("evil.csv")
    press(tab, "/data/open")
    go(tab, "roles")
    if tab.locator("main form[action$='/roles/accept_all']").count():
        press(tab, "/roles/accept_all")
    decide_the_rest(tab)
    press(tab, "/roles/build")
    press(tab, "/roles/use")
    press(tab, "/protect/try")
    go(tab, "roles")
    shown = tab.locator("main").inner_text()
    assert all(name in shown for name in EVIL)
    for name in PAGES:
        go(tab, name)
        settle(tab)
        assert tab.title() not in ("", "1")
        assert tab.locator("img[src='x'], [onmouseover], [onerror]").count() == 0
        assert tab.locator("body script").count() == 0


def test_a_large_upload_does_not_fill_the_memory(studio):
    session = studio.begin("empty")
    before = read_memory(studio)
    sent = iter([b"a,b,c,d,e,f,g,h\n", *[_BLOCK] * _BLOCKS])
    length = 16 + len(_BLOCK) * _BLOCKS
    answer = studio.send(
        "POST",
        f"{studio.prefix}{session}/data/upload?name=large.csv&number=0&of=1&batch=abcdef0123",
        body=b"".join(sent),
        headers={"Content-Length": str(length), "Content-Type": "text/csv"},
    )
    assert answer.status == 303, answer.text
    stored = next(studio.folder.glob("*/uploads/*/large.csv"))
    assert stored.stat().st_size == length
    # The server never holds more than a few blocks of it, whatever its size.
    assert read_memory(studio) - before < 100


def read_memory(studio: RunningStudio) -> float:
    """MB at the peak of the server's process."""
    lines = Path(f"/proc/{studio.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
