"""The data of paper 004, from the files to the numbers of its Table 2 and of each individual.

Age in Adult has 72 values, as the file does. "Unique" in the paper's table are distinct rows.
Figures 3 and 4 are held in `tests/test_peering.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.risk.protection.distinct_records import code_rows

ADULT = {
    "Gender": "gender", "Age": "age", "Race": "race", "Marital status": "marital_status",
    "Education": "education", "Native country": "native_country", "Work class": "workclass",
    "Salary": "salary", "Occupation": "occupation",
}  # fmt: skip
CERVICAL = {
    "Number of pregnancies": "pregnancies", "Smoking": "smoking", "Age": "age",
    "Biopsy result": "biopsy",
}  # fmt: skip
DIABETES = {
    "Gender": "gender", "Age": "age", "Race": "race",
    "Number of lab procedures": "lab_procedures", "Number of medications": "medications",
    "Change in medications": "change", "Diabetes medications": "diabetes_medication",
    "Readmitted": "readmitted",
}  # fmt: skip
COLUMNS = {"adult": ADULT, "cervical": CERVICAL, "diabetes": DIABETES}


@pytest.fixture(scope="module")
def reference(shared_data):
    def read(name: str) -> Any:
        path = shared_data.parent / "reference" / name
        if not path.exists():
            pytest.skip("the published numbers are not there")
        return json.loads(path.read_text())

    return read


@pytest.fixture(scope="module")
def records(shared_data):
    def read(name: str) -> sf.Dataset:
        columns = list(COLUMNS[name].values())
        frame = pl.read_csv(shared_data / f"{name}.csv").select(columns)
        return sf.Dataset(frame, sf.Schema(dict.fromkeys(columns, "quasi")))

    return read


@pytest.mark.parametrize("name", list(COLUMNS))
def test_table_2(name, records, reference):
    expected, data = reference("004_table2.json")[name], records(name)
    _, codes, counts, _ = code_rows(data, data.columns)
    assert len(data) == expected["n"]
    assert len(codes) == expected["n_distinct"]
    assert int((counts == 1).sum()) == expected["n_rows_unique"]
    domains = {label: data.column(column).n_unique() for label, column in COLUMNS[name].items()}
    assert domains == expected["domain"]


@pytest.fixture(scope="module")
def measured(records):
    known: dict[str, sf.Evidence] = {}

    def of(name: str) -> sf.Evidence:
        if name not in known:
            data = records(name)
            each = list(data.columns)
            known[name] = sf.risk.Peers(known=each, sensitive=each).measure(data)
        return known[name]

    return of


@pytest.mark.parametrize("name", ["adult", "cervical"])
def test_nobody_protects_so_many_whatever_is_known(name, measured, reference):
    found = measured(name)
    rows = {row["variable"]: row for row in found.table.rows(named=True)}
    for label, told in reference("004_min_ppp.json")[name]["per_variable"].items():
        column = COLUMNS[name][label]
        least = found.records[column]
        assert rows[column]["breached_records"] == told["n_min_ppp_zero"]
        # Zeros are exact: they are counts of nobody, divided.
        assert int((least == 0).sum()) == told["n_min_ppp_zero"]
        assert rows[column]["mean_least_ppp"] == pytest.approx(told["mean_min_ppp"], rel=1e-12)
        deciles = [least.quantile(at / 10, "linear") for at in range(11)]
        assert deciles == pytest.approx(told["deciles"], abs=1e-6)
    assert found.details["combinations"] == 2 ** (len(COLUMNS[name]) - 1) - 1


@pytest.mark.parametrize("name", ["adult", "cervical"])
def test_the_least_lies_below_what_all_that_is_known_leaves(name, records, measured, reference):
    """All variables known at once give the zeros; fewer give less than the rest have then."""
    from sfumato.kernels.lattice.peers import count_at_maximum
    from sfumato.risk.protection.distinct_records import read_threshold

    data, found = records(name), measured(name)
    _, codes, counts, of = code_rows(data, data.columns)
    table = reference("004_table2.json")[name]["ppp0_max_aux"]
    for label, told in reference("004_min_ppp.json")[name]["per_variable"].items():
        at = data.columns.index(COLUMNS[name][label])
        others = [one for one in range(len(data.columns)) if one != at]
        peers, same, _ = count_at_maximum(codes, counts, at, others, read_threshold(0.0, "q"))
        share = (peers - same) / peers
        records_without = int(counts[peers == same].sum())
        assert records_without == told["n_maxaux_zero"] == table[label][0]
        assert records_without / len(data) == pytest.approx(table[label][1], rel=1e-12)
        assert np.average(share, weights=counts) == pytest.approx(table[label][2], rel=1e-12)
        least = found.records[data.columns[at]].to_numpy()
        assert (least <= share[of] + 1e-15).all()
        below = int((least < share[of] - 1e-15).sum())
        assert below == told["n_min_strictly_below_maxaux"]
