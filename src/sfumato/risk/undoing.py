"""How far the centres of neighbours can be taken back from what is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_mean, exact_sum, standard_deviation
from sfumato.measure import AT_WORST, AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import ParameterError, parameters
from sfumato.risk.attacks.distances import covariance, require_regular
from sfumato.risk.attacks.knowledge import knowledge
from sfumato.risk.attacks.outcomes import tabulate_records, wilson
from sfumato.risk.attacks.reconstruction import Reconstruction, reconstruct

_ASSUMPTIONS = (
    "Published are k, the variables, the strata, and the original's means and deviations.",
    "The attacker guesses the original, protects the guess, and corrects it by what is missing.",
    "Whose neighbours are whose is not published.",
)
_MATTERS = 0.9
"""An error that falls below this share of what it was is worth a warning."""


@dataclass(frozen=True, eq=False)
class _PreparedPair:
    """The records that can be attacked, those of a stratum together."""

    names: tuple[str, ...]
    rows: Any = field(repr=False)
    complete: Mask = field(repr=False)
    original: Floats = field(repr=False)
    released: Floats = field(repr=False)
    starts: Any = field(repr=False)
    means: Floats = field(repr=False)
    deviations: Floats = field(repr=False)
    warnings: tuple[str, ...]


@parameters
class Undoing(Measure):
    """Share of values that an attacker works out again from released centres of neighbours.

    Question: the method `deterministic` draws nothing by chance. How much of its blur can
    somebody take back who knows how it works, and the published means and spreads?
    Assumes: the release was made by `deterministic` with these parameters. The attacker takes the
    release for a first guess of the original, protects the guess in the same way, and corrects it
    by what is missing, again and again. They need no neighbour lists: these follow from the guess.
    The value is the share of values that end up within `tolerance` standard deviations of the
    truth. The baseline is the share without that work: released values are taken for the truth. As
    nobody has to work, the value is never less than it; `worked_out` is the share with the work.
    The interval (Wilson, 95 %) counts records, not values, since those of a record belong together.

    Beside it: `centre_itself`, the share for the centres before they were stretched, which the
    release does not show; `undoing_error`, the root mean square error of the guess, or of the
    release if that is less, in standard deviations; `undoing_error_left`, its share of the error of
    the release or of the centres, whichever is less (`plain_error`): below 1, the blur is taken
    back in part; and `undoing_correlation`, the least correlation of the guess with the truth. A
    larger k moves people farther, but who knows the method takes most of that back. A target on the
    share, the error or the correlation must hold for the worst variable (`worst_variable`).

    Values count each, whoever's they are: rows of one person too.

    Parameters
    ----------
    variables : the numbers that were blurred together.
    k : records that share a centre; published.
    strata : the categories within which neighbours were sought; published.
    distance : kind of distance: "euclidean" or "mahalanobis", as in the method.
    tolerance : how near the truth counts as worked out: in standard deviations.
    rounds : number of corrections, for each of three sizes of steps.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> method = sf.methods.Deterministic(variables=["income"], k=3, missing="drop")
    >>> kept = data.take(data.column("income").is_not_null().arg_true().to_numpy())
    >>> found = Undoing(variables=["income"], k=3).measure(kept, method.apply(kept))
    >>> found.value > found.baseline, found.details["undoing_error_left"] < 1
    (True, True)

    References: Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in
    sensitive personal data; van Cittert (1931), Zeitschrift für Physik 69:298.
    """

    name = "undoing"
    counts_persons = True  # it counts values
    attack = AttackWording(
        title="Undoing centres",
        control="taken as they are",
        sentence="Working back from the released centres comes within {tolerance:g} standard "
        "deviations of the truth for {success} of the values, and for {control} without that work. "
        "The remaining error is {undoing_error_left_percent} of what it was.",
        against_release=True,
    )
    # As many as a first plan lets stay next to their original.
    trial = Trial(exploits=("centres",), acceptable=0.2, seconds=4.0, in_sample="unknown")
    examples = (
        {"variables": ["height", "weight_kg"], "k": 5, "strata": ["sex"]},
        {"variables": ["glucose", "hdl"], "k": 3, "distance": "mahalanobis", "rounds": 5},
    )
    of = "pair"
    numbers = (
        Number.share("undoing"),
        Number.distance("undoing_error"),
        Number.distance("undoing_error_left"),
        Number.score(
            "undoing_correlation", safer="less", useful="neither", lowest=-1.0, highest=1.0
        ),
    )
    variables: Annotated[list[str], Field(min_length=1)]
    k: Annotated[int, Field(ge=2)]
    strata: list[str] = Field(default_factory=list)
    distance: Literal["euclidean", "mahalanobis"] = "euclidean"
    tolerance: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    rounds: Annotated[int, Field(ge=1, le=10_000)] = 40

    def __post_init__(self) -> None:
        if both := sorted(set(self.variables) & set(self.strata)):
            wrong = f"names '{both[0]}', which is among the variables too."
            raise ParameterError(type(self).__name__, [("strata", wrong)])

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Undo the centres, and see how near that comes to the original."""
        del engine  # all records are in memory
        ready = self._prepare(original, released)
        guess_of_attacker = self._reconstruct(ready)
        guesses = {
            self.name: guess_of_attacker.values,
            "released_as_it_is": ready.released,
            "centre_itself": self._compute_centres(ready, ready.original),
        }
        worked_out = {
            label: self._share_worked_out(ready, guess) for label, guess in guesses.items()
        }
        shares = {label: exact_mean(by_record) for label, by_record in worked_out.items()}
        errors = {label: _error(ready, guess) for label, guess in guesses.items()}
        worked, error = shares.pop(self.name), errors.pop(self.name)
        # Nobody has to work: values that were hardly blurred are simply read.
        value = max(worked, shares["released_as_it_is"])
        error = min(error, errors["released_as_it_is"])
        least_error = min(errors.values())
        table = self._table(ready, guesses)
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=wilson(value, len(ready.rows)),
            direction=self.direction,
            baseline=shares["released_as_it_is"],
            records=original.like(_records(ready, worked_out[self.name])),
            table=original.like(table),
            details={
                "undoing_error": error,
                "undoing_error_left": error / least_error if least_error > 0 else 1.0,
                "undoing_correlation": min(table["correlation"]),
                **self._choose_worst(ready, guesses, table),
                "plain_error": least_error,
                "worked_out": worked,
                **shares,
                "misfit": guess_of_attacker.misfit,
                "misfit_of_release": guess_of_attacker.before,
                "tolerance": self.tolerance,
                "comparable_records": len(ready.rows),
                "k": self.k,
                "variables": tuple(ready.names),
            },
            assumptions=_ASSUMPTIONS,
            warnings=(
                *ready.warnings,
                *self._list_warnings(worked, shares["released_as_it_is"], error, least_error),
            ),
        )

    def _prepare(self, original: Dataset, released: Dataset) -> _PreparedPair:
        """The complete records of strata that are large enough, stratum by stratum."""
        known = knowledge(original, released, self.variables, owner=self.name)
        released.schema.require(self.strata)
        group, rows = np.zeros(len(known.original), np.int64), np.arange(len(known.original))
        for name in self.strata:
            codes = encode(released.column(name).cast(pl.String)).missing_first
            more = codes[known.complete].astype(np.int64)
            group = np.unique(group * (int(more.max()) + 1) + more, return_inverse=True)[1].ravel()
        # A centre takes k records of a stratum, so smaller strata have none.
        large = np.bincount(group)[group] >= self.k
        if not large.any():
            raise MeasureError(
                f"'{self.name}': no stratum has k = {self.k} complete records.",
                hint="name the strata and the k that the release was made with.",
            )
        warnings = known.warnings
        if excluded := int((~large).sum()):
            warnings += (f"{excluded} records are in strata too small for k, and were left out.",)
        rows = rows[large][np.argsort(group[large], kind="stable")]
        sizes = np.bincount(group[large])
        starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        truth = known.original[rows]
        deviations = np.array([standard_deviation(column) for column in truth.T])
        flat = [
            name
            for name, deviation in zip(known.names, deviations, strict=True)
            if not deviation > 0
        ]
        if flat:
            raise MeasureError(
                f"'{self.name}' needs variables that vary: {', '.join(flat)} has one value only.",
                hint="leave it out of `variables`.",
            )
        means = np.array([exact_mean(column) for column in truth.T])
        shown = known.released[rows]
        return _PreparedPair(
            known.names, rows, known.complete, truth, shown, starts, means, deviations, warnings
        )

    def _reconstruct(self, ready: _PreparedPair) -> Reconstruction:
        return reconstruct(
            ready.released,
            ready.means,
            ready.deviations,
            lambda values: self._compute_centres(ready, values),
            rounds=self.rounds,
        )

    def _compute_centres(self, ready: _PreparedPair, values: Floats) -> Floats:
        """What the method makes of values before it stretches them back."""
        from sfumato.kernels.trees.neighbours import centroids

        scale = 1 / ready.deviations if self.distance == "euclidean" else self._weights(ready)
        try:
            return centroids(values, scale, ready.starts, self.k)
        except ValueError as error:
            raise MeasureError(
                f"'{self.name}' finds no neighbours. {error}", hint="give values in another unit."
            ) from None

    def _weights(self, ready: _PreparedPair) -> Floats:
        """Mahalanobis' by the covariance of the release: it has nearly that of the original."""
        shown = covariance(ready.released, ready.names, self.name)
        require_regular(shown, ready.names, self.name)
        # With S^-1 = L L', L' x has Mahalanobis' distance as its length.
        weights: Floats = np.linalg.cholesky(np.linalg.inv(shown)).T
        return weights

    def _share_worked_out(self, ready: _PreparedPair, guess: Floats) -> Floats:
        """For each record the share of its values that are worked out."""
        close = np.abs(guess - ready.original) <= self.tolerance * ready.deviations
        shares: Floats = close.sum(axis=1) / len(ready.names)
        return shares

    def _table(self, ready: _PreparedPair, guesses: Mapping[str, Floats]) -> pl.DataFrame:
        rows = []
        for index, name in enumerate(ready.names):
            truth, wide = ready.original[:, index], self.tolerance * ready.deviations[index]
            shares = [
                int((np.abs(guess[:, index] - truth) <= wide).sum()) / len(truth)
                for guess in guesses.values()
            ]
            rows.append((name, *shares, _correlation(guesses[self.name][:, index], truth)))
        names = ["variable", *guesses, "correlation"]
        return pl.DataFrame(rows, schema=names, orient="row")

    def _choose_worst(
        self, ready: _PreparedPair, guesses: Mapping[str, Floats], table: pl.DataFrame
    ) -> dict[str, Any]:
        """What targets are checked against: the variable that is taken back best."""
        shares = table.select(pl.max_horizontal(self.name, "released_as_it_is")).to_series()
        errors = [
            min(
                _error_of_variable(ready, guesses[label], index)
                for label in (self.name, "released_as_it_is")
            )
            for index in range(len(ready.names))
        ]
        return {
            f"{self.name}{AT_WORST}": max(shares),
            f"undoing_error{AT_WORST}": min(errors),
            f"undoing_correlation{AT_WORST}": max(table["correlation"]),
            "worst_variable": ready.names[shares.arg_max() or 0],
        }

    def _list_warnings(
        self, value: float, was: float, error: float, least_error: float
    ) -> tuple[str, ...]:
        if not error < _MATTERS * least_error:
            return ()
        warning = (
            f"The blur can be taken back in part, with nothing but what is published: the error "
            f"falls from {least_error:.3f} to {error:.3f} standard deviations, and {value:.1%} of "
            f"the values are within {self.tolerance:g} of the truth, {was:.1%} without that work. "
            "A larger k hardly helps: blur more variables together, or add noise."
        )
        return (warning,)


def _error(ready: _PreparedPair, guess: Floats) -> float:
    gaps = (guess - ready.original) / ready.deviations
    return float(np.sqrt(exact_mean((gaps * gaps).ravel())))


def _error_of_variable(ready: _PreparedPair, guess: Floats, index: int) -> float:
    gaps = (guess[:, index] - ready.original[:, index]) / ready.deviations[index]
    return float(np.sqrt(exact_mean(gaps * gaps)))


def _correlation(first: Floats, second: Floats) -> float:
    spreads = standard_deviation(first) * standard_deviation(second)
    if not spreads > 0:
        return 0.0
    together = exact_sum((first - exact_mean(first)) * (second - exact_mean(second))) / (
        len(first) - 1
    )
    return min(1.0, max(-1.0, together / spreads))


def _records(ready: _PreparedPair, shares: Floats) -> pl.DataFrame:
    """The share of each record's values that are worked out; null where that is not known."""
    column = np.full(int(ready.complete.sum()), np.nan)
    column[ready.rows] = shares
    return tabulate_records(ready.complete, {"worked_out": column})
