"""Where the numbers of the docs come from: every measured number has a run beside it.

A **measured number** has decimals, a percent sign, thousands or at least two digits, or is part of
"3 of 4". It stands in running text, a list, a table or a ```text block; not in code, in a heading
or in a list of references. No measured numbers are:

- years and dates, versions, exit codes, numbers of figures, tables, steps, sections and list items;
- what is glued to a word (`SHA-256`, `R80`), modes of files (0700), sizes in bits and bytes;
- settings (`k = 5`), and levels of confidence (`95 % intervals`).

Each of the others must be **in the evidence of its passage**: in a block of code on the page
(which the examples test runs; what it shows is compared), in the code within the passage itself, or
in what a comment directly before it names. A comment above the title holds for the whole page.

    <!-- run: print(len(data)) -->             run on the page's own data: what it prints
    <!-- in: src/sfumato/run/lights.py --> a constant, or what a test expects: our files
    <!-- measured: 2026-11-16 04b76e7 python -m benchmarks.bench_national -->
    <!-- timed: 2026-11-16 04b76e7 python -m benchmarks.bench_plots -->
    <!-- published: Kroes et al. (2021), Table 2 -->
    <!-- stated: what cannot be checked, and why; only where `test_numbers.py` still allows it -->

`measured` and `timed` take too long for a test. They have the day and the commit of the last run
(`python -m tools.docs_numbers --stamp` writes them; those that were there when the rule was made,
on 16 November 2026, have the day and the commit in which the passage was last written), and `make
docs-numbers` runs them again. It compares every number of a measured passage. Of a timed one it
shows them only: times and memory differ from machine to machine.

A number is in the evidence if a number there rounds to it: .3259 is 0.326, 32.6 % or 33 %, but
never 32 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from tests.docs.blocks import ROOT

KINDS = ("run", "in", "measured", "timed", "published", "stated")
_COMMENT = re.compile(rf"<!-- ({'|'.join(KINDS)}):\s+(.*?)\s*-->", re.DOTALL)
_STAMP = re.compile(r"(20\d\d-\d\d-\d\d) ([0-9a-f]{7,40}) (\S.*)", re.DOTALL)
_NUMBER = re.compile(
    r"(?<![\w.,:/\-*²])[\u2212+-]?((?:\d{1,3}(?:[, ]\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"(?P<percent> ?%)?(?![\w/]|[.,:]\d|-[a-zA-Z])"
)
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_COUNTED = "records|people|others|persons|patients|pupils|draws"
_EXEMPT = re.compile(
    r"`[^`]*`"  # code
    r"|\]\([^)]*\)|\]\[[^]]*\]|\[\^\d+\]"  # where links lead
    r"|<!--.*?-->|<[^>]+>"
    rf"|\d{{1,2}} {_MONTH} \d{{4}}|\d\d?\.\d\d?\.\d{{4}}|\d\d/\d\d/\d{{4}}"
    rf"|\b(?:19|20)\d\d\b(?! ?(?:%|{_COUNTED}))"
    r"|\d+[ -](?:bits?|bytes|hexadecimal)\b"
    r"|\b(?:Figures?|Tables?|[Ss]ections?|[Ss]teps?|[Ee]xit codes?|[Cc]odes?|[Vv]ersion|page|mode|"
    r"Python|ARX|sdcMicro|format) \*{0,2}[\d.]+\w*(?:(?:, | and | or )\d+)*"
    r"|\b0[0-7]{3}\b"  # modes of files
    r"|\*?[a-zA-Zεkδ]\w{0,3}\*? = [\u2212-]?\d*\.?\d+"  # k = 5
    r"|\b9\d(?:\.\d)? ?% (?:intervals?|confidence|binomial|bounds)|\b9\d(?:\.\d)? ?% \(?interval"
    r"|\d+(?:st|nd|rd|th)\b",
    re.DOTALL,
)
_NO_TEXT = ("```", "#", "[^", "Reference:", "References:", "::: ")
_ITEM = re.compile(r"^ *\d+\. ")
_LITERAL = re.compile(r"(?<![\w.])\d[\d_,]*(?:\.\d+)?|(?<![\w.])\.\d+")


@dataclass(frozen=True)
class Passage:
    """A paragraph, list or table, with the comments directly before it."""

    line: int
    text: str
    notes: tuple[tuple[str, str], ...]

    def evidence_of(self, kind: str) -> list[str]:
        """What its comments of one kind say."""
        return [said for name, said in self.notes if name == kind]

    @property
    def rests_on_others(self) -> bool:
        """Whether numbers in it come from elsewhere than our code and this page."""
        return bool({"measured", "timed", "published", "stated"} & {kind for kind, _ in self.notes})


@dataclass(frozen=True)
class Number:
    """A number as it is printed."""

    printed: str

    @property
    def is_percent(self) -> bool:
        return "%" in self.printed

    @property
    def value(self) -> Decimal:
        return Decimal(re.sub(r"[\u2212+\-,%  ]", "", self.printed))

    def rounds_from(self, longer: Decimal) -> bool:
        """Whether the other number, or a hundred times it for a percentage, rounds to this one."""
        step = Decimal(1).scaleb(self.value.as_tuple().exponent)  # type: ignore[arg-type]
        scales = (1, 100) if self.is_percent else (1,)
        return any(-step / 2 <= longer * scale - self.value < step / 2 for scale in scales)


def passages(page: Path) -> Iterator[Passage]:
    """The text of a page without code, headings and references."""
    lines = page.read_text("utf-8").splitlines()
    position, above_title = 0, True
    for_page: list[tuple[str, str]] = []
    notes: list[tuple[str, str]] = []
    while position < len(lines):
        first, line = position, lines[position].strip()
        position = _last_line(lines, first) + 1
        text = "\n".join(lines[first:position])
        if line.startswith("<!--"):
            (for_page if above_title else notes).extend(_COMMENT.findall(text))
        elif line:
            above_title = above_title and not line.startswith("#")
            if line == "```text" or not line.startswith(_NO_TEXT):
                yield Passage(first + 1, text, (*notes, *for_page))
            notes = []


def _last_line(lines: list[str], first: int) -> int:
    """Where the paragraph, table, comment or block ends that begins here."""
    line = lines[first].strip()
    if not line or line.startswith("#"):
        return first
    if line.startswith(("```", "<!--")):
        end = "-->" if line.startswith("<!--") else "```"
        start = first if end in line.removeprefix("```") else first + 1
        return next(at for at in range(start, len(lines)) if end in lines[at])
    last = first
    while last + 1 < len(lines) and _continues(lines[last + 1]):
        last += 1
    return last


def _continues(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith(("```", "<!--", "#"))


def measured_numbers(text: str) -> Iterator[Number]:
    """The numbers of a passage that need evidence."""
    plain = "\n".join(_ITEM.sub("", line) for line in text.splitlines())
    plain = _EXEMPT.sub(" ", plain)
    paired = {
        end
        for pair in re.finditer(r"(?<![\w.])(\d+) of (?:the )?(?:first )?(\d+)\b", plain)
        for end in (pair.start(1), pair.start(2))
    }
    for found in _NUMBER.finditer(plain):
        number = Number(found[0].strip())
        if number.is_percent or "." in found[1] or number.value >= 10 or found.start(1) in paired:
            yield number


def literals(text: str) -> set[Decimal]:
    """All numbers that a text contains, however they are written."""
    text += " " + re.sub(r"(?<=\d)[  ](?=\d{3}\b)", "", text)  # 20 000
    found = {
        Decimal(number.replace("_", "").replace(",", ""))
        for number in _LITERAL.findall(re.sub(r",(?!\d{3}\b)", " ", text))
    }
    return found | {Decimal(number) for number in re.findall(r"\d+(?:\.\d+)?e-?\d+", text)}


def unsupported(passage: Passage, evidence: Iterable[str]) -> list[str]:
    """The measured numbers of a passage that nothing in the evidence rounds to."""
    known = literals(" ".join(re.findall(r"`([^`]*)`", passage.text)))
    for text in evidence:
        known |= literals(text)
    return [
        number.printed
        for number in measured_numbers(passage.text)
        if not any(number.rounds_from(value) for value in known)
    ]


def files_named(passage: Passage) -> list[str]:
    """The files in which the numbers of a passage stand."""
    paths = [ROOT / path for note in passage.evidence_of("in") for path in note.split()]
    return [path.read_text("utf-8") for path in paths]


def stamp(note: str) -> tuple[str, str, str]:
    """Day, commit and command of a run that took too long for a test."""
    found = _STAMP.fullmatch(note)
    if not found:
        raise ValueError(f"'{note}' is no day, commit and command.")
    return found[1], found[2], " ".join(found[3].split())
