"""From data and a plan to a release folder: what the command line and the studio both do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import ReleaseError, TargetError
from sfumato.io.scanning import is_large
from sfumato.plan import Plan
from sfumato.progress import Progress
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.run import protect
from sfumato.run.tables import LinkedRelease
from sfumato.run.tiers import TieredRelease, protect_tiers
from sfumato.schema import IDENTIFYING, Schema
from sfumato.storage.contents import KEY_FILE, MANIFEST
from sfumato.storage.opening import read_any_manifest, read_custody, read_plan_of
from sfumato.storage.writing import keep_attempt

_SAMPLE = 5_000
"""Records that are looked at for direct identifiers with another role."""


def protect_into(  # noqa: PLR0913 - those of `Release.write`
    folder: Path,
    data: Dataset | Mapping[str, Dataset],
    plan: Plan,
    *,
    key: Key | Path | None = None,
    overwrite: bool = False,
    ledger: Path | Literal[False] | None = None,
    draft: bool = False,
    progress: Progress | None = None,
) -> Release | TieredRelease | LinkedRelease:
    """Carry out a plan and write the release; of one that is refused, keep the evidence beside it.

    Parameters
    ----------
    folder : where the release goes; of a plan with tiers, a folder in it for each.
    data : the records of one table, or of several by name.
    plan : for one table, with tiers or without, or for several.
    key : of an earlier release of the same data; by default a new one.
    overwrite, ledger, draft : see `Release.write`.

    Raises
    ------
    TargetError : a target was missed, or an attack succeeded too often. `kept` says where
        the evidence lies; it is empty where that could not be saved.
    """
    try:
        carry_out: Any = protect_tiers if plan.tiers else protect
        released: Release | TieredRelease | LinkedRelease
        released = carry_out(data, plan, key=key, progress=progress)
        released.write(folder, overwrite=overwrite, ledger=ledger, draft=draft, progress=progress)
    except TargetError as error:
        # A full disk must not hide why it was refused.
        with suppress(OSError):
            error.kept = str(keep_attempt(folder, plan, error))
        raise error from None
    return released


def finish_draft(
    folder: Path,
    data: Dataset | Mapping[str, Dataset],
    *,
    out: Path | None = None,
    ledger: Path | Literal[False] | None = None,
    progress: Progress | None = None,
) -> Release | LinkedRelease:
    """Make a draft final: the same plan and key on the same records, held against all that is out.

    What is written is what was looked at: if the records have changed since, it is refused.

    Parameters
    ----------
    folder : the draft, with its custody record.
    data : the records it was made of.
    out : where the release goes. Default: into the place of the draft.
    """
    manifest, record = read_any_manifest(folder), read_custody(folder)
    if not manifest.get("draft"):
        raise ReleaseError(
            f"'{folder}' is no draft: it is final already.", hint="sfumato verify checks it."
        )
    plan = read_plan_of(folder)
    released: Any = protect(data, plan, key=folder / KEY_FILE, progress=progress)
    if released.custody["input"] != record["input"]:
        raise ReleaseError(
            "These are not the records that the draft was made of.",
            hint="take the same file; or make another draft: sfumato protect --draft.",
        )
    target = folder if out is None else out
    try:
        released.write(target, overwrite=out is None, ledger=ledger, progress=progress)
    except TargetError as error:
        with suppress(OSError):
            error.kept = str(keep_attempt(target, plan, error))
        raise error from None
    done: Release | LinkedRelease = released
    return done


def list_folders(plan: Plan, folder: Path) -> list[Path]:
    """Where the releases of a plan go: one folder, or one for each tier in it."""
    return [folder / name for name in plan.tiers] or [folder]


def find_key(folders: Sequence[Path]) -> Path | None:
    """The key of the release that is overwritten; None where none is.

    Raises
    ------
    ReleaseError : there is a release whose custody record was moved away.
    """
    for folder in folders:
        if (folder / KEY_FILE).is_file():
            return folder / KEY_FILE
        if (folder / MANIFEST).is_file():
            raise ReleaseError(
                f"The custody record of the release in '{folder}' was moved away, and its key "
                "with it.",
                hint="pass that key: --key custody/key, wherever it is now.",
            )
    return None


def find_identifiers(data: Dataset, plan: Plan) -> dict[str, str]:
    """Variables that look like direct identifiers and leave as they are, with the reason."""
    if not engine_for(data.frame).in_memory:
        return {}
    treated = {name for step in plan.steps for name in step.touches(data.schema)}
    untreated = [
        name
        for name in data.columns
        if name not in treated and data.schema[name].role not in (None, *IDENTIFYING)
    ]
    if not untreated:
        return {}
    suggested = Schema.infer(data.batch(untreated).head(_SAMPLE))
    return {
        name: f"Variable '{name}' is released unchanged, with the role {data.schema[name].role}, "
        "but "
        f"looks like a direct identifier. {suggested[name].reason}"
        for name in untreated
        if suggested[name].role == "direct"
    }


def is_rather_streamed(file: str, plan: Plan | None) -> bool:
    """Whether a file is large for the memory that is free, and all of the plan runs in batches."""
    if not is_large(Path(file)):
        return False
    components: tuple[Any, ...] = () if plan is None else (*plan.steps, *plan.measures.values())
    return all("streaming" in thing.runs_on for thing in components)
