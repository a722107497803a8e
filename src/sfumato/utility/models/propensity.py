"""The propensity of being released: a model that separates original from released records.

Equal records are counted, not repeated, and stand in canonical order: what is fitted to them does
not depend on the order of the records, and is exactly even when both data sets are the same. A
logistic regression or a classification tree then estimates for each record the probability that it
was released.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers, Codes, Floats, Integers, Mask
from sfumato.kernels.exact_sums import canonical_order, exact_mean, standard_deviation
from sfumato.pairs.alignment import ComparableVariable
from sfumato.pairs.draws import align_variables
from sfumato.schema import IDENTIFYING

MOST_LEVELS = 50
"""A category with more levels in the original is left out of all releases, unless it is named."""
TOO_MANY_LEVELS = f"it has more than {MOST_LEVELS} levels"
BLOCK = 1 << 15
"""Distinct records whose columns are made at a time."""
MOST_COLUMNS = 1000
_COLLINEAR = 1e-12
"""A column with less than this share of its square left, given those before it, adds nothing."""
_STEPS = 100
_CONVERGED = 1e-13
"""A gain in log likelihood a record that the last step may still bring."""
_WORSE = 1e-9
"""A loss in log likelihood a record that is more than rounding."""
_RIDGE = 1e-13
"""Keeps a step finite where records are recognised with certainty."""
_CERTAIN = 20.0
"""Log odds beyond which a record is recognised with certainty."""
_BATCH = 25
"""Permutations that share a pass over the data."""
_SMALLEST_LEAF = 10
_MOST_LEAVES = 100
_SPLITS = 4
"""With records for fewer leaves, a tree would call anything alike."""

Features = npt.NDArray[np.float32]


# Merged records


@dataclass(frozen=True, eq=False)
class NumericVariable:
    """A numeric variable, standardised over both data sets; 0 where it is missing."""

    name: str
    values: Floats = field(repr=False)
    missing: Mask | None = field(repr=False)

    def parts(self) -> list[npt.NDArray[Any]]:
        """What tells its values apart."""
        return [self.values] if self.missing is None else [self.values, self.missing]

    def take(self, rows: Integers) -> NumericVariable:
        """Some of its values."""
        missing = None if self.missing is None else self.missing[rows]
        return replace(self, values=self.values[rows], missing=missing)


@dataclass(frozen=True, eq=False)
class CategoricalVariable:
    """A categorical variable as codes from 0 to `levels` - 1; missing is a level of its own."""

    name: str
    codes: Codes = field(repr=False)
    levels: int

    def parts(self) -> list[npt.NDArray[Any]]:
        """What tells its values apart."""
        return [self.codes]

    def take(self, rows: Integers) -> CategoricalVariable:
        """Some of its values."""
        return replace(self, codes=self.codes[rows])


ModelVariable = NumericVariable | CategoricalVariable


@dataclass(frozen=True, eq=False)
class MergedRecords:
    """The distinct records of both data sets, in canonical order.

    Parameters
    ----------
    variables : their values, one for each distinct record.
    originals, releases : how many records of either data set are equal to it.
    place_of_original, place_of_released : for each record of a data set, which one it equals.
    left_out : variables that are not compared, each with the reason.
    """

    variables: tuple[ModelVariable, ...]
    originals: Integers = field(repr=False)
    releases: Integers = field(repr=False)
    place_of_original: Integers = field(repr=False)
    place_of_released: Integers = field(repr=False)
    left_out: Mapping[str, str]

    @property
    def counts(self) -> Integers:
        """How many records of both data sets are equal to each."""
        return self.originals + self.releases

    @property
    def records(self) -> int:
        """How many records both data sets have together."""
        return len(self.place_of_original) + len(self.place_of_released)

    @property
    def share(self) -> float:
        """The share of the released records among all."""
        return len(self.place_of_released) / self.records

    def shuffle_labels(self, permutations: int) -> Iterator[AnyIntegers]:
        """`releases` as they would be if the labels were dealt out anew, time after time.

        The same data give the same permutations, other data give others: one seed for all would
        make the same error everywhere.
        """
        draw = np.random.default_rng(self._seed())
        labels = np.zeros(self.records, np.int8)
        labels[: len(self.place_of_released)] = 1
        starts = np.cumsum(self.counts) - self.counts
        small = np.min_scalar_type(self.counts.max())
        for _ in range(permutations):
            yield np.add.reduceat(draw.permutation(labels), starts, dtype=small)

    def _seed(self) -> int:
        """A digest of the records, whichever data set they stem from."""
        digest = hashlib.sha256(f"sfumato permutations {self.records}".encode())
        digest.update(np.ascontiguousarray(self.counts, "<i8").data)
        for variable in self.variables:
            for part in variable.parts():
                digest.update((np.ascontiguousarray(part, "<f8") + 0.0).data)  # no -0.0
        return int.from_bytes(digest.digest()[:16], "big")


def merge_records(
    original: Dataset,
    released: Dataset,
    named: Sequence[str] | None,
    *,
    categories: Sequence[str] = (),
    owner: str,
) -> MergedRecords:
    """Put both data sets together; fail when there is nothing to compare.

    By default all variables are taken but direct identifiers, weights and clusters; what cannot
    be compared is listed. A variable that was named and cannot be compared is an error.
    """
    original.schema.require([*(named or ()), *categories])
    if not len(original) or not len(released):
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    variables: list[ModelVariable] = []
    left_out: dict[str, str] = {}
    names = list_variables(original, named)
    for name, sides in align_variables(original, released, names).items():
        if isinstance(sides, str):
            left_out[name] = sides
            continue
        as_category = sides[0].categories or name in categories
        # By the original alone: how coarse a release is must not decide what is compared.
        if named is None and as_category and sides[0].original.n_unique() > MOST_LEVELS:
            left_out[name] = TOO_MANY_LEVELS
            continue
        variables.append(_build_variable(name, sides[0], as_category=as_category))
    require_comparable(bool(variables), left_out, named, owner=owner)
    return _count_distinct(variables, len(original), left_out)


def require_comparable(
    comparable: bool,  # noqa: FBT001 - what it asks
    left_out: Mapping[str, str],
    named: Sequence[str] | None,
    *,
    owner: str,
) -> None:
    """Fail where nothing can be compared, or something that somebody named cannot."""
    if (named is not None and left_out) or not comparable:
        reasons = "; ".join(f"'{name}': {why}" for name, why in left_out.items())
        raise MeasureError(
            f"'{owner}' cannot compare {reasons or 'anything'}.",
            hint="leave it out of `variables`." if named else "name some: variables = [...].",
        )


def list_variables(original: Dataset, named: Sequence[str] | None) -> list[str]:
    """Those named, or all that describe a person: a weight or the name of a group does not."""
    if named is not None:
        return list(named)
    return [
        name
        for name, declared in original.schema.items()
        if declared.role not in (*IDENTIFYING, "weight", "cluster")
    ]


def _build_variable(name: str, sides: ComparableVariable, *, as_category: bool) -> ModelVariable:
    both = pl.concat([sides.original, sides.released])
    if not as_category:
        return _build_number(name, both)
    if both.n_unique() > MOST_LEVELS:
        # New names are all told by being new: one level for them is enough.
        new = ~both.is_in(sides.original.unique().implode()) & both.is_not_null()
        both = both.set(new, both.filter(new).min()) if new.any() else both
    return _build_category(name, both)


def _build_category(name: str, values: pl.Series) -> CategoricalVariable:
    coded = encode(values)
    # Missing comes last, as one more level.
    levels = len(coded.levels) + bool(values.null_count())
    return CategoricalVariable(name, coded.missing_last, levels)


def _build_number(name: str, values: pl.Series) -> NumericVariable:
    values_known = values.drop_nulls().to_numpy() + 0.0  # no -0.0
    deviation = standard_deviation(values_known)
    mean = exact_mean(values_known) if deviation > 0 else 0.0
    return standardise(name, values, mean, deviation, gaps=values.null_count() > 0)


def standardise(
    name: str, values: pl.Series, mean: float, deviation: float, *, gaps: bool
) -> NumericVariable:
    """A number in standard deviations from its mean; `gaps` says if it is missing anywhere."""
    missing = values.is_null().to_numpy()
    scaled = np.zeros(len(values))
    if deviation > 0:
        scaled[~missing] = (values.drop_nulls().to_numpy() + 0.0 - mean) / deviation  # no -0.0
    return NumericVariable(name, scaled, missing if gaps else None)


def _count_distinct(
    variables: Sequence[ModelVariable], originals: int, left_out: Mapping[str, str]
) -> MergedRecords:
    """Count equal records."""
    keys = [key for variable in variables for key in variable.parts()]
    order = canonical_order(keys)
    new = np.zeros(len(order), bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    index = np.empty(len(order), np.int64)
    index[order] = np.cumsum(new) - 1
    first, distinct = order[new], int(new.sum())
    return MergedRecords(
        variables=tuple(variable.take(first) for variable in variables),
        originals=np.bincount(index[:originals], minlength=distinct),
        releases=np.bincount(index[originals:], minlength=distinct),
        place_of_original=index[:originals],
        place_of_released=index[originals:],
        left_out=left_out,
    )


# The design matrix, built block by block so that memory stays small


@dataclass(frozen=True, eq=False)
class DesignMatrix:
    """An intercept, a column per number, dummies per category, and their products if wanted.

    Parameters
    ----------
    merged : the records.
    owners : for each plain column after the intercept, the place of its variable.
    products : the two plain columns of each product, an array of two rows.
    kept : the columns that say something the ones before them do not.
    gram : the products of all pairs of kept columns, summed over all records.
    """

    merged: MergedRecords
    owners: Integers = field(repr=False)
    products: Integers = field(repr=False)
    kept: Integers = field(repr=False)
    gram: Floats = field(repr=False)

    @property
    def parameters(self) -> int:
        """How many parameters the model has, the intercept included."""
        return len(self.kept)

    def list_collinear(self) -> tuple[str, ...]:
        """The variables of which some column is constant or collinear."""
        lost = np.setdiff1d(np.arange(len(self.owners) + 1), self.kept)
        owners = sorted({int(self.owners[index - 1]) for index in lost if index})
        return tuple(self.merged.variables[index].name for index in owners)

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Which distinct records, and their columns."""
        for start in range(0, len(self.merged.counts), BLOCK):
            rows = slice(start, min(start + BLOCK, len(self.merged.counts)))
            yield rows, self.block(rows)

    def block(self, rows: slice) -> Floats:
        """The kept columns of some distinct records."""
        main = np.empty((rows.stop - rows.start, len(self.owners) + 1), order="F")
        main[:, 0] = 1.0
        columns = (
            column
            for variable in self.merged.variables
            for column in _generate_columns(variable, rows)
        )
        for index, column in enumerate(columns, 1):
            main[:, index] = column
        if not self.products.size:
            complete = main.shape[1] == len(self.kept)
            return main if complete else np.asfortranarray(main[:, self.kept])
        selected = np.empty((len(main), len(self.kept)), order="F")
        for index, column in enumerate(self.kept):
            if column < main.shape[1]:
                selected[:, index] = main[:, column]
            else:
                first, second = self.products[:, column - main.shape[1]]
                np.multiply(main[:, first], main[:, second], out=selected[:, index])
        return selected


