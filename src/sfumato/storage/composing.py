"""Hold a release together with the earlier ones before it is written, and write it down."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import ReleaseError, RepeatedReleaseWarning
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.plan import WHOLE, Plan
from sfumato.progress import Progress
from sfumato.release import Release
from sfumato.run.composition import HeldComposition, hold_composition, require_composition
from sfumato.run.lights import Lights, dim_lights
from sfumato.storage.contents import KEY_FILE, MANIFEST, is_file_with, sha256
from sfumato.storage.earlier import FoundRelease, find_earlier, list_beside, pair_earlier
from sfumato.storage.ledger import Entry, Ledger
from sfumato.storage.same_draws import digest_paths, require_same_draws
from sfumato.storage.tiers import hold_tiers, is_tier_of_same

if TYPE_CHECKING:
    from sfumato.run.tables import LinkedRelease


@dataclass(frozen=True, eq=False)
class Composing:
    """A release that was held together with the earlier ones.

    Parameters
    ----------
    release : the release by itself.
    evidence : all of its case, and of the composition.
    facts : for the custody record.
    ledger : where it is to be written down; None: nowhere.
    """

    release: Release | LinkedRelease
    evidence: Mapping[str, Evidence]
    facts: dict[str, Any]
    ledger: Ledger | None
    draft: bool = False

    @property
    def lights(self) -> Lights:
        """Those of the release; what only holds by itself asks for a second look."""
        return dim_lights(self.release.case.lights, self.facts)

    @contextmanager
    def write_down(self, folder: Path, target: Path, *, overwrite: bool) -> Iterator[None]:
        """Enter every table into the ledger, and take all out if the release never comes to be.

        Before it is put in place, so that no release is out that the ledger does not know.
        """
        ledger = self.ledger
        if ledger is None:
            yield
            return
        seal = sha256(folder / MANIFEST)
        numbers: list[int] = []
        try:
            numbers.extend(
                ledger.add(*describe_entry(table, ledger, target, seal)).number
                for table in self.release.tables.values()
            )
            yield
        finally:
            for number in numbers:
                if is_file_with(target / MANIFEST, seal):
                    # What it replaced lies where it was prepared.
                    replaced = folder if overwrite else None
                    _settle_entry(ledger, number, target, replaced=replaced, beside=numbers)
                else:
                    ledger.remove(number)


def _settle_entry(
    ledger: Ledger, number: int, target: Path, *, replaced: Path | None, beside: Collection[int]
) -> None:
    """Note that a release is in place; where that fails, say that it is there all the same."""
    try:
        ledger.settle(number, replaced=replaced, beside=beside)
    except OSError as error:
        raise ReleaseError(
            f"The release in '{target}' is complete, but the ledger in '{ledger.folder}' could not "
            f"note it: {error.strerror or 'the disk failed'}.",
            hint="free some disk space for the ledger, and leave the folder where it is until you "
            "write the next release of these data: it is recorded then.",
        ) from None


def open_ledger(location: str | Path | Literal[False] | None) -> Ledger | None:
    """The ledger that was asked for; None where none is wanted."""
    return None if location is False else Ledger(location)


@contextmanager
def hold_together(
    release: Release | LinkedRelease,
    target: Path,
    ledger: Ledger | None,
    progress: Progress | None,
) -> Iterator[Composing]:
    """Measure a release together with all earlier ones of the same records.

    Nobody else writes a release meanwhile: two that are made at once would miss each other.
    """
    with nullcontext() if ledger is None else ledger.lock(progress):
        found = {
            name: find_earlier(table, target, ledger) for name, table in release.tables.items()
        }
        earlier = {
            name: [item for item in items if not item.unsure] for name, items in found.items()
        }
        unsure = [item.label for items in found.values() for item in items if item.unsure]
        for name, table in release.tables.items():
            _require_same_basis(table, earlier[name])
            require_same_draws(table, target, earlier[name])
            _warn(table, earlier[name], target)
        if isinstance(release, Release):
            facts, together = _compose_records(release, earlier[WHOLE], ledger, progress)
        else:
            from sfumato.storage.tables import compose_persons

            facts, together = compose_persons(release, earlier, ledger)
        place = None if ledger is None else str(ledger.folder)
        facts = {"ledger": place, "unsure": list(dict.fromkeys(unsure)), **facts}
        yield Composing(release, {**release.case.evidence, **together}, facts, ledger)


def _compose_records(
    release: Release,
    earlier_releases: Sequence[FoundRelease],
    ledger: Ledger | None,
    progress: Progress | None,
) -> tuple[dict[str, Any], dict[str, Evidence]]:
    """What one table and the earlier releases of its records disclose together."""
    content = ledger.digest_content(release.dataset) if ledger and earlier_releases else ""
    tiers = [item for item in earlier_releases if is_tier_of_same(release, item, ledger)]
    paired = [
        pair_earlier(item, release, ledger)
        for item in _list_different([item for item in earlier_releases if item not in tiers])
        # The very same shows nothing new, and need not even be there any more.
        if item.entry is None or item.entry.content != content
    ]
    earlier = [*release.earlier, *(item for item in paired if item is not None)]
    facts: dict[str, Any] = {"earlier": [_describe_earlier(item) for item in earlier_releases]}
    together: dict[str, Evidence] = {}
    if tiers:
        others = [pair_earlier(item, release, ledger) for item in tiers]
        facts["tiers"] = hold_tiers(release, [item for item in others if item is not None])
    if earlier:
        composition = hold_composition(
            release.plan, release.original, release.dataset, earlier, progress=progress
        )
        require_composition(release.plan, composition, release.case.evidence)
        together = {composition.label: composition.evidence}
        facts |= list_verdict(release.plan, composition)
    return facts, together


def _list_different(earlier: Sequence[FoundRelease]) -> list[FoundRelease]:
    """The releases less those that show the very same as one before."""
    different: dict[str, FoundRelease] = {}
    for item in earlier:
        different.setdefault(item.entry.content if item.entry else str(item.folder), item)
    return list(different.values())


def _describe_earlier(earlier: FoundRelease) -> dict[str, Any]:
    number = earlier.entry.number if earlier.entry else None
    return {"folder": str(earlier.folder), "number_in_ledger": number}


def list_verdict(plan: Plan, composition: HeldComposition) -> dict[str, Any]:
    """What was found of all releases together, for the custody record and the lights."""
    details = composition.evidence.details
    found = ("noise_left", "noise_variable", "matched_rows", "matched_by")
    return {
        "targets": [judgement.plain() for judgement in composition.verdict],
        "accepted": plan.release.accept_composition,
        **{name: details[name] for name in found if name in details},
    }


def _require_same_basis(release: Release, earlier_releases: Sequence[FoundRelease]) -> None:
    """Refuse to tell records apart otherwise than before under the same key.

    The draws of a record follow its identity. Another identity means fresh draws, and two fresh
    draws of the same noise are averaged.
    """
    drawn = list_drawn_variables(release)
    mine = release.original.identity.basis
    for earlier in earlier_releases:
        if earlier.key_commitment != release.key.commitment or earlier.identity == mine:
            continue
        common = drawn if earlier.entry is None else drawn & {*earlier.entry.drawn}
        if common:
            names = ", ".join(f"'{name}'" for name in sorted(common))
            raise ReleaseError(
                f"Under this key, records were told apart by {earlier.identity} in "
                f"{earlier.label}, and are now told apart by {mine}. Fresh noise would be drawn "
                f"for {names}, and the two could be averaged.",
                hint="give the variables the roles they had, or use another key and accept that.",
            )


def list_drawn_variables(release: Release) -> set[str]:
    """Variables with draws that belong to a record; pseudonyms belong to a value."""
    return {
        name
        for step in release.plan.steps
        if step.keyed and step.draws_for == "records"
        for name in step.touches(release.original.schema)
    }


def _warn(release: Release, earlier_releases: Sequence[FoundRelease], target: Path) -> None:
    """Say when the same data were released before under another key, or when that is unknown."""
    for folder, record in list_beside(target):
        if record.get("damaged") and folder != target:
            unread = f"'{folder.name}' could not be read: was it made from the same data?"
            warnings.warn(unread, RepeatedReleaseWarning, stacklevel=6)
    if not earlier_releases or any(
        item.key_commitment == release.key.commitment for item in earlier_releases
    ):
        return  # not a new key: whoever used the others has been warned
    folders = ", ".join(item.label for item in earlier_releases)
    keys = [item.folder for item in earlier_releases if (item.folder / KEY_FILE).is_file()]
    hint = f" Hint: use the key in '{keys[0].name}/{KEY_FILE}'." if keys else ""
    warnings.warn(
        f"The same data were released before under another key, in {folders}. Anyone with both "
        f"releases learns more than from one: noise that is drawn twice can be averaged.{hint}",
        RepeatedReleaseWarning,
        stacklevel=6,
    )


def describe_entry(release: Release, ledger: Ledger, target: Path, seal: str) -> tuple[Entry, Any]:
    """The entry of a release, and the ids of its records in the order of the file, if here."""
    original = release.original
    # The public one: fitted values that tell of the original stay in the custody record.
    manifest = release.manifest
    entry = Entry(
        number=0,
        created="",
        folder=str(target),
        manifest_sha256=seal,
        content=ledger.digest_content(release.dataset),
        plan_digest=release.plan.digest,
        key_commitment=release.key.commitment,
        identity=original.identity.basis,
        records=ledger.digest_records(original),
        fingerprint=ledger.take_fingerprint(original),
        variables={
            name: {"role": entry["role"], "kind": entry["kind"]}
            for name, entry in manifest["variables"].items()
        },
        methods=tuple(manifest["methods"]),
        noise=manifest.get("noise", {}),
        drawn=tuple(sorted(list_drawn_variables(release))),
        order_of_rows=manifest["order_of_rows"],
        paths=digest_paths(release.noise_paths),
        tiers=ledger.digest(release.tier_set) if release.tier_set else "",
    )
    if not frames.is_in_memory(release.dataset.frame):
        return entry, None  # as many as there are records: they stay where they are
    order, ids = release.order(), release.dataset.identity.ids(release.key)
    return entry, ids if order is None else ids[order]
