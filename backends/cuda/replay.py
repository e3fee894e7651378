"""Launches through an instantiated graph of the driver, which takes one for less than half the time of a kernel.

Host code first writes down the *plan* of a launch, a word for each entry point: blocks and threads, 0 where it is not
started. The *record* of a block has a graph for the plan that its launches keep having. A launch that starts the same
entries replays it: as it is, or with parameters and sizes of its nodes set anew. Any other launch is made by single
calls; after `patience` launches in a row that start the same entries, host code leaves the plan in the record and gives
WANTED, and Python makes the graph (instances.py).

Invariant: what the nodes of a graph hold is what the record says they do, or the record has no graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..llvm import ir
from ..llvm.builder import IRBuilder
from ..llvm.emit import Arith, ModuleState
from ..llvm.layout import Layout
from ..llvm.types import I1, I8, I32, I64, PTR, VOID, const
from .driver import CONTEXT_ERRORS
from .driver_table import CONTEXT, GET_CONTEXT, IS_CAPTURING, LAUNCH_GRAPH, SET_NODE

PATIENCE = 16
"""Launches in a row that start the same entries before a graph is made: that takes as long as some of them."""

COUNT, NEED, SEEN, SEEN_ON, EXECUTABLE, ENTERED, SERVES, NODES = range(8)
"""Words of a record: launches in a row that started what SEEN says on the stream SEEN_ON, or -1 where no graph is to be
made; at which number of them one is; the graph, 0 if there is none, which entries it starts, and on which stream: the
driver lets no two launches of one graph run at once. Then a node for each entry, the plan that they hold, and the
parameters."""

PLAIN, WANTED = -1, -2
"""What `sg.replay` gives beside codes of the driver: to be launched by single calls; a graph is to be made."""

MOST_ENTRIES = 63
"""The entries that are started are the bits of one word."""

NODE_PARAMETERS = 72
"""Bytes of CUDA_KERNEL_NODE_PARAMS: function, six numbers of 32 bits and the bytes of shared memory, pointers to
parameters and extra, a CUkernel and a context in place of the function."""

Key = tuple[str, int]
"""Kind and task of an entry point."""


@dataclass(frozen=True)
class Places:
    """Where the parts of a record lie, in bytes from the begin of a block."""

    begin: int
    entries: int

    def word(self, number: int) -> int:
        return self.begin + 8 * number

    @property
    def nodes(self) -> int:
        return self.word(NODES)

    @property
    def plan(self) -> int:
        return self.word(NODES + self.entries)

    @property
    def parameters(self) -> int:
        return self.word(NODES + 2 * self.entries)


def order(layout: Layout, entries: Iterable[Key]) -> list[Key]:
    """The entry points of a kernel in the order in which a launch starts them."""
    there = set(entries)
    return [key for key in layout.functions if key in there]


def places(layout: Layout, entries: int) -> Places:
    """The record of a block, behind all that `layout` says."""
    return Places(layout.size, entries)


def block_bytes(layout: Layout, entries: int) -> int:
    """Bytes of a block with its record."""
    return places(layout, entries).parameters + layout.passed


def replay_function(m: ModuleState, keys: list[Key]) -> ir.Function:
    """sg.replay(block, table, stream, plan) -> i32: 0 when the launch is made, PLAIN, WANTED, or a code."""
    return m.helper("sg.replay", I32, [PTR, PTR, I64, PTR], lambda e, f: _Replay(e, f, keys).emit())


class _Replay:
    """Its body."""

    def __init__(self, e: Arith, function: ir.Function, keys: list[Key]) -> None:
        self.e, self.b, self.function, self.keys = e, e.b, function, keys
        self.block, self.table, self.stream, self.plan = function.args
        self.layout = e.m.layout
        self.places = places(self.layout, len(keys))

    def emit(self) -> None:
        b = self.b
        self._leave_if(b.icmp_unsigned("==", self._table(LAUNCH_GRAPH), const(I64, 0)), PLAIN)
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

    def _give_up(self, count: ir.Value) -> None:
        """Use this graph no more, for its nodes may hold anything. Single calls tell what is wrong, if it is not the
        graph. count: launches in a row from now on, or -1 for no other graph either.
        """
        self._put(ENTERED, const(I64, 0))
        self._put(COUNT, count)
        self.b.ret(const(I32, PLAIN))

    # -- words ----------------------------------------------------------------------------------------------

    def _at(self, offset: int) -> ir.Value:
        return self.b.gep(self.block, const(I64, offset), I8)

    def _word(self, offset: int) -> ir.Value:
        return self.b.load(self._at(offset), I64)

    def _put(self, number: int, value: ir.Value) -> None:
        self.b.store(value, self._at(self.places.word(number)))

    def _table(self, word: int, t: ir.Type = I64) -> ir.Value:
        return self.b.load(self.b.gep(self.table, const(I64, word), I64), t)

    def _function(self, word: int) -> ir.Value:
        return self._table(word, PTR)

    def _planned(self, place: int) -> ir.Value:
        return self.b.load(self.b.gep(self.plan, const(I64, place), I64), I64)

    def _leave_if(self, cond: ir.Value, code: int) -> None:
        with self.b.if_then(cond):
            self.b.ret(const(I32, code))

    # -- steps ----------------------------------------------------------------------------------------------

    def _leave_where_captured(self) -> None:
        """What another library records takes kernels, not graphs. The default stream cannot be recorded, but it is that
        of the context that is current: in another one a kernel is refused where a graph would run out of order.
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

    def _started(self) -> ir.Value:
        """The entries that this launch starts, as bits. If there are none it is made by none."""
        b = self.b
        found: ir.Value = const(I64, 0)
        for place in range(len(self.keys)):
            there = b.icmp_unsigned("!=", self._planned(place), const(I64, 0))
            found = b.or_(found, b.shl(b.zext(there, I64), const(I64, place)))
        self._leave_if(b.icmp_unsigned("==", found, const(I64, 0)), PLAIN)
        return found

    def _without(self, started: ir.Value) -> None:
        """No graph fits: count, and leave."""
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

    def _copy(self, at: int, source: ir.Value, size: int) -> None:
        copy = self.e.m.declare("llvm.memcpy.p0.p0.i64", VOID, [PTR, PTR, I64, I1])
        self.b.call(copy, [self._at(at), source, const(I64, size), const(I1, 0)])

    def _set_nodes(self, graph: ir.Value) -> None:
        """Let every node hold this launch, if they hold another one."""
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

    def _set_node(self, graph: ir.Value, place: int, key: Key) -> None:
        b, shape = self.b, self._planned(place)
        with b.if_then(b.icmp_unsigned("!=", shape, const(I64, 0))):
            set_node = self.e.m.helper("sg.set", I32, [PTR, PTR, I64, I64, I64, I64], _set)
            node = self._word(self.places.nodes + 8 * place)
            function = self._word(self.layout.functions[key])
            call = [self.block, self._function(SET_NODE), graph, node, function, shape]
            code = b.call(set_node, call)
            with b.if_then(b.icmp_unsigned("!=", code, const(I32, 0))):
                self._give_up(b.select(_is_of_context(b, code), const(I64, 0), const(I64, -1)))


