"""What an analyst received: the records, and the published description of the noise in them."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from sfumato.analysis.generalised_cells import looks_generalised
from sfumato.analysis.measurement_error import NoiseByStratum, strata_variables
from sfumato.data import Dataset, read
from sfumato.errors import DataError, SfumatoError
from sfumato.io.json_reader import parse_json
from sfumato.noise.description import (
    NoiseDescription,
    StratifiedGaussian,
    read_description,
    read_descriptions,
)
from sfumato.schema import Schema

_ONLY_NAMES = ("pseudonymise",)
"""Methods after which records of one group still share a value."""
_FEWEST = 2
_CUT = "topcode"
_NOISE = ("noise", "correlated_noise", "code_noise", "misclassify")
"""Methods whose noise is described."""
_RENAME = ("recode",)
"""Methods after which a variable is another one, of which a model can be had."""
_CLUSTER = ("k_anonymity", "l_diversity", "t_closeness")
"""Methods that write one cell for all records of a cluster."""


class Clustered(NamedTuple):
    """The variables that were clustered together, and the fewest records of a cluster.

    With `apart`, any two clusters are apart in one of the variables, and only cells were written.
    """

    variables: tuple[str, ...]
    k: int
    apart: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseInput:
    """Released records and the description of their noise.

    Parameters
    ----------
    data : the released records.
    noise : the description of the noise of each variable of the model that has one.
    changed : which other methods changed each variable, if they wrote more than ranges and sets.
    generalised : the variables of the model whose cells are ranges, sets, masks or `*`.
    clustered : for each variable whose ranges are the narrowest on a grid that hold all records of
        a cluster, how they were clustered.
    cut : the limits of each variable to which values beyond were set, and nothing else was done.
    """

    data: Dataset
    noise: Mapping[str, NoiseDescription]
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generalised: frozenset[str] = frozenset()
    clustered: Mapping[str, Clustered] = field(default_factory=dict)
    cut: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def read_release_input(
    release: Any,
    noise: Mapping[str, Any] | None,
    names: Collection[str],
    accredited: Any = None,
    clean: Collection[str] = (),
) -> ReleaseInput:
    """Bring a release, its folder, a file or a frame into one form.

    Parameters
    ----------
    release : a `Release`, what `open_release` returns, a folder, a file, a `Dataset` or a frame.
    noise : descriptions written by hand; those of the manifest where None.
    names : the variables of the model.
    accredited : the manifest for accredited analysts, or where it lies.
    clean : variables to take as they are.
    """
    data, manifest, described = _open_release(release)
    if accredited is not None:
        described = _read_accredited_noise(accredited, manifest)
    by_hand = {
        name: _read_description_of(name, description) for name, description in (noise or {}).items()
    }
    data.schema.require(by_hand)
    generalised = frozenset(
        name
        for name in names
        if name in data.schema and data.schema[name].generalised and name not in clean
    )
    if manifest is None:
        _refuse_undeclared_cells(data, {*names} - generalised - {*clean})
        if noise is None and not generalised:
            raise DataError(
                "Nothing says what the noise in these data is.",
                hint="pass a release folder; or describe the noise: --noise noise.toml, in Python "
                'noise={"x": sf.Gaussian(variance=0.2)}.',
            )
        return ReleaseInput(
            data=data, noise=_wrap_stratified_noise(by_hand), generalised=generalised
        )
    missing = [name for name in names if name not in by_hand]
    descriptions = {**read_descriptions(described, missing), **by_hand} if described else by_hand
    steps = _list_steps(manifest, data, release)
    changed = _list_changes(steps, data.schema)
    cut = {
        name: _find_limits(name, steps, data)
        for name, methods in changed.items()
        if methods == (_CUT,) and name in names and name not in {*clean, *descriptions}
    }
    return ReleaseInput(
        data=data,
        noise=_wrap_stratified_noise(descriptions),
        changed={name: methods for name, methods in changed.items() if name not in cut},
        cut=cut,
        generalised=generalised,
        clustered=_find_clustered_variables(steps, data.schema),
    )


def _refuse_undeclared_cells(data: Dataset, names: Collection[str]) -> None:
    """Refuse ranges and sets that nobody declared: they would become categories."""
    for name in sorted(names):
        if name in data.schema and looks_generalised(data.column(name)):
            raise DataError(
                f"Variable '{name}' has cells that look like ranges or sets, and nothing says "
                "that they are.",
                hint="pass a release folder, or a Dataset whose schema declares cells = "
                f"\"generalised\"; or name '{name}' in `clean` to treat each cell as a category.",
            )


def _wrap_stratified_noise(noise: Mapping[str, NoiseDescription]) -> dict[str, NoiseDescription]:
    """Descriptions by variable, those that differ by stratum ready to be looked up by record."""
    return {
        name: NoiseByStratum(description)
        if isinstance(description, StratifiedGaussian)
        else description
        for name, description in noise.items()
    }


def open_once(release: Any) -> Any:
    """The same with a folder or a file opened, so that it is not read again and again."""
    from sfumato.release import Release
    from sfumato.storage.opening import OpenedRelease, open_release

    if isinstance(release, (str, Path)):
        return open_release(Path(release)) if Path(release).is_dir() else read(release)
    return release if isinstance(release, (Release, OpenedRelease, Dataset)) else Dataset(release)


def _open_release(release: Any) -> tuple[Dataset, Mapping[str, Any] | None, Mapping[str, Any]]:
    """The records, the public manifest, and the descriptions of noise."""
    from sfumato.release import Release
    from sfumato.storage.opening import OpenedRelease, open_release

    # The custodian, who holds the release, has the accredited manifest as well.
    if isinstance(release, Release):
        full = release.accredited or release.manifest
        return release.dataset, release.manifest, full.get("noise", {})
    if isinstance(release, (str, Path)):
        where = Path(release)
        if not where.is_dir():
            return read(release), None, {}
        release = open_release(where)
    if isinstance(release, OpenedRelease):
        return release.dataset, release.manifest, release.noise
    return release if isinstance(release, Dataset) else Dataset(release), None, {}


def _read_accredited_noise(
    manifest_or_path: Any, manifest: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """The noise in an accredited manifest, which must be that of this release."""
    from sfumato.noise.description import is_accredited_version

    accredited = manifest_or_path
    if not isinstance(manifest_or_path, Mapping):
        try:
            accredited = parse_json(Path(manifest_or_path).read_bytes())
        except (OSError, ValueError):
            accredited = None
    if not isinstance(accredited, Mapping):
        raise DataError(
            "The manifest for accredited analysts cannot be read.",
            hint="pass the file accredited/manifest.json that you got from the custodian.",
        )
    if manifest is None or not (
        accredited == manifest or is_accredited_version(accredited, manifest)
    ):
        raise DataError(
            "The manifest for accredited analysts is not that of this release.",
            hint="ask the custodian for the one that belongs to it.",
        )
    noise: Mapping[str, Any] = accredited.get("noise", {})
    return noise


def _read_description_of(name: str, description: Any) -> NoiseDescription:
    if isinstance(description, NoiseDescription):
        return description
    if isinstance(description, Mapping):
        return read_description(name, description)
    raise DataError(
        f"The noise of variable '{name}' is not described.",
        hint="pass a description such as sf.Gaussian(variance=0.2).",
    )


class _PublishedStep(NamedTuple):
    """A step of the plan, as far as it is published.

    Parameters
    ----------
    method : its name.
    variables : those it changed.
    output : what it wrote, for all of them or by variable; None where it has no choice.
    grid : by variable, the grid that was declared for ranges.
    k : the fewest records of a cluster; the fewest there can be where it is not published.
    limits : what was cut off, below and above: None is nothing, NaN a quantile.
    apart : whether clusters were cut apart: by Mondrian, and not within strata.
    """

    method: str
    variables: tuple[str, ...]
    output: Any
    grid: Mapping[str, Any]
    k: int
    limits: tuple[float | None, float | None]
    apart: bool

    def output_of(self, name: str) -> Any:
        """What it wrote into a variable."""
        return self.output.get(name, "range") if isinstance(self.output, Mapping) else self.output


def _list_steps(manifest: Mapping[str, Any], data: Dataset, release: Any) -> list[_PublishedStep]:
    from sfumato.release import Release

    if isinstance(release, Release):
        schema = release.original.schema
        return [
            _PublishedStep(
                step.name,
                step.touches(schema),
                getattr(step, "output", None),
                getattr(step, "grid", {}),
                int(getattr(step, "k", _FEWEST)),
                _read_limits(vars(step)),
                _are_cut_apart(step.name, vars(step)),
            )
            for step in release.plan.steps
        ]
    return [
        _PublishedStep(
            str(step.get("method")),
            _find_touched_variables(step, data.schema),
            step.get("output"),
            step.get("grid") or {},
            int(step.get("k") or _FEWEST),
            _read_limits(step),
            _are_cut_apart(str(step.get("method")), step),
        )
        for step in manifest.get("methods", [])
    ]


def _read_limits(parameters: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The limits of a step that cuts off; a limit by quantile can be read off the data."""
    bottom, top = (
        math.nan if parameters.get(f"{side}_quantile") is not None else parameters.get(side)
        for side in ("bottom", "top")
    )
    return bottom, top


