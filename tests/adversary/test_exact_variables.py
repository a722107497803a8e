"""One variable left exact, or nearly, while others have noise.

The claim: "A variable that is left exact, or nearly, is not hidden by the noise of the others.
`stayed` and `interval` are those of the worst variable; `linkage`, `h_index`, `mixed_linkage` and
`averaging` are checked against an attacker who weighs variables by their noise, as a manifest tells
it."

The attackers here share no code with the measures: all pairs, in numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import TargetError
from sfumato.plan.targets import judge, read_targets

NAMES = ["income", "height", "weight"]
SPREADS = np.array([20_000.0, 10.0, 12.0])


def people(records: int = 600, seed: int = 1) -> Any:
    random = np.random.default_rng(seed)
    return random.normal(size=(records, 3)) * SPREADS + [40_000, 170, 75]


def dataset(values: Any) -> sf.Dataset:
    frame = pl.DataFrame(dict(zip(NAMES, values.T, strict=True)))
    return sf.Dataset(frame, sf.Schema(dict.fromkeys(NAMES, "quasi")))


def perturb(values: Any, shares: Any, draw: Any = None, seed: int = 2) -> Any:
    random = np.random.default_rng(seed)
    noise = random.normal(size=values.shape) if draw is None else draw(random, values.shape)
    return values + noise * SPREADS * np.asarray(shares)


def link_by_weights(original: Any, released: Any, sizes: Any, power: int = 2) -> float:
    """All pairs: the share of persons whose most likely released record is their own."""
    sizes = np.maximum(np.asarray(sizes, float), 1e-7)
    distance = sum(
        np.abs((released[None, :, at] - original[:, None, at]) / sizes[at]) ** power
        for at in range(original.shape[1])
    )
    return float((distance.argmin(axis=1) == np.arange(len(original))).mean())


def is_met(measure: Any, evidence: Any, **targets: float) -> bool:
    wanted = read_targets({name.replace("__", "."): bound for name, bound in targets.items()})
    return all(one.met for one in judge(wanted, {measure.name: measure}, {measure.name: evidence}))


def test_an_exact_variable_has_stayed_and_lies_inside():
    original = people()
    pair = dataset(original), dataset(perturb(original, [0, 0.5, 0.5]))
    moved = sf.utility.Displacement()
    found = moved.measure(*pair)
    assert found.details["stayed"] == 1.0
    assert found.details["stayed_in_all"] == 0.0  # what was reported before
    assert found.details["worst_variable"] == "income"
    assert not is_met(moved, found, stayed__max=0.5)
    inside = sf.risk.Interval()
    found = inside.measure(*pair)
    assert found.value == 1.0
    assert found.details["interval_in_all"] < 0.02
    assert not is_met(inside, found, interval__max=0.5)
    for measure in (sf.risk.Linkage(), sf.risk.HIndex(), sf.risk.MixedLinkage()):
        found = measure.measure(*pair)
        assert found.details[f"{measure.name}_at_worst"] == 1.0
        assert not is_met(measure, found, **{f"{measure.name}__max": 0.9})


def test_a_plan_that_forgets_a_variable_is_not_released():
    data = sf.Dataset(sf.datasets.cohort(400), sf.datasets.cohort_schema())
    numbers = ["height", "weight_kg", "systolic"]
    frame = data.frame.select(numbers).drop_nulls()
    schema = sf.Schema(dict.fromkeys(numbers, sf.Column(role="quasi", kind="continuous")))
    noise = sf.methods.Noise(variables=numbers[:2], variance_share=0.5)
    for target in ({"stayed.max": 0.2}, {"interval.max": 0.2}, {"linkage.max": 0.3}):
        plan = sf.Plan(schema=schema, steps=[noise], targets=target)
        with pytest.raises(TargetError, match="targets missed"):
            sf.protect(sf.Dataset(frame, schema), plan, key=bytes(32))


@pytest.mark.parametrize(("factor", "shift"), [(1.1, 5.0), (0.001, 0.0), (-1.0, 90_000.0)])
def test_another_unit_is_no_protection(factor, shift):
    original = people()
    released = perturb(original, [0, 0.5, 0.5])
    released[:, 0] = released[:, 0] * factor + shift
    pair = dataset(original), dataset(released)
    for measure, name in ((sf.utility.Displacement(), "stayed"), (sf.risk.Interval(), "interval")):
        found = measure.measure(*pair)
        assert found.details[f"{name}_rescaled"] == 1.0
        assert not is_met(measure, found, **{f"{name}__max": 0.5})
    found = sf.risk.Linkage().measure(*pair)
    assert found.details["linkage_at_worst"] > 0.99


@pytest.mark.parametrize("share", [0.0001, 0.001, 0.003])
@pytest.mark.parametrize("shape", ["gaussian", "laplace"])
def test_no_attacker_with_the_manifest_links_more_than_is_judged(share, shape):
    original = people()
    draw = None if shape == "gaussian" else lambda random, size: random.laplace(size=size) / 2**0.5
    released = perturb(original, [share, 0.5, 0.5], draw)
    sizes = SPREADS * [share, 0.5, 0.5]  # what our own manifest publishes
    # Squares are the likelihood of normal noise, absolute values that of Laplace's.
    truth = link_by_weights(original, released, sizes, 2 if shape == "gaussian" else 1)
    found = sf.risk.Linkage().measure(dataset(original), dataset(released))
    assert found.value < 0.3
    assert truth > 0.5
    assert found.details["linkage_at_worst"] >= truth - 0.02
    mixed = sf.risk.MixedLinkage().measure(dataset(original), dataset(released))
    assert mixed.details["mixed_linkage_at_worst"] >= truth - 0.05
    h = sf.risk.HIndex(p=1).measure(dataset(original), dataset(released))
    assert h.details["pr_h_0_at_worst"] >= truth - 0.02
    averaged = sf.risk.Averaging(variables=NAMES).measure(dataset(original), dataset(released))
    assert averaged.details["averaging_at_worst"] >= truth
    assert any("An attacker who weighs" in line for line in found.warnings)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-4, 0.01, 0.2, 1.0]), min_size=3, max_size=3),
    st.integers(0, 10_000),
)
def test_whatever_the_sizes_of_noise_the_judged_share_is_the_largest(shares, seed):
    original = people(150, seed)
    released = perturb(original, shares, seed=seed + 1)
    found = sf.risk.Linkage().measure(dataset(original), dataset(released))
    sizes = SPREADS * np.asarray(shares)
    attackers = [
        link_by_weights(original, released, sizes),
        link_by_weights(original, released, SPREADS),
        *(link_by_weights(original[:, [at]], released[:, [at]], SPREADS[[at]]) for at in range(3)),
    ]
    # The noise is estimated from the pair, so a person or two may differ by chance.
    assert found.details["linkage_at_worst"] >= max(attackers) - 4 / 150


def test_most_values_exact_and_few_swapped():
    # The variance is large, since a tenth was swapped; whoever matches exactly finds the others.
    original = people()
    released = perturb(original, [0, 0.5, 0.5])
    released[:60, 0] = np.roll(released[:60, 0], 1)
    found = sf.risk.Linkage().measure(dataset(original), dataset(released))
    assert found.details["linkage_at_worst"] > 0.88
    mixed = sf.risk.MixedLinkage().measure(dataset(original), dataset(released))
    assert mixed.details["mixed_linkage_at_worst"] > 0.88


def test_correlated_noise_is_no_hiding_place():
    # The same draw in two variables: their difference is exact.
    original = people()
    random = np.random.default_rng(3)
    common = random.normal(size=len(original))
    released = original + SPREADS * np.column_stack(
        [common, common + random.normal(size=len(original)) * 1e-3, random.normal(size=600)]
    )
    turned = [
        np.column_stack([side[:, 0] / SPREADS[0] - side[:, 1] / SPREADS[1]])
        for side in (original, released)
    ]
    truth = link_by_weights(turned[0], turned[1], [1.0])
    assert truth > 0.5
    found = sf.risk.Linkage().measure(dataset(original), dataset(released))
    assert found.value < 0.1
    assert found.details["linkage_at_worst"] > truth - 0.02


def test_a_misclassified_category_is_read_by_its_matrix():
    # Four variables are nearly always kept, two are shuffled: the matrix tells which is which.
    random = np.random.default_rng(5)
    frame = pl.DataFrame({f"c{at}": random.choice(list("abcd"), 300) for at in range(6)})
    columns = []
    for at, name in enumerate(frame.columns):
        values = frame[name].to_numpy().copy()
        changed = random.random(300) < (0.02 if at < 4 else 0.75)
        values[changed] = random.choice(list("abcd"), int(changed.sum()))
        columns.append(pl.Series(name, values))
    schema = sf.Schema(dict.fromkeys(frame.columns, "quasi"))
    found = sf.risk.MixedLinkage().measure(
        sf.Dataset(frame, schema), sf.Dataset(pl.DataFrame(columns), schema)
    )
    original, released = frame.to_numpy(), pl.DataFrame(columns).to_numpy()
    # By hand: the log likelihood of a match and of a change, for each variable.
    cost = np.zeros((300, 300))
    for at in range(6):
        share = 0.02 if at < 4 else 0.75
        same = original[:, None, at] == released[None, :, at]
        cost += np.where(same, -np.log(1 - share * 0.75), -np.log(share / 4))
    nearest = cost <= cost.min(axis=1, keepdims=True) + 1e-9
    truth = float((np.diag(nearest) / nearest.sum(axis=1)).mean())
    assert truth > 1.15 * found.value
    assert found.details["mixed_linkage_at_worst"] >= truth - 0.03


def test_calibrate_leaves_no_known_variable_without_noise():
    data = dataset(people(200))
    known: Any = {"variables": NAMES[1:], "known": NAMES, "mean_h": 2, "draws": 2}
    assert not sf.calibrate(data, **known).met
    assert sf.calibrate(data, **known, attacker="plain").met
