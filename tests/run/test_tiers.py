"""Plans with tiers: what they may say, what is refused, what is written, what the ledger knows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.errors import PlanError, ReleaseError, TargetError
from sfumato.noise.description import averaged_variance
from sfumato.noise.transitions import find_further, invariant, to_all, to_near
from sfumato.plan import Writing
from sfumato.run.case import Case
from sfumato.storage.contents import RECORD_FILE
from sfumato.storage.ledger import Ledger

KEY = bytes(range(32))
SCHEMA: dict[str, Any] = {
    "id": "direct",
    "bmi": sf.Column(role="quasi", kind="continuous"),
    "age": sf.Column(role="quasi", kind="integer", domain=(18, 90)),
    "smoking": sf.Column(role="sensitive", kind="ordinal", domain=("no", "some", "much")),
}
WRITING = Writing(accept_attacks="tried in the tests", format="csv")


def people(records: int = 300) -> pl.DataFrame:
    draw = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "id": [f"p{number}" for number in range(records)],
            "bmi": draw.normal(25, 4, records).round(2),
            "age": draw.integers(18, 90, records),
            "smoking": draw.choice(["no", "some", "much"], records),
        }
    )


DATA = sf.Dataset(people(), sf.Schema(SCHEMA))
NOISE = sf.methods.Noise(variables=["bmi"], variance_share=0.1)
TIERS: dict[str, Any] = {"internal": {}, "public": {"noise": {"variance_share": 0.4}}}


def plan(*steps: Any, tiers: dict[str, Any] | None = None, **options: Any) -> sf.Plan:
    return sf.Plan(
        schema=SCHEMA,
        steps=[sf.methods.Drop(), *(steps or [NOISE])],
        tiers=TIERS if tiers is None else tiers,
        release=options.pop("release", WRITING),
        **options,
    )


def test_a_plan_with_tiers_survives_its_file():
    tiers = {
        "internal": {"targets": {"k.min": 2}},
        "public": {"step_2": {"variance_share": 0.4}, "release": {"noise": "none"}},
    }
    written = plan(tiers=tiers)
    assert sf.Plan.parse(written.text()) == written
    assert sf.Plan.parse(written.text(comments=True)) == written
    public = written.for_tier("public")
    assert sf.Plan.parse(public.text()) == public
    noise: Any = public.steps[1]
    assert noise.variance_share == 0.4
    assert (public.release.noise, public.targets) == ("none", ())
    assert [target.name for target in written.for_tier("internal").targets] == ["k"]
    assert public.tier is not None
    assert public.tier.names == ("internal", "public")
    assert public.digest != written.for_tier("internal").digest


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        ({"public": {"noise": {"variance_share": 0.4}}}, "one tier only"),
        ({"a/b": {}, "public": {"noise": {"variance_share": 0.4}}}, "cannot be called"),
        ({"A": {}, "a": {"noise": {"variance_share": 0.4}}}, "same name"),
        ({"a": {}, "b": {}}, "No step differs"),
        ({"a": {}, "b": {"nois": {"variance_share": 0.4}}}, "no step of the plan"),
        ({"a": {}, "b": {"noise": {"scale": "log"}}}, "must not differ in it"),
        ({"a": {}, "b": {"noise": {"variance_share": 7}}}, "Tier 'b'"),
        ({"a": {}, "b": {"noise": 3}}, "table of what it changes"),
        ({"a": {}, "b": {"drop": {"variables": ["age"]}}}, "must not differ in it"),
        ({"a": {}, "b": {"step_9": {"variance_share": 0.4}}}, "no step of the plan"),
    ],
)
def test_tiers_that_make_no_sense_are_refused_when_the_plan_is_read(tiers, words):
    with pytest.raises(PlanError, match=words):
        plan(tiers=tiers)


def test_a_method_that_stands_twice_is_named_by_its_number():
    both = (NOISE, sf.methods.Noise(variables=["age"], variance=25, bounds="ignore"))
    with pytest.raises(PlanError, match="several steps") as raised:
        plan(*both)
    assert "step_2 or step_3" in raised.value.hint
    assert plan(*both, tiers={"a": {}, "b": {"step_3": {"variance": 50}}})


@pytest.mark.parametrize(
    ("step", "sizes", "words"),
    [
        (NOISE, {"variance_share": 0.05}, "less noise than the tier before"),
        (sf.methods.Noise(variables=["bmi"], variance=4), {"variance": 4.02}, "nearly as much"),
        (sf.methods.Noise(variables=["bmi"], variance=4, distribution="laplace"),
         {"variance": 9}, "Laplace"),
        (sf.methods.Noise(variables=["age"], variance=25), {"variance": 50}, "cut off at limits"),
        (sf.methods.Noise(variables=["age"], variance=4, bounds="ignore"), {"variance": 9},
         "rounded so coarsely"),
        (sf.methods.NoisyCodes(variables=["smoking"], variance=0.2), {"variance": 0.4},
         "outer codes"),
        (sf.methods.NoisyCodes(variables=["smoking"], variance=0.3, ends="round"),
         {"variance": 0.5}, "not nested"),
        (sf.methods.Misclassify(variables=["smoking"], retention=0.9, towards="near"),
         {"retention": 0.8}, "not nested"),
        (sf.methods.Misclassify(variables=["smoking"], retention=0.8), {"retention": 0.9},
         "not nested"),
    ],
)  # fmt: skip
def test_sizes_that_are_not_nested_are_refused(step, sizes, words):
    with pytest.raises(PlanError, match=words):
        sf.protect_tiers(DATA, plan(step, tiers={"a": {}, "b": {step.name: sizes}}), key=KEY)


def test_a_step_that_looks_at_noisy_values_is_refused_after_it():
    after = (NOISE, sf.methods.KAnonymity(variables=["bmi", "age"], k=5))
    with pytest.raises(PlanError, match="looks at 'bmi'"):
        sf.protect_tiers(DATA, plan(*after), key=KEY)
    other = (NOISE, sf.methods.KAnonymity(variables=["age"], k=5))
    assert len(sf.protect_tiers(DATA, plan(*other), key=KEY)) == 2


def test_each_tier_is_the_release_of_its_own_plan():
    tiers = sf.protect_tiers(DATA, plan(), key=KEY)
    alone = sf.protect(DATA, sf.Plan(schema=SCHEMA, steps=[sf.methods.Drop(), NOISE]), key=KEY)
    assert tiers["internal"].data.equals(alone.data)
    assert list(tiers) == ["internal", "public"]
    assert tiers["public"].manifest["tier"] == "public"
    assert tiers["public"].manifest["tiers"] == ["internal", "public"]
    with pytest.raises(PlanError, match="has tiers"):
        sf.protect(DATA, plan(), key=KEY)
    with pytest.raises(PlanError, match="no tiers"):
        sf.protect_tiers(DATA, alone.plan)
    with pytest.raises(PlanError, match="no tier 'publc'"):
        plan().for_tier("publc")


LINKED = {"evaluate": {"linkage": sf.risk.Linkage(variables=["bmi"])}}


def test_tiers_do_not_count_as_earlier_releases_of_each_other(tmp_path, ledger_of_the_test):
    alone = sf.protect_tiers(DATA, plan(**LINKED), key=KEY)
    low, high = (alone[tier].evidence["linkage"].value for tier in ("public", "internal"))
    assert low < high
    bound = (low + high) / 2
    tiers = {"internal": {}, "public": {**TIERS["public"], "targets": {"linkage.max": bound}}}
    folders = sf.protect_tiers(DATA, plan(tiers=tiers, **LINKED), key=KEY).write(tmp_path / "out")
    assert {name: path.name for name, path in folders.items()} == {n: n for n in tiers}
    record = json.loads((folders["public"] / RECORD_FILE).read_bytes())
    facts = record["composition"]["tiers"]
    assert facts["together_with"] == ["'internal'"]
    assert facts["noise_left"] == {"bmi": 1.0}
    assert "targets" not in record["composition"]
    entries = Ledger().read()
    assert len({entry.tiers for entry in entries}) == 1
    assert entries[0].tiers
    assert all(check.passed is not False for check in sf_verify(folders["public"]))
    # The same two releases from two plans of their own are held together against the target.
    single = plan(tiers=tiers, **LINKED).for_tier("public")
    bare = sf.Plan(
        schema=SCHEMA, steps=single.steps, targets=single.targets, evaluate=single.evaluate,
        release=WRITING,
    )  # fmt: skip
    with pytest.raises(TargetError, match="together with"):
        sf.protect(DATA, bare, key=KEY).write(tmp_path / "alone")


def sf_verify(folder):
    from sfumato.storage.verifying import verify_release

    return verify_release(folder, DATA, key=None, ledger=Ledger(), session=None)


def test_tiers_are_known_from_their_folders_too(tmp_path):
    tiers = sf.protect_tiers(DATA, plan(), key=KEY)
    folders = tiers.write(tmp_path / "out", ledger=False)
    record = json.loads((folders["public"] / RECORD_FILE).read_bytes())
    assert record["composition"]["tiers"]["noise_left"] == {"bmi": 1.0}
    with pytest.raises(ReleaseError, match="exists already"):
        tiers.write(tmp_path / "out", ledger=False)


def test_a_tier_that_misses_its_target_is_named():
    tiers = {"internal": {"targets": {"k.min": 1000}}, "public": TIERS["public"]}
    with pytest.raises(TargetError, match="Tier 'internal'"):
        sf.protect_tiers(DATA, plan(tiers=tiers), key=KEY)


def test_nothing_is_written_where_an_attack_on_one_tier_succeeds(tmp_path, monkeypatch):
    def refuse_public(case):
        if case.release.plan.tier.name == "public":
            raise TargetError("an attack succeeds too often")

    monkeypatch.setattr(Case, "require_attacks_held", refuse_public)
    with pytest.raises(TargetError, match="Tier 'public': an attack"):
        sf.protect_tiers(DATA, plan(), key=KEY).write(tmp_path / "out", ledger=False)
    assert not (tmp_path / "out").exists()


def test_tiers_of_changed_data_do_not_belong_together(tmp_path):
    sf.protect_tiers(DATA, plan(), key=KEY).write(tmp_path / "out", ledger=False)
    frame = people().with_columns(bmi=pl.col("bmi") + 1)
    changed = sf.Dataset(frame, sf.Schema(SCHEMA))
    other = sf.protect(changed, plan().for_tier("public"), key=KEY)
    folder = other.write(tmp_path / "out" / "later", ledger=False)
    record = json.loads((folder / RECORD_FILE).read_bytes())
    assert "tiers" not in record["composition"]


def test_the_command_writes_a_folder_for_each_tier(tmp_path):
    people().write_csv(tmp_path / "people.csv")
    (tmp_path / "plan.toml").write_text(plan().text())
    words = ("protect", "people.csv", "--plan", "plan.toml", "--out", "out")
    done = sfumato(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "Tier:      internal" in said
    assert "together with 'internal', 100% of the noise of the best one is left" in said
    for tier in ("internal", "public"):
        assert (tmp_path / "out" / tier / "manifest.json").is_file()
        page = (tmp_path / "out" / tier / "report.html").read_text()
        assert f"This is the tier <strong>{tier}</strong>" in page
    key = (tmp_path / "out" / "public" / "custody" / "key").read_text()
    again = sfumato(*words, "--overwrite", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert set(json.loads(again.stdout)["tiers"]) == {"internal", "public"}
    assert (tmp_path / "out" / "public" / "custody" / "key").read_text() == key
    assert sfumato(*words, cwd=tmp_path).returncode == 4


def test_a_mistake_in_a_tier_is_told_with_its_line(tmp_path):
    text = plan().text().replace("variance_share = 0.4", "variance_share = 4.0")
    with pytest.raises(PlanError, match=r"line \d+: Tier 'public'"):
        sf.Plan.parse(text)


matrices = st.integers(2, 5).flatmap(
    lambda size: st.tuples(
        *(st.lists(st.floats(0.01, 1), min_size=size, max_size=size) for _ in range(2 * size))
    )
)


@given(matrices)
def test_what_is_exchanged_again_is_found_again(rows):
    size = len(rows) // 2
    first, further = (
        np.array([row / np.sum(row) for row in some]) for some in (rows[:size], rows[size:])
    )
    first = (first + 2 * np.eye(size)) / 3
    assert np.abs(find_further(first, first @ further) - further).max() < 1e-6


def test_no_further_exchange_leads_back():
    for finer, coarser in ((to_all(3, 0.7), to_all(3, 0.8)), (to_near(3, 0.9), to_near(3, 0.8))):
        assert find_further(finer, coarser) is None
    shares = np.array([0.6, 0.3, 0.1])
    kept = invariant(to_all(3, 0.8), shares)
    assert np.allclose(shares @ (kept @ kept), shares)


def test_averaging_counts_only_the_best_of_nested_tiers():
    released = NOISE.apply(DATA, key=KEY)
    alone, better, worse = (
        sf.risk.Averaging(variables=["bmi"], tiers=tiers).measure(DATA, released)
        for tiers in (None, [0.25, 0.5], [4.0])
    )
    assert worse.value == alone.value
    assert better.value > alone.value
    left = [item.table["noise_sd_share_left"][0] for item in (alone, better)]
    assert left[1] == pytest.approx(left[0] / 2)
    assert averaged_variance([0.1, 0.4], nested=True) == 0.1
    assert averaged_variance([0.1, 0.4]) == pytest.approx(0.08)
