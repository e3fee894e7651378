"""Test that every mutant changes the results of some kernel, and that removing it restores the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pkgutil import resolve_name

import numpy as np
import pytest
import stackgrad as sg
from kernel_catalogue import CONTENT, ENTRIES, fields, witness, witnessed
from stackgrad.backends.base import Draws
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.ad import rule_reads, rules
from stackgrad.compiler.ad.reverse import TaskReverser
from stackgrad.compiler.driver import prepare_tangent
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.harness.testing import executors
from stackgrad.harness.testing.executors import LaunchExecutor
from stackgrad.harness.testing.launch import used_arrays, with_gradient
from stackgrad.harness.testing.oracle_executors import JaxExecutor
from stackgrad.harness.testing.oracles import dual
from stackgrad.harness.testing.outcome import Arrays, OkOutcome, Outcome, RefusedOutcome, TrapOutcome, attempt
from stackgrad.harness.tools.mutants import MUTANTS, Mutant, patched, patched_row
from stackgrad.harness.tools.mutants.planting import patched_rule

NAMES = sorted(name for name, mutant in MUTANTS.items() if not mutant.on and mutant.shows != "outside")
"""Those of the compiler and the CPU that show in numbers; a backend with mutants of its own has their witnesses among
its tests, and `test_index_mutants` those that lead outside."""
Answers = dict[str, tuple[Outcome, Outcome]]
"""What each executor made of the values and of the gradient, and of the tangents instead where those are judged."""
REFUSED = {"risk-ignored", "extreme-stored-again", "extreme-read-between", "later-trips-harmless"}
"""Mutants that give a gradient where there is none."""


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    """The first witness of each mutant, traced, by name."""
    sg.init(arch=sg.reference, default_fp=sg.f64)
    made = fields()
    return {name: ENTRIES[name].make(made).ir() for name in {witness(mutant).name for mutant in NAMES}}


Right = Callable[[str], tuple[Arrays, Arrays]]


@pytest.fixture(scope="module")
def right(kernels: dict[str, Kernel]) -> Right:
    """Values and gradients of a witness by JAX, which shares nothing with what a mutant changes."""
    jax = JaxExecutor()

    @cache
    def find(name: str) -> tuple[Arrays, Arrays]:
        kernel = kernels[name]
        arrays = arrays_of(kernel)
        values = jax.forward(kernel, arrays, {}, Draws())
        return values, jax.gradient(kernel, arrays, values, {}, Draws(), seeds_of(kernel))

    return find


def arrays_of(kernel: Kernel) -> dict[str, np.ndarray]:
    return {name: CONTENT[name].copy() for name in used_arrays(kernel)}


def seeds_of(kernel: Kernel) -> dict[str, np.ndarray]:
    """Return cotangents with few digits, which are exact in f32, the type of the adjoints of f16 arrays."""
    rng = np.random.default_rng(3)
    return {name: np.round(64.0 * rng.uniform(0.5, 1.5, 4)) / 64.0 for name in with_gradient(kernel)}


def panel() -> list[LaunchExecutor]:
    """New executors, which have compiled nothing yet: three policies on the reference, and the CPU."""
    found, _ = executors.present_backends(["cpu", "cpu-masked"])
    restoring = executors.reference_executor("restoring", lowering="restoring")
    return [executors.reference_executor(lowering="lean"), executors.plain_interpreter(), restoring, *found]


def answers(kernel: Kernel, after: Arrays) -> Answers:
    """Return values and gradients of a kernel, with gradients at the right final contents."""
    return {executor.name: answer(executor, kernel, after) for executor in panel()}


def answer(executor: LaunchExecutor, kernel: Kernel, after: Arrays) -> tuple[Outcome, Outcome]:
    arrays, seeds = arrays_of(kernel), seeds_of(kernel)
    values = attempt(lambda: executor.forward(kernel, arrays, {}, Draws()))
    return values, attempt(lambda: executor.gradient(kernel, arrays, after, {}, Draws(), seeds))


def moved(kernel: Kernel, executor: LaunchExecutor) -> Arrays:
    """Tangents of the final content along the cotangents, by the kernel that forward mode makes."""
    arrays = arrays_of(kernel)
    directions = {f"{name}.dual": seed for name, seed in seeds_of(kernel).items()}
    Launcher(prepare_tangent(kernel, with_gradient(kernel)), executor.backend, executors.PRECISE).run(
        memory := {**arrays, **directions}, {}, Draws()
    )
    return {name: memory[f"{name}.dual"] for name in with_gradient(kernel)}


def tangent_answers(kernel: Kernel) -> Answers:
    """Return values and tangents of a kernel by all executors."""
    found = {}
    for executor in panel():
        values = attempt(lambda executor=executor: executor.forward(kernel, arrays_of(kernel), {}, Draws()))
        found[executor.name] = values, attempt(lambda executor=executor: moved(kernel, executor))
    return found


def relaunched(kernel: Kernel, fresh: bool = False) -> Answers:
    """Return gradients of a launch with more trips than the launch before; if `fresh`, there was no launch before."""
    found = {}
    for executor in panel():
        values = attempt(lambda executor=executor: executor.forward(kernel, arrays_of(kernel), {}, Draws()))
        found[executor.name] = values, attempt(lambda executor=executor: _again(kernel, executor, fresh))
    return found


def _again(kernel: Kernel, executor: LaunchExecutor, fresh: bool) -> Arrays:
    launcher = executor.grad_launcher(kernel)
    for version, more in enumerate((0, 2)[fresh:]):
        memory = {**arrays_of(kernel), **{f"{name}.grad": seed for name, seed in seeds_of(kernel).items()}}
        memory["c"] += np.int32(more)
        launcher.run(memory, {}, Draws(), (version,) * len(launcher.versioned))
    return {name: memory[f"{name}.grad"] for name in with_gradient(kernel)}


def exact_tangents(kernel: Kernel) -> Arrays:
    """Return tangents by dual numbers, which share no code with the parts that mutants change."""
    plain = executors.lower_plainly(kernel).kernel
    return dual.jvp(plain, arrays_of(kernel), {}, seeds_of(kernel))[1]


def agrees(outcome: Outcome, expected: Arrays) -> bool:
    return isinstance(outcome, OkOutcome) and all(
        np.allclose(array, expected[name], rtol=1e-12, atol=1e-12) for name, array in outcome.arrays.items()
    )


def test_every_mutant_has_a_witness_and_says_what_it_breaks() -> None:
    assert witnessed() == set(NAMES)
    assert len(MUTANTS) >= 12
    for name, mutant in ((name, MUTANTS[name]) for name in NAMES):
        assert name == mutant.name and mutant.description.endswith(".") and mutant.rule
        assert mutant.shows in ("gradient", "values", "overflow", "tangent", "relaunch")


@pytest.mark.rotating
@pytest.mark.parametrize("name", NAMES)
def test_mutant_changes_a_result_and_leaves_nothing_behind(name, kernels, right) -> None:
    mutant, found_by = MUTANTS[name], witness(name).name
    kernel, (values, gradient) = kernels[found_by], right(found_by)
    ask = lambda: answers(kernel, values)  # noqa: E731
    if mutant.shows == "tangent":
        gradient, ask = exact_tangents(kernel), lambda: tangent_answers(kernel)
    elif mutant.shows == "relaunch":
        gradient, ask = relaunched(kernel, fresh=True)["reference"][1].arrays, lambda: relaunched(kernel)
    with mutant.planted():
        wrong = ask()
    sound = ask()
    assert is_caught(mutant, wrong, values, gradient), f"{name} changes nothing: {wrong}"
    assert traps(wrong) <= {"AdstackOverflow", "EmptyStack"}, "a compiler that crashes is found by anything"
    for executor, (forward, reverse) in sound.items():
        assert agrees(forward, values), (executor, forward)
        refused = name in REFUSED and isinstance(reverse, RefusedOutcome)
        assert refused or agrees(reverse, gradient), (executor, reverse)


def traps(found: Answers) -> set[str]:
    return {outcome.kind for pair in found.values() for outcome in pair if isinstance(outcome, TrapOutcome)}


def is_caught(mutant: Mutant, found: Answers, values: Arrays, gradient: Arrays) -> bool:
    """Return True if some executor shows the change that the mutant declares, in values or gradients, and no other.

    Masked code is made after lowering early exits, so a mutant of that pass shows in forward kernels as well.
    """
    forward = [outcome for name, (outcome, _) in found.items() if mutant.shows == "values" or name != "cpu-masked"]
    reverse = [outcome for _, outcome in found.values()]
    if mutant.shows == "overflow":
        return all(isinstance(o, TrapOutcome) and o.kind == "AdstackOverflow" for o in reverse)
    if mutant.shows == "values":
        return any(not agrees(o, values) for o in forward)
    return all(agrees(o, values) for o in forward) and any(not agrees(o, gradient) for o in reverse)


OWNERS = """
    backends.cpu.stacks  backends.launching.prelaunch:PreLaunch  backends.llvm.masked.adstack
    backends.llvm.masked.atomics backends.llvm.masked.loops  backends.codegen.polynomials.evaluate  compiler.driver
    compiler.ad.grad_kernel compiler.ad.repeatable_reads:LocalAccesses  compiler.ad.forward:ForwardSweep
    compiler.ad.requirement:Requirements compiler.ad.reverse:TaskReverser  compiler.ad.risk:RiskAnalysis
    compiler.ad.sources:ValueSources compiler.ad.tangent:TangentSweep  compiler.ad.tangent_statements
    compiler.ad.task_order
    compiler.passes.common_subexpressions:_Merger compiler.passes.dead_code:_Liveness
    compiler.passes.lower_exits:_ExitLowering compiler.analysis.needed_statements:NeededMarker
    compiler.passes.promote_elements:_ElementPromoter compiler.sizing.counting_kernel
    compiler.sizing.counting_kernel:_CountingRewriter compiler.sizing.stack_flow
