"""Variables of a function: scalars, and local arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.types import Scalar
from ..llvm import ir
from .module import Value, root_of

if TYPE_CHECKING:
    from .body import Body


class Variable:
    """A scalar variable of a function. Addresses that it holds are all of one buffer."""

    def __init__(self, code: Body, t: ir.Type, id: int) -> None:
        self.code, self.type, self.id = code, t, id
        self.root: int | None = None

    def get(self) -> Value:
        """Its content."""
        held = self.code.held
        if self.id not in held:
            held[self.id] = self.code.result_of(self.type, "Load", self.id)
        return held[self.id].within(self.root)

    def set(self, value: ir.Value) -> None:
        """Overwrite it."""
        self.root = root_of(value)
        content = self.code.held[self.id] = self.code.value(value)
        self.code.emit("Store", self.id, content.id)


@dataclass(frozen=True)
class LocalArray:
    """A local array: its variable, the id of its type, element type and size."""

    id: int
    type: int
    dtype: Scalar
    size: int
