"""One of each picture, from small invented numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf
from sfumato.figures import custodian as pictures
from sfumato.figures.custodian import Picture

HOSTILE = (
    '<script>alert("x")</script>',
    "$x_1$ and $\\frac{a}{b}$",
    "שלום עולם גיל",
    "emoji 😀 年龄 name",
    "a" * 90,
    "a long name of a variable with several words in it, indeed",
    "_hidden",
    "\x00\x1b\u202egnp.exe & 'quotes' \"more\"\n]]>--><b>",
    "",
)
PLAIN = ("age", "height", "weight", "glucose", "systolic", "sex[T.male]", "smoking", "bmi", "hdl")


def records(count: int = 60) -> tuple[Any, Any, Any]:
    """Original, centroids and released values of invented people."""
    chance = np.random.default_rng(5)
    original = chance.normal([50, 170], [12, 9], (count, 2))
    released = original + chance.normal(0, 1.5, (count, 2))
    return original, (released - original.mean(axis=0)) / original.std(axis=0, ddof=1), released


def evidence(name: str, table: Any = None, **more: Any) -> sf.Evidence:
    return sf.Evidence(name=name, subject="pair", value=0.1, table=table, **more)


def coefficients(names: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for at, name in enumerate(names):
        middle, width = (-1) ** at * (at + 0.37) / 3, 0.2 + at / 10
        rows.append(
            {
                "term": name,
                "original": middle,
                "original_se": width / 2,
                "original_low": middle - width,
                "original_high": middle + width,
                "released": middle + 0.1,
                "released_low": middle + 0.08 - width,
                "released_high": middle + 0.12 + width,
                "coefficients": 0.1,
                "overlap": 0.9,
            }
        )
    return rows


def forest(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    return pictures.forest(evidence("coefficients", coefficients(names)), **more)


def propensity(**more: Any) -> Picture:
    row = {"low": 0.46, "q1": 0.49, "median": 0.501, "q3": 0.52, "high": 0.537}
    table = pl.DataFrame([{"data": "original", **row}, {"data": "released", **row}])
    return pictures.propensity(evidence("propensity", table), **more)


def risk_curve(**more: Any) -> Picture:
    rows = [
        {"w1": w1, "w2": w2, "risk1": 4 * w1, "risk2": 2 * w1 - w2 / 10}
        for w1 in (0.01, 0.02, 0.05)
        for w2 in (0.05, 0.1)
    ]
    if more.get("public"):
        more = {"records": 1000, **more}
    return pictures.risk_curve(pl.DataFrame(rows), **more)


def sweep(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    chance = np.random.default_rng(6)
    columns = [name or "(empty)" for name in names]
    rows = [
        {"k": k, "repeat": at, **{name: chance.gamma(3, k) for name in columns}}
        for k in (3, 5, 10)
        for at in range(4)
    ]
    panels = {columns[5]: columns[:4], columns[0]: columns[4:6], columns[3]: columns[6:]}
    return pictures.sweep(rows, "k", panels, **more)


def displacement(**more: Any) -> Picture:
    moved = pl.DataFrame({"distance": np.random.default_rng(7).lognormal(-2, 1.5, 400)})
    found = evidence("displacement", records=moved, details={"within": 0.01})
    return pictures.displacement(found, **more)


def moments(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    rows = [
        {"statistic": "correlation", "variable": name, "original": at / 9, "released": at / 10}
        for at, name in enumerate(names)
    ]
    return pictures.moments(evidence("moments", rows), **more)


def steps(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    original, centroids, released = records()
    strata = [names[at % len(names)] for at in range(len(original))]
    return pictures.steps_from(original, centroids, released, strata, (names[0], names[5]), **more)


def at_risk(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    original, _, released = records()
    risk = np.arange(len(original)) % 7 == 0
    narrow = np.arange(len(original)) % 21 == 0
    return pictures.at_risk_from(original, released, risk, narrow, (names[3], names[4]), **more)


def known_groups(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    some = [name or "(empty)" for name in names[:3]]
    chosen = [one for size in (1, 2, 3) for one in combinations(some, size)]
    rows, lower = (
        [{"known": " + ".join(one), "reidentification": (len(one) ** 2 / 17) ** power}
         for one in chosen]
        for power in (1, 3)
    )  # fmt: skip
    found = [evidence("reidentification", table, details={"records": 1000})
             for table in (pl.DataFrame(lower), pl.DataFrame(rows))]  # fmt: skip
    return pictures.known_groups(*found, names=(names[4], names[5]), **more)


def masked_values(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    rows = [
        {"variable": names[4], "value": name, "records": 90 - 9 * at, "masked_records": 9 * at // 2}
        for at, name in enumerate(names)
    ]
    return pictures.masked_values(rows, **more)


def compared(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    rows = [
        {"plan": name, **{f"{other} {at}": (at + place) / 30 for at, other in enumerate(names)}}
        for place, name in enumerate(names[3:7])
    ]
    columns = list(rows[0])[1:]
    panels = {columns[0]: columns[:2], columns[4]: columns[2:3], columns[5]: columns[4:7]}
    return pictures.compared(rows, panels, **more)


def surface(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    a, b = names[4], names[5]
    rows = [
        {a: at, b: name, "risk": at * place / 700}
        for at in (2, 4, 8, 16, 1000)
        for place, name in enumerate(names[:6])
    ]
    return pictures.surface(rows, a, b, "risk", **more)


def relief(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    return surface(names, relief=True, **more)


def shares(names: Sequence[str], people: int = 90) -> pl.DataFrame:
    """Shares of protective peers of invented people, some of them none."""
    chance = np.random.default_rng(8)
    return pl.DataFrame(
        {
            name or "(empty)": np.round(np.clip(chance.normal(at / 10, 0.3, people), 0, 1), 2)
            for at, name in enumerate(names)
        }
    )


def protection(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    return pictures.protection(shares(names), **more)


def gains(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    from sfumato.risk.protection import Gains

    frame = shares(names, 900)
    found = Gains(sensitive=names[5], p=0.1, table=None, peers=frame, alternatives=frame)
    return pictures.gains(found, **more)


def widths(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    rows = [
        {"categories": count, "protected": (at + 1) / (count + 3), "best": at == 1}
        for count in (1, 2, 3, 5, 8, 40)
        for at in (0, 1)
    ]
    return pictures.widths(rows, variable=names[4], **more)


def landing(**more: Any) -> Picture:
    places = (0, 1, 2, 3, 5, 10, 20)
    rows = [
        {"from_quantile": start, "to_quantile": end, "targets": 60}
        | {f"up_to_{x}": 1 - (0.6 - start / 4) / (x + 1) for x in places}
        for start, end in ((0.0, 1.0), *((at / 10, (at + 1) / 10) for at in range(10)))
    ]
    return pictures.landing(rows, **more)


def calibrated(**more: Any) -> Picture:
    chance = np.random.default_rng(3)
    frame = pl.DataFrame(chance.normal(size=(60, 2)), schema=["age", "height"])
    data = sf.Dataset(frame, sf.Schema(dict.fromkeys(frame.columns, "quasi")))
    return pictures.calibrated(sf.calibrate(data, mean_h=2, draws=2), **more)


def balance(names: Sequence[str] = PLAIN, **more: Any) -> Picture:
    risk, use, label = names[0], names[1], names[5]
    rows = [{label: x / 10, risk: 0.9 / x, use: 1 - x / 20} for x in (1, 2, 4, 8)]
    return pictures.balance(rows, risk=risk, use=use, label=label, **more)


OF_MANY: dict[str, Callable[..., Picture]] = {
    "forest": forest,
    "propensity": propensity,
    "risk_curve": risk_curve,
    "sweep": sweep,
    "displacement": displacement,
    "moments": moments,
    "known_groups": known_groups,
    "masked_values": masked_values,
    "compared": compared,
    "surface": surface,
    "relief": relief,
    "widths": widths,
    "landing": landing,
    "calibrated": calibrated,
    "balance": balance,
}
OF_RECORDS: dict[str, Callable[..., Picture]] = {
    "steps": steps,
    "at_risk": at_risk,
    "protection": protection,
    "gains": gains,
}
ALL = {**OF_MANY, **OF_RECORDS}
WITH_NAMES = {
    name: made
    for name, made in ALL.items()
    if name not in ("propensity", "risk_curve", "displacement", "landing", "calibrated")
}


@cache
def drawn(name: str, *, public: bool = False, hostile: bool = False) -> Picture:
    """Drawn once for all tests."""
    more = {"public": True} if public else {}
    return ALL[name](HOSTILE, **more) if hostile else ALL[name](**more)


@cache
def inlined(name: str, *, public: bool = False, hostile: bool = False) -> str:
    """Its SVG for a page."""
    return drawn(name, public=public, hostile=hostile).svg()
