"""Do attacks on few people decide as attacks on everybody do? Release after release, both ways.

Where there are many records, attacks look for few people first, and for more where these do not
decide (`run/attacks.py`). Here each of some random releases of the cohort is judged twice: with
these looks, though they have few records, and with everybody looked for. The verdict on
the sample may be stricter, but never milder. `python -m benchmarks.study_sampled_verdicts 200`
prints how often the colours of all attacks agree.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from unittest.mock import patch

import sfumato as sf
from sfumato.run import attacks
from sfumato.run.lights import judge_attacks

RECORDS = 1_000
"""So few that by default each attack looks for all of them."""
NAMES = ["birth_date", "sex", "region", "education", "height", "weight_kg", "systolic", "diagnosis"]


def release(number: int) -> sf.Release:
    """Cohort and plan, both drawn: from hardly protected to well protected."""
    draw = random.Random(number)  # noqa: S311 - no secret
    schema = {name: sf.datasets.cohort_schema()[name] for name in NAMES}
    frame = sf.datasets.cohort(RECORDS, seed=number).select(NAMES)
    data = sf.Dataset(frame, sf.Schema(schema))
    steps = [
        sf.methods.KAnonymity(k=draw.choice([2, 3, 5, 10])),
        sf.methods.Noise(variables=["systolic"], sd_share=draw.choice([0.05, 0.2, 0.5])),
    ]
    plan = sf.Plan(schema=schema, steps=draw.choice([steps, steps[:1], steps[1:]]))
    return sf.protect(data, plan, key=bytes(32))


def judge(made: sf.Release, *, everybody: bool) -> dict[str, bool]:
    """Whether each attack is acceptable."""
    with patch.object(attacks, "_MANY", sys.maxsize if everybody else 0):
        tried = attacks.try_attacks(
            made.plan, made.manifest, made.original, made.dataset, measured={}
        )
    found = judge_attacks(made.plan, tried)
    return {judgement.target.name: judgement.met for judgement in found}


def main(releases: int = 200) -> None:
    """Print the table."""
    told: Counter[str] = Counter()
    for number in range(releases):
        made = release(number)
        few, every = (judge(made, everybody=side) for side in (False, True))
        for label, met in every.items():
            told[
                "agree"
                if few[label] == met
                else "the sample is stricter"
                if met
                else "the sample is milder"
            ] += 1
    print(f"{releases} releases, {sum(told.values())} verdicts of attacks: {dict(told)}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
