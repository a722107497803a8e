"""Downward privacy and the number of protective peers: against brute force, and as targets."""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.errors import PlanError, TargetError
from sfumato.risk.protection.domains import count_unused_values
from sfumato.schema import Role

KNOWN, SECRETS = ["a", "b", "c"], ["s", "t"]
SCHEMA: dict[str, Any] = {
    **{name: sf.Column(role="quasi", kind="nominal") for name in KNOWN},
    "s": sf.Column(role="sensitive", kind="nominal", domain=("u", "v", "w", "x")),
    "t": sf.Column(role="sensitive", kind="nominal", domain=("no", "yes")),
}


def go_through(
    rows: list[dict[str, str]], p: float, q: Any, m: int, domains: str
) -> dict[str, Any]:
    """Definitions 3 and 4, record by record, combination by combination, value by value."""
    subsets = list(chain.from_iterable(combinations(KNOWN, n) for n in range(1, len(KNOWN) + 1)))
    worst = {"peers": 0.0, "downward": 0.0, "npp_below": 0.0}
    for secret in SECRETS:
        values = {row[secret] for row in rows}
        if domains == "declared":
            values |= set(SCHEMA[secret].domain)
        share = p / max(len(values) - 1, 1) if q == "from_p" else q
        breached = ruled_out = few = 0
        for row in rows:
            peers = [[r[secret] for r in rows if all(r[k] == row[k] for k in sub)]
                     for sub in subsets]  # fmt: skip
            others = [sum(value != row[secret] for value in some) for some in peers]
            breached += any(n / len(some) <= p for n, some in zip(others, peers, strict=True))
            few += min(others) < m
            false = values - {row[secret]}
            ruled_out += not false or any(
                some.count(value) / len(some) <= share for some in peers for value in false
            )
        found = {"peers": breached, "downward": ruled_out, "npp_below": few}
        worst = {name: max(worst[name], found[name] / len(rows)) for name in worst}
    return worst


tables = st.lists(
    st.fixed_dictionaries(
        {
            **{name: st.sampled_from(["1", "2"]) for name in KNOWN},
            "s": st.sampled_from(["u", "v", "w"]),
            "t": st.sampled_from(["no", "yes"]),
        }
    ),
    min_size=2,
    max_size=24,
)


@given(
    tables,
    st.sampled_from([0.0, 0.25, 0.5]),
    st.sampled_from([0.0, 0.2, "from_p"]),
    st.integers(1, 4),
    st.sampled_from(["observed", "declared"]),
)
@settings(max_examples=60, deadline=None)
def test_numbers_are_those_of_the_definitions(rows, p, q, m, domains):
    data = sf.Dataset(pl.DataFrame(rows), sf.Schema(SCHEMA))
    found = sf.risk.Peers(p=p, q=q, m=m, domains=domains).measure(data)
    expected = go_through(rows, p, q, m, domains)
    assert found.value == pytest.approx(expected["peers"])
    for name in ("downward", "npp_below"):
        assert found.details[name] == pytest.approx(expected[name]), name
        assert max(found.table[name]) == pytest.approx(expected[name]), name


PAPER = pl.DataFrame(
    {
        "age": ["45-54", "35-44", "35-44", "55-64", "45-54"],
        "gender": ["f", "m", "f", "m", "f"],
        "diagnosis": ["cancer", "cancer", "cancer", "arthrosis", "diabetes"],
    }
)
ROLES: dict[str, Role] = {"age": "quasi", "gender": "quasi", "diagnosis": "sensitive"}


def test_everybody_of_the_papers_table_has_something_ruled_out():
    found = sf.risk.Peers(m=2).measure(sf.Dataset(PAPER, sf.Schema(ROLES)))
    assert (found.details["downward"], found.details["npp_below"]) == (1.0, 1.0)
    who = sf.peering.who(sf.Dataset(PAPER, sf.Schema(ROLES)))
    assert who["poac"][0] == 0.5  # Alice: diabetes stays possible, arthrosis does not
    assert who["npp"][0] == 1


def test_two_values_have_the_same_upward_and_downward_privacy():
    rows = [{"a": a, "s": s} for a, s in zip("1112223334", "xyxxyyxxxy", strict=True)]
    data = sf.Dataset(pl.DataFrame(rows), sf.Schema({"a": "quasi", "s": "sensitive"}))
    for p in (0.0, 0.3, 0.5):
        found = sf.risk.Peers(p=p, q="from_p").measure(data)
        assert found.details["downward"] == found.value


