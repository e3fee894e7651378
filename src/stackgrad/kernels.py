"""Kernels: Python functions that are traced at their first call, and kernels given as IR text.

Invariant: what a call launches was traced under the present settings, on live fields.
"""
from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .arguments import Signature
from .backends.base import SLABS
from .compiler.errors import Span, StackgradError
from .compiler.ir.nodes import Kernel as KernelIR
from .compiler.ir.nodes import Param, StackAlloca
from .compiler.ir.types import ArrayType
from .compiler.ir.walk import walk_kernel
from .fields import Field
from .program import GRAD, Binding, Program, implicit_adjoints
from .session import RUNTIME
from .usage import ArgumentError, close_names

if TYPE_CHECKING:
    from .backends.launcher import Lowered
    from .compiler.frontend.trace import Traced

_KEPT_BINDINGS = 16
_TRACING = threading.RLock()


class KernelWarning(UserWarning):
    """A kernel means something that its author may not have meant."""



@dataclass(frozen=True)
class KernelStats:
    """Counters of a kernel since it was traced, which every `init` renews.

    launches, grad_launches: forward and reverse. countings: runs of the counting kernel. cache_hits: launches whose
    adstack sizes were known. compile_seconds: code generation, all directions. bytes: adstack memory by slab that
    the last gradient needed; its tasks run one after another and share a slab.
    """

    launches: int = 0
    grad_launches: int = 0
    countings: int = 0
    cache_hits: int = 0
    compile_seconds: float = 0.0
    bytes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(SLABS, 0))


def stats_of(program: Program | None) -> KernelStats:
    """The counters of a program; zeros if it was never launched."""
    if program is None:
        return KernelStats()
    forward, reverse = program.launchers
    found = [launcher for launcher in (forward, reverse) if launcher is not None]
    need = dict.fromkeys(SLABS, 0)
    for launcher in found:
        for use in launcher.usage():
            need[use.slab] = max(need[use.slab], use.bytes)
    return KernelStats(
        launches=forward.stats.launches if forward else 0,
        grad_launches=reverse.stats.launches if reverse else 0,
        countings=sum(launcher.stats.countings for launcher in found),
        cache_hits=sum(launcher.stats.cache_hits for launcher in found),
        compile_seconds=sum(launcher.stats.compile_seconds for launcher in found),
        bytes=need,
    )


class Kernel:
    """A Python function as a kernel: `k(*args)` launches it, `k.grad(*args)` its gradient.

    The function is traced at the first call after `init`. Raises the located errors of the compiler then, and
    KernelTypeError, at the function's `def`, for arguments that do not fit.
    """

    __slots__ = ("__wrapped__", "__name__", "_generation", "_signature", "_binding")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", "kernel")
        self._generation = -1
        self._signature: Signature | None = None
        self._binding: Binding | None = None

    @staticmethod
    def from_text(text: str) -> TextKernel:
        """A kernel from IR text; see `kernel_from_text`."""
        return kernel_from_text(text)

    def __repr__(self) -> str:
        return f"<sg.kernel {self.__name__}>"

    def __call__(self, *args: Any, **keywords: Any) -> None:
        """Launch once."""
        if self._generation != RUNTIME.generation:
            self._trace()
        signature: Signature = self._signature  # type: ignore[assignment]
        if keywords:
            args = signature.positional(args, keywords)
        self._binding.launch(signature.scalars(args))  # type: ignore[union-attr]

    def grad(self, *args: Any, **keywords: Any) -> None:
        """Launch the gradient at the present content of all fields.

        `y.grad` of what the kernel writes holds the cotangents before; afterwards they are pulled back: `x.grad` of
        what it reads has grown by its share, `y.grad` of what it overwrites is 0. Raises NotDifferentiable and
        Unsupported, located.
        """
        if self._generation != RUNTIME.generation:
            self._trace()
        signature: Signature = self._signature  # type: ignore[assignment]
        if keywords:
            args = signature.positional(args, keywords)
        self._binding.launch_grad(signature.scalars(args))  # type: ignore[union-attr]

    # -- what the compiler made -----------------------------------------------------------------------------

    def ir(self) -> KernelIR:
        """The kernel as traced."""
        return self.program.kernel

    def lowered(self) -> Lowered:
        """What a launch executes."""
        return self.program.forward.lowered

    def lowered_grad(self) -> Lowered:
        """What a launch of the gradient executes."""
        return self.program.reverse.lowered

    @property
    def program(self) -> Program:
        """The traced kernel; traces it if need be."""
        if self._generation != RUNTIME.generation:
            self._trace()
        assert self._binding is not None
        return self._binding.program

    def stats(self) -> KernelStats:
        """Counters of launches, countings and compilation."""
        return stats_of(self.program if self._generation == RUNTIME.generation else None)

    # -- tracing --------------------------------------------------------------------------------------------

    def _trace(self) -> None:
        """Trace under the present settings, in one thread at a time; a failure leaves the kernel untraced."""
        RUNTIME.ensure()
        with _TRACING:
            if self._generation == RUNTIME.generation:
                return
            traced = _traced(self.__wrapped__)
            for warning in traced.warnings:
                warnings.warn(warning.render(), KernelWarning, stacklevel=3)
            arrays = cast("dict[str, Field]", traced.arrays)
            for array in arrays.values():
                array.check_alive()
            span = definition_span(self.__wrapped__)
            self._signature = Signature(self.__name__, [Param(a.name, a.type) for a in traced.arguments], span)
            self._binding = Binding(Program(traced.kernel, span), arrays)
            self._generation = RUNTIME.generation


