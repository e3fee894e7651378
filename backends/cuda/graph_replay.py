"""This module emits code that replays a launch by a CUDA graph, in less than half the time of single launches.

Host code first writes down the *plan* of a launch, a word for each entry point: blocks and threads, 0 where it is not
started. The *record* of a block has a graph for the plan that its launches keep having. A launch that starts the same
entries replays it: as it is, or with parameters and sizes of its nodes set anew. Any other launch is made by single
calls; after `patience` launches in a row that start the same entries, host code leaves the plan in the record and gives
WANTED, and Python makes the graph (launch_graphs.py).

Invariant: what the nodes of a graph hold is what the record says they do, or the record has no graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.layout import BlockLayout
from ..codegen.types import I1, I8, I32, I64, PTR, VOID, const
from .driver import CONTEXT_ERRORS
from .driver_table import CONTEXT, GET_CONTEXT, IS_CAPTURING, LAUNCH_GRAPH, SET_NODE

PATIENCE = 16
"""Launches in a row that start the same entries before a graph is made: making one takes as long as some of them."""

COUNT, NEED, SEEN, SEEN_ON, EXECUTABLE, ENTERED, SERVES, NODES = range(8)
"""Words of a record.

COUNT: launches in a row that started what SEEN says on the stream SEEN_ON, or -1 where no graph is to be made. NEED: at
which number of them a graph is made. EXECUTABLE: the graph, 0 if there is none. ENTERED: the entries that it starts.
SERVES: its stream, since the driver lets no two launches of one graph run at once. Behind NODES follow a node for each
entry, the plan that the nodes hold, and the parameters.
"""

PLAIN, WANTED = -1, -2
"""Results of `sg.replay` besides codes of the driver: single calls must make the launch; a graph must be made."""

MOST_ENTRIES = 63
"""Most entries of a kernel with graphs: the entries that are started are the bits of one word."""

NODE_PARAMETERS = 72
"""Bytes of CUDA_KERNEL_NODE_PARAMS.

They are: function, six numbers of 32 bits and the bytes of shared memory, pointers to parameters and extra, a CUkernel
and a context in place of the function.
"""

EntryKey = tuple[str, int]
"""Kind and task of an entry point."""


@dataclass(frozen=True)
class RecordOffsets:
    """Represent the byte offsets of the graph record, the part of an argument block about its CUDA graph.

    Attributes:
        begin: Offset of the record.
        entries: Number of entry points.
    """

    begin: int
    entries: int

    def word(self, number: int) -> int:
        """Return the byte offset in the argument block of a word of the graph record."""
        return self.begin + 8 * number

    @property
    def nodes(self) -> int:
        """Return the byte offset, in the argument block, of the handles of the CUDA graph's nodes."""
        return self.word(NODES)

    @property
    def plan(self) -> int:
        """Return the byte offset, in the argument block, of the launch plan for which the graph's nodes are set."""
        return self.word(NODES + self.entries)

    @property
    def parameters(self) -> int:
        """Return the byte offset, in the argument block, of the parameters for which the graph's nodes are set."""
        return self.word(NODES + 2 * self.entries)


def launch_order(layout: BlockLayout, entries: Iterable[EntryKey]) -> list[EntryKey]:
    """Return the entry points of a kernel in the order in which a launch starts them."""
    there = set(entries)
    return [key for key in layout.functions if key in there]


def record_offsets(layout: BlockLayout, entries: int) -> RecordOffsets:
    """Return the offsets of the graph record, which is the last part of an argument block."""
    return RecordOffsets(layout.size, entries)


def block_bytes(layout: BlockLayout, entries: int) -> int:
    """Return the number of bytes of an argument block, including its graph record."""
    return record_offsets(layout, entries).parameters + layout.passed


def replay_function(m: ModuleState, keys: list[EntryKey]) -> ir.LLVMFunction:
    """Return the function `sg.replay`, which launches a block by its CUDA graph if the graph fits the launch.

    sg.replay(block, table, stream, plan) returns 0 when the launch is made, PLAIN, WANTED, or a code of the driver.
    """
    return m.helper("sg.replay", I32, [PTR, PTR, I64, PTR], lambda e, f: _ReplayWriter(e, f, keys).emit())


