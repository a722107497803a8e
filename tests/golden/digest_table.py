"""What Sfumato gives under fixed keys, as a table of digests: the safety net of a refactoring.

Moving modules and renaming functions must change none of the numbers, released bytes, public
names, options or fields of a plan. `digests.json` holds a line for each of them:

- what is promised to the byte (released files, drawn values, cells, codes, manifests): a short
  SHA-256;
- results that pass through BLAS, LAPACK or the maths library, whose last bits depend on the
  processor: the numbers themselves, compared within `TOLERANCE`, long columns by five numbers;
- names, options and fields: the readable text.

`test_digests.py` computes all of it again and names what differs, with the number before and now.

Prose is left out on purpose: assumptions, warnings, reasons, help texts, titles, captions, and
every text of more than three words may be reworded. Everything is reached through
`import sfumato as sf`; what cannot be is imported in one place, just below, and nowhere else: when
a module moves, change that place only.

Run with SFUMATO_DATA set, from the root of the repository:

    python -m tests.golden.digest_table --write            rewrite the table, after reading why
    python -m tests.golden.digest_table                    say what differs
    python -m tests.golden.digest_table --only measures    the same for one group
    python -m tests.golden.digest_table --dump FOLDER      what is behind each digest, to be
                                                           compared with that of another commit
    python -m tests.golden.digest_table --prose FILE       the words of the evidence, likewise
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import hashlib
import inspect
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf

# The only place with internal imports. Each is used through one of the four functions below.


def _cli_app() -> Any:
    """The command line, as a typer application."""
    from sfumato.cli.app import app

    return app


def _demo_plan() -> sf.Plan:
    """The plan of `sfumato demo`, as its journey measures it."""
    from sfumato.cli.demo import _measures_for_report, demo_plan

    first = demo_plan()
    return sf.Plan(
        schema=first.schema,
        steps=first.steps,
        targets=first.targets,
        evaluate={**first.evaluate, **_measures_for_report()},
        read=first.read,
    )


def _parameters_of(entry: Any) -> Any:
    """The parameters of a method or a measure: name, type in words, default, required."""
    from sfumato.catalogue import parameters_of

    return parameters_of(entry)


def _sample_pictures() -> Mapping[str, Callable[..., Any]]:
    """One of each picture, from invented numbers."""
    from tests.figures.custodian.samples import ALL

    return ALL


# End of the internal imports.

TABLE = Path(__file__).with_name("digests.json")
KEY = bytes(range(32))
DIGITS = 10
WAYS = (None, "suppress", "generalise", "deterministic", "noise")
ROOMS = ("methods", "risk", "utility", "plots", "pictures", "tables", "outputs", "datasets",
         "attackers", "peering", "hierarchies")  # fmt: skip
TOLERANCE = 1e-6
"""By which a number that passed through linear algebra may differ, relative to its size."""
RANKED = {"rhat": 0.02, "ess": 0.1, "ess_tail": 0.1}
"""The same for what compares the ranks of draws: one exchange of neighbours moves it."""
_NOTHING = 1e-13
_FEW = 8
"""Numbers up to which a column is held as it is."""
_WORDS = 3
_PROSE = ("assumptions", "warnings", "reason", "reasons", "made_by")
_LISTED = re.compile(r"\S+(?:(?:, | \+ )\S+)*")

Entries = dict[str, Any]
"""By name: text, of which a digest is kept; or what is kept itself: readable texts, or numbers."""
Numbers = dict[str, Any]
"""By place the numbers of a result, and as `text` a digest of its words and whole numbers."""


# Values as text ----------------------------------------------------------------------------------


def exact(frame: pl.DataFrame) -> str:
    """Columns, types and values, bit by bit: the shortest text of a float is exact."""
    return "\n".join(repr((one.name, str(one.dtype), one.to_list())) for one in frame)


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """Plain values, floats to so many significant digits, prose left out."""
    if isinstance(value, Mapping):
        return {str(key): rounded(one, digits) for key, one in value.items() if key not in _PROSE}
    if hasattr(value, "reset_index"):
        value = pl.DataFrame(value.reset_index())
    if isinstance(value, pl.DataFrame):
        columns = [one for one in value if one.name not in _PROSE]
        return [[one.name, str(one.dtype), rounded(one.to_list(), digits)] for one in columns]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(one, digits) for one in value]
    return _single(value.item() if isinstance(value, np.generic) else value, digits)


def _single(value: Any, digits: int) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _number(value, digits)
    if isinstance(value, str):
        return _label(value)
    if isinstance(value, (dt.date, dt.timedelta)):
        return str(value)
    msg = f"a {type(value).__name__} cannot be written into the table"
    raise TypeError(msg)


def _number(value: float, digits: int) -> float | str:
    if not math.isfinite(value):
        return str(value)
    return 0.0 if abs(value) < _NOTHING else float(f"{value:.{digits - 1}e}")


def _label(text: str) -> str:
    """Names, lists of names and short labels stay; sentences do not."""
    return text if _LISTED.fullmatch(text) or len(text.split()) <= _WORDS else "(prose)"


def lines(value: Any, digits: int = DIGITS) -> str:
    """As JSON, a line for each part, so that two of them can be compared."""
    plain = rounded(value, digits)
    if isinstance(plain, dict):
        return "\n".join(f"{key}: {json.dumps(one)}" for key, one in plain.items())
    if isinstance(plain, list):
        return "\n".join(json.dumps(one) for one in plain)
    return json.dumps(plain)


def numbers(result: Any) -> Numbers:
    """The numbers of a result by their place, long columns summed up; of all else a digest."""
    kept: Numbers = {}
    words: list[str] = []
    _collect_numbers("", rounded(result, 12), kept, words)
    return {"text": digest("\n".join(words)), **kept}


def _collect_numbers(place: str, value: Any, kept: Numbers, words: list[str]) -> None:
    if isinstance(value, float):
        kept[place] = value
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect_numbers(f"{place}.{key}" if place else key, item, kept, words)
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for position, item in enumerate(value):
            name, inner = str(position), item
            if isinstance(item, list) and len(item) == 3 and isinstance(item[0], str):  # a column
                name, kind, inner = item
                words.append(f"{place}.{name}: {kind}")
            _collect_numbers(f"{place}.{name}" if place else name, inner, kept, words)
    elif isinstance(value, list) and any(isinstance(item, float) for item in value):
        floats = np.array([item for item in value if isinstance(item, float)])
        few = len(value) <= _FEW
        kept[place] = floats.tolist() if few else rounded(_sum_up(floats), 12)
        words.append(f"{place}: {['#' if isinstance(item, float) else item for item in value]}")
    else:
        words.append(f"{place}: {value}")


def _sum_up(floats: np.ndarray) -> dict[str, float]:
    """A long column in five numbers; the last one hangs on the order too."""
    weights = (np.arange(len(floats)) * 0.618) % 1
    return {
        "lowest": float(floats.min()),
        "highest": float(floats.max()),
        "mean": float(floats.mean()),
        "sd": float(floats.std()),
        "weighted": float((weights * floats).mean()),
    }


def list_changed_numbers(before: Numbers, after: Numbers) -> list[str]:
    """Each number that is gone, new or further from the one before than it may be."""
    changed = []
    for place in {**before, **after}:
        was, now = before.get(place, "nothing"), after.get(place, "nothing")
        if not _agree(was, now, RANKED.get(place.rpartition(".")[2], TOLERANCE)):
            changed.append(f"{place}: was {was}, is {now}")
    return changed


def _agree(was: Any, now: Any, tolerance: float) -> bool:
    if isinstance(was, dict) and isinstance(now, dict):
        was, now = list(was.values()), list(now.values())
    if isinstance(was, str) or isinstance(now, str):
        return bool(was == now)
    one, other = np.atleast_1d(np.asarray(was)), np.atleast_1d(np.asarray(now))
    if one.shape != other.shape:
        return False
    size = max(np.abs(one).max(initial=0), np.abs(other).max(initial=0))
    return bool(np.all(np.abs(one - other) <= tolerance * size + _NOTHING / TOLERANCE))


def evidence_numbers(found: sf.Evidence) -> Numbers:
    """Everything of an evidence but its prose."""
    plain = ("name", "subject", "value", "direction", "interval", "baseline", "audience")
    kept = {name: getattr(found, name) for name in plain}
    return numbers(
        {**kept, "details": found.details, "table": found.table, "records": found.records}
    )


def attempted(make: Callable[[], Any]) -> Any:
    """What was made, or the kind of refusal."""
    try:
        return make()
    except sf.SfumatoError as error:
        return f"refused: {type(error).__name__}"


# Data --------------------------------------------------------------------------------------------


@cache
def cohort(records: int = 300) -> sf.Dataset:
    """The data of the contract tests, or more of them."""
    return sf.Dataset(sf.datasets.cohort(records), sf.datasets.cohort_schema())


@cache
def protected() -> sf.Dataset:
    """The contract data with numbers blurred and two categories misclassified."""
    steps = (
        sf.methods.Noise(
            variables=["height", "weight_kg", "systolic", "glucose", "hdl", "exam_score"],
            variance_share=0.2,
            whole=False,
        ),
        sf.methods.Misclassify(variables=["sex", "region"], retention=0.8),
        sf.methods.Topcode(variables=["income"], top_quantile=0.9),
    )
    made = cohort()
    for step in steps:
        made = step.apply(made, key=KEY)
    return made


def _entries(*rooms: str) -> Iterator[tuple[str, Any]]:
    """Methods or measures by name, through the public rooms."""
    for room in rooms:
        inside = getattr(sf, room)
        found = {getattr(inside, name).name: getattr(inside, name) for name in dir(inside)}
        yield from sorted(found.items())


# 1 and 2: methods and measures -------------------------------------------------------------------


def methods() -> Entries:
    """What each method releases of the contract data, for each of its examples."""
    found: Entries = {}
    for name, method in _entries("methods"):
        for at, example in enumerate(method.examples):
            step = method(**example)
            made = step.apply(cohort(), key=KEY)
            found[f"{name} {at}"] = exact(made.frame)
            roles = {one: (told.role, told.kind) for one, told in made.schema.items()}
            found[f"{name} {at} roles"] = lines(roles)
    return found


def _taken() -> Iterator[tuple[str, Callable[[], sf.Evidence]]]:
    for name, measure in _entries("risk", "utility"):
        for at, example in enumerate(measure.examples):
            one = measure(**example)
            if one.of == "one":
                yield f"{name} {at} original", partial(one.measure, cohort())
            else:
                yield f"{name} {at} same", partial(one.measure, cohort(), cohort())
            yield f"{name} {at} pair", partial(one.measure, cohort(), protected())


def measures() -> Entries:
    """The numbers of each measure's examples, as the contract has it and on protected data."""
    return {label: attempted(partial(_told, take)) for label, take in _taken()}


