"""This module emits masked code over scanned iterations: those that pass a gate, sorted by the trips of their loops.

`masked.N` goes through its iterations by chunks. `scan.N` runs the statements that decide (selection.py) on blocks of
neighbors and lists what passes, by its number within the chunk, with a key that grows with its trip count. A list whose
lanes would wait for each other is sorted by key. `listed.N` runs the body on blocks from the list: every lane accesses
memory by its own addresses, but an iteration's own element stays its own, and a draw keeps its iteration. Where nothing
is gated and no order is better, the chunk runs as blocks of neighbors.
"""

from __future__ import annotations

from dataclasses import replace

from ...codegen import ir
from ...codegen.builder import IRBuilder
from ...codegen.emit import ArithEmitter, ModuleState
from ...codegen.gates import Gate, ScanPlan
from ...codegen.types import I32, I64, PTR, const
from ..errors import OK
from ..lane_loop import each_lane
from ..profitability import runs_along_rows
from . import buckets
from .function import decode_indices, emit_block_loop, emit_neighbor_blocks, emitter, start_block, task_function
from .lanes import WIDE, LaneEmitter
from .loops import counts_of

CHUNK = 4096
"""Iterations of a chunk: the list stays in the first-level cache, and the scan is long against what starts it."""

FEW = 4
"""Number of blocks below which the order of iterations makes no difference that is worth a scan."""

SORTED = 200
"""Cost of sorting one iteration into the list and of gathering for it, in additions."""


def selecting_function(m: ModuleState, index: int, s: ScanPlan, lanes: int) -> ir.LLVMFunction:
    """Write masked.N(block, first, last, stride, row) for a task whose iterations a scan selects."""
    scan, listed = _scan(m, index, s, lanes), _listed(m, index, s, lanes)
    neighbors = None
    if s.gate is None:
        neighbors = task_function(m, index, f"neighbours.{index}", "internal")
        emit_neighbor_blocks(m, neighbors, index, s.task, lanes)
    function = task_function(m, index, f"masked.{index}")
    _ChunkLoop(m, function, s, lanes).emit(scan, listed, neighbors)
    return function


# ---- chunks -------------------------------------------------------------------------------------------------


