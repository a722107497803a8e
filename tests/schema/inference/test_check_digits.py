"""Check digits against a slow and separate reckoning, and against published examples."""

from __future__ import annotations

import datetime as dt
import itertools
import string
from collections.abc import Callable, Iterable

import pytest
from tests.schema.inference import slow_check_digits as slow
from tests.schema.inference.digits import digits
from tests.schema.inference.suggested import one

from sfumato.schema.inference import check_digits


def dated(tails: list[str], form: str) -> list[str]:
    days = [dt.date(1931, 1, 2) + dt.timedelta(days=211 * step) for step in range(len(tails))]
    return [day.strftime(form) + tail for day, tail in zip(days, tails, strict=True)]


def ended(heads: Iterable[str], ends: Iterable[str]) -> list[str]:
    return [head + end for head, end in itertools.product(heads, list(ends))]


TWO = [f"{number:02d}" for number in range(100)]
# Every digit once but for one that comes twice, and numbers that are nothing of the kind.
STEUER = [f"{first}023456789"[:10] for first in "123456789"] + digits(60, 10)
CODES = ended(
    (
        f"RSSM{a}A{year}{month}{day}H{place}"
        for a, year, month, day, place in zip(
            "RSTLMNPQVZ" * 3,
            TWO[40:70],
            "ABCDEHLMPRST" * 2 + "ABCDEH",
            TWO[1:31],
            [f"{100 + 29 * i}" for i in range(30)],
            strict=True,
        )
    ),
    string.ascii_uppercase,
)
IBANS = [
    f"{country}{check}{account}"
    for country, account in (
        ("GB", "WEST12345698765432"),
        ("DE", "370400440532013000"),
        ("FR", "20041010050500013M02606"),
    )
    for check in TWO[2:99]
]
Check = tuple[str, Callable[[str], bool], Callable[[str], bool], list[str]]
CHECKS: list[Check] = [
    ("NHS", check_digits.nhs, slow.nhs, digits(400, 10)),
    ("BSN", check_digits.bsn, slow.bsn, digits(400, 9)),
    ("health insurance", check_digits.kvnr, slow.kvnr, ended("AKMZ", digits(100, 9))),
    (
        "pension insurance",
        check_digits.vsnr,
        slow.vsnr,
        [f"{one[:8]}{letter}{one[8:]}" for one in digits(60, 11) for letter in "ACZ"],
    ),
    ("German tax", check_digits.steuer_id, slow.steuer_id, ended(STEUER, string.digits)),
    (
        "NIR",
        check_digits.nir,
        slow.nir,
        ended(["2550814168025", "1840275120034", "185052A004120", "299122B033017"], TWO),
    ),
    ("Belgian", check_digits.rijksregister, slow.rijksregister, ended(digits(8, 9), TWO)),
    (
        "DNI",
        check_digits.dni,
        slow.dni,
        ended(digits(20, 8) + ended("XYZ", digits(4, 7)), "TRWAGMYFPDXBNJZSQVHLCKE"),
    ),
    ("codice fiscale", check_digits.codice_fiscale, slow.codice_fiscale, CODES),
    (
        "Swedish",
        check_digits.personnummer,
        slow.personnummer,
        dated(digits(200, 4), "%y%m%d") + digits(100, 10),
    ),
    ("CPR", check_digits.cpr, slow.cpr, dated(digits(300, 4), "%d%m%y") + digits(100, 10)),
    (
        "Norwegian",
        check_digits.fodselsnummer,
        slow.fodselsnummer,
        ended(dated(digits(12, 3), "%d%m%y"), TWO),
    ),
    (
        "Finnish",
        check_digits.hetu,
        slow.hetu,
        ended(dated(["-308", "A123", "-777"], "%d%m%y"), "0123456789ABCDEFHJKLMNPRSTUVWXY"),
    ),
    ("PESEL", check_digits.pesel, slow.pesel, dated(digits(200, 5), "%y%m%d")),
    ("IBAN", check_digits.iban, slow.iban, IBANS),
    ("card", check_digits.luhn, slow.luhn, ended(["4"], digits(300, 15))),
]
IDS = [check[0] for check in CHECKS]
WRITTEN = {
    "NHS": "NHS",
    "BSN": "BSN",
    "health insurance": "German health insurance",
    "pension insurance": "German pension insurance",
    "German tax": "German tax",
    "NIR": "NIR",
    "Belgian": "Belgian",
    "DNI": "DNI",
    "codice fiscale": "codice fiscale",
    "Swedish": "Swedish",
    "CPR": "CPR",
    "Norwegian": "Norwegian",
    "Finnish": "Finnish",
    "PESEL": "PESEL",
    "IBAN": "IBAN",
    "card": "card",
}


@pytest.mark.parametrize(("_name", "check", "reckoned", "values"), CHECKS, ids=IDS)
def test_check_digits_agree_with_a_slow_reckoning(
    _name: str, check: Callable[[str], bool], reckoned: Callable[[str], bool], values: list[str]
) -> None:
    valid = [value for value in values if reckoned(value)]
    assert len(valid) >= 3, "the generator must make valid numbers"
    assert len(valid) < len(values), "the generator must make invalid numbers"
    assert [value for value in values if check(value.replace("-", ""))] == valid


@pytest.mark.parametrize(("name", "_check", "reckoned", "values"), CHECKS, ids=IDS)
def test_numbers_are_known_by_their_check_digits(
    name: str, _check: Callable[[str], bool], reckoned: Callable[[str], bool], values: list[str]
) -> None:
    valid = list(dict.fromkeys(value for value in values if reckoned(value)))
    wrong = list(dict.fromkeys(value for value in values if not reckoned(value)))
    found = one("x", valid)
    assert found.role == "direct"
    assert WRITTEN[name] in found.reason
    # The same writing with wrong check digits says nothing of the kind.
    assert WRITTEN[name] not in one("x", wrong[: len(valid) * 3]).reason


PUBLISHED = [
    ("nhs", "9434765919"),
    ("bsn", "111222333"),
    ("kvnr", "A123456780"),
    ("vsnr", "15070649C103"),
    ("steuer_id", "86095742719"),
    ("nir", "255081416802538"),
    ("dni", "12345678Z"),
    ("dni", "X1234567L"),
    ("codice_fiscale", "RSSMRA85T10A562S"),
    ("personnummer", "8112289874"),
    ("cpr", "0707614285"),
    ("fodselsnummer", "01010750160"),
    ("hetu", "131052308T"),
    ("pesel", "44051401359"),
    ("rijksregister", "93051822361"),
    ("iban", "GB82WEST12345698765432"),
    ("luhn", "4111111111111111"),
]


@pytest.mark.parametrize(("check", "value"), PUBLISHED)
def test_published_examples_pass(check: str, value: str) -> None:
    assert getattr(check_digits, check)(value) is True


def test_numbers_that_lost_their_leading_zeros_are_still_known() -> None:
    born = [f"{year:02d}{month:02d}12" for year in range(1, 30) for month in range(1, 13)]
    valid = [value for head in ended(born, ["1234"]) for value in ended([head], "0123456789")]
    valid = [value for value in valid if slow.pesel(value)]
    assert len(valid) > 50
    assert "PESEL" in one("x", map(int, valid)).reason


def test_ordinary_whole_numbers_are_no_national_numbers() -> None:
    for length in range(8, 17):
        made = [int("1" + number) for number in digits(300, length - 1, start=length)]
        assert one("x", made).role is None, length
