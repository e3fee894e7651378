"""Run the checks of a .kir file on one executor.

A check runs in every *build* of an executor that it must hold in. `plain`: precise code of the kernel as it stands;
`debug`: with checks; `default`: what a user gets, that is, after the passes of the forward pipeline (verified after
each) and with code that may contract. A kernel is parsed once per text, and compiled once per (text, backend, build)
as long as its checks follow each other.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Probe
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import Lowering, prepare_forward, prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.nodes import Op, StackAlloca
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import ArrayType, Scalar
from stackgrad.compiler.ir.walk import renumber, walk_kernel
from stackgrad.compiler.passes.lower_blocks import has_blocks, lower_blocks
from stackgrad.harness.testing.executors import backend_by_name

from .directives import Check, KirFileError
from .numbers import is_exact, read_array, read_number, unlike


@dataclass(frozen=True)
class Build:
    """Represent the way to prepare a kernel for a run; if `passes` is True, the forward pipeline runs on it first."""

    name: str
    options: Options
    passes: bool = False


PLAIN = Build("plain", Options(precise=True))
DEBUG = Build("debug", Options(debug=True, precise=True))
DEFAULT = Build("default", Options(precise=False), passes=True)


def builds(backend: str, kind: str, error: str = "", lowering: str = "") -> tuple[Build, ...]:
    """Return the builds in which a check of this kind must hold on this backend.

    Passes may drop a trap whose value is not used, so traps are looked for in the kernel as it stands. Of the two
    lowerings of a gradient, the one that users get runs in their build.
    """
    if kind == "trap":
        overflow = error == "AdstackOverflow" and backend != "reference"
        return (DEBUG, PLAIN) if overflow else (DEBUG,)
    if kind == "release":
        return () if backend == "reference" else (PLAIN, DEFAULT)
    if kind == "grad":
        return (PLAIN,) if lowering == "classic" else (DEFAULT,)
    return (PLAIN, DEFAULT)


@cache
def is_covered_by_default(text: str) -> bool:
    """Return True if default builds compile the same code, because no pass changes the kernel."""
    kernel = parsed(text)
    computes = any(isinstance(s, Op) and s.result.type.is_real for s in walk_kernel(kernel))
    return not computes and renumber(prepare_forward(kernel).kernel) == renumber(kernel)


@cache
def probes() -> dict[str, Probe]:
    """Return every backend with its Probe, in the order of the registry."""
    return registry.probe_all()


@cache
def parsed(text: str) -> Kernel:
    """Return the kernel that a text defines."""
    return parse_kernel(text)


# ---- memory -------------------------------------------------------------------------------------------------


def memory(kernel: Kernel, check: Check) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return arrays and scalars before the launch; adjoints start at their seed, or at zero.

    An array without given contents has the shape of the expected array, and contents that differ from it.
    """
    arrays: dict[str, np.ndarray] = {}
    scalars: dict[str, Any] = {}
    for param in kernel.params:
        if isinstance(param.type, Scalar):
            scalars[param.name] = _scalar(param.name, param.type, check)
            continue
        if param.name in arrays:  # the adjoint of an array before it
            continue
        arrays[param.name] = _array(param.name, param.type, check)
        if param.type.grad:
            name, kind = f"{param.name}.grad", param.type.adjoint
            arrays[name] = np.zeros(arrays[param.name].shape, kind.dtype.dtype)
            if param.name in check.seeds:
                arrays[name] = read_array(check.seeds[param.name], kind.dtype, kind.ndim)
    _refuse_unknown(check, arrays, scalars)
    return arrays, scalars


def _scalar(name: str, dtype: Scalar, check: Check) -> float | int | bool:
    if name not in check.values:
        raise KirFileError(f"no value is given for the scalar {name}")
    value = read_number(check.values[name], dtype)
    if not is_exact(value, dtype):
        raise KirFileError(f"{name}={value!r} is not representable in {dtype}")
    return value


def _array(name: str, kind: ArrayType, check: Check) -> np.ndarray:
    if name in check.values:
        return read_array(check.values[name], kind.dtype, kind.ndim)
    if name in check.expected:
        return unlike(read_array(check.expected[name], kind.dtype, kind.ndim, exact=False), kind.dtype)
    if name in check.seeds:
        return np.zeros_like(read_array(check.seeds[name], kind.dtype, kind.ndim))
    raise KirFileError(f"neither a content before nor one afterwards is given for the array {name}")


def _refuse_unknown(check: Check, arrays: dict[str, np.ndarray], scalars: dict[str, Any]) -> None:
    unknown = {*check.values, *check.expected, *(f"{name}.grad" for name in check.seeds)} - {*arrays, *scalars}
    if unknown:
        raise KirFileError(f"the kernel has no parameter {', '.join(sorted(unknown))}")


def dtype_of(kernel: Kernel, name: str) -> tuple[Scalar, int]:
    """Return the element type and the rank of an array, or of its adjoint."""
    types = kernel.array_types()
    kind = types[name] if name in types else types[name.removesuffix(".grad")].adjoint
    return kind.dtype, kind.ndim


# ---- launching ----------------------------------------------------------------------------------------------


@lru_cache(64)
def launcher(text: str, backend: str, build: Build, lowering: str = "") -> Launcher:
    """Return the launcher of a text's kernel on a backend, or of its grad kernel if a lowering is given."""
    kernel = parsed(text)
    if lowering:
        lowered = prepare_reverse(kernel, lowering, check=True)
    elif build.passes or _is_unsized(kernel) or has_blocks(kernel):
        lowered = prepare_forward(kernel, check=True, blocks=backend_by_name(backend).blocks)
    else:
        lowered = Lowering(kernel)
    return Launcher(lowered, backend_by_name(backend), build.options)


def _is_unsized(kernel: Kernel) -> bool:
    return any(isinstance(s, StackAlloca) and s.capacity is None for s in walk_kernel(kernel))


def run_gradient(text: str, check: Check, backend: str, build: Build, lowering: str) -> dict[str, np.ndarray]:
    """Return the memory after the kernel and its grad kernel; the seeds are adjoints of the final contents."""
    arrays, scalars = memory(parsed(text), check)
    draws = Draws(*check.draws)
    launcher(text, backend, build).run(arrays, scalars, draws)
    grad = launcher(text, backend, build, lowering)
    states = {copy: arrays[name].copy() for copy, name in grad.lowered.states.items()}
    grad.run({**arrays, **states}, scalars, draws)
    return arrays


def ask_jax(kernel: Kernel, check: Check) -> dict[str, np.ndarray]:
    """Return the expected adjoints as doubles, computed by the JAX oracle from the forward kernel alone."""
    from stackgrad.harness.testing.oracles import jax_oracle  # here, for a run without grad lines loads no JAX

    arrays, scalars = memory(kernel, check)
    primals = {name: arrays[name] for name in kernel.array_types() if name in arrays}  # temporaries have no content
    seeds = {name: arrays[f"{name}.grad"] for name in check.seeds}
    wrt = [name.removesuffix(".grad") for name in check.expected if name.endswith(".grad")]
    found = jax_oracle.vjp(lower_blocks(kernel), primals, scalars, seeds, wrt, Draws(*check.draws))
    return {f"{name}.grad": adjoint for name, adjoint in found.items()}


@contextlib.contextmanager
def captured() -> Iterator[list[str]]:
    """Collect, as lines, what Python and native code print inside the `with` block."""
    lines: list[str] = []
    stream = io.StringIO()
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            with contextlib.redirect_stdout(stream):
                yield lines
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            lines += stream.getvalue().splitlines() + file.read().decode().splitlines()