class _ChunkLoop:
    """Emit the loop over chunks of iterations: scan a chunk, then run its passing iterations or the whole chunk."""

    def __init__(self, m: ModuleState, function: ir.LLVMFunction, s: ScanPlan, lanes: int) -> None:
        self.m, self.function, self.s = m, function, s
        self.b = b = IRBuilder(function.append_basic_block("entry"))
        # The scan stores whole vectors, so there is room for the lanes behind the last iteration.
        room = CHUNK + lanes
        self.places = b.alloca(I32, room)
        # Without loops nothing is sorted, and the unused arguments are the same array.
        self.keys = b.alloca(I32, room) if s.loops else self.places
        self.ordered = b.alloca(I32, room) if s.loops else self.places
        self.found = b.alloca(I64, 3)
        self.few = const(I64, FEW * lanes)
        names = ["chunks", "chunk", "scanned", "listed", "ran", "failed", "done", "refused"]
        names += ["uneven", "even"] if s.loops else []
        self.at = {name: function.append_basic_block(name) for name in names}
        self.outcomes: list[tuple[ir.LLVMValue, ir.BasicBlock]] = []

    def emit(self, scan: ir.LLVMFunction, listed: ir.LLVMFunction, neighbors: ir.LLVMFunction | None) -> None:
        """Emit the whole function: scan each chunk, then run its list (`listed`) or all its iterations (`neighbors`).

        Args:
            scan: Function that lists the iterations of a chunk.
            listed: Function that runs a list.
            neighbors: Function that runs an even chunk; None if every listed iteration is run from the list.
        """
        b, at, (block, first, last, stride, row) = self.b, self.at, self.function.args
        before = b.block
        b.branch(at["chunks"])
        b.position_at_end(at["chunks"])
        k = b.phi(I64)
        k.add_incoming(first, before)
        b.cbranch(b.icmp_unsigned("<", k, last), at["chunk"], at["done"])
        b.position_at_end(at["chunk"])
        rest = b.sub(last, k)
        end = b.add(k, b.select(b.icmp_unsigned("<", rest, const(I64, CHUNK)), rest, const(I64, CHUNK)))
        if neighbors is None:
            b.branch(at["scanned"])
        else:
            # A chunk of few blocks runs in place, because its order makes no difference that is worth a scan.
            b.cbranch(b.icmp_unsigned("<", rest, self.few), at["even"], at["scanned"])
        b.position_at_end(at["scanned"])
        scanned = b.call(scan, [block, k, end, self.places, self.keys, self.found])
        go_on = self.function.append_basic_block("scanned")
        b.cbranch(b.icmp_unsigned("==", scanned, const(I32, OK)), go_on, at["refused"])
        b.position_at_end(at["refused"])
        b.ret(scanned)
        b.position_at_end(go_on)
        count = self._found(0)
        chosen = self._order(count)
        if neighbors is not None:
            b.position_at_end(at["even"])
            self._ran(b.call(neighbors, [block, k, end, stride, row]))
        b.position_at_end(at["listed"])
        self._ran(b.call(listed, [block, k, chosen, count, row]))
        k.add_incoming(end, at["ran"])
        self._close()

    def _found(self, at: int) -> ir.LLVMValue:
        """Emit a load of the result `at` of the scan, such as the number of iterations that pass the gate."""
        return self.b.load(self.b.gep(self.found, const(I64, at), I64), I64)

    def _order(self, count: ir.LLVMValue) -> ir.LLVMValue:
        """Emit code that sorts a chunk's list by trip counts if this saves time; return the address of the list.

        If the task has a gate, an unsorted list is run as well; else an unsorted chunk runs as blocks of neighbors.
        """
        b, at, s = self.b, self.at, self.s
        if not s.loops:
            b.branch(at["listed"])
            return self.places
        # Sorting can save the rounds in which lanes wait; each costs `weight`.
        saved = b.mul(b.sub(self._found(2), self._found(1)), const(I64, s.weight))
        worth = b.icmp_signed(">", saved, b.mul(count, const(I64, SORTED)))
        b.cbranch(b.and_(worth, b.icmp_unsigned(">=", count, self.few)), at["uneven"], at["even"])
        b.position_at_end(at["uneven"])
        b.call(buckets.sorter(ArithEmitter(self.m, b)), [self.places, self.keys, count, self.ordered])
        b.branch(at["listed"])
        if s.gate is None:
            return self.ordered
        b.position_at_end(at["even"])
        b.branch(at["listed"])
        b.position_at_end(at["listed"])
        chosen = b.phi(PTR)
        chosen.add_incoming(self.ordered, at["uneven"])
        chosen.add_incoming(self.places, at["even"])
        return chosen

    def _ran(self, status: ir.LLVMValue) -> None:
        """Record the status that the code of a chunk returned, as one input of the phi of the status."""
        self.outcomes.append((status, self.b.block))
        self.b.branch(self.at["ran"])

    def _close(self) -> None:
        """Emit the end of a chunk: continue with the next one, or return a status that is not OK."""
        b, at = self.b, self.at
        b.position_at_end(at["ran"])
        status = b.phi(I32)
        for value, source in self.outcomes:
            status.add_incoming(value, source)
        b.cbranch(b.icmp_unsigned("==", status, const(I32, OK)), at["chunks"], at["failed"])
        b.position_at_end(at["failed"])
        b.ret(status)
        b.position_at_end(at["done"])
        b.ret(const(I32, OK))


# ---- the scan -----------------------------------------------------------------------------------------------


