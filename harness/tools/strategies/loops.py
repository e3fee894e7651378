"""Draw random nests of serial loops of all kinds; the depth is chosen first, so that deep nests are common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....compiler.ir.types import i32
from ..model import nodes as m
from ..model.nodes import Expr, Number, Stmt
from .functions import add, call, mul, strip_cast
from .state import IntInterval
from .vector_statements import VectorStatements
from .vectors import part

Serial = tuple[m.Domain, dict[str, IntInterval]]
"""A domain and its indices with their intervals."""


class Loops(VectorStatements):
    """Draw random serial loops: nests of `for` and `while` loops of all kinds."""

    def loop(self, depth: int) -> list[Stmt]:
        """Return random nested `for` and `while` loops, `depth` levels deep."""
        kinds = (*("for",) * 10, *("while",) * 4, "endless", "endless", "box", "unrolled", "unrolled")
        kind = self.draw.choice(kinds)
        if kind in ("while", "endless"):
            return self._while(depth, endless=kind == "endless")
        if kind == "unrolled" and depth == 1:
            return self._unrolled()
        if kind == "box" and depth == 1:
            return self._for(depth, self._box())
        return self._for(depth, self._range())

    def _for(self, depth: int, serial: Serial) -> list[Stmt]:
        domain, indices = serial
        with self.block("serial", indices=indices):
            body = self.loop_body(depth)
        if isinstance(domain, m.Box) and self.draw.boolean(0.3):
            return [self.grouped(domain, tuple(indices), self.fresh("J"), body)]
        return [m.For(tuple(indices), domain, tuple(body))]

    def ordered(self, box: m.Box) -> m.Box:
        """Return a box of two axes whose loops are perhaps nested in another order than the text has them."""
        return replace(box, order=self.draw.choice(((0, 1), (1, 0)))) if self.draw.boolean(0.3) else box

    def grouped(self, domain: m.Over | m.Box, indices: tuple[str, ...], group: str, body: list[Stmt]) -> m.For:
        """Return a loop over an index vector, whose first statement unpacks the vector into named indices.

        Args:
            domain: Domain of the loop.
            indices: Names of the entries.
            group: Name of the vector.
            body: Statements that use the names of the entries.
        """
        wrapped: m.Domain = m.Grouped(domain)
        if isinstance(domain, m.Over) and len(indices) > 1 and self.draw.boolean():
            wrapped = domain
        entries = tuple(part(m.Name(group), k) for k in range(len(indices)))
        return m.For((group,), wrapped, (m.Assign(tuple(map(m.Name, indices)), entries), *body))

    def loop_body(self, depth: int) -> list[Stmt]:
        """Return the body of a loop: a recurrence, perhaps exits, branches and writes, and one or two inner loops."""
        body = self.recurrence()
        if self.draw.boolean(0.25 if self.rich else 0.2):
            body += self.exit()
        if depth > 1:
            if self.draw.boolean(0.4 if self.rich else 0.2):
                body += self.simple()
            body += self.loop(depth - 1)
            if self.draw.boolean(0.15 if self.rich else 0.05):
                body += self.loop(1)
        few = () if self.rich else ("nothing",) * 4
        kinds = ("nothing", *few, "simple", "branch", "simple", "exit", "write", "update", "started", "started")
        kind = self.draw.choice(kinds)
        more: dict[str, Callable[[], list[Stmt]]] = {
            "simple": self.simple,
            "branch": self.branch,
            "exit": self.exit,
            "write": self.write_element,
            "update": self.update_real,
            "nothing": list,
            "started": self.started,
        }
        return body + more[kind]()

    def started(self) -> list[Stmt]:
        """Return statements that set a new local to zero and then change it in a loop or a branch."""
        target = self.declare_real(self.main)
        self.fix(target.name)
        made: list[Stmt] = [m.Assign((target,), (Number(0.0),))]
        if self.draw.boolean(0.6):
            domain, indices = self._range()
            with self.block("serial", indices=indices):
                step = m.Augment(target, self.draw.choice("+-"), self.bounded(self.real(1))[0])
            made.append(m.For(tuple(indices), domain, (step,)))
        else:
            condition = self.condition()
            made.append(m.If(condition, (m.Assign((target,), (self.bounded(self.real(1))[0],)),)))
        found = self.assignable(self.names.reals)
        if not found:
            return made
        last = m.Name(self.draw.choice(found))
        return [*made, m.Assign((last,), (call("tanh", add(mul(last, target), last)),))]

    # -- domains --------------------------------------------------------------------------------------------

    def _range(self) -> Serial:
        """Return a random range for a serial loop, with the loop's index and the interval of its values.

        The range runs up, down, by twos or backward, or is empty.
        """
        kinds: list[Callable[[], tuple[m.Range, int]]] = [
            self._literal,
            self._counted_range,
            self._by_data,
            self._triangular,
            self._down,
            self._counted_range,
            self._between,
            self._by_twos,
            self._backward,
            self._by_data,
            self._triangular,
            self._literal,
            self._by_data,
            self._by_data,
            self._empty,
            self._triangular,
            self._down,
            self._by_data,
            self._empty,
            self._backward,
            self._triangular,
            self._by_data,
        ]
        with self.only_reading():
            domain, most = self.draw.choice(kinds)()
        return domain, {self.fresh("j"): IntInterval(i32, 0, max(most, 0))}

    def _literal(self) -> tuple[m.Range, int]:
        count = self.draw.integer(1, 4)
        return m.Range(None, Number(count)), count - 1

    def _counted_range(self) -> tuple[m.Range, int]:
        return m.Range(None, self.trips()), 3

    def _by_data(self) -> tuple[m.Range, int]:
        found = [a for a in self.readable(real=False) if a.content and a.content[1] <= 4]
        if not found:
            return self._counted_range()
        array = self.draw.choice(found)
        return m.Range(None, m.Element(array.name, self.place(array))), 3

    def _triangular(self) -> tuple[m.Range, int]:
        if not self.names.indices:
            return self._counted_range()
        name = self.draw.choice(self.names.indices)
        most = self.names.ints[name].high
        index = m.Name(name)
        kind = self.draw.choice(("below", "to", "from", "to"))
        if kind == "below":
            return m.Range(None, index), most - 1
        if kind == "to" and most < 5:
            return m.Range(None, add(index, Number(1))), most
        return m.Range(index, Number(min(most + 1, 5))), 4

    def _down(self) -> tuple[m.Range, int]:
        if self.draw.boolean():
            return m.Range(self.trips(3), Number(-1), -1), 3
        return m.Range(Number(4), self.trips(3), -1), 4

    def _between(self) -> tuple[m.Range, int]:
        return m.Range(self.trips(1 if self.draw.boolean(0.7) else 3), self.trips(4)), 3

    def _by_twos(self) -> tuple[m.Range, int]:
        if self.draw.boolean():
            return m.Range(Number(5), self.trips(2), -2), 5
        return m.Range(self.trips(2), Number(5), 2), 4

    def _backward(self) -> tuple[m.Range, int]:
        return m.Range(None, self.trips(), reverse=True), 3

    def _empty(self) -> tuple[m.Range, int]:
        return self.draw.choice((m.Range(None, Number(0)), m.Range(Number(3), Number(1)))), 0

    def _box(self) -> Serial:
        """Return a random loop domain of two axes or of all elements of the input array `w`, and its indices."""
        if "w" in self.access.readable and self.draw.boolean():
            return m.Over("w"), {self.fresh("j"): IntInterval(i32, 0, self.table - 1)}
        with self.only_reading():
            axes = ((None, strip_cast(self.trips(2))), (Number(1), Number(3)))
        indices = {self.fresh("j"): IntInterval(i32, 0, 1), self.fresh("j"): IntInterval(i32, 1, 2)}
        return self.ordered(m.Box(axes)), indices

    def _unrolled(self) -> list[Stmt]:
        domain = self.draw.choice((m.Unrolled(0, 2), m.Unrolled(0, 3), m.Unrolled(2, -1, -1)))
        name = self.fresh("j")
        with self.block("unrolled", indices={name: IntInterval(i32, 0, 2)}):
            body = self.loop_body(1)
        return [m.For((name,), domain, tuple(body))]

    # -- while ----------------------------------------------------------------------------------------------

    def _while(self, depth: int, endless: bool) -> list[Stmt]:
        """Return a random `while` loop with a counter, perhaps with more conditions; `endless` ones end by `break`.

        Args:
            depth: Depth of the nest that the loop begins.
            endless: True to leave the loop by `break` only.
        """
        counter = self.declare_int(IntInterval(i32, 0, 5), "n")
        self.fix(counter.name)
        with self.only_reading():
            limit = strip_cast(self.trips())
            test: Expr = m.Compare(("<",), (counter, limit))
            if self.draw.boolean(0.25):
                second = self.condition()
                test = m.Logic("and", (test, second) if self.draw.boolean(0.7) else (second, test))
        step: list[Stmt] = [m.Augment(counter, "+", Number(1))]
        if endless:
            step.append(m.If(m.Compare((">",), (counter, limit)), (m.Break(),)))
            test = m.Compare((">=",), (counter, Number(0)))
        with self.block("serial"):
            body = step + self.loop_body(depth)
        return [m.Assign((counter,), (Number(0),)), m.While(test, tuple(body))]
