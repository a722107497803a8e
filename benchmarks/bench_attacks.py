"""Attacks on a release: what they cost, and how far undoing gets, against the centre itself.

Costs are CPU seconds, beside those of `linkage`, which looks at numbers only. With the argument
`undoing`, the table of docs/explanation/attacks.md is printed instead; with `lights`, the table of
what attacks achieve on data as they are and on k-anonymous ones (needs SFUMATO_DATA).
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.cost import cost

SIZES = (2_000, 20_000)
KNOWN = ["sex", "region", "education", "children", "height"]

SETUP = """
import sfumato as sf
known = {known!r}
schema = sf.datasets.cohort_schema()
def made(records):
    data = sf.Dataset(sf.datasets.cohort(records), schema)
    ranges = sf.methods.KAnonymity(variables=known, k=5, clustering="mondrian", output="range")
    noise = sf.methods.Noise(variables=["systolic", "exam_score"], variance_share=0.2)
    blur = sf.methods.Deterministic(variables=["weight_kg", "glucose"], k=5, missing="median")
    return data, blur.apply(noise.apply(ranges.apply(data), key=bytes(32)))
attacks = {{
    "linkage": sf.risk.Linkage(variables=["systolic", "exam_score"]),
    "singling_out": sf.risk.SinglingOut(known=known),
    "mixed_linkage": sf.risk.MixedLinkage(known=known),
    "attribute_inference": sf.risk.AttributeInference(known=known),
    "averaging": sf.risk.Averaging(variables=["systolic", "exam_score"]),
    "undoing": sf.risk.Undoing(variables=["weight_kg", "glucose"], k=5),
}}
attack = attacks[{name!r}]
attack.measure(*made(200))
original, released = made({records})
"""
WORK = "attack.measure(original, released)"
NAMES = (
    "linkage",
    "singling_out",
    "mixed_linkage",
    "attribute_inference",
    "averaging",
    "undoing",
)


def costs() -> None:
    """Print CPU seconds and peak memory by attack and size."""
    print(f"{'attack':<20} {'records':>8} {'CPU s':>7} {'of linkage':>11} {'peak MB':>8}")
    for records in SIZES:
        base = 0.0
        for name in NAMES:
            found = cost(WORK, setup=SETUP.format(known=KNOWN, name=name, records=records))
            base = base or found.cpu
            print(
                f"{name:<20} {records:>8,} {found.cpu:>7.2f} {found.cpu / base:>11.1f} "
                f"{found.peak:>8.0f}"
            )


def undoing() -> None:
    """Print how far undoing gets, by variables blurred together, k, and noise added afterwards."""
    import sfumato as sf

    names = ["glucose", "weight_kg", "hdl", "height"]
    data = sf.Dataset(sf.datasets.cohort(2000), sf.datasets.cohort_schema())
    kept = data.frame.select(names).drop_nulls()
    print(f"{len(kept)} complete records; shares are of values within 0.01 SD of the truth")
    print("variables  k  noise  released  centre  undone  error before  error undone  correlation")
    cases = [(many, k, 0.0) for many in (1, 2, 4) for k in (3, 5, 10)]
    for many, k, share in [*cases, *((many, 3, 0.01) for many in (1, 2, 4))]:
        blurred = names[:many]
        some = sf.Dataset(kept.select(blurred), sf.Schema(dict.fromkeys(blurred, "quasi")))
        made = sf.methods.Deterministic(variables=blurred, k=k).apply(some)
        if share:
            noise = sf.methods.Noise(variables=blurred, variance_share=share)
            made = noise.apply(made, key=bytes(32))
        found = sf.risk.Undoing(variables=blurred, k=k).measure(some, made)
        told = found.details
        print(
            f"{many:>9} {k:>2} {share:>6.2f} {told['released_as_it_is']:>9.3f} "
            f"{told['centre_itself']:>7.3f} {found.value:>7.3f} {told['plain_error']:>13.3f} "
            f"{told['undoing_error']:>13.3f} {told['undoing_correlation']:>12.4f}"
        )


def lights() -> None:
    """Print what the lights judge: at worst, by data set and method, and the CPU time."""
    import os
    import time
    from pathlib import Path

    import numpy as np

    import sfumato as sf
    from sfumato.run.lights import judge_attacks

    folder = Path(os.environ["SFUMATO_DATA"])
    kept = ["sex", "region", "education", "height", "smoking", "systolic", "diagnosis"]
    schema = sf.datasets.cohort_schema()
    roles: dict[str, dict[str, Any]] = {
        "titanic": {"Pclass": "quasi", "Sex": "quasi", "Age": "quasi", "SibSp": "quasi",
                    "Parch": "quasi", "Embarked": "quasi", "Fare": "sensitive",
                    "Survived": "sensitive"},
        "adult": {"gender": "quasi", "age": "quasi", "race": "quasi", "marital_status": "quasi",
                  "education": "quasi", "native_country": "quasi", "workclass": "quasi",
                  "occupation": "quasi", "salary": "sensitive"},
        "cohort": {name: schema[name] for name in kept},
    }  # fmt: skip
    frames = {name: sf.read(folder / f"{name}.csv") for name in ("titanic", "adult")}
    frames["cohort"] = sf.Dataset(sf.datasets.cohort(5000))
    for name, data in frames.items():
        chosen = data.with_schema(sf.Schema(roles[name])).take(np.arange(min(len(data), 5000)))
        others = [column for column in data.columns if column not in roles[name]]
        drop = [sf.methods.Drop(variables=others)] if others else []
        plain = sf.Schema({**dict.fromkeys(others, "other"), **roles[name]})
        methods = {"as they are": []} | {
            f"k = {k}, {output}": [sf.methods.KAnonymity(k=k, output=output)]
            for k, output in ((3, "range"), (5, "range"), (10, "range"), (5, "mode"))
        }
        for label, steps in methods.items():
            plan = sf.Plan(schema=plain, steps=[*drop, *steps])
            release = sf.protect(chosen.with_schema(plain), plan, key=bytes(32))
            began = time.process_time()
            judged = judge_attacks(plan, release.attacks)
            words = "  ".join(f"{item.target.name} {item.number:.2f}" for item in judged)
            cpu = time.process_time() - began
            print(f"{name:<8} {label:<14} {cpu:5.1f} s  {words}")
    print("\nCPU seconds of an attack, and what is stated for so many cells (attack_seconds)")
    compare_times("adult", frames["adult"].with_schema(sf.Schema(roles["adult"])))
    for name in ("national2019", "diabetes"):
        compare_times(name, sf.read(folder / f"{name}.csv"))
    compare_times("cohort", sf.Dataset(sf.datasets.cohort(20_000), schema))


def compare_times(name: str, data: Any) -> None:
    """Print the CPU time of each attack on all records, as they are and with k = 5."""
    import time

    import sfumato as sf
    from sfumato.run.attacks import estimate_seconds
    from sfumato.run.measuring import take_measures

    found = data.schema if data.schema.having("quasi") else sf.Schema.infer(data.frame)
    schema = sf.Schema({key: c if c.role else "other" for key, c in found.items()})
    drop = [sf.methods.Drop()] if schema.having("direct") else []
    for label, steps in (("as they are", drop), ("k = 5", [*drop, sf.methods.KAnonymity(k=5)])):
        plan = sf.Plan(schema=schema, steps=steps)
        release = sf.protect(data.with_schema(schema), plan, key=bytes(32))
        words = []
        for title, attack in sf.attackers.attacks(plan, release.manifest).items():
            began = time.process_time()
            take_measures({title: attack}, release.original, release.dataset)
            cpu = time.process_time() - began
            stated = estimate_seconds(attack, release.dataset)
            words.append(f"{title} {cpu:.1f} of {stated:.1f}")
        print(f"{name:<12} {len(data):>6,} x {len(data.columns):<2} {label:<12} {'  '.join(words)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["lights"]:
        lights()
    elif sys.argv[1:] == ["undoing"]:
        undoing()
    else:
        costs()
