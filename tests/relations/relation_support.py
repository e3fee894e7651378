"""Make launch chains of the kernels, and collect the verdicts of relations on them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import stackgrad as sg
from relation_kernels import KERNELS, content, fields
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.harness.testing.executors import CHECKED, PRECISE, backend_by_name
from stackgrad.harness.testing.launch import GRAD, array_parameters, with_gradient
from stackgrad.harness.tools.fuzz.lowerings import Lowerings
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.relations.chain import LaunchChain, RelationExecutor
from stackgrad.harness.tools.relations.table import TABLE
from stackgrad.reference.backend import ReferenceBackend

DRAWS = range(4)
"""Draws that between them change each part of each kernel."""


def reference() -> RelationExecutor:
    return RelationExecutor("reference", ReferenceBackend(), CHECKED)


def executor(name: str) -> RelationExecutor:
    return reference() if name == "reference" else RelationExecutor(name, backend_by_name(name), PRECISE)


@cache
def traced(name: str, real: Any) -> Kernel:
    """Return a traced kernel of the list, over fields of this type."""
    sg.init(arch=sg.reference, default_fp=real)
    return KERNELS[name](fields(real)).ir()


def chain_of(kernel: Kernel, real: type = np.float64) -> LaunchChain:
    """Return a chain of one launch of a kernel on the list's contents, with a seed for every element."""
    arrays = {name: content(name.rpartition(".")[2], real) for name in array_parameters(kernel)}
    rng = np.random.default_rng(3)
    seeds = {n + GRAD: np.asarray(rng.uniform(0.5, 1.5, arrays[n].shape), real) for n in with_gradient(kernel)}
    return LaunchChain((Lowerings(kernel),), arrays, {}, seeds)


def said(
    relation: str, kernel: Kernel, on: RelationExecutor, real: type = np.float64, draws: Any = DRAWS
) -> list[JudgedComparison]:
    """Return all verdicts of a relation on a kernel."""
    chain = chain_of(kernel, real)
    return [judged for draw in draws for judged in TABLE[relation](chain, on, draw, True)]
