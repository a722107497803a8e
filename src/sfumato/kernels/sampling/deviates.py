"""Normal and exponential numbers from uniform ones by inversion, the same on every machine.

A library's logarithm may differ in the last bit from one processor to the next, and a release
must not. So only what IEEE 754 fixes to the last bit is used: + - * / and the square root.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.arrays import Floats

FEW = 10_000
"""Up to this many numbers, loading compiled code costs more than it saves (`bench_noise`)."""
MIDDLE_SQUARE, TAIL_SHIFT, FAR_SHIFT = 0.180625, 1.6, 5.0
# Wichura (1988), algorithm AS 241 (PPND16): numerators and denominators, highest power first.
CENTRE = (
    (
        2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
        4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
        1.3314166789178437745e2, 3.3871328727963666080,
    ),
    (
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
        2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
        4.2313330701600911252e1, 1.0,
    ),
)  # fmt: skip
TAIL = (
    (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
        1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
        4.63033784615654529590, 1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
        1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
        2.05319162663775882187, 1.0,
    ),
)  # fmt: skip
FAR_TAIL = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
        2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
        5.46378491116411436990, 6.65790464350110377720,
    ),
    (
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
        7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
        5.99832206555887937690e-1, 1.0,
    ),
)  # fmt: skip
# The logarithm of FreeBSD's msun (e_log.c).
LOG = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
    2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
    6.666666666666735130e-01, 0.0,
)  # fmt: skip
ROOT_HALF = math.sqrt(0.5)
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def normal(uniform: Floats, out: Floats | None = None) -> Floats:
    """Standard normal numbers: the quantile function at each uniform number.

    With `out`, which may be the uniform numbers themselves, they are put there.

    Examples
    --------
    >>> normal(np.array([0.5, 0.975])).round(6) + 0.0
    array([0.      , 1.959964])
    """
    quantiles = np.empty(len(uniform)) if out is None else out
    if len(quantiles) > FEW:
        from sfumato.kernels.sampling import deviates_compiled

        deviates_compiled.fill_normal(uniform, quantiles)
    else:
        quantiles[:] = _normal_quantiles(uniform)
    return quantiles


def exponential(uniform: Floats, out: Floats | None = None) -> Floats:
    """Exponential numbers of mean 1; `out` as for `normal`.

    Examples
    --------
    >>> exponential(np.array([0.5, 0.975])).round(6)
    array([0.693147, 0.025318])
    """
    times = np.empty(len(uniform)) if out is None else out
    if len(times) > FEW:
        from sfumato.kernels.sampling import deviates_compiled

        deviates_compiled.fill_exponential(uniform, times)
    else:
        times[:] = -log(uniform)
    return times


def _normal_quantiles(p: Floats) -> Floats:
    from_middle = p - 0.5
    square = MIDDLE_SQUARE - from_middle * from_middle
    quantiles = _polynomial_ratio(square, CENTRE) * from_middle
    # Beyond the middle, in powers of √(-log p) of the nearer tail.
    tails = np.flatnonzero(square < 0)
    root = np.sqrt(-log(np.minimum(p, 1.0 - p)[tails]))
    sizes = _polynomial_ratio(root - TAIL_SHIFT, TAIL)
    far = root > FAR_SHIFT
    sizes[far] = _polynomial_ratio(root[far] - FAR_SHIFT, FAR_TAIL)
    quantiles[tails] = np.copysign(sizes, from_middle[tails])
    return quantiles


def log(x: Floats) -> Floats:
    """The natural logarithm of positive numbers, within one unit in the last place."""
    # x = 2^power (1 + f), and log(1 + f) = f - (f²/2 - s (f²/2 + R(s²))), s = f / (2 + f).
    fraction, exponent = np.frexp(x)
    small = fraction < ROOT_HALF
    power = (exponent - small).astype(float)
    fraction = np.where(small, 2.0 * fraction, fraction) - 1.0
    ratio = fraction / (fraction + 2.0)
    half = fraction * fraction * 0.5
    # High and low part of the logarithm of the power of two, smallest terms first.
    series = (_polynomial(ratio * ratio, LOG) + half) * ratio + power * LN2_LOW
    logs: Floats = power * LN2_HIGH - (half - series - fraction)
    return logs


def _polynomial_ratio(x: Floats, both: tuple[tuple[float, ...], tuple[float, ...]]) -> Floats:
    numerator, denominator = both
    return _polynomial(x, numerator) / _polynomial(x, denominator)


def _polynomial(x: Floats, coefficients: tuple[float, ...]) -> Floats:
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value
