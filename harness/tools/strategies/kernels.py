"""Draw whole kernels: functions, tasks over lanes, serial code and reductions, with their fields and inputs."""

from __future__ import annotations

import math

from ....compiler.ir.types import Scalar, i32
from ..model import nodes as m
from ..model.nodes import Number, Stmt
from ..model.walk import fields_used, walk
from .draw import Chooser
from .functions import call, mul
from .patterns import OWN_ARRAYS, PATTERNS, Patterns
from .state import TRIPS, AccessRights, DrawnField, DrawnSignature, EntryShape, IntInterval, ScopedNames, VectorArgument
from .values import Number as Plain
from .values import any_number, gentle_number, ordinary_number

NESTS = ((), (1,), (2,), (1, 1), (1,), (2,), (3,), (2, 1), (3,))
"""Depths of the loop nests that stand one after another in a task of a large program, simplest first."""
SMALL_NESTS = ((), (1,), (2,), *((1,),) * 8, *((2,),) * 3, (1, 1), (1,), (2,), (1,), (1,))
"""Depths of the loop nests in a task of a small program."""
SEEDS = (1.0, 0.5, -0.75, 1.25, -1.0, 0.25)
TRIP_COUNTS = (2, 3, 1, 4, 2, 0, 3, 4, 1, 3)
"""Contents of arrays that bound loops.

They cover all of TRIPS, with 0 less often, because an empty loop hides the effects of its body.
"""
INPUTS_OF_FUNCTIONS = frozenset({"w", "q", "v", "m", "W", "M"})


