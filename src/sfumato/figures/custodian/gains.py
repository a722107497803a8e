"""What each known variable takes from people's protection, person by person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import refuse_public
from sfumato.figures._sheet.words import shown
from sfumato.figures.custodian.protection import Palette, heat_map, numbers_of

if TYPE_CHECKING:
    from sfumato.risk._peers import Gains


def gains(
    found: Gains,
    *,
    of: Literal["peers", "alternatives"] = "peers",
    palette: Palette = "red",
    public: bool = False,
) -> Picture:
    """The protection of each person if one variable were unknown, and all others known.

    Question: which variable gives people away, so that generalising it would help?
    Assumes: as `peering.gains`.

    Parameters
    ----------
    found : what `peering.gains` returns.
    of : "peers" draws the share of protective peers, "alternatives" that of alternative values.
    palette : "red", or "safe" for colour-blind eyes.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> from sfumato import peering
    >>> frame = pl.DataFrame({"age": [30, 31, 30], "sex": ["f", "f", "m"], "ill": [0, 1, 0]})
    >>> gains(peering.gains(sf.Dataset(frame), "ill", ["age", "sex"])).title
    "Protection of 'ill' if one variable were unknown"

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 3.
    """
    refuse_public("gains", public=public)
    peers = of == "peers"
    names, values = numbers_of(found.peers if peers else found.alternatives, "gains")
    return heat_map(
        names,
        values,
        # A share p of peers is no threshold for alternatives.
        p=found.p if peers else 0.0,
        palette=palette,
        title=f"Protection of '{shown(found.sensitive, width=30, lines=1)}' if one variable were "
        "unknown",
        subject=f"share of {'protective peers' if peers else 'alternative values'}",
        rows="In each row everything is known but the variable named. The upper rows gain most: "
        "their variable gives most people away.",
        worst_first=False,
    )
