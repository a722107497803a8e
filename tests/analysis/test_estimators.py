"""Which engine is taken, and what becomes of what it returns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.analysis import estimators as choice
from sfumato.analysis.problem import Posterior
from sfumato.errors import MeasureError

NOISE = {"x": sf.Gaussian(variance=0.3)}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 60))
    return pl.DataFrame({"y": x + y, "x": x + rng.normal(size=60) * 0.3**0.5})


@pytest.fixture(autouse=True)
def no_answer(monkeypatch) -> None:
    """Invented draws contradict the data, and would be replaced by resampled moments."""
    monkeypatch.setattr(choice, "_answer_mismatches", lambda _, posterior, *rest: (posterior, ()))


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
    monkeypatch.setattr(choice, "list_engines", lambda: {"fake": Fake(complete=False)})
    made = sf.fit("y ~ x", frame, noise=NOISE, draws=20)
    assert not made.complete
    assert any("interrupted" in one for one in made.warnings)
    nothing = Fake(draws=np.empty((4, 0, 3)))
    monkeypatch.setattr(choice, "list_engines", lambda: {"fake": nothing})
    with pytest.raises(MeasureError, match="before there was a draw"):
        sf.fit("y ~ x", frame, noise=NOISE)


def test_a_mixture_has_the_normal_fit_beside_it(monkeypatch, frame):
    monkeypatch.setattr(choice, "list_engines", lambda: {"fake": Fake(shape="mixture")})
    made = sf.fit("y ~ x", frame, noise=NOISE, draws=400)
    assert made.summary().loc["x", "normal"] == pytest.approx(5, abs=0.3)
    assert any("normal changes" in one for one in made.warnings)
    assert "normal" not in sf.fit("y ~ x", frame, noise=NOISE, shape="mixture").summary()


def test_an_interrupt_of_the_comparison_loses_nothing(monkeypatch, frame):
    class Stopped(Fake):
        def sample(self, problem, sampling, say) -> Posterior:
            if problem.shape == "normal":
                raise KeyboardInterrupt
            return super().sample(problem, sampling, say)

    class Cut(Fake):
        def sample(self, problem, sampling, say) -> Posterior:
            found = super().sample(problem, sampling, say)
            return replace(found, complete=problem.shape != "normal")

    for engine in (Stopped(shape="mixture"), Cut(shape="mixture")):
        monkeypatch.setattr(choice, "list_engines", lambda engine=engine: {"fake": engine})
        made = sf.fit("y ~ x", frame, noise=NOISE, draws=400)
        assert made.complete
        assert made.sampled is not None
        assert made.sampled.shape == (4, 400, 3)
        assert "normal" not in made.summary()
        assert any("comparison" in one and "interrupted" in one for one in made.notes)


def test_an_outcome_that_terms_tell_for_sure(frame):
    told = frame.with_columns(yes=(pl.col("y") > 0).cast(int), z=pl.col("y") * 2)
    # Sixty records: the weak prior bounds what the data do not, and that is told.
    found = sf.fit("yes ~ x + z", told, noise=NOISE, family="bernoulli", draws=400)
    assert any("hardly bound" in one and "separation" in one for one in found.warnings)
    # Many records drive the coefficient beyond what any prior would believe.
    many = pl.concat([told] * 6)
    with pytest.raises(MeasureError, match="(?i)leave one out"):
        sf.fit("yes ~ x + z", many, noise=NOISE, family="bernoulli")
    made = sf.fit("yes ~ x + z", told, noise=NOISE, family="bernoulli", method="simex")
    assert any("separation" in one and "Leave out the term" in one for one in made.warnings)


def test_an_outcome_that_true_values_may_tell_for_sure(monkeypatch, frame):
    told = frame.with_columns(yes=(pl.col("y") > 0).cast(int))

    def warned(spread: float) -> bool:
        rng = np.random.default_rng(3)
        draws = rng.normal(size=(4, 500, 3)) * [1, spread, 1]
        monkeypatch.setattr(choice, "list_engines", lambda: {"fake": Fake(draws=draws)})
        made = sf.fit("yes ~ x", told, noise=NOISE, family="bernoulli")
        return any("hardly bound" in one and "Leave the term out" in one for one in made.warnings)

    assert warned(40.0)
    assert not warned(1.0)


def test_true_values_that_tell_the_outcome_for_sure():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    told = pl.DataFrame({"yes": (x > 0).astype(int), "x": x + 0.5**0.5 * rng.normal(size=40)})
    noise = {"x": sf.Gaussian(variance=0.5)}
    made = sf.fit("yes ~ x", told, noise=noise, family="bernoulli", shape="normal", draws=400)
    said = " ".join(made.warnings)
    assert "hardly bound the coefficient" in said
    assert "Leave" in said
    # It does not run away: a slope of 80 was found where the plain fit has 0.8.
    table = made.summary()
    assert table.loc["x", "mean"] < 10
    assert table.loc["x", "low"] > 0


def test_engines_are_tried_in_order_and_missing_ones_are_told(monkeypatch, frame):
    assert list(choice.list_engines())[:1] == ["saturated"]
    engine = "sfumato.analysis.samplers.no_such_engine"
    monkeypatch.setattr(choice, "ENGINES", {"no_such_engine": engine})
    assert choice.list_engines() == {}
    with pytest.raises(MeasureError, match="no engine"):
        sf.fit("y ~ x", frame, noise=NOISE)


@pytest.mark.parametrize("formula", ["y ~ x + (1 | g)", "y ~ x + I(x ** 2)"])
def test_chains_that_do_not_agree_go_on(formula, monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=80)
    data = pl.DataFrame({"y": x + rng.normal(size=80), "x": x, "g": np.arange(80) % 16})
    noise = {"x": sf.Gaussian(variance=0.2)}
    monkeypatch.setattr("sfumato.analysis.fit._ENOUGH", 20)
    lengths = []

    def agree(draws: np.ndarray) -> bool:
        lengths.append(draws.shape[1])
        return bool(draws.shape[1] >= 60)

    monkeypatch.setattr("sfumato.analysis.problem.chains_agree", agree)
    longer = sf.fit(formula, data, noise=noise, draws=20, shape="normal")
    assert lengths == [20, 40, 60]
    assert longer.sampled is not None
    assert longer.sampled.shape[:2] == (4, 60)
    assert any("went on to 60" in note for note in longer.notes)
    # There is a limit; and the first draws are those of a shorter run.
    monkeypatch.setattr("sfumato.analysis.problem.chains_agree", lambda draws: False)
    limited = sf.fit(formula, data, noise=noise, draws=20, shape="normal")
    assert limited.sampled is not None
    assert limited.sampled.shape[1] == 80
    monkeypatch.setattr("sfumato.analysis.fit._ENOUGH", 1000)
    short = sf.fit(formula, data, noise=noise, draws=20, shape="normal")
    assert short.sampled is not None
    np.testing.assert_array_equal(short.sampled, limited.sampled[:, :20])