def _scan(m: ModuleState, index: int, s: ScanPlan, lanes: int) -> ir.LLVMFunction:
    """Define scan.N(block, first, last, places, keys, found), which lists passing iterations relative to `first`.

    It gives a status. `found` gets three numbers: how many iterations are listed, the sum of their trips, and the trips
    that lanes of blocks of neighbors would run or wait.
    """
    params = [PTR, I64, I64, PTR, PTR, PTR]
    function = ir.LLVMFunction(m.module, f"scan.{index}", I32, params, WIDE, "internal")
    along = runs_along_rows(s.task)
    e = emitter(m, function, index, s.flat, lanes, along)
    # Only some statements of the task run in the scan, so an index may have to be compared that another statement of
    # the task proves.
    e.checks = m.checks.of(replace(s.task, body=(*s.deciding, *s.counting)))
    _Scan(e, s).emit(along)
    return function


class _Scan:
    """Emit the function `scan.N`, which lists the iterations of a chunk that pass the gate of the task."""

    def __init__(self, e: LaneEmitter, s: ScanPlan) -> None:
        self.e, self.s = e, s
        self.totals = [e.alloca(I64) for _ in range(3)]
        self.vector = e.alloca(e.wide(I32))
        for total in self.totals:
            e.entry.store(const(I64, 0), total)

    def emit(self, along: bool) -> None:
        """Emit the whole scan function; at its end it stores three totals, such as the number of passing iterations."""
        e, found = self.e, self.e.function.args[5]
        emit_block_loop(e, along, self._block)
        for at, total in enumerate(self.totals):
            e.b.store(e.b.load(total, I64), e.b.gep(found, const(I64, at), I64))
        e.b.ret(const(I32, OK))
        e.finish()

    def _block(self, k: ir.LLVMValue) -> None:
        """Emit the scan of one block of neighboring iterations."""
        e, s, b = self.e, self.s, self.e.b
        e.flow.block(s.deciding)
        after = e.flow.append("scanned")
        if s.gate is not None:
            _pass(e, s.gate, after)
        e.flow.block(s.counting)
        trips = self._trips()
        start = b.trunc(b.sub(k, e.function.args[1]), I32)
        keys = None if trips is None else buckets.keys(e, trips)
        (self._append if s.gate is None else self._compress)(start, keys)
        e.flow.go(after)

    def _add(self, at: int, amount: ir.LLVMValue) -> ir.LLVMValue:
        """Emit an addition to the total `at` of the scan, such as the passing iterations; return the old total."""
        b = self.e.b
        old = b.load(self.totals[at], I64)
        b.store(b.add(old, amount), self.totals[at])
        return old

    def _number(self) -> ir.LLVMValue:
        """Emit the number of active lanes of the mask and return it."""
        e, b = self.e, self.e.b
        number = e.intrinsic("ctpop", e.bits(e.flow.mask))
        return b.zext(number, I64) if e.lanes < 64 else number if e.lanes == 64 else b.trunc(number, I64)

    def _trips(self) -> ir.LLVMValue | None:
        """Emit the sum of trip counts for each lane and return it, or None if no loop is counted.

        The code also adds to totals 1 (trips) and 2 (trips that neighbors would run or wait).
        """
        e, b, trips = self.e, self.e.b, None
        for loop in self.s.loops:
            word = I64 if loop.begin.type.bits == 64 else I32
            counts = counts_of(e, loop, word)
            # Counts are bounded, so that sums over loops and lanes fit 32 bits.
            counts = e.intrinsic("umin", counts, e.const(counts, buckets.LONGEST))
            counts = b.trunc(counts, e.wide(I32)) if word is I64 else counts
            trips = counts if trips is None else b.add(trips, counts)
        if trips is not None:
            self._add(1, b.zext(e.reduce("add", trips), I64))
            self._add(2, b.mul(b.zext(e.reduce("umax", trips), I64), self._number()))
        return trips

    def _append(self, start: ir.LLVMValue, keys: ir.LLVMValue | None) -> None:
        """Emit stores that append the iterations of the active lanes, which are the lowest lanes, to the list."""
        e, b = self.e, self.e.b
        count = self._add(0, self._number())
        # Whole vectors are stored: the list has room for the lanes behind, which the next block overwrites.
        for place, vector in ((3, e.linear(start)), (4, keys)):
            if vector is not None:
                b.store(vector, b.gep(e.function.args[place], count, I32), 4)

    def _compress(self, start: ir.LLVMValue, keys: ir.LLVMValue | None) -> None:
        """Emit code that appends the iterations of the active lanes to the list of passing iterations, without gaps."""
        e, b = self.e, self.e.b
        if keys is not None:
            b.store(keys, self.vector)

        def visit(lane: ir.LLVMValue) -> None:
            count = self._add(0, const(I64, 1))
            b.store(b.add(start, b.trunc(lane, I32)), b.gep(e.function.args[3], count, I32))
            if keys is not None:
                b.store(b.load(b.gep(self.vector, lane, I32), I32), b.gep(e.function.args[4], count, I32))

        each_lane(e, e.flow.mask, visit)


