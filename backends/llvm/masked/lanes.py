"""This module defines LaneEmitter, which holds the state of a function of masked code and emits lane operations.

A uniform value is a scalar, a varying value a vector of `lanes` elements. A linear value has, beside its vector, the
scalar that lane 0 would have, in `bases`: addresses of neighboring elements are made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....compiler.analysis.affine import IndexForms
from ....compiler.analysis.uniformity import Uniformity
from ....compiler.ir.kernels import Task
from ....compiler.ir.statement import Value
from ....compiler.ir.types import Scalar
from ...codegen import ir
from ...codegen.emit import ModuleState
from ...codegen.types import I1, I8, I32, I64, const, value_type
from ..emit import Emitter

if TYPE_CHECKING:
    from .adstack import LaneStack
    from .masks import Masks

WIDE = ("nounwind", '"prefer-vector-width"="512"', '"min-legal-vector-width"="512"')
"""Attributes of functions that hold or take vectors: all of the machine's width may be used, and callers agree."""


class LaneEmitter(Emitter):
    """Emit masked code: this class holds the mask, the lanes and the values of one function being written.

    Attributes:
        body: Task whose iterations are the lanes, exits lowered.
        lanes: Number of lanes of a block.
        u: What is uniform in the task.
        forms: Affine forms of the indices.
        bases: What lane 0 has of each linear value.
        levels: Number of divergent constructs around the declaration of each local.
        lane_stacks: State of each adstack, by name.
    """

    flow: Masks  # type: ignore[assignment]

    def __init__(
        self, m: ModuleState, function: ir.LLVMFunction, task: int, body: Task, lanes: int, linear: bool
    ) -> None:
        super().__init__(m, function, task)
        self.body = body
        self.lanes = lanes
        self.u = Uniformity(body, linear)
        self.forms = IndexForms(body)
        self.bases: dict[Value, ir.LLVMValue] = {}
        self.levels: dict[str, int] = {}
        self.lane_stacks: dict[str, LaneStack] = {}

    @property
    def active(self) -> ir.LLVMValue:  # type: ignore[override]
        """Return the mask of the lanes that are active at the place where code is emitted."""
        return self.flow.mask

    # -- vectors --------------------------------------------------------------------------------------------

    @property
    def mask_type(self) -> ir.VectorType:
        """Return the LLVM type of a mask: a vector with one bit per lane."""
        return ir.VectorType(I1, self.lanes)

    def wide(self, t: ir.Type) -> ir.VectorType:
        """Return the vector type with one element for each lane."""
        return ir.VectorType(t, self.lanes)

    def splat(self, x: ir.LLVMValue) -> ir.LLVMValue:
        """Return a vector with the value in every lane. A value that is a vector already is returned unchanged."""
        return x if isinstance(x.type, ir.VectorType) else self.b.splat(x, self.lanes)

    def vector(self, value: Value) -> ir.LLVMValue:
        """Return an operand as a vector with one element for each lane."""
        return self.splat(self.values[value])

    def type_of(self, value: Value) -> ir.Type:
        """Return the LLVM type of a value in this function."""
        t = value_type(value.type)
        return t if self.u.is_uniform(value) else self.wide(t)

    def base(self, value: Value) -> ir.LLVMValue:
        """Return the value of lane 0, as a scalar, of a value that is uniform or linear in the lane number."""
        return self.values[value] if self.u.is_uniform(value) else self.bases[value]

    def stride(self, value: Value) -> int | None:
        """Return the difference of a value between neighboring lanes, or None if it is not a known constant."""
        return 0 if self.u.is_uniform(value) else self.u.strides.get(value)

    def numbers(self, t: ir.Type) -> ir.LLVMValue:
        """Return the vector 0, 1, 2, ... of the lane numbers, as integers of type `t`."""
        return ir.LLVMValue(self.wide(t), "<" + ", ".join([f"{t.text} {k}" for k in range(self.lanes)]) + ">")

    def linear(self, start: ir.LLVMValue) -> ir.LLVMValue:
        """Return the vector start, start + 1, start + 2, ..., with one element for each lane."""
        return self.b.add(self.splat(start), self.numbers(start.type))

    # -- masks ----------------------------------------------------------------------------------------------

    def any(self, mask: ir.LLVMValue) -> ir.LLVMValue:
        """Return an i1 that is true if at least one lane of the mask is set."""
        word = self.bits(mask)
        return self.b.icmp_unsigned("!=", word, const(word.type, 0))

    def bits(self, mask: ir.LLVMValue) -> ir.LLVMValue:
        """Return the lanes of a mask as bits of one integer, lane 0 lowest."""
        return self.b.bitcast(mask, ir.IntType(self.lanes))

    def none(self) -> ir.LLVMValue:
        """Return the mask in which no lane is set."""
        return const(self.mask_type, False)

    def first(self, mask: ir.LLVMValue) -> ir.LLVMValue:
        """Return the number of the lowest lane that is set in a mask. At least one lane must be set."""
        word = self.bits(mask)
        at = self.intrinsic("cttz", word, const(I1, True))
        return self.b.zext(at, I64) if self.lanes < 64 else self.b.trunc(at, I64) if self.lanes > 64 else at

    def last(self, mask: ir.LLVMValue) -> ir.LLVMValue:
        """Return the number of the highest lane that is set in a mask. At least one lane must be set."""
        word = self.bits(mask)
        zeros = self.intrinsic("ctlz", word, const(I1, True))
        at = self.b.sub(const(word.type, self.lanes - 1), zeros)
        return self.b.zext(at, I64) if self.lanes < 64 else self.b.trunc(at, I64) if self.lanes > 64 else at

    def reduce(self, kind: str, vector: ir.LLVMValue) -> ir.LLVMValue:
        """Return the scalar to which the intrinsic llvm.vector.reduce.KIND reduces all lanes of a vector."""
        assert isinstance(vector.type, ir.VectorType)
        return self.intrinsic(f"vector.reduce.{kind}", vector, result=vector.type.element, by=[vector.type])

    # -- declarations ---------------------------------------------------------------------------------------

    def first_lanes(self, count: ir.LLVMValue) -> ir.LLVMValue:
        """Return the mask of the lowest `count` lanes; count (i64) is at most the number of lanes."""
        word = I8 if self.lanes < 128 else I32
        return self.b.icmp_unsigned("<", self.numbers(word), self.splat(self.b.trunc(count, word)))

    def storage(self, name: str, t: Scalar) -> ir.Type:
        """Return the LLVM type of the memory of a scalar local: a vector if the local differs between lanes."""
        return self.wide(value_type(t)) if name in self.u.changing else value_type(t)
