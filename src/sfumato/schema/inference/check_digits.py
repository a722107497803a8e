"""Check digits of national numbers, bank accounts and cards.

They keep an ordinary number from being taken for one that points to a person. Each takes the value
in capitals, without blanks, dots, dashes and strokes, and in the pattern that `formats` gives it.
"""

from __future__ import annotations

import re
import string

# Codice fiscale: in odd positions an A counts as B, a B as A, and so on.
_ODD_POSITIONS = "BAFHJNPRTVCESULDGIMOQKWZYX"


def _sum_products(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _sum_cross_digits(digits: str, weights: tuple[int, ...]) -> int:
    """Sum of the digits of the products, as Luhn and the German numbers have it."""
    products = (int(digit) * weight for digit, weight in zip(digits, weights, strict=True))
    return sum(product // 10 + product % 10 for product in products)


def _is_day(year: str, month: int, day: int) -> bool:
    """Whether a two-digit year, a month and a day can be a date (in some century)."""
    thirty, february = (4, 6, 9, 11), 2
    last = 30 if month in thirty else 28 + (int(year) % 4 == 0) if month == february else 31
    return 1 <= month <= 12 and 1 <= day <= last  # noqa: PLR2004 - months


def luhn(value: str) -> bool:
    """Payment cards, and the last ten digits of the Swedish personnummer."""
    return _sum_cross_digits(value, ((2, 1) * len(value))[-len(value) :]) % 10 == 0


def iban(value: str) -> bool:
    """International bank account number: 1 modulo 97 with the head at the end."""
    return int("".join(str(int(sign, 36)) for sign in value[4:] + value[:4])) % 97 == 1


def nhs(value: str) -> bool:
    """NHS number of England and Wales."""
    return _sum_products(value, (10, 9, 8, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0 and int(value) > 0


def bsn(value: str) -> bool:
    """Dutch burgerservicenummer: the eleven-test."""
    return _sum_products(value.zfill(9), (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0 and int(value) > 0


def _replace_letters(value: str) -> str:
    return re.sub("[A-Z]", lambda match: f"{string.ascii_uppercase.index(match[0]) + 1:02}", value)


def kvnr(value: str) -> bool:
    """German health insurance number (Krankenversichertennummer)."""
    return _sum_cross_digits(_replace_letters(value[:9]), (1, 2) * 5) % 10 == int(value[9])


def vsnr(value: str) -> bool:
    """German pension insurance number (Versicherungsnummer)."""
    weights = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
    return _sum_cross_digits(_replace_letters(value[:11]), weights) % 10 == int(value[11])


def steuer_id(value: str) -> bool:
    """German tax number: one of the first ten digits comes twice or thrice, ISO 7064 MOD 11,10."""
    product = 10
    for digit in value[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    often = sorted(map(value[:10].count, set(value[:10])))[-2:]
    return often in ([1, 2], [1, 3]) and (11 - product) % 10 == int(value[10])


def nir(value: str) -> bool:
    """French numéro de sécurité sociale; Corsica counts as 19 and 18."""
    digits = value[:13].replace("2A", "19").replace("2B", "18")
    return 97 - int(digits) % 97 == int(value[13:])


def rijksregister(value: str) -> bool:
    """Belgian national number; who was born after 1999 has a 2 in front of the sum."""
    return int(value[9:]) in (97 - int(century + value[:9]) % 97 for century in ("", "2"))


def dni(value: str) -> bool:
    """Spanish DNI and NIE: the letter is the number modulo 23."""
    number = int(value[:-1].translate(str.maketrans("XYZ", "012")))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23] == value[-1]


def codice_fiscale(value: str) -> bool:
    """Italian codice fiscale: odd positions count through a table, even ones as they are."""
    letters = string.ascii_uppercase
    codes = [int(sign) if sign.isdigit() else letters.index(sign) for sign in value[:15]]
    odd = sum(letters.index(_ODD_POSITIONS[code]) for code in codes[::2])
    return letters[(odd + sum(codes[1::2])) % 26] == value[15]


def personnummer(value: str) -> bool:
    """Swedish personnummer or samordningsnummer (day + 60)."""
    short = value[-10:]
    return luhn(short) and _is_day(short[:2], int(short[2:4]), int(short[4:6]) % 60)


def cpr(value: str) -> bool:
    """Danish CPR number. Those given since 2007 may fail, so a few more are missed."""
    fits = _sum_products(value, (4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0
    return fits and _is_day(value[4:6], int(value[2:4]), int(value[:2]))


def fodselsnummer(value: str) -> bool:
    """Norwegian fødselsnummer or D-number (day + 40): two check digits."""
    first = _sum_products(value[:10], (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11
    second = _sum_products(value, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11
    return first == second == 0 and _is_day(value[4:6], int(value[2:4]) % 40, int(value[:2]) % 40)


def hetu(value: str) -> bool:
    """Finnish henkilötunnus; the century sign is a letter here or was a dash."""
    digits = value[:6] + value[-4:-1]
    fits = "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(digits) % 31] == value[-1]
    return fits and _is_day(value[4:6], int(value[2:4]), int(value[:2]))


def pesel(value: str) -> bool:
    """Polish PESEL; the month carries the century."""
    fits = _sum_products(value, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0
    return fits and _is_day(value[:2], int(value[2:4]) % 20, int(value[4:6]))