""".split()
"""Classes and modules that plants patch."""
TABLES = """
    backends.llvm.masked.masks:MASKED_CONTROL  backends.codegen.ops:LLVM  backends.llvm.branching.statements:LOWER
    compiler.ad.rules:VJP  compiler.ad.statements:REVERSE  compiler.ad.tangent_statements:TANGENT
""".split()
"""Tables of which plants patch rows."""


def state() -> list[object]:
    """Return all objects that mutants change."""
    owners, tables = ([resolve_name(f"stackgrad.{name}") for name in names] for names in (OWNERS, TABLES))
    return [*(dict(vars(o)) for o in owners), *({k: t[k] for k in t} for t in tables)]


class Interrupted(BaseException):
    """Represent an interruption from outside, which is not an `Exception`."""


@pytest.mark.parametrize("name", NAMES)
def test_plants_are_taken_back_also_after_an_exception(name) -> None:
    before = state()
    with pytest.raises(Interrupted), MUTANTS[name].planted():
        assert state() != before, "a mutant that this test does not see"
        raise Interrupted
    assert state() == before
    with MUTANTS[name].planted(), MUTANTS["sub-without-sign"].planted():
        pass
    assert state() == before


def test_what_rules_read_is_forgotten() -> None:
    f64 = sg.f64
    assert rule_reads.needs("mul", (f64, f64), f64, 0).operands == {1}
    with patched_rule("mul", 0, lambda b, g, a, r: b.op("mul", g, a[0])):
        assert rule_reads.needs("mul", (f64, f64), f64, 0).operands == {0}
    assert rule_reads.needs("mul", (f64, f64), f64, 0).operands == {1}


def test_a_plant_needs_something_to_replace() -> None:
    """A renamed method must not make a mutant equivalent."""
    with pytest.raises(KeyError), patched(TaskReverser, "gone", None):
        pass
    with pytest.raises(KeyError), patched_row(rules.VJP, "gone", ()):
        pass
    with pytest.raises(KeyError), patched(type("Heir", (TaskReverser,), {}), "build", None):
        pass


def test_a_mutant_that_changes_nothing_is_noticed(kernels, right) -> None:
    found_by = witness("sub-without-sign").name
    idle = replace(MUTANTS["sub-without-sign"], plant=MUTANTS["while-one-trip-short"].plant)
    values, gradient = right(found_by)
    with idle.planted():
        found = answers(kernels[found_by], values)
    assert not is_caught(idle, found, values, gradient)
