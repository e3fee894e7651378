"""What the texts mean: programs for Metal, run on the host, do what .kir files and the reference say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kir_test_support import numbers, running
from kir_test_support.directives import Case, Check, Directive, read_cases, read_check
from recorded_support import GRAD, bounded, forward, gradient, near, verdicts
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.metal import accesses
from stackgrad.backends.metal.program import program
from stackgrad.cli.programs import run_program
from stackgrad.compiler.driver import Lowering, prepare_forward, prepare_reverse
from stackgrad.compiler.errors import InternalError, StackgradError, Unsupported
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.passes.lower_blocks import has_blocks
from stackgrad.harness.testing import executors
from stackgrad.harness.testing.emulated_metal import library
from stackgrad.harness.testing.emulated_metal.backend import EmulatedMetal, emulated_metal
from stackgrad.harness.testing.launch import with_gradient

TESTS = Path(__file__).parents[1]
TYPES = {"ops": ("", "f32", "i32", "u64"), "statements": ("", "f16", "f32", "i8", "i64"), "ad": ("", "f32")}
FILES = [path for folder in TYPES for path in sorted((TESTS / folder).glob("*.kir"))]


@pytest.fixture(scope="module")
def metal(translator: None) -> EmulatedMetal:
    probe = emulated_metal().probe()
    if not probe.available:
        pytest.skip(f"metal-emulated: {probe.reason}; cure: {probe.cure}")
    return emulated_metal()


class Runs:
    """The kernel of a text, its gradient, and its debug build, each made once."""

    def __init__(self, text: str, metal: EmulatedMetal) -> None:
        self.kernel, self.metal = running.parsed(text), metal
        self._made: dict[tuple[bool, bool], Launcher] = {}

    def launch(self, debug: bool, grad: bool, check: Check) -> dict[str, np.ndarray]:
        """Memory after the kernel and, if asked for, its gradient."""
        arrays, scalars = running.memory(self.kernel, check)
        for reverse in (False, True)[: 1 + grad]:
            if (debug, reverse) not in self._made:
                lowered = self._lowered(reverse)
                self._made[debug, reverse] = Launcher(lowered, self.metal, Options(debug=debug))
            launcher = self._made[debug, reverse]
            states = {copy: arrays[name].copy() for copy, name in launcher.lowered.states.items()}
            launcher.run({**arrays, **states}, scalars, Draws(*check.draws))
        return arrays

    def _lowered(self, reverse: bool) -> Lowering:
        if reverse:
            return prepare_reverse(self.kernel)
        is_ready = not running._is_unsized(self.kernel) and not has_blocks(self.kernel)
        return Lowering(self.kernel) if is_ready else prepare_forward(self.kernel)


def wrong(runs: Runs, directive: Directive, check: Check, ulps: float) -> Iterator[str]:
    """What one line of a file says, and the program does not do."""
    kind, expected = directive.kind, check.expected
    try:
        arrays = runs.launch(kind == "trap", kind == "grad", check)
    except Unsupported:
        return
    except StackgradError as error:
        if kind != "trap" or type(error).__name__ != check.error or check.fragment not in str(error):
            yield f"{type(error).__name__}: {error}"
        return
    if kind == "trap":
        yield f"no {check.error}"
    permitted = 2 * ulps + 4 if kind == "grad" else ulps
    for name in expected.keys() & arrays.keys():
        dtype, ndim = running.dtype_of(runs.kernel, name)
        wanted = numbers.read_array(expected[name], dtype, ndim, exact=False)
        yield from numbers.compare(name, arrays[name], wanted, dtype, permitted, kind != "grad")


def ulps_of(case: Case, path: Path) -> float:
    row = OPS.get(path.stem) if path.parent.name == "ops" else None
    return case.ulps if case.ulps is not None else row.ulps if row else 0.0


@pytest.mark.rotating
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_kernels_of_tests(path: Path, metal: EmulatedMetal) -> None:
    """Every line of the file that Metal can do, in some types, builds with checks where they are about traps."""
    found: list[str] = []
    for case in (case for case in read_cases(path.read_text()) if not case.invalid):
        for dtype in (t for t in case.types if (t or "") in TYPES[path.parent.name]):
            runs = Runs(case.source(dtype), metal)
            for directive in (d for d in case.checks if d.applies(dtype or "any", "metal", "any")):
                said = wrong(runs, directive, read_check(directive), ulps_of(case, path))
                found += (f"line {directive.line} {dtype} {directive.kind}: {text}" for text in said)
    assert not found


EXCHANGE = """kernel k(x: f32[1], y: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    local a: f32 local b: f32 %3: f32 = load x[%2] set a, %3 %4: i32 = const 0 %5: i32 = const 3
    for %6: i32 in %4 .. %5 { %7: f32 = get a %8: f32 = get b %15: f32 = neg %8 %16: f32 = neg %7
      %9: f32 = exp %15 %10: f32 = tanh %16 set a, %9 set b, %10 }
    %13: f32 = get a %14: f32 = get b store x[%2], %13 store y[%2], %14 } }"""


def test_calls_stay_before_stores_that_follow(metal: EmulatedMetal) -> None:
    """Functions of expressions of variables that are overwritten before the results are used."""
    arrays = {"x": np.linspace(-2, 2, 9, dtype=np.float32), "y": np.zeros(9, np.float32)}
    kernel = parse_kernel(EXCHANGE)
    found = executors.LaunchExecutor("metal-emulated", metal).forward(kernel, arrays, {}, Draws())
    for name in arrays:
        near(forward(kernel, arrays), name, found[name])


def test_a_kernel_without_tasks(metal: EmulatedMetal) -> None:
    made = metal.compile(parse_kernel("kernel k() { }"), Options())
    made.run({}, {}, Sizes(), Draws())
    assert len(made.program.entries) == 1, "a program has an entry point"


def test_the_executor() -> None:
    """Present where there is what it needs, never among those that run without being named."""
    found, absent = executors.present_backends(["metal-emulated"])
    assert [e.name for e in found] == ["metal-emulated"] or "cure: apt-get install" in absent["metal-emulated"]
    assert "metal-emulated" not in {e.name for e in executors.present_backends()[0]}


# ---- accesses -----------------------------------------------------------------------------------------------

WIDE = """kernel k(x: u64[1], y: u64[1]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 }} parallel %2: i32 in %0 .. %1 {{
    %3: i32 = const 0 %4: u64 = load y[%2] %5: u64 = atomic {} x[%3], %4 }} }}"""


@pytest.mark.parametrize(
    ("op", "function"),
    [("add", np.add), ("bit_and", np.bitwise_and), ("bit_or", np.bitwise_or), ("bit_xor", np.bitwise_xor)],
)
def test_64_bits_by_halves(metal: EmulatedMetal, op: str, function: np.ufunc) -> None:
    """Carries from the lower half included, one of them out of the whole."""
    y = np.random.default_rng(0).integers(0, 1 << 64, 300, np.uint64, endpoint=False)
    y[:2] = 0xFFFFFFFF, 1
    x = np.array([1 << 63 | 0xFFFFFFFF], np.uint64)
    wanted = function.reduce(np.concatenate([x, y]))
    metal.compile(parse_kernel(WIDE.format(op)), Options()).run({"x": x, "y": y}, {}, Sizes(), Draws())
    assert x[0] == wanted


@pytest.mark.parametrize(("op", "wanted"), [("max", 2**63 + 299), ("min", 7), ("exchange", 2**63 + 299)])
def test_other_updates_of_64_bits_are_made_in_order(metal: EmulatedMetal, op: str, wanted: int) -> None:
    """By one thread."""
    x, y = np.array([7], np.uint64), np.arange(300, dtype=np.uint64) + np.uint64(1 << 63)
    made = metal.compile(parse_kernel(WIDE.format(op)), Options(bounds=False))  # an error record takes an atomic
    made.run({"x": x, "y": y}, {}, Sizes(), Draws())
    assert x[0] == wanted and "atomic_" not in made.program.entries[-1].text


def test_a_lost_carry_is_found(metal: EmulatedMetal, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [line.replace(" + (old + low < old ? 1u : 0u)", "") for line in accesses.SPLIT["add"]]
    monkeypatch.setitem(accesses.SPLIT, "add", lost)
    with pytest.raises(AssertionError):
        test_64_bits_by_halves(metal, "add", np.add)


SWAPS = """kernel k(x: u32[1], y: u32[1], z: u32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = const 0 %4: u32 = load y[%2] %5: u32 = load x[%3] %6: u32 = atomic cas x[%3], %4 expected %5
    %7: u32 = load x[%3] store z[%2], %7 } }"""


def swapped(metal: EmulatedMetal) -> bool:
    """Whether a compare-and-swap that finds what it expects does swap, always. No thread interferes here."""
    y, z = np.arange(1, 200, dtype=np.uint32), np.zeros(199, np.uint32)
    arrays = {"x": np.zeros(1, np.uint32), "y": y, "z": z}
    metal.compile(parse_kernel(SWAPS), Options()).run(arrays, {}, Sizes(), Draws())
    return bool((z == y).all())


def test_the_weak_form_is_repeated(metal: EmulatedMetal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may fail although the content is as expected, and does so here every third time."""
    assert swapped(metal)
    function = accesses.ACCESSES["compare_exchange"]
    once = lambda access: [line.replace("while (", "if (") for line in function(access)]
    monkeypatch.setitem(accesses.ACCESSES, "compare_exchange", once)
    assert not swapped(metal)


