"""Represent the variables of a SPIR-V function: scalars and local arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.types import Scalar
from ..codegen import ir
from .module import SpirvValue, root_of

if TYPE_CHECKING:
    from .body import FunctionWriter


class ShaderVariable:
    """Represent a scalar variable of a SPIR-V function; if it holds addresses, all of them lie in one buffer."""

    def __init__(self, code: FunctionWriter, t: ir.Type, id: int) -> None:
        self.code, self.type, self.id = code, t, id
        self.root: int | None = None

    def get(self) -> SpirvValue:
        """Return the value of the variable, with a load only if its present value is not known."""
        held = self.code.held
        if self.id not in held:
            held[self.id] = self.code.result_of(self.type, "Load", self.id)
        return held[self.id].within(self.root)

    def set(self, value: ir.LLVMValue) -> None:
        """Emit a store that sets the variable to a value."""
        self.root = root_of(value)
        content = self.code.held[self.id] = self.code.value(value)
        self.code.emit("Store", self.id, content.id)


@dataclass(frozen=True)
class ShaderArray:
    """Represent a local array of the kernel as a variable of a SPIR-V function, or a shared array as one of the module.

    Attributes:
        id: id of its variable
        type: id of its SPIR-V type
        dtype: dtype of the elements
        size: number of elements
        word: type of the words of a shared array; None for a local array, whose elements are values
    """

    id: int
    type: int
    dtype: Scalar
    size: int
    word: ir.IntType | None = None