class Kernels(Patterns):
    """Draw random programs with functions, tasks, serial code, fields and inputs."""

    def __init__(self, draw: Chooser, profile: str) -> None:
        super().__init__(draw, profile)
        self.result = draw.boolean(0.08)

    def program(self) -> m.Program:
        """Return a complete random program: kernel, functions, fields and inputs."""
        few = (0, 1) if self.vectorial else (0, 0, 0, 0, 0, 1)
        for _ in range(self.draw.choice((0, 1, 1, 2) if self.rich else few)):
            self._new_function()
        body: list[Stmt] = []
        for _ in range(self.draw.choice((1, 2, 2, 3) if self.rich else (1, 1, 1, 1, 1, 2))):
            body += self._section()
        if self.result:
            self._open_serial()
            body.append(self._return_of_kernel(1))
        kernel = m.Kernel("k", tuple(body), self._called(body), self.main if self.result else None)
        return self._with_inputs(kernel)

    def _return_of_kernel(self, depth: int) -> m.Return:
        return m.Return((self.real(depth)[0],) if self.result else ())

    def _called(self, body: list[Stmt]) -> tuple[m.Function, ...]:
        """Return the functions that the body calls, directly or through other functions."""
        wanted = {e.function for e in walk(tuple(body)) if isinstance(e, m.Invoke)}
        kept: list[m.Function] = []
        for function in reversed(self.bodies):
            if function.name in wanted:
                kept.insert(0, function)
                wanted |= {e.function for e in walk(function.body) if isinstance(e, m.Invoke)}
        return tuple(kept)

    # -- functions ------------------------------------------------------------------------------------------

    def _new_function(self) -> None:
        """Add a function with early returns, perhaps in loops, that reads inputs and calls earlier functions."""
        results = self.draw.choice((1, 1, 1, 2))
        kinds = self.draw.choice((("real",), ("real", "int"), ("real", "real")))
        shape: EntryShape = ()
        if self.vectorial and self.draw.boolean(0.75):
            kinds = self.draw.choice((("vector",), ("vector", "real"), ("vector", "vector")))
            results, shape = 1, (self.size,) if self.draw.boolean(0.6) else ()
        signature = DrawnSignature(self.fresh("f"), kinds, self.draw.boolean(), results, shape)
        names = [self.fresh("a") for _ in kinds]
        kept = self.names, self.access
        reals = {name: self.main for name, kind in zip(names, kinds) if kind == "real"}
        ints = {name: IntInterval(i32, 0, 4) for name, kind in zip(names, kinds) if kind == "int"}
        vector: tuple[EntryShape, Scalar] = (self.size,), self.main
        vectors = {name: vector for name, kind in zip(names, kinds) if kind == "vector"}
        self.names = ScopedNames(
            reals, ints, fixed=frozenset(names if self.draw.boolean(0.6) else ints), vectors=vectors
        )
        self.access, self.in_function = AccessRights(INPUTS_OF_FUNCTIONS & set(self.arrays)), True
        body = self._function_body(signature)
        self.names, self.access = kept
        self.in_function = False
        params = tuple(self._param(signature, name, kind) for name, kind in zip(names, kinds))
        types = {"real": (self.main, ()), "int": (i32, ()), "vector": vector[::-1]}
        self.kinds |= {name: m.Param(name, *types[kind]) for name, kind in zip(names, kinds)}
        result = self.main if results == 1 and self.draw.boolean(0.3) else None
        self.bodies.append(m.Function(signature.name, params, tuple(body), result, shape if result else ()))
        self.functions.append(signature)

    def _param(self, signature: DrawnSignature, name: str, kind: str) -> m.Param:
        if not signature.annotated:
            return m.Param(name)
        return m.Param(name, i32 if kind == "int" else self.main, (self.size,) if kind == "vector" else ())

    def _function_body(self, results: DrawnSignature) -> list[Stmt]:
        body: list[Stmt] = []
        kind = self.draw.choice(("plain", "early", "early", "loop", "nested"))
        if self.draw.boolean():
            body += self.recurrence()
        if kind in ("early", "nested"):
            body.append(m.If(self.condition(), (*self._maybe_simple(), self._return(results))))
        if kind in ("loop", "nested"):
            body += self.new_real()
            domain, indices = self._range()
            with self.block("serial", indices=indices):
                inner = [*self.recurrence(), m.If(self.condition(), (self._return(results),)), *self._maybe_simple()]
            body.append(m.For(tuple(indices), domain, tuple(inner)))
        return [*body, self._return(results)]

    def _maybe_simple(self) -> list[Stmt]:
        with self.block():
            return self.simple() if self.draw.boolean(0.3) else []

    def _return(self, results: DrawnSignature) -> m.Return:
        if results.shape:
            return m.Return((self.bounded(self.vector(results.shape, 1))[0],))
        return m.Return(tuple(self.bounded(self.real(1))[0] for _ in range(results.results)))

    # -- kernel level ---------------------------------------------------------------------------------------

    def _section(self) -> list[Stmt]:
        """Return random statements for one part of a kernel: a task with serial code around it."""
        self._open_serial()
        if self.draw.boolean(PATTERNS):
            return self.pattern()
        if self.draw.boolean(OWN_ARRAYS):
            return self.own_arrays()
        body: list[Stmt] = []
        if self.draw.boolean(0.3 if self.rich else 0.12):
            body += self._serial_code()
        if self.draw.boolean(0.05 if self.rich else 0.02):
            body.append(m.If(self.condition(0), (self._return_of_kernel(0),)))
        total = self._reduction_start(body) if self.draw.boolean(0.25 if self.rich else 0.15) else None
        if total is None and self.draw.boolean(0.06):
            return [*body, *self._procedure()]
        body.append(self._task(total))
        if total is not None:
            self.names.reals[total[0].name] = total[1]
            body += self._reduction_end(total[0])
        return body

    def _open_serial(self) -> None:
        """Let serial code read inputs, and some of the outputs that no later task will write."""
        for name in sorted(self.written - self.closed):
            if self.draw.boolean(0.4):
                self.closed.add(name)
        inputs = {a.name for a in self.arrays.values() if not a.output}
        self.access = AccessRights(frozenset(inputs | self.closed))
        self.lane, self.group = (), ""

    def _serial_code(self) -> list[Stmt]:
        kind = self.draw.choice(("local", "local", "branch", "loop", "several"))
        if kind == "local":
            return self.new_real() if self.draw.boolean(0.6) else self.new_integer()
        body = self.new_real()
        if kind == "several":
            return body + self.simple() + self.simple()
        if kind == "branch":
            return body + self.branch()
        loop = self.loop(self.draw.choice((1, 2)))
        return body + [_serialized(s) for s in loop]

    def _reduction_start(self, body: list[Stmt]) -> tuple[m.Name, Scalar, str]:
        kind = self.draw.choice(("+", "+", "-", "min", "max"))
        name = m.Name(self.fresh("total"))
        first = {"min": (4.0, 4.0, 0.5), "max": (-4.0, -4.0, -1.0)}.get(kind, (0.0, 0.5, -1.0))
        body.append(m.Assign((name,), (Number(self.draw.choice(first)),)))
        return name, self.main, kind

    def _reduction_end(self, total: m.Name) -> list[Stmt]:
        """Return a statement that writes a reduction's result to the output `s`, or none, to leave it unused."""
        kind = self.draw.choice(("add", "store", "keep"))
        if "s" in self.closed or kind == "keep":
            return []
        self.written.add("s")
        target = m.Element("s")
        return [m.Augment(target, "+", total) if kind == "add" else m.Assign((target,), (mul(total, total),))]

    def _procedure(self) -> list[Stmt]:
        """Return a call of a new function that has no result and contains a parallel loop.

        The call stands at the top of the kernel, where the loop of the function is parallel.
        """
        kept = self.names
        self.names, self.in_function = ScopedNames(), True
        name = self.fresh("f")
        self.bodies.append(m.Function(name, (), (self._task(None),)))
        self.names, self.in_function = kept, False
        return [m.Evaluate(m.Invoke(name))]

    # -- tasks ----------------------------------------------------------------------------------------------

    def _task(self, total: tuple[m.Name, Scalar, str] | None) -> Stmt:
        writable = [a for a in self.arrays.values() if a.output and a.name not in self.closed]
        chosen = [a for a in writable if self.draw.boolean(0.6)] or writable[:1]
        own = frozenset(a.name for a in chosen if a.axes[:1] == ("lane",))
        scatter = frozenset(a.name for a in chosen if a.axes[:1] != ("lane",))
        readable = self.access.readable
        domain, indices = self._domain()
        self.lane, self.group = tuple(indices), ""
        if isinstance(domain, (m.Over, m.Box)) and self.draw.boolean(0.15):
            self.group = self.fresh("I")
        hidden = {name: dtype for name, dtype in self.names.reals.items() if total is None or name != total[0].name}
        with self.block("parallel", indices=indices):
            self.names.reals = hidden
            self.fix(*hidden, *self.names.ints, *self.names.flags, *self.names.vectors)
            self.access = AccessRights(readable, own, scatter)
            body = self._task_body(total)
        self._close(body)
        group, self.lane, self.group = self.group, (), ""
        if group and isinstance(domain, (m.Over, m.Box)):
            return self.grouped(domain, tuple(indices), group, body)
        return m.For(tuple(indices), domain, tuple(body))

    def _close(self, body: list[Stmt]) -> None:
        """Record the outputs that `body` writes; forbid later writes of "e", which only atomic min and max update."""
        found = fields_used(tuple(body)) & {a.name for a in self.arrays.values() if a.output}
        self.written |= found
        self.closed |= found & {"e"}

    def _domain(self) -> tuple[m.Domain, dict[str, IntInterval]]:
        """Return a random domain of a parallel loop over the lanes, and its index names with their intervals.

        The domain is a field, a range up, down or by twos, or has columns as a second axis.
        """
        kinds = ("over", "range", "over", "extent", "down", "twos", "from", "box", "matrix", "over", "box")
        kind = self.draw.choice(kinds)
        lane = self.fresh("i")
        index = {lane: IntInterval(i32, 0, max(self.n - 1, 0))}
        n = Number(self.n)
        if kind in ("box", "matrix"):
            columns = {self.fresh("i"): IntInterval(i32, 0, 2)}
            box = m.Box(((None, n), (Number(0), Number(3))))
            domain = m.Over("g") if kind == "matrix" else self.ordered(box)
            return domain, index | columns
        if kind == "extent":
            return m.Range(None, m.Extent("x", 0)), index
        if kind == "down":
            return m.Range(Number(self.n - 1), Number(-1), -1), index
        if kind == "twos":
            return m.Range(None, m.Extent("x", 0), 2), index
        if kind == "from":
            return m.Range(self.trips(1), n), index
        return m.Over("x") if kind == "over" else m.Range(None, n), index

    def _task_body(self, total: tuple[m.Name, Scalar, str] | None) -> list[Stmt]:
        start = m.Element("x", (m.Name(self.lane[0]),))
        body: list[Stmt] = [m.Assign((self.declare_real(self.main),), (start,))]
        if self.vectorial:
            body += self.new_vector((self.size,))
            if (2, 2) in self.shapes and self.draw.boolean():
                body += self.new_vector((2, 2))
            if self.functions and self.draw.boolean():
                body += self.from_function()
        for depth in self.draw.choice(NESTS if self.rich else SMALL_NESTS):
            # Programs with vectors get fewer statements, because a statement on vectors stands for several on scalars.
            few = (0, 0, 0, 0, 1) if self.vectorial else (0, 0, 1)
            for _ in range(self.draw.choice((0, 1, 1, 2) if self.rich else few)):
                body += self.simple() if self.draw.boolean(0.8) else self.branch()
            if self.draw.boolean(0.06):
                body += self.exit()
            body += self._gated(depth) if self.draw.boolean(0.14) else self.loop(depth)
        if self.draw.boolean(0.3 if self.rich else 0.15):
            body += self.write_element()
        if total is not None:
            body.append(self._reduce(*total))
        return body + self._output()

    def _gated(self, depth: int) -> list[Stmt]:
        """Return a branch with a loop in it, so that only some lanes run the loop."""
        condition = self.condition()
        with self.block():
            loop = self.loop(depth)
        return [m.If(condition, tuple(loop))]

    def _reduce(self, total: m.Name, dtype: Scalar, kind: str) -> Stmt:
        """Return a statement that combines a random value with a reduction by `kind`: '+', '-', 'min' or 'max'."""
        value, found = self.bounded(self.real())
        term = value if found == dtype else m.Cast(value, dtype)
        # The values lie on one side of zero, so that a wrong zero would win.
        if kind in ("min", "max") and self.draw.boolean(0.75):
            term = call("abs", term) if kind == "min" else m.Unary("-", call("abs", term))
        if kind in "+-":
            return m.Augment(total, kind, term)
        return m.Assign((total,), (m.Call(kind, (total, term)),))

    def _output(self) -> list[Stmt]:
        """Return statements that write the last value of a recurrence to an output array."""
        last = m.Name(list(self.names.reals)[0] if self.draw.boolean(0.6) else list(self.names.reals)[-1])
        value = last if self.draw.boolean(0.6) else self.bounded((last, self.main))[0]
        if self.vectorial and self.draw.boolean(0.7):
            return self._vector_output()
        reals = {a.name for a in self.arrays.values() if a.dtype.is_real and not a.element}
        own = [a for a in sorted(self.access.own & reals) if self.own(self.arrays[a])]
        scattered = [a for a in sorted(self.access.scatter & reals) if a != "e"]
        if not own and not scattered:
            return self.write_element()
        array = self.arrays[self.draw.choice(own + scattered)]
        if array.name in scattered:
            self.access.atomics[array.name] = "add"
            return [m.Augment(m.Element(array.name, self.place(array)), "+", value)]
        element = m.Element(array.name, self.own(array) or ())
        return [m.Augment(element, "+", value) if self.draw.boolean(0.3) else m.Assign((element,), (value,))]

    def _vector_output(self) -> list[Stmt]:
        """Return statements that write a local vector to memory, as a vector or combined to a real."""
        name = self.draw.choice(self.vectors_of((self.size,)))
        own = [a for a in map(self.arrays.__getitem__, sorted(self.access.own)) if a.element == (self.size,)]
        own = [a for a in own if self.own(a)]
        if own and self.draw.boolean(0.6):
            element = m.Element((array := self.draw.choice(own)).name, self.own(array) or ())
            return [m.Assign((element,), (m.Name(name),))]
        other = self.bounded(self.vector((self.size,), 0))[0]
        last = self.declare_real(self.main)
        made: list[Stmt] = [m.Assign((last,), (m.Cast(m.Method(m.Name(name), "dot", (other,)), self.main),))]
        reals = {a.name for a in self.arrays.values() if a.dtype.is_real and not a.element}
        mine = [a for a in sorted(self.access.own & reals) if self.own(self.arrays[a])]
        if mine:
            element = m.Element((chosen := self.arrays[self.draw.choice(mine)]).name, self.own(chosen) or ())
            return [*made, m.Augment(element, "+", last)]
        return made + self.write_element()

    # -- inputs ---------------------------------------------------------------------------------------------

    def _with_inputs(self, kernel: m.Kernel) -> m.Program:
        used = fields_used(kernel.body) | {n for f in kernel.functions for n in fields_used(f.body)}
        arrays = [a for a in self.arrays.values() if a.name in used]
        given = used - {n for f in kernel.functions for n in fields_used(f.body)}
        fields = tuple(self._field(a, given) for a in arrays)
        contents = tuple((f.name, self._content(f, a)) for f, a in zip(fields, arrays))
        seeds = tuple((f.name, self._seeds(f)) for f in fields if f.grad)
        arguments = tuple(self._argument(n, w) for n, w in self.arguments.items())
        scalars = tuple((name, self._scalar(self.arguments[p.name])) for p in arguments for name in p.entries)
        return m.Program(kernel, fields, arguments, m.Inputs(contents, scalars, seeds), self.main, self.profile)

    def _argument(self, name: str, what: IntInterval | Scalar | VectorArgument) -> m.Param:
        if isinstance(what, VectorArgument):
            return m.Param(name, what.dtype, (what.size,))
        return m.Param(name, what if isinstance(what, Scalar) else what.dtype)

    def _field(self, array: DrawnField, given: set[str]) -> m.Field:
        """Return the program's field for an array that the generator uses.

        Args:
            array: An array that the program uses.
            given: Names of the arrays that may be arguments.
        """
        argument = array.name in given and self.draw.boolean(0.1)
        grad = array.dtype.is_real and (array.output or array.name == "x" or not self.draw.boolean(0.15))
        shape = tuple(map(self.extent, array.axes))
        return m.Field(array.name, array.dtype, shape, grad, array.element, argument)

    def _content(self, field: m.Field, array: DrawnField) -> m.Content:
        """Return random initial contents of a field; in the smooth profile all reals of the field differ."""
        made: list[Plain] = []
        if array.permutes:
            # A permutation of 0 .. n - 1 is drawn without replacement.
            left = list(range(math.prod(field.storage)))
            return tuple(left.pop(self.draw.integer(0, len(left) - 1)) for _ in range(len(left)))
        for _ in range(math.prod(field.storage)):
            value = self._number(array)
            while array.dtype.is_real and not self.wild and value in made:
                value += 1 / 64
            made.append(value)
        return tuple(made)

    def _number(self, array: DrawnField) -> Plain:
        if array.dtype.is_bool:
            return self.draw.boolean()
        if array.content == TRIPS:
            return self.draw.choice(TRIP_COUNTS)
        if array.content is not None:
            return self.draw.integer(*array.content)
        # Loops count up to the contents of `a`, so these are small.
        if array.name == "a" and self.draw.boolean(0.85):
            return self.draw.choice((0, 1, 0, 2))
        number = any_number(self.draw, array.dtype, 0.3) if self.wild else gentle_number(self.draw, array.dtype)
        return self.side * abs(number) if array.name == "e" and self.side else number

    def _seeds(self, field: m.Field) -> m.Content:
        return tuple(self.draw.choice(SEEDS) for _ in range(math.prod(field.storage)))

    def _scalar(self, what: IntInterval | Scalar | VectorArgument) -> Plain:
        what = what.dtype if isinstance(what, VectorArgument) else what
        if isinstance(what, IntInterval):
            return self.draw.choice(TRIP_COUNTS)
        return any_number(self.draw, what, 0.3) if self.wild else ordinary_number(self.draw, what)


def _serialized(stmt: Stmt) -> Stmt:
    """Return a top-level loop of the kernel marked as serial; any other statement is returned unchanged."""
    if isinstance(stmt, m.For) and not isinstance(stmt.domain, m.Unrolled):
        return m.For(stmt.indices, stmt.domain, stmt.body, serialize=True)
    return stmt
