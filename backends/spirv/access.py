"""Emit loads, stores and atomics at addresses, and compute the address of the argument block.

An address is an integer of 64 bits; a pointer exists only inside one instruction. Every access is aligned to its type.
On a device without buffer addresses, an address is a number of bytes from the begin of a buffer, and this buffer is the
root of the value. Such a buffer has less than 2^32 bytes, so the number of an element, from which a pointer is made,
has 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen import ir
from ..codegen.types import I32, I64
from . import opcodes as op
from .bindings import BLOCK
from .module import SpirvValue

if TYPE_CHECKING:
    from .code import ArithmeticWriter

_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "f32": 4, "f64": 8}
_STORAGE = {1: "StorageBuffer8BitAccess", 2: "StorageBuffer16BitAccess"}


def pointer(code: ArithmeticWriter, address: ir.LLVMValue, t: ir.Type) -> int:
    """Return the id of a pointer to a value of type `t` at an address.

    Without buffer addresses, the address must have a root, which is the binding of the buffer.
    """
    m = code.module
    if size_of(t) in _STORAGE:
        m.require(_STORAGE[size_of(t)])
    place, made = code.value(address), m.fresh()
    if m.physical:
        code.emit("Bitcast" if m.paired else "ConvertUToPtr", m.pointer(op.PHYSICAL, m.type(t)), made, place.id)
        return made
    assert place.root is not None, "an address in no buffer"
    buffer, zero = m.storage_buffer(place.root, t, size_of(t)), code.const(I32, 0).id
    number = _element(code, place, size_of(t))
    code.emit("AccessChain", m.pointer(op.STORAGE_BUFFER, m.type(t)), made, buffer, zero, number.id)
    return made


def _element(code: ArithmeticWriter, place: SpirvValue, size: int) -> SpirvValue:
    """Return the number of the element of `size` bytes at a byte offset in a buffer, as an I32."""
    if place.number is not None:
        return code.const(I32, int(place.number) // size)
    return code.trunc(code.lshr(place, code.const(I64, size.bit_length() - 1)), I32)


def _aligned(code: ArithmeticWriter, t: ir.Type) -> tuple[int, ...]:
    """Return the words that state the alignment of a load or store of a value of type `t`."""
    return (op.ALIGNED, size_of(t)) if code.module.physical else ()


def rooted(address: ir.LLVMValue, root: int | None) -> ir.LLVMValue:
    """Return an address marked to lie in the buffer with binding `root`, or unchanged if `root` is None.

    The root is None on devices with buffer addresses.
    """
    if root is None:
        return address
    assert isinstance(address, SpirvValue)
    return address.within(root)


def size_of(t: ir.Type) -> int:
    """Return the number of bytes that a value of type `t` takes in memory."""
    return _SIZES[t.name]


def load(code: ArithmeticWriter, address: ir.LLVMValue, t: ir.Type) -> SpirvValue:
    """Emit a load of a value of type `t` from an address, and return the value."""
    return code.result_of(t, "Load", pointer(code, address, t), *_aligned(code, t))


def load_once(code: ArithmeticWriter, address: ir.LLVMValue, t: ir.Type) -> SpirvValue:
    """Emit a load of a value that does not change while the shader runs, at most once in a function.

    The caller emits it at the head of the function (`Body.at_head`).
    """
    place = code.value(address)
    key = "once", t, place.id, place.root
    known = code.remembered(key)
    if known is not None:
        return known
    made = load(code, address, t)
    # A driver knows nothing of this content, whereas it may know what the shader itself has stored in other memory.
    code.unknown.add(made.id)
    return code.remember(key, made)


def store(code: ArithmeticWriter, value: ir.LLVMValue, address: ir.LLVMValue) -> None:
    """Overwrite the memory at an address with a value."""
    v = code.value(value)
    code.emit("Store", pointer(code, address, v.type), v.id, *_aligned(code, v.type))


def block_address(code: ArithmeticWriter) -> SpirvValue:
    """Return the address of the argument block, which the launch passes as a push constant."""
    if not code.module.physical:
        return code.const(I64, 0).within(BLOCK)
    m, variable = code.module, code.module.push_constant()
    made = m.fresh()
    code.emit("AccessChain", m.pointer(op.PUSH_CONSTANT, m.type(I64)), made, variable, code.const(I32, 0).id)
    return code.result_of(I64, "Load", made)


def first_of(code: ArithmeticWriter, name: str, number: int) -> SpirvValue:
    """Return the first word of a built-in variable of three words, widened to 64 bits.

    Args:
        code: function being written
        name: name under which the module declares the variable
        number: number of the built-in in SPIR-V, such as `GLOBAL_INVOCATION_ID`
    """
    m = code.module
    variable = m.built_in(name, number)
    all_three = m.fresh()
    code.emit("Load", m.three_words, all_three, variable)
    return code.zext(code.result_of(I32, "CompositeExtract", all_three, 0), I64)


def chunk(code: ArithmeticWriter) -> tuple[SpirvValue, SpirvValue]:
    """Return the number of this dispatch's first thread and the task's number of threads, in 64 bits.

    Without buffer addresses, a task whose adstacks do not fit in one buffer is dispatched in parts. Each part has a
    buffer of its own, in which its rows count from 0.
    """
    m, variable, out = code.module, code.module.launch_word(), []
    for member in range(2):
        made = m.fresh()
        code.emit("AccessChain", m.pointer(op.PUSH_CONSTANT, m.type(I32)), made, variable, code.const(I32, member).id)
        out.append(code.zext(code.result_of(I32, "Load", made), I64))
    return out[0], out[1]


def _atomic(code: ArithmeticWriter, address: ir.LLVMValue, t: ir.Type) -> tuple[int, int, int]:
    """Return the ids of the pointer, scope and memory semantics operands of an atomic instruction on an address."""
    if size_of(t) == 8 and isinstance(t, ir.IntType):
        code.module.require("Int64Atomics")
    place = pointer(code, address, t)
    return place, code.const(I32, op.DEVICE_SCOPE).id, code.const(I32, op.RELAXED).id


def atomic(code: ArithmeticWriter, name: str, address: ir.LLVMValue, value: ir.LLVMValue) -> SpirvValue:
    """Emit the atomic instruction `name` on the memory at an address and return the old value."""
    v = code.value(value)
    return code.result_of(v.type, name, *_atomic(code, address, v.type), v.id)


def compare_exchange(
    code: ArithmeticWriter, address: ir.LLVMValue, expected: ir.LLVMValue, value: ir.LLVMValue
) -> SpirvValue:
    """Store `value` at an address if the value there, of 32 or 64 bits, equals `expected`; return the old value."""
    v = code.value(value)
    place, scope, relaxed = _atomic(code, address, v.type)
    both = v.id, code.value(expected).id
    return code.result_of(v.type, "AtomicCompareExchange", place, scope, relaxed, relaxed, *both)
