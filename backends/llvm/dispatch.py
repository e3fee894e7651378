"""This module writes the function `launch(block)`, which runs the tasks of a kernel on a CPU.

The iterations of a parallel task are counted; the task runs as masked code if it has masked code and enough iterations,
and as branching code otherwise. Both have the form `(block, first, last, stride, row) -> status`. Masked code lies in a
module of its own, which the host makes when a launch first needs it: the word of the task is 0 until then, and
`request(block, task)`, whose address the block holds, fills the word or says that there is no masked code.
"""

from __future__ import annotations

from ...compiler.ir.kernels import Task
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.layout import DECLINED
from ..codegen.types import I8, I32, I64, PTR, VOID, const, pointer
from .clock import clock, slot
from .errors import FAILED, OK
from .function import NOTHING, TWICE, bounds_function, iteration_count, task_function
from .polls import poll
from .profitability import is_profitable, runs_along_rows
from .task_threads import LANES, TaskCode, filled_address, run_on_this_thread, run_on_threads, whole_range_arguments

WORTH = 16
"""Least number of iterations for which masked code is made, unless the options ask for masked code always."""

FEW = 8
"""Number of neighbors on the last axis below which a block, which ends where the axis does, has too few lanes in use.

A block of one neighbor takes as long as six iterations of branching code: it decodes its number by divisions.
"""


def launch_function(m: ModuleState) -> ir.LLVMFunction:
    """Write `launch(block)`, which clears temporaries and runs all tasks in order.

    The function returns FAILED if an error was recorded or a signal handler has raised something, else OK.
    """
    function = ir.LLVMFunction(m.module, "launch", I32, [pointer(m.target.space)], ("nounwind",))
    m.module.lines.enter(function, None)
    b = IRBuilder(function.append_basic_block("entry"))
    block = function.args[0]
    for at, _ in m.layout.temps.values():
        b.store(const(I64, 0), b.gep(block, const(I64, at), I8, inbounds=True))
    laps = _TaskTimer(m, b, block)
    for index, task in enumerate(m.kernel.tasks):
        if index:
            # A signal that came during the task before ends the launch between tasks.
            with b.if_then(poll(m, b, block)):
                b.ret(const(I32, FAILED))
        if task.is_parallel:
            _unless(b, function, b.call(bounds_function(m, index, task), [block]))
            _Dispatch(m, b, block, index, task).emit()
        else:
            run = task_function(m, index, task)
            _unless(b, function, b.call(run, [block, *whole_range_arguments(const(I64, 1))]))
        laps.note(index + 1)
    b.ret(const(I32, OK))
    return function


def _unless(b: IRBuilder, function: ir.LLVMFunction, status: ir.LLVMValue) -> None:
    """Emit code that ends the launch if the status is not OK; after a `return` of the kernel there is no error."""
    stop, go_on = function.append_basic_block("stop"), function.append_basic_block("next")
    b.cbranch(b.icmp_unsigned("==", status, const(I32, OK)), go_on, stop)
    b.position_at_end(stop)
    failed = b.icmp_unsigned("==", status, const(I32, FAILED))
    b.ret(b.select(failed, const(I32, FAILED), const(I32, OK)))
    b.position_at_end(go_on)


class _TaskTimer:
    """Emit code that measures the time of each task, if the argument block has an address for times.

    Word 0 is the last reading of the clock, and word k + 1 the sum of the times of task k.
    """

    def __init__(self, m: ModuleState, b: IRBuilder, block: ir.LLVMValue) -> None:
        self.m, self.b = m, b
        self.words = b.load(slot(b, block, m.layout.laps_at), I64)
        self.wanted = b.icmp_unsigned("!=", self.words, const(I64, 0))
        self.note(0)

    def note(self, word: int) -> None:
        """Emit code that adds the time since the last reading of the clock to word number `word`."""
        b = self.b
        read, done = b.function.append_basic_block("lap"), b.function.append_basic_block("task")
        b.cbranch(self.wanted, read, done, unlikely=True)
        b.position_at_end(read)
        lap = self.m.helper("sg.lap", VOID, [I64, I64], self._body, ("nounwind", "cold", "noinline"))
        b.call(lap, [self.words, const(I64, word)])
        b.branch(done)
        b.position_at_end(done)

    def _body(self, e: ArithEmitter, function: ir.LLVMFunction) -> None:
        b, (address, word) = e.b, function.args
        words = b.inttoptr(address, PTR)
        now, own = clock(self.m, b), b.gep(words, word, I64)
        b.store(b.add(b.load(own, I64), b.sub(now, b.load(words, I64))), own)
        b.store(now, words)
        b.ret_void()


