"""Test that error bounds hold for every value of a run, for any arithmetic that an executor may use.

A kernel runs with error bounds. A second run executes the same statements in another arithmetic, and each of its values
must lie within the error bound of the first run. The other arithmetic is

  * contracting: the widened kernel, each result rounded to its narrow type or left as it is, at random: what FMA, wider
    registers and double precision do. The limits, never rounding and always, are among them;
  * precise: the kernel itself, approximated functions off by as many ulps as their rows permit, at random.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.errors import StackgradError, Unsupported
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_statement
from stackgrad.compiler.ir.types import f16, f32, f64
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.compiler.passes.widen import widen
from stackgrad.harness.testing.bounds import machine as machines
from stackgrad.harness.testing.bounds import run_bounded
from stackgrad.harness.testing.bounds.roundoff import SLACK
from stackgrad.harness.testing.bounds.rules import BOUNDS
from stackgrad.harness.tools.fuzz.lowerings import Lowerings
from stackgrad.harness.tools.model import load
from stackgrad.harness.tools.strategies import sample
from stackgrad.reference.launch import run
from stackgrad.reference.machine import RUN, Machine

_spec = importlib.util.spec_from_file_location("random_bounded", Path(__file__).with_name("random_bounded.py"))
assert _spec and _spec.loader
random_bounded = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(random_bounded)

GRAD = ".grad"
FUEL = 20_000
LOOKED_AT = (n.Op, n.Cast, n.Load, n.Get, n.GetElement, n.StackTop, n.StackTopAdjoint)
"""Statements whose results are compared; what an atomic finds is the order's affair."""


# ---- two runs side by side ----------------------------------------------------------------------------------


@dataclass
class Bounds:
    """Log (statement, value, error) for each statement of a run with bounds, until the run is poisoned."""

    log: list = field(default_factory=list)

    def run(self, machine, block, frame):
        Machine.burn(machine, block)
        for stmt in block:
            frame = machine.table[type(stmt)](machine, stmt, frame)
            if frame is None:
                return None
            if isinstance(stmt, LOOKED_AT) and machine.poisoned is None:
                key = stmt.result.id
                self.log.append((stmt, np.array(frame.values[key]), np.array(frame.values[~key])))
        return frame


@dataclass
class Otherwise:
    """Log the values of a run in another arithmetic; `compute` maps (statement, operands, result) to its result."""

    compute: object
    log: list = field(default_factory=list)

    def run(self, machine, block, frame):
        machine.burn(block)
        for stmt in block:
            inner, frame = frame, RUN[type(stmt)](machine, stmt, frame)
            if frame is None:
                return None
            if isinstance(stmt, (n.Op, n.Cast)):
                args = [inner.value(v) for v in (stmt.args if isinstance(stmt, n.Op) else (stmt.arg,))]
                frame.values[stmt.result.id] = self.compute(stmt, args, frame.values[stmt.result.id])
            if isinstance(stmt, LOOKED_AT):
                self.log.append((stmt.result.id, np.array(frame.values[stmt.result.id])))
        return frame


def bounded(monkeypatch, kernel, arrays, scalars, precise):
    """Return (outcome, log) of a run with error bounds."""
    watch = Bounds()
    with monkeypatch.context() as patch:
        patch.setattr(machines.BoundedMachine, "run", lambda m, b, f: f and watch.run(m, b, f))
        return run_bounded(kernel, arrays, scalars, precise=precise, fuel=FUEL), watch.log


def otherwise(monkeypatch, kernel, arrays, scalars, compute):
    """Return (final arrays, log) of a run in another arithmetic."""
    watch, memory = Otherwise(compute), {name: a.copy() for name, a in arrays.items()}
    with monkeypatch.context() as patch:
        patch.setattr(Machine, "run", lambda m, b, f: f and watch.run(m, b, f))
        run(kernel, memory, scalars, fuel=FUEL)
    return memory, watch.log


# ---- arithmetics ----------------------------------------------------------------------------------------------


def contracting(narrow, share, rng):
    """Return the arithmetic of the widened kernel that rounds a share of the results to the type in `narrow`."""

    def compute(stmt, args, result):
        dtype = narrow[stmt.result.id]
        if not dtype.is_real or not stmt.result.type.is_real:
            return result
        through = np.float32 if dtype is f16 else dtype.dtype  # an f16 result is an f32 result rounded
        rounded = result.astype(through).astype(dtype.dtype).astype(np.float64)
        return np.where(rng.random(np.shape(result)) < share, rounded, result)

    return compute


def off_by_ulps(rng):
    """Return an arithmetic that moves each exact, rounded result by as many ulps as the operation's entry permits."""

    def compute(stmt, args, result):
        if not isinstance(stmt, n.Op) or not stmt.result.type.is_real or stmt.result.type is f64:
            return result
        if BOUNDS[stmt.op].kind != "approximated" or stmt.op in ("mod", "rcp"):
            return result
        steps = int(OPS[stmt.op].ulps - 0.5)
        shift = rng.integers(-steps, steps + 1, np.shape(result)) * np.spacing(np.abs(result).astype(np.float32))
        moved = (result.astype(np.float32) + np.where(np.isfinite(shift), shift, 0)).astype(result.dtype)
        return np.where((result == 0) | ~np.isfinite(result), result, moved)[()]

    return compute


# ---- the comparison -----------------------------------------------------------------------------------------


def outside(value, error, other):
    """Return True if a value lies outside of its error bound; an uncertain value may have any bits."""
    x, y = value.astype(float), other.astype(float)
    gap = np.where((value == other) | np.isnan(x) & np.isnan(y), 0.0, np.abs(x - y))
    return bool(np.any(~(gap <= error * SLACK) & ~np.isinf(error)))


