"""Kernels as functions of torch: `wrap(kernel, out="y")` is differentiable by autograd. torch is loaded by `wrap`."""
from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .usage import ArgumentError
from .wrapping import Out, Wrapped

__all__ = ["wrap"]


def wrap(kernel: Any, out: Out) -> Callable[..., Any]:
    """A kernel as a function of tensors. It takes the kernel's arguments without `out`, and returns those.

    out: the name of the parameter that is the result, or a list of names, which have shape and dtype of the first
    tensor given; or a mapping from names to what each is like: another parameter's name, a shape, or a function of the
    other arguments, by name, that gives a shape or (shape, dtype). One result is returned alone, several as a tuple.

    Tensors are on the CPU. The kernel must not store to arguments that are no results. Fields that it reads get their
    gradients in `x.grad`, and must not be written before `backward`. Raises ArgumentError, ImportError without torch.
    """
    torch = _torch()
    apply = _function().apply
    wrapped = Wrapped(kernel, out)

    def call(*args: Any, **keywords: Any) -> Any:
        given = wrapped.arguments(args, keywords)
        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        for name, tensor in tensors.items():
            if tensor.device.type != "cpu":
                raise ArgumentError(f"the tensor {name} is on {tensor.device}", f"give {name}.cpu()")
        results = apply(wrapped, given, tuple(tensors), *tensors.values())
        return results[0] if len(results) == 1 else results

    call.__name__ = wrapped.kernel.__name__
    return call


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as missing:
        raise ImportError("torch is not installed; cure: pip install 'stackgrad[torch]'") from missing


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
            arrays = {**given, **{name: tensor.numpy() for name, tensor in zip(names, kept)}}
            made = {name: torch.from_numpy(np.zeros(*kind)) for name, kind in wrapped.results(arrays).items()}
            ctx.launched = wrapped.forward(arrays, {name: tensor.numpy() for name, tensor in made.items()})
            ctx.wrapped, ctx.given, ctx.names = wrapped, given, names
            ctx.save_for_backward(*kept, *made.values())
            ctx.mark_non_differentiable(*(t for t in made.values() if not t.dtype.is_floating_point))
            return tuple(made.values())

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *cotangents: Any) -> Any:
            saved = [tensor.detach().numpy() for tensor in ctx.saved_tensors]
            arrays = {**ctx.given, **dict(zip(ctx.names, saved))}
            out = dict(zip(ctx.wrapped.out, saved[len(ctx.names) :]))
            seeds = {
                name: np.array(given.detach().numpy(), out[name].dtype, order="C")
                for name, given in zip(out, cotangents)
                if given is not None and out[name].dtype.kind == "f"
            }
            grads = ctx.wrapped.backward(arrays, out, seeds, ctx.launched)
            return (None, None, None, *(torch.from_numpy(grads[n]) if n in grads else None for n in ctx.names))

    return KernelFunction
