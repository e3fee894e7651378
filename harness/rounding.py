"""How far two right executions of one kernel may differ: a bound that is measured, with constants that never change.

The model. Let u be the unit roundoff of the narrowest real type that occurs in the kernel. The reference is run again

  * twice with every real input x, scalar or element, moved to x (1 ± 2u), with a random sign each: one unit in the
    last place, so that the move does not round away (zeros stay);
  * once with the iterations of parallel tasks in another order, so that sums add up in another order.

delta is the largest change of an element of an array in these runs, `size` the largest magnitude in it (for an
adjoint, of the cotangent given too, as adjoints are added to it). Two executions agree if in every element

    |a - b| <= 64 delta + 64 u size + 64 (least subnormal),

NaN meets NaN and an infinity the same infinity; of integers |a - b| <= 64 delta, so where rounding changes none they
are equal. If delta exceeds 1e-3 size (64 u size in half precision, where that is more) the array decides nothing:
*undecided*. If a NaN or an infinity comes or
goes in these runs the array is *poisoned*. The first 64 stands for the roundings inside the kernel, of which the runs
see those of the inputs only, the second for at most 64 roundings of the result; a wrong derivative is off by the size
of a contribution, in double precision 1e12 times the bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends.base import Scalars
from ..compiler.ir.nodes import Kernel
from ..compiler.ir.types import Scalar
from ..compiler.ir.walk import results, walk_kernel
from .outcome import Arrays

SAFETY = 64.0
"""Both constants of the bound."""

DECIDABLE = 1e-3
"""The largest share of an array's size that rounding may move before a comparison says nothing."""

DIGITS = {16: 11, 32: 24, 64: 53}
SUBNORMAL = {16: 2.0**-24, 32: 2.0**-149, 64: 2.0**-1074}


def narrowest(kernel: Kernel) -> Scalar | None:
    """The narrowest real type of a value, array or scalar of the kernel; None if there is no real."""
    types = [t.dtype for t in kernel.array_types().values()] + list(kernel.scalar_types().values())
    types += [v.type for stmt in walk_kernel(kernel) for v in results(stmt)]
    return min((t for t in types if t.is_real), key=lambda t: t.bits, default=None)


@dataclass(frozen=True)
class Precision:
    """u: unit roundoff. least: the least subnormal."""

    u: float
    least: float

    @classmethod
    def of(cls, kernel: Kernel) -> Precision:
        """Of the narrowest real type of a kernel; exact for a kernel without reals."""
        dtype = narrowest(kernel)
        return cls(2.0 ** -DIGITS[dtype.bits], SUBNORMAL[dtype.bits]) if dtype else cls(0.0, 0.0)


# ---- moved inputs -------------------------------------------------------------------------------------------


def generator(*names: object) -> np.random.Generator:
    """Random numbers that depend on these names alone, so that a check gives the same result every time."""
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def signs(random: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Plus and minus ones."""
    return random.integers(0, 2, tuple(shape)) * 2.0 - 1.0


def moved(arrays: Arrays, u: float, seed: object) -> dict[str, np.ndarray]:
    """The arrays with every real element x at x (1 ± 2u), rounded to its type; others are the same objects."""
    out = dict(arrays)
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            factors = 1.0 + 2.0 * u * signs(generator(seed, name), array.shape)
            with np.errstate(all="ignore"):
                out[name] = np.asarray(array * factors, array.dtype, order="C")
    return out


def moved_scalars(scalars: Scalars, kernel: Kernel, u: float, seed: object) -> dict[str, Any]:
    """The real scalars of a kernel likewise."""
    reals = {name for name, t in kernel.scalar_types().items() if t.is_real}
    return {
        name: value * (1.0 + 2.0 * u * float(signs(generator(seed, name), ()))) if name in reals else value
        for name, value in scalars.items()
    }


def nudged(arrays: Arrays, u: float, seed: object, side: float) -> dict[str, np.ndarray]:
    """Every real element moved by side · (4u to 16u) · (the largest in its array), random signs and lengths: zeros move
    too, and elements that tie move apart, also those of two arrays.
    """
    out = dict(arrays)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.size:
            source = generator(seed, name)
            steps = 4.0 * u * (_largest(array) or 1.0) * source.integers(1, 5, array.shape)
            with np.errstate(over="ignore"):
                out[name] = np.asarray(array + side * steps * signs(source, array.shape), array.dtype, order="C")
    return out


def _largest(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max()) if finite.size else 0.0


# ---- sensitivity and bound ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sensitivity:
    """What rounding may do to one array. delta, size: see the module. poisoned: NaN or infinities came or went.

    exact: an array of integers or booleans, in which nothing is rounded that the runs do not show.
    """

    delta: float = 0.0
    size: float = 0.0
    poisoned: bool = False
    exact: bool = False

    def decides(self, precision: Precision) -> bool:
        """Whether a comparison of this array can say anything."""
        return not self.poisoned and self.delta <= max(DECIDABLE, SAFETY * precision.u) * self.size

    def bound(self, precision: Precision) -> float:
        """The largest difference between two right executions."""
        rounded = 0.0 if self.exact else precision.u * self.size + precision.least
        return SAFETY * (self.delta + rounded)


def sensitivity(base: Arrays, reruns: Iterable[Arrays], floors: Arrays | None = None) -> dict[str, Sensitivity]:
    """Of every array of `base`, given the same arrays of the reruns. floors: arrays whose size counts too."""
    found = {name: Sensitivity(size=_largest(array), exact=array.dtype.kind != "f") for name, array in base.items()}
    for name, floor in (floors or {}).items():
        found[name] = replace(found[name], size=max(found[name].size, _largest(floor)))
    for rerun in reruns:
        for name, array in base.items():
            found[name] = _wider(found[name], array, rerun[name])
    return found


def _wider(known: Sensitivity, base: np.ndarray, rerun: np.ndarray) -> Sensitivity:
    gap, alike = difference(base, rerun)
    return replace(known, delta=max(known.delta, gap), poisoned=known.poisoned or not alike)


def difference(a: np.ndarray, b: np.ndarray) -> tuple[float, bool]:
    """(largest |a - b| over elements finite in both, whether NaN and infinities stand at the same places)."""
    x, y = (np.asarray(v).astype(np.float64) for v in (a, b))
    finite = np.isfinite(x) & np.isfinite(y)
    alike = bool(np.array_equal(x[~finite], y[~finite], equal_nan=True))
    with np.errstate(over="ignore"):
        gaps = np.abs(x[finite] - y[finite])
    gap = float(gaps.max()) if gaps.size else 0.0
    if a.dtype.kind != "f" and gap < 1.0:  # float64 may not tell two large integers apart
        gap = float(not np.array_equal(a, b))
    return gap, alike
