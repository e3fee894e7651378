"""Refuse launches in which a loop bound that is computed by a multiplication overflows its integer type.

    for i in range(n * n)        n: i32 = 50000        2500000000 iterations, which i32 takes for -1794967296, none

Integers of kernels wrap, so a bound that overflows silently gives another number of iterations. If a bound is computed
by a multiplication of arguments and extents, and if the loop certainly runs, the bound is computed once more in
unbounded integers before each launch with new arguments. Bounds with sums alone are not checked, because each check
costs time and few sums overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ...compiler.errors import KernelTypeError
from ...compiler.ir import nodes as n
from ...compiler.ir.build import normal_constant
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.ops import OPS
from ...compiler.ir.roles import ARRAY_WRITES, EXITS
from ...compiler.ir.statement import Block, Stmt, Value
from ...compiler.ir.table import Table
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import RESULTS, walk, walk_kernel
from ..base import Arrays, Scalars

Number = int | float | bool
Compute = Callable[[Arrays, Scalars], tuple[int, int]]
"""The type of a function that returns a value in unbounded integers, and as the kernel has it."""

_WHOLE: Table[str, Callable[..., int]] = Table(
    "products.whole",
    OPS,
    about="the unwrapped result on Python integers, to check bounds of loops",
    optional="the bound is not checked",
)
_WHOLE.update(
    {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "neg": lambda x: -x,
        "min": min,
        "max": max,
        "abs": abs,
        "floordiv": lambda x, y: x // y if y else 0,
        "mod": lambda x, y: x % y if y else 0,
    }
)
_PRODUCTS = ("mul",)
MOST = 64
"""Greatest number of operations of a bound that is checked."""


@dataclass(frozen=True)
class ProductBound:
    """Represent a loop bound that is checked for overflow before each launch, and the function that computes it.

    Attributes:
        value: computes the bound
        dtype: type in which the kernel has it
        loc: location of its loop
    """

    value: Compute
    dtype: Scalar
    loc: int


class ProductChecks:
    """Check, before a launch, that no loop bound which is a product overflows its integer type.

    Attributes:
        kernel: kernel whose loops are checked
        scalars: arguments from which the bounds are computed
        shapes: arrays from whose extents the bounds are computed
        found: the loop bounds that are checked
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scalars: frozenset[str] = frozenset()
        self.shapes: frozenset[str] = frozenset()
        self.found: tuple[ProductBound, ...] = ()
        bounds = list(_bounds(kernel))
        if any(isinstance(s, n.Op) and s.op in _PRODUCTS and s.result.type.is_int for s in walk_kernel(kernel)):
            finder = _Finder(kernel)
            self.found = tuple(p for value, loc in bounds if (p := finder.product(value, loc)) is not None)
            self.scalars, self.shapes = frozenset(finder.scalars), frozenset(finder.shapes)
        self._right: object = None

    def check(self, arrays: Arrays, scalars: Scalars) -> None:
        """Raise KernelTypeError, located at the loop, if a loop bound overflows its integer type."""
        if not self.found:
            return
        state = [scalars[name] for name in self.scalars], [arrays[name].shape for name in self.shapes]
        if state == self._right:
            return
        for product in self.found:
            whole, wrapped = product.value(arrays, scalars)
            if whole != wrapped:
                raise KernelTypeError(
                    f"kernel {self.kernel.name}: a bound of this loop is {whole}, and {wrapped} in {product.dtype}, "
                    "where a product wraps",
                    "multiply in 64 bits, as in `sg.i64(n) * m`, or loop over `sg.ndrange(n, m)`",
                    self.kernel.span(product.loc),
                )
        self._right = state


def _bounds(kernel: Kernel) -> Iterator[tuple[Value, int]]:
    """Yield the bounds of the loops that run in every launch of a kernel, each with its source location."""
    # A bound behind a branch may wrap rightly, because its loop need not run.
    for task in kernel.tasks:
        for value in (*task.begin, *task.end):
            yield value, task.loc
        exits = any(isinstance(s, EXITS) for s in walk(task.body))
        if not exits:
            yield from _inside(task.body)
        # An exit of a serial task may end the kernel.
        elif not task.is_parallel:
            return


def _inside(block: Block) -> Iterator[tuple[Value, int]]:
    """Yield the bounds of those loops of a block that run whenever the block runs, each with its source location."""
    for stmt in block:
        if isinstance(stmt, n.For):
            yield stmt.begin, stmt.loc
            yield stmt.end, stmt.loc
            yield from _inside(stmt.body)


