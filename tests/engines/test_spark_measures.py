"""On Spark every measure that claims to run there gives what it gives on one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.contract.test_seam import BEYOND, assert_measured_alike, assert_same, protect_some
from tests.engines.spark_frames import upload

import sfumato as sf
from sfumato import catalogue
from sfumato.engines import LocalEngine, engine_for
from sfumato.errors import MeasureError, MethodError

pytestmark = [
    pytest.mark.spark,
    # Py4J leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
QUICK = {
    "attribute_disclosure-2", "closeness-1", "coefficients-plain", "correlations-0",
    "displacement-1", "diversity-1", "information_loss-0", "k_of_items-0", "moments-1", "peers-0",
    "propensity-plain", "reidentification-1", "uniqueness-1",
}  # fmt: skip
"""One example of each measure; all others are for `make test-all`."""
ON_SPARK = [
    case if case.id in QUICK else pytest.param(*case.values, id=case.id, marks=pytest.mark.study)
    for case in BEYOND
    if "spark" in catalogue.measures()[case.values[0]].runs_on
]
Pair = tuple[sf.Dataset, sf.Dataset]


@pytest.fixture(scope="module")
def here() -> Pair:
    """The cohort and a release of it, in memory."""
    data = sf.Dataset(sf.datasets.cohort(400), sf.datasets.cohort_schema())
    return data, protect_some(data)


@pytest.fixture(scope="module")
def there(session: Any, here: Pair) -> Pair:
    """Both on Spark, in uneven parts and another order, with the original's ids beside them."""
    original = here[0]
    ids = original.identity.digests.view(np.int64)
    pair = []
    for number, data in enumerate(here):
        frame = pl.DataFrame(data.frame).with_columns(
            pl.Series(f"__sfumato_id_{i}", ids[:, i]) for i in (0, 1)
        )
        shuffled = frame[np.random.default_rng(number).permutation(frame.height)]
        pair.append(_carry_over(session, shuffled, data.schema, original.identity.basis))
    return pair[0], pair[1]


def _carry_over(session: Any, frame: pl.DataFrame, schema: sf.Schema, basis: str) -> sf.Dataset:
    from sfumato.engines.spark import ID_COLUMNS, SparkIdentity

    spark = upload(session, frame).repartition(3).cache()
    return sf.Dataset(spark.drop(*ID_COLUMNS), schema, given_identity=SparkIdentity(spark, basis))


def test_every_measure_that_claims_spark_is_among_the_quick_ones() -> None:
    assert {case.values[0] for case in ON_SPARK} == {name.rpartition("-")[0] for name in QUICK}


@pytest.mark.parametrize(("name", "example"), ON_SPARK)
def test_a_measure_gives_the_same_evidence(
    name: str, example: Any, here: Pair, there: Pair
) -> None:
    measure = catalogue.measures()[name](**example)
    assert_measured_alike(measure, here, there)


def test_individuals_are_drawn_in_memory_only(there: Pair) -> None:
    measure = sf.risk.Peers(known=["sex"], sensitive=["smoking"], individuals=9)
    with pytest.raises(MeasureError, match="in memory only"):
        measure.measure(there[0])


def test_a_sample_and_a_small_table_are_the_same(here: Pair, there: Pair) -> None:
    names = ["sex", "income", "birth_date"]
    samples = [engine_for(data.frame).sample(data, names, 17) for data in (here[0], there[0])]
    assert samples[0].equals(samples[1])
    table = pl.DataFrame({"sex": ["f", None], "letter": ["x", "y"]})
    attached = engine_for(there[0].frame).attach(there[0], table, ["sex"])
    wanted = LocalEngine().attach(here[0], table, ["sex"])
    counted = [
        engine_for(data.frame).distinct(data, ["sex", "letter"]) for data in (attached, wanted)
    ]
    rows = [
        {*zip(found.values.iter_rows(), found.counts.tolist(), strict=True)} for found in counted
    ]
    assert rows[0] == rows[1]


def test_removed_records_are_removed_there_too(here: Pair, there: Pair, session: Any) -> None:
    original, released = here
    few = released.take(np.arange(0, 400, 3))
    ids = few.identity.digests.view(np.int64)
    frame = pl.DataFrame(few.frame).with_columns(
        pl.Series(f"__sfumato_id_{i}", ids[:, i]) for i in (0, 1)
    )
    fewer = _carry_over(session, frame, few.schema, original.identity.basis)
    measure = sf.utility.InformationLoss()
    wanted = measure.measure(original, few)
    assert wanted.details["removed_records"] == 400 - len(few)
    assert_same(measure.measure(there[0], fewer).plain(), wanted.plain())


def test_what_cannot_run_says_so_before_any_work(there: Pair) -> None:
    with pytest.raises(MethodError, match="'linkage' does not run on Spark"):
        sf.risk.Linkage().measure(*there)
    strangers = sf.Dataset(there[1].frame.select("sex", "birth_date"))
    strangers = engine_for(strangers.frame).prepare(strangers)
    with pytest.raises(MeasureError, match="record by record"):
        sf.utility.InformationLoss().measure(there[0], strangers)
