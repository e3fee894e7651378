"""This module traces `return` in kernels: results are stored to 0-d arrays, which the launcher reads.

Invariant: every path that ends a kernel with a result has stored all of the result. The annotation alone decides the
types.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeAlias, get_args, get_origin

from ..ir import nodes as n
from ..ir.kernels import Param
from ..ir.types import ArrayType, Scalar
from .aggregates import MatrixType, StructType, aggregate_type
from .context import Tracer
from .conversions import conform
from .diagnostics import PoisonError, ProblemError, syntax_problem, type_problem, unsupported_problem
from .operands import Operand, describe
from .source import annotation_of
from .trees import leaves
from .type_inference import FrontendOptions, annotated_dtype

RETURN = "$return"
"""Names of arrays that hold results begin with this prefix."""


@dataclass(frozen=True)
class TupleType:
    """A `TupleType` is the type of a kernel's result that consists of several values."""

    items: tuple[ResultType, ...]


ResultType: TypeAlias = "Scalar | MatrixType | StructType | TupleType"


@dataclass
class KernelResults:
    """A `KernelResults` describes the type of a kernel's result and the 0-d arrays that hold it.

    Attributes:
        type: type of the result.
        params: one 0-d array for each scalar of the result.
        returned: True after a `return` with a value was traced.
    """

    type: ResultType
    params: tuple[Param, ...]
    returned: bool = False


def result_type(annotation: Any, options: FrontendOptions) -> ResultType | None:
    """Return the type that a return annotation denotes, or None if it denotes no type of a result."""
    dtype = annotated_dtype(annotation, options)
    if dtype is not None:
        return dtype
    try:
        aggregate = aggregate_type(annotation, options)
    except TypeError:
        return None
    if aggregate is not None:
        return aggregate
    parts = annotation if isinstance(annotation, (tuple, list)) else ()
    if get_origin(annotation) is tuple:
        parts = get_args(annotation)
    items = [result_type(part, options) for part in parts]
    return TupleType(tuple(i for i in items if i is not None)) if items and None not in items else None


def scalars_of(kind: ResultType) -> list[Scalar]:
    """Return the scalar types of a result in order."""
    if isinstance(kind, Scalar):
        return [kind]
    if isinstance(kind, MatrixType):
        return [kind.dtype] * kind.size
    parts = kind.items if isinstance(kind, TupleType) else [member for _, member in kind.members]
    return [scalar for part in parts for scalar in scalars_of(part)]


def returns_value(function: FunctionType) -> bool:
    """Return True if the return annotation of a function is given and is not None."""
    return annotation_of(function, "return") not in (None, type(None), "None")


def results_of(t: Tracer, tree: ast.FunctionDef, function: FunctionType) -> KernelResults | None:
    """Return the results that the return annotation declares, or None if it declares none or is wrong.

    A wrong annotation is reported as a mistake.
    """
    if not returns_value(function):
        return None
    annotation = annotation_of(function, "return")
    kind = result_type(annotation, t.options)
    if kind is None:
        assert tree.returns is not None
        text = ast.unparse(tree.returns)
        t.report(
            unsupported_problem(
                f"the annotation `-> {text}` is no type of a result",
                "annotate with a scalar, vector, matrix or struct type, or a tuple of them",
            ),
            tree.returns,
        )
        return None
    params = [Param(f"{RETURN}.{k}", ArrayType(s, 0, False)) for k, s in enumerate(scalars_of(kind))]
    return KernelResults(kind, tuple(params))


def return_from_kernel(t: Tracer, node: ast.Return, results: KernelResults | None) -> bool:
    """Emit stores of the result, if there is one, and the end of the kernel. Return True.

    Raises:
        ProblemError: the `return` stands in a parallel loop, or has no value although the annotation demands one.
    """
    empty = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    if t.in_parallel:
        raise syntax_problem(
            "`return` inside a parallel loop cannot end the other iterations", "end this iteration with `continue`"
        )
    if not empty:
        try:
            _store(t, node, results)
        # The problem is reported here, because the kernel ends at this statement all the same.
        except ProblemError as problem:
            t.report(problem, node)
        except PoisonError:
            pass
    elif results is not None:
        raise type_problem(
            "the kernel returns no value here, its annotation promises one", "return a value on every path"
        )
    if t.nesting:
        t.builder.emit(n.Return(loc=t.builder.loc))
    return True


def _store(t: Tracer, node: ast.Return, results: KernelResults | None) -> None:
    assert node.value is not None
    operand = t.clean(node.value)
    if results is None:
        raise syntax_problem(
            "the kernel returns a value, its signature does not say which",
            "annotate the kernel, as in `def k() -> sg.f32:`",
        )
    scalars: list[Operand] = []
    _flatten(t, operand, results.type, scalars)
    results.returned = True
    for param, item in zip(results.params, scalars):
        assert isinstance(param.type, ArrayType)
        value = t.stored(item, param.type.dtype, "the result of the kernel")
        t.builder.store(param.name, (), value)


def _flatten(t: Tracer, operand: Operand, kind: ResultType, found: list[Operand]) -> None:
    """Append the scalars of an operand to `found`. Raise ProblemError if the operand is not of the annotated type."""
    if not isinstance(kind, TupleType):
        found += leaves(conform(t, operand, kind, "the result of the kernel"))
        return
    items = t.items(operand)
    if items is None or len(items) != len(kind.items):
        raise type_problem(
            f"the kernel returns {describe(operand)}, its annotation promises {len(kind.items)} values",
            "return what the annotation says, or change it",
        )
    for item, part in zip(items, kind.items):
        _flatten(t, item, part, found)


def check_end(t: Tracer, results: KernelResults | None, ended: bool, tree: ast.FunctionDef) -> None:
    """Report a mistake if a kernel with a return annotation can end without a `return`."""
    if results is not None and not ended:
        problem: ProblemError = syntax_problem(
            f"the kernel `{tree.name}` can end without returning a value", "return a value on every path"
        )
        t.report(problem, tree)
