"""This module executes the program of a finding again, to show in the report the arrays that each executor computes.

Everything is about the first launch of the finding, on the reference, on the executor that disagreed, and on JAX, which
shares no derivative with either. If something cannot be run, the result says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np

from ....backends.base import Backend, Options
from ....reference.backend import ReferenceBackend
from ...testing.executors import CHECKED, PRECISE
from ...testing.launch import GRAD
from ...testing.oracle_executors import JaxExecutor
from ...testing.outcome import Arrays, OkOutcome, attempt
from ..fuzz.corpus import failed_key
from ..fuzz.lowerings import Lowerings, kernel_of
from ..fuzz.plan import MASKED, Key
from ..fuzz.reference_run import FUEL
from ..fuzz.statistics import Finding
from ..fuzz.widened_cpu import WidenedCpu
from ..model.source import render_source
from ..mutants import MUTANTS
from ..relations.chain import DRAWS, LaunchChain, RelationExecutor
from .plain_results import Plain

MOST = 10
"""Number of findings of a report that are run again."""
_NUMBERS = 12
"""Number of elements of an array that are shown."""


@dataclass(frozen=True)
class _RepeatedRun:
    finding: Finding
    key: Key
    chain: LaunchChain

    def by(self, on: RelationExecutor) -> Arrays:
        """Run the finding's launches again on an executor, and return the final arrays or the adjoints."""
        if self.key[0] == "forward":
            return self.chain.forward(on)
        return self.chain.gradient(on, self.chain.seeds)

    def by_policy(self, policy: str) -> Arrays:
        """Return the adjoints that the reference computes with the grad kernel of another policy."""
        made = Lowerings(self.chain.kernel)
        made.__dict__["lean"] = Lowerings(self.chain.kernel).other(policy)  # the cached property: this one is asked for
        other = LaunchChain((made,), self.chain.initial, self.chain.scalars, self.chain.seeds)
        return other.gradient(_reference(), other.seeds)

    def by_jax(self) -> Arrays:
        """Return the final arrays in JAX, or the adjoints if the finding is about a gradient."""
        chain, jax = self.chain, JaxExecutor()
        if self.key[0] == "forward":
            return jax.forward(chain.kernel, chain.initial, chain.scalars, DRAWS)
        seeds = {name.removesuffix(GRAD): seed for name, seed in chain.seeds.items()}
        found = jax.gradient(chain.kernel, chain.initial, chain.states[-1], chain.scalars, DRAWS, seeds)
        return {name + GRAD: array for name, array in found.items()}


def _reference() -> RelationExecutor:
    return RelationExecutor("reference", ReferenceBackend(fuel=FUEL), CHECKED)


def reproducer(finding: Finding, backends: Mapping[str, Backend], mutant: str = "") -> Plain:
    """Return the source of a standalone program that shows a finding, and the results of each executor.

    Args:
        finding: the finding.
        backends: backends by name.
        mutant: the mistake that was planted when the finding was made; it is planted again, and JAX never sees it.

    Returns:
        {"source": text, "results": {executor: {array: numbers, or the reason why there are none}}}.
    """
    results: dict[str, dict[str, str]] = {}
    with MUTANTS[mutant].planted() if mutant else nullcontext():
        for name, run in _runs(finding, backends):
            if name in backends and "" in results["reference"]:  # native code looks at no index
                results[name] = {"": "not run, as the reference did not come to an end"}
            else:
                results[name] = _shown(run)
    return {"source": render_source(finding.program), "results": results}


def reproducers(findings: Iterable[Finding], backends: Mapping[str, Backend], mutant: str = "") -> list[Plain]:
    """Return the reproducers of the first MOST findings, and empty objects for the rest."""
    return [reproducer(f, backends, mutant) if k < MOST else {} for k, f in enumerate(findings)]


def _runs(finding: Finding, backends: Mapping[str, Backend]) -> Iterator[tuple[str, Callable[[], Arrays]]]:
    key = failed_key(finding.judged)
    if key is None or key[0] == "load":
        return
    program, plan = finding.program, finding.plan
    seeds = {name + GRAD: seed for name, seed in program.seeds().items()}
    chain = LaunchChain((Lowerings(kernel_of(program, plan)),), program.arrays(), program.scalars(), seeds)
    again = _RepeatedRun(finding, key, chain)
    yield "reference", lambda: again.by(_reference())
    if key[1] in backends:
        backend = backends[key[1]]
        where = WidenedCpu(backend, plan.lanes, plan.threads) if key[1] == MASKED else backend
        yield key[1], lambda: again.by(RelationExecutor(key[1], where, _options(plan.effort)))
    if key[1] in ("classic", "policy"):
        yield key[1], partial(again.by_policy, "classic" if key[1] == "classic" else plan.policy or "stored")
    yield "jax", again.by_jax


def _options(effort: int) -> Options:
    return Options(debug=PRECISE.debug, precise=PRECISE.precise, effort=effort)


def _shown(run: Callable[[], Arrays]) -> dict[str, str]:
    outcome = attempt(run)
    if not isinstance(outcome, OkOutcome):
        return {"": str(outcome) if not hasattr(outcome, "reason") else outcome.reason}
    return {name: _numbers(array) for name, array in outcome.arrays.items()}


def _numbers(array: np.ndarray) -> str:
    flat = [f"{x:.9g}" for x in np.ravel(array)[:_NUMBERS]]
    return ", ".join(flat + (["..."] if array.size > _NUMBERS else []))
