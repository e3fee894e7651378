"""Wrap kernels as functions of JAX that have a derivative and work under jit, grad and vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.launching.launcher import NO_DRAWS
from ..interop.wrapping import Out, WrappedKernel, WrappedLaunch, is_array
from ..runtime.usage_errors import ArgumentError, import_optional

__all__ = ["wrap"]

JaxArrays = tuple[Any, ...]


# The kernel is Any: one of `sg.kernel`, or its method of an object. The function takes and returns arrays of the
# library.
def wrap(kernel: Any, out: Out) -> Callable[..., Any]:
    """Return a function of JAX arrays that launches a kernel and that JAX can differentiate.

    The function takes the arguments of the kernel without `out`, and returns the results: a single one alone, several
    as a tuple. Arguments that are no arrays are Python objects that are known when the function is traced. The kernel
    runs on the host, in a callback. It must be a function of its arguments: it draws no random numbers, stores to
    results alone, and the fields that it reads do not change.

        square = sg.jax.wrap(square_kernel, out="y")
        jax.grad(lambda x: square(x).sum())(x)

    Args:
        kernel: A kernel.
        out: The names of the results, with their shapes and dtypes, as for `sg.torch.wrap`.

    Raises:
        ArgumentError: `out` does not fit the kernel, or, in a call, the arguments do not.
        MissingPackage: JAX is not installed.
    """
    _jax()
    wrapped = WrappedKernel(kernel, out)

    def call(*args: Any, **keywords: Any) -> Any:
        given = wrapped.arguments(args, keywords)
        arrays = {name: value for name, value in given.items() if is_array(value)}
        results = _function(wrapped, given, tuple(arrays))(*arrays.values())
        return results[0] if len(results) == 1 else results

    call.__name__ = wrapped.kernel.__name__
    return call


def _function(wrapped: WrappedKernel, given: dict[str, Any], names: tuple[str, ...]) -> Callable[..., JaxArrays]:
    """Return a JAX function of the named arrays among the arguments `given` of a call; other arguments are fixed."""
    jax = _jax()
    kinds = {name: jax.ShapeDtypeStruct(*kind) for name, kind in wrapped.results(given).items()}
    real = tuple(name for name in names if np.issubdtype(np.dtype(given[name].dtype), np.floating))

    def run(*arrays: Any) -> JaxArrays:
        out = {name: np.zeros(kind.shape, kind.dtype) for name, kind in kinds.items()}
        if wrapped.forward(_own(given, names, arrays), out).draws != NO_DRAWS:
            reason = f"kernel {wrapped.kernel.__name__} draws random numbers, so it is no function of its arguments"
            raise ArgumentError(reason, "draw them with jax.random, and give them as an array")
        return tuple(out.values())

    def run_grad(arrays: JaxArrays, results: JaxArrays, cotangents: JaxArrays) -> JaxArrays:
        out = _own({}, tuple(kinds), results)
        seeds = {name: _copy(g, out[name]) for name, g in zip(kinds, cotangents) if out[name].dtype.kind == "f"}
        grads = wrapped.backward(_own(given, names, arrays), out, seeds, WrappedLaunch())
        return tuple(grads[name] for name in real)

    @jax.custom_vjp
    def function(*arrays: Any) -> JaxArrays:
        results: JaxArrays = jax.pure_callback(run, tuple(kinds.values()), *arrays, vmap_method="sequential")
        return results

    def forward(*arrays: Any) -> tuple[JaxArrays, tuple[JaxArrays, JaxArrays]]:
        results = function(*arrays)
        return results, (arrays, results)

    def backward(kept: tuple[JaxArrays, JaxArrays], cotangents: JaxArrays) -> JaxArrays:
        arrays, results = kept
        by_name = dict(zip(names, arrays))
        shapes = tuple(jax.ShapeDtypeStruct(by_name[n].shape, by_name[n].dtype) for n in real)
        # The callback cannot take arrays of float0, the dtype of cotangents of integers.
        seeds = tuple(np.zeros(()) if c.dtype == jax.dtypes.float0 else c for c in cotangents)
        grads = jax.pure_callback(run_grad, shapes, arrays, results, seeds, vmap_method="sequential")
        found = dict(zip(real, grads))
        return tuple(found.get(name) for name in names)

    function.defvjp(forward, backward)
    return function  # type: ignore[no-any-return]


def _jax() -> Any:
    """Return the module jax. Raise MissingPackage if it is not installed."""
    return import_optional("jax", "JAX", "jax")


def _own(given: dict[str, Any], names: tuple[str, ...], arrays: Any) -> dict[str, Any]:
    """Return the arguments with copies of all arrays, because kernels must not write arrays that belong to JAX."""
    return {**given, **{name: np.array(array, order="C") for name, array in zip(names, arrays)}}


def _copy(cotangent: Any, like: np.ndarray) -> np.ndarray:
    """Return a copy of a cotangent with the dtype of the array `like`."""
    return np.array(cotangent, like.dtype, order="C")