def _generate_columns(variable: ModelVariable, rows: slice) -> Iterator[Floats]:
    if isinstance(variable, NumericVariable):
        yield variable.values[rows]
        if variable.missing is not None:
            yield variable.missing[rows].astype(float)
    else:
        for level in range(1, variable.levels):
            yield (variable.codes[rows] == level).astype(float)


def _count_columns(variable: ModelVariable) -> int:
    return (
        variable.levels - 1
        if isinstance(variable, CategoricalVariable)
        else 1 + (variable.missing is not None)
    )


def build_design(merged: MergedRecords, *, interactions: bool) -> DesignMatrix:
    """The design of all variables; constant and collinear columns are left out of `kept`.

    With interactions there is a product for each pair of columns of different variables, and
    the square of each number: noise changes nothing else.
    """
    full = list_columns(merged, interactions=interactions)
    return select_columns(full, compute_gram(full))


def list_columns(merged: MergedRecords, *, interactions: bool) -> DesignMatrix:
    """The design of all variables, with all of its columns; its `gram` is not known yet."""
    widths = [_count_columns(variable) for variable in merged.variables]
    owners = np.repeat(np.arange(len(widths)), widths)
    products = np.empty((2, 0), np.int64)
    if interactions:
        _require_few(1 + sum(widths) + _count_products(widths))
        starts = np.cumsum([1, *widths])
        squares = [
            (int(starts[index]),) * 2
            for index, variable in enumerate(merged.variables)
            if isinstance(variable, NumericVariable)
        ]
        columns = range(1, sum(widths) + 1)
        pairs = [
            pair for pair in combinations(columns, 2) if owners[pair[0] - 1] != owners[pair[1] - 1]
        ]
        products = np.array([*squares, *pairs], np.int64).reshape(-1, 2).T
    width = 1 + sum(widths) + products.shape[1]
    _require_few(width)
    return DesignMatrix(merged, owners, products, np.arange(width), np.empty((0, 0)))


