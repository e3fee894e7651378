"""This module contains code that the JAX and dual-number oracles share: kernel checks, active arrays, draws.

No scalar operation and no derivative is defined in this module, so the oracles share no mistake about either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ....compiler.errors import Unsupported
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.roles import ACCESSES, BLOCKS, STACKS
from ....compiler.ir.types import ArrayType, Scalar
from ....compiler.ir.walk import walk_kernel

HOLES = {cls.__name__: "an oracle runs the forward kernel; adstacks exist in adjoint kernels only" for cls in STACKS}
HOLES |= {cls.__name__: "lower_blocks removes it before an oracle runs the kernel" for cls in BLOCKS}
"""Statements that neither oracle has a row for, with the reason."""


def require_supported(kernel: Kernel, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, object]) -> None:
    """Raise an error unless an oracle can run the kernel on these arguments.

    Real arrays may have any real dtype, because everything is computed in float64; other arrays need their own dtype.

    Raises:
        Unsupported: the kernel is not a forward kernel.
        ValueError: an argument does not fit its parameter.
    """
    known = kernel.array_types()
    for stmt in walk_kernel(kernel):
        adjoint = isinstance(stmt, ACCESSES) and stmt.array not in known
        if adjoint or type(stmt).__name__ in HOLES:
            raise Unsupported(
                f"kernel {kernel.name} is not a forward kernel: it contains {type(stmt).__name__} of an adjoint",
                "give the oracle the kernel as it was before the reverse transform",
                kernel.span(stmt.loc),
            )
    for param in kernel.params:
        if isinstance(param.type, ArrayType):
            _check_array(param.name, param.type, arrays)
        elif param.name not in scalars:
            raise ValueError(f"kernel {kernel.name}: no value for scalar {param.name}")


def _check_array(name: str, kind: ArrayType, arrays: Mapping[str, np.ndarray]) -> None:
    if name not in arrays:
        raise ValueError(f"no array for parameter {name}")
    given = np.asarray(arrays[name])
    fits = given.dtype.kind == "f" if kind.dtype.is_real else given.dtype == kind.dtype.dtype
    if given.ndim != kind.ndim or not fits:
        raise ValueError(f"array {name}: expected {kind}, got {given.dtype} with {given.ndim} axes")


def carriers(kernel: Kernel, named: Iterable[str]) -> frozenset[str]:
    """Return the names of the arrays and temporaries through which derivatives flow: real ones, not constants.

    These are real arrays with an adjoint or in `named`, and real temporaries. A store to any other array stops the
    derivative.

    Raises:
        ValueError: a name is no real array parameter.
    """
    real = {p.name: p.type for p in kernel.params if isinstance(p.type, ArrayType) and p.type.dtype.is_real}
    wanted = set(named)
    if wanted - set(real):
        raise ValueError(f"kernel {kernel.name}: {sorted(wanted - set(real))} are not real array parameters")
    temps = {t.name for t in kernel.temps if t.dtype.is_real}
    return frozenset(wanted | temps | {name for name, kind in real.items() if kind.grad})


# ---- random draws -------------------------------------------------------------------------------------------


_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Return the four output words of the random generator Philox4x32-10 for each counter and a key.

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.

    Args:
        counter: (4, n) uint64 array of 32-bit words.
        key: two 32-bit words.

    Returns:
        The (4, n) output words, also in uint64.
    """
    c0, c1, c2, c3 = counter
    for turn in range(10):
        k0, k1 = (np.uint64((key[i] + turn * _WEYL[i]) & 0xFFFFFFFF) for i in (0, 1))
        # Words of 32 bits lie in 64, so that products keep their high halves.
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
    return np.stack([c0, c1, c2, c3])


def uniform(dtype: Scalar, key: tuple[int, int], task: int, iteration: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return, for each given iteration of a task, the draw of the given number, as docs/ir.md defines draws.

    Args:
        dtype: the type of the values.
        key: the seed and the number of the launch.
        task: the number of the task.
        iteration: (n,) numbers of iterations.
        number: (n,) numbers of the draw in its iteration.

    Returns:
        (n,) values of the type.
    """
    point = np.asarray(iteration, np.uint64)
    words = (np.full_like(point, task), point & _LOW, point >> _HALF, np.asarray(number, np.uint64))
    w0, w1, _, _ = philox(np.stack(words), key)
    wide = (w1 << _HALF) | w0
    drawn: np.ndarray
    if dtype.is_bool:
        drawn = (w0 & np.uint64(1)).astype(bool)
    elif dtype.is_int:
        drawn = wide.astype(dtype.dtype)
    else:
        source, drop, scale = {16: (w0, 21, -11), 32: (w0, 8, -24), 64: (wide, 11, -53)}[dtype.bits]
        drawn = ((source >> np.uint64(drop)).astype(np.float64) * 2.0**scale).astype(dtype.dtype)
    return drawn
