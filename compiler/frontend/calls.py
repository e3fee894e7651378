"""This module traces calls: it finds the called function, and lowers memory functions and compile-time functions.

LOWERINGS has one entry for each function of the language; those of mathematical functions are in `mathematics`. PYTHON
has the functions of Python that have a meaning of their own in kernels.
"""

from __future__ import annotations

import ast
import builtins
import math
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from ..errors import short_repr
from ..ir.ops import atomic_fits
from ..ir.table import Table
from ..ir.types import Scalar
from . import type_inference
from .arguments import arguments, positional
from .constructors import constructor
from .context import EXPRESSIONS, Tracer, convert_number, require_value
from .conversions import cast_matrix
from .diagnostics import syntax_problem, type_problem, unsupported_problem
from .early_calls import atomic_method, called_entry
from .functions import FUNCTIONS, BoundFunc, Func, function_name
from .inline import inline
from .memory import kind_at
from .operands import MatrixValue, Operand, Pack, ShapeOf, Static, describe, number_of, static_operand
from .places import ElementPlace, Place, load, place, store, update
from .reads import failed_reads, is_settled, length_read
from .refused_names import RefusedName
from .simt_names import SIMT_FUNCTIONS, SimtFunction
from .static import evaluate_static, python_value
from .text import lower_print
from .trees import leaves, with_leaves

_TYPES = f"{__name__.partition('.')[0]}.types"
"""Functions of this module make types; kernels call them when they are traced."""

CallLowering = Callable[[Tracer, ast.Call], Operand]
LOWERINGS: Table[str, CallLowering] = Table(
    "frontend functions", FUNCTIONS, about="how a call of a function of the language becomes IR"
)

SIMT: Table[str, CallLowering] = Table(
    "simt functions", SIMT_FUNCTIONS, about="how a call of a function of `sg.simt` becomes IR"
)


@EXPRESSIONS.row(ast.Call)
def _call(t: Tracer, node: ast.Call) -> Operand:
    method = atomic_method(t, node)
    if method is not None and method[0] in _ATOMIC_ROWS:
        return _atomic_update(t, *method, node.args[0])
    target = t.clean(node.func)
    if isinstance(target, MatrixValue):
        return called_entry(t, target, node)
    if not isinstance(target, Static):
        raise type_problem(f"{describe(target)} cannot be called", "call a function")
    if isinstance(target.value, Func):
        return inline(t, target.value, node)
    if isinstance(target.value, BoundFunc):
        return inline(t, target.value.func, node, static_operand(target.value.receiver, target.hint.rpartition("_")[0]))
    made = constructor(t, target.value)
    if made is not None:
        return made(t, node)
    if isinstance(target.value, SimtFunction):
        return SIMT[target.value.path](t, node)
    if isinstance(target.value, RefusedName):
        raise unsupported_problem(target.value.reason, target.value.cure)
    name = function_name(target.value)
    if name is not None:
        return LOWERINGS[name](t, node)
    dtype = type_inference.as_dtype(target.value, t.options)
    if dtype is not None:
        (x,) = arguments(t, node, ast.unparse(node.func), "x")
        if isinstance(x, MatrixValue):
            return cast_matrix(t, x, dtype)
        found = number_of(x)
        if found is not None and isinstance(target.value, type) and target.value in (int, float, bool):
            return _converted_number(target.value, convert_number(found, dtype))
        return cast_to(t, x, dtype)
    return _python_call(t, target, node)


def _converted_number(kind: type, found: bool | int | float) -> Static:
    """Return the result of `int(...)`, `float(...)` or `bool(...)` for a number that is known while tracing."""
    try:
        return Static(kind(found))
    except OverflowError as error:
        raise type_problem(f"{kind.__name__}({short_repr(found, 40)}) fails: {error}", "write another number") from None


