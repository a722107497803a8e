"""`sfumato fit` as a stranger uses it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import app as command_line

NOISE = '[x]\ndistribution = "gaussian"\nvariance = 0.25\n'
RECORDS = 200


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plain file and a description of its noise."""
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, RECORDS))
    frame = pl.DataFrame(
        {
            "y": 1 + x + rng.normal(size=RECORDS),
            "x": x + 0.5 * rng.normal(size=RECORDS),
            "<b>z</b>": z,
            "[red]x[/red]": x,
            "yes": (x > 0).astype(int),
            "noise": z,
            "word": ["secret"] * RECORDS,
        }
    )
    frame.write_csv(tmp_path / "data.csv")
    (tmp_path / "noise.toml").write_text(NOISE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The whole command line, with its exit codes."""

    def running(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["sfumato", *arguments])
        monkeypatch.setattr("signal.signal", lambda *_: None)
        with pytest.raises(SystemExit) as left:
            command_line.run()
        told = capsys.readouterr()
        return Done(int(left.value.code or 0), told.out, told.err)

    return running


def fit(run: Run, formula: str, *more: str, noise: str = "noise.toml") -> Done:
    return run("fit", formula, "data.csv", "--noise", noise, *more)


def test_help_names_every_choice(run):
    done = run("fit", "--help")
    assert done.code == 0
    for word in ("--noise", "--method", "--family", "--json", "posterior", "poisson", "Example"):
        assert word in done.out


def test_data_to_stdout_words_to_stderr(folder, run):
    done = fit(run, "y ~ x", "--draws", "50")
    assert done.code == 0
    for word in ("y ~ x (gaussian, 200 records)", "mean", "naive", "residual variance", "rhat"):
        assert word in done.out
    assert "Warning: Fewer than 400 effective draws" in done.err
    # Independent draws always agree; few of them have an R-hat of chance.
    assert "do not agree" not in done.err
    quiet = fit(run, "y ~ x", "--method", "moments", "--quiet")
    assert quiet.err == ""
    assert "naive" in quiet.out


def test_json_is_the_same_fit_and_nothing_else(folder, run):
    done = fit(run, "y ~ x", "--draws", "50", "--json", "--level", "0.8")
    assert done.code == 0
    assert done.err == ""
    told = json.loads(done.out, parse_constant=pytest.fail)
    noise = {"x": sf.Gaussian(variance=0.25)}
    made = sf.fit("y ~ x", folder / "data.csv", noise=noise, draws=50, level=0.8)
    assert [row["term"] for row in told["summary"]] == ["Intercept", "x", "residual variance"]
    for row, ours in zip(told["summary"], made.rows, strict=True):
        assert row == {key: ours[key] for key in row}
    assert told["engine"] == "saturated"
    assert told["complete"] is True
    assert told["warnings"]
    assert {row["term"] for row in told["efficiency"]} >= {"x"}


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_formulas_are_compared(folder, run):
    pytest.importorskip("arviz")
    more = ("--compare", "y ~ noise", "--draws", "30", "--chains", "2")
    done = fit(run, "y ~ x", *more, "--json")
    told = json.loads(done.out, parse_constant=pytest.fail)
    assert [row["model"] for row in told["comparison"]] == ["y ~ x", "y ~ noise"]
    assert told["comparison"][1]["elpd_diff"] > 0
    shown = fit(run, "y ~ x", *more, "--offset", "noise")
    assert "Prediction of records left out" in shown.out
    assert "offset(noise)" in shown.out


def test_what_is_not_known_is_null_in_json(folder, run):
    told = json.loads(fit(run, "y ~ x", "--method", "moments", "--json").out)
    assert told["engine"] is None
    assert {row["rhat"] for row in told["summary"]} == {None}


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~", "no term after ~"),
        ("~ x", "no outcome before ~"),
        ("1 ~ x", "no outcome before ~"),
        ("y", "needs one ~"),
        ("y ~ x +", "ends with '+'"),
        ("y ~ 0", "has no term"),
        ("y ~ x + y", "also stands among the terms"),
        ("y ~ lag(x)", "did you mean 'log'"),
        ("y ~ x | word", "outside a part with groups"),
        ("y ~ x + (1 | word", "outside a part with groups"),
        ("y ~ nonsense", "variable 'nonsense' is not in the data"),
        ("y ~ C(x)", "x"),
        ("y ~ word", "one level at most"),
        ("word ~ x", "word"),
        ("y ~ __import__('os')", "cannot be read"),
    ],
)
def test_odd_formulas_are_refused_with_a_reason(folder, run, formula, said):
    done = fit(run, formula)
    assert done.code == 2, done.err
    assert done.out == ""
    assert said in " ".join(done.err.split())
    assert "unforeseen" not in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x\n", "cannot be read"),
        ("x = 0.25\n", "describes no noise"),
        ('[x]\ndistribution = "gausian"\nvariance = 1\n', "no known distribution"),
        ('[x]\ndistribution = "gaussian"\nvariance = -1\n', "'variance'"),
        ('[q]\ndistribution = "gaussian"\nvariance = 1\n', "variable 'q' is not in the data"),
        ('[word]\ndistribution = "gaussian"\nvariance = 1\n', "holds no numbers"),
    ],
)
def test_descriptions_that_cannot_be_used(folder, run, text, said):
    (folder / "odd.toml").write_text(text)
    done = fit(run, "y ~ x + word", noise="odd.toml")
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_nothing_said_of_the_noise(folder, run):
    done = run("fit", "y ~ x", "data.csv")
    assert done.code == 2
    assert "Nothing says what the noise in these data is" in done.err
    assert "--noise" in done.err
    assert fit(run, "y ~ x", noise="nowhere.toml").code == 2
    assert run("fit", "y ~ x", "nowhere.csv", "--noise", "noise.toml").code == 2
    assert run("fit").code == 2


def test_a_variable_called_noise_and_a_description_in_json(folder, run):
    (folder / "own.toml").write_text(NOISE.replace("[x]", "[noise]"))
    done = fit(run, "y ~ noise", "--method", "moments", "--json", noise="own.toml")
    row = json.loads(done.out)["summary"][1]
    assert row["term"] == "noise"
    assert row["mean"] != pytest.approx(row["naive"])
    told: dict[str, Any] = {"noise": {"x": {"distribution": "gaussian", "variance": 0.25}}}
    (folder / "noise.json").write_text(json.dumps(told))
    ours, same = (
        fit(run, "y ~ x", "--method", "moments", "--json", noise=name).out
        for name in ("noise.toml", "noise.json")
    )
    assert ours == same


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
@pytest.mark.parametrize("method", ["posterior", "moments", "calibration", "simex"])
def test_tiny_data_are_refused_or_fitted(folder, run, rows, method):
    pl.read_csv("data.csv").head(rows).write_csv("data.csv")
    done = fit(run, "y ~ x", "--method", method)
    assert "unforeseen" not in done.err
    assert (done.code == 2) == (done.out == "")
    assert done.code in ((2,) if rows < 3 or method == "posterior" else (0, 2))


def test_names_with_marks_of_other_languages(folder, run):
    formula = "y ~ `<b>z</b>` + `[red]x[/red]`"
    (folder / "marks.toml").write_text(NOISE.replace("[x]", '["[red]x[/red]"]'))
    call = ("--draws", "400", "--picture", "forest.svg", "--out", "table.csv")
    done = fit(run, formula, noise="marks.toml")
    assert done.code == 0
    assert "<b>z</b>" in done.out
    assert "[red]x[/red]" in done.out
    assert fit(run, formula, *call, noise="marks.toml").code == 0
    picture = (folder / "forest.svg").read_text("utf-8")
    assert "<b>" not in picture
    assert pl.read_csv("table.csv")["term"].to_list()[1] == "<b>z</b>"
    again = fit(run, formula, *call, noise="marks.toml")
    assert again.code == 2
    assert "exists already" in again.err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--method", "nonsense"), "There is no method 'nonsense'"),
        (("--family", "gamma"), "There is no family 'gamma'"),
        (("--link", "probit"), "no link 'probit'"),
        (("--shape", "round"), "There is no shape 'round'"),
        (("--level", "95"), "between 0 and 1"),
        (("--family", "bernoulli"), "must be 0 or 1"),
        (("--out", "table.txt"), "its format is not known"),
        (("--clean", "x"), "x"),
        (("--draws", "0"), "draws"),
    ],
)
def test_options_that_do_not_fit(folder, run, option, said):
    done = fit(run, "y ~ x", *option)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_an_interrupt_before_there_is_anything(folder, run, monkeypatch):
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.cli.fit.run_fit", stopped)
    done = fit(run, "y ~ x", "--out", "table.csv")
    assert done.code == 130
    assert done.out == ""
    assert not (folder / "table.csv").exists()


def test_an_outcome_that_a_clean_variable_tells_for_sure(folder, run):
    done = fit(run, "yes ~ x + `[red]x[/red]`", "--family", "bernoulli")
    assert done.code == 2
    assert "determines the outcome" in done.err
    assert "Leave one out" in done.err
