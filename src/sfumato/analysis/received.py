"""What an analyst received: the records, and what is told of the noise in them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.analysis.measured import strata_of
from sfumato.analysis.stratified import ByStratum
from sfumato.cells.noise.described import Noise, StratifiedGaussian, one_from
from sfumato.cells.noise.described import read as read_noise
from sfumato.data import Dataset, read
from sfumato.errors import DataError, SfumatoError
from sfumato.schema import Schema

_ONLY_NAMES = ("pseudonymise",)
"""Methods after which records of one group still share a value."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Received:
    """Records and what is told of them.

    Parameters
    ----------
    data : the released records.
    noise : the description of the noise of each variable of the model that has one.
    changed : which other methods changed each variable.
    """

    data: Dataset
    noise: Mapping[str, Noise]
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def received(
    release: Any,
    noise: Mapping[str, Any] | None,
    names: Collection[str],
    accredited: Any = None,
) -> Received:
    """Bring a release, its folder, a file or a frame into one form.

    Parameters
    ----------
    release : a `Release`, what `open_release` returns, a folder, a file, a `Dataset` or a frame.
    noise : descriptions written by hand; those of the manifest where None.
    names : the variables of the model.
    accredited : the manifest for accredited analysts, or where it lies.
    """
    data, manifest, told = _opened(release)
    if accredited is not None:
        told = _accredited(accredited, manifest)
    by_hand = {name: _described(name, one) for name, one in (noise or {}).items()}
    data.schema.require(by_hand)
    if manifest is None:
        if noise is None:
            raise DataError(
                "Nothing says what the noise in these data is.",
                hint="pass a release folder; or describe the noise: --noise noise.toml, in Python "
                'noise={"x": sf.Gaussian(variance=0.2)}.',
            )
        return Received(data=data, noise=_by_stratum(by_hand))
    wanted = [name for name in names if name not in by_hand]
    found = {**read_noise(told, wanted), **by_hand} if told else by_hand
    changed = _changed(manifest, data, release)
    return Received(data=data, noise=_by_stratum(found), changed=changed)


def _by_stratum(noise: Mapping[str, Noise]) -> dict[str, Noise]:
    """Descriptions by variable; of noise that differs by stratum one that knows where to look."""
    return {
        name: ByStratum(one) if isinstance(one, StratifiedGaussian) else one
        for name, one in noise.items()
    }


def _opened(release: Any) -> tuple[Dataset, Mapping[str, Any] | None, Mapping[str, Any]]:
    """The records, the public manifest, and what is told of noise."""
    from sfumato.release import Release
    from sfumato.storage.opened import Opened, open_release

    if isinstance(release, Release):
        full = release.accredited or release.manifest
        return release.dataset, release.manifest, full.get("noise", {})
    if isinstance(release, (str, Path)):
        where = Path(release)
        if not where.is_dir():
            return read(release), None, {}
        release = open_release(where)
    if isinstance(release, Opened):
        return release.dataset, release.manifest, release.noise
    return release if isinstance(release, Dataset) else Dataset(release), None, {}


def _accredited(given: Any, manifest: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What an accredited manifest tells of noise; it must be that of this release."""
    from sfumato.cells.noise.published import belongs

    full = given
    if not isinstance(given, Mapping):
        try:
            full = json.loads(Path(given).read_text("utf-8"))
        except (OSError, ValueError):
            full = None
    if not isinstance(full, Mapping):
        raise DataError(
            "The manifest for accredited analysts cannot be read.",
            hint="pass the file accredited/manifest.json that you got from the custodian.",
        )
    if manifest is None or not (full == manifest or belongs(full, manifest)):
        raise DataError(
            "The manifest for accredited analysts is not that of this release.",
            hint="ask the custodian for the one that belongs to it.",
        )
    noise: Mapping[str, Any] = full.get("noise", {})
    return noise


def _described(name: str, told: Any) -> Noise:
    if isinstance(told, Noise):
        return told
    if isinstance(told, Mapping):
        return one_from(name, told)
    raise DataError(
        f"The noise of variable '{name}' is not described.",
        hint="pass a description such as sf.Gaussian(variance=0.2).",
    )


def _changed(
    manifest: Mapping[str, Any], data: Dataset, release: Any
) -> dict[str, tuple[str, ...]]:
    """Which methods changed each variable."""
    from sfumato.release import Release

    made: dict[str, tuple[str, ...]] = {}
    if isinstance(release, Release):
        schema = release.original.schema
        steps = [(one.name, one.touches(schema)) for one in release.plan.steps]
    else:
        told = manifest.get("methods", [])
        steps = [(str(one.get("method")), _touched(one, data.schema)) for one in told]
    for method, names in steps:
        for name in names:
            made[name] = (*made.get(name, ()), method)
    return made


def _touched(told: Mapping[str, Any], schema: Schema) -> tuple[str, ...]:
    """The variables that a method of a manifest changed; rather too many than too few."""
    from sfumato import catalogue

    if isinstance(names := told.get("variables"), list):
        return tuple(map(str, names))
    kind = catalogue.methods().get(str(told.get("method")))
    try:
        if kind is not None:
            parameters = {name: value for name, value in told.items() if name != "method"}
            return kind(**parameters).touches(schema)
    except (SfumatoError, TypeError, ValueError):
        pass  # what is published need not be all that was given
    named = {name for name in schema if name in json.dumps(told, ensure_ascii=False)}
    return tuple(named or schema)


def require_known(
    got: Received, names: Collection[str], group: str | None, clean: Collection[str]
) -> None:
    """Refuse variables that something changed without anybody saying how."""
    got.data.schema.require([*names, *clean])
    _require_strata(got, names, clean)
    both = sorted(set(clean) & set(got.noise))
    if both:
        raise DataError(
            f"These variables are named in `clean`, and have noise: {', '.join(both)}.",
            hint="leave them out of `clean`.",
        )
    wrong = {}
    for name in names:
        methods = got.changed.get(name, ())
        if name == group:
            methods = tuple(one for one in methods if one not in _ONLY_NAMES)
        if methods and name not in got.noise and name not in clean:
            wrong[name] = methods
    if wrong:
        said = "; ".join(f"'{name}' by {', '.join(how)}" for name, how in wrong.items())
        raise DataError(
            f"These variables were changed, and no description says how to undo it: {said}.",
            hint="leave them out of the formula, or name them in `clean` to take them as they are.",
        )


def _require_strata(got: Received, names: Collection[str], clean: Collection[str]) -> None:
    """Refuse noise that differs by a variable which nobody knows any more."""
    for name in names:
        by = strata_of(got.noise[name]) if name in got.noise else []
        gone = sorted(set(by) - set(got.data.schema))
        moved = [one for one in by if one in got.noise or got.changed.get(one)]
        lost = gone or [one for one in moved if one not in clean]
        if lost:
            how = "is not in the data" if gone else "was changed as well"
            raise DataError(
                f"The noise of '{name}' differs by '{lost[0]}', which {how}: nobody knows which "
                "noise a record has.",
                hint=f"leave '{name}' out of the formula, or ask the custodian for "
                f"'{lost[0]}' as it was.",
            )
