"""The ways that are tried when nobody says which: they follow from the schema and the targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sfumato.cells.pairs import numbers_of
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import SfumatoError
from sfumato.method import Method
from sfumato.methods.correlated_noise import CorrelatedNoise
from sfumato.methods.deterministic import Deterministic
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.methods.l_diversity import LDiversity
from sfumato.methods.noise import Noise
from sfumato.methods.suppress import Suppress
from sfumato.methods.t_closeness import TCloseness
from sfumato.tuning.asked import Needs
from sfumato.tuning.calibrate import calibrate
from sfumato.tuning.coarser import LEVELS, coarser
from sfumato.tuning.ladders import Axis
from sfumato.tuning.space import Family, one, together

_CROWDS = (2, 3, 5, 10, 20, 40, 80)
_CENTRES = (3, 5, 10, 20, 40)
_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_MIXED = (0.003, 0.01, 0.03, 0.1, 0.3, 0.8)
_DIVERSE = (2, 3, 4, 6, 8)
_CLOSE = (0.6, 0.45, 0.3, 0.2, 0.15, 0.1, 0.05)
_ROOM = 30
"""Records that the smallest stratum must have, so that neighbours are near."""
_DRAWS = 4
_GRADED = {"k": True, "intervals": True, "variance_share": False, "noise_share": False}
_STEPS = {"k": _CROWDS, "variance_share": _SHARES, "noise_share": _MIXED,
          "intervals": (64, 32, 16, 8, 4, 2, 1)}  # fmt: skip


def planned(steps: tuple[Method, ...]) -> Family:
    """The plan's own protection: first as it stands, then weaker and stronger, where one step is.

    Examples
    --------
    >>> planned((KAnonymity(k=7),)).axes[0].values
    (2, 3, 5, 7, 10, 20, 40, 80)
    """
    named = "as planned"
    graded = [(at, name) for at, step in enumerate(steps) if (name := _strength(step))]
    if len(steps) != 1 or not graded:
        return one(named, steps, own=True)
    step, name = steps[0], graded[0][1]
    value = getattr(step, name)
    falling = name == "intervals"
    rungs = tuple(sorted({*_STEPS[name], value}, reverse=falling))
    if name == "k" and step.name == "deterministic":
        rungs = tuple(k for k in rungs if k == value or k >= _CENTRES[0])
    return Family(
        named,
        (Axis(name, rungs, _GRADED[name]),),
        lambda value: (replace(step, **{name: value}),),  # type: ignore[type-var]
        start=(float(rungs.index(value)),),
        own=True,
    )


def _strength(step: Method) -> str:
    """The parameter that makes a step stronger, where it is one number."""
    for name in _GRADED:
        if isinstance(getattr(step, name, None), (int, float)):
            return name
    return ""


def families(prepared: Dataset, wanted: Needs) -> list[Family]:
    """Ways to make crowds, ways to move numbers, and both where both are asked for."""
    unclear = not wanted.known and not wanted.far
    known = prepared.schema.having("quasi") if unclear else wanted.known
    far = numbers_of(prepared) if unclear else wanted.far
    told = replace(wanted, known=known, far=far)
    crowds = list(_crowds(prepared, told)) if known else []
    moved = tuple(name for name in far if name not in known) if known and not unclear else far
    moves = list(_moves(prepared, moved, wanted)) if moved else []
    if not crowds or not moves or unclear:
        return [*crowds, *moves]
    # Numbers first: afterwards what they are stratified by would be sets.
    return [together(move, crowd) for crowd in _joined(prepared, told, crowds) for move in moves]


def _joined(data: Dataset, wanted: Needs, crowds: list[Family]) -> list[Family]:
    """The ways to make crowds that are tried together with ways to move numbers."""
    if not wanted.only_k or wanted.k is None:
        return [family for family in crowds if family.name in _TOGETHER]
    # Where k is all that is asked for, it is kept by construction: there is nothing to search.
    names, k = list(wanted.known), wanted.k
    made = [one(f"k_anonymity({k})", crowds[0].make(k))]
    if any(family.name == "coarsen, suppress" for family in crowds):
        steps = (*coarser(data, names, _MIDDLE), Suppress(variables=names, k=k))
        made.append(one(f"coarsen, suppress({k})", steps))
    return made


_TOGETHER = ("k_anonymity", "l_diversity", "t_closeness")
_MIDDLE = 3


def _crowds(data: Dataset, wanted: Needs) -> Iterator[Family]:
    """Ways to make records alike in what is known."""
    names, least = list(wanted.known), wanted.k
    # Fewer than a target asks for cannot do.
    fewest = least or _CROWDS[0]
    ks = tuple(k for k in _CROWDS if fewest < k <= len(data) // 2)
    ks = (fewest, *ks)
    axis = Axis("k", ks, whole=True)
    # What is compared as a number must stay one.
    output: Any = {name: "mean" for name in names if name in wanted.far} or "range"
    yield Family(
        "k_anonymity", (axis,), lambda k: (KAnonymity(variables=names, k=k, output=output),)
    )
    measurable = not any(data.column(name).null_count() for name in names)
    if measurable and all(_ordered(data, name) for name in names):
        yield Family(
            "k_anonymity, mdav",
            (axis,),
            lambda k: (KAnonymity(variables=names, k=k, clustering="mdav", output=output),),
        )
    if measurable and output == "range":
        yield Family(
            "k_anonymity, origin",
            (axis,),
            lambda k: (KAnonymity(variables=names, k=k, clustering="origin"),),
        )
    yield from _secret(data, names, wanted, axis, measurable=measurable)
    if output == "range":
        yield from _coarser(data, names, axis, least)


def _secret(
    data: Dataset, names: list[str], wanted: Needs, axis: Axis, *, measurable: bool
) -> Iterator[Family]:
    """Ways to keep confidential values apart within a class, when a target is about them."""
    secret, k = list(wanted.secret), wanted.k or 2
    if not secret:
        return
    fewest = min(data.column(name).n_unique() for name in secret)
    if diverse := tuple(one for one in _DIVERSE if one <= fewest):
        yield Family(
            "l_diversity",
            (Axis("l", diverse),),
            lambda l: (LDiversity(variables=names, confidential=secret, k=k, l=l),),  # noqa: E741
        )
    yield Family(
        "t_closeness",
        (Axis("t", _CLOSE, whole=False),),
        lambda t: (TCloseness(variables=names, confidential=secret, k=k, t=t),),
    )
    if measurable and len(secret) == 1 and data.column(secret[0]).dtype.is_numeric():
        yield Family(
            "t_closeness, spread",
            (axis,),
            lambda k: (TCloseness(variables=names, confidential=secret, k=k, clustering="spread"),),
        )


def _coarser(data: Dataset, names: list[str], axis: Axis, least: int | None) -> Iterator[Family]:
    """Fixed groups for all records, with single cells blanked where that is not enough."""
    level = Axis("level", tuple(range(1, LEVELS + 1)))
    yield Family("coarsen", (level,), lambda at: coarser(data, names, at))
    if least is None:
        yield Family("suppress", (axis,), lambda k: (Suppress(variables=names, k=k),))
    k = least or axis.values[min(1, axis.top)]
    yield Family(
        "coarsen, suppress",
        (Axis("level", tuple(range(LEVELS + 1))),),
        lambda at: (*coarser(data, names, at), Suppress(variables=names, k=k)),
        every=True,
    )


def _ordered(data: Dataset, name: str) -> bool:
    kind = data.schema[name].kind
    return kind in ("continuous", "integer", "date") or (
        kind == "ordinal" and data.schema[name].levels is not None
    )


def _moves(data: Dataset, names: tuple[str, ...], wanted: Needs) -> Iterator[Family]:
    """Ways to move numbers away from their original."""
    listed = list(names)
    gaps = any(data.column(name).null_count() for name in names)
    base = Deterministic(
        variables=listed,
        strata=_strata(data, listed),
        missing="median" if gaps else "refuse",
        whole=True,
    )
    ks = tuple(k for k in _CENTRES if k <= max(_CENTRES[0], len(data) // 4))
    yield Family("deterministic", (Axis("k", ks, whole=True),), lambda k: (replace(base, k=k),))
    measured = [name for name in listed if data.schema[name].kind in ("continuous", "integer")]
    if len(measured) == len(listed):
        yield _noise(data, listed, wanted)
        yield Family(
            "correlated_noise",
            (Axis("noise_share", _MIXED, whole=False),),
            lambda share: (CorrelatedNoise(variables=listed, noise_share=share, partly=True),),
        )
    if not gaps:
        yield Family(
            "microaggregation",
            (Axis("k", ks, whole=True),),
            lambda k: (KAnonymity(variables=listed, k=k, clustering="mdav", output="mean"),),
        )


def _noise(data: Dataset, names: list[str], wanted: Needs) -> Family:
    """Noise; where a target is about h, the size that calibration finds is tried first."""
    shares: tuple[float, ...] = _SHARES
    start = None
    if (found := _calibrated(data, names, wanted)) is not None:
        shares = tuple(sorted({*_SHARES, found}))
        start = (float(shares.index(found)),)
    return Family(
        "noise",
        (Axis("variance_share", shares, whole=False),),
        lambda share: (Noise(variables=names, variance_share=share),),
        start=start,
    )


def _calibrated(data: Dataset, names: list[str], wanted: Needs) -> float | None:
    if wanted.h is None:
        return None
    target, measure = wanted.h
    asked: dict[str, Any] = {"below": getattr(measure, "p", 3), "at_most": target.most}
    if target.least is not None:
        asked = {"mean_h": target.least}
    known = getattr(measure, "variables", None)
    try:
        found = calibrate(data, names, known=known, draws=_DRAWS, precision=0.1, **asked)
    except SfumatoError:
        return None  # the ladder does without
    return found.share if found.met else None


def _strata(data: Dataset, names: list[str]) -> list[str]:
    """Categories that stay, as long as every combination holds enough records."""
    strata: list[str] = []
    kinds = data.schema.of_kind("nominal", "ordinal")
    # What may be known comes first: people are compared with those who look like them.
    for name in (*data.schema.having("quasi"), *data.schema.having("sensitive")):
        if name in names or name not in kinds or data.column(name).null_count():
            continue
        smallest = engine_for(data.frame).distinct(data, [*strata, name]).counts.min()
        if smallest >= _ROOM:
            strata.append(name)
    return strata
