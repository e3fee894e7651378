"""This pass makes tasks independent: values of an earlier task reach later tasks in temporaries.

    serial { %0 = load n[] }                      serial { %0 = load n[]; store $v0[], %0 }
    bounds {} parallel %i in 0 .. %0 { .. }   →   bounds { %7 = load $v0[] } parallel %i in 0 .. %7 { .. }

Constants, arguments, shapes and values computed only from these are recomputed instead. A local of one task that later
tasks use gets a new temporary for every task that writes it, so that only one task writes a temporary. In a parallel
task a local of an earlier task may only be reduced (`v = v + e`, min, max); the reduction becomes an atomic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..errors import Diagnostic, Unsupported
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Task, Temp
from ..ir.reductions import reduce_block
from ..ir.roles import LOCAL_DECLARATIONS, SCALAR_USES, VALUES
from ..ir.statement import Block, Stmt, Value
from ..ir.types import Scalar
from ..ir.walk import next_id, operands, rename_block, rename_locals, results, used_values, walk, walk_kernel, walk_task

PORTABLE = VALUES


def split_tasks(kernel: Kernel) -> Kernel:
    """Return a kernel of stage `source` lowered to stage `tasks`.

    Raises:
        Unsupported: a parallel loop overwrites a kernel-level local.
    """
    if len(kernel.tasks) < 2:
        return kernel
    return _Splitter(kernel).run()


class _Splitter:
    """This class rewrites the tasks of one kernel so that each reads values of earlier tasks from temporaries.

    Attributes:
        home: for each value defined at the top level of a task, the number of the task and the defining statement.
        local_home: for each local declared at the top level of a task, the number of the task and the type.
        temps: temporaries of the kernel, new ones included.
        taken: names of locals that are in use.
        value_temp: temporary that carries each value.
        latest: temporary that holds the current content of each local between tasks.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.next_id = next_id(kernel)
        self.home: dict[Value, tuple[int, Stmt]] = {}
        self.local_home: dict[str, tuple[int, Scalar]] = {}
        for t, task in enumerate(kernel.tasks):
            for stmt in task.body:
                for value in results(stmt):
                    self.home[value] = (t, stmt)
                if isinstance(stmt, n.Local):
                    self.local_home[stmt.var] = (t, stmt.dtype)
        self.temps: list[Temp] = list(kernel.temps)
        self.taken = {s.var for s in walk_kernel(kernel) if isinstance(s, LOCAL_DECLARATIONS)}
        self.value_temp: dict[Value, str] = {}
        self.latest: dict[str, str] = {}

    def run(self) -> Kernel:
        """Return the kernel with independent tasks, or the same object if no task uses values of another."""
        crossing = {t: self._crossing(t) for t in range(len(self.kernel.tasks))}
        if not any(values or names for values, names in crossing.values()):
            return self.kernel
        wanted = self._wanted(crossing)
        tasks: list[Task] = []
        for t in range(len(self.kernel.tasks)):
            tasks += self._task(t, crossing[t], wanted)
        return replace(self.kernel, tasks=tuple(tasks), temps=tuple(self.temps))

    # -- what crosses -----------------------------------------------------------------------------------------

    def _crossing(self, t: int) -> tuple[set[Value], set[str]]:
        """Return the values and locals of earlier tasks that task `t` uses."""
        task = self.kernel.tasks[t]
        if t == 0:
            return set(), set()
        used = used_values(walk_task(task)).union(task.begin, task.end)
        values = {v for v in used if v in self.home and self.home[v][0] < t}
        names = {s.var for s in walk_task(task) if isinstance(s, SCALAR_USES)}
        return values, {v for v in names if v in self.local_home and self.local_home[v][0] < t}

    def _wanted(self, crossing: dict[int, tuple[set[Value], set[str]]]) -> set[Value]:
        """Return the values that temporaries must hand to later tasks, to be used there or to compute values again."""
        found: set[Value] = set()
        pending = [v for values, _ in crossing.values() for v in values]
        while pending:
            value = pending.pop()
            stmt = self.home[value][1]
            if isinstance(stmt, PORTABLE):
                pending += operands(stmt)
            else:
                found.add(value)
        return found

    def _used_later(self, var: str, t: int) -> bool:
        later = (s for task in self.kernel.tasks[t + 1 :] for s in walk_task(task))
        return any(isinstance(s, SCALAR_USES) and s.var == var for s in later)

    def _temp(self, name: str, dtype: Scalar) -> str:
        """Add a temporary with a name that is not in use, and return the name."""
        taken = {t.name for t in self.temps}
        # No name of a user begins with a `$`.
        unique, k = f"${name}", 0
        while unique in taken:
            k += 1
            unique = f"${name}.{k}"
        self.temps.append(Temp(unique, dtype))
        return unique

    # -- one task ---------------------------------------------------------------------------------------------

    def _task(self, t: int, crossing: tuple[set[Value], set[str]], wanted: set[Value]) -> Iterator[Task]:
        """Yield task t without values of other tasks, after a serial task if it reduces into earlier tasks' locals."""
        task = self.kernel.tasks[t]
        values, names = crossing
        if task.is_parallel:
            yield from self._reductions(task, names)
            task = self._atomics(task, names)
            bounds = self._prologue(values, names, task.bounds, (*task.begin, *task.end))
            body = self._prologue(values, names, task.body, ())
            yield replace(
                task,
                bounds=bounds[0],
                begin=self._ends(task.begin, bounds[1]),
                end=self._ends(task.end, bounds[1]),
                body=body[0],
            )
            return
        serial, _, renamed = self._prologue(values, names, task.body, ())
        yield replace(task, body=self._epilogue(t, serial, renamed, wanted))

    @staticmethod
    def _ends(ends: tuple[Value, ...], mapping: dict[Value, Value]) -> tuple[Value, ...]:
        return tuple(mapping.get(v, v) for v in ends)

    def _prologue(
        self, values: set[Value], names: set[str], block: Block, extra: tuple[Value, ...]
    ) -> tuple[Block, dict[Value, Value], dict[str, str]]:
        """Return a block at whose head the values and locals of earlier tasks are loaded or computed again.

        Args:
            values: values of earlier tasks that the task uses.
            names: locals of earlier tasks that the task uses.
            block: bounds or body of the task.
            extra: values that are used although no statement of the block reads them (the ends of the box).

        Returns:
            The block, the new names of the values, and the new names of the locals.
        """
        used = used_values(walk(block)).union(extra)
        touched = {s.var for s in walk(block) if isinstance(s, SCALAR_USES)}
        b = Builder(self.next_id)
        mapping: dict[Value, Value] = {}
        renamed: dict[str, str] = {}
        for value in sorted(values & used, key=lambda v: v.id):
            self._bring(b, value, mapping)
        for name in sorted(names & touched):
            dtype = self.local_home[name][1]
            renamed[name] = self._local(name)
            b.local(renamed[name], dtype, b.load(self.latest[name], (), dtype))
        self.next_id = b.next_id
        if mapping:
            block = rename_block(block, mapping)
        if renamed:
            block = rename_locals(block, renamed)
        return b.take() + block, mapping, renamed

    def _local(self, name: str) -> str:
        """Return an unused name for a task's own copy of a local that several tasks use."""
        k = 1
        while f"{name}.{k}" in self.taken:
            k += 1
        self.taken.add(f"{name}.{k}")
        return f"{name}.{k}"

    def _bring(self, b: Builder, value: Value, mapping: dict[Value, Value]) -> Value:
        """Append statements to `b` that load or recompute a value of an earlier task, and return the copy."""
        if value in mapping:
            return mapping[value]
        stmt = self.home[value][1]
        b.loc = stmt.loc
        if isinstance(stmt, PORTABLE):
            inputs = {v: self._bring(b, v, mapping) for v in operands(stmt)}
            made = b.fresh(value.type)
            b.emit(replace(rename_block((stmt,), inputs)[0], result=made))  # type: ignore[call-arg]
        else:
            made = b.load(self.value_temp[value], (), value.type)
        mapping[value] = made
        return made

    def _epilogue(self, t: int, body: Block, renamed: dict[str, str], wanted: set[Value]) -> Block:
        """Return a task's body with stores of the values and locals that later tasks use to temporaries.

        A value is stored after its definition, and a local at the end of the body.
        """
        out: list[Stmt] = []
        for stmt in body:
            out.append(stmt)
            for value in results(stmt):
                if value in wanted and self.home[value][0] == t:
                    self.value_temp[value] = self._temp("v", value.type)
                    out.append(n.Store(self.value_temp[value], (), value, loc=stmt.loc))
        b = Builder(self.next_id)
        for name, (home, dtype) in self.local_home.items():
            # In its own task the local keeps its name; in a later task it is the copy.
            own = name if home == t else renamed.get(name)
            written = any(isinstance(s, n.Set) and s.var == own for s in walk(body))
            # A task that only reads a local leaves the latest temporary as it is.
            if own and (home == t or written) and self._used_later(name, t):
                current = b.get(own, dtype)
                self.latest[name] = self._temp(name, dtype)
                b.store(self.latest[name], (), current)
        self.next_id = b.next_id
        return tuple(out) + b.take()

    # -- reductions -------------------------------------------------------------------------------------------

    def _reductions(self, task: Task, names: set[str]) -> Iterator[Task]:
        """Yield a serial task that copies to temporaries the locals that `task` reduces into, if there are any."""
        reduced = sorted({s.var for s in walk(task.body) if isinstance(s, n.Set)} & names) if names else []
        if not reduced:
            return
        b = Builder(self.next_id)
        b.loc = task.loc
        for name in reduced:
            dtype = self.local_home[name][1]
            old = b.load(self.latest[name], (), dtype)
            self.latest[name] = self._temp(name, dtype)
            b.store(self.latest[name], (), old)
        self.next_id = b.next_id
        yield Task(b.take(), loc=task.loc)

    def _atomics(self, task: Task, names: set[str]) -> Task:
        """Return the task with reductions into locals of earlier tasks turned into atomics."""
        reduced = {s.var for s in walk(task.body) if isinstance(s, n.Set)} & names if names else set()
        if not reduced:
            return task
        body = reduce_block(task.body, reduced, self._atomic)
        left = [s for s in walk(body) if isinstance(s, SCALAR_USES) and s.var in reduced]
        if left:
            raise Unsupported(
                [
                    Diagnostic(
                        f"a parallel loop may only reduce into '{s.var}', declared outside it (v += e, min, max)",
                        "declare the variable inside the loop, or reduce into a 0-d field",
                        self.kernel.span(s.loc),
                    )
                    for s in left
                ]
            )
        return replace(task, body=body)

    def _atomic(self, stmt: n.Set, kind: str, negated: bool, term: Value) -> Block:
        """Return the atomic update of a temporary that replaces one reduction into a local."""
        b = Builder(self.next_id)
        b.loc = stmt.loc
        b.atomic(kind, self.latest[stmt.var], (), b.op("neg", term) if negated else term)
        self.next_id = b.next_id
        return b.take()
