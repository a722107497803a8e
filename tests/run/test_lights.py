"""Two lights: what makes them amber or red, what is refused, and what leaves of them."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import TargetError, WeakProtectionWarning
from sfumato.evidence import Evidence
from sfumato.plan import Writing
from sfumato.plan.targets import Judgement, Target, read_targets
from sfumato.report import render_report
from sfumato.report.measured import describe_target
from sfumato.run import attacks as attacking
from sfumato.run.case import Case, find_shared_secrets
from sfumato.run.lights import Light, judge_attacks
from sfumato.storage.opening import read_custody, read_manifest
from sfumato.storage.verifying import verify_release

KEY = bytes(range(32))
ROLES: dict[str, Any] = {
    "id": "direct",
    "age": "quasi",
    "region": "quasi",
    "illness": "sensitive",
    "w": "weight",
}
SAFE = [
    sf.methods.Drop(),
    sf.methods.Weights(levels=3),
    sf.methods.KAnonymity(k=10),
]


def people(records: int = 240) -> pl.DataFrame:
    random = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "id": [f"p{number}" for number in range(records)],
            "age": random.integers(20, 90, records),
            "region": random.choice(["north", "south", "west"], records),
            "illness": random.choice(["none", "asthma", "gout"], records),
            "w": random.uniform(1, 9, records).round(6),
        }
    )


def release(
    steps: list[sf.Method] | None = None,
    targets: dict[str, float] | None = None,
    frame: pl.DataFrame | None = None,
    **more: Any,
) -> sf.Release:
    schema = sf.Schema(ROLES)
    plan = sf.Plan(
        schema=schema,
        steps=SAFE if steps is None else steps,
        targets={"k.min": 10} if targets is None else targets,
        evaluate=more.pop("evaluate", ()),
        release=Writing(**more),
    )
    return sf.protect(sf.Dataset(people() if frame is None else frame, schema), plan, key=KEY)


@pytest.fixture(scope="module")
def safe() -> sf.Release:
    return release()


def test_a_secret_that_everybody_alike_shares_is_amber_unless_a_target_asks_about_it():
    """k = 10 hides who is who; of the north everybody knows all the same."""
    frame = people().with_columns(
        illness=pl.when(region="north").then(pl.lit("gout")).otherwise("illness")
    )
    steps = [sf.methods.Drop(variables=["age"]), *SAFE]
    silent = release(steps, frame=frame)
    share = frame["region"].to_list().count("north") / len(frame)
    assert find_shared_secrets(silent) == {"illness": share}
    assert silent.lights.targets.colour == "amber"
    (reason,) = silent.lights.targets.reasons
    assert f"learns it: 'illness' of {100 * share:.3g} % of the people." in reason
    stated = release(steps, {"k.min": 10, "attribute_disclosure.max": 0.5}, frame)
    assert find_shared_secrets(stated) == {}
    assert stated.lights.targets.colour == "green"
    apart = release(steps, frame=people())
    assert find_shared_secrets(apart) == {}
    assert apart.lights.targets.colour == "green"


def test_who_stands_alone_does_not_silence_the_others():
    alone = release([sf.methods.Drop(), sf.methods.Weights(levels=3)], {"uniqueness.max": 0.99})
    assert alone.evidence["uniqueness"].details["k"] == 1
    measure = sf.risk.AttributeDisclosure()
    found = sf.evaluate(alone.original, alone, {"attribute_disclosure": measure})
    worst = found["attribute_disclosure"].number("attribute_disclosure_at_worst")
    assert find_shared_secrets(alone) == {"illness": worst}
    assert "learns it: 'illness'" in " ".join(alone.lights.targets.reasons)


EXPOSED = [sf.methods.Drop()]


@pytest.mark.parametrize(
    ("target", "number", "colour"),
    [
        (Target(name="t", most=0.25), 0.249995, "amber"),  # by a hair
        (Target(name="t", most=0.25), 0.225, "green"),  # a tenth is left
        (Target(name="t", most=0.25), 0.2251, "amber"),
        (Target(name="k", least=10), 10, "green"),  # a count as it was asked for
        (Target(name="prosecutor", most=0.09), 1 / 12, "green"),  # the same count as a chance
        (Target(name="uniqueness", most=0.0), 0.0, "green"),
        (Target(name="mean_h", least=4.5), 4.9, "amber"),
        (Target(name="mean_h", least=4.5), 5.1, "green"),
        (Target(name="moments", most=0.1), 0.099, "amber"),  # what it is worth may be near, too
    ],
)
def test_a_measured_number_that_barely_keeps_its_target_is_amber_everywhere(
    safe, target, number, colour
):
    exact = target.name == "prosecutor"
    judgement = Judgement(target=target, measure="any", number=number, met=True, exact=exact)
    verdict = {"green": "met", "amber": "barely met"}[colour]
    light = replace(safe, verdict=[judgement]).lights.targets
    assert light.colour == colour
    assert all("barely met" in line and "refuses nothing" in line for line in light.reasons)
    assert judgement.verdict == verdict
    assert judgement.plain().get("barely_met", False) is (colour == "amber")
    assert describe_target(judgement.plain(), {})["verdict"] == verdict


def test_how_near_a_number_is_that_stays_inside_stays_inside_too():
    target = Target(name="moments", most=0.1)
    near = Judgement(target=target, measure="moments", number=0.0999, met=True)
    far = replace(near, number=0.01)
    assert near.public() == far.public()
    assert replace(near, audience="public").public()["barely_met"] is True


def test_a_release_that_keeps_its_promises_has_two_green_lights(safe):
    assert safe.lights.targets == Light()
    assert safe.lights.plain()["attacks"] == {"colour": "green", "reasons": []}


def test_green_means_that_every_attack_applies_was_tried_and_stayed_below_its_limit(safe):
    judged = judge_attacks(safe.plan, safe.attacks)
    assert {judgement.measure for judgement in judged} == {
        "mixed_linkage",
        "recoverable",
        "attribute_inference",
        "singling_out",
    }
    assert all(judgement.number <= (judgement.target.most or 0) for judgement in judged)


def test_data_as_they_are_are_refused_and_nothing_is_left(tmp_path):
    exposed = release(EXPOSED, {"uniqueness.max": 0.99})
    assert exposed.lights.attacks.colour == "red"
    with pytest.raises(TargetError, match="too often") as caught:
        exposed.write(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    assert caught.value.exit_code == 3
    assert not all(judgement.met for judgement in caught.value.verdict)
    assert {"untouched", "mixed_linkage"} <= {*caught.value.evidence}
    assert "accept_attacks" in caught.value.hint
    # An error may end up in a log: no value of anybody in it.
    words = str(caught.value)
    assert not any(text in words for text in ("north", "gout", str(people()["w"][0])))


def test_a_plan_may_accept_it_with_a_reason_which_makes_it_amber(tmp_path):
    why = "the members were asked"
    exposed = release(EXPOSED, {}, accept_attacks=why)
    folder = exposed.write(tmp_path / "out")
    lights = read_custody(folder)["lights"]
    assert lights["attacks"]["colour"] == "amber"
    assert any(why in line for line in lights["attacks"]["reasons"])
    assert lights["targets"]["colour"] == "amber"
    assert read_manifest(folder)["attacks"]["accepted"] is True
    assert sf.Plan.parse(exposed.plan.text(comments=True)) == exposed.plan


@pytest.mark.parametrize("why", ["", "  "])
def test_a_reason_has_words(why):
    with pytest.raises(sf.SfumatoError, match="accept_attacks"):
        Writing(accept_attacks=why)


LOOSE = {
    "mixed_linkage.max": 0.99,
    "inference_gain.max": 0.95,
    "singling_out_excess.max": 0.99,
}
COARSE = [sf.methods.Drop(), sf.methods.Weights(levels=3)]


def older(frame: pl.DataFrame | None = None) -> pl.DataFrame:
    return (people() if frame is None else frame).with_columns(age=pl.col("age") // 3)


@pytest.fixture(scope="module")
def loose() -> sf.Release:
    """With generous targets; its attacks are tried once for all tests."""
    made = release(COARSE, LOOSE, older())
    return replace(made, evidence={**made.evidence, **made.attacks})


def accept(made: sf.Release, reasons: str | dict[str, str]) -> sf.Release:
    plan = made.plan
    writing = replace(plan.release, accept_attacks=reasons)
    targets = {f"{target.name}.max": target.most for target in plan.targets}
    changed = sf.Plan(schema=plan.schema, steps=plan.steps, targets=targets, release=writing)
    return replace(made, plan=changed)


def test_a_generous_target_of_its_own_turns_no_light_green(loose, tmp_path):
    """A target may ask for less than is acceptable; to allow more takes a reason."""
    assert loose.lights.attacks == release(COARSE, {}, older()).lights.attacks
    assert loose.lights.attacks.colour == "red"
    with pytest.raises(TargetError, match="too often") as caught:
        loose.write(tmp_path / "out")
    assert "accept_attacks = { " in caught.value.hint
    assert ".max = " not in caught.value.hint
    why = "those who receive it have signed"
    accepted = accept(loose, dict.fromkeys(list_refused(loose), why))
    assert accepted.lights.attacks.colour == "amber"
    accepted.write(tmp_path / "out")
    assert sf.Plan.parse(accepted.plan.text(comments=True)) == accepted.plan


def list_refused(made: sf.Release) -> list[str]:
    judged = judge_attacks(made.plan, made.attacks)
    return [judgement.measure for judgement in judged if not judgement.met]


def test_a_reason_for_one_attack_is_none_for_another(loose):
    """Each spelling that might silence an attack that the reason does not name."""
    refused = list_refused(loose)
    assert len(refused) > 1
    for name in refused:
        lights = accept(loose, {name: "everybody was asked"}).lights
        assert lights.attacks.colour == "red"
        lines = [line for line in lights.attacks.reasons if "everybody was asked" in line]
        assert len(lines) == 1
    for unknown in ("mixed_linkages", "k", "all", "uniqueness"):
        with pytest.raises(sf.SfumatoError, match="no attack"):
            Writing(accept_attacks={unknown: "everybody was asked"})
    with pytest.raises(sf.SfumatoError, match="accept_attacks"):
        Writing(accept_attacks={"mixed_linkage": " "})
    assert Writing(accept_attacks={}) == Writing()


@pytest.mark.parametrize(
    ("evaluate", "targets"),
    [
        ({"neighbour": sf.risk.MixedLinkage(known=["region"])}, {"neighbour.mixed_linkage": 0.9}),
        ({"mixed_linkage": sf.risk.MixedLinkage(known=["region"])}, {"mixed_linkage": 0.9}),
        ({}, {"mixed_assigned": 0.99}),
    ],
)
def test_a_narrowed_attack_does_not_narrow_attackers(evaluate, targets):
    bounds = {f"{name}.max": limit for name, limit in targets.items()}
    lights = release(COARSE, bounds, older(), evaluate=evaluate).lights
    assert lights.attacks.colour == "red"
    assert any("Linking by all that is known" in line for line in lights.attacks.reasons)


def test_a_stricter_target_of_its_own_is_what_is_acceptable(safe):
    plan = replace_targets(safe.plan, {"mixed_linkage.max": 0.01})
    [linked] = [
        judgement
        for judgement in judge_attacks(plan, safe.attacks)
        if judgement.measure == "mixed_linkage"
    ]
    assert (linked.target.most, linked.met) == (0.01, False)


def replace_targets(plan: sf.Plan, targets: dict[str, float]) -> sf.Plan:
    return sf.Plan(schema=plan.schema, steps=plan.steps, targets=targets, release=plan.release)


def test_no_time_means_not_tried_which_is_amber_and_named(tmp_path):
    why = "nobody gets it"
    idle = release(attack_seconds=0, accept_attacks=why)
    assert idle.lights.attacks.colour == "amber"
    reasons = " ".join(idle.lights.attacks.reasons)
    for title in ("Linking by all that is known", "Guessing a secret", "Singling out"):
        assert f"{title}: it was not tried" in reasons
    assert reasons.count(why) == len(attacking.attacks(idle.plan))
    # The ledger of variables is always there.
    assert idle.attacks["untouched"].computed
    facts = read_manifest(idle.write(tmp_path / "out"))["attacks"]
    assert (facts["tried"], facts["accepted"]) == ([], True)
    assert set(facts["not_tried"]) == {*attacking.attacks(idle.plan)}


def test_less_time_than_usual_needs_a_reason(tmp_path):
    """Nought is refused when the plan is read, next to nothing when it leaves attacks untried."""
    with pytest.raises(sf.SfumatoError, match="no attack is tried"):
        Writing(attack_seconds=0)
    with pytest.raises(sf.SfumatoError, match="line 2: .*no attack is tried"):
        sf.Plan.parse("[release]\nattack_seconds = 0.0")
    hurried = release(attack_seconds=0.001)
    with pytest.raises(TargetError, match="no time for attacks") as caught:
        hurried.write(tmp_path / "out")
    assert "attack_seconds" in caught.value.hint
    # A reason for one attack is none for the others.
    one = release(attack_seconds=0.001, accept_attacks={"singling_out": "it takes too long"})
    with pytest.raises(TargetError, match="no time for attacks"):
        one.write(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    # Enough is enough, however little it is.
    release(attack_seconds=30).write(tmp_path / "out")


def test_what_is_tried_depends_on_sizes_and_never_on_the_clock(safe):
    attacks = attacking.attacks(safe.plan)
    estimates = {
        name: attacking.estimate_seconds(attack, safe.dataset) for name, attack in attacks.items()
    }
    assert all(0 < seconds < 2 for seconds in estimates.values())
    few = min(estimates.values()) * 1.5
    tried = release(attack_seconds=few).attacks
    assert [name for name, item in tried.items() if item.computed] == ["untouched", "recoverable"]


def test_a_variable_that_leaves_as_a_fingerprint_names_itself():
    left = release([sf.methods.Drop(), sf.methods.KAnonymity(k=10)])
    assert left.lights.attacks.colour == "amber"
    assert any("'w': values leave unchanged" in line for line in left.lights.attacks.reasons)


def test_without_a_target_nothing_is_green():
    assert release(SAFE, {}).lights.targets == Light(
        "amber", ("No target was set, so nothing is guaranteed.",)
    )


def test_nobody_is_looked_for_where_nobody_is_known():
    schema = sf.Schema({"x": "other"})
    plan = sf.Plan(schema=schema)
    data = sf.Dataset(pl.DataFrame({"x": range(50)}), schema)
    lights = sf.protect(data, plan, key=KEY).lights
    assert lights.attacks.colour == "amber"
    assert "nobody was looked for" in lights.attacks.reasons[0]


def test_a_target_that_holds_only_just_is_amber_unless_it_is_counted_exactly(safe):
    linked = safe.attacks["mixed_linkage"].details["mixed_linkage_at_worst"]
    just, easily = (
        release(SAFE, {"k.min": 10, "mixed_linkage.max": linked * room}) for room in (1.05, 1.5)
    )
    assert just.lights.targets.colour == "amber"
    assert easily.lights.targets.colour == "green"
    # k was asked for, and is exactly that.
    assert safe.verdict[0].number in (10, 11)


def test_an_attack_near_its_limit_is_worth_a_second_look(safe):
    evidence = safe.attacks["mixed_linkage"]
    limit = 1 / 10 + 0.06
    for share, colour in ((0.5 * limit, "green"), (0.95 * limit, "amber"), (1.05 * limit, "red")):
        details = {**evidence.details, "mixed_linkage_at_worst": share}
        known = {**safe.attacks, "mixed_linkage": replace(evidence, details=details)}
        assert replace(safe, evidence={**safe.evidence, **known}).lights.attacks.colour == colour


def test_what_could_not_be_computed_is_amber_never_green(safe):
    failed = Evidence.failed("singling_out", "pair", "there is no order.")
    known = {**safe.attacks, "singling_out": failed}
    lights = replace(safe, evidence={**safe.evidence, **known}).lights
    assert lights.attacks == Light("amber", ("Singling out: there is no order.",))


def test_a_sample_counts_at_the_bad_end_of_its_interval(safe):
    """A rate of nothing among few persons is no green."""
    few = sf.risk.MixedLinkage(individuals=3)
    assert release(evaluate={"mixed_linkage": few}).lights.attacks.colour == "red"


def test_nothing_is_measured_twice(monkeypatch):
    counted: list[str] = []
    compare: Any = sf.risk.MixedLinkage.compare

    def count(self: Any, *pair: Any) -> Any:
        counted.append(self.name)
        return compare(self, *pair)

    monkeypatch.setattr(sf.risk.MixedLinkage, "compare", count)
    for evaluate in ({"mixed_linkage": sf.risk.MixedLinkage()}, {"mine": sf.risk.MixedLinkage()}):
        counted.clear()
        assert release(evaluate=evaluate).lights.attacks.colour == "green"
        assert counted == ["mixed_linkage"]


def test_the_order_of_rows_changes_nothing(safe):
    shuffled = people().sample(fraction=1, shuffle=True, seed=3)
    assert release(frame=shuffled).lights == safe.lights


def test_neither_a_colour_nor_a_rate_leaves(tmp_path):
    exposed = release(EXPOSED, {}, accept_attacks="nobody is in it")
    folder = exposed.write(tmp_path / "out")
    page = (folder / "report.html").read_text()
    inside = html.unescape((folder / "custody" / "report.html").read_text())
    manifest = (folder / "manifest.json").read_text()
    for line in exposed.lights.attacks.reasons:
        number = line.split(" at worst")[0].split(" ")[-1]
        assert line.split(":")[0] in inside
        for public in (page, manifest):
            assert line not in public
            assert "at worst" not in public
            assert not number.startswith("0.") or number not in public
    assert "What they achieve is accepted by the plan." in page
    assert "nobody is in it" not in page + manifest
    assert not any(colour in page.partition("</style>")[2] for colour in ("amber", "green"))
    shown = json.loads(manifest)["variables"]
    # What was done is the plan's; what it did to the cells stays inside.
    assert {name: entry["steps"] for name, entry in shown.items()} == {
        "age": [],
        "region": [],
        "illness": [],
        "w": [],
    }
    assert "Unchanged" in inside
    assert "Unchanged" not in page
    assert "fingerprint" in inside
    assert "fingerprint" not in page


def test_a_written_release_is_intact_and_shows_its_lights(safe, tmp_path):
    folder = safe.write(tmp_path / "out")
    assert all(check.passed for check in verify_release(folder, safe.original))
    custody = read_custody(folder)
    assert custody["lights"] == safe.lights.plain()
    assert {"untouched", "mixed_linkage", "recoverable"} <= {*custody["evidence"]}
    page = (folder / "custody" / "report.html").read_text()
    assert "Targets: green" in page
    assert "Attacks: green" in page
    public = (folder / "report.html").read_text()
    assert "None of them succeeds more often than the custodian accepts." in public
    # One that was made before there were lights can still be read.
    manifest = read_manifest(folder)
    del manifest["attacks"], custody["lights"]
    assert "Attacks: green" not in render_report(manifest, custody)
    assert "custodian tried" not in render_report(manifest)


def test_the_worst_reading_is_the_headline():
    evidence = Evidence(
        name="mixed_linkage",
        subject="pair",
        value=0.0123,
        baseline=0.001,
        interval=(0.01, 0.02),
        details={"mixed_linkage_at_worst": 0.4567, "variables": "age"},
    )
    assert evidence.at_worst == evidence.plain()["at_worst"] == 0.4567
    sampled = replace(evidence, details={}, sampled=(10, 100))
    assert sampled.at_worst == 0.02
    assert replace(sampled, direction="higher").at_worst == 0.01
    assert replace(sampled, details={"mixed_linkage_filled_in": 0.9}).at_worst == 0.9


def test_verifying_tries_the_attacks_again(safe, tmp_path, monkeypatch):
    def check(folder: Path, original: sf.Dataset | None) -> tuple[bool | None, str]:
        checks = {check.name: check for check in verify_release(folder, original)}
        return checks["attacks"].passed, checks["attacks"].finding

    folder = safe.write(tmp_path / "safe", ledger=False)
    assert check(folder, safe.original) == (
        True,
        "4 tried again, none succeeds too often",
    )
    with monkeypatch.context() as patch:
        # What was tried is tried again, whatever an attack is said to take by now.
        patch.setattr(attacking, "SECONDS", 0.0)
        assert check(folder, safe.original)[0]
    assert check(folder, None) == (None, "they were not tried again, which takes the original")
    # Written by somebody who was content with more.
    exposed = release(EXPOSED, {"uniqueness.max": 0.99})
    with monkeypatch.context() as patch:
        patch.setattr(Case, "require_attacks_held", lambda _: None)
        folder = exposed.write(tmp_path / "exposed", ledger=False)
    passed, finding = check(folder, exposed.original)
    assert passed is False
    assert finding in " ".join(exposed.lights.attacks.reasons)


@pytest.mark.parametrize(
    ("targets", "meant"), [({"k.max": 500}, "k.min"), ({"prosecutor.min": 0.01}, "prosecutor.max")]
)
def test_a_target_on_the_safe_side_promises_nothing_and_says_so(targets, meant):
    """`k.max` in place of `k.min` released people who stood alone, under a green light."""
    schema = sf.Schema({"sex": "quasi"})
    data = sf.Dataset(pl.DataFrame({"sex": ["f", "m"] * 40 + ["x"]}), schema)
    plan = sf.Plan(schema=schema, steps=[], targets=targets)
    with pytest.warns(WeakProtectionWarning, match=f"Did you mean {meant}"):
        release = sf.protect(data, plan)
    assert release.lights.targets.colour == "amber"
    assert any(meant in reason for reason in release.lights.targets.reasons)


def test_a_target_on_utility_alone_turns_no_light_green(safe):
    plan = replace(safe.plan, targets=read_targets({"information_loss.max": 50}), evaluate={})
    reasons = sf.protect(safe.original, plan).lights.targets.reasons
    assert "No target limits a risk, so no protection is promised." in reasons