def select_columns(full: DesignMatrix, gram: Floats) -> DesignMatrix:
    """The design without the columns that say nothing new."""
    selected = _select_independent(gram)
    return replace(full, kept=selected, gram=gram[np.ix_(selected, selected)])


def compute_gram(full: DesignMatrix) -> Floats:
    """The products of all pairs of columns, summed over all records."""
    total = np.zeros((full.parameters, full.parameters))
    for rows, block in full.blocks():
        total += block.T @ (block * full.merged.counts[rows, None])
    return total


def _count_products(widths: list[int]) -> int:
    return (sum(widths) ** 2 - sum(width**2 for width in widths)) // 2


def _require_few(width: int) -> None:
    if width > MOST_COLUMNS:
        raise MeasureError(
            f"A model of these variables would have {width} parameters; {MOST_COLUMNS} are the "
            "most.",
            hint='name fewer variables, or choose model = "tree".',
        )


def _select_independent(gram: Floats) -> Integers:
    """The columns that are no combination of those before them, by the steps of Cholesky."""
    size = np.sqrt(np.diag(gram))
    scale = np.where(size > 0, size, 1.0)
    remaining = gram / np.outer(scale, scale)
    selected = []
    for index in range(len(remaining)):
        if remaining[index, index] <= _COLLINEAR:
            continue
        selected.append(index)
        ratios = remaining[index + 1 :, index] / remaining[index, index]
        remaining[index + 1 :, index + 1 :] -= np.outer(ratios, remaining[index, index + 1 :])
    return np.array(selected, np.int64)