def aligned(log, others):
    """Yield corresponding entries of both logs, without the widening casts that the widened kernel lacks."""
    place = 0
    for stmt, value, error in log:
        if place < len(others) and others[place][0] == stmt.result.id:
            yield print_statement(stmt), value, error, others[place][1]
            place += 1


def disagreements(monkeypatch, kernel, arrays, scalars, seed):
    """Return texts on the values that leave their bounds in any arithmetic, and the number of compared values."""
    found, compared = [], 0
    narrow = {s.result.id: s.result.type for s in walk_kernel(kernel) if isinstance(s, LOOKED_AT)}
    wide = {name: a.astype(float) if a.dtype.kind == "f" else a for name, a in arrays.items()}
    for precise in (True, False):
        outcome, log = bounded(monkeypatch, kernel, arrays, scalars, precise)
        if outcome.poisoned and "order of iterations" in outcome.poisoned:
            continue
        for share in (0.0,) if precise else (0.0, 0.5, 1.0):
            rng = np.random.default_rng(seed)
            with np.errstate(all="ignore"):
                if precise:
                    final, others = otherwise(monkeypatch, kernel, arrays, scalars, off_by_ulps(rng))
                else:
                    compute = contracting(narrow, share, rng)
                    final, others = otherwise(monkeypatch, widen(kernel), wide, scalars, compute)
                pairs = list(aligned(log, others))
                if outcome.poisoned is None:
                    assert len(pairs) == len(others)
                    pairs += [(a, v, outcome.errors[a], final[a]) for a, v in outcome.arrays.items()]
                wrong = [p for p in pairs if outside(*p[1:])]
            compared += sum(p[1].size for p in pairs)
            found += [f"{precise=} {share=} {what}: {o} against {v} within {e}" for what, v, e, o in wrong[:1]]
    return found, compared


# ---- random kernels -----------------------------------------------------------------------------------------


def programs(seed):
    """Yield (kernel, arrays, scalars): forward kernel and both gradients of a program, if it can be widened."""
    program = sample(seed)
    try:
        kernel, arrays, scalars = load(program)
        if any(isinstance(s, n.Random | n.Print) for s in walk_kernel(kernel)):
            return
        made = Lowerings(kernel)
        widen(made.plain.kernel)
        yield made.plain.kernel, arrays, scalars
        final = {name: a.copy() for name, a in arrays.items()}
        run(made.plain.kernel, final, scalars, fuel=FUEL)
        seeds = {name + GRAD: a for name, a in program.seeds().items() if name in made.gradients}
        if seeds and made.refusal is None:
            yield made.lean.kernel, final | seeds, scalars
            yield made.classic.kernel, final | seeds, scalars
    except (StackgradError, Unsupported):
        return


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_programs_of_the_fuzzer(first, monkeypatch):
    """Values of programs of every kind: one that leaves its bound anywhere is a bound too small."""
    compared = 0
    for seed in range(first, first + 10):
        for kernel, arrays, scalars in programs(seed):
            try:
                found, count = disagreements(monkeypatch, kernel, arrays, scalars, seed)
            except StackgradError:  # a trap, or fuel
                continue
            assert found == [], (seed, kernel.name)
            compared += count
    assert compared > 1000


@pytest.mark.rotating
@pytest.mark.parametrize("wild", [0.03, 0.2])
@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
def test_random_kernels(dtype, wild, monkeypatch):
    """Kernels full of operations near their poles and jumps, with a few lanes; one alone too."""
    compared = 0
    for seed in range(12):
        lanes = (1, 6)[seed % 2]
        kernel = prepare_forward(random_bounded.make_kernel(seed, dtype, lanes, wild)).kernel
        arrays = random_bounded.make_arrays(seed, dtype, lanes)
        arrays["c"] %= lanes
        found, count = disagreements(monkeypatch, kernel, arrays, {}, seed)
        assert found == [], seed
        compared += count
    assert compared > 1000


CHAOS = """kernel chaos(x: f32[1], y: f32[1], c: i32[1]) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2]
    local v: f32
    set v, %3
    local w: f32
    %4: f32 = const 3.0
    set w, %4
    %5: i32 = load c[%2]
    %6: i32 = const 0
    %17: i32 = const 3
    %18: f32 = cast %17
    for %7: i32 in %6 .. %5 {
      %8: f32 = get v
      %9: f32 = const 2.0
      %10: f32 = mod %8, %9
      %11: f32 = get w
      %12: f32 = add %10, %11
      %13: f32 = OP %12, OTHER
      %14: f32 = mul %10, %13
      %15: f32 = cos %14
      set v, %15
    }
    %16: f32 = get v
    store y[%2], %16
  }
}"""


@pytest.mark.parametrize("op", ["mul", "div", "add", "sub", "max", "pow", "atan2"])
@pytest.mark.parametrize("other", ["%11", "%4", "%3", "%18"])
@pytest.mark.parametrize("lanes", [1, 5])
def test_errors_that_grow_until_nothing_is_known(op, other, lanes, monkeypatch):
    """A chaotic recurrence of as many trips as it takes, different in each lane, beside operands that stay exact."""
    kernel = parse_kernel(CHAOS.replace("OP", op).replace("OTHER", other))
    arrays = {"x": np.linspace(0.3, 0.9, lanes, dtype=np.float32), "y": np.zeros(lanes, np.float32)}
    arrays["c"] = np.arange(30, 30 + lanes, dtype=np.int32)
    found, compared = disagreements(monkeypatch, kernel, arrays, {}, 0)
    assert found == [] and compared > 500