def _is_of_context(b: IRBuilder, code: ir.Value) -> ir.Value:
    """Whether a call was refused since the thread must be attached first."""
    first, second = (b.icmp_unsigned("==", code, const(I32, known)) for known in CONTEXT_ERRORS)
    return b.or_(first, second)


def _set(e: Arith, function: ir.Function) -> None:
    """sg.set(block, cuGraphExecKernelNodeSetParams, graph, node, function, shape): the block is the one parameter."""
    b = e.b
    block, set_parameters, graph, node, handle, shape = function.args
    given, words = b.alloca(PTR), b.alloca(I64, NODE_PARAMETERS // 8)
    b.store(block, given)
    none = const(I64, 0)
    numbers = [*three(b, shape), const(I32, 0)]
    b.store(handle, words)
    for place, number in enumerate(numbers):
        b.store(number, b.gep(words, const(I64, 2 + place), I32))
    b.store(b.ptrtoint(given, I64), b.gep(words, const(I64, 5), I64))
    for place in range(6, NODE_PARAMETERS // 8):
        b.store(none, b.gep(words, const(I64, place), I64))
    b.ret(b.call_pointer(set_parameters, I32, [graph, node, words]))


def three(b: IRBuilder, shape: ir.Value) -> list[ir.Value]:
    """Blocks along three axes and threads along three, of a word of a plan."""
    one = const(I32, 1)
    return [b.trunc(shape, I32), one, one, b.trunc(b.lshr(shape, const(I64, 32)), I32), one, one]
