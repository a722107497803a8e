"""Three invented hospitals of uneven size; one of them has too few records."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf

SIZES = {"North": 420, "South": 150, "East": 8}
ROLES: dict[str, Any] = {
    "id": "direct",
    "age": "quasi",
    "bmi": "sensitive",
    "sex": "quasi",
    "smoking": "quasi",
    "years": "sensitive",
    "died": "sensitive",
    "visits": "sensitive",
}
VARIABLES: dict[str, Any] = {
    "age": {"low": 20, "high": 90, "bins": 14},
    "bmi": {"low": 12, "high": 48, "bins": 12},
    "sex": {"levels": ["f", "m"]},
    "smoking": {"levels": ["never", "former", "current"]},
    "years": {"low": 0, "high": 10, "bins": 20},
    "died": {"levels": ["0", "1"]},
    "visits": {"low": 0, "high": 40, "bins": 10},
}


def simulate(records: int, seed: int) -> pl.DataFrame:
    """Invented records, with more digits than any figure shows."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(55, 13, records), 20.5, 89.5)
    sex = rng.choice(["f", "m"], records)
    smoking = rng.choice(["never", "former", "current"], records, p=[0.5, 0.3, 0.2])
    bmi = np.clip(18 + 0.1 * age + 1.5 * (sex == "m") + rng.normal(0, 3, records), 12.5, 47.5)
    risk = 1 / (1 + np.exp(-(-6 + 0.07 * age + 0.8 * (smoking == "current"))))
    died = (rng.random(records) < risk).astype(int)
    years = np.clip(rng.exponential(6, records), 0.05, 9.95)
    visits = rng.poisson(np.exp(0.2 + 0.02 * age), records).clip(0, 39)
    return pl.DataFrame(
        {"id": [f"P{seed}-{row}" for row in range(records)], "age": age, "bmi": bmi, "sex": sex,
         "smoking": smoking, "years": years, "died": died, "visits": visits}
    )  # fmt: skip


def make_sites() -> dict[str, sf.Dataset]:
    """The data of each site."""
    return {
        site: sf.Dataset(simulate(size, seed), sf.Schema(ROLES))
        for seed, (site, size) in enumerate(SIZES.items())
    }


def make_request(*results: dict[str, Any], **more: Any) -> sf.sites.SiteRequest:
    """A request for these results, about the variables that they name."""
    names = {word for result in results for word in _list_words(result)}
    names |= {part["variable"] for part in more.get("where", ())}
    variables = more.pop("variables", VARIABLES)
    return sf.sites.SiteRequest.parse(
        {
            "variables": {name: variables[name] for name in variables if name in names},
            "results": list(results),
            **more,
        }
    )


def _list_words(result: dict[str, Any]) -> list[str]:
    texts = [str(value) for key, value in result.items() if key not in ("kind", "name", "title")]
    return [word for text in texts for word in re.findall(r"\w+", text)]


def answer_all(
    request: sf.sites.SiteRequest, sites: dict[str, sf.Dataset] | None = None
) -> list[sf.sites.Bundle]:
    """The bundles of all sites, each with a new log."""
    return [
        sf.sites.answer(data, request, site=site, log=sf.outputs.Log())
        for site, data in (sites or make_sites()).items()
    ]


def unite(*names: str) -> Any:
    """The records of some sites in one frame, which no site would let happen."""
    return pl.concat([make_sites()[name].frame for name in names])
