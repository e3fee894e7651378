"""Wrap kernels as pure functions from arrays to arrays, so that torch and JAX can differentiate them.

A kernel writes to arrays among its arguments. The user says which parameters are results; a call of the function
allocates the results, filled with zeros, and returns them, so the function has no side effects. The gradient of the
function is the grad kernel, which runs on the arrays as the call left them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.launching.launcher import NO_DRAWS
from ..compiler.ir.types import Scalar
from ..data.fields import Array
from ..data.half_accumulators import accumulator_of
from ..data.leaves import ForeignArray
from ..runtime.usage_errors import ArgumentError, close_names

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from ..launch.kernels import Kernel
    from ..launch.program import Binding

Out = str | Sequence[str] | Mapping[str, Any]
"""The names of the parameters that are results.

A mapping also gives the form of each result: the name of another parameter, whose shape and dtype it has, a shape, or
a function of the other arguments of the call that returns a shape or (shape, dtype).
"""


@dataclass(frozen=True)
class WrappedLaunch:
    """Hold the facts about a forward launch that its gradient needs: random key, field versions and copied gradients.

    Attributes:
        draws: The key of the random numbers of the launch.
        versions: The fields that the kernel uses, with their versions after the launch.
        gradients: Copies of the gradients of fields that the kernel reads, by parameter; other backward passes update
            these gradients.
    """

    draws: Draws = NO_DRAWS
    versions: tuple[tuple[Any, int], ...] = ()
    gradients: Mapping[str, np.ndarray] = field(default_factory=dict)


class WrappedKernel:
    """Represent a kernel as a pure function: some array parameters are its inputs, the others its results.

    Attributes:
        kernel: The kernel; if it is a method, not bound to an object.
        prefix: A tuple of the object to which a method is bound, else an empty tuple.
        params: All parameters in order, without the parameter for the object of a method.
        defaults: The default values of parameters by name.
        out: For each result by name, its shape and dtype, or how to find them; see `_result`.
        names: The parameters that a call passes, in order: all but the results.

    Raises:
        ArgumentError: The object is no kernel, or `out` does not fit it.
    """

    def __init__(self, kernel: Any, out: Out) -> None:
        if not getattr(kernel, "is_stackgrad_kernel", False):
            raise ArgumentError(f"{getattr(kernel, '__name__', kernel)!s} is no kernel", "decorate it with @sg.kernel")
        self.kernel = getattr(kernel, "__func__", kernel)
        self.prefix = (kernel.__self__,) if hasattr(kernel, "__self__") else ()
        self.params = tuple(inspect.signature(self.kernel.__wrapped__).parameters)[len(self.prefix) :]
        self.defaults = _defaults(self.kernel.__wrapped__)
        self.out = _results(self.kernel.__name__, self.params, out)
        self.names = tuple(name for name in self.params if name not in self.out)

    def arguments(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, defaults included. Raise ArgumentError if they do not fit."""
        found = dict(zip(self.names, args))
        unknown = [name for name in keywords if name not in self.names or name in found]
        found.update(keywords)
        for name in self.names:
            if name in self.defaults:
                found.setdefault(name, self.defaults[name])
        if unknown or len(args) > len(self.names) or len(found) != len(self.names):
            reason = f"kernel {self.kernel.__name__}, wrapped, got {len(args) + len(keywords)} arguments"
            raise ArgumentError(reason, f"it takes {', '.join(self.names)}, and returns {', '.join(self.out)}")
        return {name: found[name] for name in self.names}

    def results(self, given: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Return shape and dtype of each result of a call.

        Args:
            given: The arguments of the call by name. Arrays among them have shape and dtype.
        """
        return {name: self._result(name, like, given) for name, like in self.out.items()}

    def _result(self, name: str, like: Any, given: Mapping[str, Any]) -> tuple[tuple[int, ...], np.dtype]:
        """Return shape and dtype of one result: those that `like` gives, or else those of the first array argument.

        Args:
            name: The name of the result.
            like: A shape or (shape, dtype), a function of the arguments that returns one of these, the name of an
                argument with the shape and dtype of the result, or None.
            given: The arguments of the call by name.
        """
        arrays = [value for value in given.values() if is_array(value)]
        dtype = _dtype(arrays[0]) if arrays else np.dtype(np.float64)
        if like is None:
            if not arrays:
                raise ArgumentError(f"nothing says which shape {name} has", f"give out={{{name!r}: shape}}")
            return tuple(arrays[0].shape), dtype
        if isinstance(like, str):
            return tuple(given[like].shape), _dtype(given[like])
        shape = like(**given) if callable(like) else like
        # A pair whose second part is no number is (shape, dtype); otherwise it is a shape of two axes.
        if isinstance(shape, tuple) and len(shape) == 2 and not isinstance(shape[1], (int, np.integer)):
            shape, dtype = shape[0], _as_dtype(shape[1])
        return tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),), dtype

    # -- launches -------------------------------------------------------------------------------------------

    def forward(self, given: Mapping[str, Any], out: Mapping[str, np.ndarray]) -> WrappedLaunch:
        """Launch the kernel, which stores its results to the arrays `out`.

        Args:
            given: The arguments by name. Arrays are C-contiguous NumPy arrays that belong to the call.
            out: The memory of the results by name, filled with zeros.
        """
        binding, scalars = self._bound(given, out, {})
        binding.launch(scalars)
        fields = [f for f in binding.arrays.values() if not isinstance(f, np.ndarray)]
        versions = tuple((f, f.version) for f in fields if not f.is_grad)
        return WrappedLaunch(binding.draws_reverse(scalars), versions, _gradients_read(binding))

    def backward(
        self,
        given: Mapping[str, Any],
        out: Mapping[str, np.ndarray],
        cotangents: Mapping[str, np.ndarray],
        launched: WrappedLaunch,
        places: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the gradients of the real arrays among the arguments.

        Args:
            given: The arguments of the launch by name.
            out: The results as the launch left them, by name.
            cotangents: The cotangents of the results by name. The gradient overwrites them.
            launched: The record of the launch.
            places: Arrays of zeros, by argument name, to which the gradients are added; None to allocate arrays that
                the host may read.

        Raises:
            ArgumentError: A field that the kernel uses was written since the launch.
        """
        for one, version in launched.versions:
            if one.version != version:
                raise ArgumentError(
                    f"{one.label}, which kernel {self.kernel.__name__} uses, was written since its launch",
                    "give it as an argument",
                )
        known = places or {}
        grads = {n: known[n] if n in known else np.zeros_like(v) for n, v in given.items() if is_real(v)}
        binding, scalars = self._bound(given, out, {**grads, **cotangents})
        if not binding.program.constant:
            found = binding.prepare_grad().in_place_of(launched.gradients)
            binding.launch_grad(scalars, launched.draws, lambda _: found)
        return grads

    def _bound(
        self, given: Mapping[str, Any], out: Mapping[str, np.ndarray], grads: Mapping[str, np.ndarray]
    ) -> tuple[Binding, Scalars]:
        """Return the binding and scalars of a call of the kernel. Raise ArgumentError if it stores to an input."""
        values = {**given, **out}
        leaves = {n: _leaf(v, grads.get(n)) if isinstance(v, np.ndarray) else v for n, v in values.items()}
        arguments = (*self.prefix, *(leaves[name] for name in self.params))
        binding, scalars, names = _bind(self.kernel, arguments)
        taken = {id(leaf.memory): name for name, leaf in leaves.items() if isinstance(leaf, ForeignArray)}
        for name in names & binding.program.forward().lowered.writes:
            param = taken.get(id(binding.arrays[name]))
            if param is not None and param not in out:
                cure = f"name it in out=, or copy it to a local array of the kernel ({', '.join(self.out)} are results)"
                raise ArgumentError(f"kernel {self.kernel.__name__} stores to its argument {param}", cure)
        return binding, scalars


def _bind(kernel: Kernel[Any, Any], arguments: tuple[Any, ...]) -> tuple[Binding, Scalars, set[str]]:
    """Return a binding of a kernel to the arrays of a call, the scalar arguments, and the array parameters' names."""
    found = kernel.bind(arguments)
    if found is None:
        cure = "annotate its inputs and results with sg.types.ndarray()"
        raise ArgumentError(f"kernel {kernel.__name__} takes no arrays", cure)
    special, binding, scalars = found
    if special.reader is not None:
        raise ArgumentError(f"kernel {kernel.__name__} returns a value, which has no gradient", "store it to an array")
    return binding, scalars, {name for name, _, is_grad in special.slots if not is_grad}


def _gradients_read(binding: Binding) -> dict[str, np.ndarray]:
    """Return copies of the gradients of fields that a kernel reads, by parameter."""
    found = {name: binding.arrays.get(name) for name in binding.program.forward_side().reads}
    return {name: one.memory.copy() for name, one in found.items() if isinstance(one, Array) and one.is_grad}


def _leaf(value: np.ndarray, grad: np.ndarray | None) -> ForeignArray:
    """Return an array as a kernel argument, with an adjoint array if its elements are reals."""
    if value.dtype.kind != "f":
        return ForeignArray(value, owner=value)
    return ForeignArray(value, accumulator_of(np.zeros_like(value) if grad is None else grad), owner=value)


def is_array(value: Any) -> bool:
    """Return True if an argument is an array of any library."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def is_real(value: Any) -> bool:
    """Return True if an argument is a NumPy array of reals, which has a gradient."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _dtype(array: Any) -> np.dtype:
    """Return the NumPy dtype of an array of any library."""
    return _as_dtype(array.dtype)


def _as_dtype(given: Any) -> np.dtype:
    """Return a dtype of stackgrad, NumPy or torch as a NumPy dtype; torch writes its dtypes as `torch.float32`."""
    if isinstance(given, Scalar):
        return given.dtype
    try:
        found: np.dtype = np.dtype(given)
        return found
    except TypeError:
        return np.dtype(str(given).rpartition(".")[2])


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the default values of the parameters of a function."""
    params = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in params if p.default is not inspect.Parameter.empty}


def _results(kernel: str, params: tuple[str, ...], out: Out) -> dict[str, Any]:
    """Return, for each result, what `out` gives as its shape. Raise ArgumentError if `out` names no parameter."""
    named = {out: None} if isinstance(out, str) else dict(out) if isinstance(out, Mapping) else dict.fromkeys(out)
    if not named:
        raise ArgumentError(f"kernel {kernel} has no results", "name the parameters that it writes, as in out='y'")
    likes = [like for like in named.values() if isinstance(like, str)]
    for name in (*named, *likes):
        if name not in params:
            cure = close_names(name, [*params]) or f"its parameters: {', '.join(params)}"
            raise ArgumentError(f"kernel {kernel} has no parameter {name!r}", cure)
    return {name: named[name] for name in params if name in named}
