"""What is told of noise: in full to those who may know, and nothing else to anybody else."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import DataError, PlanError, ReleaseError
from sfumato.noise.description import Gaussian, averaged_variance, read_descriptions
from sfumato.noise.scales import Growth
from sfumato.plan import Writing
from sfumato.storage.opening import open_release
from sfumato.storage.verifying import verify_release

KEY = sf.Key(bytes(range(32)))
GROWTH = Growth(form="step", breaks=[41234.5], variances=[98765.25, 876543.125])
DROP = sf.methods.Drop(variables=["name"])
PLAIN = sf.methods.Noise(variables=["bmi"], variance_share=0.1)
TELLING = sf.methods.Noise(variables=["income"], growth=GROWTH)
RANKED = sf.methods.Noise(variables=["glucose"], variance=0.1237, scale="rank_normal")


@pytest.fixture(scope="module")
def people() -> sf.Dataset:
    random = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "name": [f"p{at}" for at in range(400)],
            "bmi": random.normal(25, 4, 400).round(2),
            "income": random.lognormal(10, 0.5, 400).round(2),
            "glucose": random.normal(5, 1, 400).round(3),
        }
    )
    schema = sf.Schema({"name": "direct", "bmi": "quasi", "income": "quasi", "glucose": "quasi"})
    return sf.Dataset(frame, schema)


def release(people: sf.Dataset, *steps, noise=None) -> sf.Release:
    plan = sf.Plan(schema=people.schema, steps=[*steps, DROP], release=Writing(noise=noise))
    return sf.protect(people, plan, key=KEY)


def test_the_manifest_describes_the_noise(people):
    made = release(people, PLAIN)
    told = made.manifest["noise"]
    assert json.loads(json.dumps(told)) == told
    assert read_descriptions(told) == made.noise
    described = made.noise["bmi"]
    assert isinstance(described, Gaussian)
    wanted = 0.1 * people.column("bmi").var()
    # Rounded up to a number of a series whose steps are 7 % or less for 400 records.
    assert wanted <= described.variance <= 1.07 * wanted
    assert made.accredited is None
    text = json.dumps(made.manifest)
    assert KEY.text not in text
    assert "seed" not in text


def test_no_noise_no_word_of_it(people):
    made = release(people)
    assert "noise" not in made.manifest
    assert made.accredited is None
    assert made.noise == {}


@pytest.mark.parametrize("level", [None, "safe", "none", "all"])
def test_what_is_kept_back_is_nowhere_in_public(people, tmp_path, level):
    made = release(people, PLAIN, TELLING, RANKED, noise=level)
    folder = made.write(tmp_path / "out")
    public = b"".join(path.read_bytes() for path in folder.glob("*.*") if "data" not in path.name)
    ranked = made.noise["glucose"]
    assert isinstance(ranked, Gaussian)
    assert ranked.scale is not None
    telling = [98765.25, 876543.125, 41234.5, *(ranked.scale.values or [])]
    telling += ranked.scale.scores or []
    if level == "none":
        telling += [0.1237]
        variance = made.noise["bmi"].variance  # type: ignore[attr-defined]
        assert not re.search(rf"variance\D{{1,4}}{variance}\b".encode(), public)
        assert b"gaussian" not in public
        assert made.manifest["noise"]["variables"]["bmi"] == {"withheld": ["all"]}
    shown = [one for one in telling if repr(one).encode() in public]
    if level == "all":
        assert len(shown) == len(telling)
        assert made.accredited is None
        assert not (folder / "accredited").exists()
        return
    assert shown == []
    assert "accredited/manifest.json" in made.manifest["noise"]["withheld"]
    with pytest.raises(DataError, match="described only in part.*accredited"):
        read_descriptions(made.manifest["noise"])
    assert made.accredited is not None
    assert read_descriptions(made.accredited["noise"]) == made.noise
    special = folder / "accredited" / "manifest.json"
    assert stat.S_IMODE(special.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(special.stat().st_mode) == 0o600
    assert KEY.text not in special.read_text()
    assert "seed" not in special.read_text()


def test_those_not_kept_back_are_read_by_name(people):
    told = release(people, PLAIN, TELLING).manifest["noise"]
    assert set(read_descriptions(told, ["bmi", "glucose"])) == {"bmi"}
    with pytest.raises(DataError, match="'income'"):
        read_descriptions(told, ["bmi", "income"])


def test_an_opened_release_tells_what_lies_there(people, tmp_path):
    made = release(people, PLAIN, TELLING)
    folder = made.write(tmp_path / "out")
    assert read_descriptions(open_release(folder).noise) == made.noise
    assert all(one.passed for one in verify_release(folder))
    special = folder / "accredited" / "manifest.json"
    text = special.read_text()
    special.write_text(text.replace("98765.25", "98765.5"))
    assert "files" in [one.name for one in verify_release(folder) if one.passed is False]
    special.write_text(text.replace('"records": 400', '"records": 401'))
    assert "accredited" in [one.name for one in verify_release(folder) if one.passed is False]
    special.write_text("{")
    with pytest.raises(ReleaseError, match="damaged"):
        verify_release(folder)
    special.unlink()
    assert open_release(folder).noise == made.manifest["noise"]


def test_an_accredited_analyst_can_check_a_copy_without_custody(people, tmp_path):
    import shutil

    folder = release(people, TELLING).write(tmp_path / "out")
    shutil.rmtree(folder / "custody")
    checks = {one.name: one.passed for one in verify_release(folder)}
    assert checks == {
        "data": True, "accredited": True, "manifest": None, "files": True, "folder": True,
        "permissions": True, "targets": None,
    }  # fmt: skip
    assert open_release(folder).data.height == 400


def test_a_later_step_is_told_and_makes_the_description_useless_alone(people):
    later = [
        sf.methods.Topcode(variables=["bmi"], top=30),
        sf.methods.Coarsen(variables=["bmi"], breaks=[20, 25], edges="observed"),
    ]
    told = release(people, PLAIN, *later).manifest["noise"]
    assert told["variables"]["bmi"]["then"] == ["topcode", "coarsen"]
    with pytest.raises(DataError, match="'bmi' was changed again.*topcode, coarsen"):
        read_descriptions(told)
    before = release(people, later[0], PLAIN).manifest["noise"]
    assert "then" not in before["variables"]["bmi"]


def test_a_dropped_variable_is_not_described(people):
    made = release(people, PLAIN, TELLING, sf.methods.Drop(variables=["bmi"]))
    assert set(made.noise) == {"income"}


def test_noise_twice_on_one_variable_is_refused(people):
    with pytest.raises(PlanError, match="Two steps add noise to variable 'bmi'"):
        release(people, PLAIN, sf.methods.Noise(variables=["bmi"], variance=1.0))


def test_the_same_data_plan_and_key_give_the_same_bytes(people, tmp_path):
    order = np.random.default_rng(3).permutation(len(people))
    shuffled = sf.Dataset(people.frame[order], people.schema)
    written = []
    for at, data in enumerate((people, shuffled)):
        folder = release(data, PLAIN, TELLING, RANKED).write(tmp_path / str(at))
        files = [path for path in folder.iterdir() if path.is_file()]
        files.append(folder / "accredited" / "manifest.json")
        written.append({path.name: path.read_bytes() for path in sorted(files)})
    assert written[0] == written[1]


def test_plans_from_before_keep_their_digest(people):
    plan = sf.Plan(schema=people.schema, steps=[DROP])
    assert "noise" not in plan.text()
    asked = sf.Plan(schema=people.schema, steps=[DROP], release=Writing(noise="none"))
    assert sf.Plan.parse(asked.text()) == asked
    assert sf.Plan.parse(asked.text(comments=True)) == asked


def test_a_release_with_two_manifests_can_be_overwritten_under_its_key(people, tmp_path):
    made = release(people, TELLING)
    folder = made.write(tmp_path / "out")
    release(people, PLAIN).write(folder, overwrite=True)
    assert not Path(folder / "accredited").exists()


def test_averaging_needs_numbers_that_make_sense():
    assert averaged_variance(4.0) == 4.0
    assert averaged_variance(4.0, releases=3) == pytest.approx(4 / 3)
    refused: list[float | list[float]] = [0.0, -1.0, float("inf"), []]
    for wrong in refused:
        with pytest.raises(DataError):
            averaged_variance(wrong)
    with pytest.raises(DataError):
        averaged_variance(1.0, releases=0)
