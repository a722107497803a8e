"""Attacks on a sample, and draws until a target is met.

The claim: "Where only some records were looked at, a target is checked against the bad end of the
interval, so that a target of 0 takes all records. Which records are drawn follows from the data:
there is no seed to choose. `averaging` is checked against the upper end of its interval, since
another key draws other noise."
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import PlanError, TargetError
from sfumato.evidence import Evidence
from sfumato.plan.targets import judge, read_targets


def crowd(records: int = 3000, alone: int = 2) -> sf.Dataset:
    """All but a few stand among a hundred who are alike."""
    value = np.arange(records) // 100
    value[:alone] = 10_000 + np.arange(alone)
    frame = pl.DataFrame(
        {"place": value.astype(str), "ill": np.where(np.arange(records) % 2, "yes", "no")}
    )
    return sf.Dataset(frame, sf.Schema({"place": "quasi", "ill": "sensitive"}))


def verdict(measure: Any, evidence: Evidence, name: str, bound: float, end: str = "max") -> Any:
    targets = read_targets({f"{name}.{end}": bound})
    return judge(targets, {measure.name: measure}, {measure.name: evidence})[0]


@pytest.mark.parametrize("individuals", [10, 300, 999])
def test_a_sample_never_meets_a_target_of_zero(individuals):
    data = crowd(1000)
    secret = data.frame.with_columns(ill=pl.lit("no"))
    safe = sf.Dataset(secret.with_columns(place=pl.lit("x")), data.schema)
    sampled: list[tuple[Any, Evidence, str]] = []
    peers = sf.risk.Peers(individuals=individuals)
    sampled += [(peers, peers.measure(data), name) for name in ("peers", "breached_records")]
    linkage = sf.risk.MixedLinkage(individuals=individuals)
    sampled += [(linkage, linkage.measure(data, safe), name) for name in ("mixed_linkage",)]
    single = sf.risk.SinglingOut(individuals=individuals)
    found = single.measure(data, safe)
    sampled += [(single, found, name) for name in ("singling_out", "singling_out_excess")]
    sampled += [(single, found, "singled_out_records")]
    inference = sf.risk.AttributeInference(individuals=individuals)
    # Who is said to be ill has nothing to do with who is.
    found = inference.measure(data, safe.with_columns(pl.DataFrame({"ill": ["no", "yes"] * 500})))
    sampled += [(inference, found, name) for name in ("attribute_inference", "inference_gain")]
    for measure, evidence, name in sampled:
        assert evidence.sampled == (individuals, 1000)
        judged = verdict(measure, evidence, name, 0.0)
        assert not judged.met, name
        assert judged.number > 0
        assert f"{individuals:,} of 1,000 records" in judged.describe()
        assert "individuals = 1000" in judged.describe()


def test_the_few_who_stand_alone_are_not_missed_by_a_lucky_sample():
    data = crowd(2000, alone=2)
    measure = sf.risk.Peers(individuals=200)
    plan = sf.Plan(schema=data.schema, targets={"peers.max": 0.0}, evaluate=[measure])
    with pytest.raises(TargetError, match="bad end of its interval"):
        sf.protect(data, plan, key=bytes(32))


def test_all_records_meet_a_target_of_zero_where_it_is_true():
    data = crowd(500, alone=0)
    measure = sf.risk.Peers(individuals=500)
    found = measure.measure(data)
    assert found.sampled is None
    assert verdict(measure, found, "peers", 0.0).met


def test_a_number_of_a_sample_without_an_interval_keeps_no_promise():
    evidence = Evidence(
        name="uniqueness", subject="released", value=0.0, details={"k": 7}, sampled=(10, 100)
    )
    for name, bound, end in (("uniqueness", 0.5, "max"), ("k", 2, "min")):
        judged = verdict(sf.risk.Uniqueness(), evidence, name, bound, end)
        assert not judged.met
        assert "sample" in judged.reason


def test_both_ends_of_an_interval_count():
    measure = sf.risk.Uniqueness()
    evidence = Evidence(
        name="uniqueness", subject="released", value=0.5, interval=(0.3, 0.7), sampled=(10, 100)
    )
    assert verdict(measure, evidence, "uniqueness", 0.4, "min").number == 0.3
    assert verdict(measure, evidence, "uniqueness", 0.6).number == 0.7


def test_no_measure_has_a_seed():
    for measure in catalogue.measures().values():
        names = {parameter.name for parameter in catalogue.parameters_of(measure)}
        assert not names & {"seed", "random_state", "rng"}, measure.name
    with pytest.raises(PlanError, match="does not exist"):
        sf.Plan.parse("[evaluate.peers]\nindividuals = 10\nseed = 3\n")


def test_the_sample_is_that_of_the_data_and_not_of_their_order():
    data = crowd()
    order = np.random.default_rng(1).permutation(len(data))
    for measure in (sf.risk.Peers(individuals=40), sf.risk.Peers(individuals=41)):
        found, again = measure.measure(data), measure.measure(data.take(order))
        assert again.records.equals(found.records[order])
    fewer = data.take(np.arange(1, len(data)))
    drawn = [
        sf.risk.Peers(individuals=40).measure(one).records["ill"].is_not_nan()
        for one in (data, fewer)
    ]
    assert not drawn[0][1:].equals(drawn[1])


def test_another_key_is_no_second_chance():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"x": random.normal(size=400), "y": random.normal(size=400)})
    data = sf.Dataset(frame, sf.Schema({"x": "quasi", "y": "quasi"}))
    noise = sf.methods.Noise(variables=["x", "y"], variance_share=0.5)
    measure = sf.risk.Averaging(variables=["x", "y"], releases=[2])
    found = [
        measure.measure(data, noise.apply(data, key=bytes([at]) * 32)).details for at in range(20)
    ]
    shares = [one["averaging_by_noise"] for one in found]
    truth = sum(shares) / len(shares)
    # A target at what keys say on average would be met by every other key, were it for the value.
    assert sum(share <= truth for share in shares) > 5
    assert sum(one["averaging_at_worst"] <= truth for one in found) <= 2


def test_a_sampled_assignment_is_judged_at_its_bad_end():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"x": random.normal(size=1500)})
    schema = sf.Schema({"x": "quasi"})
    moved = frame.select(pl.Series("x", random.normal(size=1500)))
    measure = sf.risk.Linkage(individuals=200)
    found = measure.measure(sf.Dataset(frame, schema), sf.Dataset(moved, schema))
    judged = verdict(measure, found, "assigned", found.details["assigned"])
    assert not judged.met
    assert judged.number >= found.details["assigned_high"]


def test_chosen_quantiles_carry_no_target():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"x": random.normal(size=300)})
    data = sf.Dataset(frame, sf.Schema({"x": "quasi"}))
    measure = sf.risk.HIndex(at=[0.5])
    judged = verdict(measure, measure.measure(data, data), "h_index", 1.0)
    assert not judged.met
    assert "quantiles" in judged.reason


@pytest.mark.parametrize("name", list(catalogue.measures()))
def test_a_target_at_the_edge_of_its_reach_is_refused(name):
    """The claim: "A target that no data could miss is refused." """
    measure = catalogue.measure(name)
    example = measure(**measure.examples[0])
    for meaning in measure.numbers:
        number, low, high = meaning.name, meaning.lowest, meaning.highest
        ends = {"min": low, "max": high}
        for end, bound in ends.items():
            if not np.isfinite(bound):
                continue
            within = 1.5 if end == "min" else max(low, high - 1) + 0.1
            for other in ({}, {"max" if end == "min" else "min": within}):
                targets = {number: {end: bound, **other}}
                with pytest.raises(PlanError, match="cannot be missed"):
                    _ = sf.Plan(targets=targets, evaluate=[example]).measures


def test_one_value_is_no_diversity():
    with pytest.raises(PlanError, match=r"line 2: .*l at least 1.*cannot be missed"):
        sf.Plan.parse("[targets]\nl.min = 1")