class _Dispatch:
    """Emit the code that runs one parallel task over its whole box, as masked code or as branching code."""

    def __init__(self, m: ModuleState, b: IRBuilder, block: ir.LLVMValue, index: int, task: Task) -> None:
        self.m, self.b, self.block, self.index = m, b, block, index
        self.function = b.function
        self.last_axis = len(task.indices) - 1
        self.has_rows = self.last_axis > 0 and runs_along_rows(task)
        self.has_stacks = any(stack.task == index for stack in m.layout.stacks)
        self.spreads = m.options.threads > 1 and m.sharing(index).pays
        # Where masked code is preferred, branching code runs seldom and is not written twice.
        additions = NOTHING if m.options.lanes != 0 and is_profitable(task, m.target.vector_masks) else TWICE
        self.branching = task_function(m, index, task, inline=not self.spreads, additions=additions)
        self.count = iteration_count(b, m, block, index, len(task.indices))

    def emit(self) -> None:
        """Emit the runs of the task, as masked or as branching code; a status that is not OK ends the launch."""
        b, done = self.b, self.function.append_basic_block("ran")
        if self.m.options.lanes != 0:
            masked, plain = self._split(self._wanted())
            b.position_at_end(masked)
            address = self._variant()
            some = self.function.append_basic_block("masked")
            b.cbranch(b.icmp_unsigned(">", address, const(I64, DECLINED)), some, plain)
            b.position_at_end(some)
            self._run(TaskCode(b.inttoptr(address, PTR), self.m.options.lanes or LANES))
            b.branch(done)
            b.position_at_end(plain)
        self._run(TaskCode(self.branching, 1))
        b.branch(done)
        b.position_at_end(done)

    def _run(self, code: TaskCode) -> None:
        """Emit a run of the task by the given code, on several threads if that is faster."""
        if self.spreads:
            status = run_on_threads(self.m, self.b, self.block, self.index, self.count, code)
        else:
            status = run_on_this_thread(self.m, self.b, self.block, self.index, self.count, code)
        _unless(self.b, self.function, status)

    def _split(self, cond: ir.LLVMValue) -> tuple[ir.BasicBlock, ir.BasicBlock]:
        yes, no = self.function.append_basic_block("wanted"), self.function.append_basic_block("branching")
        self.b.cbranch(cond, yes, no)
        return yes, no

    def _wanted(self) -> ir.LLVMValue:
        """Return the condition that the task has enough iterations, and rows for all lanes, to run as masked code."""
        b, is_free = self.b, self.m.options.lanes is None
        enough = b.icmp_unsigned(">=", self.count, const(I64, WORTH if is_free else 1))
        if is_free and self.has_rows:
            neighbors = b.load(slot(b, self.block, self.m.layout.boxes[self.index] + 16 * self.last_axis + 8), I64)
            enough = b.and_(enough, b.icmp_unsigned(">=", neighbors, const(I64, FEW)))
        if not self.has_stacks:
            return enough
        lanes = b.load(slot(b, self.block, self.m.layout.lanes[self.index]), I64)
        return b.and_(enough, b.icmp_unsigned(">", lanes, const(I64, 1)))

    def _variant(self) -> ir.LLVMValue:
        """Return the address of the masked code of the task; if it is not compiled yet, request it from the host."""
        return filled_address(self.m, self.b, self.block, self.m.layout.variants[self.index], self.index)
