"""Tells free text, in which people may be named, from codes, names and categories."""

from __future__ import annotations

import polars as pl

SENTENCE = (
    r"(?:\p{L}\S*\s+(?:[^\p{L}\s]\S*\s+)*){3}\p{L}"
    r"|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Khmer}\p{Lao}]{12,}"
)
"""At least four words, since a name, a street or a short answer has fewer; some scripts have no
spaces."""
_RARE = 3
"""So many records may share a sentence that somebody has written for each of them."""
_ENOUGH = 0.1
"""The share of records with such a sentence from which on a variable is free text."""
_SET = r"^\{(.*)\}$"


def is_free_text(values: pl.Series) -> bool:
    """Whether many records have a sentence of their own.

    Categories in many words are none: many records share each of them.

    Examples
    --------
    >>> is_free_text(pl.Series(["Came in with his wife Anna.", "None", "Fell off the roof again."]))
    True
    >>> is_free_text(pl.Series(["Strongly disagrees with the statement"] * 9))
    False
    """
    counted = values.drop_nulls().value_counts(name="\ufdd0count")
    return are_sentences(counted[values.name], counted["\ufdd0count"])


def are_sentences(values: pl.Series, counts: pl.Series) -> bool:
    """The same, of the distinct values and how many records have each."""
    long = values.str.contains(SENTENCE)
    rare = long & (counts <= _RARE)
    records, rare_records = int(counts.sum()), int(counts.filter(rare).sum())
    # Of a short list of long categories few records have each, where there are few records.
    several = int(rare.sum()) * 2 > int(counts.filter(long).sum())
    return several and rare_records > 1 and rare_records >= _ENOUGH * records


def split_sets(values: pl.Series) -> pl.Series:
    """The members of different sets such as `{a;b}`, and all other values as they are.

    Examples
    --------
    >>> split_sets(pl.Series(["{a;b}", "{a;b}", "c"])).to_list()
    ['a', 'b', 'c']
    """
    values = values.drop_nulls()
    are_sets = values.str.contains(_SET)
    # All records of a class have the same set.
    sets = values.filter(are_sets).unique(maintain_order=True)
    members = sets.str.replace(_SET, "${1}").str.split(";").explode()
    return pl.concat([members, values.filter(~are_sets)])
