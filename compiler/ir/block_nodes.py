"""This module defines the statements that concern a block: memory, barriers and values that its iterations share.

They appear in parallel tasks with a block size alone; docs/decisions/0025-blocks-and-subgroups.md has their semantics.
"""

from __future__ import annotations

from .statement import Stmt, Value, operand, result, statement
from .types import Scalar


@statement
class SharedArray(Stmt):
    """This statement declares an array of `size` elements, zero at first, that all iterations of a block share.

    It stands at the top level of the body of a task. Its elements are read by GetElement and written by SetElement.
    """

    FORM = "shared_array {var}: {dtype}[{size}]"
    var: str
    dtype: Scalar
    size: int


@statement
class UpdateElement(Stmt):
    """This statement updates an element of a shared array atomically and results in the old value.

    Attributes:
        result: value of the element before the update.
        op: one of `ATOMIC_OPS`, but not `cas`.
        var: name of the shared array.
        index: number of the element; one outside the array traps.
        value: right operand of the update.
    """

    FORM = "{result} = update_element {op} {var}[{index}], {value}"
    result: Value = result()
    op: str
    var: str
    index: Value = operand()
    value: Value = operand()


@statement
class Sync(Stmt):
    """This statement waits for the other iterations of the group (`block`, `subgroup`), or orders memory (fences).

    Attributes:
        kind: one of `SYNCS`.
    """

    FORM = "sync {kind}"
    kind: str


@statement
class Collective(Stmt):
    """This statement computes a value from the values of all iterations of a subgroup or block; see `COLLECTIVES`.

    Attributes:
        result: the value.
        op: name of a row of `COLLECTIVES`.
        args: operands of this iteration.
        width: number of lanes of the group, a power of two up to `SUBGROUP`; the group of `block_*` is the block.
    """

    FORM = "{result} = collective {op} {args}<width {width}>"
    result: Value = result()
    op: str
    args: tuple[Value, ...] = operand()
    width: int = 32