class _ReplayWriter:
    """Write the body of `sg.replay`, which launches an argument block by its CUDA graph."""

    def __init__(self, e: ArithEmitter, function: ir.LLVMFunction, keys: list[EntryKey]) -> None:
        self.e, self.b, self.function, self.keys = e, e.b, function, keys
        self.block, self.table, self.stream, self.plan = function.args
        self.layout = e.m.layout
        self.places = record_offsets(self.layout, len(keys))

    def emit(self) -> None:
        """Emit the body of `sg.replay`, which replays the launch by its CUDA graph if a graph fits the launch."""
        b = self.b
        # The address is 0 while there are to be no graphs.
        self._leave_if(b.icmp_unsigned("==", self._table(LAUNCH_GRAPH), const(I64, 0)), PLAIN)
        # A profile records events between the tasks, which single calls do.
        self._leave_if(b.icmp_unsigned("!=", self._word(self.layout.laps_at), const(I64, 0)), PLAIN)
        self._leave_where_captured()
        started = self._started()
        graph = self._word(self.places.word(EXECUTABLE))
        fits = b.and_(
            b.icmp_unsigned("!=", graph, const(I64, 0)),
            b.icmp_unsigned("==", self._word(self.places.word(ENTERED)), started),
        )
        fits = b.and_(fits, b.icmp_unsigned("==", self._word(self.places.word(SERVES)), self.stream))
        with b.if_then(b.xor(fits, const(I1, True))):
            self._without(started)
        self._set_nodes(graph)
        code = b.call_pointer(self._function(LAUNCH_GRAPH), I32, [graph, self.stream])
        with b.if_then(b.or_(b.icmp_unsigned("==", code, const(I32, 0)), _is_of_context(b, code))):
            b.ret(code)
        self._give_up(const(I64, -1))

    def _give_up(self, count: ir.LLVMValue) -> None:
        """Emit code that drops the graph, because setting its nodes failed and left them in an unknown state.

        Single calls then tell what is wrong, unless the graph is. `count` is the number of launches in a row from now
        on, or -1 if no other graph is to be made either.
        """
        self._put(ENTERED, const(I64, 0))
        self._put(COUNT, count)
        self.b.ret(const(I32, PLAIN))

    # -- words ----------------------------------------------------------------------------------------------

    def _at(self, offset: int) -> ir.LLVMValue:
        """Return the address of the byte at an offset in the argument block."""
        return self.b.gep(self.block, const(I64, offset), I8)

    def _word(self, offset: int) -> ir.LLVMValue:
        """Emit a load of the word at a byte offset in the argument block and return the word."""
        return self.b.load(self._at(offset), I64)

    def _put(self, number: int, value: ir.LLVMValue) -> None:
        """Emit a store to a word of the graph record, by the number of the word."""
        self.b.store(value, self._at(self.places.word(number)))

    def _table(self, word: int, t: ir.Type = I64) -> ir.LLVMValue:
        """Emit a load of a word of the driver's table and return the word."""
        return self.b.load(self.b.gep(self.table, const(I64, word), I64), t)

    def _function(self, word: int) -> ir.LLVMValue:
        """Return the address of a function from the driver's table."""
        return self._table(word, PTR)

    def _planned(self, place: int) -> ir.LLVMValue:
        """Emit a load of the launch plan's word for entry point number `place`, and return the word."""
        return self.b.load(self.b.gep(self.plan, const(I64, place), I64), I64)

    def _leave_if(self, cond: ir.LLVMValue, code: int) -> None:
        """Emit a return of `code` from `sg.replay` that is taken if the condition holds."""
        with self.b.if_then(cond):
            self.b.ret(const(I32, code))

    # -- steps ----------------------------------------------------------------------------------------------

    def _leave_where_captured(self) -> None:
        """Emit a return from `sg.replay` if another library is recording the stream, for single calls to launch.

        A recorded stream accepts single launches, but no launch of a graph. The default stream cannot be recorded, but
        it belongs to the current context: in another context a kernel is refused where a graph would run out of order.
        """
        b = self.b
        is_default = b.icmp_unsigned("==", self.stream, const(I64, 0))
        with b.if_then(is_default):
            current = b.alloca(I64)
            b.store(const(I64, 0), current)
            code = b.call_pointer(self._function(GET_CONTEXT), I32, [current])
            other = b.icmp_unsigned("!=", b.load(current, I64), self._table(CONTEXT))
            bad = b.or_(other, b.icmp_unsigned("!=", code, const(I32, 0)))
            self._leave_if(bad, PLAIN)
        with b.if_then(b.xor(is_default, const(I1, True))):
            status = b.alloca(I32)
            b.store(const(I32, 0), status)
            code = b.call_pointer(self._function(IS_CAPTURING), I32, [self.stream, status])
            bad = b.or_(code, b.load(status, I32))
            self._leave_if(b.icmp_unsigned("!=", bad, const(I32, 0)), PLAIN)

    def _started(self) -> ir.LLVMValue:
        """Return a bit mask of the entry points that this launch starts; if it is 0, `sg.replay` returns."""
        b = self.b
        found: ir.LLVMValue = const(I64, 0)
        for place in range(len(self.keys)):
            there = b.icmp_unsigned("!=", self._planned(place), const(I64, 0))
            found = b.or_(found, b.shl(b.zext(there, I64), const(I64, place)))
        self._leave_if(b.icmp_unsigned("==", found, const(I64, 0)), PLAIN)
        return found

    def _without(self, started: ir.LLVMValue) -> None:
        """Emit the return from `sg.replay` if no graph fits; the code asks for a graph after enough equal launches."""
        b, at = self.b, self.places
        count = self._word(at.word(COUNT))
        self._leave_if(b.icmp_signed("<", count, const(I64, 0)), PLAIN)
        same = b.and_(
            b.icmp_unsigned("==", self._word(at.word(SEEN)), started),
            b.icmp_unsigned("==", self._word(at.word(SEEN_ON)), self.stream),
        )
        now = b.add(b.select(same, count, const(I64, 0)), const(I64, 1))
        self._put(SEEN, started)
        self._put(SEEN_ON, self.stream)
        self._put(COUNT, now)
        self._leave_if(b.icmp_signed("<", now, self._word(at.word(NEED))), PLAIN)
        self._copy(at.plan, self.plan, 8 * len(self.keys))
        self._copy(at.parameters, self.block, self.layout.passed)
        b.ret(const(I32, WANTED))

    def _copy(self, at: int, source: ir.LLVMValue, size: int) -> None:
        """Emit a copy of `size` bytes from the address `source` to a byte offset in the argument block."""
        copy = self.e.m.declare("llvm.memcpy.p0.p0.i64", VOID, [PTR, PTR, I64, I1])
        self.b.call(copy, [self._at(at), source, const(I64, size), const(I1, 0)])

    def _set_nodes(self, graph: ir.LLVMValue) -> None:
        """Update all graph nodes to the parameters of this launch, unless they have them already."""
        b, at = self.b, self.places
        compare = self.e.m.declare("memcmp", I32, [PTR, PTR, I64])
        other = b.or_(
            b.call(compare, [self._at(at.parameters), self.block, const(I64, self.layout.passed)]),
            b.call(compare, [self._at(at.plan), self.plan, const(I64, 8 * len(self.keys))]),
        )
        with b.if_then(b.icmp_unsigned("!=", other, const(I32, 0))):
            self._copy(at.parameters, self.block, self.layout.passed)
            self._copy(at.plan, self.plan, 8 * len(self.keys))
            for place, key in enumerate(self.keys):
                self._set_node(graph, place, key)

    def _set_node(self, graph: ir.LLVMValue, place: int, key: EntryKey) -> None:
        """Emit code that sets the parameters of the graph node of one entry point."""
        b, shape = self.b, self._planned(place)
        with b.if_then(b.icmp_unsigned("!=", shape, const(I64, 0))):
            set_node = self.e.m.helper("sg.set", I32, [PTR, PTR, I64, I64, I64, I64], _set)
            node = self._word(self.places.nodes + 8 * place)
            function = self._word(self.layout.functions[key])
            call = [self.block, self._function(SET_NODE), graph, node, function, shape]
            code = b.call(set_node, call)
            with b.if_then(b.icmp_unsigned("!=", code, const(I32, 0))):
                self._give_up(b.select(_is_of_context(b, code), const(I64, 0), const(I64, -1)))