def _told(take: Callable[[], sf.Evidence]) -> Numbers:
    return evidence_numbers(take())


def prose() -> dict[str, list[str]]:
    """The words of the same evidence. No part of the table: they may be reworded."""
    found = {}
    for label, take in _taken():
        try:
            one = take()
        except sf.SfumatoError as error:
            found[label] = [str(error)]
        else:
            found[label] = [*one.assumptions, *one.warnings, one.reason]
    return found


# 3: plans ----------------------------------------------------------------------------------------


def _released(label: str, data: sf.Dataset, plan: sf.Plan) -> Entries:
    """A plan, what it releases in memory and on the disk, its manifest and its evidence."""
    found: Entries = {f"{label} plan": plan.text()}
    try:
        made = sf.protect(data, plan, key=KEY)
    except sf.SfumatoError as error:
        return {**found, f"{label} release": f"refused: {type(error).__name__}"}
    found[f"{label} release"] = exact(made.data)
    found[f"{label} manifest"] = lines(made.manifest)
    found[f"{label} steps"] = lines([dict(one) for one in made.fitted])
    found |= {
        f"{label} evidence {name}": evidence_numbers(one) for name, one in made.evidence.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        where = made.write(Path(folder) / "release", ledger=False)
        files = sorted(one for one in where.rglob("*") if one.is_file())
        found[f"{label} files"] = [str(one.relative_to(where)) for one in files]
        for one in files:
            if one.parent == where and one.stem == "data":
                # Bytes of other formats depend on the library that writes them.
                csv = one.suffix == ".csv"
                found[f"{label} file"] = (
                    one.read_bytes().decode() if csv else exact(sf.read(one).frame)
                )
    return found


def demo() -> Entries:
    """The plan of the demo on 1,500 people, and the cohort itself."""
    plan = _demo_plan()
    data = cohort(1500).with_schema(plan.schema)
    some = sf.datasets.simulated(
        cohort().frame.select("household_size", "sex", "survey_weight"), 50, seed=1
    )
    return {
        "cohort 300": exact(cohort().frame),
        "cohort 1500": exact(cohort(1500).frame),
        "cohort schema": sf.Plan(schema=sf.datasets.cohort_schema()).text(),
        "simulated": numbers(some),
        **_released("demo", data, plan),
    }


def families() -> Entries:
    """Three linked tables, persons with several visits, and tiers of noise and of categories."""
    from tests.adversary.test_tiers import CATEGORIES, DATA, release_tiers
    from tests.run.test_linked import KEYS, LESS, PERSON, make_hospital, make_plan

    frames = make_hospital(120)
    alike = sf.methods.KAnonymity(k=4)
    noise = sf.methods.Noise(variables=["age"], variance_share=0.1)
    plan = make_plan(
        shared=[alike, sf.methods.ShiftDates(window=28)],
        patients=[noise], targets={"k.min": 4}, evaluate=[LESS],
    )  # fmt: skip
    made = sf.protect(frames, plan, key=KEY)
    found: Entries = {"tables plan": plan.text(), "tables commented": plan.text(comments=True)}
    found |= {f"tables {name}": exact(pl.DataFrame(frame)) for name, frame in made.data.items()}
    found["tables manifest"] = lines(made.manifest)
    found["tables lights"] = lines(made.lights.plain())
    found |= {f"tables evidence {name}": evidence_numbers(e) for name, e in made.evidence.items()}
    found |= {f"tables attack {name}": evidence_numbers(e) for name, e in made.attacks.items()}
    with tempfile.TemporaryDirectory() as folder:
        where = made.write(Path(folder) / "release", ledger=False)
        listed = sorted(one for one in where.rglob("*") if one.is_file())
        found["tables files"] = [str(one.relative_to(where)) for one in listed]
        custody = json.loads((where / "custody" / "custody.json").read_text("utf-8"))
        found["tables custody"] = sorted(custody)
    linked = sf.LinkedTables(
        {name: sf.Dataset(pl.DataFrame(frame)) for name, frame in frames.items()},
        keys=KEYS, person=PERSON,
    )  # fmt: skip
    found["tables joined"] = exact(linked.join().frame)
    found |= persons()
    for case, (step, changes) in CATEGORIES.items():
        for tier, frame in release_tiers(step, changes, KEY).items():
            found[f"tiers {case} {tier}"] = exact(frame)
    sizes = [{"variance_share": size} for size in (0.1, 0.2, 0.4)]
    noised = sf.methods.Noise(variables=["bmi", "glucose"], variance_share=0.1)
    found |= {f"tiers noise {tier}": exact(frame)
              for tier, frame in release_tiers(noised, sizes, KEY).items()}  # fmt: skip
    assert len(DATA)
    return found


def persons() -> Entries:
    """What each method and measure makes of people who have several rows."""
    some = cohort().frame
    rows = np.random.default_rng(8).integers(0, 150, 300)
    visits = pl.DataFrame(some)[rows].with_columns(
        pl.Series("patient", [f"P{row:03d}" for row in rows]),
        pl.Series("visit", np.arange(300) % 7 + 20.0),
    )
    schema: dict[str, Any] = {
        **sf.datasets.cohort_schema(), "patient": "person", "visit": "quasi",
    }  # fmt: skip
    data = sf.Dataset(visits, sf.Schema(schema))
    blurred = sf.methods.Noise(variables=["visit"], variance_share=0.2).apply(data, key=KEY)
    found: Entries = {}
    for name, method in _entries("methods"):
        for at, example in enumerate(method.examples[:2]):
            made = attempted(partial(method(**example).apply, data, key=KEY))
            found[f"persons {name} {at}"] = made if isinstance(made, str) else exact(made.frame)
    for name, measure in _entries("risk", "utility"):
        for at, example in enumerate(measure.examples[:2]):
            pair = (data, blurred) if measure(**example).of == "pair" else (data,)
            take = partial(measure(**example).measure, *pair)
            found[f"persons {name} {at}"] = attempted(partial(_told, take))
    return found


def shared_plans() -> Entries:
    """The first plans of `sfumato inspect` for Titanic and for 3,000 records of Adult."""
    from typer.testing import CliRunner

    where, found = Path(os.environ["SFUMATO_DATA"]), Entries()
    with tempfile.TemporaryDirectory() as folder:
        for name, least in (("titanic", 1), ("adult", 10)):
            file, plan = Path(folder) / f"{name}.csv", Path(folder) / f"{name}.toml"
            told = (where / f"{name}.csv").read_text("utf-8").splitlines(keepends=True)
            file.write_text("".join([told[0], *told[1::least][:3000]]), "utf-8")
            done = CliRunner().invoke(_cli_app(), ["inspect", str(file), "--plan", str(plan)])
            if done.exit_code:
                raise RuntimeError(done.output)
            loaded = sf.Plan.load(plan)
            data = sf.read(file, **loaded.read).with_schema(loaded.schema)
            found |= _released(name, data, loaded)
    return found


# 4: figures --------------------------------------------------------------------------------------


def _people() -> pl.DataFrame:
    """The cohort with a time and an event, and without gaps."""
    names = ["height", "weight_kg", "systolic", "glucose", "sex", "smoking"]
    frame: pl.DataFrame = cohort(1500).frame.select(names).drop_nulls()
    return frame.with_columns(
        time=(pl.col("glucose") * 7).round(0), event=(pl.col("systolic") > 125).cast(int)
    )


def figures() -> Entries:
    """The protected values in every kind of figure under every protection, or its refusal."""
    import statsmodels.formula.api as smf

    frame = _people()
    model = smf.ols("systolic ~ height + weight_kg", frame.to_pandas()).fit()
    made: dict[str, Callable[..., Any]] = {
        "bar": lambda **to: sf.plots.bar(frame, "education", hue="sex", **to),
        "box": lambda **to: sf.plots.box(frame, ["height", "systolic"], by="sex", **to),
        "contour": lambda **to: sf.plots.contour(frame, "height", "weight_kg", **to),
        "density": lambda **to: sf.plots.density(frame, "glucose", hue="sex", **to),
        "heatmap": lambda **to: sf.plots.heatmap(frame, "height", "weight_kg", **to),
        "histogram": lambda **to: sf.plots.histogram(frame, "glucose", hue="sex", **to),
        "leverage": lambda **to: sf.plots.leverage(model, **to),
        "qq": lambda **to: sf.plots.qq(model, **to),
        "qq variable": lambda **to: sf.plots.qq(frame, "glucose", **to),
        "residuals": lambda **to: sf.plots.residuals(model, **to),
        "scatter": lambda **to: sf.plots.scatter(frame, "height", "weight_kg", hue="sex", **to),
        "survival": lambda **to: sf.plots.survival(frame, "time", "event", hue="sex", **to),
        "violin": lambda **to: sf.plots.violin(frame, "height", by="sex", **to),
    }
    found: Entries = {}
    for name, call in made.items():
        for way in WAYS:
            found[f"{name} {way or 'as usual'}"] = attempted(partial(_tried, call, way))
    found["forest as usual"] = _drawn(sf.plots.forest(model))
    found["forest suppress"] = _drawn(sf.plots.forest(model, protection="suppress"))
    compared = sf.plots.compare("scatter", frame.head(300), "height", "weight_kg", key=KEY)
    found["compare scatter"] = _drawn(compared)
    # A gallery is a page of comparisons.
    kinds = {name for name in dir(sf.plots) if name not in ("Plot", "gallery")}
    missing = kinds - {one.split()[0] for one in found}
    if missing:
        msg = f"no digest of the figures {sorted(missing)}"
        raise AssertionError(msg)
    return found


def _tried(call: Callable[..., Any], way: str | None) -> Numbers:
    return _drawn(call(protection=way, key=KEY))


def _drawn(plot: Any) -> Numbers:
    kept = {"audience": plot.audience, "verdict": plot.verdict, "rule": plot.rule,
            "details": plot.details, "table": plot.table}  # fmt: skip
    _close(plot)
    return numbers(kept)


def _close(picture: Any) -> None:
    import matplotlib.pyplot as plt

    plt.close(picture.figure)


def pictures() -> Entries:
    """What lies where in each picture, in the units of its axes; none of its words."""
    found: Entries = {}
    for name, draw in sorted(_sample_pictures().items()):
        picture = draw()
        axes = {str(at): _shapes(one) for at, one in enumerate(picture.figure.axes)}
        found[name] = numbers({"audience": picture.audience, **axes})
        _close(picture)
    return found


def _shapes(axes: Any) -> dict[str, Any]:
    """Lines, patches, collections and images in data coordinates."""
    shapes = []
    for one in axes.patches:
        moved = one.get_patch_transform().transform_path(one.get_path())
        shapes.append(moved.vertices)
    return {
        "lines": [np.asarray(one.get_xydata(), dtype=float) for one in axes.lines],
        "patches": shapes,
        "offsets": [np.asarray(one.get_offsets(), dtype=float) for one in axes.collections],
        "paths": [[path.vertices for path in one.get_paths()] for one in axes.collections],
        "images": [np.ma.filled(np.ma.asarray(one.get_array(), dtype=float), np.nan)
                   for one in axes.images],
    }  # fmt: skip


# 5: tables, models, searches ---------------------------------------------------------------------


def tables() -> Entries:
    """Cells shown and hidden, and what an attacker makes of them."""
    data = cohort(1500)
    asked: dict[str, Callable[[], Any]] = {
        "crosstab one": lambda: sf.tables.crosstab(data, "ethnicity"),
        "crosstab two": lambda: sf.tables.crosstab(data, "region", "diagnosis"),
        "crosstab nested": lambda: sf.tables.crosstab(
            data, ["sex", "smoking"], "education", subtotals=True, k=5
        ),
        "crosstab shares": lambda: sf.tables.crosstab(
            data, "region", "smoking", normalize="index", missing="leave out"
        ),
        "crosstab rounded": lambda: sf.tables.crosstab(
            data, "region", "diagnosis", protection="round", base=5
        ),
        "crosstab weighted": lambda: sf.tables.crosstab(
            data, "sex", "education", weights="survey_weight"
        ),
        "pivot mean": lambda: sf.tables.pivot(
            data, index="region", columns="sex", values="systolic"
        ),
        "pivot several": lambda: sf.tables.pivot(
            data, index="education", values="income", aggregate=["sum", "std", "median", "count"]
        ),
    }
    found: Entries = {}
    for label, make in asked.items():
        table = make()
        found[f"{label} cells"] = lines(table.cells)
        found[f"{label} frame"] = lines(table.frame)
        found[f"{label} attack"] = attempted(partial(_attacked, table))
        found[f"{label} verdict"] = lines({"verdict": table.verdict, "rule": table.rule})
    return found


def _attacked(table: Any) -> Numbers:
    return numbers(table.attack())


def fits() -> Entries:
    """The summaries of small fits, one of each engine and each quick look."""
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=(2, 200))
    group = np.arange(200) % 10
    y = 1 + 0.8 * x - 0.5 * z + 0.3 * rng.normal(size=10)[group] + rng.normal(size=200)
    frame = pl.DataFrame({"y": y, "x": x + 0.5 * rng.normal(size=200), "z": z, "g": group,
                          "yes": (y > 1).astype(int)})  # fmt: skip
    noise: Any = {"x": sf.Gaussian(variance=0.25)}
    some: Any = {"draws": 60, "chains": 2, "seed": 3}
    calls: dict[str, Callable[[], Any]] = {
        "saturated": lambda: sf.fit("y ~ x + z", frame, noise=noise, **some),
        "collapsed": lambda: sf.fit("y ~ x + z + (1 | g)", frame, noise=noise, **some),
        "marginal likelihood": lambda: sf.fit(
            "yes ~ x + z", frame, noise=noise, family="bernoulli", **some
        ),
        "metropolis": lambda: sf.fit(
            "y ~ x + I(x ** 2)", frame, noise=noise, shape="normal", **some
        ),
    }
    found: Entries = {}
    for engine, call in calls.items():
        made = call()
        if made.engine != engine:
            msg = f"fitted by {made.engine}, not {engine}"
            raise AssertionError(msg)
        found[f"{engine} summary"] = numbers(made.summary())
        found[f"{engine} efficiency"] = numbers({one["term"]: one for one in made.efficiency_rows})
    for method in ("moments", "calibration", "simex"):
        made = sf.fit("y ~ x + z", frame, noise=noise, method=method, seed=3)
        found[f"{method} summary"] = numbers(made.summary())
    return found