def _traced(function: Callable[..., Any]) -> Traced:
    from .compiler.frontend.infer import FrontendOptions
    from .compiler.frontend.trace import trace

    settings = RUNTIME.settings
    RUNTIME.tracing = True
    try:
        return trace(function, FrontendOptions(settings.default_fp, settings.default_ip, settings.debug))
    finally:
        RUNTIME.tracing = False


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorator: make a Python function a kernel."""
    return Kernel(function)


def definition_span(function: Callable[..., Any]) -> Span | None:
    """The `def` line of a function, or None if it has no source."""
    from .compiler.frontend.source import read_source

    try:
        source = read_source(function)
    except StackgradError:
        return None
    line = source.tree.lineno
    text = source.lines[line - source.first_line].rstrip("\n")
    return Span(source.file, line, source.tree.col_offset, len(text), text)


class TextKernel:
    """A kernel given as IR text. Arrays and scalars are given by name: fields or NumPy arrays, numbers.

    `k(x=field, n=3)` or `k({"x": field}, n=3)`. `k.grad` takes the same and, for each NumPy array `x` with a gradient,
    `**{"x.grad": array}`; the gradient of a field is its own unless given.
    """

    __slots__ = ("__name__", "kernel", "_program", "_signature", "_bindings")

    def __init__(self, source: KernelIR) -> None:
        self.kernel = source
        self.__name__ = source.name
        self._signature = Signature(source.name, source.params, None)
        self._program: Program | None = None
        self._bindings: dict[tuple[tuple[str, int], ...], Binding] = {}

    def __repr__(self) -> str:
        return f"<sg.kernel_from_text {self.__name__}>"

    def __call__(self, arrays: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Launch once. Raises ArgumentError for a name that is missing or unknown, KernelTypeError for a misfit."""
        binding, scalars = self._bind({**(arrays or {}), **named})
        binding.launch(scalars)

    def grad(self, arrays: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Launch the gradient at the present content of the arrays. Raises as a call, and NotDifferentiable."""
        binding, scalars = self._bind({**(arrays or {}), **named})
        binding.launch_grad(scalars)

    def ir(self) -> KernelIR:
        """The kernel as parsed."""
        return self.kernel

    def lowered(self) -> Lowered:
        """What a launch executes."""
        return self.program.forward.lowered

    def lowered_grad(self) -> Lowered:
        """What a launch of the gradient executes."""
        return self.program.reverse.lowered

    def stats(self) -> KernelStats:
        """Counters of launches, countings and compilation."""
        return stats_of(self._program if self._fresh else None)

    @property
    def _fresh(self) -> bool:
        return self._program is not None and self._program.generation == RUNTIME.generation

    @property
    def program(self) -> Program:
        """The kernel under the present settings."""
        RUNTIME.ensure()
        if not self._fresh:
            self._program = Program(self.kernel)
            self._bindings = {}
        assert self._program is not None
        return self._program

    def _bind(self, given: dict[str, Any]) -> tuple[Binding, dict[str, Any]]:
        names = self._signature.names
        adjoints = {p.name + GRAD: p.type for p in self.kernel.params if isinstance(p.type, ArrayType) and p.type.grad}
        unknown = [name for name in given if name not in names and name not in adjoints]
        if unknown:
            cure = close_names(unknown[0], [*names]) or f"parameters: {', '.join(names)}"
            raise ArgumentError(f"kernel {self.__name__} has no parameter {unknown[0]!r}", cure)
        for name in (n for n in names if n in adjoints and n not in given):
            primal = given.get(name.removesuffix(GRAD))
            if isinstance(primal, Field) and primal.needs_grad:
                given[name] = primal.grad
        missing = [name for name in names if name not in given]
        if missing:
            raise ArgumentError(f"kernel {self.__name__} needs {', '.join(missing)}", "give each parameter by its name")
        args = tuple(given[name] for name in names)
        scalars = self._signature.scalars(args)
        arrays = self._signature.bound(args)
        for name, wanted in adjoints.items():
            if name in given:
                arrays[name] = self._signature.array(name, wanted, given[name])
        self._check_shapes(arrays)
        return self._binding(arrays), scalars

    def _binding(self, arrays: dict[str, Field | np.ndarray]) -> Binding:
        """The binding to these arrays; kept for the next call if all of them are fields."""
        program = self.program
        key = tuple([(name, id(array)) for name, array in arrays.items()])
        found = self._bindings.get(key)
        if found is None:
            found = Binding(program, arrays)
            if all(isinstance(array, Field) for array in arrays.values()):
                if len(self._bindings) >= _KEPT_BINDINGS:
                    self._bindings.pop(next(iter(self._bindings)))
                self._bindings[key] = found
        return found

    def _check_shapes(self, arrays: Mapping[str, Field | np.ndarray]) -> None:
        for name in (n for n in arrays if n.endswith(GRAD)):
            primal = arrays[name.removesuffix(GRAD)]
            if primal.shape != arrays[name].shape:
                raise ArgumentError(
                    f"{name} has shape {arrays[name].shape}, its primal {primal.shape}", "give them one shape"
                )


def kernel_from_text(text: str) -> TextKernel:
    """The kernel of an IR text, verified; adstacks and `x.grad` may appear. Raises ParseError and VerifyError."""
    from .compiler.ir.parser import parse_kernel
    from .compiler.ir.verify import verify

    parsed = parse_kernel(text)
    verify(parsed, "adjoint" if _is_adjoint(parsed) else "source")
    return TextKernel(parsed)


def _is_adjoint(source: KernelIR) -> bool:
    """Whether the text is a gradient already: it has adstacks, or uses `x.grad` without declaring it."""
    return bool(implicit_adjoints(source)) or any(isinstance(s, StackAlloca) for s in walk_kernel(source))
