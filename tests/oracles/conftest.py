"""Compare three oracles with each other: JAX, dual numbers and the Taylor remainder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import ArrayType
from stackgrad.harness.testing.oracles import dual, jax_oracle
from stackgrad.harness.testing.oracles.taylor import taylor_order

Compare = Callable[..., dict[str, np.ndarray]]


def _gradients(kernel: Kernel) -> list[str]:
    return [p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad]


def _dot(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    return float(sum(np.vdot(a[name], b[name]) for name in a))


def compare(
    kernel: Kernel, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any] | None = None, order: float = 1.8
) -> dict[str, np.ndarray]:
    """Compare both oracles for random tangents and cotangents, and return the Taylor order of their answer.

    Gives JAX's cotangents of all arrays with an adjoint.
    """
    scalars, names, rng = scalars or {}, _gradients(kernel), np.random.default_rng(7)
    tangents = {name: 0.1 * rng.normal(size=arrays[name].shape) for name in names}
    cotangents = {name: rng.normal(size=arrays[name].shape) for name in names}
    before = {name: content.copy() for name, content in arrays.items()}
    values = jax_oracle.run(kernel, arrays, scalars)
    finals, moved = dual.jvp(kernel, arrays, scalars, tangents)
    found = jax_oracle.vjp(kernel, arrays, scalars, cotangents)
    for name, content in values.items():
        np.testing.assert_allclose(finals[name], content, rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_array_equal(arrays[name], before[name], err_msg=f"{name} was written in place")
    slope = _dot(cotangents, moved)
    np.testing.assert_allclose(_dot(found, tangents), slope, rtol=1e-9, atol=1e-12)

    def along(step: np.ndarray) -> float:
        there = {n: arrays[n] + step * tangents[n] if n in names else arrays[n] for n in arrays}
        return _dot(cotangents, jax_oracle.run(kernel, there, scalars))

    assert taylor_order(along, np.zeros(()), np.ones(()), slope) > order
    return found


@pytest.fixture(name="compare")
def _compare() -> Compare:
    return compare


def parallel(params: str, body: str, temps: str = "", before: str = "", after: str = "") -> Kernel:
    """Return a kernel with one parallel task over x; %0 is 0, %1 the extent, %2 the index."""
    return parse_kernel(f"""
        kernel k({params}) {{
          {temps}
          {before}
          bounds {{
            %90000: i32 = const 0
            %90001: i32 = shape x, 0
          }} parallel %2: i32 in %90000 .. %90001 {{
            %0: i32 = const 0
            %1: i32 = shape x, 0
            {body}
          }}
          {after}
        }}""")


@pytest.fixture(name="parallel")
def _parallel() -> Callable[..., Kernel]:
    return parallel
