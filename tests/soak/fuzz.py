# ruff: noqa: T201 - a command prints
"""Damaged and hostile files for every reader, the plan parser and the cell notation.

    python -m tests.soak.fuzz --cases 100000 [--seed 1] [--formats csv,xlsx]

What must hold for every file: a `SfumatoError` or a result. No other exception, no crash, no more
than `MEMORY` bytes, no more than `SECONDS`, and no cell of the file in a message. The cases run in
child processes, since a crash of native code would take this one along.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

#: In a cell of every file, and in no name of a variable: messages must not quote it.
CELL = "Zebulon Quixote"
MEMORY = 2 << 30
SECONDS = 20
_PER_CHILD = 250

TEXTS = {
    "csv": ".csv", "tsv": ".tsv", "csv.gz": ".csv.gz", "xlsx": ".xlsx", "ods": ".ods",
    "dta": ".dta", "sav": ".sav", "zsav": ".zsav", "xpt": ".xpt", "parquet": ".parquet",
    "arrow": ".arrow", "feather": ".feather", "duckdb": ".duckdb",
}  # fmt: skip
FORMATS = (*TEXTS, "plan", "hierarchy", "cells")
_NUMBERS = (0, 1, 2, 7, 16, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1)


@dataclass
class Outcome:
    """How the cases ended: counts by format, and each failure with how to repeat it."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    peak: int = 0

    def add(self, format_name: str, ending: str) -> None:
        self.counts.setdefault(format_name, Counter())[ending] += 1


def make_frame() -> pl.DataFrame:
    """A small table with every type, gaps, and the cell that nobody may quote."""
    return pl.DataFrame(
        {
            "person": [CELL, 'Ann, "O\'Neil"', None, "=1+1", "Zürich"],
            "age": [31, 42, None, 7, 99],
            "income": [1234.5, -0.25, None, 1e12, 3.75],
            "born": pl.Series(["1990-01-31", None, "2001-12-24", "1899-12-31", "2024-02-29"])
            .str.to_date()
            .cast(pl.Date),
            "married": [True, False, None, True, False],
        }
    )


def make_seeds(folder: Path) -> dict[str, list[bytes]]:
    """Valid files of each format, as bytes."""
    from sfumato.io import write_table

    frame = make_frame()
    seeds: dict[str, list[bytes]] = {}
    for name in ("csv", "tsv", "xlsx", "dta", "sav", "zsav", "xpt", "parquet", "arrow", "feather"):
        some = (
            frame.with_columns(pl.col("born").clip(pl.date(1960, 1, 1)))
            if name == "xlsx"
            else frame
        )
        path = folder / f"seed.{name}"
        write_table(some, path)
        seeds[name] = [path.read_bytes()]
    import gzip

    seeds["csv.gz"] = [gzip.compress(seeds["csv"][0], mtime=0)]
    seeds["csv"] += [
        seeds["csv"][0].replace(b",", b";").replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + seeds["csv"][0],
        seeds["csv"][0].decode().encode("utf-16"),
        seeds["csv"][0].decode().encode("cp1252"),
        f"a,b\n{CELL},[1;2]\n*,{{x;y}}\n".encode(),
    ]
    seeds["ods"] = [make_ods()]
    seeds["duckdb"] = [make_duckdb(folder)]
    seeds["plan"] = [text.encode() for text in _PLANS]
    seeds["hierarchy"] = [b"f;women;all\nm;men;all\n", f'"{CELL}",a\nb,a\n'.encode()]
    seeds["cells"] = [b"26", b"[24;28]", b"{a;b}", b"937**", b"*", b"2020-01-31", b"[2020-Q1;2021]"]
    return seeds


