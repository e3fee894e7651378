"""This pass replaces own elements, array elements that only one iteration touches, by locals.

    y[i] = x[i]; for ..: y[i] = sin(y[i])    →    t = load y[i]; set v, ..; for ..: set v, sin v;  store y[i], v

If all accesses of an array in the task have one index tuple, which is different in every iteration of the box, the
element is private to the iteration. It is loaded at the head of the lowest block that holds all accesses and stored at
its end. The block must access the element unconditionally, so that the pass adds no read that the kernel would not
make. The block may be the body of a loop that returns to the same element or writes an element twice. In a serial task
every element is private; there only an element that is stored before it is read becomes a local.

A private element that stays in memory (in a serial task all elements are private) is updated without an atomic if
reverse mode needs its result, or if it is a product: `atomic mul y[i], x` becomes a load, a product and a store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..analysis.affine import Affine, IndexForms, Symbol, is_own, same_indices, single_iteration
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Task
from ..ir.roles import ACCESSES, ARRAY_READS, ARRAY_WRITES, LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import ArrayType, Scalar
from ..ir.walk import NESTED, blocks, kept_block, map_blocks, next_id, results, used_values, walk

Access = n.Load | n.Store | n.Atomic
ONCE = ("add", "min", "max")
"""These atomics have reverses that read no old content."""
RECORD = "$returned"
"""Names of arrays that hold what an atomic returned begin with this text.

Reverse mode reads it, see `ad.ordered_updates`.
"""


def promote_elements(kernel: Kernel) -> Kernel:
    """Return a kernel of stage `structured` in which own elements of parallel tasks are replaced by locals.

    Common-subexpression elimination and version rewriting should run afterwards.
    """
    first_id = next_id(kernel)
    types = kernel.array_types()
    local = {a for a, t in types.items() if _may_be_local(t) and not a.startswith(RECORD)}
    local -= {t.name for t in kernel.temps}
    tasks = []
    for t, task in enumerate(kernel.tasks):
        for array in sorted(_written(task) & local):
            task, first_id = _promote(task, array, f"{array}.own{t}", types[array].dtype, first_id)
        updates = _UpdateReplacer(task, first_id)
        tasks.append(updates.run())
        first_id = updates.next_id
    return kernel if all(a is b for a, b in zip(tasks, kernel.tasks)) else replace(kernel, tasks=tuple(tasks))


def _may_be_local(array: ArrayType) -> bool:
    """Return False if an array holds reals and has no gradient: a local would let derivatives flow through it."""
    return array.grad or not array.dtype.is_real


def _written(task: Task) -> set[str]:
    return {s.array for s in walk(task.body) if isinstance(s, ARRAY_WRITES)}


def _touches(stmt: Stmt, array: str) -> bool:
    """Return True if the statement, or a statement nested in it, accesses the array."""
    if type(stmt) not in NESTED:
        return isinstance(stmt, ACCESSES) and stmt.array == array
    return any(isinstance(s, ACCESSES) and s.array == array for s in walk((stmt,)))


def _promote(task: Task, array: str, var: str, dtype: Scalar, first_id: int) -> tuple[Task, int]:
    """Return the task with the own elements of one array replaced by a local, and the next free value id.

    Args:
        task: the task.
        array: name of the array.
        var: name of the local that replaces the element.
        dtype: type of an element.
        first_id: id of the first new value.
    """
    accesses = _accesses(task, array)
    indices = _own_indices(task, accesses)
    if indices is None or _reads_nothing(task.body, accesses):
        return task, first_id
    symbols: frozenset[Symbol] = frozenset().union(*(f.symbols() for f in indices))
    made = _ElementPromoter(array, var, dtype, first_id, symbols, single_iteration(task))
    body = made.block(task.body)
    return (replace(task, body=body), made.next_id) if made.done else (task, first_id)


def _accesses(task: Task, array: str) -> list[Access]:
    return [s for s in walk(task.body) if isinstance(s, ACCESSES) and s.array == array]


def _own_indices(task: Task, accesses: list[Access]) -> tuple[Affine, ...] | None:
    """Return the indices that all accesses have in common if they denote an own element of the iteration, else None."""
    forms = IndexForms(task)
    first, *others = [tuple(forms.form(v) for v in s.indices) for s in accesses]
    own = single_iteration(task) or is_own(first, task, forms)
    return first if own and all(same_indices(first, t) for t in others) else None


def _reads_nothing(body: Block, accesses: list[Access]) -> bool:
    """Return True if the element's value is never read: all accesses are stores, or all are the same kind of atomic."""
    if all(isinstance(s, n.Store) for s in accesses):
        return True
    used = used_values(walk(body))
    kinds = {s.op if isinstance(s, n.Atomic) and s.result not in used else "" for s in accesses}
    return len(kinds) == 1 and kinds <= set(ONCE)