NAMES = ["person_id", "sex", "region", "height", "household_size", "systolic", "diagnosis"]


def searches() -> Entries:
    """The tables of sweep, tune, calibrate, efficiency, recommend and of its parts."""
    whole = cohort(300)
    schema = sf.Schema({name: whole.schema[name] for name in NAMES})
    data = sf.Dataset(whole.frame.select(NAMES).head(200), schema)
    plan = sf.Plan(
        schema=schema,
        steps=[sf.methods.Drop(), sf.methods.KAnonymity(k=8)],
        targets={"k.min": 5},
        evaluate=[sf.utility.InformationLoss()],
    )
    swept = sf.sweep(data, plan, over={"k_anonymity.k": [3, 6]}, sizes=[100, 200], repeats=2)
    tuned = sf.tune(data, plan, runs=5, repeats=1, workers=1, key=KEY)
    size = sf.calibrate(
        data, ["height", "systolic"], known=["height", "systolic"], mean_h=2, draws=3
    )
    cost = sf.efficiency(whole, {"height": sf.Gaussian(variance=20.0)}, "systolic ~ height + sex")
    known = ["sex", "region", "household_size", "height"]
    alone = sf.peering.recommend(data, "diagnosis", known, enough=0.9)
    joint = sf.peering.recommend_jointly(data, "diagnosis", known, enough=0.9)
    gained = sf.peering.gains(data, "diagnosis", known)
    return {
        "sweep": numbers(swept),
        "tune table": numbers(tuned.table),
        "tune plans": "\n\n".join(one.plan.text() for one in tuned.candidates),
        "tune best": tuned.plan.text(),
        "calibrate table": numbers(size.table),
        "calibrate groups": numbers(size.groups),
        "calibrate chosen": numbers([size.met, size.share, size.achieved, size.error, size.worst]),
        "calibrate step": sf.Plan(steps=[size.step]).text(),
        "efficiency": numbers({"ratio": cost.determinant_ratio, "table": cost.table}),
        "recommend table": numbers(alone.table),
        "recommend steps": sf.Plan(steps=alone.steps).text(),
        "recommend jointly table": numbers(joint.table),
        "recommend jointly": numbers([joint.before, joint.protected, joint.reached]),
        "recommend jointly steps": sf.Plan(steps=joint.steps).text(),
        "gains": numbers({"table": gained.table, "peers": gained.peers}),
        "widths": numbers(sf.peering.widths(data, "diagnosis", "household_size", known)),
        **{f"assess {name}": evidence_numbers(one) for name, one in sf.assess(data).items()},
        "hierarchies": numbers(
            [
                sf.hierarchies.intervals(18, 40, [2, 6]),
                sf.hierarchies.prefixes(["01067", "01099", "20095"], keep=[3, 1]),
                sf.hierarchies.dates(dt.date(2020, 5, 1), dt.date(2020, 9, 2)),
            ]
        ),
    }


