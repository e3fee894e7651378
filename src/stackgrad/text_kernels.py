"""Kernels given as IR text.

Invariant: a text is verified before it is launched, and its arrays are different memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import Signature
from .bound import GRAD
from .compiler.ir.nodes import Kernel as KernelIR
from .compiler.ir.nodes import StackAlloca
from .compiler.ir.walk import walk_kernel
from .directions import implicit_adjoints
from .fields import Array
from .program import Binding, Program
from .session import RUNTIME
from .statistics import KernelStats, stats_of
from .usage import ArgumentError, close_names

if TYPE_CHECKING:
    from .backends.launcher import Lowered

_KEPT_BINDINGS = 16


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
        return stats_of([self._program] if self._program is not None and self._fresh else [])

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
        kinds = self.kernel.array_types()
        adjoints = {name + GRAD: kind.adjoint for name, kind in kinds.items() if kind.grad}
        unknown = [name for name in given if name not in names and name not in adjoints]
        if unknown:
            cure = close_names(unknown[0], [*names]) or f"parameters: {', '.join(names)}"
            raise ArgumentError(f"kernel {self.__name__} has no parameter {unknown[0]!r}", cure)
        for name in (n for n in names if n in adjoints and n not in given):
            primal = given.get(name.removesuffix(GRAD))
            if isinstance(primal, Array) and primal.needs_grad:
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

    def _binding(self, arrays: dict[str, Array | np.ndarray]) -> Binding:
        """The binding to these arrays; kept for the next call if all of them are fields."""
        program = self.program
        key = tuple([(name, id(array)) for name, array in arrays.items()])
        found = self._bindings.get(key)
        if found is None:
            found = Binding(program, arrays)
            if all(isinstance(array, Array) for array in arrays.values()):
                if len(self._bindings) >= _KEPT_BINDINGS:
                    self._bindings.pop(next(iter(self._bindings)))
                self._bindings[key] = found
        return found

    def _check_shapes(self, arrays: Mapping[str, Array | np.ndarray]) -> None:
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
