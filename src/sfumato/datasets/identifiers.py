"""Direct identifiers of people who do not exist: unique where a register's would be.

Uniqueness never rests on luck: a number is a permutation of the record's counter. Names, streets
and domains come from the lists below, the most common first.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.randomness import encrypt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.randomness import Draws, Key


ROUNDS = 6
MODULUS = 11
RESERVED = (1_000, 900)
"""Room for 900 000 numbers that begin with 999: kept for tests, never issued to a patient."""
UNISSUED = (9_900, 9_000)
"""Room for 89 100 000 more that begin with 900 to 998, which no health service issues today."""
LARGEST = 90_000_000
"""So many records can have a health number of their own."""


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FEMALE_NAMES = _split_words(
    """
    Susan Julie Karen Jacqueline Deborah Tracey Jane Helen Diane Sharon Tracy Angela Sarah Alison
    Caroline Amanda Sandra Linda Catherine Elizabeth Carol Joanne Wendy Janet Dawn Christine Nicola
    Lesley Fiona Jennifer Maria Paula Michelle Lorraine Beverley Anne Margaret Teresa Gillian Lynn
    Yvonne Maxine Heather Ruth Rachel Lynne Denise Samantha Annette Hilary Penelope Rosemary Siân
    Zoë Bridget Noreen Mhairi Bronwen Priya Sunita Nasreen Fatima Mei-Ling Ngozi Abena Marisol Ilse
    """
)
MALE_NAMES = _split_words(
    """
    David Paul Andrew Mark John Michael Stephen Ian Robert Richard Christopher Peter Simon Anthony
    Kevin Gary Steven Martin James Philip Alan Neil Nigel Timothy Colin Graham Jonathan Nicholas
    William Adrian Brian Stuart Keith Thomas Patrick Sean Carl Trevor Wayne Kenneth Darren Barry
    Gordon Raymond Duncan Roger Malcolm Clive Julian Gareth Rhys Hamish Ewan Aled André Seán Rajesh
    Anil Imran Tariq Wei Chidi Kwame Desmond Winston Matteo Jürgen Piotr
    """
)
SURNAMES = _split_words(
    """
    Smith Jones Taylor Brown Williams Wilson Johnson Davies Robinson Wright Thompson Evans Walker
    White Roberts Green Hall Wood Jackson Clarke Patel Thomas Lewis Harris Turner Hill Cooper Ward
    Morris Moore Clark Lee King Baker Harrison Morgan Allen James Scott Phillips Watson Davis Parker
    Price Bennett Young Griffiths Mitchell Kelly Cook Carter Richardson Bailey Collins Bell Shaw
    Murphy Miller Cox Richards Khan Marshall Anderson Simpson Ellis Adams Singh Begum Wilkinson
    Foster Chapman Powell Webb Rogers Gray Mason Ali Hunt Hussain Campbell Matthews Owen Palmer
    Holmes Mills Barnes Knight Lloyd Butler Russell Barker Fisher Stevens Jenkins Murray Dixon
    Harvey Graham Pearson Ahmed Fletcher Walsh Kaur Gibson Howard Andrews Stewart Elliott Reynolds
    Saunders Payne Fox Ford Pearce Day Brooks West Lawrence Cole Atkinson Bradley Spencer Gill
    Dawson Watts Burton O'Brien O'Connor McDonald MacLeod Ap-Rhys Fitzgerald Armitage Entwistle
    Featherstone Ramsbottom Okafor Mensah Adeyemi Chowdhury Rahman Chen Wong Nowak Kowalski Rossi
    Müller Dvořák Núñez Papadopoulos Al-Sayed Smith-Jones Carver-Bligh Quennell Thistlewood
    """
)
STREETS = _split_words(
    """
    Alder Ash Beech Birch Bramble Briar Brook Candle Cherry Chestnut Clover Copper Crane Damson Dove
    Elder Ember Fallow Fern Finch Foundry Foxglove Gable Garnet Gorse Harbour Harvest Hawthorn Hazel
    Heron Holly Juniper Kestrel Lantern Larch Laurel Lichen Linden Mallow Meadow Mill Mint Moss
    Nettle Orchard Otter Pear Pebble Plover Poplar Quarry Quince Rook Rowan Rush Saddler Sedge
    Sorrel Sparrow Spindle Starling Sycamore Tanner Teasel Thistle Thrush Tulip Walnut Weaver Willow
    """
)
STREET_KINDS: tuple[str, ...] = (
    *("Road", "Street", "Lane", "Avenue", "Close", "Drive", "Way", "Gardens", "Crescent"),
    *("Grove", "Place", "Court", "Terrace", "Rise", "Mews", "Wharf"),
)
MAIL_DOMAINS: tuple[str, ...] = ("example.com", "example.org", "example.net")
"""Reserved by RFC 2606: a letter to them reaches nobody."""


def make_health_numbers(counter: Integers, key: Key) -> pl.Series:
    """A ten-digit number with a valid check digit, different for every counter below `LARGEST`.

    After any eight digits at least nine of the ten possible ninth digits have a check digit, so
    (eight digits, which of the nine) counts valid numbers without a gap and without a repeat.
    """
    first = np.prod(RESERVED)
    reserved = permute_counter(np.minimum(counter, first - 1), RESERVED, key)
    unissued = permute_counter(np.maximum(counter - first, 0), UNISSUED, key)
    early = counter < first
    serial = np.where(early, reserved, unissued)
    eight = serial // 9 + np.where(early, 99_900_000, 90_000_000)
    ninth = _choose_ninth_digit(eight, serial % 9)
    nine = eight * 10 + ninth
    return pl.Series(nine * 10 + _check_digit(nine)).cast(pl.String)


def permute_counter(counter: Integers, room: tuple[int, int], key: Key) -> Integers:
    """A keyed permutation of 0 … room[0]·room[1] − 1 (an unbalanced Feistel network)."""
    high, low = np.divmod(counter, room[1])
    for turn in range(ROUNDS):
        # Adding a function of the one half to the other can be undone: so no two counters meet.
        if turn % 2 == 0:
            high = (high + _apply_round(turn, room[1], key)[low]) % room[0]
        else:
            low = (low + _apply_round(turn, room[0], key)[high]) % room[1]
    return np.asarray(high * room[1] + low, np.int64)


def _apply_round(turn: int, size: int, key: Key) -> Integers:
    blocks = np.zeros((size, 2), np.uint64)
    blocks[:, 0] = np.arange(size)
    words = encrypt(blocks, key.subkey("health number", turn, size))[:, 0]
    return (words >> np.uint64(32)).astype(np.int64)


def _sum_digits(nine: Integers) -> Integers:
    return sum(
        (nine // 10 ** (weight - 2) % 10 * weight for weight in range(2, 11)), np.zeros_like(nine)
    )


def _check_digit(nine: Integers) -> Integers:
    """Modulus 11; 10 stands for "this number is not used"."""
    return (MODULUS - _sum_digits(nine) % MODULUS) % MODULUS


def _choose_ninth_digit(eight: Integers, which: Integers) -> Integers:
    """The ninth digit number `which` (0 to 8) of those that have a check digit."""
    # The ninth digit weighs 2. The sum must not leave 1, so the digit is not (1 − sum)/2; and
    # one half is 6 modulo 11. A forbidden digit of 10 forbids nothing.
    forbidden = (1 - _sum_digits(eight * 10)) * 6 % MODULUS
    return which + (which >= forbidden)


def make_record_numbers(counter: Integers) -> pl.Series:
    """A running number, as a study gives one at recruitment."""
    return "C" + pl.Series(counter + 1).cast(pl.String).str.zfill(7)


def make_names(
    draws: Draws, counter: Integers, female: npt.NDArray[np.bool_]
) -> dict[str, pl.Series]:
    """A name, and an e-mail address that goes with it and occurs once."""
    rank = draws.uniform("first name")
    women = _choose_common(rank, len(FEMALE_NAMES))
    men = _choose_common(rank, len(MALE_NAMES)) + len(FEMALE_NAMES)
    first = np.where(female, women, men)
    last = _choose_common(draws.uniform("surname"), len(SURNAMES))
    forenames = FEMALE_NAMES + MALE_NAMES
    domain = _choose_common(draws.uniform("mail domain"), len(MAIL_DOMAINS))
    return {
        "name": _pick(forenames, first) + " " + _pick(SURNAMES, last),
        "email": _pick([f"{_fold(name)}." for name in forenames], first)
        + _pick([_fold(name) for name in SURNAMES], last)
        + pl.Series(counter + 1).cast(pl.String)
        + _pick([f"@{name}" for name in MAIL_DOMAINS], domain),
    }


def make_addresses(draws: Draws) -> pl.Series:
    """A house number and a made-up street."""
    house = 1 + _choose_common(draws.uniform("house"), 240)
    street = _choose_common(draws.uniform("street"), len(STREETS))
    kind = _choose_common(draws.uniform("street kind"), len(STREET_KINDS))
    words = _pick(STREETS, street) + " " + _pick(STREET_KINDS, kind)
    return pl.Series(house).cast(pl.String) + " " + words


def make_postcodes(draws: Draws, prefix: pl.Series) -> pl.Series:
    """Five digits that begin with the region's two, so that some begin with a zero."""
    local = _choose_common(draws.uniform("postcode"), 1000)
    return prefix + pl.Series(local).cast(pl.String).str.zfill(3)


def _choose_common(uniform: Floats, size: int) -> Integers:
    """Positions in a list whose first entries are the most common."""
    return (uniform**1.5 * size).astype(np.int64)


def _pick(words: Sequence[str], positions: Integers) -> pl.Series:
    return pl.Series(words, dtype=pl.String).gather(positions)


def _fold(name: str) -> str:
    """A name as it is spelt in an e-mail address: no accent, no apostrophe."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return ascii_name.replace("'", "").lower()


def require_size(kind: str, unit: str, count: object, seed: object) -> None:
    """Refuse a size, or a seed, of which no data can be made.

    Parameters
    ----------
    kind, unit : what is made, and of what: "cohort", "records".
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise DataError(
            f"The number of {unit} of a {kind} must be a whole number, 0 or more.",
            hint=f"for instance {kind}(1000).",
        )
    if count > LARGEST:
        raise DataError(
            f"A {kind} has at most {LARGEST} {unit}, as many as health numbers.",
            hint=f"make several {kind}s, each with a seed of its own.",
        )
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise DataError(
            f"The seed of a {kind} must be a whole number.",
            hint=f"for instance {kind}(1000, seed=1).",
        )