def _is_of_context(b: IRBuilder, code: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that a driver call failed because the thread is not attached to the CUDA context."""
    first, second = (b.icmp_unsigned("==", code, const(I32, known)) for known in CONTEXT_ERRORS)
    return b.or_(first, second)


def _set(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Define `sg.set`, which sets grid size and parameters of one node by cuGraphExecKernelNodeSetParams.

    The block is the one parameter of the kernel.
    """
    b = e.b
    block, set_parameters, graph, node, handle, shape = function.args
    given, words = b.alloca(PTR), b.alloca(I64, NODE_PARAMETERS // 8)
    b.store(block, given)
    none = const(I64, 0)
    numbers = [*grid_of_word(b, shape), const(I32, 0)]
    b.store(handle, words)
    for place, number in enumerate(numbers):
        b.store(number, b.gep(words, const(I64, 2 + place), I32))
    b.store(b.ptrtoint(given, I64), b.gep(words, const(I64, 5), I64))
    for place in range(6, NODE_PARAMETERS // 8):
        b.store(none, b.gep(words, const(I64, place), I64))
    b.ret(b.call_pointer(set_parameters, I32, [graph, node, words]))


def grid_of_word(b: IRBuilder, shape: ir.LLVMValue) -> list[ir.LLVMValue]:
    """Return (blocks x, y, z, threads x, y, z) of an entry point from its word in the launch plan."""
    one = const(I32, 1)
    return [b.trunc(shape, I32), one, one, b.trunc(b.lshr(shape, const(I64, 32)), I32), one, one]