def test_a_value_that_nobody_has_is_ruled_out_of_everybody():
    rows = [{"a": "1", "s": s} for s in "uvwuvwuvw"]
    schema = sf.Schema({"a": SCHEMA["a"], "s": SCHEMA["s"]})
    data = sf.Dataset(pl.DataFrame(rows), schema)
    assert sf.risk.Peers().measure(data).details["downward"] == 0
    assert sf.risk.Peers(domains="declared").measure(data).details["downward"] == 1
    assert count_unused_values(data, "s") == 1


@pytest.mark.parametrize(
    ("column", "values", "unseen"),
    [
        (sf.Column(kind="integer", domain=(0, 4), missing=(-9,)), [0, 1, -9, None], 3),
        (sf.Column(kind="integer"), [0, 1], -1),
        (sf.Column(kind="continuous", domain=(0, 4)), [0.5, 1.0], -1),
        (sf.Column(kind="ordinal", domain=(1, 2, 3)), [1, 3], 1),
        (sf.Column(kind="nominal", domain=("a", "b"), cells="generalised"), ["{a;b}"], -1),
    ],
)
def test_unseen_values_of_a_domain_are_counted(column, values, unseen):
    data = sf.Dataset(pl.DataFrame({"x": values}), sf.Schema({"x": column}))
    assert count_unused_values(data, "x") == unseen


def test_an_undeclared_domain_is_a_reason_and_no_number():
    data = sf.Dataset(PAPER, sf.Schema(ROLES))
    found = sf.risk.Peers(domains="declared").measure(data)
    assert math.isnan(found.details["downward"])
    assert "diagnosis" in found.details["downward_reason"]
    plan = sf.Plan(
        schema=ROLES,
        targets={"downward.max": 0.5},
        evaluate=[sf.risk.Peers(domains="declared")],
    )
    with pytest.raises(TargetError, match="declares no domain"):
        sf.protect(data, plan)


def test_targets_are_held_against_the_worst_reading():
    # "HIV" and "hiv" are one disease: nobody is protected by the other spelling.
    frame = pl.DataFrame({"a": ["1"] * 4, "s": ["HIV", "hiv", "HIV", "flu"]})
    data = sf.Dataset(frame, sf.Schema({"a": "quasi", "s": "sensitive"}))
    found = sf.risk.Peers(m=2).measure(data)
    assert found.details["npp_below"] == 0
    assert found.details["npp_below_at_worst"] == 0.75
    plan = sf.Plan(
        schema={"a": "quasi", "s": "sensitive"},
        targets={"npp_below.max": 0.5},
        evaluate=[sf.risk.Peers(m=2)],
    )
    with pytest.raises(TargetError, match="npp_below"):
        sf.protect(data, plan)
    with pytest.raises(PlanError, match="cannot be missed"):
        sf.Plan(targets={"downward.max": 1}).measures  # noqa: B018 - the property is what fails


def test_a_sample_is_judged_at_the_bad_end():
    draw = sf.datasets.cohort(400)
    data = sf.Dataset(draw, sf.datasets.cohort_schema())
    asked = {"known": ["sex", "region", "education"], "sensitive": ["smoking"]}
    all_of_them = sf.risk.Peers(**asked).measure(data)
    some = sf.risk.Peers(**asked, individuals=150).measure(data)
    for name in ("downward", "npp_below"):
        assert some.details[f"{name}_at_worst"] >= all_of_them.details[name]
        assert some.details[f"{name}_at_worst"] > some.details[name]


def test_persons_have_no_downward_privacy_told():
    frame = pl.DataFrame({"id": [1, 1, 2, 3], "a": list("1121"), "s": list("xyxy")})
    schema = sf.Schema({"id": "person", "a": "quasi", "s": "sensitive"})
    found = sf.risk.Peers(m=1).measure(sf.Dataset(frame, schema))
    assert math.isnan(found.details["downward"])
    assert 0 <= found.details["npp_below"] <= 1


def test_pictures_before_any_release(tmp_path):
    frame = pl.DataFrame(sf.datasets.cohort(200)).select("sex", "children", "region", "smoking")
    frame.write_csv(tmp_path / "people.csv")
    words = ("assess", "people.csv", "--measure", "peers", "--known", "sex,children,region")
    done = sfumato(*words, "--sensitive", "smoking", "--pictures", "album", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "album").iterdir()}
    assert names == {
        "peers.svg", "peers-gains.svg", "peers-alternatives.svg", "peers-by-width-of-children.svg"
    }  # fmt: skip
    assert (tmp_path / "album").stat().st_mode & 0o777 == 0o700
    again = sfumato(*words, "--pictures", "album", cwd=tmp_path)
    assert again.returncode == 2
