"""How the deterministic method works, step by step, on two variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, head_of_panel, label_axes, refuse_public, sheet
from sfumato.figures._sheet.style import INK, MOST, ORIGINAL, RELEASED, Mark, house_style, mark
from sfumato.figures.custodian.points import (
    left_out,
    limits,
    put_points,
    same_records,
    two_columns,
    whole,
)
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.methods.deterministic import Deterministic

_TWO = 2
_PANELS = ("original", "standardised", "centroids", "released")
_TITLES = ("Original", "Standardised", "Strata", "Centroids", "Scaled and shifted back", "Overlaid")


def steps(
    data: Dataset,
    method: Deterministic,
    *,
    variables: Sequence[str] | None = None,
    public: bool = False,
) -> Picture:
    """The five steps of the deterministic method on two of its variables.

    Question: what happens to the records on their way to the release?
    Assumes: the method is carried out on these data, as the release would be.

    Parameters
    ----------
    data : the original records.
    method : the deterministic method, as it stands in the plan.
    variables : two of the method's variables. Default: the first two.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    >>> method = sf.methods.Deterministic(variables=["hdl", "glucose"], missing="drop")
    >>> steps(data, method).stamp
    'Inside only: shows the original data'

    References: Avraam, Jones & Burton (2021), Figure 1.
    """
    refuse_public("steps", public=public)
    names = tuple(variables if variables is not None else method.variables[:2])
    if len(names) != _TWO or not set(names) <= set(method.variables):
        raise SfumatoError(
            "The picture 'steps' shows two variables that the method blurs together.",
            hint="name two of them: variables=[...].",
        )
    stages = method.stages(data)
    spread = stages.original.select(names).to_numpy()
    mean, sd = spread.mean(axis=0), spread.std(axis=0, ddof=1)
    strata = [" · ".join(map(str, row)) for row in stages.strata.rows()]
    return steps_from(
        stages.original.select(names),
        (stages.centres.select(names).to_numpy() - mean) / sd,
        stages.released.select(names),
        strata or [""] * len(spread),
        (names[0], names[1]),
    )


def steps_from(
    original: Any,
    centroids: Any,
    released: Any,
    strata: Sequence[Any],
    names: tuple[str, str],
    *,
    public: bool = False,
) -> Picture:
    """The same from arrays, a row per record, in the same order everywhere.

    Parameters
    ----------
    original, released : the two variables in their own units, a row per record.
    centroids : the means of each record and its neighbours, in standard deviations.
    strata : the stratum of each record.
    names : what the two variables are called.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]])
    >>> z = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    >>> steps_from(values, z, values, ["a", "a", "b"], ("age", "fare")).stamp
    'Inside only: shows the original data'

    References: Avraam, Jones & Burton (2021), Figure 1.
    """
    refuse_public("steps", public=public)
    before = two_columns(original, "original")
    panels = {
        "original": before,
        "standardised": np.column_stack([_standardised(one) for one in before.T]),
        "centroids": centroids,
        "released": released,
    }
    return steps_of(panels, strata, names)


def steps_of(panels: Mapping[str, Any], strata: Sequence[Any], names: tuple[str, str]) -> Picture:
    """The same from arrays: "original", "standardised", "centroids" and "released"."""
    missing = [name for name in _PANELS if name not in panels]
    if missing:
        raise SfumatoError(f"The picture 'steps' lacks: {', '.join(missing)}.")
    values = {name: two_columns(panels[name], name) for name in _PANELS}
    same_records({**values, "strata": strata})
    kept = whole(*values.values())
    drawn = [values[name][kept] for name in _PANELS]
    labels = [one for one, keep in zip(strata, kept, strict=True) if keep]
    looks, groups = _strata(labels)
    with house_style():
        figure, axes = sheet(7.4, rows=3, columns=2)
        for one, letter, title in zip(axes, "ABCDEF", _TITLES, strict=True):
            head_of_panel(one, letter, title)
        _fill(axes, drawn, looks, groups)
        limits([axes[0], axes[4], axes[5]], np.vstack([drawn[0], drawn[3]]))
        limits(axes[1:4], np.vstack([drawn[1], drawn[2]]))
        for at, one in enumerate(axes):
            unit = " (SD)" if at in (1, 2, 3) else ""
            label_axes(one, f"{names[0]}{unit}", f"{names[1]}{unit}")
        return finish(
            figure,
            "From the original to the release in five steps",
            "Neighbours are sought within strata; each record becomes the mean of itself and its "
            f"neighbours, scaled to the old spread.{left_out(kept)}",
            public=False,
            shows="shows",
            legend=(ORIGINAL_POINT, RELEASED_POINT, *looks),
        )


def _standardised(values: Floats) -> Floats:
    """In standard deviations from the mean; a constant only loses its mean."""
    known = values[np.isfinite(values)]
    if not len(known):
        return values
    spread = float(known.std(ddof=1)) if len(known) > 1 else 0.0
    made: Floats = (values - known.mean()) / (spread or 1.0)
    return made


ORIGINAL_POINT = replace(ORIGINAL, line="")
RELEASED_POINT = replace(RELEASED, line="")


def _strata(labels: Sequence[Any]) -> tuple[list[Mark], list[list[int]]]:
    """The largest strata with a look of their own, and the rest together."""
    members: dict[str, list[int]] = {}
    for at, label in enumerate(labels):
        members.setdefault(str(label), []).append(at)
    ranked = sorted(members, key=lambda name: (-len(members[name]), name))
    own = sorted(ranked[:MOST])
    looks = [replace(mark(at, name), line="") for at, name in enumerate(own)]
    groups = [members[name] for name in own]
    if len(ranked) > MOST:
        rest = ranked[MOST:]
        looks.append(Mark(f"{len(rest)} other strata", INK, ".", "", alpha=0.35))
        groups.append([at for name in rest for at in members[name]])
    return looks, groups


def _fill(
    axes: Sequence[Axes], drawn: Sequence[Floats], looks: Sequence[Mark], groups: list[list[int]]
) -> None:
    original, standardised, centroids, released = drawn
    soft, warm = replace(ORIGINAL, alpha=0.55), replace(RELEASED, alpha=0.55)
    put_points(axes[0], original, soft)
    put_points(axes[1], standardised, soft)
    for look, group in zip(looks, groups, strict=True):
        put_points(axes[2], standardised[group], replace(look, alpha=0.7 * look.alpha), size=3.4)
    put_points(axes[3], centroids, warm)
    put_points(axes[4], released, warm)
    put_points(axes[5], original, soft)
    put_points(axes[5], released, warm)
