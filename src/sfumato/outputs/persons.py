"""Whether one record is one person, as every rule here takes it."""

from __future__ import annotations

from sfumato.data import Dataset


def shared_by(data: Dataset) -> tuple[str, ...]:
    """Why several records of one person ask for a second look; empty where nobody has several.

    Direct identifiers tell persons apart; without one, nobody can know.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> visits = pl.DataFrame({"person": [1, 1, 2], "age": [30, 31, 40]})
    >>> len(shared_by(sf.Dataset(visits, sf.Schema({"person": "direct"}))))
    1
    """
    names = [name for name in data.columns if data.schema[name].role == "direct"]
    if not names:
        return ()
    known = data.batch(names).drop_nulls()
    if known.n_unique() == known.height:
        return ()
    said = (
        "Some persons have several records: thresholds count records, so a cell may hold fewer "
        "persons than it seems."
    )
    return (said,)
