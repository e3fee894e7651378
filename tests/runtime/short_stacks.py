"""Give kernels fewer slots than they need, and check that each launch ends in an AdstackOverflow.

    python short_stacks.py kir raw programs many [--lanes N] [--threads N] [--first N] [--count N]
                           [--debug] [--malloc] [--unchecked]

kir: the kernels and gradients of the .kir files; raw: random kernels of adstack statements; programs: gradients of
random programs; many: gradients of thousands of iterations. For each kernel that pushes, the script checks that results
are right with exact sizes, that half of every capacity, or one slot less of any adstack, gives an overflow, that
results are right again afterwards, and that no launch writes outside its adstacks (see guarded_heap.py; an access
outside a slab ends this process). It prints the numbers of launches as one line of JSON.
--threads runs tasks of any size on this number of threads; --debug compiles with the checks of debug builds; --malloc
takes memory from the C library, for valgrind; --unchecked leaves out the checks of capacities, which must be noticed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

_TESTS = Path(__file__).parent.parent
sys.path += [str(_TESTS), str(Path(__file__).parent)]

from guarded_heap import GuardedHeap, published  # noqa: E402
from kir_test_support import running  # noqa: E402
from kir_test_support.directives import Check, read_cases, read_check  # noqa: E402
from runtime_kernels import over_array  # noqa: E402
from stackgrad.backends.base import Draws, Options, Sizes  # noqa: E402
from stackgrad.backends.cpu.backend import CpuBackend, CpuExecutable  # noqa: E402
from stackgrad.backends.launching.launcher import Launcher  # noqa: E402
from stackgrad.backends.llvm import task_threads  # noqa: E402
from stackgrad.backends.llvm.branching.control import Branching  # noqa: E402
from stackgrad.backends.llvm.masked.masks import Masks  # noqa: E402
from stackgrad.compiler.ad.policies import LOWERINGS  # noqa: E402
from stackgrad.compiler.driver import Lowering, prepare_reverse  # noqa: E402
from stackgrad.compiler.errors import AdstackOverflow, LocatedError, StackgradError  # noqa: E402
from stackgrad.compiler.ir.nodes import StackAlloca, StackPush  # noqa: E402
from stackgrad.compiler.ir.walk import walk_kernel  # noqa: E402
from stackgrad.compiler.sizing.counting_kernel import count_stacks, shadowed_arrays  # noqa: E402
from stackgrad.harness.testing.launch import GRAD  # noqa: E402
from stackgrad.harness.testing.outcome import OkOutcome, attempt  # noqa: E402
from stackgrad.harness.tools.fuzz.lowerings import Lowerings  # noqa: E402
from stackgrad.harness.tools.model import render_ir  # noqa: E402
from stackgrad.harness.tools.strategies import sample, sample_adstacks  # noqa: E402
from stackgrad.reference.backend import ReferenceBackend  # noqa: E402

MOST_SINGLE = 6
"""Stacks of a kernel that are shortened alone."""


@dataclass
class Subject:
    """Represent a kernel with adstacks, and the memory that it is launched on."""

    name: str
    lowered: Lowering
    arrays: dict[str, np.ndarray]
    scalars: dict[str, int | float | bool]
    draws: Draws = Draws()

    def memory(self) -> dict[str, np.ndarray]:
        """Return copies of the arrays, and of those gradients that the kernel itself reads or writes."""
        read = {state: self.arrays[name] for state, name in self.lowered.states.items()}
        return {name: array.copy() for name, array in {**self.arrays, **read}.items()}


# ---- where kernels come from --------------------------------------------------------------------------------


def of_files(first: int, count: int) -> Iterator[Subject]:
    """Return the .kir kernels with adstacks, and both gradients of the others."""
    for path in sorted(_TESTS.glob("*/*.kir")):
        for case in read_cases(path.read_text()):
            for directive in case.checks:
                if directive.kind in ("run", "grad") and directive.applies("any", "cpu", "any"):
                    check = read_check(directive)
                    for dtype in case.types:
                        name = f"{path.name}:{directive.line} {dtype}"
                        yield from _of_check(name, case.source(dtype), check, directive.kind == "grad")


def _of_check(name: str, text: str, check: Check, is_gradient: bool) -> Iterator[Subject]:
    kernel = running.parsed(text)
    arrays, scalars = running.memory(kernel, check)
    draws = Draws(*check.draws)
    if is_gradient:
        running.launcher(text, "reference", running.PLAIN).run(arrays, scalars, draws)
        for lowering in LOWERINGS:
            yield Subject(f"{name} {lowering}", prepare_reverse(kernel, lowering), arrays, scalars, draws)
    elif any(isinstance(s, StackAlloca) for s in walk_kernel(kernel)):
        counting = count_stacks(kernel)
        shadow = shadowed_arrays(counting, {p.name for p in kernel.params}) if counting else frozenset()
        yield Subject(name, Lowering(kernel, counting, shadow=shadow), arrays, scalars, draws)


def of_statements(first: int, count: int) -> Iterator[Subject]:
    """Return random kernels that push and pop."""
    for seed in range(first, first + count):
        case = sample_adstacks(seed)
        counting = None if case.trap else count_stacks(case.kernel)
        if counting is not None:
            yield Subject(f"raw {seed}", Lowering(case.kernel, counting), case.arrays, {})


def of_programs(first: int, count: int) -> Iterator[Subject]:
    """Return the gradients of random programs by both lowerings."""
    for seed in range(first, first + count):
        program = sample(seed)
        made = Lowerings(render_ir(program))
        before, scalars = program.arrays(), program.scalars()
        if made.refusal is not None or not made.gradients:
            continue
        after = {name: array.copy() for name, array in before.items()}
        if not isinstance(attempt(partial(_launched, made.optimized, after, scalars)), OkOutcome):
            continue
        seeds = {name + GRAD: s for name, s in program.seeds().items() if name in made.gradients}
        for lowered in (made.lean, made.classic):
            copies = {copy: before[array] for copy, array in lowered.before.items()}
            yield Subject(f"program {seed}", lowered, {**after, **copies, **seeds}, scalars)


def _launched(lowered: Lowering, arrays: dict[str, np.ndarray], scalars: dict[str, int | float | bool]) -> object:
    Launcher(lowered, ReferenceBackend(fuel=200_000), Options()).run(arrays, scalars)
    return arrays


def of_many_iterations(first: int, count: int) -> Iterator[Subject]:
    """Return gradients with thousands of uneven, gated iterations, which are therefore selected and reordered."""
    size, draw = 9000, np.random.default_rng(first)
    for text, odds in ((UNEVEN, 1.0), (GATED, 0.05), (GATED, 0.9)):
        kernel = running.parsed(text)
        trips = draw.integers(0, 20, size).astype(np.int32) * (draw.random(size) < 0.1) + 1
        arrays = {"x": draw.random(size), "y": np.zeros(size), "n": trips, "x.grad": np.zeros(size)}
        arrays |= {"y.grad": np.ones(size), "go": (draw.random(size) < odds).astype(float)}
        given = {name: array for name, array in arrays.items() if name in text or name.endswith(".grad")}
        for lowering in LOWERINGS:
            yield Subject(f"{kernel.name} {odds} {lowering}", prepare_reverse(kernel, lowering), given, {})


RECURRENCE = """
%5: i32 = load n[%2]
%6: i32 = const 0
local v: f64
%7: f64 = load x[%2]
set v, %7
for %8: i32 in %6 .. %5 {
  %9: f64 = get v
  %10: f64 = sin %9
  %11: f64 = mul %10, %10
  set v, %11
}
%12: f64 = get v
store y[%2], %12"""
UNEVEN = over_array("uneven", "x: f64[1] grad, y: f64[1] grad, n: i32[1]", "x", RECURRENCE.strip())
GATED = over_array(
    "gated",
    "x: f64[1] grad, y: f64[1] grad, n: i32[1], go: f64[1]",
    "x",
    f"""\
