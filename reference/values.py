"""Execute statements that compute values, and the statements `assert` and `print`."""

from __future__ import annotations

import sys

import numpy as np

from ..compiler.errors import CURE_OF_INDEX, DivisionByZero, KernelAssertionError, OutOfBounds
from ..compiler.ir import nodes as n
from ..compiler.ir.texts import index_message, printed_text
from .frame import LaneFrame, number
from .machine import RUN, Machine, lane_element
from .random import uniform
from .scalar import NUMPY, bit_cast, convert


@RUN.row(n.Const)
def _const(m: Machine, s: n.Const, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = s.result.type.dtype.type(s.value)
    return f


@RUN.row(n.Arg)
def _arg(m: Machine, s: n.Arg, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = m.scalars[s.name]
    return f


@RUN.row(n.Shape)
def _shape(m: Machine, s: n.Shape, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = number(m.memory[s.array].shape[s.axis]).astype(s.result.type.dtype)
    return f


@RUN.row(n.Op)
def _op(m: Machine, s: n.Op, f: LaneFrame) -> LaneFrame:
    row, args = NUMPY[s.op], [f.value(a) for a in s.args]
    if row.traps is not None:
        m.check(DivisionByZero, s, f, row.traps(*args), lambda at_: f"{s.op} of {lane_element(args[0], at_)} by zero")
    f.values[s.result.id] = row.meaning(*args)
    return f


@RUN.row(n.Cast)
def _cast(m: Machine, s: n.Cast, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = convert(f.value(s.arg), s.arg.type, s.result.type)
    return f


@RUN.row(n.Within)
def _within(m: Machine, s: n.Within, f: LaneFrame) -> LaneFrame:
    index, extent = f.value(s.index), f.value(s.extent)
    if np.any(bad := (index < 0) | (index >= extent)):
        m.check(
            OutOfBounds,
            s,
            f,
            bad,
            lambda p: index_message(s.message, lane_element(index, p), lane_element(extent, p)),
            CURE_OF_INDEX,
        )
    f.values[s.result.id] = index
    return f


@RUN.row(n.BitCast)
def _bit_cast(m: Machine, s: n.BitCast, f: LaneFrame) -> LaneFrame:
    f.values[s.result.id] = bit_cast(f.value(s.arg), s.arg.type, s.result.type)
    return f


@RUN.row(n.Random)
def _random(m: Machine, s: n.Random, f: LaneFrame) -> LaneFrame:
    """Draw one random number in each lane."""
    c = m.chunk
    # Draws are counted lane by lane once lanes diverge.
    if f.lanes is not None and isinstance(c.drawn, int):
        c.drawn = np.full(c.width, c.drawn, np.int64)
    d = c.drawn if isinstance(c.drawn, int) or f.lanes is None else c.drawn[f.lanes]
    iteration = number(c.start) if c.width == 1 else c.start + f.numbers()
    task = c.task if s.task is None else s.task
    f.values[s.result.id] = uniform(s.result.type, (m.draws.seed, m.draws.launch), task, iteration, d)
    if isinstance(c.drawn, int) or f.lanes is None:
        c.drawn = c.drawn + 1
    else:
        c.drawn[f.lanes] += 1
    return f


@RUN.row(n.Assert)
def _assert(m: Machine, s: n.Assert, f: LaneFrame) -> LaneFrame:
    m.check(KernelAssertionError, s, f, np.logical_not(f.value(s.cond)), lambda _: s.message or "assertion failed")
    return f


@RUN.row(n.Print)
def _print(m: Machine, s: n.Print, f: LaneFrame) -> LaneFrame:
    """Print one line for each lane, with numbers in the shortest text that reads back as the same value."""
    columns = [f.spread(f.value(a)) for a in s.args]
    for lane in range(f.count):
        sys.stdout.write(printed_text(s.template, [column[lane] for column in columns]))
    return f
