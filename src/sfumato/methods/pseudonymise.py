"""Replace identifiers by keyed codes."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.data.identity import get_text_bytes
from sfumato.engines import Chance, Engine
from sfumato.engines.summaries import Count, Distinct, Summary
from sfumato.errors import MethodError
from sfumato.io.frames import to_canonical_text
from sfumato.method import Fitted, RowWise, require_draws
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema

# Crockford's alphabet: no letter that is easily misread as a digit or another letter.
_ALPHABET = b"0123456789abcdefghjkmnpqrstvwxyz"

_IDENTIFIERS = ("direct", "person", "cluster")


@parameters
class Pseudonymise(RowWise):
    """Replace each identifier by a code that only the holder of the key can make again.

    Question: how can records of one person stay linked without saying who it is?
    Assumes: the key stays secret. Equal values get equal codes, in every file and every variable
    treated under the same key and `namespace`, so links between tables are kept. The code is
    keyed BLAKE2b: without the key nobody can try out names or numbers and compare.

    A pseudonym still tells that two records belong together. Drop it where nobody needs the link.

    Parameters
    ----------
    variables : identifiers to replace.
    length : characters of a code: 5 bits each. With 12, two of ten million identifiers get the same
        code once in 23 000 times; that is found out and refused. Take more for more.
    namespace : what the identifiers belong to: those of different things (persons, hospitals) take
        different names here.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"id": ["A1", "B2", "A1"]}), sf.Schema({"id": "direct"}))
    >>> codes = Pseudonymise(variables=["id"]).apply(data, key=bytes(32)).frame["id"]
    >>> codes[0] == codes[2], codes[0] == codes[1], codes[0]
    (True, False, '...')
    """

    name = "pseudonymise"
    preserves = ("group composition",)
    draws_for = "values"
    runs_on = ("local", "streaming", "spark")
    examples = ({"variables": ["person_id"]}, {"variables": ["nhs_number", "email"]})
    keyed = True
    variables: Annotated[list[str], Field(min_length=1)]
    length: Annotated[int, Field(ge=8, le=64)] = 12
    namespace: str = "person"

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Codes for a batch of records."""
        del fitted
        draws = require_draws(draws, "Pseudonymisation")
        # One key for each namespace: codes of persons and of hospitals cannot be compared.
        secret = draws.key.subkey("pseudonymise", self.namespace)
        return pl.DataFrame(
            [encode_pseudonyms(values, secret, self.length) for values in batch.get_columns()]
        )

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """A pseudonym is no direct identifier. Every other role stays, so that it is measured."""
        del fitted
        columns = {
            name: Column(
                role="other" if schema[name].role == "direct" else schema[name].role,
                cells="pseudonyms" if schema[name].role in _IDENTIFIERS else None,
            )
            for name in self.variables
        }
        return schema.with_columns(columns).changed(self.variables, kind="text")

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Replace, then make sure that no two identifiers got the same code.

        An identifier that repeats still tells which records belong together: its pseudonym is
        a cluster, and is measured as one; that of a person says still whose the record is.
        """
        released = super().transform(data, fitted, engine=engine, chance=chance)
        wanted: dict[str, list[Summary]] = {name: [Count(), Distinct()] for name in self.variables}
        after = engine.aggregate(released, wanted)
        # Where every record has a code of its own, none is shared by accident.
        repeated = [name for name, codes in after.items() if codes["distinct"] < codes["count"]]
        before = engine.aggregate(data, {name: wanted[name] for name in repeated})
        for name in repeated:
            if before[name] != after[name]:
                raise MethodError(
                    f"Two identifiers in variable '{name}' got the same pseudonym.",
                    hint=f"make the codes longer than length = {self.length}.",
                )
        groups = [name for name in repeated if data.schema[name].role == "direct"]
        schema = released.schema.changed(groups, role="cluster")
        return replace(released, schema=schema)


def encode_pseudonyms(values: pl.Series, secret: bytes, length: int) -> pl.Series:
    """The code of each value; missing stays missing."""
    import pyarrow as pa

    from sfumato.kernels.digests import blake2b, spell_digests

    text = to_canonical_text(values)
    letters = spell_digests(blake2b(*get_text_bytes(text), key=secret, size=length), _ALPHABET)
    ends = np.arange(0, (len(text) + 1) * length, length, dtype=np.int64)[: len(text) + 1]
    array = pa.LargeStringArray.from_buffers(len(text), pa.py_buffer(ends), pa.py_buffer(letters))
    codes = pl.Series(values.name, array, dtype=pl.String)
    return codes.set(text.is_null(), None) if text.null_count() else codes