def _python_call(t: Tracer, target: Static, node: ast.Call) -> Operand:
    """Return the result of calling a Python object that is no function of the kernel language, such as `float`."""
    try:
        # An object without a hash is none of the known functions.
        row = PYTHON.get(target.value)
    except TypeError:
        row = None
    if row is not None:
        return row(t, node)
    name = ast.unparse(node.func)
    if getattr(target.value, "__module__", None) == _TYPES:
        return Static(python_value(t, node), name.rpartition(".")[2])
    if getattr(target.value, "is_stackgrad_kernel", False):
        raise syntax_problem(f"the kernel `{name}` is called from a kernel", "make it a function with `@sg.func`")
    if getattr(target.value, "__module__", None) == "math":
        return _folded(t, target.value, name, node)
    plain, receiver = _plain_function(target.value)
    if plain is not None:
        return inline(t, Func(plain), node, receiver)
    if callable(target.value):
        raise syntax_problem(
            f"`{name}` is not a function that kernels can call",
            "write a function with `def`, or evaluate the call with `sg.static(...)`",
        )
    raise syntax_problem(f"{describe(target)} cannot be called", "call a function")


def _plain_function(called: Any) -> tuple[FunctionType | None, Static | None]:
    """Return the Python function that a call of an object runs, and the operand for its `self` if it is a method.

    The function is then inlined. The result is (None, None) for objects that are no Python functions, and for functions
    of Python's own modules, which are not written in the kernel language.
    """
    function, receiver = called, None
    if isinstance(called, MethodType):
        function, receiver = called.__func__, Static(called.__self__)
    if not isinstance(function, FunctionType) or is_settled(function):
        return None, None
    is_python = (function.__module__ or "").partition(".")[0] in sys.stdlib_module_names - {"__main__"}
    return (None, None) if is_python else (function, receiver)


def _folded(t: Tracer, function: Callable[..., Any], name: str, node: ast.Call) -> Operand:
    """Return the result of a function of Python's `math` on numbers that are known while tracing."""
    numbers = [number_of(require_value(operand)) for operand in positional(t, node.args)]
    if None in numbers or node.keywords:
        raise syntax_problem(
            f"`{name}` works on numbers known at compile time alone",
            f"use a function of `sg` or `sg.math`, or write `{name}` with other operations",
        )
    try:
        return static_operand(function(*numbers))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise type_problem(f"`{name}` of these constants fails: {error}", "correct them") from None


# ---- operands -----------------------------------------------------------------------------------------------------


def dtype_argument(t: Tracer, operand: Operand, what: str) -> Scalar:
    """Return the scalar type that an operand names. `what` is the name of the function in error messages.

    Raises:
        ProblemError: the operand is no scalar type.
    """
    found = type_inference.as_dtype(operand.value, t.options) if isinstance(operand, Static) else None
    if found is None:
        raise type_problem(f"`{what}` needs a scalar type, not {describe(operand)}", "give a type, as `sg.f32`")
    return found


def number_type(t: Tracer, name: str, operand: Operand) -> Scalar:
    """Return the type of an operand that must be an integer or a real. `name` is the function in messages.

    Raises:
        ProblemError: the operand is a boolean or no number.
    """
    dtype = t.type_of(operand)
    if dtype.is_bool:
        raise type_problem(f"`{name}` takes numbers, not a boolean", "convert it with `int(...)`")
    return dtype


def cast_to(t: Tracer, operand: Operand, dtype: Scalar) -> Operand:
    """Return an operand converted to the type `dtype`; a number in the program text becomes a typed constant."""
    t.type_of(operand)
    return t.value(operand, dtype)


# ---- rows: memory and compile time ----------------------------------------------------------------------------------

_ATOMIC_ROWS: dict[str, type_inference.BinaryOperator | None] = {
    "add": type_inference.BINARY[ast.Add],
    "sub": type_inference.BINARY[ast.Sub],
    "mul": type_inference.BINARY[ast.Mult],
    "and": type_inference.BINARY[ast.BitAnd],
    "or": type_inference.BINARY[ast.BitOr],
    "xor": type_inference.BINARY[ast.BitXor],
    "min": None,
    "max": None,
}


def _atomic(name: str) -> CallLowering:
    def lower(t: Tracer, node: ast.Call) -> Operand:
        if len(node.args) != 2 or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise syntax_problem(f"`atomic_{name}` takes 2 arguments", f"call it as `atomic_{name}(x[i], value)`")
        return _atomic_update(t, name, place(t, node.args[0]), node.args[1])

    return lower


