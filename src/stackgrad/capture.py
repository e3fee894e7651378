"""Records launches while a program runs, so that they can be replayed on every executor and compared.

Invariant: nothing of this runs unless a capture is active; then a launch costs copies of its arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from .bound import GRAD
from .compiler.ir.nodes import Kernel
from .copying import launch_copy
from .fields import Array
from .program import NOTHING, Binding, Program
from .session import RUNTIME
from .usage import UsageError

if TYPE_CHECKING:
    from .backends.base import Draws, Scalars

Kind = Literal["forward", "reverse"]


@dataclass(frozen=True)
class CapturedLaunch:
    """One launch: the source kernel, which of its two directions ran, and memory before and after, by name.

    before and after hold the array parameters of the source kernel and, where they exist, their `x.grad`. error:
    text of the exception the launch raised, or None.
    """

    kernel: Kernel
    kind: Kind
    scalars: Scalars
    draws: Draws
    before: Mapping[str, np.ndarray]
    after: Mapping[str, np.ndarray]
    error: str | None = None


@dataclass
class Capture:
    """The launches captured so far; of each kernel specialisation and direction the first `limit`."""

    copy = staticmethod(launch_copy)
    limit: int
    launches: list[CapturedLaunch] = field(default_factory=list)
    _seen: dict[tuple[Program, Kind], int] = field(default_factory=dict)

    @contextmanager
    def recorded(
        self, binding: Binding, kind: Kind, scalars: Scalars, draws: Draws, replaced: Mapping[str, np.ndarray] = NOTHING
    ) -> Iterator[None]:
        """Around a launch; `replaced` are arrays that stand in for the bound ones."""
        key = binding.program, kind
        count = self._seen.get(key, 0)
        if count >= self.limit:
            yield
            return
        self._seen[key] = count + 1
        before = _snapshot(binding, replaced)
        error: str | None = None
        try:
            yield
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            after = _snapshot(binding, replaced)
            kernel = binding.program.kernel
            self.launches.append(CapturedLaunch(kernel, kind, dict(scalars), draws, before, after, error))


@contextmanager
def capture(limit: int = 2) -> Iterator[Capture]:
    """Capture the first `limit` launches, forward and reverse, of each kernel that runs inside."""
    RUNTIME.ensure()
    if RUNTIME.capture is not None:
        raise UsageError("launches are being captured already", "do not nest captures")
    made = Capture(limit)
    RUNTIME.capture = made
    try:
        yield made
    finally:
        RUNTIME.capture = None


def _snapshot(binding: Binding, replaced: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Copies of all arrays of a launch, adjoints included."""
    found: dict[str, np.ndarray] = {}
    for name, array in (*binding.arrays.items(), *replaced.items()):
        if isinstance(array, Array):
            found[name] = array.memory.copy()
            if array.needs_grad:
                found[name + GRAD] = array.grad.memory.copy()
        else:
            found[name] = array.copy()
    return found
