"""Privacy-preserving figures: what is a number in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from replication.comparison import (
    ERRORS,
    Bound,
    Row,
    bound_by_range,
)
from replication.sources import Sources
from sfumato.data import Dataset
from sfumato.kernels.arrays import Floats
from sfumato.methods.deterministic import Deterministic
from sfumato.methods.noise import Noise
from sfumato.randomness import Key

_SETS = {"D1": ("x1", "y1"), "D2": ("x2", "y2"), "D3": ("x3", "y3")}
_GRIDS = ((30, "164"), (15, "42"))
K = 3
SD_SHARE = 0.25
DRAWS = 1000
"""Data sets that are drawn like D1."""


def compare_rows(sources: Sources) -> Iterator[Row]:
    """Hidden cells of Figure 3, and what centres and noise do to means, spreads, correlations."""
    frame = sources.read("visual.csv")
    yield from _compare_figure_3(frame.select(x="x1", y="y1"))
    for name, (x, y) in _SETS.items():
        data = Dataset(frame.select(x, y))
        centres = Deterministic(variables=[x, y], k=K).apply(data)
        noisy = Noise(variables=[x, y], sd_share=SD_SHARE).apply(data, key=Key(bytes(32)))
        yield from _measure_moments(name, data, centres, f"centres of {K}")
        yield from _measure_moments(name, data, noisy, "noise of a quarter SD", noised=True)
    why = "pictures: `python -m tools.gallery` draws them all; see the gallery in the docs."
    yield Row(place="Figures 1 to 15", what="the figures themselves", why=why)


def _compare_figure_3(frame: pl.DataFrame) -> Iterator[Row]:
    from sfumato.figures.public import heatmap

    random, records = np.random.default_rng(3), len(frame)
    across, up = ((float(values.min()), float(values.max())) for values in frame.to_numpy().T)
    ends = (across, up)
    drawn = []
    for _ in range(DRAWS):
        x = random.normal(10, 0.5, records)
        drawn.append((x, x + random.normal(size=records)))
    why = (
        f"the paper's {records} simulated records are not published; ours are others from the same "
        f"distribution. The bound is the range over {DRAWS:,} such sets, and ours."
    )
    for bins, printed in _GRIDS:
        figure = heatmap(frame, "x", "y", protection="suppress", bins=bins, k=K, limits=ends)
        ours = int(figure.details["suppressed"])
        hidden = [ours, *(count_hidden(columns, bins) for columns in drawn)]
        yield Row(place="Figure 3A", what=f"D1: hidden cells of {bins**2}", printed=printed,
                  ours=ours, why=why, bound=bound_by_range(hidden))  # fmt: skip


def count_hidden(columns: Sequence[Floats], bins: int) -> int:
    """As a heatmap hides them, without its picture: there are many to count."""
    from sfumato.figures.public.grid import count_cells, suppress_small

    cuts = [np.linspace(values.min(), values.max(), bins + 1) for values in columns]
    return suppress_small(count_cells(columns, cuts), K)[1]


def _measure_moments(
    name: str, data: Dataset, released: Dataset, how: str, *, noised: bool = False
) -> Iterator[Row]:
    """The paper says of a picture that these look stable; here is how stable they are."""
    x, y = (data.column(name_of).to_numpy() for name_of in data.columns)
    u, v = (released.column(name_of).to_numpy() for name_of in data.columns)
    share, records = 0.25**2, len(x)
    why = "the paper prints no number here. The bound is what noise of this size does."
    # What noise with a variance of `share` is expected to do, and its standard error.
    for what, ours, expected, variance in (
        ("mean of X, in SD", (u.mean() - x.mean()) / x.std(), 0.0, share),
        ("variance of X beside the original's", u.var() / x.var(), 1 + share,
         4 * share + 2 * share**2),
        ("correlation of X and Y", np.corrcoef(u, v)[0, 1],
         np.corrcoef(x, y)[0, 1] / (1 + share), (2 * share + share**2) / (1 + share) ** 2),
    ):  # fmt: skip
        reach = ERRORS * math.sqrt(variance / records)
        bound = Bound(expected - reach, expected + reach, of="ours") if noised else None
        yield Row(place="Figure 2, ours in numbers", what=f"{name}, {how}: {what}",
                  ours=float(ours), why=why if noised else "", bound=bound)  # fmt: skip