def _atomic_update(t: Tracer, name: str, target: Place, node: ast.expr) -> Operand:
    """Emit an atomic update of a place by the value of an expression, and return the old value of the place."""
    row, operand = _ATOMIC_ROWS[name], t.clean(node)
    if row is None:
        number_type(t, f"atomic_{name}", operand)
    return update(t, target, row.op if row else name, operand, row)


LOWERINGS.update({f"atomic_{name}": _atomic(name) for name in _ATOMIC_ROWS})


@LOWERINGS.row("atomic_exchange")
def _exchange(t: Tracer, node: ast.Call) -> Operand:
    """Emit an atomic exchange of an element with a value, and return the element's old value."""
    if len(node.args) != 2 or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        raise syntax_problem("`atomic_exchange` takes 2 arguments", "call it as `atomic_exchange(x[i], value)`")
    target = place(t, node.args[0])
    operand = t.clean(node.args[1])
    if isinstance(target, ElementPlace) and atomic_fits("exchange", target.dtype):
        value = t.stored(operand, target.dtype, f"`{target.text}`")
        return t.builder.atomic("exchange", target.array, target.indices, value)
    if isinstance(target, ElementPlace):
        raise type_problem(
            f"there is no atomic exchange on elements of type {target.dtype}", "use a field of another type"
        )
    # A local belongs to one iteration, so a plain read and write suffice.
    old = load(t, target)
    store(t, target, operand)
    return old


@LOWERINGS.row("atomic_cas")
def _compare_and_swap(t: Tracer, node: ast.Call) -> Operand:
    """Emit an atomic compare-and-swap of an element, and return the element's old value."""
    if len(node.args) != 3 or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        raise syntax_problem("`atomic_cas` takes 3 arguments", "call it as `atomic_cas(x[i], expected, new)`")
    target = place(t, node.args[0])
    dtype = kind_at(target)
    if not isinstance(dtype, Scalar) or not atomic_fits("cas", dtype):
        raise type_problem(f"there is no atomic compare-and-swap on {dtype}", "use numbers, part by part")
    expected, value = (t.stored(t.clean(node.args[k]), dtype, f"`{ast.unparse(node.args[0])}`") for k in (1, 2))
    if isinstance(target, ElementPlace):
        return t.builder.atomic("cas", target.array, target.indices, value, expected)
    old = t.value(load(t, target))
    store(t, target, t.builder.op("select", t.builder.same_bits(old, expected), value, old))
    return old


@LOWERINGS.row("volatile_load")
def _volatile_load(t: Tracer, node: ast.Call) -> Operand:
    """Emit a plain load for a volatile load, because no iteration can wait for a store of another one."""
    (x,) = arguments(t, node, "volatile_load", "x")
    return x


