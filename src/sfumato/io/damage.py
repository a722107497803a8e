"""Files that a library cannot read: said in our words, since the library's may quote cells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.errors import DataError, SfumatoError


@contextmanager
def refuse_damage(error: DataError) -> Iterator[None]:
    """Turn whatever a library raises into this error.

    Damaged and hostile files make libraries raise almost anything: errors of arithmetic, of memory,
    of types, and those of Rust, which are no `Exception` at all.
    """
    try:
        yield
    except (SfumatoError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # noqa: BLE001 - see above
        raise error from None
