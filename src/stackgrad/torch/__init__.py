"""Wrap kernels as functions of torch tensors that autograd can differentiate.

torch is imported when `wrap` is called, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ..data.leaves import memory_of_tensor
from ..interop.wrapping import Out, WrappedKernel
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import ArgumentError, import_optional

__all__ = ["wrap"]


# The kernel is Any: one of `sg.kernel`, or its method of an object. The function takes and returns arrays of the
# library.
def wrap(kernel: Any, out: Out) -> Callable[..., Any]:
    """Return a function of torch tensors that launches a kernel and that autograd can differentiate.

    The function takes the arguments of the kernel without `out`, and returns the results: a single one alone, several
    as a tuple. Tensors are on the CPU or, with arch=cuda, all on the CPU or all on the GPU; results and gradients are
    where the tensors are. The kernel must not store to arguments that are no results. Fields that the kernel reads get
    their gradients in `x.grad`, and must not be written before `backward`.

        square = sg.torch.wrap(square_kernel, out="y")
        square(x).sum().backward()

    Args:
        kernel: A kernel.
        out: The name of the parameter that is the result, or a list of names; these results have the shape and dtype of
            the first tensor given. Or a mapping from the name of each result to its shape; in place of a shape, it may
                have the name of a parameter with the same shape and dtype, or a function of the other arguments, by
                name, that returns a shape or (shape, dtype).

    Returns:
        The function.

    Raises:
        ArgumentError: `out` does not fit the kernel, or, in a call, the arguments do not.
        MissingPackage: torch is not installed.
    """
    torch = _torch()
    apply = _function().apply
    wrapped = WrappedKernel(kernel, out)

    def call(*args: Any, **keywords: Any) -> Any:
        given = wrapped.arguments(args, keywords)
        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        _check_devices(tensors)
        results = apply(wrapped, given, tuple(tensors), *tensors.values())
        return results[0] if len(results) == 1 else results

    call.__name__ = wrapped.kernel.__name__
    return call


def _check_devices(tensors: Mapping[str, Any]) -> None:
    """Raise ArgumentError unless all tensors are on one device that kernels can use."""
    first: Any = next(iter(tensors.values()), None)
    for name, tensor in tensors.items():
        if tensor.device.type != "cpu" and (RUNTIME.remote is None or tensor.device.type != "cuda"):
            raise ArgumentError(f"the tensor {name} is on {tensor.device}", f"give {name}.cpu()")
        if tensor.device != first.device:
            raise ArgumentError(
                f"the tensor {name} is on {tensor.device}, another one on {first.device}", "give all on one device"
            )


def _zeros(like: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a tensor of zeros on the device of the tensor `like`, or on the CPU if `like` is None."""
    torch = _torch()
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    return torch.zeros(shape, dtype=kind, device="cpu" if like is None else like.device)


def _torch() -> Any:
    """Return the module torch. Raise MissingPackage if it is not installed."""
    return import_optional("torch", "torch", "torch")


@cache
def _function() -> Any:
    """Return the subclass of `torch.autograd.Function` that runs wrapped kernels; the first call defines it."""
    torch = _torch()
    base: Any = torch.autograd.Function

    class KernelFunction(base):
        """Represent a kernel as a torch autograd function: forward launches it, and backward launches its gradient."""

        @staticmethod
        def forward(
            ctx: Any, wrapped: WrappedKernel, given: dict[str, Any], names: tuple[str, ...], *tensors: Any
        ) -> Any:
            """Launch the kernel, and save the tensors that its gradient needs for the backward pass."""
            kept = [tensor.detach().contiguous() for tensor in tensors]
            first = next(iter(kept), None)
            arrays = {**given, **{name: memory_of_tensor(tensor) for name, tensor in zip(names, kept)}}
            made = {name: _zeros(first, *kind) for name, kind in wrapped.results(arrays).items()}
            ctx.launched = wrapped.forward(arrays, {name: memory_of_tensor(tensor) for name, tensor in made.items()})
            ctx.wrapped, ctx.given, ctx.names = wrapped, given, names
            ctx.save_for_backward(*kept, *made.values())
            ctx.mark_non_differentiable(*(t for t in made.values() if not t.dtype.is_floating_point))
            return tuple(made.values())

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *cotangents: Any) -> Any:
            """Return the gradient of each input of `forward`; the first three inputs are not tensors and get None."""
            return (None, None, None, *_gradients(ctx, cotangents))

    return KernelFunction


def _gradients(ctx: Any, cotangents: tuple[Any, ...]) -> list[Any]:
    """Return the gradient of each tensor of a call, with None for tensors of integers.

    Args:
        ctx: The context that `KernelFunction.forward` filled.
        cotangents: The cotangents of the results of the call; None where a result has none.
    """
    torch = _torch()
    saved = [memory_of_tensor(tensor) for tensor in ctx.saved_tensors]
    arrays = {**ctx.given, **dict(zip(ctx.names, saved))}
    out = dict(zip(ctx.wrapped.out, saved[len(ctx.names) :]))
    results = dict(zip(out, ctx.saved_tensors[len(ctx.names) :]))
    # The gradient overwrites cotangents, and they belong to the caller, so they are cloned.
    kept = {
        name: given.detach().to(results[name].dtype).contiguous().clone()
        for name, given in zip(out, cotangents)
        if given is not None and out[name].dtype.kind == "f"
    }
    seeds = {name: memory_of_tensor(tensor) for name, tensor in kept.items()}
    grads = {
        name: torch.zeros_like(tensor, memory_format=torch.contiguous_format)
        for name, tensor in zip(ctx.names, ctx.saved_tensors)
        if tensor.dtype.is_floating_point
    }
    places = {name: memory_of_tensor(tensor) for name, tensor in grads.items()}
    ctx.wrapped.backward(arrays, out, seeds, ctx.launched, places)
    return [grads.get(name) for name in ctx.names]