def _filled(name: str, value: int) -> CallLowering:
    """Return the lowering of `zero(x)` or `one(x)`: a value of the type of x in which every number is `value`."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        (x,) = arguments(t, node, name, "x")
        return with_leaves(x, [t.value(Static(value), t.type_of(leaf)) for leaf in leaves(x)])

    return lower


LOWERINGS.update({"zero": _filled("zero", 0), "one": _filled("one", 1)})


@LOWERINGS.row("randn")
def _randn(t: Tracer, node: ast.Call) -> Operand:
    """Return a random number of the standard normal distribution, computed from two uniform draws.

    Source: Box and Muller, sqrt(-2 ln(1 - u))·cos(2πv).
    """
    (given,) = arguments(t, node, "randn", "dtype=")
    dtype = t.options.default_fp
    if not (isinstance(given, Static) and given.value is None):
        dtype = dtype_argument(t, given, "randn")
    if not dtype.is_real:
        raise type_problem(f"`randn` gives real numbers, not {dtype}", "use sg.f32 or sg.f64, and cast the result")
    op, constant = t.builder.op, t.builder.const
    u, v = t.builder.random(dtype), t.builder.random(dtype)
    radius = op("sqrt", op("mul", constant(-2.0, dtype), op("log", op("sub", constant(1.0, dtype), u))))
    return op("mul", radius, op("cos", op("mul", constant(math.tau, dtype), v)))


@LOWERINGS.row("static")
def _static(t: Tracer, node: ast.Call) -> Operand:
    return evaluate_static(t, node)


@LOWERINGS.row("static_assert")
def _static_assert(t: Tracer, node: ast.Call) -> Operand:
    values = [python_value(t, arg) for arg in node.args]
    if not values or not values[0]:
        raise syntax_problem(
            f"static assertion failed{f': {values[1]}' if len(values) > 1 else ''}", "correct the program"
        )
    return Static(None)


@LOWERINGS.row("static_print")
def _static_print(t: Tracer, node: ast.Call) -> Operand:
    print(*(python_value(t, arg) for arg in node.args))
    return Static(None)


def _loops_only(t: Tracer, node: ast.Call) -> Operand:
    raise syntax_problem(f"`{ast.unparse(node.func)}` stands only after `in` of a loop", "write `for i in ...`")


LOWERINGS.update({"ndrange": _loops_only, "grouped": _loops_only})


def _with_only(t: Tracer, node: ast.Call) -> Operand:
    raise syntax_problem(f"`{ast.unparse(node.func)}` stands only after `with`", "write `with sg.stream_parallel():`")


def _while_only(t: Tracer, node: ast.Call) -> Operand:
    raise syntax_problem(
        f"`{ast.unparse(node.func)}` stands only after `while`", "write `while sg.graph.do_while(flag):`"
    )


LOWERINGS.update({name: _with_only for name in ("stream_parallel", "graph_parallel", "graph_parallel_context")})
LOWERINGS["graph_do_while"] = _while_only
_LOOP_OPTIONS = ("serialize", "parallelize", "checkpoint", "block_dim", "block_dim_adaptive", "bit_vectorize", "name")


@LOWERINGS.row("loop_config")
def _loop_config(t: Tracer, node: ast.Call) -> Operand:
    """Keep the options of the next loop: `serialize`, `checkpoint`, and `block_dim`; ignore the others."""
    for keyword in node.keywords:
        if keyword.arg not in _LOOP_OPTIONS:
            raise syntax_problem(
                f"`loop_config` does not take `{keyword.arg}`", f"its options are {', '.join(_LOOP_OPTIONS)}"
            )
        value = python_value(t, keyword.value)
        if keyword.arg == "serialize":
            t.serialize_next = bool(value)
        if keyword.arg == "block_dim":
            t.block_dim = value
        if keyword.arg == "checkpoint":
            t.segment_next = _segment(value, keyword.value)
    if node.args:
        raise syntax_problem("`loop_config` takes keywords alone", "write `loop_config(serialize=True)`")
    return Static(None)


def _segment(value: object, node: ast.expr) -> int:
    """Return the number of trips between two checkpoints, which is at least 2, or 0 for no checkpoints."""
    if value is None or value is False:
        return 0
    if not isinstance(value, int) or value < 2:
        raise type_problem(
            f"`checkpoint` is the number of trips between two checkpoints, an integer of at least 2, not {value!r}",
            "write `loop_config(checkpoint=32)`",
            node,
        )
    return value


# ---- functions of Python with a meaning of their own ----------------------------------------------------------------


def _len(t: Tracer, node: ast.Call) -> Operand:
    (x,) = arguments(t, node, "len", "x")
    if isinstance(x, Pack):
        return Static(len(x.items))
    if isinstance(x, MatrixValue):
        return Static(x.shape[0])
    if isinstance(x, Static) and isinstance(x.value, ShapeOf):
        return Static(len(x.value.field.shape))
    if isinstance(x, Static) and hasattr(x.value, "__len__"):
        try:
            found = len(x.value)
        except Exception as error:
            t.reads += failed_reads(x.value, "len()")
            reason = f"the length of {describe(x)} fails: {type(error).__name__}: {error}"
            raise type_problem(reason, "correct it") from error
        t.reads += length_read(x.value, found)
        return Static(found)
    raise type_problem(f"{describe(x)} has no length", "use `x.shape[0]` for the extent of a field")


PYTHON: dict[Any, CallLowering] = {
    builtins.print: lower_print,
    builtins.len: _len,
    builtins.range: _loops_only,
    builtins.reversed: _loops_only,
}
