"""This module translates size expressions to a kernel with one serial task, which computes all sizes of a launch.

    total(i in b .. e: x)   →   for i in b .. e { set sum, sum + x }

Ranges that are alike share one loop. Sums over ranges saturate where they could leave 64 bits. The element of
`$inexact` becomes 1 where the expressions do not describe the state: a limit is exceeded, an index is outside its array
(then the element is not read), a divisor is 0, or other arithmetic leaves 64 bits. So the kernel needs no check of its
own, and any backend can compile it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..analysis.intervals import Number, point, product
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Param, Task
from ..ir.statement import Stmt, Value
from ..ir.types import ArrayType, Scalar, f64, i64, u1
from .counting_kernel import OUTPUTS
from .expressions import INT64, KINDS, OVER, SAFE_PRODUCT, SizeExpr, variable, variable_of, walk
from .sizes import KernelSizes

INEXACT = "$inexact"
"""The array whose only element is 1 if the expressions do not describe the state."""


def size_kernel(kernel: Kernel, sized: KernelSizes) -> Kernel:
    """Return a kernel that evaluates the size expressions of another kernel and stores the results.

    Its parameters are the arguments that the expressions need, and the output arrays OUTPUTS and INEXACT.
    """
    maker = _SizeExprEmitter(kernel)
    maker.run(sized)
    used = {str(e.data[0]) for x in sized.expressions for e in walk(x) if e.kind in ("arg", "shape", "read")}
    outputs = tuple(Param(name, ArrayType(i64, 1)) for name in (*OUTPUTS, INEXACT))
    params = tuple(p for p in kernel.params if p.name in used) + outputs
    return Kernel(f"{kernel.name}.sizes", params, (Task(maker.b.take()),))


@dataclass
class _Scope:
    """A `_Scope` holds the IR value of each size expression that one block of the emitted kernel has computed.

    Attributes:
        made: The value of each expression.
    """

    made: dict[SizeExpr, Value] = field(default_factory=dict)


class _SizeExprEmitter:
    """This class emits the kernel that evaluates the size expressions of another kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.b = Builder()
        self.arrays = kernel.array_types()
        self.scopes = [_Scope()]
        self.names = 0

    def run(self, sized: KernelSizes) -> None:
        """Emit the whole kernel body, in which limits that need no loop are checked before any size is evaluated."""
        b = self.b
        b.local("inexact", u1)
        plain = [(x, m) for x, m in sized.limits if not any(e.kind in OVER for e in walk(x))]
        self._limits(plain)
        inner: list[Stmt] = self._block(lambda: self._sizes(sized, [x for x in sized.limits if x not in plain]))
        b.if_(b.op("logic_not", b.get("inexact", u1)), inner)
        b.store(INEXACT, (b.const(0, i64),), b.cast(b.get("inexact", u1), i64))

    def _limits(self, limits: list[tuple[SizeExpr, int]]) -> None:
        """Emit code that marks the sizes as invalid if one of the expressions exceeds its limit."""
        for x, most in limits:
            self.flag(self.b.op("cmp_gt", self.value(x), self.b.const(most, i64)))

    def _sizes(self, sized: KernelSizes, limits: list[tuple[SizeExpr, int]]) -> None:
        """Emit the comparisons with limits that need loops, and the stores of all sizes."""
        found = (sized.depths, sized.totals, sized.rows)
        self.prepare([*(x for x, _ in limits), *(x for xs in found for x in xs)])
        self._limits(limits)
        for name, expressions in zip((OUTPUTS[0], OUTPUTS[2], OUTPUTS[1]), found):
            for k, x in enumerate(expressions):
                self.b.store(name, (self.b.const(k, i64),), self.value(x))

    # -- statements -----------------------------------------------------------------------------------------

    def _block(self, make: Callable[[], None]) -> list[Stmt]:
        """Return the block of statements that `make` emits; values computed in it are not reused outside."""
        self.scopes.append(_Scope())
        with self.b.block() as body:
            make()
        self.scopes.pop()
        return body

    def flag(self, wrong: Value) -> None:
        """Emit code that marks the sizes as invalid if `wrong` is true."""
        self.b.set("inexact", self.b.op("logical_or", self.b.get("inexact", u1), wrong))

    def local(self, dtype: Scalar) -> str:
        """Emit the declaration of a new local and return the name of the local."""
        self.names += 1
        return self.b.local(f"v{self.names}", dtype)

    def branch(self, condition: Value, dtype: Scalar, then: Callable[[], Value], other: Callable[[], Value]) -> Value:
        """Emit a branch whose alternatives compute a value each, and return the resulting value."""
        name = self.local(dtype)
        blocks = [self._block(lambda make=make: self.b.set(name, make())) for make in (then, other)]  # type: ignore[misc]
        self.b.if_(condition, *blocks)
        return self.b.get(name, dtype)

    # -- values ---------------------------------------------------------------------------------------------

    def value(self, x: SizeExpr) -> Value:
        """Return the IR value of a size expression, with new code unless an enclosing block has computed it."""
        for scope in self.scopes:
            if x in scope.made:
                return scope.made[x]
        if x.kind in OVER:
            self.loop([x])
            return self.scopes[-1].made[x]
        made = self.scopes[-1].made[x] = MAKE[x.kind](self, x)
        return made

    def prepare(self, expressions: Iterable[SizeExpr]) -> None:
        """Emit the sums and maxima that expressions always need, with one loop for all that have the same range."""
        alike: dict[tuple[int, SizeExpr, SizeExpr], list[SizeExpr]] = {}
        for x in expressions:
            for over in _needed(x):
                known = any(over in scope.made for scope in self.scopes)
                group = alike.setdefault((variable_of(over), over.args[0], over.args[1]), [])
                if not known and over not in group:
                    group.append(over)
        for group in alike.values():
            if group:
                self.loop(group)

    def loop(self, overs: list[SizeExpr]) -> None:
        """Emit one loop that computes several sums or maxima over the same range."""
        first = overs[0]
        begin, end = self.value(first.args[0]), self.value(first.args[1])
        names = [self.local(i64) for _ in overs]
        index = self.b.fresh(i64)

        def body() -> None:
            # Expressions are compared by their text, so this node stands for the index with any bounds.
            self.scopes[-1].made[variable(variable_of(first), 0, 0)] = index
            self.prepare([x.args[2] for x in overs])
            for name, x in zip(names, overs):
                made, known = self.value(x.args[2]), self.b.get(name, i64)
                self.b.set(name, self._joined(x, known, made))

        self.b.emit(n.For(index, begin, end, tuple(self._block(body))))
        for name, x in zip(names, overs):
            self.scopes[-1].made[x] = self.b.get(name, i64)

    def _joined(self, over: SizeExpr, known: Value, made: Value) -> Value:
        """Emit the step that extends a sum or maximum over a range by one value; a sum that is too large saturates."""
        b = self.b
        if over.kind == "largest":
            return b.op("max", known, made)
        total = b.op("add", known, made)
        if over.high <= INT64[1]:
            return total
        return b.op("select", self._wrapped(known, made, total), b.const(INT64[1], i64), total)

    # -- arithmetic -----------------------------------------------------------------------------------------

    def add(self, x: Value, y: Value, low: float, high: float) -> Value:
        """Emit the sum x + y and return it. The emitted code marks the sizes as invalid if the sum overflows.

        Args:
            x: The first operand.
            y: The second operand.
            low: Lower bound of the sum.
            high: Upper bound of the sum.
        """
        made = self.b.op("add", x, y)
        if low < INT64[0] or INT64[1] < high:
            self.flag(self._wrapped(x, y, made))
        return made

    def mul(self, x: Value, y: Value, low: float, high: float) -> Value:
        """Emit the product x·y and return it. The emitted code marks the sizes as invalid if the product overflows.

        Args:
            x: The first operand.
            y: The second operand.
            low: Lower bound of the product.
            high: Upper bound of the product.
        """
        b = self.b
        if low < INT64[0] or INT64[1] < high:
            rough = b.op("mul", b.cast(x, f64), b.cast(y, f64))
            self.flag(b.op("cmp_ge", b.op("abs", rough), b.const(SAFE_PRODUCT, f64)))
        return b.op("mul", x, y)

    def _wrapped(self, x: Value, y: Value, total: Value) -> Value:
        """Return the condition that a sum overflowed 64 bits: its sign differs from the signs of both operands."""
        b = self.b
        changed = b.op("bit_and", b.op("bit_xor", x, total), b.op("bit_xor", y, total))
        return b.op("cmp_lt", changed, b.const(0, i64))