# 6: public names ---------------------------------------------------------------------------------


def names() -> Entries:
    """Every public name with its parameters; of a class its public members too."""
    found: Entries = {"sf": sorted(name for name in dir(sf) if name != "__version__")}
    for name in found["sf"]:
        if not inspect.ismodule(getattr(sf, name)):
            found |= _named(f"sf.{name}", getattr(sf, name))
    for room in ROOMS:
        inside = getattr(sf, room)
        found[f"sf.{room}"] = _public(inside)
        for name in found[f"sf.{room}"]:
            found |= _named(f"sf.{room}.{name}", getattr(inside, name))
    return found


def _public(module: Any) -> list[str]:
    """The names a module says are its own; without a list, those that are made in it."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    made = [
        name
        for name in dir(module)
        if not name.startswith("_")
        and getattr(getattr(module, name), "__module__", "").startswith("sfumato.")
    ]
    home = [one for one in made if getattr(module, one).__module__.startswith(module.__name__)]
    return sorted(home)


def _named(label: str, thing: Any) -> Entries:
    if inspect.isclass(thing):
        return {label: [_signature(thing)], f"{label} members": _members(thing)}
    return {label: [_signature(thing) if callable(thing) else _settled(repr(thing))]}


# Class attributes that came with the issue that this table was made for: they take the place of
# lists elsewhere, and nothing that was there before is gone or changed by them.
_ADDED = {"aspect", "attack", "attacks", "picture", "runs_on", "strength", "treats"}


def _members(thing: type) -> list[str]:
    """What may be called or looked at, as far as it is Sfumato's own."""
    own: dict[str, Any] = {}
    for base in reversed(thing.__mro__):
        if base.__module__.split(".")[0] == "sfumato":
            own |= dict.fromkeys(getattr(base, "__annotations__", {}), None) | vars(base)
    if dataclasses.is_dataclass(thing):
        own |= {one.name: None for one in dataclasses.fields(thing)}
    made = []
    added = _ADDED if hasattr(thing, "examples") else set()
    for name in sorted(own):
        if name.startswith("_") or name in added:
            continue
        one = inspect.unwrap(getattr(own[name], "__func__", own[name]))
        made.append(f"{name}{_signature(one)}" if inspect.isfunction(one) else name)
    return made


