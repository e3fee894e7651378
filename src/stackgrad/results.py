"""Results of kernels: from the arrays of no axes that a launch filled to values of the host.

Invariant: numbers come back as Python numbers, vectors, matrices and structs as host values of the promised types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .compiler.frontend.aggregates import MatrixType, StructType
from .compiler.frontend.returns import RETURN, ResultType, TupleType, scalars_of
from .compiler.ir.types import Scalar


class Reader:
    """Reads the result of a launch. arrays: name and type of each array that the kernel stores a result to."""

    def __init__(self, kind: ResultType) -> None:
        self.kind = kind
        self.arrays = tuple((f"{RETURN}.{k}", scalar) for k, scalar in enumerate(scalars_of(kind)))

    def make(self) -> dict[str, np.ndarray]:
        """New arrays for one launch."""
        return {name: np.zeros((), scalar.dtype) for name, scalar in self.arrays}

    def read(self, memory: Mapping[str, Any]) -> Any:
        """The result in these arrays."""
        return _value(self.kind, iter([memory[name].item() for name, _ in self.arrays]))


def _value(kind: ResultType, numbers: Iterator[Any]) -> Any:
    if isinstance(kind, Scalar):
        return next(numbers)
    if isinstance(kind, TupleType):
        return tuple(_value(item, numbers) for item in kind.items)
    if isinstance(kind, MatrixType):
        from .values.matrix import wrap

        entries = [next(numbers) for _ in range(kind.size)]
        return wrap(np.array(entries, kind.dtype.dtype).reshape(kind.shape), True)
    return _struct(kind, {name: _value(member, numbers) for name, member in kind.members})


def _struct(kind: StructType, members: dict[str, Any]) -> Any:
    from .values.struct import Struct

    return Struct.of(kind, members)
