"""Define the table of all scalar operations in LLVM IR, one entry each, which CPUs and GPUs share.

An entry is free of control flow (edge cases are selects), so it takes scalars and vectors alike. f16 is computed as f32
and rounded after each operation: entries see f32 and f64 only. User arithmetic carries no fast-math flags; without
`precise`, add, sub and mul may contract.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir.ops import OPS, result_type
from ...compiler.ir.table import Table
from ...compiler.ir.types import Scalar, f16, f32
from . import integers, ir
from .casts import cast
from .emit import ArithEmitter
from .libcall import call, libcall
from .types import I32, bits_type, like, mantissa_bits, suffix

OpRow = Callable[..., ir.LLVMValue]
"""row(e, t, *args): emits the operation on operands of type t (of `select`: the type of the alternatives)."""

LLVM: Table[str, OpRow] = Table(
    "llvm", OPS, about="the instructions of LLVM for the operation, for scalars and vectors"
)


def apply(e: ArithEmitter, name: str, types: tuple[Scalar, ...], *args: ir.LLVMValue) -> ir.LLVMValue:
    """Emit the named operation on values of the given IR types and return its result.

    Args:
        e: Arithmetic to emit into.
        name: Name of the operation in OPS.
        types: IR types of the operands.
        *args: Operands.
    """
    t = types[-1]
    if t != f16 or name == "select":
        return LLVM[name](e, t, *args)
    # f16 goes by way of f32, except where bits merely move.
    wide = LLVM[name](e, f32, *(cast(e, a, f16, f32) for a in args))
    return cast(e, wide, f32, f16) if result_type(name, types) == f16 else wide


def by_kind(real: OpRow, integer: OpRow) -> OpRow:
    """Return a table entry that emits an operation by `real` for real operands and by `integer` for all others."""

    def row(e: ArithEmitter, t: Scalar, *args: ir.LLVMValue) -> ir.LLVMValue:
        return (real if t.is_real else integer)(e, t, *args)

    return row


def intrinsic(name: str) -> OpRow:
    """Return a table entry that emits a call of the LLVM intrinsic `name`, overloaded on the operand's type."""

    def row(e: ArithEmitter, t: Scalar, *args: ir.LLVMValue) -> ir.LLVMValue:
        return e.intrinsic(name, *args)

    return row


def instruction(name: str) -> OpRow:
    """Return a table entry that emits one instruction, by the method `name` of IRBuilder."""

    def row(e: ArithEmitter, t: Scalar, *args: ir.LLVMValue) -> ir.LLVMValue:
        made: ir.LLVMValue = getattr(e.b, name)(*args)
        return made

    return row


def contracting(name: str) -> OpRow:
    """Return a table entry that emits one real instruction, which LLVM may contract if the options allow it."""

    def row(e: ArithEmitter, t: Scalar, *args: ir.LLVMValue) -> ir.LLVMValue:
        made: ir.LLVMValue = getattr(e.b, name)(*args, flags=e.flags)
        return made

    return row


# ---- reals --------------------------------------------------------------------------------------------------


