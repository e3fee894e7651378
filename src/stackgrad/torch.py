"""Kernels as functions of torch: `wrap(kernel, out="y")` is differentiable by autograd. torch is loaded by `wrap`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from .leaves import memory_of_tensor
from .session import RUNTIME
from .usage import ArgumentError, imported
from .wrapping import Out, Wrapped

__all__ = ["wrap"]


def wrap(kernel: Any, out: Out) -> Callable[..., Any]:
    """A kernel as a function of tensors. It takes the kernel's arguments without `out`, and returns those.

    out: the name of the parameter that is the result, or a list of names, which have shape and dtype of the first
    tensor given; or a mapping from names to what each is like: another parameter's name, a shape, or a function of the
    other arguments, by name, that gives a shape or (shape, dtype). One result is returned alone, several as a tuple.

    Tensors are on the CPU, or, with arch=cuda, all on the CPU or all on the GPU; results and gradients are where they
    are. The kernel must not store to arguments that are no results. Fields that it reads get their
    gradients in `x.grad`, and must not be written before `backward`. Raises ArgumentError, and
    MissingPackage without torch.
    """
    torch = _torch()
    apply = _function().apply
    wrapped = Wrapped(kernel, out)

    def call(*args: Any, **keywords: Any) -> Any:
        given = wrapped.arguments(args, keywords)
        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        _check_devices(tensors)
        results = apply(wrapped, given, tuple(tensors), *tensors.values())
        return results[0] if len(results) == 1 else results

    call.__name__ = wrapped.kernel.__name__
    return call


def _check_devices(tensors: Mapping[str, Any]) -> None:
    first: Any = next(iter(tensors.values()), None)
    for name, tensor in tensors.items():
        if tensor.device.type != "cpu" and (RUNTIME.remote is None or tensor.device.type != "cuda"):
            raise ArgumentError(f"the tensor {name} is on {tensor.device}", f"give {name}.cpu()")
        if tensor.device != first.device:
            raise ArgumentError(
                f"the tensor {name} is on {tensor.device}, another one on {first.device}", "give all on one device"
            )


def _zeros(like: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A tensor of zeros on the device of another one; on the CPU if there is none."""
    torch = _torch()
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    return torch.zeros(shape, dtype=kind, device="cpu" if like is None else like.device)


def _torch() -> Any:
    return imported("torch", "torch", "torch")


@cache
def _function() -> Any:
    """The `torch.autograd.Function` of all wrapped kernels."""
    torch = _torch()
    base: Any = torch.autograd.Function

    class KernelFunction(base):
        """Runs a kernel on the memory of tensors; backward runs its gradient on the same memory."""

        @staticmethod
        def forward(ctx: Any, wrapped: Wrapped, given: dict[str, Any], names: tuple[str, ...], *tensors: Any) -> Any:
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
            return (None, None, None, *_gradients(ctx, cotangents))

    return KernelFunction


def _gradients(ctx: Any, cotangents: tuple[Any, ...]) -> list[Any]:
    """The gradients of the tensors of a call, None for those of integers. cotangents: of its results."""
    torch = _torch()
    saved = [memory_of_tensor(tensor) for tensor in ctx.saved_tensors]
    arrays = {**ctx.given, **dict(zip(ctx.names, saved))}
    out = dict(zip(ctx.wrapped.out, saved[len(ctx.names) :]))
    results = dict(zip(out, ctx.saved_tensors[len(ctx.names) :]))
    kept = {  # used up by the gradient
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
