"""Which engine is taken, and what becomes of what it returns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis import choice
from sfumato.analysis.problem import Posterior
from sfumato.errors import MeasureError

NOISE = {"x": sf.Gaussian(variance=0.3)}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 60))
    return pl.DataFrame({"y": x + y, "x": x + rng.normal(size=60) * 0.3**0.5})


class Fake:
    """An engine that says what it is told to say."""

    def __init__(self, **found) -> None:
        self.found = found

    def can(self, problem) -> bool:
        return True

    def sample(self, problem, sampling, say) -> Posterior:
        names = (*(one.name for one in problem.terms), "residual variance")
        shape = (sampling.chains, sampling.draws, len(names))
        draws = np.random.default_rng(sampling.seed).normal(size=shape)
        if problem.shape == "normal":
            draws = draws + 5
        return Posterior(**{"engine": "fake", "parameters": names, "draws": draws,
                            "independent": True, **self.found})  # fmt: skip


def test_an_interrupt_returns_what_is_there(monkeypatch, frame):
    monkeypatch.setattr(choice, "available", lambda: {"fake": Fake(complete=False)})
    made = sf.fit("y ~ x", frame, noise=NOISE, draws=20)
    assert not made.complete
    assert any("interrupted" in one for one in made.warnings)
    nothing = Fake(draws=np.empty((4, 0, 3)))
    monkeypatch.setattr(choice, "available", lambda: {"fake": nothing})
    with pytest.raises(MeasureError, match="before there was a draw"):
        sf.fit("y ~ x", frame, noise=NOISE)


def test_a_mixture_has_the_normal_fit_beside_it(monkeypatch, frame):
    monkeypatch.setattr(choice, "available", lambda: {"fake": Fake(shape="mixture")})
    made = sf.fit("y ~ x", frame, noise=NOISE, draws=400)
    assert made.summary().loc["x", "normal"] == pytest.approx(5, abs=0.3)
    assert any("normal changes" in one for one in made.warnings)
    assert "normal" not in sf.fit("y ~ x", frame, noise=NOISE, shape="mixture").summary()


def test_engines_are_tried_in_order_and_missing_ones_are_told(monkeypatch, frame):
    assert list(choice.available())[:1] == ["saturated"]
    monkeypatch.setattr(choice, "ENGINES", ("no_such_engine",))
    assert choice.available() == {}
    with pytest.raises(MeasureError, match="no engine"):
        sf.fit("y ~ x", frame, noise=NOISE)
