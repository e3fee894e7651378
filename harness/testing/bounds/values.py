"""This module executes statements that compute values on the reference, and bounds the error of each result."""

from __future__ import annotations

import numpy as np

from ....compiler.ir import nodes as n
from ....reference.frame import LaneFrame, LaneVector
from ....reference.machine import RUN
from ....reference.scalar import NUMPY
from .jumps import interval_ends
from .machine import BOUNDED, BoundedMachine, define, error
from .roundoff import real_error
from .rules import F64, INF, ZERO


@BOUNDED.row(n.Const)
def _const(m: BoundedMachine, s: n.Const, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = s.result.type.dtype.type(s.value)
    f.values[~s.result.id] = ZERO
    return f


@BOUNDED.row(n.Arg)
def _arg(m: BoundedMachine, s: n.Arg, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = m.scalars[s.name]
    e = m.scalar_errors.get(s.name, 0.0)
    define(m, s, f, np.asarray(e, F64)[()] if e else ZERO)
    return f


@BOUNDED.row(n.Shape, n.Random)
def _certain(m: BoundedMachine, s: n.Shape | n.Random, f: LaneFrame) -> LaneFrame | None:
    f.values[~s.result.id] = ZERO
    return RUN[type(s)](m, s, f)


@BOUNDED.row(n.Op)
def _op(m: BoundedMachine, s: n.Op, f: LaneFrame) -> LaneFrame | None:
    row, args = NUMPY[s.op], [f.value(a) for a in s.args]
    errors = [error(f, a) for a in s.args]
    dtype = s.args[-1].type
    if row.traps is not None and not dtype.is_real:
        m.need(s, f, s.args[1], "a divisor")
        RUN[n.Op](m, s, f)
        result = f.values[s.result.id]
    else:
        result = f.values[s.result.id] = row.meaning(*args)
    define(m, s, f, m.operation(s.op, dtype).of(args, errors, result))
    return f


@BOUNDED.row(n.Cast)
def _cast(m: BoundedMachine, s: n.Cast, f: LaneFrame) -> LaneFrame:
    RUN[n.Cast](m, s, f)
    x, e = f.value(s.arg), error(f, s.arg)
    source, target = s.arg.type, s.result.type
    if target.is_real:
        e = real_error(source, target, m.precise, x, e, f.values[s.result.id])
    elif source.is_real and e is not ZERO:
        e = _nonzero(x, e) if target.is_bool else _truncated(x, e, s)
    define(m, s, f, e)
    return f


def _nonzero(x: LaneVector, e: LaneVector) -> LaneVector:
    return np.where((e == 0) | (np.abs(x.astype(F64)) > e), ZERO, INF)


def _truncated(x: LaneVector, e: LaneVector, s: n.Cast) -> LaneVector:
    """Return 0 where all reals within the error of x convert to the same integer, else infinity."""
    info = np.iinfo(s.result.type.dtype)
    low, high = (np.clip(np.trunc(end), float(info.min), float(info.max)) for end in interval_ends(x.astype(F64), e))
    return np.where((e == 0) | (low == high), ZERO, INF)


@BOUNDED.row(n.Within)
def _within(m: BoundedMachine, s: n.Within, f: LaneFrame) -> LaneFrame:
    m.need(s, f, s.index, "an index")
    m.need(s, f, s.extent, "an extent")
    RUN[n.Within](m, s, f)
    define(m, s, f, ZERO)
    return f


@BOUNDED.row(n.BitCast)
def _bit_cast(m: BoundedMachine, s: n.BitCast, f: LaneFrame) -> LaneFrame:
    RUN[n.BitCast](m, s, f)
    e = error(f, s.arg)
    define(m, s, f, e if e is ZERO or s.arg.type == s.result.type else np.where(e > 0, INF, ZERO))
    return f


@BOUNDED.row(n.Print)
def _print(m: BoundedMachine, s: n.Print, f: LaneFrame) -> LaneFrame:
    """Print nothing and return the lanes unchanged, because another run of the same launch prints already."""
    return f