def _sgn_real(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    b, zero = e.b, e.const(x, 0.0)
    sign = b.select(b.fcmp_ordered(">", x, zero), e.const(x, 1.0), zero)
    sign = b.select(b.fcmp_ordered("<", x, zero), e.const(x, -1.0), sign)
    return b.select(e.isnan(x), x, sign)


def _inv(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    return e.b.fdiv(e.const(x, 1.0), x)


def _rsqrt(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    return _inv(e, t, e.intrinsic("sqrt", x))


def _floordiv_real(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    return e.intrinsic("floor", e.b.fdiv(x, y))


def _mod_real(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Return the remainder of x / y with the sign of y, computed from fmod; a zero also gets the sign of y."""
    b = e.b
    r = call(e, "fmod", x, y)
    zero = e.const(r, 0.0)
    differ = b.xor(b.fcmp_ordered("<", r, zero), b.fcmp_ordered("<", y, zero))
    moved = b.select(differ, b.fadd(r, y), r)
    return b.select(b.fcmp_ordered("==", r, zero), e.intrinsic("copysign", zero, y), moved)


def _frexp(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue, ir.LLVMValue]:
    """Return (condition 'finite and not zero', mantissa, unbiased exponent) of x."""
    b, bits = e.b, mantissa_bits(x.type)
    width = {23: 32, 52: 64}[bits]
    bias = (1 << (width - bits - 2)) - 1
    word = bits_type(x.type)
    magnitude = e.intrinsic("fabs", x)
    # Subnormal numbers have no leading bit in the exponent field, so they are scaled up first.
    small = b.fcmp_ordered("<", magnitude, e.const(x, 2.0 ** (1 - bias)))
    scaled = b.select(small, b.fmul(x, e.const(x, 2.0 ** (bits + 2))), x)
    raw = b.bitcast(scaled, word)
    field = b.and_(b.lshr(raw, e.const(raw, bits)), e.const(raw, 2 * bias + 1))
    lowered = b.select(small, e.const(raw, bits + 2), e.const(raw, 0))
    exponent = b.sub(b.sub(field, e.const(raw, bias - 1)), lowered)
    kept = b.and_(raw, e.const(raw, ~((2 * bias + 1) << bits)))
    mantissa = b.bitcast(b.or_(kept, e.const(raw, (bias - 1) << bits)), x.type)
    usual = b.and_(b.fcmp_ordered("!=", x, e.const(x, 0.0)), b.fcmp_ordered("<", magnitude, e.const(x, float("inf"))))
    return usual, mantissa, exponent


def _frexp_mantissa(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    usual, mantissa, _ = _frexp(e, x)
    return e.b.select(usual, mantissa, x)


def _frexp_exponent(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    usual, _, exponent = _frexp(e, x)
    if suffix(exponent.type).endswith("i64"):
        exponent = e.b.trunc(exponent, like(exponent.type, I32))
    return e.b.select(usual, exponent, e.const(exponent, 0))


# ---- comparisons and choices --------------------------------------------------------------------------------


def compare(sign: str) -> OpRow:
    """Return a table entry that emits a comparison; if a real is NaN, only `!=` is true."""

    def row(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
        if t.is_real:
            return (e.b.fcmp_unordered if sign == "!=" else e.b.fcmp_ordered)(sign, x, y)
        return (e.b.icmp_signed if t.is_signed else e.b.icmp_unsigned)(sign, x, y)

    return row


def _select(e: ArithEmitter, t: Scalar, cond: ir.LLVMValue, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    return e.b.select(cond, x, y)


def _logic_not(e: ArithEmitter, t: Scalar, x: ir.LLVMValue) -> ir.LLVMValue:
    return e.b.xor(x, e.const(x, True))


LLVM.update(
    {
        "neg": by_kind(instruction("fneg"), integers.neg),
        "abs": by_kind(intrinsic("fabs"), integers.absolute),
        "sgn": by_kind(_sgn_real, integers.sgn),
        "floor": intrinsic("floor"),
        "ceil": intrinsic("ceil"),
        "round": intrinsic("roundeven"),
        "sqrt": intrinsic("sqrt"),
        "rsqrt": _rsqrt,
        "inv": _inv,
        "rcp": _inv,
        "exp": libcall("exp"),
        "log": libcall("log"),
        "sin": libcall("sin"),
        "cos": libcall("cos"),
        "tan": libcall("tan"),
        "asin": libcall("asin"),
        "acos": libcall("acos"),
        "tanh": libcall("tanh"),
        "frexp_mantissa": _frexp_mantissa,
        "frexp_exponent": _frexp_exponent,
        "bit_not": integers.bit_not,
        "logic_not": _logic_not,
        "popcnt": integers.popcnt,
        "clz": integers.clz,
        "ffs": integers.ffs,
        "add": by_kind(contracting("fadd"), instruction("add")),
        "sub": by_kind(contracting("fsub"), instruction("sub")),
        "mul": by_kind(contracting("fmul"), instruction("mul")),
        "div": instruction("fdiv"),
        "floordiv": by_kind(_floordiv_real, integers.floordiv),
        "mod": by_kind(_mod_real, integers.mod),
        "pow": by_kind(libcall("pow"), integers.power),
        "atan2": libcall("atan2"),
        "min": by_kind(intrinsic("minimum"), integers.extremum("min")),
        "max": by_kind(intrinsic("maximum"), integers.extremum("max")),
        "bit_and": instruction("and_"),
        "bit_or": instruction("or_"),
        "bit_xor": instruction("xor"),
        "unique": lambda e, t, x, y: x,
        "bit_shl": integers.shift("shl"),
        "bit_shr": integers.shift("lshr"),
        "bit_sar": integers.shift("ashr"),
        "cmp_lt": compare("<"),
        "cmp_le": compare("<="),
        "cmp_gt": compare(">"),
        "cmp_ge": compare(">="),
        "cmp_eq": compare("=="),
        "cmp_ne": compare("!="),
        "logical_and": instruction("and_"),
        "logical_or": instruction("or_"),
        "select": _select,
    }
)