# Logistic regression, and what it would find by chance


@dataclass(frozen=True, eq=False)
class PropensityFit:
    """For each distinct record the probability of being released, and if any is certain."""

    probability: Floats = field(repr=False)
    certain: bool


def fit_logistic(design: DesignMatrix) -> PropensityFit:
    """The model of records in memory.

    Where a value occurs in one data set only, the estimates have no end; the probabilities do,
    and those are returned.
    """
    merged = design.merged
    beta = maximise_likelihood(
        partial(differentiate, design), design.parameters, merged.share, merged.records
    )
    return predict(design, beta)


def predict(design: DesignMatrix, beta: Floats) -> PropensityFit:
    """What the model says of each record."""
    odds = np.concatenate([_combine_columns(block, beta) for _, block in design.blocks()])
    return PropensityFit(_to_probability(odds), bool(np.abs(odds).max() > _CERTAIN))


Derivatives = tuple[float, Floats, Floats]
"""Log likelihood, gradient and information."""


def maximise_likelihood(
    compute_derivatives: Callable[[Floats], Derivatives],
    parameters: int,
    share: float,
    records: int,
) -> Floats:
    """Newton's method with halved steps where one goes too far.

    Parameters
    ----------
    compute_derivatives : log likelihood, gradient and information at some estimates.
    parameters : how many estimates there are, the intercept first.
    share, records : the share of released records, and how many there are of both data sets.
    """
    beta = np.zeros(parameters)
    beta[0] = math.log(share / (1 - share))
    best, previous = -math.inf, beta
    for _ in range(_STEPS):
        likelihood, gradient, information = compute_derivatives(beta)
        # The step overshot: go half the way back.
        if likelihood < best - _WORSE * records:
            beta = (beta + previous) / 2
            continue
        step = _newton_step(information, gradient)
        best, previous, beta = likelihood, beta, beta + step
        if float(gradient @ step) <= _CONVERGED * records:
            return beta
    raise MeasureError(
        "The logistic model that tells released from original records does not converge.",
        hint='name fewer variables, or choose model = "tree".',
    )


def differentiate(design: DesignMatrix, beta: Floats) -> Derivatives:
    """Log likelihood, gradient and information; records in canonical order, block by block."""
    counts, releases = design.merged.counts, design.merged.releases
    likelihood = 0.0
    gradient = np.zeros(design.parameters)
    information = np.zeros((design.parameters, design.parameters))
    for rows, block in design.blocks():
        odds = _combine_columns(block, beta)
        small = np.exp(-np.abs(odds))
        losses = np.maximum(odds, 0.0) + np.log1p(small)
        likelihood += float(releases[rows] @ odds - counts[rows] @ losses)
        gradient += block.T @ (releases[rows] - counts[rows] * _to_probability(odds))
        # Never 0, as a product of two probabilities would be where one of them rounds to 1.
        weight = counts[rows] * small / (1 + small) ** 2
        information += block.T @ (block * weight[:, None])
    return likelihood, gradient, information


