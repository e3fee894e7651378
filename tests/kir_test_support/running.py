"""Running the checks of a .kir file on one executor.

Every check runs in each *build* of an executor that it must hold in: the reference has one; a compiled backend has
precise and default code, and debug code for traps. Kernels are parsed and compiled once per (text, backend, build).
"""
from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from stackgrad.backends.base import Draws, Options, Probe
from stackgrad.compiler.ir.nodes import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import ArrayType, Scalar

from .directives import Check, KirFileError
from .numbers import is_exact, read_array, read_number, unlike

PRECISE, DEFAULT, DEBUG = Options(precise=True), Options(precise=False), Options(debug=True, precise=True)


@cache
def probes() -> dict[str, Probe]:
    """Every backend with its probe, in the order of the registry."""
    from stackgrad.backends import registry

    return dict(registry.probe_all())


@cache
def parsed(text: str) -> Kernel:
    """The kernel of a text."""
    return parse_kernel(text)


def builds(backend: str, kind: str, error: str = "") -> tuple[Options, ...]:
    """The builds in which a check of this kind must hold on this backend."""
    if backend == "reference":
        return () if kind == "release" else (DEBUG,)
    if kind == "trap":
        return (DEBUG, PRECISE) if error == "AdstackOverflow" else (DEBUG,)
    return (PRECISE, DEFAULT)


def build_name(options: Options) -> str:
    """For messages."""
    return "debug" if options.debug else "precise" if options.precise else "default"


# ---- memory -------------------------------------------------------------------------------------------------


def memory(kernel: Kernel, check: Check) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and scalars before the launch. Adjoints start at their seed, or at zero.

    An array that is not given has the shape of what is expected, and other content.
    """
    arrays: dict[str, np.ndarray] = {}
    scalars: dict[str, Any] = {}
    for param in kernel.params:
        if isinstance(param.type, Scalar):
            scalars[param.name] = _scalar(param.name, param.type, check)
            continue
        arrays[param.name] = _array(param.name, param.type, check)
        if param.type.grad:
            name = f"{param.name}.grad"
            arrays[name] = np.zeros_like(arrays[param.name])
            if param.name in check.seeds:
                arrays[name] = read_array(check.seeds[param.name], param.type.dtype, param.type.ndim)
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
    """Element type and rank of an array, or of its adjoint."""
    kind = kernel.array_types()[name.removesuffix(".grad")]
    return kind.dtype, kind.ndim


# ---- launching ----------------------------------------------------------------------------------------------


@cache
def _backend(name: str) -> Any:
    from stackgrad.backends import registry

    return registry.get(name)


_LAUNCHERS: dict[tuple[str, str, Options], Any] = {}


def launch(
    backend: str, kernel: Kernel, key: str, options: Options, arrays: dict[str, np.ndarray], scalars: dict[str, Any],
    draws: Draws,
) -> None:
    """Execute once, in place. key: a text that stands for the kernel."""
    from stackgrad.backends.launcher import Launcher

    made = _LAUNCHERS.get((key, backend, options))
    if made is None:
        made = _LAUNCHERS[key, backend, options] = Launcher(kernel, _backend(backend), options)
    made.run(arrays, scalars, draws)


@contextlib.contextmanager
def captured() -> Iterator[list[str]]:
    """Collects what is printed meanwhile, by Python and by native code, as lines."""
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