class _UnknownBound(Exception):
    """Signal that a loop bound depends on a value that is neither an argument nor an extent."""


class _Finder:
    """Find the loop bounds of a kernel that are computed from products of arguments and extents."""

    def __init__(self, kernel: Kernel) -> None:
        self.made: dict[Value, Stmt] = {v: s for s in walk_kernel(kernel) for v in RESULTS[type(s)](s)}
        self.written = _written_once(kernel)
        self.scalars: set[str] = set()
        self.shapes: set[str] = set()

    def product(self, value: Value, loc: int) -> ProductBound | None:
        """Return the overflow check of a loop bound, or None if it contains no product of arguments and extents."""
        self.left, self.multiplies = MOST, False
        before = set(self.scalars), set(self.shapes)
        try:
            found = self._value(value)
        except _UnknownBound:
            self.multiplies = False
        if not self.multiplies:
            self.scalars, self.shapes = before
            return None
        return ProductBound(found, value.type, loc)

    def _value(self, value: Value) -> Compute:
        """Return a function that computes a value on the host, or raise _UnknownBound."""
        self.left -= 1
        stmt, dtype = self.made.get(value), value.type
        if self.left < 0 or not dtype.is_int:
            raise _UnknownBound
        if isinstance(stmt, n.Const):
            number = int(stmt.value)
            return lambda arrays, scalars: (number, number)
        if isinstance(stmt, n.Arg):
            name = stmt.name
            self.scalars.add(name)
            return lambda arrays, scalars: (_wrapped(scalars[name], dtype),) * 2
        if isinstance(stmt, n.Shape):
            array, axis = stmt.array.removesuffix(".grad"), stmt.axis
            self.shapes.add(array)
            return lambda arrays, scalars: (int(arrays[array].shape[axis]),) * 2
        if isinstance(stmt, n.Load) and f"${stmt.array}" in self.written:
            return self._value(self.written[f"${stmt.array}"])
        if isinstance(stmt, n.Get) and stmt.var in self.written:
            return self._value(self.written[stmt.var])
        if isinstance(stmt, n.Cast):
            return self._applied(lambda x: x, [stmt.arg], dtype)
        if isinstance(stmt, n.Op) and stmt.op in _WHOLE:
            self.multiplies |= stmt.op in _PRODUCTS
            return self._applied(_WHOLE[stmt.op], stmt.args, dtype)
        raise _UnknownBound

    def _applied(self, apply: Callable[..., int], args: Iterable[Value], dtype: Scalar) -> Compute:
        """Return a function that computes an operation on the host, both in unbounded and in wrapping integers."""
        parts = [self._value(arg) for arg in args]

        def compute(arrays: Arrays, scalars: Scalars) -> tuple[int, int]:
            values = [part(arrays, scalars) for part in parts]
            return apply(*[whole for whole, _ in values]), _wrapped(apply(*[w for _, w in values]), dtype)

        return compute


def _wrapped(number: Number, dtype: Scalar) -> int:
    """Return a number wrapped to the range of the dtype."""
    return int(normal_constant(number, dtype))


def _written_once(kernel: Kernel) -> dict[str, Value]:
    """Return the values of locals and temporaries that are written once, before any statement reads them.

    The statement must stand outside of all loops and branches. Temporaries have the key `$name`.
    """
    temps = {t.name for t in kernel.temps}
    written = [name for s in walk_kernel(kernel) if (name := _target(s, temps))]
    found: dict[str, Value] = {}
    early: set[str] = set()
    for task in kernel.tasks:
        for block in (task.bounds, task.body):
            for stmt in block:
                early.update(s.var for s in walk((stmt,)) if isinstance(s, n.Get) and s.var not in found)
                name = _target(stmt, temps)
                is_serial = not task.is_parallel and block is task.body
                if isinstance(stmt, n.Set) or isinstance(stmt, n.Store) and name and is_serial:
                    found[name] = stmt.value
    return {name: value for name, value in found.items() if written.count(name) == 1 and name not in early}


def _target(stmt: Stmt, temps: set[str]) -> str:
    """Return the name of the local or temporary that a statement writes, or "" if it writes neither."""
    if isinstance(stmt, n.Set):
        return stmt.var
    return f"${stmt.array}" if isinstance(stmt, ARRAY_WRITES) and stmt.array in temps else ""