def test_a_variable_without_a_first_value_is_found(metal: EmulatedMetal) -> None:
    """By the C++ compiler: every program that runs here has passed it."""
    text = library.source(program(parse_kernel(SUM), Options()).entries)
    library.load_library(text)
    declared = re.search(r"float (\w+) = 0\.0;\n", text)
    assert declared is not None
    spoilt = text.replace(declared[0], f"float {declared[1]};\n").replace(f"    {declared[1]} = 0.0;\n", "")
    with pytest.raises(InternalError, match="used uninitialized"):
        library.load_library(spoilt)


SUM = """kernel k(x: f32[1]) { serial { %0: i32 = const 0 %1: i32 = shape x, 0 local v: f32
  for %2: i32 in %0 .. %1 { %3: f32 = get v %4: f32 = load x[%2] %5: f32 = add %3, %4 set v, %5 }
  %6: f32 = get v store x[%0], %6 } }"""


# ---- programs -----------------------------------------------------------------------------------------------


@pytest.mark.expensive
def test_a_program(metal: EmulatedMetal) -> None:
    """What an example launches, forward and reverse, gives what the reference gives, but for the order of sums."""
    path = TESTS.parent / "examples" / "mpm_throw.py"
    ran = run_program(path, limit=1, stdout=sys.stderr)
    ours = executors.LaunchExecutor("metal-emulated", metal)
    seen = undecided = elements = 0
    for launch in (launch for launch in ran.launches if launch.kind == "forward"):
        before = {name: a for name, a in launch.before.items() if not name.endswith(".grad")}
        given = (launch.scalars, launch.draws)
        after, known = ours.forward(launch.kernel, before, *given), bounded(replace(launch, before=before))
        seeds = {name: np.ones_like(after[name]) for name in with_gradient(launch.kernel)}
        grads = ours.gradient(launch.kernel, before, known.arrays, *given, seeds)
        memory = known.arrays | {name + GRAD: seed for name, seed in seeds.items()}
        back = gradient(launch.kernel, memory, launch.scalars, before=before, draws=launch.draws)
        told = verdicts(known, after) | verdicts(back, {name + GRAD: array for name, array in grads.items()})
        assert "disagree" not in {verdict.state for verdict in told.values()}, told
        undecided += sum(verdict.undecided for verdict in told.values())
        elements += sum(verdict.elements for verdict in told.values())
        seen += 1
    assert undecided <= elements / 100
    assert ran.error is None and seen > 3
