"""What the Gibbs sampler of linear models computes record by record.

True numbers are integrated out: given the level k of its categories and the mixture component j,
what was released of a record is normal. So a record enters through

    log p(level k, component j, released values) = log π_k + log p(released categories | k)
        + log share_jk - ½ log |Σ_j + noise| - ½ r' (Σ_j + noise)⁻¹ r,

where r is what was released less its mean. `draw_memberships` draws level and component from it
and adds up cross products, which are all that other steps need; `add_log_likelihood` sums levels
out instead. Both have a faster form for two levels that differ in their means alone: the log odds
are then linear in what was released. `add_logit_derivatives` serves the model of the levels.

References: Liu (1994), JASA 89:958 (collapsing); Steele, Lea & Flood (2014), OOPSLA:453
(SplitMix64); Cody & Waite (1980), Software Manual for the Elementary Functions (exponential).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, njit, types, uint8, uint64

from sfumato.kernels.arrays import Array, Floats, Integers

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53
_DRAW_BLOCK = 512
BLOCK = 256
"""Records whose log(1 + exp) is computed together."""
_LOG2E, _ROUNDER = 1.4426950408889634, 6755399441055744.0
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6
"""ln 2 in two parts, so that n ln 2 is exact."""
_MANTISSA = np.int64(52)
_LOWEST = -700.0

_struct: Any = types.NamedTuple
_uniform_struct: Any = types.NamedUniTuple
_COMPILED: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
_F1, _F2, _F3, _F4 = float64[::1], float64[:, ::1], float64[:, :, ::1], float64[:, :, :, ::1]
_F5 = types.Array(float64, 5, "C")
_I1, _I2, _LEVELS = int64[::1], int64[:, ::1], uint8[::1]


class LinearRecords(NamedTuple):
    """The records.

    Parameters
    ----------
    rows : (record, column) clean columns, released numbers, the outcome.
    codes : (record, 3) pattern of missing values, row of the table of level probabilities, group.
    log_density : (record, level) log density of what was released of the categories.
    """

    rows: Floats
    codes: Integers
    log_density: Floats


class MembershipTerms(NamedTuple):
    """What the log density of a record given level and component is made of.

    In `add_log_likelihood` all but `roles` have the draw as a further, first axis.

    Parameters
    ----------
    log_table : (table row, level) log probabilities of the levels.
    residual : (group, value, column) residual for the first level and component = residual @ row.
    precision : (component, pattern, value, value) inverse covariance of what was released.
    mean_shift : (component, level, value) how means differ from those of the first.
    log_constant : (component, pattern, level) log share less half the log determinant.
    interaction : (level, column) how the mean of the outcome differs by level with clean columns;
        no levels where it does not.
    logits : (group, split, column) coefficients of the sequential logits of the levels; no splits
        where the levels follow a table.
    logit_shift : (split, level) what earlier categories add to these.
    roles : (split, level) 1 where the split asks for this level, 0 for a later one, else -1.
    """

    log_table: Floats
    residual: Floats
    precision: Floats
    mean_shift: Floats
    log_constant: Floats
    interaction: Floats
    logits: Floats
    logit_shift: Floats
    roles: Integers


class RecordSpan(NamedTuple):
    """Records `begin` to `end`, those of the groups from `first_group` on."""

    begin: int
    end: int
    first_group: int


_RECORDS = _struct((_F2, _I2, _F2), LinearRecords)
_TERMS = _struct((_F2, _F3, _F4, _F3, _F3, _F2, _F3, _F2, _I2), MembershipTerms)
_TERMS_OF_DRAWS = _struct((_F3, _F4, _F5, _F4, _F4, _F3, _F4, _F3, _I2), MembershipTerms)
_SPAN = _uniform_struct(int64, 3, RecordSpan)


@njit(float64(uint64, int64), **_COMPILED, inline="always")
def _uniform(key, i):  # type: ignore[no-untyped-def]
    """The i-th uniform number under a key: SplitMix64 of a counter."""
    mixed = key + np.uint64(i) * _INCREMENT
    mixed = (mixed ^ (mixed >> _30)) * _FIRST
    mixed = (mixed ^ (mixed >> _27)) * _SECOND
    return float((mixed ^ (mixed >> _31)) >> _11) * _UNIT


@njit(nogil=True, error_model="numpy", inline="always")
def _score_record(records, terms, i, residual, deviation, logits, scores):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Write log p(level, component, released values) of record i to `scores`; their maximum.

    `residual`, `deviation` and `logits` are arrays to work with.
    """
    rows = records.rows
    pattern, cell, group = records.codes[i, 0], records.codes[i, 1], records.codes[i, 2]
    components, levels, size = terms.mean_shift.shape
    splits, columns = terms.logits.shape[1], terms.logits.shape[2]
    for a in range(size):
        total = 0.0
        for c in range(rows.shape[1]):
            total += terms.residual[group, a, c] * rows[i, c]
        residual[a] = total
    for s in range(splits):
        total = 0.0
        for c in range(columns):
            total += terms.logits[group, s, c] * rows[i, c]
        logits[s] = total
    top = -np.inf
    for k in range(levels):
        penalty = 0.0
        for s in range(splits):
            if terms.roles[s, k] >= 0:
                logit = logits[s] + terms.logit_shift[s, k]
                logit = -logit if terms.roles[s, k] == 1 else logit
                penalty += max(logit, 0.0) + np.log1p(np.exp(-abs(logit)))
        interaction = 0.0
        if len(terms.interaction):
            for c in range(1, terms.interaction.shape[1]):
                interaction += terms.interaction[k, c] * rows[i, c]
        for j in range(components):
            for a in range(size):
                deviation[a] = residual[a] - terms.mean_shift[j, k, a]
            deviation[size - 1] -= interaction
            score = terms.log_table[cell, k] + records.log_density[i, k]
            score += terms.log_constant[j, pattern, k]
            score -= penalty
            for a in range(size):
                total = 0.5 * terms.precision[j, pattern, a, a] * deviation[a]
                for b in range(a):
                    total += terms.precision[j, pattern, a, b] * deviation[b]
                score -= total * deviation[a]
            scores[j * levels + k] = score
            top = max(top, score)
    return top


