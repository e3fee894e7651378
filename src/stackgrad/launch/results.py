"""Convert the results that a kernel stored in 0-d arrays to Python numbers, vectors, matrices and structs.

Invariant: numbers come back as Python numbers; vectors, matrices and structs come back as host values of the types
that the kernel promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..compiler.frontend.aggregates import MatrixType, StructType
from ..compiler.frontend.returns import RETURN, ResultType, TupleType, scalars_of
from ..compiler.ir.types import Scalar


class ResultReader:
    """Allocate the 0-d arrays for the result of a launch, and read the result from them.

    Attributes:
        kind: The type of the result.
        arrays: Name and scalar type of each array that the kernel stores a part of the result to.
    """

    def __init__(self, kind: ResultType) -> None:
        self.kind = kind
        self.arrays = tuple((f"{RETURN}.{k}", scalar) for k, scalar in enumerate(scalars_of(kind)))

    def make(self) -> dict[str, np.ndarray]:
        """Return new 0-d arrays by name, set to zero, to which one launch stores its result."""
        return {name: np.zeros((), scalar.dtype) for name, scalar in self.arrays}

    def read(self, memory: Mapping[str, Any]) -> Any:
        """Return the result that a launch has stored in the arrays that `make` returned."""
        return _value(self.kind, iter([memory[name].item() for name, _ in self.arrays]))


def _value(kind: ResultType, numbers: Iterator[Any]) -> Any:
    """Return a value of a type, composed of the next scalars of an iterator."""
    if isinstance(kind, Scalar):
        return next(numbers)
    if isinstance(kind, TupleType):
        return tuple(_value(item, numbers) for item in kind.items)
    if isinstance(kind, MatrixType):
        from ..data.values.matrix import wrap

        entries = [next(numbers) for _ in range(kind.size)]
        return wrap(np.array(entries, kind.dtype.dtype).reshape(kind.shape), True)
    return _struct(kind, {name: _value(member, numbers) for name, member in kind.members})


def _struct(kind: StructType, members: dict[str, Any]) -> Any:
    """Return a struct of a type for use outside of kernels, with these members."""
    from ..data.values.struct import Struct

    return Struct.of(kind, members)
