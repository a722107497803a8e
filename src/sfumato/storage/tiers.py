"""Other tiers of the same plan: no independent noise, and held against no target of this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.errors import ReleaseError
from sfumato.io.json_reader import parse_json
from sfumato.noise.nesting import ROUNDING
from sfumato.release import Release
from sfumato.risk.composition import Composition, EarlierRelease
from sfumato.storage.contents import RECORD_FILE
from sfumato.storage.earlier import FoundRelease
from sfumato.storage.ledger import Ledger

_CHANCE = 40
"""Each weight that is fitted to n records gains about 1 / n by chance; forty times that counts."""


def is_tier_of_same(release: Release, earlier: FoundRelease, ledger: Ledger | None) -> bool:
    """Whether an earlier release is a tier of the same plan, of the same data, under the same key.

    Somebody who has both learns what the finer one shows, and nothing more. The finer one was held
    against the targets of its own tier.
    """
    if not release.tier_set:
        return False
    if earlier.entry is not None and ledger is not None:
        return earlier.entry.tiers == ledger.digest(release.tier_set)
    try:
        record = parse_json((earlier.folder / RECORD_FILE).read_bytes())
    except (OSError, ValueError):
        return False
    tier = record.get("tier") if isinstance(record, dict) else None
    return isinstance(tier, dict) and tier.get("set") == release.tier_set


def hold_tiers(release: Release, others: Sequence[EarlierRelease]) -> dict[str, Any]:
    """Measure what all tiers leave of the noise of the best of them; less than all is refused."""
    measurable = [item for item in others if item.dataset is not None]
    facts: dict[str, Any] = {
        "tier": release.plan.tier.name if release.plan.tier else "",
        "together_with": [item.label for item in others],
        "noise_left": None,
    }
    if not measurable:
        return facts
    keeps_order = release.plan.release.keep_order
    composed = Composition().compose(
        release.original, release.dataset, measurable, keeps_order=keeps_order
    )
    allowed = ROUNDING + _CHANCE * len(measurable) / len(release.dataset)
    remaining = {
        name: item.remaining_share if item.remaining_share < 1 - allowed else 1.0
        for name, item in composed.best.averaged.items()
    }
    for name, share in remaining.items():
        if share < 1:
            raise ReleaseError(
                f"The tiers are not nested: together they leave {share:.1%} of the noise of the "
                f"best of them in variable '{name}'.",
                hint="do not release them; were data or steps changed between the tiers?",
            )
    return {**facts, "noise_left": remaining, "least_left": min(remaining.values(), default=1.0)}