def _signature(thing: Any) -> str:
    """Names, kinds and defaults of the parameters, without annotations."""
    try:
        told = inspect.signature(thing)
    except ValueError:
        return "(...)"
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in told.parameters.values()]
    return _settled(str(told.replace(parameters=plain, return_annotation=inspect.Signature.empty)))


def _settled(text: str) -> str:
    """Without addresses in memory and without the modules that things live in."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"\bsfumato(?:\.\w+)*\.(?=\w)", "", text)


# 7: the command line -----------------------------------------------------------------------------


def commands() -> Entries:
    """Every command with its options and arguments, a line for each, without help texts."""
    import typer

    found: Entries = {}

    def walk(command: Any, label: str) -> None:
        settings = {key: one for key, one in command.context_settings.items() if key != "obj"}
        below = sorted(command.list_commands(None)) if hasattr(command, "list_commands") else []
        found[label] = [f"commands: {' '.join(below)}"] if below else []
        found[label] += [f"{key}: {one!r}" for key, one in sorted(settings.items())]
        for one in command.params:
            if str(one.name).endswith("_completion"):
                continue  # typer's own, and not alike in every shell
            found[f"{label} {'/'.join((*one.opts, *one.secondary_opts))}"] = [_option(one)]
        for name in below:
            walk(command.get_command(None, name), f"{label} {name}")

    walk(typer.main.get_command(_cli_app()), "sfumato")
    return found


def _option(one: Any) -> str:
    described = getattr(one, "type_descriptor", None)
    kind = getattr(described, "annotation", None) or getattr(one, "type", None)
    marks = ("min", "max", "required", "nargs", "multiple", "is_flag", "is_eager", "count",
             "hidden", "envvar")  # fmt: skip
    kept = {
        "type": _settled(kind.__name__ if type(kind) is type else repr(kind)),
        "default": _settled(repr(one.default)),
        **{mark: getattr(one, mark, None) for mark in marks},
    }
    usual = {"nargs": 1}
    told = {
        key: value
        for key, value in kept.items()
        if value is not None and value is not False and value != usual.get(key)
    }
    return json.dumps(told)


# 8: the fields of a plan -------------------------------------------------------------------------

_SECTIONS = {
    "version": "version = 1",
    "read": '[read]\nencoding = "utf-8"',
    "columns": '[columns]\nage = "quasi"',
    "steps": '[[steps]]\nmethod = "drop"',
    "targets": "[targets]\nk.min = 5",
    "evaluate": "[evaluate.own]\nmeasure = 'uniqueness'",
    "release": "[release]\nkeep_order = true",
}
_READING = {
    "delimiter": '";"',
    "decimal": '","',
    "encoding": '"utf-8"',
    "missing": '["-9"]',
    "types": '{ age = "text" }',
    "dates": '{ age = "%d.%m.%Y" }',
    "columns": '["age"]',
    "sheet": '"one"',
    "table": '"one"',
    "query": '"select 1"',
}


def fields() -> Entries:
    """Sections and keys of a plan, and the parameters of every method and measure."""
    found: Entries = {
        f"section {name}": [_parsed(text)] for name, text in (*_SECTIONS.items(), ("zzz", "zzz=1"))
    }
    for name, value in (*_READING.items(), ("zzz", "1")):
        found[f"read {name}"] = [_parsed(f"[read]\n{name} = {value}")]
    for label, one in (("columns", sf.Column), ("release", type(sf.Plan().release))):
        for field in dataclasses.fields(one):
            default = field.default if field.default is not dataclasses.MISSING else "required"
            found[f"{label} {field.name}"] = [f"{field.type} = {_settled(repr(default))}"]
    for kind, rooms in (("steps", ("methods",)), ("evaluate", ("risk", "utility"))):
        for name, entry in _entries(*rooms):
            for told in _parameters_of(entry):
                value = "required" if told.required else f"= {_settled(repr(told.default))}"
                found[f"{kind} {name} {told.name}"] = [f"{told.type} {value}"]
    for name, entry in _entries("risk", "utility"):
        meanings = [
            f"{one.name}: {one.counts}, {one.lowest:g} to {one.highest:g}, safer {one.safer}, "
            f"useful {one.useful}"
            for one in entry.numbers
        ]
        found[f"targets {name}"] = [f"of {entry.of}", entry.direction, *meanings]
    return found


def _parsed(text: str) -> str:
    """How a plan reads this, written again."""
    return str(attempted(lambda: sf.Plan.parse(text).text()))


# The table ---------------------------------------------------------------------------------------

GROUPS: dict[str, Callable[[], Entries]] = {
    "methods": methods,
    "measures": measures,
    "demo": demo,
    "families": families,
    "shared plans": shared_plans,
    "figures": figures,
    "pictures": pictures,
    "tables": tables,
    "fits": fits,
    "searches": searches,
    "names": names,
    "commands": commands,
    "fields": fields,
}


def digest(payload: Any) -> Any:
    """A short SHA-256 of a text; a list of readable texts as it is."""
    if isinstance(payload, str) and not payload.startswith("refused: "):
        return hashlib.sha256(payload.encode()).hexdigest()[:16]
    return payload


def computed(group: str) -> dict[str, Any]:
    """The entries of a group as the table has them."""
    return {f"{group}: {name}": digest(one) for name, one in GROUPS[group]().items()}


def kept() -> dict[str, Any]:
    """The table as it lies beside this file."""
    found: dict[str, Any] = json.loads(TABLE.read_text("utf-8"))
    return found


def differences(group: str, made: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """What differs, by name: gone, new or changed."""
    mine = {name: one for name, one in before.items() if name.startswith(f"{group}: ")}
    told = []
    for name in sorted({*mine, *made}):
        if name not in made:
            told.append(f"gone: {name}")
        elif name not in mine:
            told.append(f"new: {name}")
        elif isinstance(mine[name], dict) and isinstance(made[name], dict):
            changed = list_changed_numbers(mine[name], made[name])
            told += [f"changed: {name}\n    {line}" for line in changed]
        elif mine[name] != made[name]:
            told.append(f"changed: {name}\n    was {mine[name]}\n    is  {made[name]}")
    return told


def write(entries: Mapping[str, Any]) -> None:
    """Write the table: sorted, a line for each entry."""
    told = [f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}"
            for name, one in sorted(entries.items())]  # fmt: skip
    TABLE.write_text("{\n" + ",\n".join(told) + "\n}\n", "utf-8")


def main(words: list[str] | None = None) -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description="The table of digests.")
    parser.add_argument("--write", action="store_true", help="rewrite the table")
    parser.add_argument("--only", choices=[*GROUPS], nargs="+", help="these groups only")
    parser.add_argument("--dump", type=Path, help="a folder for what is behind each digest")
    parser.add_argument("--prose", type=Path, help="a file for the words of the evidence")
    asked = parser.parse_args(words)
    if asked.prose is not None:
        asked.prose.write_text(json.dumps(prose(), indent=1, ensure_ascii=False), "utf-8")
        return 0
    groups = asked.only or [*GROUPS]
    if "shared plans" in groups and not os.environ.get("SFUMATO_DATA"):
        parser.error("set SFUMATO_DATA first, or say --only GROUP ...")
    before = kept() if TABLE.exists() else {}
    after = {name: one for name, one in before.items() if name.partition(":")[0] not in groups}
    told: list[str] = []
    for group in groups:
        payloads = {f"{group}: {name}": one for name, one in GROUPS[group]().items()}
        if asked.dump is not None:
            asked.dump.mkdir(parents=True, exist_ok=True)
            for name, one in payloads.items():
                parts = [f"{k}: {v}" for k, v in one.items()] if isinstance(one, dict) else one
                text = parts if isinstance(parts, str) else "\n".join(parts)
                file = re.sub(r"[^\w.=-]+", "_", name)
                (asked.dump / f"{file}.txt").write_text(text + "\n", "utf-8")
        made = {name: digest(one) for name, one in payloads.items()}
        told += differences(group, made, before)
        after |= made
        sys.stderr.write(f"{group}: {len(made)} entries\n")
    sys.stdout.write("".join(f"{one}\n" for one in told))
    if asked.write:
        write(after)
        return 0
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
