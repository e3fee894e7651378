"""Launch kernels that are given as IR text.

Invariant: a text is verified before it is launched, and the arrays of a launch do not overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.ir.kernels import Kernel as KernelIR
from ..compiler.ir.nodes import StackAlloca
from ..compiler.ir.walk import walk_kernel
from ..data.fields import Array
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import ArgumentError, close_names
from .arguments import CallSignature
from .bound import GRAD
from .directions import implicit_adjoints
from .program import Binding, Program
from .statistics import KernelStats, stats_of

if TYPE_CHECKING:
    from ..backends.launching.launcher import LoweringLike

_KEPT_BINDINGS = 16
"""Number of bindings that a text kernel keeps for later calls."""


class TextKernel:
    """Represent a kernel given as IR text; calls pass its arrays and scalars by parameter name.

    Arrays are fields or NumPy arrays, scalars are numbers: `k(x=field, n=3)` or `k({"x": field}, n=3)`. `k.grad` takes
    the same and, for each NumPy array `x` with a gradient, `**{"x.grad": array}`. The gradient of a field is its own
    unless another array is given.
    """

    __slots__ = ("__name__", "kernel", "_program", "_signature", "_bindings")

    def __init__(self, source: KernelIR) -> None:
        self.kernel = source
        self.__name__ = source.name
        self._signature = CallSignature(source.name, source.params, None)
        self._program: Program | None = None
        self._bindings: dict[tuple[tuple[str, int], ...], Binding] = {}

    def __repr__(self) -> str:
        return f"<sg.kernel_from_text {self.__name__}>"

    def __call__(self, arrays: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Launch the kernel once with arrays and scalars given by name.

        Args:
            arrays: Arguments by name, for names such as `x.grad` that are no Python names.
            **named: Arguments by name.

        Raises:
            ArgumentError: A name is missing or unknown.
            CallError: An argument does not fit its parameter.
        """
        binding, scalars = self._bind({**(arrays or {}), **named})
        binding.launch(scalars)

    def grad(self, arrays: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Launch the gradient once with the present contents of the arrays, given by name.

        Args:
            arrays: Arguments by name, for names such as `x.grad` that are no Python names.
            **named: Arguments by name.

        Raises:
            ArgumentError: A name is missing or unknown.
            CallError: An argument does not fit its parameter.
            NotDifferentiable: The kernel has no gradient.
        """
        binding, scalars = self._bind({**(arrays or {}), **named})
        binding.launch_grad(scalars)

    def ir(self) -> KernelIR:
        """Return the parsed IR of the kernel."""
        return self.kernel

    def lowered(self) -> LoweringLike:
        """Return the lowering of the kernel for forward launches."""
        return self.program().forward().lowered

    def lowered_grad(self) -> LoweringLike:
        """Return the lowering of the kernel's gradient."""
        return self.program().reverse().lowered

    def stats(self) -> KernelStats:
        """Return the counts of launches and countings, and the compile time."""
        return stats_of([self._program] if self._program is not None and self._fresh else [])

    @property
    def _fresh(self) -> bool:
        """Return True if the kernel's program is valid, because it was made after the last `init` or `reset`."""
        return self._program is not None and self._program.generation == RUNTIME.generation

    def program(self) -> Program:
        """Return the program of the kernel under the present settings."""
        RUNTIME.ensure()
        if not self._fresh:
            self._program = Program(self.kernel)
            self._bindings = {}
        assert self._program is not None
        return self._program

    def _bind(self, given: dict[str, Any]) -> tuple[Binding, dict[str, Any]]:
        """Return the binding and scalars for the arguments `given` by name. Raise an error if one does not fit."""
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
        """Return the binding to these arrays; it is stored for later calls if all of the arrays are fields."""
        program = self.program()
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
        """Raise ArgumentError if the shape of an adjoint differs from that of its primal."""
        for name in (n for n in arrays if n.endswith(GRAD)):
            primal = arrays[name.removesuffix(GRAD)]
            if primal.shape != arrays[name].shape:
                raise ArgumentError(
                    f"{name} has shape {arrays[name].shape}, its primal {primal.shape}", "give them one shape"
                )


def kernel_from_text(text: str) -> TextKernel:
    """Return the kernel that an IR text defines, after verifying it.

    Args:
        text: The text form of one kernel, see docs/ir.md. Adstacks and `x.grad` may appear in it.

    Raises:
        ParseError: The text is no IR.
        VerifyError: The kernel breaks a rule of the IR.
    """
    from ..compiler.ir.parser import parse_kernel
    from ..compiler.ir.verify import verify

    parsed = parse_kernel(text)
    verify(parsed, "adjoint" if _is_adjoint(parsed) else "source")
    return TextKernel(parsed)


def _is_adjoint(source: KernelIR) -> bool:
    """Return True if the kernel is a grad kernel: it has adstacks, or uses `x.grad` without declaring it."""
    return bool(implicit_adjoints(source)) or any(isinstance(s, StackAlloca) for s in walk_kernel(source))
