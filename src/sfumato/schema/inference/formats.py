"""Ways of writing values that speak for a role: addresses, national numbers, codes, postcodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from sfumato.schema import Role
from sfumato.schema.inference.check_digits import (
    bsn,
    codice_fiscale,
    cpr,
    dni,
    fodselsnummer,
    hetu,
    iban,
    kvnr,
    luhn,
    nhs,
    nir,
    personnummer,
    pesel,
    rijksregister,
    steuer_id,
    vsnr,
)
from sfumato.schema.inference.profile import ValueProfile

_ENOUGH = 0.9  # share of the distinct values that must be written in a format
_MARKED = 5  # at least one in so many must bear the mark


@dataclass(frozen=True, kw_only=True)
class Format:
    """A way of writing values that speaks for a role: a pattern, and check digits where there are.

    `least` different values must be there: a single number passes a check digit by chance. Some
    values must bear the `mark`: without any dot a cabin or a shelf looks like a diagnosis. Of `own`
    values few records share one: an area's code can look like a telephone number.
    """

    role: Role
    what: str
    pattern: str
    check: Callable[[str], bool] | None = None
    least: int = 1
    mark: str = ""
    own: bool = False

    @cached_property
    def regex(self) -> str:
        """The pattern of a whole value, whatever the case; blanks around it do not matter."""
        return rf"(?i)^\s*(?:{self.pattern})\s*$"


def _has_letters_and_digits(value: str) -> bool:
    return not value.isdigit() and not value.isalpha()


def _is_phone(value: str) -> bool:
    return 7 <= sum(map(str.isdigit, value)) <= 15  # noqa: PLR2004 - E.164


def _is_card(value: str) -> bool:
    return luhn(value) and len(set(value)) > 1


_ROAD = (
    r"(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|rue|boulevard|bd|calle|via|viale|ulica|ul)"
)
_WEG = (
    r"(?:stra(?:ß|ss)e|str\.?|weg|platz|allee|gasse|straat|laan|plein|gatan|v[aä]gen|vej|gata|katu)"
)
_NINO = r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"

_LOCAL_PHONE = r"\(?0\d{1,5}\)?[ /-][\d ()/-]{5,15}"
_DIRECT = tuple(
    Format(
        role="direct",
        what=what,
        pattern=pattern,
        check=check,
        least=least,
        own=pattern == _LOCAL_PHONE,
    )
    for what, pattern, check, least in (
        ("e-mail addresses", r"[^@\s]+@[^@\s]+\.[A-Z]{2,}", None, 1),
        ("web addresses", r"(?:(?:https?|ftp)://|www\.)\S+", None, 1),
        ("internet (IP) addresses", r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|$)){4}", None, 1),
        (
            "internet (IP) addresses",
            r"[0-9A-F:]*::[0-9A-F:]*|(?:[0-9A-F]{1,4}:){7}[0-9A-F]+",
            None,
            1,
        ),
        ("network card (MAC) addresses", r"(?:[0-9A-F]{2}[:-]){5}[0-9A-F]{2}", None, 1),
        (
            "machine-made codes (UUID)",
            r"\{?[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}\}?",
            None,
            1,
        ),
        ("machine-made codes (hashes)", r"[0-9A-F]{32}|[0-9A-F]{40}|[0-9A-F]{64}", None, 5),
        ("bank accounts (IBAN)", r"[A-Z]{2}\d{2} ?[0-9A-Z]{4}(?: ?[0-9A-Z]{1,4}){2,7}", iban, 1),
        ("US social security numbers", r"[0-8]\d{2}-\d{2}-\d{4}", None, 1),
        ("UK National Insurance numbers", _NINO + r" ?\d{2} ?\d{2} ?\d{2} ?[A-D]", None, 1),
        ("NHS numbers", r"\d{3}[ -]?\d{3}[ -]?\d{4}", nhs, 5),
        ("German health insurance numbers", r"[A-Z]\d{9}", kvnr, 5),
        ("German pension insurance numbers", r"\d{2} ?\d{6} ?[A-Z] ?\d{3}", vsnr, 5),
        ("German tax numbers", r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}", steuer_id, 5),
        (
            "French social security numbers (NIR)",
            r"[1-478] ?\d{2} ?\d{2} ?\d[0-9AB] ?\d{3} ?\d{3} ?\d{2}",
            nir,
            1,
        ),
        ("Dutch citizen service numbers (BSN)", r"\d{8,9}|\d{4}\.\d{2}\.\d{3}", bsn, 5),
        ("Spanish identity numbers (DNI, NIE)", r"(?:\d{8}|[XYZ]-?\d{7})-?[A-Z]", dni, 5),
        (
            "Italian tax codes (codice fiscale)",
            r"[A-Z]{6}[0-9L-V]{2}[A-EHLMPR-T][0-9L-V]{2}[A-Z][0-9L-V]{3}[A-Z]",
            codice_fiscale,
            1,
        ),
        ("Swedish personal numbers", r"(?:19|20)?\d{6}[-+]?\d{4}", personnummer, 5),
        ("Danish CPR numbers", r"[0-3]\d[01]\d{3}-?\d{4}", cpr, 5),
        ("Norwegian national numbers", r"[0-7]\d{5} ?\d{5}", fodselsnummer, 5),
        ("Finnish personal codes", r"[0-3]\d[01]\d{3}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]", hetu, 1),
        ("Polish PESEL numbers", r"\d{11}", pesel, 5),
        ("Belgian national numbers", r"\d{2}\.?\d{2}\.?\d{2}-?\d{3}\.?\d{2}", rijksregister, 5),
        (
            "payment card numbers",
            r"[2-6]\d{3}[ -]?\d{4,6}[ -]?\d{4,5}(?:[ -]?\d{1,4}){0,2}",
            _is_card,
            5,
        ),
        ("vehicle numbers (VIN)", r"[A-HJ-NPR-Z0-9]{13}\d{4}", _has_letters_and_digits, 5),
        ("number plates", r"[A-ZÄÖÜ]{1,3}-[A-Z]{1,2} ?\d{1,4}[EH]?", None, 20),
        ("telephone numbers", r"(?:\+|00)[1-9][\d ()./-]{6,20}", _is_phone, 1),
        ("telephone numbers", _LOCAL_PHONE, _is_phone, 1),
        ("telephone numbers", r"(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}", None, 1),
        (
            "files with pictures, scans or recordings",
            r".+\.(?:jpe?g|png|gif|tiff?|bmp|heic|webp|dcm|nii|pdf|mp[34]|wav|avi|mov)(?:\.gz)?",
            None,
            1,
        ),
        ("street addresses", rf"\d+\s?[A-Z]?,? (?:.* )?{_ROAD}\b.*|{_ROAD}\b\.? .*\d.*", None, 1),
        ("street addresses", rf".*{_WEG} ?\d+.*", None, 1),
        (
            "people's names",
            r".*\b(?:mr|mrs|ms|miss|herr|frau|mme|mlle|sig|sra?)\b\.? \p{L}.*",
            None,
            5,
        ),
    )
)
FORMATS: tuple[Format, ...] = (
    *_DIRECT,
    Format(
        role="sensitive",
        what="codes of diagnoses (ICD-10)",
        pattern=r"[A-TV-Z]\d[0-9AB](?:\.[0-9A-Z]{1,4})?",
        least=3,
        mark=".",
    ),
    Format(role="quasi", what="coordinates", pattern=r"-?\d{1,2}\.\d+[,; ]+-?\d{1,3}\.\d+"),
    Format(role="quasi", what="postcodes", pattern=r"[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}", least=3),
    Format(role="quasi", what="postcodes", pattern=r"\d{4} [A-Z]{2}|\d{5}-\d{4}", least=10),
    Format(role="quasi", what="dates", pattern=r"\d{1,2}[./-]\d{1,2}[./-](?:\d{2}|\d{4})", least=3),
)


_CODE = r"^(?:[0-9A-Z]*[0-9]){2}[0-9A-Z]*$|^[0-9A-Z]{1,4}[ -][0-9A-Z]*[0-9][0-9A-Z]*$"
_SHORTEST, _LONGEST = 4, 10


def are_prefix_codes(values: pl.Series) -> bool:
    """Whether texts are codes of one length, such as postcodes: what they begin with is broader.

    Where such a variable has the kind "text", k-anonymity writes what the codes of a class begin
    with, `010**`.

    Examples
    --------
    >>> are_prefix_codes(pl.Series(["01067", "10115"]))
    True
    """
    texts = values.drop_nulls()
    if texts.dtype != pl.String or texts.is_empty():
        return False
    lengths = texts.str.len_chars()
    one_length = lengths.n_unique() == 1 and _SHORTEST <= lengths[0] <= _LONGEST
    return one_length and bool(texts.str.contains(_CODE).all())


def find_format(formats: Iterable[Format], profile: ValueProfile) -> Format | None:
    """The first format that nearly all values are written in."""
    values = profile.sample
    if values.is_empty():
        return None
    # A few misspellings do not make a national number an ordinary one.
    enough = _ENOUGH * len(values)
    # Where the sample is all of them, many variables were counted in one go
    counted = values is profile.values
    for known in formats:
        if counted and profile.count_matches(known.regex) < enough:
            continue
        if _fits(known, values, profile, enough):
            return known
    return None


def _fits(known: Format, values: pl.Series, profile: ValueProfile, enough: float) -> bool:
    if profile.distinct < known.least or (known.own and profile.distinct * 5 < profile.records):
        return False
    stripped = values.str.strip_chars()
    fits = stripped.filter(stripped.str.contains(known.regex))
    if len(fits) < enough:
        return False
    if known.mark and fits.str.contains(known.mark, literal=True).sum() * _MARKED < len(fits):
        return False
    if known.check is None:
        return True
    cleaned = (re.sub(r"[\s./-]", "", value).upper() for value in fits)
    return sum(map(known.check, cleaned)) >= enough
