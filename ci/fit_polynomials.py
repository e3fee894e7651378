"""This script writes codegen/polynomials/coefficients.py: polynomials and split constants of inlined functions.

Run `python ci/fit_polynomials.py > backends/codegen/polynomials/coefficients.py`; a test compares the two.
All arithmetic uses fractions. A function is given by its Taylor series f(s) = a_0 + a_1 s + ..., with as many terms as
influence the result. The polynomial agrees with f at the Chebyshev nodes of the interval, so its error is within a
small factor of the least possible one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Series = Callable[[int], Fraction]
"""Function from k to the Taylor coefficient of s^k."""

TERMS = 60
"""Number of terms kept of a series; on all intervals below, the rest is less than 2^-70 of the sum."""

DIGITS = {"f32": 24, "f64": 53}


@dataclass(frozen=True)
class Fit:
    """Represent a function of s on [low, high] that is to be approximated by a polynomial.

    Attributes:
        series: its Taylor series.
        low: the lower end of the interval.
        high: the upper end of the interval.
        exact: the number of first coefficients that stay as they are in the series.
        degrees: the degree of the polynomial, by type.
    """

    series: Series
    low: float
    high: float
    exact: int
    degrees: dict[str, int]


def rounded(x: Fraction, kind: str) -> float:
    """Return the f32 or f64 number nearest to x."""
    double = float(x)
    return double if kind == "f64" else float(struct.unpack("f", struct.pack("f", double))[0])


def evaluate(coefficients: Sequence[Fraction], s: Fraction) -> Fraction:
    """Return the polynomial at s, by Horner's rule."""
    total = Fraction(0)
    for c in reversed(coefficients):
        total = total * s + c
    return total


