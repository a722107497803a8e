"""Attacks on a release: what they cost, and how far undoing gets, against the centre itself.

Costs are CPU seconds, beside those of `linkage`, which looks at numbers only. With the argument
`undoing`, the table of docs/explanation/attacks.md is printed instead.
"""

from __future__ import annotations

import sys

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


if __name__ == "__main__":
    if sys.argv[1:] == ["undoing"]:
        undoing()
    else:
        costs()
