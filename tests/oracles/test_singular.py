"""Singular points: dual numbers, JAX and the lean gradient give the derivative that docs/reverse_mode.md states.

Each row has an operation, its operands, and the derivative by each operand. Where JAX has another convention, a test
states JAX's value as well, so that a change of JAX is noticed here and not by the fuzzer.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from stackgrad.compiler.ad.rules import VJP
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import f64
from stackgrad.harness.testing.oracles import jax_oracle
from stackgrad.harness.testing.oracles.dual_ops import apply
from stackgrad.reference.launch import run

INF, NAN = math.inf, math.nan

DOCUMENTED = [
    ("abs", (0.0,), (0.0,)),
    ("abs", (-0.0,), (0.0,)),
    ("sqrt", (0.0,), (INF,)),
    ("frexp_mantissa", (0.0,), (1.0,)),
    ("rsqrt", (0.0,), (-INF,)),
    ("inv", (0.0,), (-INF,)),
    ("rcp", (0.0,), (-INF,)),
    ("log", (0.0,), (INF,)),
    ("log", (-0.0,), (-INF,)),
    ("asin", (1.0,), (INF,)),
    ("asin", (-1.0,), (INF,)),
    ("acos", (1.0,), (-INF,)),
    ("acos", (-1.0,), (-INF,)),
    ("tanh", (INF,), (0.0,)),
    ("tanh", (1000.0,), (0.0,)),
    ("exp", (-INF,), (0.0,)),
    ("exp", (INF,), (INF,)),
    ("sin", (INF,), (NAN,)),
    ("cos", (INF,), (NAN,)),
    ("sqrt", (-1.0,), (NAN,)),
    ("div", (1.0, 0.0), (INF, -INF)),
    ("div", (0.0, 0.0), (INF, NAN)),
    ("div", (1.0, INF), (0.0, 0.0)),
    ("atan2", (0.0, 0.0), (NAN, NAN)),
    ("atan2", (0.0, -1.0), (-1.0, 0.0)),
    ("pow", (0.0, 2.0), (0.0, 0.0)),
    ("pow", (0.0, 1.0), (1.0, 0.0)),
    ("pow", (0.0, 0.5), (INF, 0.0)),
    ("pow", (0.0, 0.0), (0.0, 0.0)),
    ("pow", (2.0, 0.0), (0.0, math.log(2.0))),
    ("pow", (-2.0, 0.0), (0.0, NAN)),
    ("pow", (0.0, -1.0), (-INF, 0.0)),
    ("pow", (1.0, 0.0), (0.0, 0.0)),
    ("pow", (INF, 0.0), (0.0, INF)),
    ("pow", (-2.0, 3.0), (12.0, NAN)),
    ("pow", (-2.0, 0.5), (NAN, NAN)),
    ("pow", (-0.0, 2.0), (0.0, 0.0)),
    ("min", (1.0, 1.0), (0.0, 1.0)),
    ("max", (1.0, 1.0), (0.0, 1.0)),
    ("min", (0.0, -0.0), (0.0, 1.0)),
    ("max", (-0.0, 0.0), (0.0, 1.0)),
    ("min", (NAN, 1.0), (0.0, 1.0)),
    ("max", (1.0, NAN), (0.0, 1.0)),
    ("mod", (6.0, 3.0), (1.0, -2.0)),
    ("mod", (0.0, 3.0), (1.0, 0.0)),
    ("mod", (-1.0, 3.0), (1.0, 1.0)),
    ("mod", (1.0, 0.0), (1.0, -INF)),
    ("mod", (-6.0, 3.0), (1.0, 2.0)),
]

JAX_OWN = {
    ("min", (1.0, 1.0)): "halves a tie",
    ("max", (1.0, 1.0)): "halves a tie",
    ("min", (0.0, -0.0)): "halves a tie",
    ("max", (-0.0, 0.0)): "halves a tie",
    ("min", (NAN, 1.0)): "drops it",
    ("max", (1.0, NAN)): "drops it",
}
"""Where JAX has a convention of its own."""


def elementwise(op):
    """z[0] = op(a[0], b[0]), or without b."""
    arity = OPS[op].arity
    params = ", ".join(f"{name}: f64[1] grad" for name in "ab"[:arity])
    loads = "\n".join(f"%{k + 1}: f64 = load {name}[%0]" for k, name in enumerate("ab"[:arity]))
    args = ", ".join(f"%{k + 1}" for k in range(arity))
    return parse_kernel(f"""kernel k({params}, z: f64[1] grad) {{
      serial {{
        %0: i32 = const 0
        {loads}
        %3: f64 = {op} {args}
        store z[%0], %3
      }}
    }}""")


def arrays_of(xs):
    return {name: np.array([x]) for name, x in zip("ab", xs)} | {"z": np.zeros(1)}


def dual_slopes(op, xs):
    """One tangent at a time."""
    found = []
    for k in range(len(xs)):
        pairs = [(np.float64(x), np.float64(i == k)) for i, x in enumerate(xs)]
        with np.errstate(all="ignore"):
            found.append(float(apply(op, (f64,) * len(xs), f64, pairs)[1]))
    return found


def lean_slopes(op, xs):
    memory = arrays_of(xs)
    run(elementwise(op), memory, {})
    memory |= {f"{name}.grad": np.zeros(1) for name in "ab"[: len(xs)]} | {"z.grad": np.ones(1)}
    run(prepare_reverse(elementwise(op)).kernel, memory, {})
    return [float(memory[f"{name}.grad"][0]) for name in "ab"[: len(xs)]]


def jax_slopes(op, xs):
    found = jax_oracle.vjp(elementwise(op), arrays_of(xs), {}, {"z": np.ones(1)})
    return [float(found[name][0]) for name in "ab"[: len(xs)]]


@pytest.mark.parametrize(("op", "xs", "slopes"), DOCUMENTED, ids=lambda p: str(p))
def test_the_documented_derivative(op, xs, slopes):
    np.testing.assert_allclose(lean_slopes(op, xs), slopes, rtol=1e-14, atol=0)
    np.testing.assert_allclose(dual_slopes(op, xs), slopes, rtol=1e-14, atol=0)
    found = jax_slopes(op, xs)
    if (op, xs) in JAX_OWN:
        assert not np.allclose(found, slopes, equal_nan=True), JAX_OWN[op, xs]
    else:
        np.testing.assert_allclose(found, slopes, rtol=1e-14, atol=0)


POINTS = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, INF, -INF, NAN)


@pytest.mark.rotating
@pytest.mark.parametrize("op", [op for op, row in OPS.items() if row.arity < 3 and any(VJP[op])])
def test_dual_numbers_keep_to_the_lean_gradient_at_every_edge(op):
    """All pairs of edges: the same number, the same infinity, or NaN in both."""
    for xs in itertools.product(POINTS, repeat=OPS[op].arity):
        lean, dual = lean_slopes(op, xs), dual_slopes(op, xs)
        np.testing.assert_allclose(dual, lean, rtol=1e-12, atol=0, err_msg=str(xs))
