"""Privacy-preserving figures: what is a number in them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.data import Dataset
from sfumato.datasets.replication.comparison import Row
from sfumato.datasets.replication.sources import Sources
from sfumato.methods.deterministic import Deterministic
from sfumato.methods.noise import Noise
from sfumato.randomness import Key

_DRAWN = (
    "the paper's 500 simulated records are not published; ours are 500 others from the same "
    "distribution, for which 125 to 263 of 900 and 31 to 76 of 225 cells are usual."
)
_SETS = {"D1": ("x1", "y1"), "D2": ("x2", "y2"), "D3": ("x3", "y3")}
_SHARE = 0.25


def compare_rows(sources: Sources) -> Iterator[Row]:
    """Hidden cells of Figure 3, and what centres and noise do to means, spreads, correlations."""
    from sfumato.figures.public import heatmap

    frame = sources.read("visual.csv")
    for bins, cells, published in ((30, 900, 164), (15, 225, 42)):
        values = [frame[name].to_numpy() for name in _SETS["D1"]]
        ends = [(float(column.min()), float(column.max())) for column in values]
        figure = heatmap(frame, "x1", "y1", protection="suppress", bins=bins, k=3,
                       limits=(ends[0], ends[1]))  # fmt: skip
        yield Row(place="Figure 3A", what=f"D1: hidden cells of {cells}", published=published,
                  ours=figure.details["suppressed"], why=_DRAWN)  # fmt: skip
    for name, (x, y) in _SETS.items():
        data = Dataset(frame.select(x, y))
        centres = Deterministic(variables=[x, y], k=3).apply(data)
        noisy = Noise(variables=[x, y], sd_share=_SHARE).apply(data, key=Key(bytes(32)))
        yield from _compare_moments(name, data, centres, "centres of 3", spread=1.0)
        yield from _compare_moments(
            name, data, noisy, "noise of a quarter SD", spread=1 + _SHARE**2
        )
    why = "pictures: `python -m tools.gallery` draws them all; see the gallery in the docs."
    yield Row(place="Figures 1 to 15", what="the figures themselves", published=None, ours=None,
              why=why)  # fmt: skip


def _compare_moments(
    name: str, data: Dataset, released: Dataset, how: str, *, spread: float
) -> Iterator[Row]:
    """The paper says that these look stable; here is how stable they are."""
    x, y = (data.column(name_of).to_numpy() for name_of in data.columns)
    u, v = (released.column(name_of).to_numpy() for name_of in data.columns)
    for what, before, after, within in (
        ("mean of X, in SD", 0.0, (u.mean() - x.mean()) / x.std(), 0.06),
        ("variance of X beside the original's", spread, u.var() / x.var(), 0.06),
        ("correlation of X and Y",
         np.corrcoef(x, y)[0, 1] / spread, np.corrcoef(u, v)[0, 1], 0.06),
    ):  # fmt: skip
        yield Row(place="Figure 2, said to stay stable", what=f"{name}, {how}: {what}",
                  published=float(before), ours=float(after), within=within)  # fmt: skip
