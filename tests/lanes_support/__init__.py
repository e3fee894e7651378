"""Compile one inlined mathematical function alone, on arrays, for tests and measurements of it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import llvmlite.binding as llvm
import numpy as np
from stackgrad.backends.base import Options
from stackgrad.backends.codegen import ir
from stackgrad.backends.codegen.builder import IRBuilder
from stackgrad.backends.codegen.emit import PURE, ArithEmitter, ModuleState
from stackgrad.backends.codegen.libcall import LIBRARY
from stackgrad.backends.codegen.polynomials import emit_inlined
from stackgrad.backends.codegen.polynomials.gpu_trigonometric import emit_sin_or_cos, emit_sincos
from stackgrad.backends.codegen.target import Target
from stackgrad.backends.codegen.types import F32, F64, I64, PTR, VOID, const
from stackgrad.backends.host.jit import host_cpu, host_target, machine
from stackgrad.backends.llvm.compiler_lock import LOCK
from stackgrad.backends.llvm.optimize import optimize, parse
from stackgrad.compiler.ir.kernels import Kernel

WIDE = ("nounwind", '"prefer-vector-width"="512"', '"min-legal-vector-width"="512"')
ARITY = {"atan2": 2, "pow": 2, "fmod": 2}
"""Number of operands where it is not 1."""

TOGETHER = ("sin beside cos", "cos beside sin")
"""Names of what code for both gives."""


def module_text(name: str, double: bool, lanes: int, target: Target, reach: float = math.inf) -> str:
    """Return LLVM IR of `run(x..., out, count)`, which computes out[k] = name(x[k]...) in blocks of `lanes`.

    It computes one element at a time if `lanes` is 0.
    """
    m, arity = ModuleState(Kernel("none", (), ()), Options(), target), ARITY.get(name, 1)
    scalar, align = (F64, 8) if double else (F32, 4)
    t = ir.VectorType(scalar, lanes) if lanes else scalar
    function = ir.LLVMFunction(m.module, "run", VOID, [*[PTR] * (arity + 1), I64], WIDE)
    entry, head, done = (function.append_basic_block(part) for part in ("entry", "block", "done"))
    b = IRBuilder(entry)
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(I64)
    places = [b.gep(place, k, scalar) for place in function.args[: arity + 1]]
    args = [b._value(t, f"load {t.text}, {place}, align {align}") for place in places[:-1]]
    library = m.declare(LIBRARY[name.split()[0]]["libm"][double], scalar, [scalar] * arity, PURE)
    e = ArithEmitter(m, b)
    if name in TOGETHER:
        both = [m.declare(LIBRARY[one]["libm"][0], F32, [F32], PURE) for one in ("sin", "cos")]
        out = emit_sincos(e, args[0], reach, (both[0], both[1]))[TOGETHER.index(name)]
    else:
        out = emit_sin_or_cos(e, name, library, args[0], reach) if target.lean else emit_inlined(e, name, library, args)
    b.block.lines.append(f"  store {out}, {places[-1]}, align {align}")
    following = b.add(k, const(I64, max(lanes, 1)))
    k.add_incoming(const(I64, 0), entry)
    k.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, function.args[-1]), head, done)
    IRBuilder(done).ret_void()
    return str(m.module)


@cache
def compiled(
    name: str, double: bool, lanes: int, fused: bool, short: bool = False, reach: float = math.inf
) -> tuple[llvm.ExecutionEngine, Callable[..., None]]:
    """Return (engine, run) for a function; the code lives as long as the engine."""
    text = module_text(name, double, lanes, replace(host_target(), fused=fused, lean=short), reach)
    with LOCK:
        module = parse(text, machine().triple, str(machine().target_data))
        optimize(module, machine())
        cpu, features = host_cpu()
        own = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
        engine = llvm.create_mcjit_compiler(module, own)
        engine.finalize_object()
    types = [*[ctypes.c_void_p] * (ARITY.get(name, 1) + 1), ctypes.c_int64]
    return engine, ctypes.CFUNCTYPE(None, *types)(engine.get_function_address("run"))


def evaluate(
    name: str,
    *args: np.ndarray,
    lanes: int = 64,
    fused: bool | None = None,
    short: bool = False,
    reach: float = math.inf,
) -> np.ndarray:
    """Return name(args), computed in blocks of lanes; `short` and `reach` select the code for GPUs.

    Operands are repeated to fill the last block. fused: what the CPU has if None. short: by the code for GPUs
    (polynomials/gpu_trigonometric.py), one by one; reach: made for arguments up to there.
    """
    count, block = len(args[0]), max(lanes, 1)
    filled = [np.resize(x, -(-count // block) * block) for x in args]
    out = np.empty_like(filled[0])
    fused = host_target().fused if fused is None else fused
    _, run = compiled(name, out.dtype == np.float64, lanes, fused, short, reach)
    run(*[x.ctypes.data for x in filled], out.ctypes.data, len(out))
    return out[:count]
