"""Draw statements on vectors and matrices: locals as wholes and by entry, and elements of fields of vectors."""

from __future__ import annotations

from collections.abc import Callable

from ..model import nodes as m
from ..model.nodes import Expr, Number, Stmt
from .functions import add, mul
from .state import DrawnField, EntryShape
from .statements import Statements
from .vectors import part

UPDATES = ("bounded", "decay", "sum", "entry", "swizzle", "swap", "slice", "scale", "product", "entry")
UPDATES_IN_LOOPS = (*("bounded",) * 7, "entry", "entry", "decay", "product", "product", "swizzle", "sum", "slice")


class VectorStatements(Statements):
    """Draw statements that are valid at the current point of a program, on scalars and vectors."""

    def simples(self) -> list[Callable[[], list[Stmt]]]:
        """Return the methods that draw statements without blocks, on vectors too if the program has vectors."""
        own = [self.new_vector, self.update_vector, self.write_vector, self.write_vector, self.update_vector]
        return super().simples() + own * 2 * self.vectorial

    def recurrence(self) -> list[Stmt]:
        """Return an update of a local, which a loop repeats as a recurrence; in vector programs mostly of a vector."""
        if self.vectorial and self.draw.boolean(0.6):
            return self.update_vector()
        return super().recurrence()

    # -- locals ---------------------------------------------------------------------------------------------

    def new_vector(self, shape: EntryShape | None = None) -> list[Stmt]:
        """Return the declaration of a new local vector or matrix with a random value."""
        shape = shape or self.some_shape()
        value, dtype = self.vector(shape)
        return [m.Assign((self.declare_vector(shape, dtype),), (value,))]

    def update_vector(self) -> list[Stmt]:
        """Return a random update of a local vector, whose entries keep a magnitude of about one."""
        found = self.assignable(self.names.vectors)
        if not found:
            return self.new_vector()
        name = self.draw.choice(found)
        kinds = UPDATES_IN_LOOPS if self.loops and self.loops[-1] == "serial" else UPDATES
        update = {
            "bounded": self._bounded_vector,
            "decay": self._decay,
            "sum": self._sum_of_vectors,
            "entry": self._entry,
            "swizzle": self._swizzle,
            "swap": self._swap_vectors,
            "slice": self._slice,
            "scale": self._scale,
            "product": self._product_of_vectors,
        }[self.draw.choice(kinds)]
        return update(m.Name(name), self.names.vectors[name][0])

    def _bounded_vector(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        """Return the statement v = f(v op e), where f is a bounded function such as tanh and e is random."""
        e, p = self.vector(shape) if self.draw.boolean(0.7) else self.real()
        return [m.Assign((v,), (self.bounded((m.Binary(self.draw.choice("*+-"), v, e), p))[0],))]

    def _decay(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        """Return the statement v = 0.9 v + 0.25 e with a random bounded vector e."""
        e = self.bounded(self.vector(shape))[0]
        return [m.Assign((v,), (add(mul(Number(0.9), v), mul(Number(0.25), e)),))]

    def _sum_of_vectors(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        e = self.bounded(self.vector(shape) if self.draw.boolean(0.7) else self.real())[0]
        return [m.Augment(v, self.draw.choice("+-"), mul(Number(0.5), e))]

    def _scale(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        return [m.Augment(v, "*", self.bounded(self.real(1) if self.draw.boolean() else self.vector(shape, 1))[0])]

    def _entry(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        """Return an update of one entry at a constant or computed index, or an exchange of two entries."""
        if len(shape) == 1 and self.draw.boolean(0.2):
            first, second = part(v, 0), m.Part(v, (self.entry_index(shape[0]),))
            return [m.Assign((first, second), (second, first))]
        entry = m.Part(v, tuple(self.entry_index(extent) for extent in shape))
        e, p = self.real()
        if self.draw.boolean(0.4):
            return [m.Augment(entry, self.draw.choice("+*-"), self.bounded((e, p))[0])]
        return [m.Assign((entry,), (self.bounded((m.Binary(self.draw.choice("*+"), entry, e), p))[0],))]

    def _swizzle(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        """Return an update of entries by letters, such as `v.x = ...`, `v.xy = v.yx` or `v.yx *= w`."""
        if len(shape) == 2:
            return self._entry(v, shape)
        kind = self.draw.choice(("one", "exchange", "two"))
        if kind == "one":
            target = m.Swizzle(v, self.draw.choice("xyzw"[: shape[0]]))
            return [m.Assign((target,), (self.bounded(self.real())[0],))]
        target = m.Swizzle(v, self.draw.choice(("xy", "yx")))
        if kind == "exchange":
            return [m.Assign((target,), (m.Swizzle(v, target.letters[::-1]),))]
        return [m.Augment(target, "*", self.bounded(self.real(1))[0])]

    def _slice(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        """Return an update of a slice, such as `v[:n - 1] = ...` or `v[1:] += ...`."""
        if len(shape) == 2 or shape[0] < 3:
            return self._sum_of_vectors(v, shape)
        first = self.draw.boolean()
        target = m.Slice(v, None, shape[0] - 1) if first else m.Slice(v, 1, None)
        other = m.Slice(v, 1, None) if first else m.Slice(v, None, shape[0] - 1)
        if self.draw.boolean():
            return [m.Assign((target,), (mul(other, self.bounded(self.real(1))[0]),))]
        return [m.Augment(target, "+", mul(Number(0.25), self.bounded(self.real(1))[0]))]

    def _swap_vectors(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        """Return the statement `v, w = w, v` for two vectors of the same type, or another update of v."""
        dtype = self.names.vectors[v.name][1]
        same = [w for w in self.assignable(self.names.vectors) if self.names.vectors[w] == (shape, dtype)]
        others = [m.Name(w) for w in same if w != v.name]
        if not others:
            return self._bounded_vector(v, shape)
        w = self.draw.choice(others)
        return [m.Assign((v, w), (w, v))]

    def _product_of_vectors(self, v: m.Name, shape: EntryShape) -> list[Stmt]:
        """Return an update of v by a product, such as v = tanh(m @ v), v = sin(v × w) or v = cos(v (v·w))."""
        if (2, 2) in self.shapes:
            a, p = self.vector((2, 2), 1)
            return [m.Assign((v,), (self.bounded((m.Binary("@", a, v), p))[0],))]
        w, p = self.vector(shape, 1)
        if shape == (3,) and self.draw.boolean():
            return [m.Assign((v,), (self.bounded((m.Method(v, "cross", (w,)), p))[0],))]
        if self.draw.boolean(0.4):
            return [m.Assign((v,), (m.Method(add(v, w), "normalized", (Number(0.5),)),))]
        return [m.Assign((v,), (self.bounded((mul(v, m.Method(v, "dot", (w,))), p))[0],))]

    # -- memory ---------------------------------------------------------------------------------------------

    def write_element(self) -> list[Stmt]:
        """Return a random write to an array element; in vector programs, in half of the cases to a vector element."""
        if self.vectorial and self.draw.boolean(0.5):
            return self.write_vector()
        return super().write_element()

    def write_vector(self) -> list[Stmt]:
        """Return statements that store to an own element of an array of vectors, or update an element atomically."""
        own = [a for a in map(self.arrays.__getitem__, sorted(self.access.own)) if a.element and self.own(a)]
        scattered = [a for a in map(self.arrays.__getitem__, sorted(self.access.scatter)) if a.element]
        scattered = [a for a in scattered if self.reachable(a)]
        if not own + scattered:
            return super().write_element()
        array = self.draw.choice(own + scattered * 4)
        if array in own:
            return self.store_own_vector(array)
        self.access.atomics[array.name] = "add"
        return self._updated(m.Element(array.name, self.place(array)), array)

    def store_own_vector(self, array: DrawnField, value: Expr | None = None) -> list[Stmt]:
        """Return a statement that assigns or updates this iteration's own vector element, or one of its entries."""
        element = m.Element(array.name, self.own(array) or ())
        e = value or self.bounded(self.vector(array.element))[0]
        kind = self.draw.choice(("store", "add", "linear", "entry", "add"))
        if kind == "store":
            return [m.Assign((element,), (e,))]
        if kind == "linear":
            return [m.Assign((element,), (add(mul(Number(0.5), element), e),))]
        if kind == "entry":
            entry = self.entry(element, array.element)
            return [m.Assign((entry,), (self.bounded(self.real())[0],))]
        return self._updated(element, array)

    def _updated(self, element: m.Element, array: DrawnField) -> list[Stmt]:
        """Return an atomic update such as `x[i] += v`, `x[i].x -= e` or `atomic_add(x[i], v)`."""
        kind = self.draw.choice(("whole", "whole", "entry", "call"))
        if kind == "entry":
            return [m.Augment(self.entry(element, array.element), self.draw.choice("+-"), self.bounded(self.real())[0])]
        value = self.bounded(self.vector(array.element))[0]
        if kind == "call":
            return [m.Evaluate(m.AtomicCall(self.draw.choice(("add", "sub")), element, value))]
        return [m.Augment(element, self.draw.choice("+-"), value)]