%3: f64 = load go[%2]
%4: f64 = const 0.5
%20: u1 = cmp_gt %3, %4
if %20 {{{RECURRENCE}
}}""",
)

SOURCES = {"kir": of_files, "raw": of_statements, "programs": of_programs, "many": of_many_iterations}


# ---- what is done to each -----------------------------------------------------------------------------------


class Trial:
    """Launch one subject on a CPU backend with a guarded heap."""

    def __init__(self, subject: Subject, options: Options, malloc: bool) -> None:
        self.subject = subject
        self.heap = GuardedHeap(malloc=malloc)
        self.spread = False
        backend = CpuBackend()
        backend.heap = self.heap
        self.executable: CpuExecutable = backend.compile(subject.lowered.kernel, options)

    def launch(self, sizes: Sizes, capacities: dict[str, int]) -> dict[str, np.ndarray] | None:
        """Return the memory after a launch, or None after an overflow; fail on a stray write."""
        memory = self.subject.memory()
        self.heap.renew()
        with published(capacities):
            try:
                self.executable.run(memory, self.subject.scalars, sizes, self.subject.draws)
            except AdstackOverflow as overflow:
                check_message(self.subject, str(overflow), capacities)
                memory = {}
            wrong = self.heap.stray(self.executable._placement, sizes)
            self.spread |= self.heap.used_by_workers(self.executable._placement, sizes)
        assert not wrong, f"{self.subject.name}: {wrong}"
        return memory or None


def check_message(subject: Subject, text: str, capacities: dict[str, int]) -> None:
    """Assert that an overflow's message names kernel, task, adstack and capacity."""
    kernel = subject.lowered.kernel
    assert f"kernel {kernel.name}, task " in text and "published capacities: " in text, text
    named = [f"adstack {n}" in text and f"holds {limit} values" in text for n, limit in capacities.items()]
    assert any(named), text