def make_ods() -> bytes:
    """A small OpenDocument sheet."""
    row = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'
        for text in ("person", "age")
    )
    cells = (
        f'<table:table-cell office:value-type="string"><text:p>{CELL}</text:p></table:table-cell>'
        '<table:table-cell office:value-type="float" office:value="31"/>'
    )
    content = (
        '<?xml version="1.0"?><office:document-content '
        'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body>'
        f'<office:spreadsheet><table:table table:name="s"><table:table-row>{row}</table:table-row>'
        f'<table:table-row table:number-rows-repeated="2">{cells}</table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", _MANIFEST)
        archive.writestr("content.xml", content)
    return buffer.getvalue()


_MANIFEST = (
    '<?xml version="1.0"?><manifest:manifest '
    'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"></manifest:manifest>'
)


def make_duckdb(folder: Path) -> bytes:
    import duckdb

    path = folder / "seed.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (person TEXT, age INT)")
        connection.execute("INSERT INTO t VALUES (?, 31)", [CELL])
    return path.read_bytes()


_PLANS = (
    """version = 1
[read]
delimiter = ";"
dates = { born = "%d.%m.%Y" }
missing = ["-"]
[columns]
person = "direct"
age = { role = "quasi", kind = "integer", domain = [0, 120], missing = [-9] }
born = { role = "quasi", kind = "date", domain = [1900-01-01, 2024-12-31] }
married = { role = "quasi", kind = "nominal", hierarchy = { f = ["a"], m = ["a"] } }
[[steps]]
method = "drop"
[[steps]]
method = "coarsen"
variables = ["age"]
intervals = 6
[targets]
k.min = 5
""",
    """[columns]
age = "quasi"
[[steps]]
method = "noise"
variables = ["income"]
variance_share = 0.2
[[steps]]
method = "recode"
variables = ["married"]
groups = { pair = ["x", "y"] }
[evaluate.m]
measure = "coefficients"
formula = "age ~ log(income) + C(married)"
[targets]
m.overlap.min = 0.5
[release]
format = "csv"
keep_order = false
""",
)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A few random changes, of the kinds that find mistakes in readers."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        position = chance.randrange(len(changed) + 1)
        kind = chance.randrange(9)
        if kind == 0:
            changed[position : position + 1] = bytes([chance.randrange(256)])
        elif kind == 1 and changed:
            changed[position % len(changed)] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[position : position + chance.choice((1, 2, 4, 8, 64, 1024))]
        elif kind == 3:
            width = chance.choice((1, 2, 4, 8))
            number = chance.choice(_NUMBERS) & (256**width - 1)
            order = chance.choice(("little", "big"))
            changed[position : position + width] = number.to_bytes(width, order)
        elif kind == 4:
            piece = changed[position : position + chance.choice((1, 4, 16, 200))]
            changed[position:position] = piece * chance.choice((1, 2, 50))
        elif kind == 5:
            del changed[position:]
        elif kind == 6:
            changed[position:position] = chance.randbytes(chance.choice((1, 3, 20, 300)))
        elif kind == 7:
            token = chance.choice(_TOKENS)
            changed[position : position + chance.choice((0, len(token)))] = token
        else:
            other = chance.randrange(len(changed) + 1)
            size = chance.choice((1, 4, 32))
            changed[position : position + size] = changed[other : other + size]
    return bytes(changed)


_TOKENS = (
    b'"', b"'", b",", b";", b"\t", b"\n", b"\r\n", b"\r", b"\0", b"\xff\xfe", b"\xef\xbb\xbf",
    b"NaN", b"inf", b"-1", b"1e999", b"9" * 400, b"0x10", b"[", b"]", b"{", b"}", b"*", b"=",
    b"[[", b'"""', b"<", b">", b"&#1;", b"&lol;", b"%", b"%Y%", b"^$", b"9999-99-99",
    b"10000-01-01", b"\xf0\x9f\x98\x80", b"\xe2\x80\x8b", b"1048576", b"XFD1048576", b"true",
    b"." * 300, b"(" * 300, b"[" * 2000, b"{a=" * 500, b"a." * 500,
)  # fmt: skip