def _combine_columns(block: Floats, beta: Floats) -> Floats:
    """The columns added up one by one, so that equal records get equal bits wherever they are."""
    odds = np.zeros(len(block))
    for column, weight in zip(block.T, beta, strict=True):
        odds += column * weight
    return odds


def _to_probability(odds: Floats) -> Floats:
    small = np.exp(-np.abs(odds))
    return np.where(odds >= 0, 1.0, small) / (1.0 + small)


def _newton_step(information: Floats, gradient: Floats) -> Floats:
    scale = 1 / np.sqrt(np.diag(information))
    stabilised = information * np.outer(scale, scale) + _RIDGE * np.eye(len(scale))
    step: Floats = scale * np.linalg.solve(stabilised, scale * gradient)
    return step


@dataclass(frozen=True, eq=False)
class PermutationScores:
    """What one step of Newton's method finds in these data, and in permuted ones."""

    observed: float
    permuted: Floats = field(repr=False)


def score_permutations(design: DesignMatrix, permutations: int) -> PermutationScores:
    """The mean squared deviation of the propensities after one step of Newton's method.

    From "nothing differs", one step is a projection on the design. Whether the labels mean
    anything is seen as well there as at the end, and no permutation needs a fit.
    """
    merged = design.merged
    observed = _project_labels(design, merged.releases[:, None])
    shuffled = merged.shuffle_labels(permutations)
    permuted = []
    while batch := list(islice(shuffled, _BATCH)):
        permuted.append(_project_labels(design, np.column_stack(batch)))
    return PermutationScores(float(observed[0]), np.concatenate([np.empty(0), *permuted]))


def _project_labels(design: DesignMatrix, releases: AnyIntegers) -> Floats:
    """For each column of labels, the squared length of its projection over the records."""
    merged = design.merged
    sums = np.zeros((design.parameters, releases.shape[1]))
    for rows, block in design.blocks():
        # Taken away before it is summed, so that equal data give exactly nothing.
        sums += block.T @ (releases[rows] - merged.share * merged.counts[rows, None])
    scale = 1 / np.sqrt(np.diag(design.gram))
    solved = np.linalg.solve(design.gram * np.outer(scale, scale), sums * scale[:, None])
    squares: Floats = (sums * scale[:, None] * solved).sum(axis=0) / merged.records
    return squares


# The classification tree


def choose_leaf_size(merged: MergedRecords) -> int:
    """How many records a leaf has at least; fail when there are too few for a tree."""
    leaf = max(_SMALLEST_LEAF, merged.records // _MOST_LEAVES)
    if merged.records < _SPLITS * leaf:
        raise MeasureError(
            f"A tree needs {_SPLITS * leaf} records in both data sets together; there are "
            f"{merged.records}.",
            hint='choose model = "main".',
        )
    return leaf


def build_features(merged: MergedRecords) -> Features:
    """A column per number and per level.

    Numbers by rank: a tree sees nothing else of them, and ranks survive 32 bits.
    """
    columns = [column for variable in merged.variables for column in _build_columns(variable)]
    return np.column_stack(columns).astype(np.float32)


def _build_columns(variable: ModelVariable) -> list[npt.NDArray[Any]]:
    if isinstance(variable, NumericVariable):
        ranks = encode(pl.Series(variable.values)).codes
        return [ranks] if variable.missing is None else [ranks, variable.missing]
    return [variable.codes == level for level in range(variable.levels)]


def fit_tree(
    merged: MergedRecords, features: Features, releases: AnyIntegers, *, leaf: int
) -> Floats:
    """For each distinct record the share of released ones in its leaf."""
    from sklearn.tree import DecisionTreeClassifier

    # Every distinct record as often as it occurs with either label.
    copies = np.column_stack([merged.counts - releases, releases]).ravel()
    rows = np.repeat(np.arange(len(releases)), merged.counts)
    labels = np.repeat(np.tile([0, 1], len(releases)), copies)
    # Among equally good splits chance decides; the seed makes it the same chance every time.
    model = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=0)
    probability: Floats = model.fit(features[rows], labels).predict_proba(features)[:, 1]
    return probability