def pushed(subject: Subject, sizes: Sizes) -> dict[str, int]:
    """Return the depth that each adstack reaches, for those that reach any."""
    declared = {s.stack: s.capacity for s in walk_kernel(subject.lowered.kernel) if isinstance(s, StackAlloca)}
    return {name: depth for name, depth in sizes.capacities.items() if depth > 0 and declared[name] is None}


def attempt_all(subject: Subject, options: Options, malloc: bool, done: Counter[str]) -> None:
    """Make all launches of one subject."""
    if not any(isinstance(s, StackPush) for s in walk_kernel(subject.lowered.kernel)):
        return
    reference, want = Launcher(subject.lowered, ReferenceBackend(fuel=200_000), Options()), subject.memory()
    try:
        reference.run(want, subject.scalars, subject.draws)
    except (StackgradError, LocatedError):
        return
    sizes = reference._last
    deep = pushed(subject, sizes)
    if not deep:
        return
    trial = Trial(subject, options, malloc)
    agree(subject, trial.launch(sizes, {}), want)
    halves = {name: depth // 2 for name, depth in deep.items()}
    for short in (halves, *({name: deep[name] - 1} for name in list(deep)[:MOST_SINGLE])):
        assert trial.launch(sizes, short) is None, f"{subject.name}: no overflow of {short} where {deep} are needed"
        done["overflows"] += 1
    agree(subject, trial.launch(sizes, {}), want)
    done["kernels"] += 1
    done["spread"] += trial.spread
    done["masked"] += bool(trial.executable._variants._addresses)


def agree(subject: Subject, found: dict[str, np.ndarray] | None, want: dict[str, np.ndarray]) -> None:
    """Assert that results agree roughly with the reference; only gross differences count."""
    assert found is not None, f"{subject.name}: an overflow with exact capacities"
    for name, array in want.items():
        if array.dtype.kind == "f" and array.dtype.itemsize > 2:
            with np.errstate(all="ignore"):
                near = np.isclose(found[name], array, rtol=1e-2, atol=1e-3, equal_nan=True)
            assert near.mean() > 0.9 or array.size < 8, f"{subject.name}: {name} is {found[name]}, not {array}"


def main() -> None:
    """Run the whole program, as the module describes it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", choices=SOURCES, nargs="+")
    for name, value in (("lanes", 0), ("threads", 1), ("first", 0), ("count", 40)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name in ("debug", "malloc", "unchecked"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    options = Options(debug=args.debug, effort=0, lanes=args.lanes, threads=args.threads)
    if args.threads > 1:
        task_threads.ENOUGH, task_threads.SHARE, task_threads.CHUNK = 0, 1, 1
    if args.unchecked:
        Branching.trap_if = Masks.trap_if = lambda *_: None
    done: Counter[str] = Counter()
    for source in args.sources:
        for subject in SOURCES[source](args.first, args.count):
            attempt_all(subject, options, args.malloc, done)
    print(json.dumps(done))


if __name__ == "__main__":
    main()
