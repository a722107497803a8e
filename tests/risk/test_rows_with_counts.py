"""Rows that stand for several records give what the records themselves give, to the last bit."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError, SfumatoError
from sfumato.testing.partitioned import PartitionedEngine

AGES = st.sampled_from(["20", "21", "[20;29]", "[20;40]", "{20;35}", "*", "-9", None])
SECRETS = st.sampled_from(["1", "1.0", "2", "[1;2]", "{2;5}", "7", None])
ROWS = st.tuples(
    AGES, st.sampled_from(["f", "m", None]), SECRETS, st.sampled_from(["HIV", "hiv ", "flu", None]),
    st.sampled_from([1.5, 2.0, 9.25]), st.integers(0, 2),
)  # fmt: skip
SCHEMA = sf.Schema(
    {
        "age": sf.Column(role="quasi", kind="integer", cells="generalised", missing=("-9",)),
        "sex": "quasi",
        "dose": sf.Column(role="sensitive", kind="continuous", cells="generalised"),
        "ill": "sensitive",
        "weight": "weight",
        "household": "cluster",
    }
)
MEASURES: list[Any] = [
    sf.risk.Uniqueness(),
    sf.risk.Uniqueness(missing="wildcard"),
    sf.risk.Reidentification(),
    sf.risk.Reidentification(missing="wildcard", groups={"a": ["age"], "b": ["sex"]}),
    sf.risk.AttributeDisclosure(),
    sf.risk.AttributeDisclosure(where='ill == "hiv" or dose > 1'),
    sf.risk.Closeness(),
    sf.risk.Diversity(missing_confidential="none"),
    sf.risk.Peers(),
]


def _take(measure: Any, data: sf.Dataset, **options: Any) -> Any:
    try:
        return measure.measure(data, **options).plain()
    except SfumatoError as error:
        return str(error)


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=25), seed=st.integers(0, 99))
def test_measures_of_classes_are_the_same_by_counts(rows, seed):
    frame = pl.DataFrame(rows, schema=list(SCHEMA), orient="row", strict=False).with_columns(
        pl.col("age", "sex", "dose", "ill").cast(pl.String)
    )
    data = sf.Dataset(frame, SCHEMA)
    for measure in MEASURES:
        counted = _take(measure, data, engine=PartitionedEngine(seed))
        assert counted == _take(measure, data), measure


class FewCombinations(PartitionedEngine):
    """An engine that refuses to fetch many combinations."""

    def distinct(self, data, columns):
        found = super().distinct(data, columns)
        if len(found) > 100:
            raise MethodError("There are more than 100 different combinations.", hint="fewer.")
        return found


def test_what_is_too_much_for_one_number_leaves_the_others(cohort):
    known = cohort.with_schema({"income": "weight", "person_id": "cluster"})
    found = sf.risk.Uniqueness(known=["sex", "region"]).measure(known, engine=FewCombinations(1))
    here = sf.risk.Uniqueness(known=["sex", "region"]).measure(known)
    assert found.details["k"] == here.details["k"]
    assert "more than 100" in found.details["k_of_groups_reason"]
    assert "more than 100" in found.details["journalist_reason"]
    with pytest.raises(MethodError, match="more than 100"):
        sf.risk.Uniqueness(known=["income", "sex"]).measure(known, engine=FewCombinations(1))
