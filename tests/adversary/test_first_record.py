"""A file without names: its first record must not become the names of a release.

"No original values in messages." "Nothing is dropped … without telling you." (promises.md)
"""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import DataError

RECORDS = "\n".join(
    f"Smith{n},{('Leeds', 'York')[n % 2]},{('HIV', 'flu')[n % 3 == 0]}" for n in range(30)
)


def test_a_file_without_a_header_is_refused_and_quotes_nobody(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(RECORDS)
    with pytest.raises(DataError, match="first line") as caught:
        sf.read(path)
    assert not any(word in str(caught.value) for word in ("Smith", "Leeds", "HIV", "flu"))


def test_a_header_that_is_repeated_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"name,town,diagnosis\n{RECORDS}\nname,town,diagnosis\n{RECORDS}\n")
    with pytest.raises(DataError, match="repeated"):
        sf.read(path)


def test_one_name_among_its_values_is_chance(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,other\na,other\nb,none\n")
    assert len(sf.read(path)) == 2
