"""Closeness and diversity as constraints of clusters: bounds, several variables, refusals."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import HeavyLossWarning
from sfumato.kernels.clustering.clusters import bound_t, smallest_k

ILL = sf.Column(role="sensitive", kind="nominal")


def data(n=100, seed=1):
    random = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "age": random.integers(0, 86, n),
            "stay": random.integers(0, 30, n),
            "charge": random.permutation(n),
            "illness": random.choice(["flu", "cold", "ulcer"], n),
        }
    )
    schema = sf.Schema({"age": "quasi", "stay": "quasi", "charge": "sensitive", "illness": ILL})
    return sf.Dataset(frame, schema)


def classes(made):
    return made.frame.partition_by("age", "stay")


def distance(part, whole):
    """Ordered distance between all-different numbers 0..n-1 and a part of them."""
    n = len(whole)
    inside = np.zeros(n)
    inside[part] = 1 / len(part)
    return np.abs(np.cumsum(inside - 1 / n)).sum() / (n - 1)


def test_table_s9():
    n = 3_985_166
    assert [round(bound_t(n, k), 2) for k in (2, 3, 5, 10)] == [0.25, 0.17, 0.1, 0.05]
    assert [smallest_k(n, bound_t(n, k)) for k in range(2, 50)] == list(range(2, 50))


@pytest.mark.parametrize("n", [10, 23, 50, 59, 100, 101])
@pytest.mark.parametrize("k", [2, 3, 7, 10])
def test_the_bound_of_eq_6_holds_also_where_k_does_not_divide_n(n, k):
    one = data(n)
    step = sf.methods.TCloseness(k=k, confidential="charge", clustering="spread")
    for part in classes(step.apply(one)):
        assert len(part) >= k
        assert distance(part["charge"].to_numpy(), np.arange(n)) <= bound_t(n, k) + 1e-12


def test_several_confidential_variables_at_once():
    one = data(300)
    made = sf.methods.TCloseness(k=5, t=0.2).apply(one)
    shares = one.frame["illness"].value_counts().rows()
    for part in classes(made):
        assert distance(part["charge"].to_numpy(), np.arange(300)) <= 0.2 + 1e-12
        away = [abs((part["illness"] == name).mean() - count / 300) for name, count in shares]
        assert sum(away) / 2 <= 0.2 + 1e-12
    assert len(classes(made)) > 3  # a bound that blurs everything would hold as well


def test_bounds_by_variable():
    one = data(300)
    made = sf.methods.TCloseness(k=3, t={"charge": 0.25}, l={"illness": 3}).apply(one)
    for part in classes(made):
        assert distance(part["charge"].to_numpy(), np.arange(300)) <= 0.25 + 1e-12
        assert part["illness"].n_unique() == 3
    assert len(classes(made)) > 3
    with pytest.raises(sf.SfumatoError, match="all records together have 3"):
        sf.methods.TCloseness(t=0.5, l={"illness": 4}).apply(one)


def test_one_cluster_of_all_comes_with_a_warning():
    with pytest.warns(HeavyLossWarning, match="all 40 records became one cluster"):
        everyone = sf.methods.TCloseness(k=2, t=0).apply(data(40))
    assert len(classes(everyone)) == 1
    assert everyone.frame["charge"].equals(data(40).frame["charge"])


def test_missing_confidential_values_are_no_further_value():
    codes = sf.Column(role="sensitive", kind="nominal", missing=("DK", "NA"))
    frame = pl.DataFrame({"age": [1, 2, 3, 4], "illness": ["DK", "NA", "flu", None]})
    schema = sf.Schema({"age": "quasi", "illness": codes})
    with pytest.raises(sf.SfumatoError, match="all records together have 1, where what is missing"):
        sf.methods.LDiversity(k=2, l=2).apply(sf.Dataset(frame, schema))
    frame = pl.DataFrame({"age": [1, 2, 3, 4], "illness": ["DK", "NA", "flu", "gout"]})
    made = sf.methods.LDiversity(k=2, l=2).apply(sf.Dataset(frame, schema)).frame
    assert made["age"].to_list() == ["[0;5]", "[0;5]", "[0;5]", "[0;5]"]
    assert made["illness"].to_list() == frame["illness"].to_list()


def test_refusals():
    one = data(20)
    for step, what in (
        (sf.methods.TCloseness(clustering="spread"), "takes one confidential variable"),
        (
            sf.methods.TCloseness(clustering="spread", confidential="illness"),
            "'illness' will not do",
        ),
        (
            sf.methods.TCloseness(confidential="age", t=0.2),
            "Both known to the outsider and confidential: age",
        ),
        (
            sf.methods.TCloseness(confidential="ag", t=0.2),
            "'ag' is not in the data.*did you mean 'age'",
        ),
        (
            sf.methods.TCloseness(confidential="illness", distance="ordered", t=0.2),
            "values of variable 'illness' have no order",
        ),
        (
            sf.methods.TCloseness(confidential="illness", distance="hierarchical", t=0.2),
            "'illness' has no hierarchy",
        ),
        (sf.methods.LDiversity(l=4, confidential="illness"), "all records together have 3"),
        (sf.methods.TCloseness(k=21, t=0.2), "20 records, and k = 21"),
    ):
        with pytest.raises(sf.SfumatoError, match=what):
            step.apply(one)
    plain = one.with_schema({"charge": "other", "illness": "other"})
    with pytest.raises(sf.SfumatoError, match="No variable is declared as confidential"):
        sf.methods.TCloseness(t=0.2).apply(plain)
    with pytest.raises(sf.SfumatoError, match="t must be given"):
        sf.methods.TCloseness()
    with pytest.raises(sf.SfumatoError, match="takes one t and no l"):
        sf.methods.TCloseness(clustering="spread", l=2)
    with pytest.raises(sf.SfumatoError, match="A bound is named for 'stay'"):
        sf.methods.TCloseness(confidential="charge", t={"stay": 0.2}).apply(one)
    with pytest.raises(sf.SfumatoError, match="knows only the ordered distance"):
        sf.methods.TCloseness(clustering="spread", distance="equal")
    with pytest.raises(sf.SfumatoError, match="'t' parameter"):
        sf.methods.TCloseness(t=1.5)
