"""This module holds the argument block of a kernel in memory: bytes at a fixed address that `launch` reads and writes.

Binding is incremental: an array that is the very object of the last launch, with the same shape, is in place already.
The block remembers arrays by weak reference, so it keeps none alive and never mistakes a new array at an old address
for the old one.
"""

from __future__ import annotations

import ctypes
import struct
from weakref import ref

import numpy as np

from ...compiler.analysis.index_checks import shape_array
from ...compiler.errors import KernelTypeError
from ...compiler.ir.build import normal_constant
from ...compiler.ir.extents import CURE, extent_problem
from ...compiler.ir.types import Scalar
from ..base import Arrays, Draws, Scalars
from ..codegen.layout import ALIGN, ArrayLayout, BlockLayout

# Each format of `struct` pads a number to a slot of 8 bytes.
_CODES = {
    "f16": "e6x",
    "f32": "f4x",
    "f64": "d",
    "i8": "b7x",
    "i16": "h6x",
    "i32": "i4x",
    "i64": "q",
    "u1": "?7x",
    "u8": "B7x",
    "u16": "H6x",
    "u32": "I4x",
    "u64": "Q",
}
_WORD = struct.Struct("=q")
_KEY = struct.Struct("=II")
_RECORD = struct.Struct("=qqq")
_MASK = 0xFFFFFFFF


class BoundArray:
    """Represent the array that an argument block currently refers to, for one parameter of the kernel."""

    __slots__ = ("array", "held", "shape")

    def __init__(self, array: ArrayLayout) -> None:
        self.array = array
        self.held: ref[np.ndarray] | None = None
        self.shape: tuple[int, ...] = ()


class ArgumentBlock:
    """Represent the argument block of a kernel, which one launch at a time uses.

    Attributes:
        layout: Byte offsets into the block.
        kernel: Name of the kernel.
        written: Names of arrays that the kernel writes, which must be writable.
        address: Address of the first byte.
        view: The bytes of the block.
        bound: The array that the block refers to for each parameter.
        stacks_key: What the adstack words in the block were computed from; None if they are not valid.
    """

    def __init__(self, layout: BlockLayout, kernel: str, written: set[str], size: int = 0) -> None:
        """Allocate the block; `size` is its number of bytes if more than the layout needs."""
        self.layout = layout
        self.kernel = kernel
        self.written = written
        size = max(size, layout.size)
        self._memory = ctypes.create_string_buffer(size + ALIGN)
        start = ctypes.addressof(self._memory)
        self.address = -(-start // ALIGN) * ALIGN
        self.view = memoryview(self._memory)[self.address - start : self.address - start + size].cast("B")
        self.bound = [BoundArray(array) for array in layout.arrays.values()]
        self.names = tuple(layout.arrays)
        self.scalar_names = tuple(layout.scalars)
        self._scalars = {name: (at, struct.Struct("=" + _CODES[t.name]), t) for name, (at, t) in layout.scalars.items()}
        self.stacks_key: object = None

    def bind(self, arrays: Arrays, scalars: Scalars, draws: Draws) -> None:
        """Write the arrays, scalars and random key of a launch into the block.

        Args:
            arrays: Arrays by parameter name.
            scalars: Numbers by parameter name.
            draws: Seed and number of the launch.

        Raises:
            KernelTypeError: An argument is missing, or an array does not fit.
        """
        changed = False
        try:
            for bound in self.bound:
                array = arrays[bound.array.name]
                if bound.held is None or bound.held() is not array or array.shape != bound.shape:
                    self._place(bound, array)
                    changed = True
            for name in self.scalar_names:
                at, form, t = self._scalars[name]
                self._scalar(at, form, t, scalars[name])
        except KeyError as error:
            reason = f"kernel {self.kernel}: no argument {error}"
            raise KernelTypeError(reason, "pass every parameter by name") from None
        if changed:
            self._check_adjoints()
        _KEY.pack_into(self.view, self.layout.draws_at, draws.seed & _MASK, draws.launch & _MASK)

    def _scalar(self, at: int, form: struct.Struct, t: Scalar, value: int | float | bool) -> None:
        """Write a scalar argument; a number outside the range of its type is wrapped or rounded like a constant."""
        try:
            form.pack_into(self.view, at, value)
        except (struct.error, OverflowError):
            form.pack_into(self.view, at, normal_constant(value, t))

    def _place(self, bound: BoundArray, array: np.ndarray) -> None:
        """Write the address and extents of an array to the block's words for the array's parameter."""
        reason = self._misfit(bound.array, array)
        cure = f"pass a C-contiguous, aligned NumPy array of dtype {bound.array.type.dtype.dtype}"
        if not reason:
            reason, cure = extent_problem(array.shape, bound.array.narrow), CURE
        if reason:
            raise KernelTypeError(f"kernel {self.kernel}: array {bound.array.name} is {reason}", cure)
        for axis, extent in enumerate(array.shape):
            self.put(bound.array.shape_at + 8 * axis, extent)
        self.put(bound.array.address_at, array.__array_interface__["data"][0])
        bound.held, bound.shape = ref(array), array.shape

    def _check_adjoints(self) -> None:
        """Raise KernelTypeError if an adjoint or tangent has other extents than its primal."""
        # Code assumes that an index inside one of these arrays is inside the others.
        shapes = {bound.array.name: bound.shape for bound in self.bound}
        groups: dict[str, str] = {}
        for name in sorted(shapes, key=len):
            first, shape = groups.setdefault(shape_array(name), name), shapes[name]
            if shapes[first] != shape:
                for bound in self.bound:
                    bound.held = None
                other = "its primal" if first == shape_array(name) else first
                raise KernelTypeError(
                    f"kernel {self.kernel}: {name} has shape {shape}, but {other} has {shapes[first]}",
                    "give an array, its adjoint and its tangent the same shape",
                )

    def _misfit(self, slot: ArrayLayout, array: np.ndarray) -> str:
        """Return a text that says why an array does not fit its parameter, or an empty text if it fits."""
        if not isinstance(array, np.ndarray):
            return f"a {type(array).__name__}"
        if array.dtype != slot.type.dtype.dtype or array.ndim != slot.type.ndim:
            return f"{array.dtype} of rank {array.ndim}, not {slot.type.dtype.dtype} of rank {slot.type.ndim}"
        if not (array.flags.c_contiguous and array.flags.aligned):
            return "not contiguous and aligned"
        if slot.name in self.written and not array.flags.writeable:
            return "read-only, but the kernel writes it"
        return ""

    def put(self, at: int, word: int) -> None:
        """Write one 8-byte word of the argument block."""
        _WORD.pack_into(self.view, at, word)

    def word(self, at: int) -> int:
        """Return one 8-byte word of the argument block."""
        found: int = _WORD.unpack_from(self.view, at)[0]
        return found

    def take_error(self) -> tuple[int, int, int]:
        """Return (site, first number, second number) of the error record, and clear the record."""
        at = self.layout.error_at
        site, first, second = _RECORD.unpack_from(self.view, at)
        _RECORD.pack_into(self.view, at, 0, 0, 0)
        return site - 1, first, second
