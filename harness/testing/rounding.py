"""Compute how far two correct executions of one kernel may differ because of rounding.

The model: let u be the unit roundoff of the narrowest real type that occurs in the kernel. The reference is run again

  * twice with every real input x, scalar or element, moved to x (1 ± 2u), each with a random sign. This is one unit in
    the last place, so that the move does not round away (zeros stay);
  * once with the iterations of parallel tasks in another order, so that sums add up in another order.

`delta` is the largest change of an element of an array in these runs. `size` is the largest magnitude in the array (for
an adjoint, also that of the given cotangent, because adjoints are added to it). Two executions agree if in every
element

    |a - b| <= 64 delta + 64 u size + 64 (least subnormal),

and NaN stands only where NaN stands, an infinity only where the same infinity stands. For integers the bound is |a - b|
<= 64 delta, so they must be equal where rounding changes none of them. If delta exceeds 1e-3 size (64 u size in half
precision, where that is more), the array decides nothing: it is *undecided*. If a NaN or an infinity appears or
disappears in these runs, the array is *poisoned*.

The first 64 stands for the roundings inside the kernel, of which the runs see only those of the inputs. The second 64
stands for at most 64 roundings of the result. A wrong derivative is off by the size of a contribution, which in double
precision is 1e12 times the bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ...backends.base import Scalars
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import results, walk_kernel
from .outcome import Arrays

SAFETY = 64.0
"""The factor 64, both constants of the bound."""

DECIDABLE = 1e-3
"""Largest share of the size of an array that rounding may move before a comparison says nothing."""

DIGITS = {16: 11, 32: 24, 64: 53}
SUBNORMAL = {16: 2.0**-24, 32: 2.0**-149, 64: 2.0**-1074}


def narrowest_type(kernel: Kernel) -> Scalar | None:
    """Return the narrowest real type of a value, array or scalar of the kernel; None if the kernel has no real."""
    types = [t.dtype for t in kernel.array_types().values()] + list(kernel.scalar_types().values())
    types += [v.type for stmt in walk_kernel(kernel) for v in results(stmt)]
    return min((t for t in types if t.is_real), key=lambda t: t.bits, default=None)


@dataclass(frozen=True)
class Precision:
    """Represent the rounding of a real type by its unit roundoff and its least subnormal number.

    Attributes:
        u: the unit roundoff.
        least: the least subnormal number.
    """

    u: float
    least: float

    @classmethod
    def of(cls, kernel: Kernel) -> Precision:
        """Return the rounding of the narrowest real type of a kernel, or zeros for a kernel without reals."""
        dtype = narrowest_type(kernel)
        return cls(2.0 ** -DIGITS[dtype.bits], SUBNORMAL[dtype.bits]) if dtype else cls(0.0, 0.0)


# ---- moved inputs -------------------------------------------------------------------------------------------


def seeded_generator(*names: object) -> np.random.Generator:
    """Return a random generator that depends only on the given names, so that a check always gives the same result."""
    # A checksum is the same in every process, which `hash` of a text is not.
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def random_signs(random: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Return an array of the given shape whose elements are random signs, 1.0 or -1.0."""
    return random.integers(0, 2, tuple(shape)) * 2.0 - 1.0


def perturb_by_rounding(arrays: Arrays, u: float, seed: object) -> dict[str, np.ndarray]:
    """Return the arrays with each real element x replaced by x (1 ± 2u), with random signs.

    Args:
        arrays: arrays by name.
        u: the unit roundoff.
        seed: determines the signs, together with the name of each array.
    """
    out = dict(arrays)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            factors = 1.0 + 2.0 * u * random_signs(seeded_generator(seed, name), array.shape)
            with np.errstate(all="ignore"):
                out[name] = np.asarray(array * factors, array.dtype, order="C")
    return out


def moved_scalars(scalars: Scalars, kernel: Kernel, u: float, seed: object) -> dict[str, Any]:
    """Return the scalars with each real scalar x replaced by x (1 ± 2u), with a random sign."""
    reals = {name for name, t in kernel.scalar_types().items() if t.is_real}
    return {
        name: value * (1.0 + 2.0 * u * float(random_signs(seeded_generator(seed, name), ())))
        if name in reals
        else value
        for name, value in scalars.items()
    }


