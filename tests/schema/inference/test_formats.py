"""Ways of writing values that speak for a role."""

from __future__ import annotations

import polars as pl
import pytest
from tests.schema.inference.suggested import one

from sfumato.schema.inference import suggest

FORMATS: dict[str, tuple[str, list[str]]] = {
    "e-mail": ("direct", [f"u{i}@example.org" for i in range(9)]),
    "web": ("direct", [f"https://example.org/{i}" for i in range(9)]),
    "internet": ("direct", [f"192.168.{i}.{20 + i}" for i in range(9)]),
    "(IP) addresses": ("direct", [f"2001:db8::{i}" for i in range(9)]),
    "MAC": ("direct", [f"00:1a:2B:3c:4d:{i:02x}" for i in range(9)]),
    "UUID": ("direct", [f"123e4567-e89b-12d3-a456-4266141740{i:02}" for i in range(9)]),
    "social security": ("direct", [f"12{i}-45-678{i}" for i in range(9)]),
    "National Insurance": ("direct", [f"AB 12 34 5{i} C" for i in range(9)]),
    "VIN": ("direct", [f"WVWZZZ1JZXW00001{i}" for i in range(9)]),
    "telephone": ("direct", [f"+49 30 12345{i}7" for i in range(9)]),
    "telephone numbers": ("direct", [f"(555) 123-45{i}7" for i in range(9)]),
    "pictures": ("direct", [f"scans/p{i}.jpg" for i in range(9)]),
    "street": ("direct", [f"Lindenstraße {i}b" for i in range(9)]),
    "street addresses": ("direct", [f"{i + 1} High Street" for i in range(9)]),
    "people's names": ("direct", [f"Mrs. {a} Jones" for a in "ABCDEFGHI"]),
    "ICD-10": ("sensitive", ["E11.9", "I10", "C50.1", "F32.2", "J45"]),
    "coordinates": ("quasi", ["52.5200, 13.4050", "48.1374, 11.5755"]),
    "postcodes": ("quasi", ["SW1A 1AA", "M1 1AE", "CR2 6XH", "DN55 1PT"]),
    "dates": ("quasi", ["03.04.2021", "4.5.2021", "12.11.1999"]),
}


@pytest.mark.parametrize("what", FORMATS)
def test_writings_speak(what: str) -> None:
    role, values = FORMATS[what]
    found = one("x", values)
    assert found.role == role
    assert what in found.reason


@pytest.mark.parametrize(
    "values",
    [
        ["12:30:45", "08:15:00", "23:59:59"] * 3,
        ["C85", "B28", "A10", "D33", "E46"] * 3,
        ["1.2", "3.4", "5.6"] * 3,
        ["20-29", "30-39", "40-49"] * 3,
        ["a b", "c d"] * 3,
    ],
)
def test_other_writings_are_silent(values: list[str]) -> None:
    assert one("x", values).role is None


def test_a_few_other_values_do_not_hide_addresses() -> None:
    mails = [f"u{i}@example.org" for i in range(95)]
    assert one("x", [*mails, "unknown", "none", "-"]).role == "direct"
    assert one("x", [*mails[:50], *map(str, range(50))]).reason.find("e-mail") == -1


def test_of_many_values_a_sample_is_looked_at() -> None:
    number = pl.int_range(50_000, eager=True)
    frame = pl.DataFrame(
        {
            "code": "P" + (number * 7919 % 1_000_003).cast(pl.String).str.zfill(9),
            "mail": "u" + number.cast(pl.String) + "@example.org",
            "tel": number * 7919 % 9_999_991 + 10**9,
            "value": number / 7,
            "age": number % 97,
            "sex": pl.Series(["m", "f"] * 25_000),
        }
    )
    assert [column.role for column in suggest(frame).values()] == [
        *("direct", "direct", "direct", None, "quasi", "quasi")
    ]


def test_codes_of_areas_that_many_share_are_no_telephone_numbers() -> None:
    areas = ["01-01301", "01-02200", "02-00400"]
    assert one("zone", areas * 60).role != "direct"
    phones = [f"0351 {number}" for number in range(123_456, 123_516)]
    assert one("zone", phones).role == "direct"