def make_case(format_name: str, number: int, seed: int, seeds: dict[str, list[bytes]]) -> bytes:
    """The bytes of a case: the same for the same format, number and seed."""
    chance = random.Random(f"{seed}/{format_name}/{number}")  # noqa: S311 - no secret
    if chance.random() < 0.05:
        return chance.randbytes(chance.choice((0, 1, 10, 300, 5000)))
    data = chance.choice(seeds[format_name])
    if format_name in {"xlsx", "ods"} and chance.random() < 0.7:
        return _mutate_part(data, chance)
    if format_name == "csv.gz" and chance.random() < 0.5:
        import gzip

        return gzip.compress(mutate(gzip.decompress(data), chance), mtime=0)
    return mutate(data, chance)


def _mutate_part(data: bytes, chance: random.Random) -> bytes:
    """A packed file with one of its parts changed: a changed byte of the packing says little."""
    buffer = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as source:
        parts = source.namelist()
        sheets = [
            part for part in parts if "sheet" in part or "content" in part or "String" in part
        ]
        chosen = chance.choice(sheets if chance.random() < 0.7 else parts)
        with zipfile.ZipFile(buffer, "w") as target:
            for part in parts:
                content = source.read(part)
                target.writestr(part, mutate(content, chance) if part == chosen else content)
    return buffer.getvalue()


def read_case(format_name: str, data: bytes, folder: Path) -> None:
    """Hand a case to the part of Sfumato that it is for."""
    import sfumato as sf
    from sfumato.io import read_table
    from sfumato.schema import hierarchies

    if format_name == "plan":
        path = folder / "plan.toml"
        path.write_bytes(data)
        plan = sf.Plan.load(path)
        sf.Plan.parse(plan.text())
    elif format_name == "hierarchy":
        path = folder / "groups.csv"
        path.write_bytes(data)
        hierarchies.read(path)
    elif format_name == "cells":
        _read_cells(data.decode("utf-8", errors="replace"))
    else:
        path = folder / f"case{TEXTS[format_name]}"
        path.write_bytes(data)
        options = {"table": "t"} if format_name == "duckdb" else {}
        table = read_table(path, **options)  # type: ignore[arg-type]
        if table.frame.width < 200:
            sf.Schema.infer(table.frame)


def _read_cells(text: str) -> None:
    """A text among cells of every declared kind, as a measure meets it."""
    import sfumato as sf

    kinds: tuple[Any, ...] = ("nominal", "ordinal", "integer", "continuous", "date", "text", None)
    for kind in kinds:
        frame = pl.DataFrame({"v": [text, text, "[1;2]", None], "s": ["a", "b", "a", "b"]})
        try:
            domain = (text, "[1;2]", "b") if kind == "ordinal" else ()
            column = sf.Column(role="quasi", kind=kind, domain=domain or None)
            data = sf.Dataset(frame, sf.Schema({"v": column, "s": "sensitive"}))
            sf.assess(data, ["uniqueness", "singling_out"])
        except sf.errors.SfumatoError as error:
            if len(text) > 3 and text in str(error):
                raise AssertionError("a message quotes the cell") from None


def run_child(format_name: str, first: int, last: int, seed: int) -> None:
    """Run some cases and write one line for each; the parent reads them."""
    from sfumato.errors import SfumatoError

    warnings.simplefilter("ignore")
    limit = 16 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mixed = format_name == "mixed"
    with tempfile.TemporaryDirectory(prefix="sfumato-fuzz-") as private:
        folder = Path(private)
        seeds = make_seeds(folder)
        for number in range(first, last):
            # "mixed" takes the formats in turn: one process for a few cases of each
            name = FORMATS[number % len(FORMATS)] if mixed else format_name
            data = make_case(name, number, seed, seeds)
            print(json.dumps({"begin": number}), flush=True)
            started = time.monotonic()
            signal.alarm(4 * SECONDS)
            detail = ""
            try:
                read_case(name, data, folder)
                ending = "read"
            except SfumatoError as error:
                ending = "refused"
                if CELL in str(error) and name != "plan":
                    ending, detail = "cell quoted", str(error)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
                ending = f"uncaught {type(error).__name__}"
                detail = "".join(traceback.format_exception(error))[-1500:]
            signal.alarm(0)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            if time.monotonic() - started > SECONDS:
                ending = "too slow"
            if peak > MEMORY:
                ending = "too much memory"
            line = {"end": number, "ending": ending, "detail": detail, "peak": peak}
            print(json.dumps(line), flush=True)
            if peak > MEMORY:
                return  # the peak never goes down: the next cases need a process of their own


