"""This pass turns branches that nest too deep for a driver's compiler into a flat sequence of flagged branches.

    if a { R; if b { S }; T }    →    local p; local q; set p, a
                                      if p { R; set q, b }; if q { S }; if p { T }

Branches above the limit stay as they are. The statements between two branches form a *run*. A value that one run
defines and another reads goes through a local. A declaration of a run moves in front of all runs, where the variable is
equally empty. Loops stay in their runs, and their bodies are laid out in the same way, so only loops add to the depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..errors import Unsupported
from ..ir import nodes as n
from ..ir.depth import depth_of
from ..ir.fresh import FreshNames
from ..ir.kernels import Kernel, Task
from ..ir.roles import LOCAL_DECLARATIONS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import u1
from ..ir.walk import NESTED, map_blocks, operands, rename, results, walk

_DECLARATIONS = (*LOCAL_DECLARATIONS, n.StackAlloca)


def flatten_branches(kernel: Kernel, limit: int, most: int) -> Kernel:
    """Return a kernel whose branches and loops nest at most about `limit` deep.

    Args:
        kernel: a kernel of stage structured or adjoint.
        limit: depth beyond which branches are laid out.
        most: depth that loops may still reach afterwards.

    Raises:
        Unsupported: loops still nest more than `most` deep; the error names a statement.
    """
    if all(depth_of(task.body, limit)[0] <= limit for task in kernel.tasks):
        return kernel
    flattening = _BranchFlattener(kernel, limit)
    made = replace(kernel, tasks=tuple(flattening.task(task) for task in kernel.tasks))
    for task in made.tasks:
        found, loc = depth_of(task.body, most)
        if found > most:
            raise Unsupported(
                f"kernel {kernel.name}: loops and branches nest more than {most} deep, which this driver gets wrong",
                "put a part into a kernel of its own, or use another backend",
                kernel.span(loc),
            )
    return made


@dataclass
class _FlaggedStatements:
    """A `_FlaggedStatements` is a sequence of statements that executes only if a boolean local, its flag, is set.

    Attributes:
        flag: name of a u1 local.
        loc: source location of the branch from which the statements come.
        body: the statements, which are executed one after the other.
    """

    flag: str
    loc: int
    body: list[Stmt] = field(default_factory=list)


class _BranchFlattener(FreshNames):
    """This class rewrites the tasks of one kernel so that branches do not nest too deep."""

    def __init__(self, kernel: Kernel, limit: int) -> None:
        super().__init__(kernel)
        self.limit = limit

    def task(self, task: Task) -> Task:
        """Return the task with its deep branches flattened into sequences of statements under flags."""
        return replace(task, body=self.block(task.body, 0))

    def block(self, block: Block, depth: int) -> Block:
        """Return a block at this depth, with its deep branches flattened into statement sequences under flags."""
        out: list[Stmt] = []
        for stmt in block:
            if type(stmt) not in NESTED or depth + depth_of((stmt,), self.limit)[0] <= self.limit:
                out.append(stmt)
            # Only branches at the limit are laid out; deeper ones become runs of the same list.
            elif isinstance(stmt, n.If) and depth >= self.limit - 1:
                out += self._laid_out(stmt, depth)
            else:
                out.append(map_blocks(stmt, lambda inner: self.block(inner, depth + 1)))
        return tuple(out)

    def _laid_out(self, stmt: n.If, depth: int) -> Block:
        """Flatten a branch: return all declarations, then its statement sequences, each in an `if` of its flag."""
        runs: list[_FlaggedStatements] = []
        before: list[Stmt] = []
        self._branch(stmt, before, before, runs, depth)
        # A run must see what an earlier run declared, so all declarations move in front of the first run.
        hoisted = [s for run in runs for s in run.body if isinstance(s, _DECLARATIONS)]
        for run in runs:
            run.body = [s for s in run.body if not isinstance(s, _DECLARATIONS)]
        carried = self._carry(runs)
        declared = [s for s in before if isinstance(s, _DECLARATIONS)]
        rest = [s for s in before if not isinstance(s, _DECLARATIONS)]
        out = [*declared, *hoisted, *carried, *rest]
        for run in runs:
            if run.body:
                b = self.builder(run.loc)
                b.if_(b.get(run.flag, u1), run.body)
                out += self.done(b)
        return tuple(out)

    def _branch(
        self, stmt: n.If, here: list[Stmt], before: list[Stmt], runs: list[_FlaggedStatements], depth: int
    ) -> None:
        """Emit a flag for each alternative of a branch, and append the statements of the alternatives to `runs`.

        Args:
            stmt: the branch.
            here: statements that execute before the branch, where its condition is known.
            before: statements in front of all runs, to which the declarations of the flags are added.
            runs: list of the runs so far, to which those of the branch are added.
            depth: number of branches and loops around the branch.
        """
        for body, is_else in ((stmt.then, False), (stmt.orelse, True)):
            if not body:
                continue
            flag = self.name("$taken")
            before.append(n.Local(flag, u1, loc=stmt.loc))
            b = self.builder(stmt.loc)
            b.set(flag, b.op("logic_not", stmt.cond) if is_else else stmt.cond)
            here += self.done(b)
            self._runs(body, flag, before, runs, depth)

    def _runs(self, block: Block, flag: str, before: list[Stmt], runs: list[_FlaggedStatements], depth: int) -> None:
        """Split a block at its branches, and append the statement sequences to `runs`, all under the same flag."""
        run = _FlaggedStatements(flag, block[0].loc)
        runs.append(run)
        for stmt in block:
            if not isinstance(stmt, n.If):
                run.body += self.block((stmt,), depth + 1)
                continue
            self._branch(stmt, run.body, before, runs, depth)
            run = _FlaggedStatements(flag, stmt.loc)
            runs.append(run)

    def _carry(self, runs: list[_FlaggedStatements]) -> list[Stmt]:
        """Pass values that one statement sequence defines to later ones through locals. Return the declarations."""
        home = {v: k for k, run in enumerate(runs) for s in run.body for v in results(s)}
        names: dict[Value, str] = {}
        for k, run in enumerate(runs):
            read = {v for s in walk(tuple(run.body)) for v in operands(s)}
            # Values that are defined outside all runs are visible anyway: their home defaults to the run itself.
            wanted = sorted((v for v in read if home.get(v, k) != k), key=lambda v: v.id)
            b, mapping = self.builder(run.loc), {}
            for v in wanted:
                names.setdefault(v, self.name("$carried"))
                mapping[v] = b.get(names[v], v.type)
            if mapping:
                run.body = [*self.done(b), *(rename(s, mapping) for s in run.body)]
        for run in runs:
            run.body = [made for s in run.body for made in self._kept(s, names)]
        return [n.Local(name, v.type) for v, name in names.items()]

    def _kept(self, stmt: Stmt, names: dict[Value, str]) -> list[Stmt]:
        """Return the statement and, after it, a `set` for each result that other statement sequences read."""
        return [stmt, *(n.Set(names[v], v, loc=stmt.loc) for v in results(stmt) if v in names)]