@njit(types.void(_RECORDS, _TERMS, _SPAN, uint64, _LEVELS, _F4), **_COMPILED)
def draw_memberships(records, terms, span, key, level, products):  # type: ignore[no-untyped-def]
    """Draw level and component of each record from their joint full conditional.

    Parameters
    ----------
    key : of this pass's randomness.
    level : filled: the level of each record.
    products : (group, cell, column, column) added to: the lower triangles of the cross products
        of the rows, by cell of component, pattern and level.
    """
    rows = records.rows
    components, levels, size = terms.mean_shift.shape
    patterns, count = terms.log_constant.shape[1], components * levels
    residual, deviation = np.zeros(size), np.zeros(size)
    logits, scores = np.zeros(terms.logits.shape[1]), np.zeros(count)
    for i in range(span.begin, span.end):
        member = 0
        if count > 1:
            top = _score_record(records, terms, i, residual, deviation, logits, scores)
            # Inversion: the first member at which the running sum of the weights passes u.
            total = 0.0
            for c in range(count):
                total += np.exp(scores[c] - top)
                scores[c] = total
            u = _uniform(key, i) * total
            while member < count - 1 and u >= scores[member]:
                member += 1
        k = member % levels
        level[i] = k
        cell = ((member // levels) * patterns + records.codes[i, 0]) * levels + k
        g = records.codes[i, 2] - span.first_group
        for a in range(rows.shape[1]):
            for b in range(a + 1):
                products[g, cell, a, b] += rows[i, a] * rows[i, b]


@njit(types.void(_RECORDS, _F1, _F1, _F2, _SPAN, uint64, _LEVELS, _F4), **_COMPILED)
def draw_two_levels(records, released_odds, table_odds, slopes, span, key, level, products):  # type: ignore[no-untyped-def]
    """Do as `draw_memberships` for two levels that differ by shifts alone, twice as fast.

    Squares cancel, and the log odds of the second level are linear in what was released.

    Parameters
    ----------
    released_odds, table_odds : (record), (table row) log odds by what was released of the
        category, and by the table.
    slopes : (group, column) log odds by all else.
    span, key, level, products : see `draw_memberships`.
    """
    rows, codes = records.rows, records.codes
    width = rows.shape[1]
    # Draws and products take turns: the processor need not know the one to go on with the other.
    for begin in range(span.begin, span.end, _DRAW_BLOCK):
        end = min(begin + _DRAW_BLOCK, span.end)
        for i in range(begin, end):
            logit = table_odds[codes[i, 1]] + released_odds[i]
            g = codes[i, 2]
            for c in range(width):
                logit += slopes[g, c] * rows[i, c]
            level[i] = np.uint8(_uniform(key, i) * (1.0 + np.exp(-logit)) < 1.0)
        for i in range(begin, end):
            g, k = codes[i, 2] - span.first_group, level[i]
            for a in range(width):
                for b in range(a + 1):
                    products[g, k, a, b] += rows[i, a] * rows[i, b]


@njit(types.void(_RECORDS, _TERMS_OF_DRAWS, _F1), **_COMPILED)
def add_log_likelihood(records, terms, totals):  # type: ignore[no-untyped-def]
    """Add the log-likelihood of the records, levels summed out, to the total of each draw.

    Parameters
    ----------
    terms : with the draw as the first axis.
    totals : (draw) added to; right up to a constant.
    """
    components, levels, size = terms.mean_shift.shape[1:]
    residual, deviation = np.zeros(size), np.zeros(size)
    logits, scores = np.zeros(terms.logits.shape[2]), np.zeros(components * levels)
    for draw in range(len(totals)):
        terms_of_draw = MembershipTerms(
            terms.log_table[draw],
            terms.residual[draw],
            terms.precision[draw],
            terms.mean_shift[draw],
            terms.log_constant[draw],
            terms.interaction[draw],
            terms.logits[draw],
            terms.logit_shift[draw],
            terms.roles,
        )
        for i in range(len(records.rows)):
            top = _score_record(records, terms_of_draw, i, residual, deviation, logits, scores)
            total = 0.0
            for c in range(len(scores)):
                total += np.exp(scores[c] - top)
            totals[draw] += top + np.log(total)


@njit(types.void(_F1, _F1, _I1), **_COMPILED)
def exponentiate(values, shift, bits):  # type: ignore[no-untyped-def]
    """Write exp over values between -700 and 0, to 14 digits.

    exp(v) = 2ⁿ exp(r): adding a large number rounds v / ln 2 to n, whose bits are then added to
    the exponent; exp(r) is its Taylor polynomial. `bits` are those of `shift`, an array to work
    with. Loops have no branches, so that a processor takes several values at a time.
    """
    for i in range(BLOCK):
        shift[i] = values[i] * _LOG2E + _ROUNDER
    for i in range(BLOCK):
        n = shift[i] - _ROUNDER
        r = (values[i] - n * _LN2_HIGH) - n * _LN2_LOW
        series = 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        values[i] = series * r + 1.0
    for i in range(BLOCK):
        bits[i] = (bits[i] << _MANTISSA) + np.int64(1023 << 52)
    for i in range(BLOCK):
        values[i] *= shift[i]


@njit(types.void(_F2, _I1, _F1, _F2, _F2, _F1), **_COMPILED)
def add_log_one_plus_exp(columns, cell, offset, table_odds, slopes, totals):  # type: ignore[no-untyped-def]
    """Add Σ log(1 + exp(logit)) over the records to the total of each draw.

    With two levels that differ by shifts alone, this is all of the log-likelihood that is not
    quadratic in what was released.

    Parameters
    ----------
    columns : (column, record) clean columns (the first is 1), released numbers, the outcome.
    cell : (record) row of the table.
    offset, table_odds : (record), (draw, table row) parts of the logit.
    slopes : (draw, column) its coefficients.
    totals : (draw) added to.
    """
    records, several = columns.shape[1], table_odds.shape[1] > 1
    logit, small, shift = np.zeros(BLOCK), np.zeros(BLOCK), np.zeros(BLOCK)
    bits = shift.view(np.int64)
    for begin in range(0, records, BLOCK):
        count = min(BLOCK, records - begin)
        for draw in range(len(slopes)):
            first = slopes[draw, 0] + (0.0 if several else table_odds[draw, 0])
            # Beyond the last record: log(1 + exp(-∞)) = 0.
            logit[:] = 2.0 * _LOWEST
            for i in range(count):
                logit[i] = first + offset[begin + i]
            for c in range(1, len(columns)):
                slope = slopes[draw, c]
                for i in range(count):
                    logit[i] += slope * columns[c, begin + i]
            if several:
                for i in range(count):
                    logit[i] += table_odds[draw, cell[begin + i]]
            # log(1 + exp(l)) = max(l, 0) + log(1 + exp(-|l|))
            for i in range(BLOCK):
                small[i] = max(-abs(logit[i]), _LOWEST)
                logit[i] = max(logit[i], 0.0)
            exponentiate(small, shift, bits)
            for i in range(BLOCK):
                small[i] += 1.0
            # One logarithm of the product: each factor is 2 at most, so that it is finite.
            half = BLOCK // 2
            while half > 0:
                for i in range(half):
                    logit[i] += logit[i + half]
                    small[i] *= small[i + half]
                half //= 2
            totals[draw] += logit[0] + np.log(small[0])


class LogitSplit(NamedTuple):
    """One split of the sequential logits, with records or profiles of records to fit it to.

    Parameters
    ----------
    rows, group, level : (record) clean columns first; the group; the level.
    counts : how many records have this profile.
    roles, earlier : (level), (level, dummy): 1 this level, 0 a later one, -1 not at risk; the
        dummies of earlier categories.
    """

    rows: Floats
    group: Integers
    level: Array
    counts: Floats
    roles: Integers
    earlier: Floats


class LogitDerivatives(NamedTuple):
    """Sums to which `add_logit_derivatives` adds.

    Parameters
    ----------
    by_group : (group, 3) log-likelihood, gradient and information of the random intercept.
    gradient, information : of the coefficients; the lower triangle.
    """

    by_group: Floats
    gradient: Floats
    information: Floats


@njit(
    types.void(
        _struct((_F2, _I1, _LEVELS, _F1, _I1, _F2), LogitSplit),
        _F1,
        _F1,
        _struct((_F2, _F1, _F2), LogitDerivatives),
    ),
    **_COMPILED,
)
def add_logit_derivatives(split, alpha, intercepts, sums):  # type: ignore[no-untyped-def]
    """Add log-likelihood, gradient Σ (y - p) x and information Σ p (1 - p) x x' of a logit.

    Parameters
    ----------
    alpha : coefficients of clean columns and of the dummies of earlier categories.
    intercepts : random intercepts of the groups.
    """
    size, extra = len(alpha), split.earlier.shape[1]
    columns = size - extra
    x = np.zeros(size)
    for i in range(len(split.level)):
        k = split.level[i]
        y, count = split.roles[k], split.counts[i]
        if y < 0 or count == 0:
            continue
        g = split.group[i]
        logit = intercepts[g]
        for c in range(columns):
            x[c] = split.rows[i, c]
            logit += alpha[c] * x[c]
        for e in range(extra):
            x[columns + e] = split.earlier[k, e]
            logit += alpha[columns + e] * x[columns + e]
        small = np.exp(-abs(logit))
        p = 1.0 / (1.0 + small) if logit > 0 else small / (1.0 + small)
        log_p = -np.log1p(small) - (max(-logit, 0.0) if y == 1 else max(logit, 0.0))
        weight, deviation = count * p * (1.0 - p), count * (y - p)
        sums.by_group[g, 0] += count * log_p
        sums.by_group[g, 1] += deviation
        sums.by_group[g, 2] += weight
        for a in range(size):
            sums.gradient[a] += deviation * x[a]
            for b in range(a + 1):
                sums.information[a, b] += weight * x[a] * x[b]
