"""Draw kernels of one operation or conversion each, for all operations and operand types, on edge values.

A defect of an operation is then found in that operation, and not as a difference at the end of a long program.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Kernel, Param, Task
from ....compiler.ir.ops import OPS, result_type
from ....compiler.ir.statement import Value
from ....compiler.ir.types import SCALARS, ArrayType, Scalar, i32, u1
from ....compiler.ir.walk import renumber
from .draw import Chooser
from .raw import RawCase
from .values import EDGES, Number, any_number

CONVERSIONS = ("cast", "bit_cast")
OpSignature = tuple[str, tuple[Scalar, ...], Scalar]
"""Operation, operand types and result type."""


def _signatures() -> Iterator[OpSignature]:
    for name, row in OPS.items():
        for dtype in SCALARS.values():
            operands = (u1, dtype, dtype) if name == "select" else (dtype,) * row.arity
            made = result_type(name, operands)
            if made is not None:
                yield name, operands, made
    for source, target in itertools.permutations(SCALARS.values(), 2):
        yield "cast", (source,), target
        if source.bits == target.bits:
            yield "bit_cast", (source,), target


SIGNATURES: tuple[OpSignature, ...] = tuple(_signatures())
"""Every operation with every combination of types that the table of operations allows."""


def make_case(signature: OpSignature, rows: Sequence[tuple[Number, ...]]) -> RawCase:
    """Return a case with the kernel `out[i] = op(a0[i], a1[i], ...)` and the contents of its arrays.

    Args:
        signature: Operation, operand types and result type.
        rows: The operands of each lane.
    """
    name, operands, made = signature
    columns = list(zip(*rows)) if rows else [()] * len(operands)
    arrays = {f"a{k}": _array(column, dtype) for k, (column, dtype) in enumerate(zip(columns, operands))}
    arrays["out"] = np.zeros(len(rows), made.dtype)
    return RawCase(_kernel(signature), arrays, "DivisionByZero" if _divides_by_zero(signature, rows) else None)


def _array(column: Sequence[Number], dtype: Scalar) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(column, dtype.dtype)


def _divides_by_zero(signature: OpSignature, rows: Sequence[tuple[Number, ...]]) -> bool:
    name, operands, _ = signature
    return OPS[name].traps and not operands[0].is_real and any(row[1] == 0 for row in rows) if name in OPS else False


def _kernel(signature: OpSignature) -> Kernel:
    name, operands, made = signature
    b = Builder()
    with b.block() as bounds:
        begin, end = b.const(0, i32), b.shape("out", 0)
    index = b.fresh(i32)
    with b.block() as body:
        values = [b.load(f"a{k}", (index,), dtype) for k, dtype in enumerate(operands)]
        b.store("out", (index,), _result(b, name, values, made))
    params = [Param(f"a{k}", ArrayType(dtype, 1)) for k, dtype in enumerate(operands)]
    task = Task(tuple(body), (index,), tuple(bounds), (begin,), (end,))
    return renumber(Kernel(f"one_{name}", (*params, Param("out", ArrayType(made, 1))), (task,)))


def _result(b: Builder, name: str, values: list[Value], made: Scalar) -> Value:
    if name in CONVERSIONS:
        return b.cast(values[0], made) if name == "cast" else b.bit_cast(values[0], made)
    return b.op(name, *values)


def edge_cases() -> Iterator[RawCase]:
    """Yield cases with all combinations of edge operands for each operation and its operand types.

    Combinations that divide by zero have a case of their own.
    """
    for signature in SIGNATURES:
        rows = list(itertools.product(*(EDGES[dtype.name] for dtype in signature[1])))
        zeros = [row for row in rows if _divides_by_zero(signature, [row])]
        yield make_case(signature, [row for row in rows if row not in zeros] if zeros else rows)
        if zeros:
            yield make_case(signature, zeros)


def draw_case(draw: Chooser) -> RawCase:
    """Return a case of a random operation and types, with a few lanes of edge and ordinary operands."""
    signature = draw.choice(SIGNATURES)
    lanes = draw.choice((1, 2, 3, 8, 0))
    return make_case(signature, [tuple(any_number(draw, t) for t in signature[1]) for _ in range(lanes)])
