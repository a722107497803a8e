"""Keyed randomness that follows the record: the only source of chance in Sfumato.

Question: how can a release be random to an outsider and yet the same each time it is made?
Every draw is AES-256 of the record's id under a subkey of (purpose, step, column, draw). Same
key, same record, same step: same draw, whatever the order of rows or their partitioning. Who
sees draws, even many of them, learns nothing of the key or of the other draws: that would break
AES. A statistical generator (PCG64, SplitMix) gives its state away from a few known draws.

Assumes: the key stays in the custody record. Only its commitment goes public.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Words
from sfumato.kernels.memory import allocate

if TYPE_CHECKING:
    from sfumato.kernels.sampling.brownian import Places

KEY_BYTES = 32
SLICE = 1 << 16
"""Records worked on at a time: few enough to stay in the processor's cache."""
_PIECE = 1 << 14
"""Records whose blocks take so little memory that it is used again, not given back."""
_PATHS = 1 << 13
"""The same for paths, which are worked on in several passes."""
_ROOM = 15
"""Bytes beyond its blocks that `update_into` asks for."""
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_COMMITMENT = b"sfumato key commitment, version 1\0"


@dataclass(frozen=True)
class Key:
    """The custodian's secret: 32 bytes. Printing it shows only its commitment.

    Examples
    --------
    >>> import sfumato as sf
    >>> key = sf.Key(bytes(32))
    >>> key.text.encode() in repr(key).encode()
    False
    >>> sf.Key.of(key.text) == key
    True
    """

    secret: bytes = field(repr=False)
    file: Path | None = field(default=None, repr=False, compare=False)
    """Where it was read from: beside it lies the record of the release it belongs to."""

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise DataError(
                f"A key has {KEY_BYTES} bytes; this one has {len(self.secret)}.",
                hint="let Sfumato make one: sf.Key.new(), or leave the key out.",
            )

    @classmethod
    def new(cls) -> Key:
        """A fresh key from the operating system's entropy."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def of(cls, key: Key | bytes | str | Path | None) -> Key:
        """A key from what people have at hand: bytes, 64 hexadecimal digits, or a key file."""
        if key is None:
            return cls.new()
        if isinstance(key, Key):
            return key
        if isinstance(key, bytes):
            return cls(key)
        if isinstance(key, str) and _HEX.fullmatch(key):
            return cls(bytes.fromhex(key))
        return cls._read(Path(key))

    @classmethod
    def _read(cls, path: Path) -> Key:
        try:
            text = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            text = ""
        if not _HEX.fullmatch(text):
            # The path is not quoted: somebody may have passed a passphrase by mistake.
            raise DataError(
                "The key is neither 64 hexadecimal digits nor a readable key file.",
                hint="a passphrase is too easy to guess; use the file custody/key of a release.",
            )
        return cls(bytes.fromhex(text), path)

    @property
    def commitment(self) -> str:
        """What may be published: it binds the custodian to the key and does not reveal it."""
        return hashlib.sha256(_COMMITMENT + self.secret).hexdigest()

    @property
    def text(self) -> str:
        """The secret as 64 hexadecimal digits, for the custody record and nothing else."""
        return self.secret.hex()

    def subkey(self, *purpose: str | int) -> bytes:
        """An independent key for one purpose (HKDF, RFC 5869)."""
        info = b"".join(
            len(part).to_bytes(8, "big") + part for part in (str(p).encode() for p in purpose)
        )
        return HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=info).derive(self.secret)

    def __repr__(self) -> str:
        return f"Key(commitment={self.commitment[:12]}…)"


def encrypt(blocks: Words, subkey: bytes) -> Words:
    """AES-256 of each 128-bit block. Distinct blocks give distinct, random-looking blocks."""
    if not len(blocks):
        return np.empty((0, 2), np.uint64)
    source = np.ascontiguousarray(blocks, np.uint64)
    out = np.empty(source.nbytes + _ROOM, np.uint8)
    _encryptor(subkey).update_into(source.view(np.uint8).data.cast("B"), out.data)
    return out[: source.nbytes].view(np.uint64).reshape(source.shape)


def _encryptor(subkey: bytes) -> CipherContext:
    # ECB is what we want here: a pseudorandom function of counters, not a hidden message.
    return Cipher(algorithms.AES(subkey), modes.ECB()).encryptor()  # noqa: S305


class Records(Protocol):
    """Records that know their ids once they know the key."""

    def ids(self, key: Key) -> Words:
        """The keyed record ids."""


@dataclass(frozen=True)
class Draws:
    """The draws of one step for a batch of records, in the order of the records.

    `ids` are the keyed record ids, or records whose ids are only made when a draw is taken.
    """

    key: Key = field(repr=False)
    step: int
    ids: Words | Records = field(repr=False)

    def uniform(self, column: str, draw: int = 0) -> Floats:
        """Uniform in the open interval (0, 1), 53 bits, one a record."""
        # A block holds two draws: an even one and the odd one after it.
        subkey = self.key.subkey("draw", self.step, column, draw // 2)
        words = encrypt(self._ids, subkey)[:, draw % 2]
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def normal(self, column: str, draw: int = 0) -> Floats:
        """Standard normal by inverting its distribution: one uniform in, one draw out."""
        from scipy.special import ndtri

        values: Floats = ndtri(self.uniform(column, draw))
        return values

    def lasting(self, column: str, purpose: str, values: Floats) -> Floats:
        """Uniform draws that stay the same in every plan: they know no step, but the value.

        Two releases under one key must not draw anew for the same value, or somebody averages
        the two; nor repeat a draw for another purpose (such as a smaller noise) or another
        value, or somebody takes the difference of the two. So the same record, column, purpose
        and value have the same draw, and any other an independent one.

        Values count to the seven digits of a short float: one that went through another file
        format is the same value still.
        """
        cipher = _encryptor(self.key.subkey("lasting draw", fold_name(column), purpose))
        # One place to work in, slice after slice: fresh memory costs more than the cipher.
        blocks = np.empty((min(_PIECE, len(values)), 2), np.uint64)
        encrypted = np.empty(blocks.nbytes + _ROOM, np.uint8)
        out = np.empty(len(values))
        for start in range(0, len(values), _PIECE):
            some = out[start : start + _PIECE]
            block = blocks[: len(some)]
            # Ids are random blocks, so no two records meet by this.
            ids = self._ids[start : start + _PIECE]
            np.bitwise_xor(ids[:, 0], _shorten(values[start : start + _PIECE]), out=block[:, 0])
            block[:, 1] = ids[:, 1]
            cipher.update_into(block.view(np.uint8).data.cast("B"), encrypted.data)
            words = encrypted[: block.nbytes].view(np.uint64)[::2]
            # 52 bits and a half: exact, never 0, never 1, and even about the middle.
            np.right_shift(words, np.uint64(12), out=words)
            np.add(words, 0.5, out=some)
            some *= 2.0**-52
        return out

    def path(self, column: str, purpose: str, values: Floats, variances: Floats | float) -> Floats:
        """Normal noise of these variances: for each record its Brownian path, at its variance.

        The path belongs to record, column, purpose and value, as in `lasting`, and to no size:
        noise of a larger variance is that of a smaller one and more. So several sizes together
        tell no more of the value than the smallest (`kernels.sampling.brownian`).

        Parameters
        ----------
        purpose : what the values are, such as the scale they are on.
        variances : one for all records, or one for each. 0 is no noise.
        """
        from sfumato.kernels.sampling import brownian
        from sfumato.kernels.sampling.deviates import FEW

        cipher = _encryptor(self.key.subkey("noise path", fold_name(column), purpose))
        positions = brownian.locate(variances)
        out = np.empty(len(values))
        follow = _follow_path if len(values) <= FEW else _follow_path_compiled
        for start in range(0, len(values), _PATHS):
            some = slice(start, start + _PATHS)
            follow(cipher, self._ids[some], _shorten(values[some]), positions[some], out[some])
        return out

    @cached_property
    def _ids(self) -> Words:
        return self.ids if isinstance(self.ids, np.ndarray) else self.ids.ids(self.key)


def fold_name(column: str) -> str:
    """The name of a variable by which its draws are known: no case, no blanks around it."""
    return unicodedata.normalize("NFKC", column).strip().casefold()


def _shorten(values: Floats) -> npt.NDArray[np.uint32]:
    """Values to the seven digits of a short float, as 32 bits."""
    with np.errstate(over="ignore"):
        short = np.asarray(values).astype(np.float32)
    short += 0  # minus zero is zero
    short[np.isnan(short)] = np.nan  # all that is missing is the same
    return short.view(np.uint32)


def _follow_path(
    cipher: CipherContext,
    ids: Words,
    values: npt.NDArray[np.uint32],
    positions: Places,
    out: Floats,
) -> None:
    """The paths of a slice of records."""
    from sfumato.kernels.sampling import brownian

    def draw(number: int) -> Words:
        blocks = ids.copy()
        blocks[:, 0] ^= values
        blocks[:, 1] ^= brownian.tweak(positions, number)
        encrypted = np.empty(blocks.nbytes + _ROOM, np.uint8)
        cipher.update_into(blocks.view(np.uint8).data.cast("B"), encrypted.data)
        return encrypted[: blocks.nbytes].view(np.uint64).reshape(blocks.shape)

    low, high = brownian.begin(positions, draw(0), draw(1))
    for number in range(brownian.PASSES):
        low, high = brownian.halve(positions, number, draw(brownian.ENDS + number), low, high)
    out[:] = low


def _follow_path_compiled(
    cipher: CipherContext,
    ids: Words,
    values: npt.NDArray[np.uint32],
    positions: Places,
    out: Floats,
) -> None:
    """The same for many records, in the same places in memory pass after pass."""
    from sfumato.kernels.sampling import brownian, brownian_compiled

    records = len(out)
    blocks = np.empty((records, 2), np.int64)
    encrypted = [np.empty(blocks.nbytes + _ROOM, np.uint8) for _ in range(2)]
    low, high = np.empty(records), np.empty(records)
    signed, bits = ids.view(np.int64), values.astype(np.int64)

    def draw(number: int, into: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        tweaks = brownian.tweak(positions, number).view(np.int64)
        brownian_compiled.mix(signed, bits, tweaks, blocks)
        cipher.update_into(blocks.view(np.uint8).data.cast("B"), into.data)
        return into[: blocks.nbytes].view(np.int64).reshape(blocks.shape)

    first, second = draw(0, encrypted[0]), draw(1, encrypted[1])
    brownian_compiled.begin(positions.block, first, second, low, high)
    last = brownian.PASSES - 1
    for number in range(last):
        words = draw(brownian.ENDS + number, encrypted[0])
        brownian_compiled.halve(positions.cell, number, words, low, high)
    words = draw(brownian.ENDS + last, encrypted[0])
    brownian_compiled.finish(
        positions.cell, positions.beyond, positions.unit, words, low, high, out
    )


def keyed_order(ids: Words, key: Key, *purpose: str) -> npt.NDArray[np.intp]:
    """A random order of the records that depends on who they are, not on where they stood.

    Orders for different purposes have nothing to do with each other. Two releases under one key
    must have different ones: what stands on the same row of both would be the same person.
    """
    subkey = key.subkey("order", *purpose)
    # Sorting numbers is several times faster than sorting positions by them: the position rides
    # in the low bits. Where the high bits tie, the whole block decides.
    mask = np.uint64((1 << max(len(ids) - 1, 1).bit_length()) - 1)
    keys = allocate((len(ids),), np.uint64)
    for start in range(0, len(ids), SLICE):
        some = slice(start, start + SLICE)
        high = encrypt(ids[some], subkey)[:, 0] & ~mask
        keys[some] = high | np.arange(start, start + len(high), dtype=np.uint64)
    keys.sort()
    tied = np.flatnonzero((keys[1:] ^ keys[:-1]) <= mask)
    keys &= mask
    order = keys.view(np.intp)
    if len(tied):
        rows = np.unique(np.concatenate([tied, tied + 1]))
        blocks = encrypt(ids[order[rows]], subkey)
        order[rows] = order[rows][np.lexsort((blocks[:, 1], blocks[:, 0]))]
    return order