def _pass(e: LaneEmitter, gate: Gate, closed: ir.BasicBlock) -> None:
    """Restrict the mask to the lanes that pass the gate. Emit a branch to `closed` if no lane passes."""
    b, cond = e.b, e.vector(gate.cond)
    e.flow.mask = b.and_(e.flow.mask, cond if gate.opens else b.xor(cond, e.const(cond, True)))
    some = e.flow.append("passing")
    b.cbranch(e.any(e.flow.mask), some, closed)
    b.position_at_end(some)


# ---- the list -----------------------------------------------------------------------------------------------


def _listed(m: ModuleState, index: int, s: ScanPlan, lanes: int) -> ir.LLVMFunction:
    """Write the function `listed.N`, which runs the iterations on a list block by block, and return it.

    Its parameters are (block, base, places, count, row); it runs the iterations base + places[0 .. count].
    """
    function = ir.LLVMFunction(m.module, f"listed.{index}", I32, [PTR, I64, PTR, I64, I64], WIDE, "internal")
    e = emitter(m, function, index, s.flat, lanes, along=False)
    _, base, places, count, e.row = function.args
    b = e.b
    head, body, after, done = map(e.flow.append, ("blocks", "block", "next", "done"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    j = b.phi(I64)
    j.add_incoming(const(I64, 0), before)
    j.add_incoming(b.add(j, const(I64, lanes)), after)
    b.cbranch(b.icmp_unsigned("<", j, count), body, done)
    b.position_at_end(body)
    _open_block(e, base, b.gep(places, j, I32), b.sub(count, j))
    e.flow.block(s.before)
    if s.gate is not None:
        _pass(e, s.gate, after)
    e.flow.block(s.after)
    b.branch(after)
    b.position_at_end(after)
    b.branch(head)
    b.position_at_end(done)
    b.ret(const(I32, OK))
    e.finish()
    return function


def _open_block(e: LaneEmitter, base: ir.LLVMValue, places: ir.LLVMValue, left: ir.LLVMValue) -> None:
    """Set indices and mask of the lanes for the next block of the list, without lanes past the end of the list.

    A lane past the end is masked out; it has the indices of iteration `base`.
    """
    b = e.b
    number = b.select(b.icmp_unsigned("<", left, const(I64, e.lanes)), left, const(I64, e.lanes))
    mask = e.first_lanes(number)
    # A whole vector is read; what lies behind the end of the list is masked.
    read = b.load(places, e.wide(I32), 4)
    further = b.zext(b.select(mask, read, e.const(read, 0)), e.wide(I64))
    decode_indices(e, base, further)
    start_block(e, mask, lambda: b.add(e.splat(base), further))
