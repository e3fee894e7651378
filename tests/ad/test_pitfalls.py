"""Each known mistake of reverse mode as a kernel: its gradient is right under every policy, on the reference and on the
CPU, and wrong as soon as the rule is broken, which a mutant of the compiler does.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pitfalls_of_arrays  # noqa: F401 (enters its kernels)
import pitfalls_of_memory  # noqa: F401 (likewise)
import pytest
import stackgrad as sg
from pitfall_kernels import CONTENT, PITFALLS, Arrays
from stackgrad.backends import registry
from stackgrad.backends.base import Draws
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.harness.testing.executors import LaunchExecutor, lower_plainly
from stackgrad.harness.testing.launch import used_arrays, with_gradient
from stackgrad.harness.testing.oracles import dual
from stackgrad.harness.testing.outcome import OkOutcome, RefusedOutcome, TrapOutcome, attempt
from stackgrad.harness.tools.mutants import MUTANTS

WAYS = [*((policy, "reference") for policy in POLICIES), ("lean", "cpu")]
NAMES = sorted(PITFALLS)
GIVEN = sorted(name for name, p in PITFALLS.items() if not p.refused)


@cache
def kernel(name: str) -> Any:
    """The kernel as traced."""
    sg.init(arch=sg.reference, default_fp=sg.f64)
    reals = {name: sg.field(sg.f64, shape=(4,), needs_grad=True) for name in "xwyz"}
    return PITFALLS[name].make(SimpleNamespace(**reals, c=sg.field(sg.i32, shape=(4,)))).ir()


def before(name: str) -> Arrays:
    return {n: CONTENT[n].copy() for n in used_arrays(kernel(name))}


def seeds(name: str) -> Arrays:
    """Cotangents of the final content."""
    rng = np.random.default_rng(3)
    return {n: rng.uniform(0.5, 1.5, 4) * (n in "yz") for n in with_gradient(kernel(name))}


def direction(name: str) -> Arrays:
    """Along which dual numbers judge."""
    rng = np.random.default_rng(5)
    return {n: rng.uniform(0.5, 1.5, 4) for n in with_gradient(kernel(name))}


def pushed(name: str) -> tuple[Arrays, Arrays]:
    """Final content and its tangents along `direction`, by dual numbers on the kernel as written."""
    return dual.jvp(lower_plainly(kernel(name)).kernel, before(name), {}, direction(name))


def gradient(name: str, policy: str, backend: str) -> Arrays:
    """By a grad kernel made now."""
    executor = LaunchExecutor(backend, registry.get(backend), policy)
    return executor.gradient(kernel(name), before(name), pushed(name)[0], {}, Draws(), seeds(name))


def mistakes(name: str, found: Arrays) -> list[str]:
    """Arrays of which the gradient is not that in closed form, and whether dual numbers give another derivative."""
    case, given, t, moved = PITFALLS[name], seeds(name), direction(name), pushed(name)[1]
    exact = given | case.gradient(CONTENT, given) if case.gradient else found
    wrong = [n for n in found if not np.allclose(found[n], exact[n], rtol=1e-11, atol=1e-12)]
    left, right = (sum(float(a[n] @ b[n]) for n in found) for a, b in ((given, moved), (found, t)))
    return wrong + ["dual numbers"] * (not np.isclose(left, right, rtol=1e-11))


@pytest.mark.parametrize("policy, backend", WAYS)
@pytest.mark.parametrize("name", GIVEN)
def test_the_gradient_is_right(name: str, policy: str, backend: str) -> None:
    assert mistakes(name, gradient(name, policy, backend)) == []


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(GIVEN)))
def test_it_is_refused(name: str) -> None:
    for policy in POLICIES:
        with pytest.raises(sg.NotDifferentiable, match=PITFALLS[name].refused):
            gradient(name, policy, "reference")


@pytest.mark.parametrize("name, mutant", [(name, mutant) for name in NAMES for mutant in PITFALLS[name].mutants])
def test_breaking_the_rule_shows(name: str, mutant: str) -> None:
    """As wrong numbers, or as adstacks that are too small; never as a compiler that crashes."""
    with MUTANTS[mutant].planted():
        policies = ("lean", "stored", "restoring", "classic")
        found = [attempt(lambda p=p: gradient(name, p, "reference")) for p in policies]
    assert any(isinstance(o, TrapOutcome) or isinstance(o, OkOutcome) and mistakes(name, o.arrays) for o in found), (
        found
    )
    assert not any(isinstance(o, RefusedOutcome) for o in found)
    assert {o.kind for o in found if isinstance(o, TrapOutcome)} <= {"AdstackOverflow", "EmptyStack"}


def test_every_rule_has_a_kernel() -> None:
    assert len(PITFALLS) >= 20
    for case in PITFALLS.values():
        assert case.rule and case.mutants and set(case.mutants) <= set(MUTANTS), case.name
