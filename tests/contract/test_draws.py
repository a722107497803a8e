"""Every method that adds noise says by what its draws are known, so that fresh ones are noticed."""

from __future__ import annotations

import json

import pytest

import sfumato as sf
from sfumato import catalogue
from sfumato.engines import Chance, engine_for
from sfumato.randomness import Key

CASES = [
    pytest.param(name, example, id=f"{name}-{position}")
    for name, method in catalogue.methods().items()
    if method.keyed
    for position, example in enumerate(method.examples)
]
SIZES = ("variance", "variance_share", "sd_share", "noise_share")


@pytest.mark.parametrize(("name", "example"), CASES)
def test_noise_says_by_what_its_draws_are_known(name, example, cohort):
    method = catalogue.methods()[name](**example)
    engine = engine_for(cohort.frame)
    fitted = method.fit_keyed(cohort, engine, Chance(Key(bytes(32)), 0))
    described, paths = method.describes(fitted, cohort.schema), method.follows(fitted)
    # Weights are rounded, dates and places moved at random: no noise that is described, but draws.
    drawn = ("weights", "shift_dates", "displace_coordinates")
    assert set(paths) == set(described) or name in drawn
    json.dumps(paths)
    for path in paths.values():
        assert path["method"] == name
        # A size is no part of it: noise of another size is on the same path.
        assert not set(path) & {*SIZES} or path.get("distribution") == "laplace"


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_another_size_has_the_same_path(share, cohort):
    engine = engine_for(cohort.frame)
    paths = [
        sf.methods.Noise(variables=["systolic"], variance_share=size).follows(
            sf.methods.Noise(variables=["systolic"], variance_share=size).fit(cohort, engine)
        )
        for size in (share, 0.3)
    ]
    assert paths[0] == paths[1]