def _find_limits(name: str, steps: Sequence[_PublishedStep], data: Dataset) -> tuple[float, float]:
    """The limits to which values were set, infinite where none was."""
    values = data.column(name)
    if not values.dtype.is_numeric() or values.is_null().all():
        return -math.inf, math.inf
    stated = next(step.limits for step in steps if step.method == _CUT and name in step.variables)
    least, most = (float(cast("float", end)) for end in (values.min(), values.max()))
    # The limit of a whole number moved inwards; either way it is the outermost value that is left.
    bottom = (
        least
        if stated[0] is not None and (math.isnan(stated[0]) or least - stated[0] < 1)
        else -math.inf
    )
    top = (
        most
        if stated[1] is not None and (math.isnan(stated[1]) or stated[1] - most < 1)
        else math.inf
    )
    return bottom, top


def _are_cut_apart(method: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a step cuts clusters apart. Ranges are Mondrian's unless another is named."""
    by_cuts = (parameters.get("clustering") or "mondrian") == "mondrian"
    # Without its k nobody knows which clusters were written alike.
    return method in _CLUSTER and by_cuts and "k" in parameters and not parameters.get("strata")


def _list_changes(steps: Sequence[_PublishedStep], schema: Schema) -> dict[str, tuple[str, ...]]:
    """Which methods changed each variable, but for those that wrote nothing but cells."""
    changed: dict[str, tuple[str, ...]] = {}
    for step in steps:
        for name in step.variables:
            if not _writes_cells(step, name, schema):
                changed[name] = (*changed.get(name, ()), step.method)
    return changed


def _writes_cells(step: _PublishedStep, name: str, schema: Schema) -> bool:
    """Whether a step leaves a value or a cell that holds it, and never another value."""
    if step.method not in (*_CLUSTER, "coarsen"):
        return False
    output = step.output_of(name)
    # The name of a group can be read only by somebody who knows the groups.
    named = output == "level" and name in schema and bool(schema[name].hierarchy)
    return output in ("range", "set") or (named and schema[name].generalised)


def _find_clustered_variables(
    steps: Sequence[_PublishedStep], schema: Schema
) -> dict[str, Clustered]:
    """The variables whose ranges are as narrow as their clusters allow, on a grid of round numbers.

    Only where one step wrote the ranges, and no step is unknown: another might have left records
    out. Groups of a hierarchy and grids that a plan declares are not those of round numbers.
    """
    from sfumato import catalogue

    known = {
        name for name, kind in catalogue.methods().items() if kind.__module__.startswith("sfumato.")
    }
    if not all(step.method in known for step in steps):
        return {}
    clustered: dict[str, Clustered] = {}
    for step in steps:
        together = tuple(name for name in step.variables if name in schema)
        apart = step.apart and all(
            step.output_of(name) in ("range", "set")
            and sum(name in other.variables for other in steps) == 1
            for name in together
        )
        for name in together if step.method in _CLUSTER else ():
            touched = sum(name in other.variables for other in steps)
            round_grid = name not in step.grid and not schema[name].hierarchy
            if touched == 1 and round_grid and step.output_of(name) == "range":
                clustered[name] = Clustered(together, step.k, apart)
    return clustered


def _find_touched_variables(published: Mapping[str, Any], schema: Schema) -> tuple[str, ...]:
    """The variables that a method of a manifest changed; rather too many than too few."""
    from sfumato import catalogue

    if isinstance(names := published.get("variables"), list):
        return tuple(map(str, names))
    kind = catalogue.methods().get(str(published.get("method")))
    try:
        if kind is not None:
            parameters = {name: value for name, value in published.items() if name != "method"}
            return kind(**parameters).touches(schema)
    except (SfumatoError, TypeError, ValueError):
        pass  # what is published need not be all the parameters
    # The parameters cannot be read: every variable that they might mean was changed.
    named = {name for name in schema if name in json.dumps(published, ensure_ascii=False)}
    return tuple(named or schema)


def require_descriptions(
    release: ReleaseInput, names: Collection[str], groups: Collection[str], clean: Collection[str]
) -> None:
    """Refuse variables that a method changed in a way that nothing describes."""
    release.data.schema.require([*names, *clean])
    _require_strata(release, names, clean)
    more = _find_more_changes(release, names)
    both = sorted(set(clean) & set(release.noise) - set(more))
    if both:
        raise DataError(
            f"These variables are named in `clean`, and have noise: {', '.join(both)}.",
            hint="leave them out of `clean`.",
        )
    _require_single_change(release, groups)
    lost = {name: methods for name, methods in more.items() if name not in clean}
    if lost:
        changes = "; ".join(f"'{name}' by {', '.join(how)}" for name, how in lost.items())
        raise DataError(
            "Noise can be taken out of these variables, but not what else was done to them: "
            f"{changes}.",
            hint="leave them out of the formula; or name them in `clean`: then the noise is taken "
            "out, and the model is that of the values before noise was added.",
        )
    wrong = {}
    # A pseudonym keeps groups apart as the name did, so it may be the group of a model.
    for name in names:
        methods = release.changed.get(name, ())
        if name in groups:
            methods = tuple(method for method in methods if method not in _ONLY_NAMES)
        if methods and name not in release.noise and name not in clean:
            wrong[name] = methods
    if wrong:
        changes = "; ".join(f"'{name}' by {', '.join(how)}" for name, how in wrong.items())
        raise DataError(
            f"These variables were changed, and no description says how to undo it: {changes}.",
            hint="leave them out of the formula, or name them in `clean` to take them as they are.",
        )


def _find_more_changes(release: ReleaseInput, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """By noised variable, the methods besides noise that changed its values, and not its name."""
    harmless = (*_NOISE, *_RENAME, *_ONLY_NAMES)
    more = {
        name: tuple(method for method in release.changed.get(name, ()) if method not in harmless)
        for name in names
        if name in release.noise
    }
    return {name: methods for name, methods in more.items() if methods}


def _require_single_change(release: ReleaseInput, groups: Collection[str]) -> None:
    """Refuse cells of noised values, and cells where groups should be known."""
    if both := sorted(release.generalised & set(release.noise)):
        raise DataError(
            f"These variables were generalised, and have noise: {', '.join(both)}.",
            hint="there is no model for both; leave them out of the formula.",
        )
    for group in sorted(release.generalised.intersection(groups)):
        raise DataError(
            f"Variable '{group}' was generalised, so nobody knows the groups.",
            hint="use a variable that was released as it is.",
        )


def _require_strata(release: ReleaseInput, names: Collection[str], clean: Collection[str]) -> None:
    """Refuse noise that differs by a variable whose true values are not known any more."""
    for name in names:
        by = strata_variables(release.noise[name]) if name in release.noise else []
        gone = sorted(set(by) - set(release.data.schema))
        moved = [
            variable
            for variable in by
            if variable in release.noise
            or release.changed.get(variable)
            or (variable in release.data.schema and release.data.schema[variable].generalised)
        ]
        lost = gone or [variable for variable in moved if variable not in clean]
        if lost:
            how = "is not in the data" if gone else "was changed as well"
            raise DataError(
                f"The noise of '{name}' differs by '{lost[0]}', which {how}: nobody knows which "
                "noise a record has.",
                hint=f"leave '{name}' out of the formula, or ask the custodian for "
                f"'{lost[0]}' as it was.",
            )
