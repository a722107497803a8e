"""Nothing that Sfumato gives out changes unawares: all of it against `digests.json`.

See `digest_table.py` for what is in the table, and for how to rewrite it:
`python -m tests.golden.digest_table --write`.
"""

from __future__ import annotations

import pytest
from tests.golden import digest_table


@pytest.mark.parametrize("group", [one for one in digest_table.GROUPS if one != "shared plans"])
def test_nothing_changed(group: str) -> None:
    found = digest_table.differences(group, digest_table.computed(group), digest_table.kept())
    assert not found, "\n" + "\n".join(found)


def test_no_first_plan_of_public_data_changed(shared_data: object) -> None:
    test_nothing_changed("shared plans")


def test_every_entry_belongs_to_a_group() -> None:
    assert {one.partition(":")[0] for one in digest_table.kept()} == set(digest_table.GROUPS)
