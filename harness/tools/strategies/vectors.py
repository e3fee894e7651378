"""This module draws random expressions that are vectors or matrices, and scalars and conditions made of them.

One shape serves most of a program, so that its vectors can be combined. Each method names its productions in one flat
list.
"""

from __future__ import annotations

from collections.abc import Callable

from ....compiler.ir.types import Scalar, promote
from ..model import nodes as m
from ..model.nodes import Expr, Number
from .atomics import Atomics
from .expressions import Typed
from .functions import LITERALS, SAFE, SMOOTH_NAMES, add, call, mul, strip_cast
from .state import DrawnField, EntryShape, VectorArgument

Production = Callable[[EntryShape, int], Typed]
ALPHABETS = ("xyzw", "rgba", "stpq")


def part(base: Expr, *indices: int) -> m.Part:
    """Return the expression for the entry of a vector or matrix at constant indices, such as `v[1]`."""
    return m.Part(base, tuple(map(Number, indices)))


class Vectors(Atomics):
    """Draw random expressions of vectors and matrices, and scalar expressions and conditions made of them."""

    def some_shape(self) -> EntryShape:
        """Return one of the shapes of vectors and matrices that the drawn program uses, chosen at random."""
        return self.draw.choice(self.shapes)

    def vectors_of(self, shape: EntryShape, assignable: bool = False) -> list[str]:
        """Return the names of the local vectors of this shape; if `assignable`, only those that may be assigned."""
        found = [name for name, (own, _) in self.names.vectors.items() if own == shape]
        return [name for name in found if not assignable or name not in self.names.fixed]

    # -- vectors --------------------------------------------------------------------------------------------

    def vector(self, shape: EntryShape, depth: int | None = None) -> Typed:
        """Return a random expression that is a vector or matrix of this shape, and the scalar type of its entries.

        Args:
            shape: Shape of the result.
            depth: Number of levels that the expression may have; None draws it.
        """
        depth = self.depth if depth is None else depth
        if depth <= 0 or not self.draw.boolean(0.55):
            return self.vector_leaf(shape)
        productions: list[Production] = [
            self._vectors_added,
            self._vector_scaled,
            self._function_of_vector,
            self._vectors_multiplied,
            self._vector_divided,
            self._vector_chosen,
            self._mathematics,
            self._reordered,
            self._vector_invoked,
            self._products,
            self._products,
            self._extreme_vector,
            self._vector_invoked,
        ]
        return self.draw.choice(productions)(shape, depth - 1)

    def vector_leaf(self, shape: EntryShape) -> Typed:
        """Return a simple vector expression: a local, an element, an argument, or a vector given by its entries."""
        locals_, arrays = self.vectors_of(shape), self.readable_vectors(shape)
        kinds = ["local"] * 5 * bool(locals_) + ["element"] * 3 * bool(arrays) + ["entries", "comprehension", "filled"]
        kind = self.draw.choice(kinds + ["argument"] * (len(shape) == 1 and not self.in_function))
        if kind == "local":
            name = self.draw.choice(locals_)
            return m.Name(name), self.names.vectors[name][1]
        if kind == "element":
            array = self.draw.choice(arrays)
            return m.Element(array.name, self.place(array)), array.dtype
        if kind == "argument":
            self.arguments.setdefault("beta", VectorArgument(self.main, self.size))
            return m.Name("beta"), self.main
        if kind == "filled":
            names = ("one", "zero", "identity") if len(shape) == 2 else ("one", "zero")
            return m.Filled(self.draw.choice(names), shape, self.main), self.main
        if kind == "comprehension" and len(shape) == 1:
            return self._comprehension(shape[0])
        return self._entries(shape)

    def _entries(self, shape: EntryShape) -> Typed:
        """Return a random expression such as `Vector([a, 0.5])`, in which some entries are literals."""
        numbers = self.draw.boolean(0.2)
        items = [self.literal() if numbers or self.draw.boolean(0.3) else self.real(0)[0] for _ in range(shape[0])]
        if len(shape) == 2:
            second = [self.literal() if self.draw.boolean() else self.real(0)[0] for _ in range(shape[0])]
            made: Expr = m.Matrix((tuple(items), tuple(second)))
            return m.Convert(made, self.main), self.main
        return m.Vector(tuple(items), self.main), self.main

    def _comprehension(self, size: int) -> Typed:
        """Return a random expression of the kind `Vector([... for k in range(size)])`."""
        name = self.fresh("q")
        a, _ = self.real(0)
        index = m.Name(name)
        vectors = self.vectors_of((size,))
        item: Expr = m.Binary("+", a, mul(Number(0.25), index))
        if vectors and self.draw.boolean(0.6):
            item = m.Binary(self.draw.choice("*+-"), m.Part(m.Name(self.draw.choice(vectors)), (index,)), a)
        return m.Convert(m.Comprehension("Vector", name, size, item), self.main), self.main

    def _vectors_added(self, shape: EntryShape, depth: int) -> Typed:
        (a, p), (b, q) = self.vector(shape, depth), self.vector(shape, depth - 1)
        return m.Binary(self.draw.choice("+-"), a, b), promote(p, q)

    def _vector_scaled(self, shape: EntryShape, depth: int) -> Typed:
        (a, p), (b, q) = self.vector(shape, depth), self.bounded(self.real(0))
        factor: Expr = self.literal() if self.draw.boolean(0.3) else b
        op = self.draw.choice("**+-")
        return m.Binary(op, *((factor, a) if self.draw.boolean() else (a, factor))), promote(p, q) if factor is b else p

    def _vectors_multiplied(self, shape: EntryShape, depth: int) -> Typed:
        (a, p), (b, q) = self.bounded(self.vector(shape, depth)), self.vector(shape, depth - 1)
        return mul(a, b), promote(p, q)

    def _function_of_vector(self, shape: EntryShape, depth: int) -> Typed:
        a, p = self.vector(shape, depth)
        return SAFE[self.draw.choice(SMOOTH_NAMES)](a), p

    def _vector_divided(self, shape: EntryShape, depth: int) -> Typed:
        (a, p), (b, q) = self.vector(shape, depth), self.vector(shape, 0) if self.draw.boolean() else self.real(0)
        return m.Binary("/", a, add(Number(2.5), call("sin", b))), promote(p, q)

    def _vector_chosen(self, shape: EntryShape, depth: int) -> Typed:
        condition = self.condition(0)
        (a, p), (b, q) = self.vector(shape, depth), self.vector(shape, 0)
        if self.draw.boolean(0.3):
            return call("select", condition, a, b), promote(p, q)
        return m.Choice(condition, a, b), promote(p, q)

    def _extreme_vector(self, shape: EntryShape, depth: int) -> Typed:
        (a, p), (b, q) = self.vector(shape, depth), self.vector(shape, 0)
        return call(self.draw.choice(("min", "max")), a, self.literal() if self.draw.boolean(0.3) else b), promote(p, q)

    def _mathematics(self, shape: EntryShape, depth: int) -> Typed:
        """Return a call of a mathematical function on a random vector, or an expression without derivative."""
        a, p = self.vector(shape, depth)
        return self.mathematics((a, p))

    def _reordered(self, shape: EntryShape, depth: int) -> Typed:
        """Return a random vector with its entries reordered: a swizzle, a reversed slice or a transpose."""
        a, p = self.vector(shape, depth) if self.draw.boolean(0.3) else self.vector_leaf(shape)
        if len(shape) == 2:
            return m.Method(a, "transpose"), p
        if self.draw.boolean(0.3):
            return m.Slice(a, None, None, -1), p
        alphabet = self.draw.choice(ALPHABETS)[: shape[0]]
        return m.Swizzle(a, "".join(self.draw.choice(alphabet) for _ in range(shape[0]))), p

    def _vector_invoked(self, shape: EntryShape, depth: int) -> Typed:
        found = [f for f in self.functions if f.shape == shape]
        if not found:
            return self._function_of_vector(shape, depth)
        return m.Invoke((f := self.draw.choice(found)).name, self.arguments_of(f)), self.main

    def _products(self, shape: EntryShape, depth: int) -> Typed:
        """Return a random unit vector, cross product, matrix product, outer product or inverse."""
        a, p = self.vector(shape, depth)
        if len(shape) == 2:
            return self._of_matrix(a, p, shape)
        if (2, 2) in self.shapes and self.draw.boolean(0.75):
            b, q = self.vector((2, 2), 0)
            return m.Binary("@", b, self.bounded((a, p))[0]), promote(p, q)
        if shape == (3,) and self.draw.boolean(0.6):
            b, q = self.vector(shape, 0)
            return m.Method(self.bounded((a, p))[0], "cross", (b,)), promote(p, q)
        if self.draw.boolean(0.3):
            away = add(Number(2.0), call("sin", a))
            return m.Method(away, "normalized"), p
        return m.Method(a, "normalized", (Number(0.5),)), p

    def _of_matrix(self, a: Expr, p: Scalar, shape: EntryShape) -> Typed:
        """Return a random matrix expression: a product of matrices, an outer product or an inverse.

        Args:
            a: A matrix expression to use.
            p: Type of its entries.
            shape: Shape of the matrix `a`.
        """
        kind = self.draw.choice(("@", "@", "outer", "inverse"))
        # The diagonal outweighs the other entries, so the matrix has an inverse.
        if kind == "inverse":
            diagonal = mul(m.Filled("identity", shape, self.main), Number(2.5))
            return m.Method(add(diagonal, self.bounded((a, p))[0]), "inverse"), promote(p, self.main)
        if kind == "outer":
            (b, q), (c, r) = self.vector((2,), 0), self.bounded(self.vector((2,), 0))
            return m.Method(b, "outer_product", (c,)), promote(q, r)
        b, q = self.bounded(self.vector(shape, 0))
        return m.Binary("@", a, b), promote(p, q)

    # -- reals of vectors -----------------------------------------------------------------------------------

    def leaf(self) -> Typed:
        """Return a random real operand, such as a local or, at times, an entry of a local vector."""
        if self.names.vectors and self.draw.boolean(0.3):
            name = self.draw.choice(list(self.names.vectors))
            shape, dtype = self.names.vectors[name]
            return self.entry(m.Name(name), shape), dtype
        return super().leaf()

    def entry(self, base: Expr, shape: EntryShape) -> m.Part | m.Swizzle:
        """Return an entry such as `v.x`, `v[1]`, `v[k]` or `m[i, 1]`."""
        if len(shape) == 1 and self.draw.boolean(0.35):
            return m.Swizzle(base, self.draw.choice(ALPHABETS[0][: shape[0]]))
        return m.Part(base, tuple(self.entry_index(extent) for extent in shape))

    def entry_index(self, extent: int) -> Expr:
        """Return a random index expression below `extent`: a literal, or an integer that the kernel computes."""
        if self.draw.boolean():
            return Number(self.draw.integer(0, extent - 1))
        if self.names.indices and self.draw.boolean(0.6):
            index = self.names.indices[-1]
            return strip_cast(self.within(m.Name(index), self.names.ints[index], extent))
        return strip_cast(self.within(*self.integer(1), extent))

    def productions(self) -> list[Callable[[int], Typed]]:
        """Return the methods that draw real expressions; programs with vectors have additional ones."""
        return super().productions() + [self.of_vector] * 5 * self.vectorial

    def of_vector(self, depth: int) -> Typed:
        """Return a random real expression computed from a vector or matrix, such as a sum or a norm."""
        shape = self.some_shape()
        a, p = self.vector(shape, depth)
        kind = self.draw.choice(("dot", "norm", "sum", "norm_sqr", "dot", "extreme", "slice", "generator", "cross"))
        if len(shape) == 2:
            return m.Method(self.bounded((a, p))[0], self.draw.choice(("determinant", "trace", "sum"))), p
        if kind in ("sum", "norm_sqr"):
            return m.Method(a if kind == "sum" else self.bounded((a, p))[0], kind), p
        if kind == "extreme":
            return m.Method(a, self.draw.choice(("min", "max"))), p
        if kind == "norm":
            name = self.draw.choice(("norm", "norm", "norm_inv"))
            return m.Method(a, name, (Number(0.5),) if name == "norm_inv" or self.draw.boolean(0.3) else ()), p
        if kind == "slice":
            return self._of_slices(a, p, shape[0])
        if kind == "generator":
            return self._generator(shape[0])
        b, q = self.bounded(self.vector(shape, 0))
        return m.Method(a, "cross" if kind == "cross" and shape == (2,) else "dot", (b,)), promote(p, q)

    def _of_slices(self, a: Expr, p: Scalar, size: int) -> Typed:
        """Return a real expression made of slices of a vector, such as `v[1:].sum()` or `v[:2].dot(v[1:])`."""
        if size < 3:
            return m.Method(m.Swizzle(a, "yxx"), "sum"), p
        if self.draw.boolean():
            return m.Method(m.Slice(a, 1, None), "sum"), p
        return m.Method(m.Slice(self.bounded((a, p))[0], None, size - 1), "dot", (m.Slice(a, 1, None),)), p

    def _generator(self, size: int) -> Typed:
        """Return a sum over a generator, such as `sum(v[k]*w[k] for k in range(size))`."""
        index = m.Name(self.fresh("q"))
        (a, p), (b, q) = self.vector_leaf((size,)), self.real(0)
        item = mul(m.Part(a, (index,)), add(b, mul(Number(0.5), index)))
        return m.Comprehension("sum", index.name, size, item), promote(p, q)

    def condition(self, depth: int = 1) -> Expr:
        """Return a random condition, at times one on all entries of a vector, such as `(v < 0.5).any()`."""
        if self.vectorial and self.draw.boolean(0.12):
            a, _ = self.vector(self.some_shape(), 0)
            compared = m.Compare((self.draw.choice(("<", ">")),), (a, Number(self.draw.choice(LITERALS))))
            return m.Method(compared, self.draw.choice(("any", "all")))
        return super().condition(depth)

    # -- memory and calls -----------------------------------------------------------------------------------

    def readable_vectors(self, shape: EntryShape) -> list[DrawnField]:
        """Return the arrays that the kernel may read at this point and whose elements have this shape."""
        found = [self.arrays[name] for name in sorted(self.access.readable)]
        return [a for a in found if a.element == shape and self.reachable(a)]

    def _argument_of(self, function: object, kind: str) -> Expr:
        if kind == "vector":
            return self.vector((self.size,), 1)[0]
        return super()._argument_of(function, kind)  # type: ignore[arg-type]
