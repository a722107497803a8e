"""`sfumato site` and `sfumato combine`: files go to and fro until every model has converged."""

from __future__ import annotations

import json

import numpy as np
import pytest
import statsmodels.formula.api as smf
from tests.cli.command_line import sfumato
from tests.sites.examples import make_sites, unite

REQUEST = """
title = "Hospitals"
[variables]
age = { low = 20, high = 90, bins = 7 }
died = { levels = ["0", "1"] }
[[results]]
name = "ages"
kind = "histogram"
x = "age"
[[results]]
name = "deaths"
kind = "model"
formula = "died ~ age"
family = "logistic"
"""


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "request.toml").write_text(REQUEST)
    for site, data in make_sites().items():
        data.frame.write_csv(f"{site}.csv")
    return tmp_path


def answer(site: str, number: int, *more: str):
    return sfumato(
        "site", f"{site}.csv", "--request", "request.toml", "--log", f"log-{site}", "--site", site,
        "--out", f"{site}-{number}", *more,
    )  # fmt: skip


def test_rounds_go_to_and_fro_as_files(hospitals):
    assert answer("North", 0).returncode == 0
    assert answer("South", 0).returncode == 0
    silent = answer("East", 0)
    assert silent.returncode == 3
    assert "withheld" in silent.stdout + silent.stderr
    sites, number = ("North", "South", "East"), 0
    while True:
        folders = [f"{site}-{number}" for site in sites]
        done = sfumato("combine", *folders, "--out", f"results-{number}", "--json")
        assert done.returncode == 0
        results = json.loads(done.stdout)
        if not results["unfinished"]:
            break
        for site in sites:
            code = answer(site, number + 1, "--round", f"results-{number}/round.json").returncode
            assert code == (3 if site == "East" else 0)
        number += 1
        assert number < 12
    model = results["models"]["deaths"]
    fitted = smf.logit("died ~ age", unite("North", "South").to_pandas()).fit(disp=0, tol=1e-12)
    assert model["records"] == int(fitted.nobs)
    estimates = [term["estimate"] for term in model["terms"]]
    assert np.allclose(estimates, fitted.params, rtol=1e-7)
    assert (hospitals / "results-0" / "ages.svg").exists()
    assert results["contributions"]["deaths"] == ["North", "South"]


def test_reasons_stay_at_the_site(hospitals):
    done = answer("East", 0, "--json")
    said = json.loads(done.stdout)
    assert "Fewer than 10 records" in said["results"][0]["reasons"][0]
    assert "Fewer than" not in (hospitals / "East-0" / "bundle.json").read_text()


def test_people_read_tables_and_what_to_do_next(hospitals):
    answer("North", 0)
    done = sfumato("combine", "North-0", "--out", "results", joined=True)
    text = " ".join(done.stdout.split())
    assert "ages: It rests on 1 of 1 sites (North)." in text
    assert "deaths: not converged yet; send 'results/round.json' to the sites for round 1." in text
    assert (hospitals / "results" / "round.json").exists()


def test_a_wrong_request_is_told_before_anything_is_read(hospitals):
    (hospitals / "request.toml").write_text("[variables]\n")
    done = answer("North", 0)
    assert done.returncode == 2
    assert not (hospitals / "log-North").exists()