def nodes(low: float, high: float, count: int) -> list[Fraction]:
    """Return the Chebyshev nodes of the interval [low, high], with 0 replaced by a number near 0."""
    middle, half = (low + high) / 2, (high - low) / 2
    made = [middle + half * math.cos(math.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    return [Fraction(s if abs(s) > 1e-9 else 1e-6) for s in made]


def interpolate(points: Sequence[tuple[Fraction, Fraction]]) -> list[Fraction]:
    """Return the coefficients of the polynomial through the points, by divided differences."""
    places, column = [s for s, _ in points], [y for _, y in points]
    newton = [column[0]]
    for order in range(1, len(points)):
        column = [(column[k + 1] - column[k]) / (places[k + order] - places[k]) for k in range(len(column) - 1)]
        newton.append(column[0])
    out = [newton[-1]]
    # Horner's rule turns the Newton form into powers of s.
    for difference, place in zip(reversed(newton[:-1]), reversed(places[:-1])):
        shifted = [Fraction(0), *out]
        out = [a - place * b for a, b in zip(shifted, [*out, Fraction(0)])]
        out[0] += difference
    return out


def fit(f: Fit, kind: str) -> list[float]:
    """Return the coefficients of the approximating polynomial, rounded to f32 or f64, lowest power first.

    Rounding the coefficients changes values of the polynomial far less than rounding its terms and sums does.
    """
    taylor = [f.series(k) for k in range(TERMS)]
    some = nodes(f.low, f.high, f.degrees[kind] + 1 - f.exact)
    # The fixed coefficients are subtracted, and the rest is divided by the first free power of s.
    rest = [(s, (evaluate(taylor, s) - evaluate(taylor[: f.exact], s)) / s**f.exact) for s in some]
    return [rounded(c, kind) for c in [*taylor[: f.exact], *interpolate(rest)]]


def split(x: Fraction, parts: int, bits: int) -> list[float]:
    """Return numbers of at most `bits` bits whose sum approximates x, the largest first."""
    out = []
    for _ in range(parts):
        # The last digit of the part stands at this power of two.
        exponent = math.frexp(float(x))[1] - bits
        part = Fraction(math.floor(x / Fraction(2) ** exponent)) * Fraction(2) ** exponent
        out.append(float(part))
        x -= part
    return out


# ---- the functions ------------------------------------------------------------------------------------------


def arctangent(inverse: int) -> Fraction:
    """Return atan(1/inverse) to more than 200 bits."""
    return sum((Fraction((-1) ** k, (2 * k + 1) * inverse ** (2 * k + 1)) for k in range(100)), start=Fraction(0))


PI = 16 * arctangent(5) - 4 * arctangent(239)
LN2 = sum((Fraction(2, (2 * k + 1) * 3 ** (2 * k + 1)) for k in range(100)), start=Fraction(0))

QUARTER = (math.pi / 4 * 1.005) ** 2
HALF = (math.pi / 2 * 1.005) ** 2
LOG_HALF = math.log(2) / 2 * 1.001

FITS = {
    "sin_half": Fit(lambda k: Fraction((-1) ** k, math.factorial(2 * k + 1)), 0, HALF, 1, {"f32": 5, "f64": 9}),
    "sin_quarter": Fit(lambda k: Fraction((-1) ** k, math.factorial(2 * k + 1)), 0, QUARTER, 1, {"f32": 3, "f64": 6}),
    "cos_quarter": Fit(lambda k: Fraction((-1) ** k, math.factorial(2 * k)), 0, QUARTER, 2, {"f32": 4, "f64": 7}),
    "exp": Fit(lambda k: Fraction(1, math.factorial(k)), -LOG_HALF, LOG_HALF, 2, {"f32": 6, "f64": 11}),
    "log": Fit(lambda k: Fraction(2, 2 * k + 3), 0, 0.02945, 0, {"f32": 2, "f64": 6}),
    "log_pair": Fit(lambda k: Fraction(2, 2 * k + 3), 0, 0.02945, 1, {"f32": 4, "f64": 8}),
    "asin": Fit(
        lambda k: Fraction(math.comb(2 * k + 2, k + 1), 4 ** (k + 1) * (2 * k + 3)), 0, 0.25, 0, {"f32": 5, "f64": 12}
    ),
    "atan": Fit(lambda k: Fraction((-1) ** (k + 1), 2 * k + 3), 0, 0.1717, 0, {"f32": 4, "f64": 10}),
}

HEAD = '''"""This module contains the coefficients and constants of inlined math functions. It is generated.

`ci/fit_polynomials.py` writes this file.

Polynomials: lowest coefficient first. pi_whole, pi_short, ln2: numbers whose sum is the constant; those of
pi_short and the first of ln2 have so few digits that their product with the number of periods is exact.
"""
from __future__ import annotations
'''


def constants(kind: str) -> dict[str, list[float]]:
    """Return the constants, such as parts of pi, as sums of numbers of type f32 or f64."""
    digits = DIGITS[kind]
    exponent_digits = {"f32": 8, "f64": 11}[kind]
    first = split(LN2, 1, digits - exponent_digits)[0]
    return {
        "pi_whole": split(PI, 3, digits),
        "pi_short": split(PI, 4, {"f32": 17, "f64": 33}[kind]),
        "ln2": [first, rounded(LN2 - Fraction(first), kind)],
        "inverse_pi": [rounded(1 / PI, kind)],
        "inverse_ln2": [rounded(1 / LN2, kind)],
    }


def table(name: str, rows: dict[str, dict[str, list[float]]]) -> str:
    """Return a table as Python text in which every number keeps all its digits."""
    lines = [f"{name}: dict[str, dict[str, tuple[float, ...]]] = {{"]
    for key, kinds in rows.items():
        lines.append(f'    "{key}": {{')
        for kind, numbers in kinds.items():
            lines.append(f'        "{kind}": (')
            lines += [f"            {number!r}," for number in numbers]
            lines.append("        ),")
        lines.append("    },")
    return "\n".join([*lines, "}"]) + "\n"


def text() -> str:
    """Return the text of coefficients.py."""
    fits = {name: {kind: fit(f, kind) for kind in f.degrees} for name, f in FITS.items()}
    by_kind = {kind: constants(kind) for kind in DIGITS}
    split_ones = {name: {kind: by_kind[kind][name] for kind in DIGITS} for name in by_kind["f32"]}
    return "\n".join([HEAD, table("COEFFICIENTS", fits), table("CONSTANTS", split_ones)])


if __name__ == "__main__":
    print(text(), end="")