def perturb_by_largest(arrays: Arrays, u: float, seed: object, side: float) -> dict[str, np.ndarray]:
    """Return arrays in which each real element is moved by a few roundings of its array's largest magnitude.

    The move is side · (4u to 16u) · (the largest magnitude in the array), with random signs and lengths. So zeros move
    too, and equal elements move apart, also those of two arrays.

    Args:
        arrays: arrays by name.
        u: the unit roundoff.
        seed: determines signs and lengths, together with the name of each array.
        side: 1.0 or -1.0; the two values move elements in opposite directions.
    """
    out = dict(arrays)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.size:
            source = seeded_generator(seed, name)
            # An array of zeros has no magnitude, so 1 takes its place.
            steps = 4.0 * u * (_largest(array) or 1.0) * source.integers(1, 5, array.shape)
            with np.errstate(over="ignore"):
                out[name] = np.asarray(array + side * steps * random_signs(source, array.shape), array.dtype, order="C")
    return out


_WAYS = 6
"""Random moves, each in both directions. Of pairs of equal elements, one move in eight leaves the pair equal."""


def perturb_in_all_ways(arrays: Arrays, u: float) -> Iterator[dict[str, np.ndarray]]:
    """Yield arrays beside the given ones, so that a gradient at a tie or a kink differs at some of them.

    Args:
        arrays: arrays by name.
        u: the unit roundoff.
    """
    for way, side in product(range(_WAYS), (1.0, -1.0)):
        yield perturb_by_largest(arrays, u, way, side)


def _largest(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max()) if finite.size else 0.0


# ---- sensitivity and bound ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sensitivity:
    """Represent how much rounding changes the elements of one array, measured by reruns.

    Attributes:
        delta: the largest change in the runs that the module describes.
        size: the largest magnitude.
        poisoned: True if a NaN or an infinity appeared or disappeared.
        exact: True for integers and booleans, in which all rounding shows in the runs.
    """

    delta: float = 0.0
    size: float = 0.0
    poisoned: bool = False
    exact: bool = False

    def decides(self, precision: Precision) -> bool:
        """Return True if rounding changes the array little enough for a comparison to detect a fault."""
        return not self.poisoned and self.delta <= max(DECIDABLE, SAFETY * precision.u) * self.size

    def bound(self, precision: Precision) -> float:
        """Return the largest difference that rounding can explain between two correct executions."""
        rounded = 0.0 if self.exact else precision.u * self.size + precision.least
        return SAFETY * (self.delta + rounded)


def sensitivity(base: Arrays, reruns: Iterable[Arrays], floors: Arrays | None = None) -> dict[str, Sensitivity]:
    """Return the measured sensitivity to rounding of every array of `base`, by name.

    Args:
        base: the results of the reference.
        reruns: the results of the further runs, with the same names.
        floors: arrays whose magnitudes count for the size too, by name.
    """
    found = {name: Sensitivity(size=_largest(array), exact=array.dtype.kind != "f") for name, array in base.items()}
    for name, floor in (floors or {}).items():
        # Adjoints are added to the cotangents, so the magnitude of the cotangents counts too.
        found[name] = replace(found[name], size=max(found[name].size, _largest(floor)))
    for rerun in reruns:
        for name, array in base.items():
            found[name] = _wider(found[name], array, rerun[name])
    return found


def _wider(known: Sensitivity, base: np.ndarray, rerun: np.ndarray) -> Sensitivity:
    gap, alike = difference(base, rerun)
    return replace(known, delta=max(known.delta, gap), poisoned=known.poisoned or not alike)


def difference(a: np.ndarray, b: np.ndarray) -> tuple[float, bool]:
    """Return the largest |a - b| over elements finite in both, and True if all other elements are equal or both NaN."""
    x, y = (np.asarray(v).astype(np.float64) for v in (a, b))
    finite = np.isfinite(x) & np.isfinite(y)
    alike = bool(np.array_equal(x[~finite], y[~finite], equal_nan=True))
    with np.errstate(over="ignore"):
        gaps = np.abs(x[finite] - y[finite])
    gap = float(gaps.max()) if gaps.size else 0.0
    if a.dtype.kind != "f" and gap < 1.0:  # float64 may not tell two large integers apart
        gap = float(not np.array_equal(a, b))
    return gap, alike
