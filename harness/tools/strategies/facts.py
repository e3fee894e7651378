"""This module collects facts about a program in one pass, which all predicates on programs use."""

from __future__ import annotations

from collections.abc import Iterator

from ....compiler.ir.cached import cached_property
from ..model import nodes as m
from ..model.walk import nested_statements, walk, walk_program

LOOPS = (m.For, m.While)
Placed = tuple[m.Stmt, tuple[m.Stmt, ...]]


class ProgramFacts:
    """Represent a program by its nodes, statements and initial contents, for predicates on its properties."""

    def __init__(self, program: m.Program) -> None:
        self.program = program
        self.nodes = list(walk_program(program))
        self.kernel = list(nested_statements(program.kernel.body))
        self.functions = [list(nested_statements(f.body)) for f in program.kernel.functions]
        self.contents = dict(program.inputs.arrays)

    @property
    def placed(self) -> Iterator[Placed]:
        """Yield every statement of the kernel and its functions with the statements that enclose it."""
        yield from self.kernel
        for function in self.functions:
            yield from function

    @cached_property
    def tasks(self) -> list[m.For]:
        """Return the parallel loops, including those in functions that return nothing and so may contain tasks."""
        found = [s for s, outer in self.kernel if not outer and isinstance(s, m.For) and _is_task(s)]
        for function, body in zip(self.program.kernel.functions, self.functions):
            if not any(isinstance(n, m.Return) for n in walk(function.body)):
                found += [s for s, outer in body if not outer and isinstance(s, m.For) and _is_task(s)]
        return found

    @cached_property
    def serial(self) -> list[Placed]:
        """Return the serial loops, each with the serial loops around it."""
        parallel = {id(t) for t in self.tasks}

        def is_serial(s: m.Stmt) -> bool:
            return isinstance(s, LOOPS) and id(s) not in parallel

        return [(s, tuple(filter(is_serial, outer))) for s, outer in self.placed if is_serial(s)]

    def has(self, *classes: type) -> bool:
        """Return True if a node of one of these classes occurs."""
        return any(isinstance(n, classes) for n in self.nodes)

    def repeated(self, name: str) -> bool:
        """Return True if two elements of a field have the same initial value."""
        content = self.contents.get(name, ())
        return len(set(content)) < len(content)

    @cached_property
    def depth(self) -> int:
        """Return the depth of the deepest nest of serial loops."""
        return max((len(outer) + 1 for _, outer in self.serial), default=0)

    @cached_property
    def atomics(self) -> list[m.Element]:
        """Return the elements that atomics update."""
        calls = [m.root(n.target) for n in self.nodes if isinstance(n, m.AtomicCall)]
        updates = [m.root(n.target) for n in self.nodes if isinstance(n, m.Augment)]
        return [place for place in calls + updates if isinstance(place, m.Element)]


def _is_task(s: m.For) -> bool:
    return not s.serialize and not isinstance(s.domain, m.Unrolled)
