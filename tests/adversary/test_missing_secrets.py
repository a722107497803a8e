"""promises.md: "A missing secret protects nobody: targets on l, t, attribute disclosure and peers
must hold whatever value stands behind the blank."

The attacker fills the blanks in. Every filling is tried, one by one; nothing here uses the code
that measures.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError, TargetError

SECRETS = ["hiv", "flu", "gout"]
tables = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([*SECRETS, None, None])), min_size=2, max_size=12
)


def build(rows, kind="nominal", known=("age",)):
    frame = pl.DataFrame(
        rows, schema=[*known, "ill"], orient="row", schema_overrides={"ill": _TYPES[kind]}
    )
    quasi = sf.Column(role="quasi", kind="integer")
    secret = sf.Column(role="sensitive", kind=kind)
    return sf.Dataset(frame, sf.Schema({**dict.fromkeys(known, quasi), "ill": secret}))


_TYPES = {"nominal": pl.String, "continuous": pl.Float64}


def judged(found, number):
    return found.details.get(f"{number}_at_worst", found.details.get(number, found.value))


def fill(secrets):
    """Every way in which the blanks of a class may be filled in, with one unseen value."""
    blanks = secrets.count(None)
    shown = [secret for secret in secrets if secret is not None]
    values = sorted({*shown, "unseen"})
    # Who has which value does not matter, only how many.
    for filling in itertools.combinations_with_replacement(values, blanks):
        yield [*shown, *filling]


def effective(secrets):
    shares = [count / len(secrets) for count in Counter(secrets).values()]
    return math.exp(-sum(share * math.log(share) for share in shares))


def recursive(secrets, c):
    counts = sorted(Counter(secrets).values(), reverse=True)
    return max((rank + 1 for rank in range(len(counts)) if counts[0] < c * sum(counts[rank:])),
               default=0)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(tables, st.sampled_from([0.7, 1.0, 3.0]))
def test_l_holds_under_every_filling(table, c):
    classes = defaultdict(list)
    for age, ill in table:
        classes[age].append(ill)
    fillings = [filling for secrets in classes.values() for filling in fill(secrets)]
    found = sf.risk.Diversity(c=c).measure(build(table))
    assert judged(found, "l") == min(len({*filling}) for filling in fillings)
    assert judged(found, "l_entropy") == pytest.approx(min(map(effective, fillings)))
    assert judged(found, "l_recursive") == min(recursive(filling, c) for filling in fillings)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_no_blank_hides_a_disclosure(table):
    if all(ill is None for _, ill in table):
        return
    classes = defaultdict(list)
    for age, ill in table:
        classes[age].append(ill)
    disclosed = sum(
        len(secrets)
        for secrets in classes.values()
        if any(secrets) and any(len({*filling}) == 1 for filling in fill(secrets))
    )
    found = sf.risk.AttributeDisclosure().measure(build(table))
    assert judged(found, "disclosed_records") == disclosed
    found = sf.risk.Peers().measure(build(table))
    silent = sum(len(secrets) for secrets in classes.values() if not any(secrets))
    # Who shares a blank with everybody was breached before, and still is.
    assert judged(found, "breached_records") == disclosed + silent


@settings(max_examples=25, deadline=None)
@given(tables)
def test_a_statement_may_hold_for_who_did_not_answer(table):
    if not any(ill == "hiv" for _, ill in table):
        return
    classes = defaultdict(list)
    for age, ill in table:
        classes[age].append(ill)
    caught = [secrets for secrets in classes.values() if {*secrets} in ({"hiv"}, {"hiv", None})]
    disclosed = sum(map(len, caught))
    blanks = sum(secrets.count(None) for secrets in caught)
    holding = sum(ill == "hiv" for _, ill in table) + blanks
    found = sf.risk.AttributeDisclosure(where='ill == "hiv"').measure(build(table))
    assert judged(found, "disclosed_records") == disclosed
    assert judged(found, "attribute_disclosure") == pytest.approx(disclosed / holding)


two_known = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from([*SECRETS, None])),
    min_size=2, max_size=10,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(two_known)
def test_no_blank_protects_whatever_is_known(table):
    """A record is breached if, for something known, all secrets shown agree, and its own does."""
    breached = 0
    for record in table:
        for known in ((0,), (1,), (0, 1)):
            peers = [other[2] for other in table if all(other[i] == record[i] for i in known)]
            if len({*peers} - {None}) <= 1 and (record[2] is not None or any(peers)):
                breached += 1
                break
        else:
            # A blank among nothing but blanks.
            breached += all(other[2] is None for other in table if other[:2] == record[:2])
    found = sf.risk.Peers().measure(build(table, known=("age", "town")))
    assert judged(found, "breached_records") == breached


def total_variation(here, everywhere):
    mine, all_ = Counter(here), Counter(everywhere)
    return sum(abs(mine[v] / len(here) - all_[v] / len(everywhere)) for v in all_) / 2


def earth_mover(here, everywhere):
    order = sorted({*everywhere})
    if len(order) == 1:
        return 0.0
    below = [
        abs(
            sum(value <= at for value in here) / len(here)
            - sum(value <= at for value in everywhere) / len(everywhere)
        )
        for at in order
    ]
    return sum(below) / (len(order) - 1)


numbers = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([1.0, 5.0, 20.0, 80.0, None, None])),
    min_size=2, max_size=14,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.one_of(tables.map(lambda table: (table, "nominal")),
                 numbers.map(lambda table: (table, "continuous"))))  # fmt: skip
def test_t_with_blanks_as_a_level_and_without_them(table_and_kind):
    table, kind = table_and_kind
    distance = total_variation if kind == "nominal" else earth_mover
    lowest = "" if kind == "nominal" else -1.0
    everybody = [lowest if ill is None else ill for _, ill in table]
    shown = [ill for _, ill in table if ill is not None]
    t = 0.0
    for age in {age for age, _ in table}:
        mine = [lowest if ill is None else ill for other, ill in table if other == age]
        t = max(t, distance(mine, everybody))
        told = [ill for other, ill in table if other == age and ill is not None]
        t = max(t, distance(told, shown) if told else 0.0)
    found = sf.risk.Closeness().measure(build(table, kind))
    assert judged(found, "t") == pytest.approx(t)
    assert judged(found, "closeness") == judged(found, "t")


def test_nine_and_a_blank():
    rows = [(30, "hiv")] * 9 + [(30, None)] + [(40, ill) for ill in ("flu", "hiv", "gout")]
    data = build(rows)
    found = sf.risk.Diversity().measure(data)
    assert (found.value, found.details["l_at_worst"]) == (2, 1)
    assert any("'ill'" in warning and "missing" in warning for warning in found.warnings)
    targets = (
        {"l.min": 2}, {"l_entropy.min": 1.2}, {"attribute_disclosure.max": 0.5},
        {"peers.max": 0.5}, {"disclosed_records.max": 0},
    )  # fmt: skip
    for target in targets:
        with pytest.raises(TargetError, match="MISSED"):
            sf.protect(data, sf.Plan(schema=data.schema, targets=target))


def test_blanks_alone_tell_nothing():
    rows = [(30, None)] * 4 + [(40, ill) for ill in ("flu", "hiv", "gout")]
    found = sf.risk.AttributeDisclosure().measure(build(rows))
    assert judged(found, "disclosed_records") == 0


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from(["distinct", "entropy", "recursive"]),
    st.sampled_from([0.02, 0.2, 0.6]), st.sampled_from(["nominal", "continuous"]),
)  # fmt: skip
def test_methods_reach_what_targets_are_held_against(seed, kind, blank, scale):
    chance = random.Random(seed)  # noqa: S311 - a test
    secrets = SECRETS if scale == "nominal" else [1.0, 1.00001, 20.0, 300.0]
    rows = [
        (
            chance.randrange(30), chance.randrange(4),
            None if chance.random() < blank else chance.choice(secrets),
        )
        for _ in range(60)
    ]  # fmt: skip
    data = build(rows, scale, known=("age", "town"))
    number = {"distinct": "l", "entropy": "l_entropy", "recursive": "l_recursive"}[kind]
    least = 1.5 if kind == "entropy" else 2
    try:
        released = sf.methods.LDiversity(k=3, l=least, kind=kind).apply(data)
    except MethodError as refused:
        assert "'ill'" in str(refused)
    else:
        assert judged(sf.risk.Diversity().measure(released), number) >= least * (1 - 1e-9)
    released = sf.methods.TCloseness(k=3, t=0.3).apply(data)
    assert judged(sf.risk.Closeness().measure(released), "t") <= 0.3 + 1e-9
    try:
        released = sf.methods.TCloseness(k=3, t=0.5, l=2).apply(data)
    except MethodError as refused:
        assert "'ill'" in str(refused)
    else:
        assert judged(sf.risk.Closeness().measure(released), "t") <= 0.5 + 1e-9
        assert judged(sf.risk.Diversity().measure(released), "l") >= 2


def test_spread_keeps_t_or_refuses():
    chance = random.Random(3)  # noqa: S311 - a test
    rows = [(i, float(chance.randrange(50)) if i % 12 else None) for i in range(60)]
    with pytest.raises(MethodError, match="'ill'.*missing"):
        sf.methods.TCloseness(k=3, t=0.2, clustering="spread").apply(build(rows, "continuous"))
