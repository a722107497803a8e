"""Check digits once more: slowly, and apart from the source."""

from __future__ import annotations

import datetime as dt
import string

_ODD = "1 0 5 7 9 13 15 17 19 21 2 4 18 20 11 3 6 8 12 14 16 10 22 25 24 23"


def luhn(value: str) -> bool:
    total = 0
    for place, sign in enumerate(reversed(value)):
        total += int(sign) if place % 2 == 0 else sum(map(int, str(2 * int(sign))))
    return total % 10 == 0


def nhs(value: str) -> bool:
    check = 11 - sum(int(value[i]) * (10 - i) for i in range(9)) % 11
    return {11: 0}.get(check, check) == int(value[9])


def bsn(value: str) -> bool:
    total = 0
    for place in range(8):
        total += (9 - place) * int(value[place])
    return (total - int(value[8])) % 11 == 0


def kvnr(value: str) -> bool:
    letter = ord(value[0]) - 64
    full = [letter // 10, letter % 10, *map(int, value[1:9])]
    total = 0
    for place, digit in enumerate(full):
        total += sum(map(int, str(digit * 2))) if place % 2 else digit
    return total % 10 == int(value[9])


def vsnr(value: str) -> bool:
    letter = f"{ord(value[8]) - 64:02d}"
    total = 0
    for digit, factor in zip(value[:8] + letter + value[9:11], "212571212121", strict=True):
        total += sum(map(int, str(int(digit) * int(factor))))
    return total % 10 == int(value[11])


def steuer_id(value: str) -> bool:
    counts = [value[:10].count(digit) for digit in "0123456789"]
    if sum(count > 1 for count in counts) != 1 or max(counts) > 3:
        return False
    product = 10
    for digit in value[:10]:
        total = (int(digit) + product) % 10
        if total == 0:
            total = 10
        product = (2 * total) % 11
    check = 11 - product
    return (0 if check == 10 else check) == int(value[10])


def nir(value: str) -> bool:
    head = value[:13]
    if "A" in head:
        number = int(head.replace("A", "0")) - 1_000_000
    elif "B" in head:
        number = int(head.replace("B", "0")) - 2_000_000
    else:
        number = int(head)
    return (number + int(value[13:])) % 97 == 0 and 1 <= int(value[13:]) <= 97


def rijksregister(value: str) -> bool:
    before, after = int(value[:9]), 2_000_000_000 + int(value[:9])
    return any((number + int(value[9:])) % 97 == 0 for number in (before, after)) and (
        1 <= int(value[9:]) <= 97
    )


def dni(value: str) -> bool:
    head = str("XYZ".index(value[0])) + value[1:-1] if value[0] in "XYZ" else value[:-1]
    remainder = int(head)
    remainder -= remainder // 23 * 23
    return list("TRWAGMYFPDXBNJZSQVHLCKE").index(value[-1]) == remainder


def codice_fiscale(value: str) -> bool:
    counts = [int(count) for count in _ODD.split()]
    odd = dict(zip(string.digits, counts[:10], strict=True))
    odd |= dict(zip(string.ascii_uppercase, counts, strict=True))
    even = {sign: int(sign) for sign in string.digits}
    even |= {sign: place for place, sign in enumerate(string.ascii_uppercase)}
    total = 0
    for place, sign in enumerate(value[:15], start=1):
        total += odd[sign] if place % 2 else even[sign]
    return string.ascii_uppercase[total % 26] == value[15]


def real_day(century: int, year: str, month: str, day: int) -> bool:
    try:
        dt.date(century + int(year), int(month), day)
    except ValueError:
        return False
    return True


def personnummer(value: str) -> bool:
    return luhn(value) and real_day(1900, value[:2], value[2:4], int(value[4:6]))


def cpr(value: str) -> bool:
    total = sum(int(value[i]) * [4, 3, 2, 7, 6, 5, 4, 3, 2, 1][i] for i in range(10))
    return total % 11 == 0 and real_day(1900, value[4:6], value[2:4], int(value[:2]))


def fodselsnummer(value: str) -> bool:
    first = 11 - sum(int(value[i]) * [3, 7, 6, 1, 8, 9, 4, 5, 2][i] for i in range(9)) % 11
    second = 11 - sum(int(value[i]) * [5, 4, 3, 2, 7, 6, 5, 4, 3, 2][i] for i in range(10)) % 11
    checks = [str(0 if check == 11 else check) for check in (first, second)]
    return checks == [value[9], value[10]] and real_day(
        1900, value[4:6], value[2:4], int(value[:2])
    )


def hetu(value: str) -> bool:
    remainder = int(value[:6] + value[7:10]) % 31
    signs = [sign for sign in string.digits + string.ascii_uppercase if sign not in "GIOQZ"]
    return signs[remainder] == value[10] and real_day(1900, value[4:6], value[2:4], int(value[:2]))


def pesel(value: str) -> bool:
    total = sum(int(value[i]) * [1, 3, 7, 9][i % 4] for i in range(10))
    return (10 - total % 10) % 10 == int(value[10]) and real_day(
        1900, value[:2], value[2:4], int(value[4:6])
    )


def iban(value: str) -> bool:
    remainder = 0
    for sign in value[4:] + value[:4]:
        for digit in str(ord(sign) - 55) if sign.isalpha() else sign:
            remainder = (remainder * 10 + int(digit)) % 97
    return remainder == 1