@dataclass
class _ElementPromoter:
    """This class replaces the accesses of one array in one task by accesses of a local.

    Attributes:
        array: name of the array.
        var: name of the local.
        dtype: type of an element.
        next_id: id of the next new value.
        symbols: symbols in the affine forms of the index tuple, such as loop indices.
        stored_first: True if only an element that is stored before it is read may become a local.
        done: True after a block was rewritten.
    """

    array: str
    var: str
    dtype: Scalar
    next_id: int
    symbols: frozenset[Symbol]
    stored_first: bool
    done: bool = False

    def block(self, block: Block) -> Block:
        """Return the block in which the innermost nested block that contains all accesses is rewritten."""
        touching = [k for k, s in enumerate(block) if _touches(s, self.array)]
        direct = [k for k in touching if isinstance(block[k], ACCESSES)]
        # An access that stands directly in the block makes this the lowest block that holds all accesses.
        if direct:
            # In a task of one iteration, only an element that is overwritten first gains from a local.
            if self.stored_first and not isinstance(block[touching[0]], n.Store):
                return block
            return self._rewrite(block, touching[0], touching[-1], block[direct[0]])
        if len(touching) == 1:
            holder = block[touching[0]]
            inside = [b for b in self._enterable(holder) if any(_touches(s, self.array) for s in b)]
            if len(inside) == 1:
                new = map_blocks(holder, lambda b: self.block(b) if b is inside[0] else b)
                return (*block[: touching[0]], new, *block[touching[0] + 1 :])
        return block

    def _enterable(self, holder: Stmt) -> tuple[Block, ...]:
        """Return the nested blocks of a statement in which the array's accesses may be replaced by a local.

        A loop whose every trip writes an element of its own at most once is excluded: a local would save nothing there.
        """
        if isinstance(holder, n.While) and any(_touches(s, self.array) for s in holder.condition):
            return ()
        if isinstance(holder, LOOPS):
            # The index changes from trip to trip if one of its symbols is defined inside the loop.
            varying = self.symbols & {v for s in walk((holder,)) for v in results(s)}
            writes = [s for s in walk((holder,)) if isinstance(s, ARRAY_WRITES) and s.array == self.array]
            return () if varying and len(writes) < 2 else (holder.body,)
        return blocks(holder)

    def _rewrite(self, block: Block, first: int, last: int, sample: Stmt) -> Block:
        """Return the block with the accesses replaced by a local, which is loaded before them and stored after them.

        Indices that the block defines too late must be constants, which move up. The load and the store that stand for
        all accesses get the locations of the first read and the last write.

        Args:
            block: the lowest block that holds all accesses.
            first: position of the first statement that touches the array.
            last: position of the last statement that touches the array.
            sample: a direct access, which gives the indices.
        """
        indices: tuple[Value, ...] = sample.indices  # type: ignore[attr-defined]
        # The load moves to the position of the first access, where its indices must be defined already.
        late = [s for s in block[first:] if any(v in indices for v in results(s))]
        if not all(isinstance(s, n.Const) for s in late):
            return block
        accesses = [s for s in walk(block[first : last + 1]) if getattr(s, "array", None) == self.array]
        reads = [s for s in accesses if isinstance(s, ARRAY_READS)]
        writes = [s for s in accesses if isinstance(s, ARRAY_WRITES)]
        head = Builder(self.next_id)
        head.loc = reads[0].loc if reads else sample.loc
        loaded = head.load(self.array, indices, self.dtype)
        head.local(self.var, self.dtype, loaded)
        self.next_id = head.next_id
        middle = self._replace(tuple(s for s in block[first : last + 1] if s not in late))
        tail = Builder(self.next_id)
        tail.loc = writes[-1].loc
        tail.store(self.array, indices, tail.get(self.var, self.dtype))
        self.next_id = tail.next_id
        self.done = True
        after = tuple(s for s in block[last + 1 :] if s not in late)
        return (*block[:first], *late, *head.take(), *middle, *tail.take(), *after)

    def _replace(self, block: Block) -> Block:
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.Load) and stmt.array == self.array:
                out.append(n.Get(stmt.result, self.var, loc=stmt.loc))
            elif isinstance(stmt, n.Store) and stmt.array == self.array:
                out.append(n.Set(self.var, stmt.value, loc=stmt.loc))
            elif isinstance(stmt, n.Atomic) and stmt.array == self.array:
                out += self._atomic(stmt)
            else:
                out.append(map_blocks(stmt, self._replace))
        return tuple(out)

    def _atomic(self, stmt: n.Atomic) -> Block:
        """Return a plain read and write of the local that replaces an atomic on an element of this iteration only."""
        b = Builder(self.next_id)
        b.loc = stmt.loc
        b.emit(n.Get(stmt.result, self.var, loc=stmt.loc))
        b.set(self.var, b.left_by(stmt, stmt.result))
        self.next_id = b.next_id
        return b.take()


class _UpdateReplacer:
    """This class replaces atomics on own elements of one task by plain loads and stores."""

    def __init__(self, task: Task, first_id: int) -> None:
        self.task = task
        self.next_id = first_id
        arrays = sorted({s.array for s in walk(task.body) if isinstance(s, n.Atomic)})
        alone = single_iteration(task)
        self.private = {a for a in arrays if alone or _own_indices(task, _accesses(task, a)) is not None}
        self.used = used_values(walk(task.body)) if self.private else set()

    def run(self) -> Task:
        """Return the task with plain loads and stores, or the same object if it has no atomic on an own element."""
        body = self._block(self.task.body) if self.private else self.task.body
        return self.task if body is self.task.body else replace(self.task, body=body)

    def _block(self, block: Block) -> Block:
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.Atomic) and stmt.array in self.private and self._needs_old(stmt):
                out += self._update(stmt)
            else:
                out.append(map_blocks(stmt, self._block))
        return kept_block(block, out)

    def _needs_old(self, stmt: n.Atomic) -> bool:
        return stmt.op not in ONCE or stmt.result in self.used

    def _update(self, stmt: n.Atomic) -> Block:
        b = Builder(self.next_id)
        b.loc = stmt.loc
        b.emit(n.Load(stmt.result, stmt.array, stmt.indices, loc=stmt.loc))
        b.store(stmt.array, stmt.indices, b.left_by(stmt, stmt.result))
        self.next_id = b.next_id
        return b.take()
