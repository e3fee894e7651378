"""Access to memory by address: loads, stores and atomics of physical pointers, and the block's own address.

An address is an integer of 64 bits; pointers exist only inside one instruction. Every access is aligned to its type.
"""
from __future__ import annotations

from ..llvm import ir
from . import opcodes as op
from .code import I32, I64, Code
from .module import Value

_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "f32": 4, "f64": 8}
_STORAGE = {1: "StorageBuffer8BitAccess", 2: "StorageBuffer16BitAccess"}


def pointer(code: Code, address: ir.Value, t: ir.Type) -> int:
    """The id of a pointer to a value of type t."""
    m = code.module
    if size_of(t) in _STORAGE:
        m.require(_STORAGE[size_of(t)])
    made = m.fresh()
    code.emit("ConvertUToPtr", m.pointer(op.PHYSICAL, m.type(t)), made, code.value(address).id)
    return made


def size_of(t: ir.Type) -> int:
    """Bytes in memory."""
    return _SIZES[t.name]


def load(code: Code, address: ir.Value, t: ir.Type) -> Value:
    """The content of memory."""
    return code.result_of(t, "Load", pointer(code, address, t), op.ALIGNED, size_of(t))


def load_once(code: Code, address: ir.Value, t: ir.Type) -> Value:
    """The content of memory that does not change while the shader runs."""
    key = "once", t, code.value(address).id
    known = code.remembered(key)
    return known if known is not None else code.remember(key, load(code, address, t))


def store(code: Code, value: ir.Value, address: ir.Value) -> None:
    """Overwrite memory."""
    v = code.value(value)
    code.emit("Store", pointer(code, address, v.type), v.id, op.ALIGNED, size_of(v.type))


def block_address(code: Code) -> Value:
    """Address of the argument block, from the push constant."""
    m, variable = code.module, code.module.push_constant()
    made = m.fresh()
    code.emit("AccessChain", m.pointer(op.PUSH_CONSTANT, m.type(I64)), made, variable, code.const(I32, 0).id)
    return code.result_of(I64, "Load", made)


def first_of(code: Code, name: str, number: int) -> Value:
    """The first word of a built-in variable, in 64 bits."""
    m = code.module
    variable = m.built_in(name, number)
    all_three = m.fresh()
    code.emit("Load", m.three_words, all_three, variable)
    return code.zext(code.result_of(I32, "CompositeExtract", all_three, 0), I64)


def _atomic(code: Code, address: ir.Value, t: ir.Type) -> tuple[int, int, int]:
    """(pointer, scope, semantics)."""
    if size_of(t) == 8 and isinstance(t, ir.IntType):
        code.module.require("Int64Atomics")
    place = pointer(code, address, t)
    return place, code.const(I32, op.DEVICE_SCOPE).id, code.const(I32, op.RELAXED).id


def atomic(code: Code, name: str, address: ir.Value, value: ir.Value) -> Value:
    """The old content, replaced by what the instruction makes of it."""
    v = code.value(value)
    return code.result_of(v.type, name, *_atomic(code, address, v.type), v.id)


def compare_exchange(code: Code, address: ir.Value, expected: ir.Value, value: ir.Value) -> Value:
    """The old content, of 32 or 64 bits; replaced if it is as expected."""
    v = code.value(value)
    place, scope, relaxed = _atomic(code, address, v.type)
    both = v.id, code.value(expected).id
    return code.result_of(v.type, "AtomicCompareExchange", place, scope, relaxed, relaxed, *both)
