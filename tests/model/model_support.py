"""Execute programs in three ways: the traced kernel, the kernel lowered from the model, and Python itself."""

from __future__ import annotations

import numpy as np
from stackgrad.compiler.errors import StackgradError
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.types import f32, f64, i32, u1
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.split_tasks import split_tasks
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.walk import walk_program
from stackgrad.reference.launch import run

Outcome = dict[str, np.ndarray] | str


def execute(kernel: Kernel, arrays: dict[str, np.ndarray], scalars: dict[str, bool | int | float]) -> Outcome:
    """Return the final contents of all arrays, or the name of the exception."""
    verify(kernel, "source")
    memory = {name: array.copy() for name, array in arrays.items()}
    try:
        run(split_tasks(kernel), memory, scalars)
    except StackgradError as error:
        return type(error).__name__
    return memory


def bits(array: np.ndarray) -> bytes:
    """Return the bits of an array, with one bit pattern for all NaNs."""
    if array.dtype.kind != "f":
        return array.tobytes()
    return np.where(np.isnan(array), np.array(np.nan, array.dtype), array).tobytes()


def same_bits(a: Outcome, b: Outcome) -> bool:
    """Return True if two executions ended alike, with the same bits in the arrays that both have."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    return all(bits(a[name]) == bits(b[name]) for name in a.keys() & b.keys())


_NO_PYTHON = (
    m.Random,
    m.BitCast,
    m.AtomicCall,
    m.Grouped,
    m.Vector,
    m.Matrix,
    m.Comprehension,
    m.Filled,
    m.Part,
    m.Method,
    m.Make,
    m.Member,
)


def is_plain(program: Program) -> bool:
    """Return True if Python computes the same as the kernel: f64 and small integers, no vectors, no atomic calls."""
    if any(f.element or f.views for f in program.fields):
        return False
    types = {f.dtype for f in program.fields} | {p.dtype for p in program.arguments} | {program.default_fp}
    types |= {n.dtype for n in walk_program(program) if isinstance(n, (m.Cast, m.Declare)) and n.dtype}
    types |= {p.dtype for f in program.kernel.functions for p in f.params if p.dtype}
    odd = any(isinstance(n, _NO_PYTHON) or isinstance(n, m.Unary) and n.op == "~" for n in walk_program(program))
    return types <= {f64, i32, u1} and f32 not in types and not odd and program.profile == "smooth"
