"""This module runs the threads of a block as fibers with a stack each, in warps of 32 lanes.

A thread runs until it comes to a barrier or to a joint operation of a warp. Then it writes a request into its mail, and
the next thread runs. A barrier opens when all threads of the block that still run have reached it. A warp goes on when
all its lanes that still run ask for the same operation. So a missing barrier shows: data that another thread should
have written is missing. Shared memory of a block is garbage at first.

Threads of one block take turns in one thread of the host, in a fixed order; blocks run one after another.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache

from .checks import EPOCH, EPOCH_SHIFT, SIZES, CheckPlaces, Untranslatable

AVAILABLE = sys.platform == "linux"
"""True if the C library of this system switches contexts as this module assumes."""

WARP, MOST = 32, 512
"""Number of lanes of a warp (WARP), and largest number of threads of a block (MOST)."""

_CONTEXT, _STACK, _MAIL = 8192, 1 << 18, 32
"""Bytes of a context (more than glibc takes on any machine), of a stack, and of a mail.

A mail holds its kind, three numbers, and the answer.
"""

_OF_PHASE, _OF_BLOCK, _MANY = 10, 20, 1023
"""Layout of a thread in the tags of checks.py.

From bit 0 on stands the number of the thread in its block + 1, or _MANY for several threads; from bit _OF_PHASE on the
number of barriers that the block has passed; from bit _OF_BLOCK on the number of the block. Numbers that are too large
begin again at 0.
"""

IDENTITY = f"""
define internal i1 @"sg.emulated.apart"(i64 %other, i64 %me) {{
  %x = xor i64 %other, %me
  %atomic = and i64 %other, ATOMIC
  %several = icmp ne i64 %atomic, 0
  %block.0 = lshr i64 %x, {_OF_BLOCK}
  %block.1 = and i64 %block.0, 4095
  %blocks = icmp ne i64 %block.1, 0
  %phase.0 = lshr i64 %x, {_OF_PHASE}
  %phase.1 = and i64 %phase.0, {_MANY}
  %now = icmp eq i64 %phase.1, 0
  %thread.0 = and i64 %x, {_MANY}
  %threads = icmp ne i64 %thread.0, 0
  %unordered = and i1 %now, %threads
  %elsewhere = or i1 %several, %blocks
  %apart = or i1 %elsewhere, %unordered
  ret i1 %apart
}}
define internal i64 @"sg.emulated.both"(i64 %other, i64 %me) {{
  %x = xor i64 %other, %me
  %atomic = and i64 %other, ATOMIC
  %block.0 = lshr i64 %x, {_OF_BLOCK}
  %block.1 = and i64 %block.0, 4095
  %elsewhere = or i64 %atomic, %block.1
  %blocks = icmp ne i64 %elsewhere, 0
  %everywhere = or i64 %me, ATOMIC
  %here = or i64 %me, {_MANY}
  %both = select i1 %blocks, i64 %everywhere, i64 %here
  ret i64 %both
}}
"""

RAN, BARRIER, BALLOT, DOWN, FROM, TOGETHER = range(6)
"""Kinds of mail."""

ASKS = {
    "llvm.nvvm.barrier.cta.sync.aligned.all": ("void", ("i32",), BARRIER),
    "llvm.nvvm.vote.ballot.sync": ("i32", ("i32", "i1"), BALLOT),
    "llvm.nvvm.shfl.sync.down.i32": ("i32", ("i32", "i32", "i32", "i32"), DOWN),
    "llvm.nvvm.shfl.sync.idx.i32": ("i32", ("i32", "i32", "i32", "i32"), FROM),
    "llvm.nvvm.bar.warp.sync": ("void", ("i32",), TOGETHER),
}
"""Joint operations of threads: type of the result, types of the parameters, kind of mail."""

REGISTERS = ("tid.x", "laneid", "warpid", "lanemask.lt", "lanemask.le", "lanemask.eq", "lanemask.gt", "lanemask.ge")
"""Special registers that differ between the threads of a block."""


class FiberDeadlock(Exception):
    """Signal that threads of a block wait for other threads that can never arrive."""


class Fibers:
    """A `Fibers` holds, for each thread of the running block, a stack and a mailbox, which passes requests."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, (MOST + 1) * (_CONTEXT + _STACK) + MOST * _MAIL)
        self.contexts = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.stacks = self.contexts + (MOST + 1) * _CONTEXT
        self.mails = self.stacks + (MOST + 1) * _STACK
        self._mail = (ctypes.c_uint32 * (MOST * _MAIL // 4)).from_address(self.mails)

    def run(self, resume: Callable[[int, int], int], width: int, backward: bool) -> int:
        """Run the threads of a block. Return the most threads that had ended when the others met at a barrier.

        Args:
            resume: runs a thread to its next mail and returns the kind; the arguments are the thread and the phase.
            width: the number of threads.
            backward: run the last thread first.

        Returns:
            The greatest number of threads that had ended when others reached a barrier.
        """
        order = range(width - 1, -1, -1) if backward else range(width)
        waiting: dict[int, int] = {}
        ready: Sequence[int] = order
        early = phase = 0
        while ready:
            for thread in ready:
                kind = resume(thread, phase)
                waiting.pop(thread, None)
                if kind != RAN:
                    waiting[thread] = kind
            ready = self._released(waiting, order)
            # All threads that go on came to a barrier, which orders their accesses before and after it.
            if ready and waiting[ready[0]] == BARRIER:
                phase += 1
                early = max(early, width - len(waiting))
        return early

    def _released(self, waiting: dict[int, int], order: Sequence[int]) -> list[int]:
        """Return the threads whose barrier or warp operation is complete, in order, after writing their results."""
        if not waiting:
            return []
        if all(kind == BARRIER for kind in waiting.values()):
            return [thread for thread in order if thread in waiting]
        found = []
        for warp in {thread // WARP for thread in waiting}:
            lanes = [thread for thread in order if thread // WARP == warp and thread in waiting]
            kinds = {waiting[thread] for thread in lanes}
            if len(kinds) == 1 and kinds != {BARRIER}:
                self._answer(kinds.pop(), lanes)
                found += lanes
        if not found:
            raise FiberDeadlock(f"threads wait for each other: {waiting}")
        return found

    def _answer(self, kind: int, lanes: Sequence[int]) -> None:
        """Write the result of a warp operation to the mailbox of each lane of the warp."""
        words, step = self._mail, _MAIL // 4
        told = {lane % WARP: tuple(words[lane * step + k] for k in (1, 2, 3)) for lane in lanes}
        for lane in lanes:
            mask, value, way = told[lane % WARP]
            # On a device, lanes that operate together must all name each other.
            missing = [other for other in told if not mask >> other & 1]
            if missing:
                raise FiberDeadlock(f"thread {lane} names lanes {mask:#x}, and {missing} have come")
            if kind == BALLOT:
                answer = sum((told[other][1] & 1) << other for other in told)
            else:
                source = lane % WARP + way if kind == DOWN else way
                answer = told[source][1] if source in told else value
            words[lane * step + 4] = answer


def thread_of(tag: int, width: int) -> int:
    """Return 1 plus the number of a thread in the grid, given the tag of the thread in the race detector."""
    return (tag >> _OF_BLOCK) * width + (tag & _MANY)


@cache
def fibers() -> Fibers:
    """Return the `Fibers` of this process, which all emulated devices share."""
    return Fibers()


# ---- text ---------------------------------------------------------------------------------------------------


def insert_requests(text: str) -> str:
    """Return the LLVM code with barriers and warp operations replaced by requests that threads write to a mailbox."""
    for name in ASKS:
        text = re.sub(rf"^declare [^\n]*@\"?{re.escape(name)}\"?\([^\n]*\n", "", text, flags=re.M)
        text = re.sub(rf"@\"?{re.escape(name)}\"?(?=\()", f'@"{_own(name)}"', text)
    return text


def fiber_text(text: str, room: Fibers, places: CheckPlaces) -> str:
    """Return the LLVM code that each module needs for fibers: mailboxes, thread switch, and start of a block."""
    words = {
        "CONTEXT_BYTES": _CONTEXT,
        "CONTEXTS": room.contexts,
        "MAIL_BYTES": _MAIL,
        "MAILS": room.mails,
        "STACK_BYTES": _STACK,
        "STACKS": room.stacks,
        "EPOCH_AT": places.word(EPOCH),
        "EPOCH_SHIFT": EPOCH_SHIFT,
        "OF_BLOCK": _OF_BLOCK,
        "OF_PHASE": _OF_PHASE,
        "MANY_THREADS": _MANY,
        "GARBAGE": _garbage(text),
        "MASKS": "\n".join(f'  store volatile i32 %{name}, ptr @"sg.emulated.{name}"' for name in REGISTERS),
    }
    filled = re.sub(r"\b[A-Z_]{5,}\b", lambda m: str(words[m[0]]), _TEXT)
    return "\n".join([*(_ask(name, *row) for name, row in ASKS.items()), filled])


_TEXT = """
@"sg.emulated.me" = global i64 0
@"sg.emulated.buffer" = global ptr null
declare i32 @getcontext(ptr)
declare void @makecontext(ptr, ptr, i32, ...)
declare i32 @swapcontext(ptr, ptr)
declare ptr @memset(ptr, i32, i64)
define ptr @"sg.emulated.context"(i64 %thread) {
  %next = add i64 %thread, 1
  %off = mul i64 %next, CONTEXT_BYTES
  %at = add i64 %off, CONTEXTS
  %p = inttoptr i64 %at to ptr
  ret ptr %p
}
define ptr @"sg.emulated.mail"(i64 %thread) {
  %off = mul i64 %thread, MAIL_BYTES
  %at = add i64 %off, MAILS
  %p = inttoptr i64 %at to ptr
  ret ptr %p
}
define i32 @"sg.emulated.ask"(i32 %kind, i32 %a, i32 %b, i32 %c) noinline {
  %me = load volatile i64, ptr @"sg.emulated.me"
  %mail = call ptr @"sg.emulated.mail"(i64 %me)
  %mail.1 = getelementptr i32, ptr %mail, i64 1
  %mail.2 = getelementptr i32, ptr %mail, i64 2
  %mail.3 = getelementptr i32, ptr %mail, i64 3
  %mail.4 = getelementptr i32, ptr %mail, i64 4
  store volatile i32 %kind, ptr %mail
  store volatile i32 %a, ptr %mail.1
  store volatile i32 %b, ptr %mail.2
  store volatile i32 %c, ptr %mail.3
  %own = call ptr @"sg.emulated.context"(i64 %me)
  %host = inttoptr i64 CONTEXTS to ptr
  %ok = call i32 @swapcontext(ptr %own, ptr %host)
  %answer = load volatile i32, ptr %mail.4
  ret i32 %answer
}
define void @"fibers.start"(i64 %thread, ptr %entry) {
  %context = call ptr @"sg.emulated.context"(i64 %thread)
  %ok = call i32 @getcontext(ptr %context)
  %link.at = getelementptr i64, ptr %context, i64 1
  %stack.at = getelementptr i64, ptr %context, i64 2
  %size.at = getelementptr i64, ptr %context, i64 4
  %off = mul i64 %thread, STACK_BYTES
  %stack = add i64 %off, STACKS
  store i64 0, ptr %link.at
  store i64 %stack, ptr %stack.at
  store i64 STACK_BYTES, ptr %size.at
  call void (ptr, ptr, i32, ...) @makecontext(ptr %context, ptr %entry, i32 0)
  ret void
}
define void @"fibers.block"(i64 %block, i64 %blocks, i64 %width, ptr %buffer) {
  %ctaid.x = trunc i64 %block to i32
  %nctaid.x = trunc i64 %blocks to i32
  %ntid.x = trunc i64 %width to i32
  store volatile i32 %ctaid.x, ptr @"sg.emulated.ctaid.x"
  store volatile i32 %nctaid.x, ptr @"sg.emulated.nctaid.x"
  store volatile i32 %ntid.x, ptr @"sg.emulated.ntid.x"
  store volatile i32 32, ptr @"sg.emulated.warpsize"
  store ptr %buffer, ptr @"sg.emulated.buffer"
  store i64 1, ptr @"sg.emulated.low"
  store i64 0, ptr @"sg.emulated.high"
GARBAGE
  ret void
}
define i32 @"fibers.resume"(i64 %thread, i64 %phase) {
  store volatile i64 %thread, ptr @"sg.emulated.me"
  %tid.x = trunc i64 %thread to i32
  %laneid = and i32 %tid.x, 31
  %warpid = lshr i32 %tid.x, 5
  %lanemask.eq = shl i32 1, %laneid
  %lanemask.lt = sub i32 %lanemask.eq, 1
  %lanemask.le = or i32 %lanemask.lt, %lanemask.eq
  %lanemask.ge = xor i32 %lanemask.lt, -1
  %lanemask.gt = xor i32 %lanemask.le, -1
MASKS
  %block = load volatile i32, ptr @"sg.emulated.ctaid.x"
  %block.bits = shl i32 %block, OF_BLOCK
  %phase.word = trunc i64 %phase to i32
  %phase.low = and i32 %phase.word, MANY_THREADS
  %phase.bits = shl i32 %phase.low, OF_PHASE
  %one = add i32 %tid.x, 1
  %when = or i32 %block.bits, %phase.bits
  %who = or i32 %when, %one
  %wide = zext i32 %who to i64
  %epoch.at = inttoptr i64 EPOCH_AT to ptr
  %epoch.word = load i64, ptr %epoch.at
  %epoch = shl i64 %epoch.word, EPOCH_SHIFT
  %tag = or i64 %epoch, %wide
  store volatile i64 %tag, ptr @"sg.emulated.tag"
  %host = inttoptr i64 CONTEXTS to ptr
  %own = call ptr @"sg.emulated.context"(i64 %thread)
  %ok = call i32 @swapcontext(ptr %host, ptr %own)
  %mail = call ptr @"sg.emulated.mail"(i64 %thread)
  %kind = load volatile i32, ptr %mail
  ret i32 %kind
}"""


def _own(name: str) -> str:
    return f"sg.emulated.{name.removeprefix('llvm.nvvm.')}"


def _ask(name: str, result: str, types: Sequence[str], kind: int) -> str:
    """Return an LLVM function that puts a request into the mailbox in place of a barrier or warp intrinsic."""
    parameters = ", ".join(f"{t} %a{k}" for k, t in enumerate(types))
    wide = [f"  %w{k} = zext {t} %a{k} to i32\n" for k, t in enumerate(types) if t != "i32"]
    words = [f"i32 %{'a' if t == 'i32' else 'w'}{k}" for k, t in enumerate(types[:3])] + ["i32 0"] * 3
    call = f'  %v = call i32 @"sg.emulated.ask"(i32 {kind}, {", ".join(words[:3])})'
    ends = "  ret void" if result == "void" else "  ret i32 %v"
    return f'define {result} @"{_own(name)}"({parameters}) noinline {{\n{"".join(wide)}{call}\n{ends}\n}}'


def _garbage(text: str) -> str:
    """Return code that fills a block's shared memory with one-bits, so that reads before writes are noticed."""
    lines = []
    found = re.findall(r'^@"(sg\.shared\.[^"]+)" = [^\n]*\[(\d+) x (\w+)\]', text, re.M)
    for k, (name, count, kind) in enumerate(found):
        if kind not in SIZES:
            raise Untranslatable(f"shared memory of {kind}")
        place = f'addrspacecast (ptr addrspace(3) @"{name}" to ptr)'
        lines.append(f"  %filled.{k} = call ptr @memset(ptr {place}, i32 255, i64 {int(count) * SIZES[kind]})")
    return "\n".join(lines)


def entry_text(name: str, loads: str, arguments: str) -> str:
    """Return the LLVM function that a fiber runs: it calls the entry point and never returns."""
    return f"""define void @"run.{name}"() {{
  %buffer = load volatile ptr, ptr @"sg.emulated.buffer"
{loads}
  call void @"{name}"({arguments})
  %over = call i32 @"sg.emulated.ask"(i32 {RAN}, i32 0, i32 0, i32 0)
  unreachable
}}"""
