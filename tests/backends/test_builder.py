"""Test the builder of LLVM IR: constants, folding against LLVM itself, reused instructions, loaded code."""

from __future__ import annotations

import ctypes
import gc
import struct
from itertools import product

import numpy as np
import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.codegen import ir
from stackgrad.backends.codegen.builder import IRBuilder
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.codegen.types import I8, I16, I32, I64, const
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.host.jit import NativeCode
from stackgrad.backends.llvm.module import Generated, generate
from stackgrad.compiler.ir.parser import parse_kernel

NUMBERS = {ir.I1: (0, 1), I8: (-128, -2, -1, 0, 1, 5, 127), I64: (-(2**63), -1, 0, 1, 3, 2**63 - 1)}
BINARY = ("add", "sub", "mul", "and_", "or_", "xor")
SIGNS = ("==", "!=", "<", "<=", ">", ">=")


def _open(*params: ir.Type) -> tuple[ir.LLVMModule, IRBuilder, list[ir.LLVMValue]]:
    module = ir.LLVMModule()
    function = ir.LLVMFunction(module, "launch", I32, [ir.PTR, *params])
    return module, IRBuilder(function.append_basic_block("entry")), function.args


def _widened(b: IRBuilder, value: ir.LLVMValue, to: ir.Type) -> ir.LLVMValue:
    return value if value.type == to else b.zext(value, to)


def _native(module: ir.LLVMModule) -> NativeCode:
    empty = generate(parse_kernel("kernel k() { serial { } }"), Options(), CPU)
    return NativeCode(Generated(empty.kernel, str(module), empty.layout, ()), effort=0)


@pytest.mark.parametrize("t", NUMBERS, ids=str)
def test_folding_means_what_llvm_computes(t: ir.Type) -> None:
    """Each instruction on constants, and with one operand in memory, equals the one on two operands in memory."""
    module, b, (out,) = _open()
    apply = [lambda x, y, op=op: getattr(b, op)(x, y) for op in BINARY]
    for compare in (b.icmp_signed, b.icmp_unsigned):
        apply += [lambda x, y, s=s, c=compare: _widened(b, c(s, x, y), t) for s in SIGNS]
    if t == I8:
        apply += [lambda x, y: b.trunc(b.mul(b.sext(x, I64), b.zext(y, I64)), I8)]
    at = 0
    for (p, q), op in product(product(NUMBERS[t], repeat=2), apply):
        memory = [b.alloca(t), b.alloca(t)]
        b.store(const(t, p), memory[0])
        b.store(const(t, q), memory[1])
        x, y = (b.load(m, t) for m in memory)
        for value in (op(const(t, p), const(t, q)), op(x, const(t, q)), op(const(t, p), y), op(x, y)):
            b.store(_widened(b, value, I64), b.gep(out, const(I64, at), I64))
            at += 1
    b.ret(const(I32, 0))
    results = np.zeros(at, np.int64)
    code = _native(module)
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(code.address)(results.ctypes.data)
    rows = results.reshape(-1, 4)
    assert (rows == rows[:, 3:]).all() and len(set(results.tolist())) > 1


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, 0.1, float("inf"), -float("inf"), float("nan"), 6e-8])
def test_real_constants_keep_their_bits(number: float) -> None:
    module, b, (out,) = _open()
    for at, (t, word) in enumerate(((ir.HALF, I16), (ir.FLOAT, I32), (ir.DOUBLE, I64))):
        b.store(_widened(b, b.bitcast(const(t, number), word), I64), b.gep(out, const(I64, at), I64))
    b.ret(const(I32, 0))
    results = (ctypes.c_uint64 * 3)()
    code = _native(module)
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(code.address)(ctypes.addressof(results))
    expected = [int.from_bytes(struct.pack(f"<{code}", number), "little") for code in "efd"]
    assert list(results) == expected


def test_a_block_has_an_instruction_without_effects_once() -> None:
    """Loads are repeated, and so is everything in another block."""
    _, b, (out, x) = _open(I64)
    assert b.mul(x, x) is b.mul(x, x)
    assert b.load(out, I64).ref != b.load(out, I64).ref
    first = b.mul(x, x)
    b.position_at_end(b.function.append_basic_block("other"))
    assert b.mul(x, x).ref != first.ref


def test_a_block_ends_once() -> None:
    _, b, _ = _open()
    b.ret(const(I32, 0))
    with pytest.raises(AssertionError, match="ends twice"):
        b.ret(const(I32, 0))


def test_code_lives_as_long_as_its_executable() -> None:
    """Kernels share the linker, not their code: dropping one leaves the others."""
    backend = CpuBackend()
    made = [generate(parse_kernel("kernel k() { serial { } }"), Options(), backend.target) for _ in range(3)]
    codes = [NativeCode(g, effort=0) for g in made]
    assert len({code.address for code in codes}) == 3
    last = codes[2]
    del codes
    gc.collect()
    block = ctypes.create_string_buffer(made[2].layout.size + 64)
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(last.address)(ctypes.addressof(block)) == 0
