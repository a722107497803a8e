"""Single records as points: the steps of the deterministic method, and the records at risk.

They are drawn as pixels, so that no file holds their coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.source import read_rows, refuse_without_records
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    label_axes,
    make_picture,
    make_sheet,
    name_panel,
    refuse_public,
)
from sfumato.figures.sheet.style import (
    INK,
    MOST_MARKS,
    ORIGINAL,
    RELEASED,
    Mark,
    pick_mark,
    use_house_style,
)
from sfumato.io.frames import get_column
from sfumato.kernels.arrays import Floats, Mask
from sfumato.pairs.alignment import read_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.methods.deterministic import Deterministic

_TWO = 2
_MANY = 5000
_PANELS = ("original", "standardised", "centroids", "released")
_TITLES = ("Original", "Standardised", "Strata", "Centroids", "Scaled and shifted back", "Overlaid")
_OTHERS = Mark("Other records (original)", INK, ".", "", alpha=0.3)
_BEFORE = replace(ORIGINAL, name="At risk: original", line="", hollow=True)
_AFTER = replace(RELEASED, name="At risk: released", line="")


# The steps of the deterministic method -----------------------------------------------------------


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
    original = stages.original.select(names).to_numpy()
    mean, sd = original.mean(axis=0), original.std(axis=0, ddof=1)
    strata = [" · ".join(map(str, row)) for row in stages.strata.rows()]
    return steps_from(
        stages.original.select(names),
        (stages.centres.select(names).to_numpy() - mean) / sd,
        stages.released.select(names),
        strata or [""] * len(original),
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
    before = _to_two_columns(original, "original")
    panels = {
        "original": before,
        "standardised": np.column_stack([_standardise(values) for values in before.T]),
        "centroids": centroids,
        "released": released,
    }
    return draw_steps(panels, strata, names)


def draw_steps(panels: Mapping[str, Any], strata: Sequence[Any], names: tuple[str, str]) -> Picture:
    """The same from arrays: "original", "standardised", "centroids" and "released"."""
    missing = [name for name in _PANELS if name not in panels]
    if missing:
        raise SfumatoError(f"The picture 'steps' lacks: {', '.join(missing)}.")
    values = {name: _to_two_columns(panels[name], name) for name in _PANELS}
    _require_same_length({**values, "strata": strata})
    complete = _find_complete(*values.values())
    drawn = [values[name][complete] for name in _PANELS]
    labels = [label for label, known in zip(strata, complete, strict=True) if known]
    looks, members = _group_by_stratum(labels)
    with use_house_style():
        figure, all_axes = make_sheet(7.4, rows=3, columns=2)
        for axes, letter, title in zip(all_axes, "ABCDEF", _TITLES, strict=True):
            name_panel(axes, letter, title)
        _fill_panels(all_axes, drawn, looks, members)
        _set_common_limits([all_axes[i] for i in (0, 4, 5)], np.vstack([drawn[0], drawn[3]]))
        _set_common_limits(all_axes[1:4], np.vstack([drawn[1], drawn[2]]))
        for index, axes in enumerate(all_axes):
            unit = " (SD)" if index in (1, 2, 3) else ""
            label_axes(axes, f"{names[0]}{unit}", f"{names[1]}{unit}")
        return make_picture(
            figure,
            "From the original to the release in five steps",
            "Neighbours are sought within strata; each record becomes the mean of itself and its "
            f"neighbours, scaled to the old spread.{_describe_missing(complete)}",
            public=False,
            shows="shows",
            legend=(replace(ORIGINAL, line=""), replace(RELEASED, line=""), *looks),
        )


def _standardise(values: Floats) -> Floats:
    """In standard deviations from the mean; a constant only loses its mean."""
    known = values[np.isfinite(values)]
    if not len(known):
        return values
    spread = float(known.std(ddof=1)) if len(known) > 1 else 0.0
    standardised: Floats = (values - known.mean()) / (spread or 1.0)
    return standardised


def _group_by_stratum(labels: Sequence[Any]) -> tuple[list[Mark], list[list[int]]]:
    """The largest strata with a look of their own, and all others together."""
    members: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(str(label), []).append(row)
    ranked = sorted(members, key=lambda name: (-len(members[name]), name))
    largest, others = sorted(ranked[:MOST_MARKS]), ranked[MOST_MARKS:]
    looks = [replace(pick_mark(index, name), line="") for index, name in enumerate(largest)]
    rows = [members[name] for name in largest]
    if others:
        looks.append(Mark(f"{len(others)} other strata", INK, ".", "", alpha=0.35))
        rows.append([row for name in others for row in members[name]])
    return looks, rows


def _fill_panels(
    axes: Sequence[Axes], drawn: Sequence[Floats], looks: Sequence[Mark], members: list[list[int]]
) -> None:
    original, standardised, centroids, released = drawn
    before, after = replace(ORIGINAL, alpha=0.55), replace(RELEASED, alpha=0.55)
    _put_points(axes[0], original, before)
    _put_points(axes[1], standardised, before)
    for look, rows in zip(looks, members, strict=True):
        _put_points(axes[2], standardised[rows], replace(look, alpha=0.7 * look.alpha), size=3.4)
    _put_points(axes[3], centroids, after)
    _put_points(axes[4], released, after)
    _put_points(axes[5], original, before)
    _put_points(axes[5], released, after)


# Records at risk ---------------------------------------------------------------------------------


def at_risk(
    original: Dataset,
    released: Dataset,
    evidence: Evidence,
    *,
    variables: Sequence[str] | None = None,
    public: bool = False,
) -> Picture:
    """The records at risk among all others, joined with what became of them.

    Question: where in the data do the records at risk lie?
    Assumes: record by record, the released data belong to the original.

    Parameters
    ----------
    original, released : the two data sets that were compared.
    evidence : of the measure "mahalanobis" on them.
    variables : two of the variables compared. Default: the first two.
    public : refused. The picture shows single records of the original.

    References: Avraam, Jones & Burton (2021), Figure 2.
    """
    refuse_public("at_risk", public=public)
    if variables is None:
        rows = read_rows(evidence, ["variable"], picture="at_risk")
        variables = [str(row["variable"]) for row in rows]
    names = list(variables)[:2]
    if len(names) != _TWO:
        raise SfumatoError(
            "The picture 'at_risk' shows two variables; only one was compared.",
            hint="compare two or more variables.",
        )
    if evidence.records is None:
        raise refuse_without_records("at_risk")
    risk1, risk2 = (get_column(evidence.records, name).to_numpy() for name in ("at_risk", "unsafe"))
    return at_risk_from(
        read_matrix(original, names),
        read_matrix(released, names),
        risk1,
        risk2,
        (names[0], names[1]),
    )


def at_risk_from(
    original: Any,
    released: Any,
    risk1: Any,
    risk2: Any,
    names: tuple[str, str],
    *,
    public: bool = False,
) -> Picture:
    """The same from arrays, a row per record, in the same order everywhere.

    Parameters
    ----------
    original, released : two variables in their own units, a row per record.
    risk1, risk2 : whether the record is at risk, in the wide and in the narrow sense.
    names : what the two variables are called.
    public : refused. The picture shows single records of the original.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[1.0, 2.0], [2.0, 1.0]])
    >>> at_risk_from(values, values, [True, False], [False, False], ("age", "fare")).audience
    'custodian'
    """
    refuse_public("at_risk", public=public)
    before, after = _to_two_columns(original, "original"), _to_two_columns(released, "released")
    _require_same_length({"original": before, "released": after, "risk1": risk1, "risk2": risk2})
    complete = _find_complete(before, after)
    masks = [np.asarray(risk, dtype=bool)[complete] for risk in (risk1, risk2)]
    before, after = before[complete], after[complete]
    with use_house_style():
        figure, panels = make_sheet(3.3, columns=2)
        for axes, letter, name, mask in zip(panels, "AB", ("risk1", "risk2"), masks, strict=True):
            name_panel(axes, letter, f"{name}: {int(mask.sum()):,} of {len(mask):,}")
            _draw_moves(axes, before, after, mask)
            label_axes(axes, *names)
        _set_common_limits(panels, np.vstack([before, after]))
        return make_picture(
            figure,
            "Records at risk",
            "A line joins each released record at risk with its original. risk1: it lies near its "
            "original. risk2: and no other released record lies near."
            f"{_describe_missing(complete)}",
            public=False,
            shows="shows",
            legend=(_BEFORE, _AFTER, _OTHERS),
        )


def _draw_moves(axes: Axes, before: Floats, after: Floats, mask: Mask) -> None:
    _put_points(axes, before[~mask], _OTHERS)
    for start, end in zip(before[mask], after[mask], strict=True):
        axes.plot(*np.column_stack([start, end]), color=INK, linewidth=0.7, rasterized=True)
    _put_points(axes, before[mask], _BEFORE, size=6.5)
    _put_points(axes, after[mask], _AFTER, size=3.4)


# Points ------------------------------------------------------------------------------------------


def _to_two_columns(values: Any, what: str) -> Floats:
    """Records by two variables; NaN where a value is missing."""
    try:
        array = values if isinstance(values, np.ndarray) else np.column_stack(list(values))
        if array.ndim == 2 and array.shape[1] == 2 and len(array):  # noqa: PLR2004 - x and y
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass  # their texts quote values
    raise SfumatoError(
        f"The {what} records must be numbers in two columns, one record at least.",
        hint="pass an array with a row per record, or the two variables.",
    )


def _require_same_length(arrays: Mapping[str, Sequence[Any] | Floats]) -> None:
    sizes = {name: len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) > 1:
        text = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise SfumatoError(f"The number of records differs: {text}.")


def _put_points(axes: Axes, values: Floats, look: Mark, *, size: float = 2.6) -> None:
    """Draw records; smaller and lighter where there are many."""
    many = len(values) > _MANY
    axes.plot(
        values[:, 0],
        values[:, 1],
        linestyle="none",
        marker=look.marker,
        markersize=size * (0.5 if many else 1),
        color=look.colour,
        alpha=look.alpha * (0.6 if many else 1),
        markeredgewidth=1.0 if look.hollow else 0,
        fillstyle="none" if look.hollow else "full",
        rasterized=True,
    )


def _set_common_limits(panels: Sequence[Axes], values: Floats) -> None:
    """The same room in several panels, so that they can be compared."""
    finite = values[np.isfinite(values).all(axis=1)]
    low, high = finite.min(axis=0), finite.max(axis=0)
    pad = np.where(high > low, 0.05 * (high - low), 0.5)
    for axes in panels:
        axes.set_xlim(low[0] - pad[0], high[0] + pad[0])
        axes.set_ylim(low[1] - pad[1], high[1] + pad[1])


def _find_complete(*arrays: Floats) -> npt.NDArray[np.bool_]:
    """Which records have all their values; fail when none has."""
    complete: npt.NDArray[np.bool_] = np.logical_and.reduce(
        [np.isfinite(values).all(axis=1) for values in arrays]
    )
    if not complete.any():
        raise SfumatoError(
            "Not one record has both values, so there is nothing to draw.",
            hint="choose variables with fewer missing values.",
        )
    return complete


def _describe_missing(complete: npt.NDArray[np.bool_]) -> str:
    """What is not in the picture, in words."""
    missing = int((~complete).sum())
    if not missing:
        return ""
    return f" Not drawn, since a value is missing: {missing:,} record{'s' if missing > 1 else ''}."
