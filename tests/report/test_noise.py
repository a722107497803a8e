"""What the report says of noise: in words, with what averaging leaves, and the picture of h."""

from __future__ import annotations

import html
import re
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.methods import CorrelatedNoise, Drop, Misclassify, Noise, NoisyCodes
from sfumato.plan import Writing
from sfumato.report import render_report
from sfumato.report.noise import describe_noise

KEPT = ("height", "income", "systolic", "glucose", "hdl", "children", "education", "region")


def made(*steps: sf.Method, **more: Any) -> sf.Release:
    data = sf.Dataset(sf.datasets.cohort(400), sf.datasets.cohort_schema())
    drop = Drop(variables=[name for name in data.columns if name not in KEPT])
    plan = sf.Plan(schema=data.schema, steps=[drop, *steps], **more)
    return sf.protect(data, plan, key=bytes(32))


def text(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


@pytest.fixture(scope="module")
def several() -> sf.Release:
    return made(
        Noise(variables=["height"], variance=4),
        Noise(variables=["children"], variance=0.08),
        Noise(variables=["income"], variance_share=0.1, scale="rank_normal"),
        Noise(variables=["systolic"], growth={"form": "linear", "constant": 1, "slope": 0.05}),
        CorrelatedNoise(variables=["glucose", "hdl"], noise_share=0.19, partly=True),
        NoisyCodes(variables=["education"], variance=0.3),
        Misclassify(variables=["region"], retention=0.8),
    )


@pytest.mark.parametrize("inside", [True, False])
def test_every_kind_of_noise_is_told_in_words(several: sf.Release, *, inside: bool) -> None:
    page = text(render_report(several.manifest, several.custody if inside else None))
    for words in (
        "Normal noise of variance 4 (standard deviation 2)",
        "on the scale of normal scores",
        "leaves about 92% of the values as they were",
        "Normal noise whose variance grows with the value",
        "0.9 times the true value, and normal noise that keeps means and covariances",
        "Normal noise of variance 0.3 on the codes of 6 levels",
        "stays with a probability of at least 0.8",
        "ask the custodian for accredited/manifest.json",
        "m releases under m keys, only 1/m of its variance is left",
    ):
        assert words in page
    assert ("was not measured" in page) == inside
    assert ("under one key only" in page) == inside


def test_the_knots_and_the_growth_stay_out_of_both_editions(several: sf.Release) -> None:
    full = several.accredited
    assert full is not None
    knots = full["noise"]["variables"]["income"]["scale"]["values"]
    for page in (render_report(several.manifest), render_report(several.manifest, several.custody)):
        assert not any(f"{one:,.12g}" in text(page) for one in knots)
        assert "slope" not in text(page)


def test_what_averaging_leaves_falls_with_the_root_of_the_releases(several: sf.Release) -> None:
    view = describe_noise(several.manifest)
    assert view is not None
    rows = {row["name"]: row for row in view["rows"]}
    assert rows["height"]["left"] == ["2", "1.41", "1", "0.632"]
    assert rows["systolic"]["left"] == rows["region"]["left"] == []
    # The covariance of correlated noise is that of the original, and is not public.
    assert rows["glucose"]["left"] == []
    full = describe_noise(several.accredited or {})
    assert full is not None
    assert [len(row["left"]) for row in full["rows"] if row["name"] == "glucose"] == [4]


def test_a_later_step_is_told() -> None:
    release = made(
        Noise(variables=["height"], variance=4),
        sf.methods.Coarsen(variables=["height"], intervals=5),
    )
    assert "Changed again afterwards (coarsen)" in text(render_report(release.manifest))


def test_nothing_is_said_without_noise_and_little_where_all_is_kept_back() -> None:
    assert describe_noise(made().manifest) is None
    kept = made(Noise(variables=["height"], variance=4), release=Writing(noise="none"))
    page = text(render_report(kept.manifest))
    assert "described for accredited analysts only" in page
    assert "variance 4" not in page


def test_the_picture_of_h_and_the_tail_are_inside_only() -> None:
    release = made(
        Noise(variables=["height", "glucose", "hdl"], variance_share=0.1),
        evaluate={"h_index": sf.risk.HIndex(variables=["height", "glucose", "hdl"])},
    )
    inside, outside = (render_report(release.manifest, one) for one in (release.custody, None))
    assert "How far off an attacker lands" in inside
    assert "in the order of the sum of the variables" in text(inside)
    assert "what hides the others does not hide them" in text(inside)
    assert "was not measured" not in text(inside)
    assert "How far off an attacker lands" not in outside


def test_names_are_escaped() -> None:
    name = "<b>x</b>"
    frame = pl.DataFrame({name: [float(at) for at in range(30)]})
    data = sf.Dataset(frame, sf.Schema({name: "quasi"}))
    plan = sf.Plan(schema=data.schema, steps=[Noise(variables=[name], variance=4)])
    assert name not in render_report(sf.protect(data, plan).manifest)
