"""This module reduces updates of one element: each thread sums its own updates, then a subgroup adds up the sums.

    for i: loss[None] += f(x[i])      →      own = -0.0; for i of the thread: own += f(x[i]); subgroup: loss += all

Which updates can be kept, and which value changes nothing, is decided as on other GPUs (cuda/reductions.py). A thread
whose own part is the neutral element, bit by bit, takes no part: it may have made no update, and then the element may
not exist.

No barrier is needed, so a thread may leave its loop by an error. The sums of those threads of a subgroup that made
updates are added up by one instruction where the device has it for the type, and one thread makes the update. On other
devices, and where the instruction does not say what NaN and -0.0 give (minima and maxima of reals), each thread makes
its own update.
"""

from __future__ import annotations

from itertools import islice

from ...compiler.ir.kernels import Task
from ...compiler.ir.types import Scalar
from ..codegen import ir
from ..codegen.reductions import ElementSum, check_element, element_sums, linear_index, neutral_element
from ..codegen.types import bits_type, memory_type
from . import atomics
from . import opcodes as op
from .code import I1, I32
from .emit import Emitter
from .variables import ShaderVariable

MOST = 64
"""Greatest number of sums that a thread keeps; each takes a register."""

_ADDED = {("add", "f"): "GroupNonUniformFAdd"} | {
    (name, kind): f"GroupNonUniform{text}"
    for kind, sign in (("i", "S"), ("u", "U"))
    for name, text in (("add", "IAdd"), ("min", f"{sign}Min"), ("max", f"{sign}Max"))
}
"""Instructions on all active threads of a subgroup, by operation and kind of type."""

_REDUCE = 0
"""The group operation whose result is that of all threads."""


class ThreadSums:
    """Hold the variables in which each thread of a task sums its updates of elements that all iterations update.

    Attributes:
        sums: each sum with its variable
    """

    def __init__(self, e: Emitter, task: Task) -> None:
        self.sums: list[tuple[ElementSum, ShaderVariable]] = []
        if e.m.options.deterministic or e.m.in_order(e.task):
            return
        meeting = (s for s in element_sums(task, e.m.options) if e.m.is_atomic(e.task, s.array))
        for s in islice(meeting, MOST):
            t = memory_type(s.dtype)
            own = e.b.scalar(t)
            own.set(e.b.const(t, neutral_element(s.op, s.dtype)))
            self.sums.append((s, own))
            e.kept.update(dict.fromkeys(s.updates, own))

    def publish(self, e: Emitter) -> None:
        """Emit, after the last iteration of a thread, the updates of the elements by the thread's sums."""
        for s, own in self.sums:
            found = own.get()
            with e.b.if_then(_differs(e, found, e.const(found, neutral_element(s.op, s.dtype)))):
                _update(e, s, found)


def _differs(e: Emitter, found: ir.LLVMValue, nothing: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that two values differ in at least one bit, so that -0.0 differs from 0.0."""
    word = found.type if isinstance(found.type, ir.IntType) else bits_type(found.type)
    return e.b.icmp_unsigned("!=", e.b.bitcast(found, word), e.b.bitcast(nothing, word))


def _update(e: Emitter, s: ElementSum, own: ir.LLVMValue) -> None:
    """Emit the update of one element by all threads of a subgroup: one atomic if the device can add up the dtype."""
    name = _ADDED.get((s.op, "f" if s.dtype.is_real else s.dtype.kind))
    if name is None or not _has(e, s.dtype):
        check_element(e, s, e.trap_if)
        atomics.update(e, s.op, s.dtype, _element(e, s), own, atomic=True)
        return
    b = e.b
    for capability in ("GroupNonUniform", "GroupNonUniformArithmetic"):
        b.module.require(capability)
    scope = b.const(I32, op.SUBGROUP_SCOPE).id
    total = b.result_of(own.type, name, scope, _REDUCE, b.value(own).id)
    with b.if_then(b.result_of(I1, "GroupNonUniformElect", scope)):
        check_element(e, s, e.trap_if)
        atomics.update(e, s.op, s.dtype, _element(e, s), total, atomic=True)


def _has(e: Emitter, t: Scalar) -> bool:
    """Return True if the device can sum up values of this dtype over the threads of a subgroup."""
    features = e.m.features
    return features.subgroups and (t.is_real or t.bits == 32 or features.wide_subgroups)


def _element(e: Emitter, s: ElementSum) -> ir.LLVMValue:
    """Return the address of an element whose indices are equal in all iterations of the launch."""
    temp = e.m.layout.temps.get(s.array)
    if temp is not None:
        return e.slot_address(temp[0])
    offset = e.b.mul(linear_index(e, s), e.word(s.dtype.size))
    return e.b.add(e.address_of_array(s.array), offset)
