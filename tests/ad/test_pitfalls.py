"""Test that every kernel of the catalogue has the right gradient under every policy, on the reference and on the CPU.

For a kernel that stands for a rule of the compiler, a mutant breaks the rule; its gradient must then be wrong.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from kernel_catalogue import CONTENT, ENTRIES, Arrays, differentiable, fields, with_rule
from stackgrad.backends import registry
from stackgrad.backends.base import Draws
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.harness.testing.executors import LaunchExecutor, lower_plainly
from stackgrad.harness.testing.launch import used_arrays, with_gradient
from stackgrad.harness.testing.oracles import dual
from stackgrad.harness.testing.outcome import OkOutcome, RefusedOutcome, TrapOutcome, attempt
from stackgrad.harness.tools.mutants import MUTANTS

WAYS = [*((policy, "reference") for policy in POLICIES), ("lean", "cpu")]
GIVEN = sorted(e.name for e in differentiable())
EXACT = sorted(e.name for e in differentiable() if e.exact)


@cache
def kernel(name: str) -> Any:
    """Return the source IR of a kernel of the catalogue."""
    sg.init(arch=sg.reference, default_fp=sg.f64)
    return ENTRIES[name].make(fields()).ir()


def before(name: str) -> Arrays:
    return {n: CONTENT[n].copy() for n in used_arrays(kernel(name))}


def seeds(name: str) -> Arrays:
    """Return random cotangents of the final contents."""
    rng = np.random.default_rng(3)
    return {n: rng.uniform(0.5, 1.5, 4) * (n in "yz") for n in with_gradient(kernel(name))}


def direction(name: str) -> Arrays:
    """Return the direction along which dual numbers judge the gradient."""
    rng = np.random.default_rng(5)
    return {n: rng.uniform(0.5, 1.5, 4) for n in with_gradient(kernel(name))}


def pushed(name: str) -> tuple[Arrays, Arrays]:
    """Return final contents and their tangents along `direction`, by dual numbers on the kernel as written."""
    return dual.jvp(lower_plainly(kernel(name)).kernel, before(name), {}, direction(name))


def gradient(name: str, policy: str, backend: str) -> Arrays:
    """Return the gradient by a grad kernel that this call lowers and compiles."""
    executor = LaunchExecutor(backend, registry.get(backend), policy)
    return executor.gradient(kernel(name), before(name), pushed(name)[0], {}, Draws(), seeds(name))


def mistakes(name: str, found: Arrays) -> list[str]:
    """Return the arrays whose gradient differs from the closed form, plus "dual numbers" if these disagree."""
    case, given, t, moved = ENTRIES[name], seeds(name), direction(name), pushed(name)[1]
    exact = given | case.gradient(CONTENT, given) if case.gradient else found
    wrong = [n for n in found if not np.allclose(found[n], exact[n], rtol=1e-11, atol=1e-12)]
    left, right = (sum(float(a[n] @ b[n]) for n in found) for a, b in ((given, moved), (found, t)))
    return wrong + ["dual numbers"] * (not np.isclose(left, right, rtol=1e-11))


@pytest.mark.parametrize("policy, backend", WAYS)
@pytest.mark.parametrize("name", EXACT)
def test_the_gradient_is_right(name: str, policy: str, backend: str) -> None:
    assert mistakes(name, gradient(name, policy, backend)) == []


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(GIVEN)))
def test_it_is_refused(name: str) -> None:
    for policy in POLICIES:
        with pytest.raises(sg.NotDifferentiable, match=ENTRIES[name].refused):
            gradient(name, policy, "reference")


@pytest.mark.parametrize("name, mutant", [(e.name, mutant) for e in with_rule() for mutant in e.breaking])
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


def test_the_page_lists_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "harness.md").read_text(encoding="utf-8")
    for case in with_rule():
        mutants = ", ".join(f"`{mutant}`" for mutant in case.breaking)
        assert f"| {case.rule} | `{case.name}` | {mutants} |" in page


def test_every_rule_has_a_kernel() -> None:
    assert len(with_rule()) >= 20
    for case in with_rule():
        assert case.breaking and set(case.breaking) <= set(MUTANTS), case.name