def run_cases(
    cases: int,
    *,
    seed: int = 0,
    formats: tuple[str, ...] = FORMATS,
    tell: Callable[..., None] = print,
) -> Outcome:
    """Run so many cases, spread evenly over the formats."""
    outcome = Outcome()
    each = -(-cases // len(formats))
    for format_name in formats:
        number = 0
        while number < each:
            number = _run_some(format_name, number, min(number + _PER_CHILD, each), seed, outcome)
        tell(f"{format_name}: {dict(outcome.counts[format_name])}")
    return outcome


def _run_some(format_name: str, first: int, last: int, seed: int, outcome: Outcome) -> int:
    """Run cases in a child; the number of the case after the last that was run."""
    command = [
        sys.executable,
        "-m",
        "tests.soak.fuzz",
        "--child",
        format_name,
        str(first),
        str(last),
        str(seed),
    ]
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", cwd=_ROOT,
        env={**os.environ, "POLARS_MAX_THREADS": "2", "RUST_BACKTRACE": "0"},
    )  # fmt: skip
    begun, done = first - 1, first - 1
    for line in result.stdout.splitlines():
        report = json.loads(line) if line.startswith("{") else {}
        begun = report.get("begin", begun)
        if "end" in report:
            done = report["end"]
            outcome.peak = max(outcome.peak, report["peak"])
            outcome.add(format_name, report["ending"])
            if report["ending"] not in {"read", "refused"}:
                outcome.failures.append({"format": format_name, "seed": seed, **report})
    if CELL in result.stderr:
        outcome.add(format_name, "cell on stderr")
        detail = result.stderr[-1500:]
        outcome.failures.append(
            {
                "format": format_name,
                "seed": seed,
                "end": done,
                "ending": "cell on stderr",
                "detail": detail,
            }
        )
    if begun > done:  # it died within a case
        outcome.add(format_name, "crashed")
        detail = f"status {result.returncode}: {result.stderr[-1500:]}"
        outcome.failures.append(
            {
                "format": format_name,
                "seed": seed,
                "end": begun,
                "ending": "crashed",
                "detail": detail,
            }
        )
        return begun + 1
    if done < first:
        raise RuntimeError(f"the child did not start: {result.stderr[-2000:]}")
    return done + 1


_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the cases that the command line asks for and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--child", nargs=4)
    given = parser.parse_args()
    if given.child:
        name, first, last, seed = given.child
        run_child(name, int(first), int(last), int(seed))
        return 0
    started = time.monotonic()
    outcome = run_cases(given.cases, seed=given.seed, formats=tuple(given.formats.split(",")))
    total = sum(sum(counts.values()) for counts in outcome.counts.values())
    read = sum(counts["read"] for counts in outcome.counts.values())
    print(
        f"{total} cases in {time.monotonic() - started:.0f} s: {read} read, "
        f"{total - read - len(outcome.failures)} refused, {len(outcome.failures)} failures; "
        f"peak memory {outcome.peak / 2**20:.0f} MiB"
    )
    shown: set[str] = set()
    for failure in outcome.failures:
        detail = failure["detail"].strip()[-600:]
        kind = f"{failure['format']} {failure['ending']} {detail[-80:]}"
        if kind not in shown:
            print(f"{failure['format']}, case {failure['end']}: {failure['ending']}\n{detail}")
        shown.add(kind)
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