def _needed(x: SizeExpr) -> Iterable[SizeExpr]:
    """Yield the sums and maxima over ranges in `x` that every evaluation of `x` needs and that use no outer index."""
    if x.kind in OVER:
        for arg in x.args[:2]:
            yield from _needed(arg)
        yield x
        return
    for arg in x.args[:1] if x.kind in ("when", "and", "or") else x.args:
        yield from _needed(arg)


def _is_plain(x: SizeExpr) -> bool:
    """Return True if an expression may be evaluated speculatively: it has no load, loop or division by 0."""
    divides = x.kind in ("floordiv", "mod") and x.args[1].low <= 0 <= x.args[1].high
    return x.kind not in OVER and x.kind != "read" and not divides and all(map(_is_plain, x.args))


# ---- kinds --------------------------------------------------------------------------------------------------


def _const(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit a constant size expression and return its IR value."""
    value = x.data[0]
    assert isinstance(value, (int, float))
    return m.b.const(value, u1 if isinstance(value, bool) else f64 if isinstance(value, float) else i64)


def _typed(m: _SizeExprEmitter, value: Value) -> Value:
    """Return an IR value converted to i64 or f64; a boolean is returned unchanged."""
    return value if value.type.is_bool else m.b.cast(value, f64 if value.type.is_real else i64)


def _arg(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit a read of the scalar argument that a size expression names, and return its IR value."""
    name, dtype = x.data
    assert isinstance(dtype, Scalar)
    return _typed(m, m.b.arg(str(name), dtype))


def _shape(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit a read of an extent, and code that marks the sizes as invalid if the extent exceeds its assumed bound."""
    array, axis = x.data
    assert isinstance(axis, int)
    extent = m.b.shape(str(array), axis, i64)
    m.flag(m.b.op("cmp_gt", extent, m.b.const(int(x.high), i64)))
    return extent


def _read(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit the load of an element, which runs only if the indices are inside the array."""
    array = str(x.data[0])
    indices = tuple(m.value(i) for i in x.args)
    dtype = m.arrays[array].dtype
    target = dtype if dtype.is_bool else f64 if dtype.is_real else i64
    inside = m.b.const(True, u1)
    for axis, index in enumerate(indices):
        extent = m.b.shape(array, axis, i64)
        right = m.b.op("logical_and", m.b.op("cmp_ge", index, m.b.const(0, i64)), m.b.op("cmp_lt", index, extent))
        inside = right if axis == 0 else m.b.op("logical_and", inside, right)
    if not indices:
        return _typed(m, m.b.load(array, indices, dtype))
    m.flag(m.b.op("logic_not", inside))
    return m.branch(inside, target, lambda: _typed(m, m.b.load(array, indices, dtype)), lambda: m.b.const(0, target))


def _sum(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit the value of a sum node: constant plus terms, each multiplied by its integer factor."""
    constant, *factors = [int(d) for d in x.data]  # type: ignore[call-overload]
    low: Number = constant
    high: Number = constant
    made = m.b.const(constant, i64)
    for k, (arg, factor) in enumerate(zip(x.args, factors)):
        ends = product(arg.interval, point(factor))
        part = m.value(arg) if factor == 1 else m.mul(m.value(arg), m.b.const(factor, i64), *ends)
        low, high = low + ends.low, high + ends.high
        made = part if k == 0 and constant == 0 else m.add(made, part, low, high)
    return made


def _product(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit the value of a product node, multiplying factor by factor."""
    made, within = m.value(x.args[0]), x.args[0].interval
    for arg in x.args[1:]:
        within = product(within, arg.interval)
        made = m.mul(made, m.value(arg), *within)
    return made


def _divided(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit a division or remainder whose divisor 0 is replaced by 1, with a mark that the sizes are then invalid."""
    dividend, divisor = m.value(x.args[0]), m.value(x.args[1])
    if x.args[1].low <= 0 <= x.args[1].high:
        none = m.b.op("cmp_eq", divisor, m.b.const(0, i64))
        m.flag(none)
        divisor = m.b.op("select", none, m.b.const(1, i64), divisor)
    return m.b.op(x.kind, dividend, divisor)


def _folded(operation: str) -> Callable[[_SizeExprEmitter, SizeExpr], Value]:
    """Return the function that emits the maximum or minimum of several values by the operation `max` or `min`."""

    def fold(m: _SizeExprEmitter, x: SizeExpr) -> Value:
        made = m.value(x.args[0])
        for arg in x.args[1:]:
            made = m.b.op(operation, made, m.value(arg))
        return made

    return fold


def _when(m: _SizeExprEmitter, x: SizeExpr) -> Value:
    """Emit a conditional value: a `select` if both sides may be evaluated speculatively, else a branch."""
    condition, a, b = x.args
    if _is_plain(a) and _is_plain(b):
        return m.b.op("select", m.value(condition), m.value(a), m.value(b))
    return m.branch(m.value(condition), i64, lambda: m.value(a), lambda: m.value(b))


def _junction(operation: str, decisive: bool) -> Callable[[_SizeExprEmitter, SizeExpr], Value]:
    """Return the function that emits a conjunction or disjunction with short-circuit evaluation."""

    def junction(m: _SizeExprEmitter, x: SizeExpr) -> Value:
        made = m.value(x.args[0])
        for arg in x.args[1:]:
            if _is_plain(arg):
                made = m.b.op(operation, made, m.value(arg))
                continue
            pieces = (lambda: m.b.const(decisive, u1)), (lambda arg=arg: m.value(arg))
            made = m.branch(made, u1, *(pieces if decisive else pieces[::-1]))
        return made

    return junction


MAKE: dict[str, Callable[[_SizeExprEmitter, SizeExpr], Value]] = {
    "const": _const,
    "arg": _arg,
    "shape": _shape,
    "read": _read,
    "sum": _sum,
    "product": _product,
    "floordiv": _divided,
    "mod": _divided,
    "max": _folded("max"),
    "min": _folded("min"),
    "when": _when,
    "positive": lambda m, x: m.b.op("cmp_gt", m.value(x.args[0]), m.b.const(0, i64)),
    "zero": lambda m, x: m.b.op("cmp_eq", m.value(x.args[0]), m.b.const(0, i64)),
    "compare": lambda m, x: m.b.op(str(x.data[0]), m.value(x.args[0]), m.value(x.args[1])),
    "not": lambda m, x: m.b.op("logic_not", m.value(x.args[0])),
    "and": _junction("logical_and", False),
    "or": _junction("logical_or", True),
}
"""The statements of each kind. Ranges are loops, and their indices are in scope."""

assert MAKE.keys() | OVER | {"var"} == KINDS.keys()
