"""Judge the gradient of a whole kernel by dual numbers, which run on the kernel as it was traced.

For a random direction t and a random seed c, <c, J t> by dual numbers must equal <Jᵀ c, t> by the grad kernel, for both
lowerings on the reference and for the CPU backend. The dual numbers use none of the passes that run after tracing.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import forward, near
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.types import ArrayType
from stackgrad.harness.testing.oracles import dual

WAYS = (("lean", "reference"), ("classic", "reference"), ("lean", "cpu"))
EPS = np.finfo(np.float64).eps


def setup():
    """Start the runtime on the reference in double precision; fields are made after this call."""
    sg.init(arch=sg.reference, default_fp=sg.f64)


def real(*values, dtype=sg.f64, grad=True):
    """Return a field with a gradient that holds these values, or the contents of one array."""
    content = np.asarray(values[0] if len(values) == 1 and np.ndim(values[0]) else values, dtype.dtype)
    field = sg.field(dtype, shape=content.shape, needs_grad=grad)
    field.from_numpy(content)
    return field


def ints(*values, dtype=sg.i32):
    """Return an integer field that holds these values, or the contents of one array."""
    return real(*values, dtype=dtype, grad=False)


def source_jvp(kernel, arrays, scalars, tangents):
    """Return the result of `dual.jvp` for a kernel of stage source, whose tasks see values of earlier tasks."""
    memory = dual._memory(kernel, arrays, tangents)
    values, variables, key = {}, {}, (0, 0)
    with np.errstate(all="ignore"):
        for number, task in enumerate(kernel.tasks):
            run = dual.Iteration(kernel, memory, scalars, key, number, 0, values, variables)
            if not task.is_parallel:
                if run.block(task.body) is not None:
                    break
                continue
            run.block(task.bounds)
            ends = [range(values[b][0], values[e][0]) for b, e in zip(task.begin, task.end)]
            for k, point in enumerate(itertools.product(*ends)):
                values.update({index: (at, dual.ZERO) for index, at in zip(task.indices, point)})
                dual.Iteration(kernel, memory, scalars, key, number, k, values, variables).block(task.body)
    moved = {name: memory[name].tangent for name in arrays if memory[name].tangent is not None}
    return {name: memory[name].value for name in arrays}, moved


def launch(lowered, arrays, scalars, backend):
    Launcher(lowered, registry.get(backend), Options(debug=True)).run(arrays, scalars)


def judge_ir(kernel, arrays, scalars, seed=0, tolerance=1e6 * EPS, ways=WAYS):
    """Assert that values and gradient of a kernel are right; NotDifferentiable and Unsupported pass through."""
    rng = np.random.default_rng(seed)
    names = [p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad]
    tangents, cotangents = ({k: rng.normal(size=arrays[k].shape) for k in names} for _ in range(2))
    final, moved = source_jvp(kernel, arrays, scalars, tangents)
    want = sum(np.sum(cotangents[k] * moved[k]) for k in names)
    known = forward(kernel, arrays, scalars)
    for lowering, backend in ways:
        state = {k: v.copy() for k, v in arrays.items()}
        launch(prepare_forward(kernel, check=True), state, scalars, backend)
        for name in arrays:
            near(known, name, state[name], final[name])
        state |= {f"{k}.grad": v.astype(arrays[k].dtype) for k, v in cotangents.items()}
        left = {k: state[k].copy() for k in arrays}
        launch(prepare_reverse(kernel, lowering, check=True), state, scalars, backend)
        for name in arrays:
            np.testing.assert_array_equal(state[name], left[name], err_msg=f"primal {name}, {lowering} on {backend}")
        shares = [state[f"{k}.grad"] * tangents[k] for k in names]
        size = 1 + sum(np.abs(s).sum() for s in shares)
        got = sum(s.sum() for s in shares)
        assert abs(got - want) < tolerance * size, f"{lowering} on {backend}: {got}, by dual numbers {want}"


def contents(kernel):
    """Return the IR of a kernel over fields, and the contents of the fields."""
    source = kernel.ir()
    names = [p.name for p in source.params if isinstance(p.type, ArrayType)]
    return source, {name: kernel.cache().last.captured[name].to_numpy() for name in names}


def judge(kernel, *args, **options):
    """Assert that values and gradient of a kernel over fields are right for the present contents of the fields."""
    source, arrays = contents(kernel)
    names = [p.name for p in source.params if not isinstance(p.type, ArrayType)]
    judge_ir(source, arrays, dict(zip(names, args)), **options)


def refused(kernel, *fragments, kind=sg.NotDifferentiable):
    """Assert that the gradient is refused, before or at the launch, by a located error with these texts."""
    source, arrays = contents(kernel)
    for lowering in ("lean", "classic"):
        with pytest.raises(kind) as caught:
            lowered = prepare_reverse(source, lowering)
            state = {name: array.copy() for name, array in arrays.items()}
            launch(prepare_forward(source), state, {}, "reference")
            state |= {f"{p.name}.grad": np.ones_like(state[p.name]) for p in source.params if p.type.grad}
            launch(lowered, state, {}, "reference")
        message = str(caught.value)
        assert "test_hostile" in message and "^" in message and "cure: " in message, message
        for fragment in fragments:
            assert fragment in message, message
