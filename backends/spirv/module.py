"""Represent a SPIR-V module that is being written: ids, types, constants, functions, entry points, and its words.

Each type and each constant exists once. The module declares the capabilities and extensions of what has been written.
Integers carry no sign, as in LLVM: the instruction decides. A half is an integer of 16 bits, because no arithmetic is
done on halves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ..codegen import ir
from . import opcodes as op
from .quirks import Quirks

T = TypeVar("T")

_INTEGER_CAPABILITIES = {8: "Int8", 16: "Int16", 64: "Int64"}
_WIDTHS = {"f16": 16, "f32": 32, "f64": 64}
_FORMS = {"f16": "<e", "f32": "<f", "f64": "<d"}


class SpirvValue(ir.LLVMValue):
    """Represent the result of a SPIR-V instruction by its type and its id in the module.

    Attributes:
        id: id of the result
        number: number of a constant; for integers, the bit pattern of their type
        root: binding of the buffer in which an address counts bytes, on a device without buffer addresses
    """

    __slots__ = ("id", "number", "root")

    def __init__(self, type: ir.Type, id: int, number: int | float | None = None, root: int | None = None) -> None:
        super().__init__(type, f"%{id}")
        self.id = id
        self.number = number
        self.root = root

    def within(self, root: int | None) -> SpirvValue:
        """Return the same value marked as an address in the buffer with binding `root`."""
        return self if root == self.root else SpirvValue(self.type, self.id, self.number, root)


def root_of(*values: ir.LLVMValue) -> int | None:
    """Return the binding of the buffer into which one of the operands points, or None if none has a binding."""
    return next((root for v in values if (root := getattr(v, "root", None)) is not None), None)


def encode(name: str, *operands: int) -> list[int]:
    """Return the words that encode one SPIR-V instruction."""
    return [(len(operands) + 1) << 16 | op.OPCODES[name], *operands]


def text_words(text: str) -> list[int]:
    """Return a literal string as words: UTF-8, ended by a zero byte, filled up to whole words."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


@dataclass
class EntryPoint:
    """Represent an entry point of a SPIR-V module: a shader's function, name and workgroup size.

    Attributes:
        id: id of its function
        name: name by which a pipeline selects it
        local_size: threads of a workgroup
    """

    id: int
    name: str
    local_size: int


@dataclass
class SpirvModule:
    """Represent a SPIR-V module while it is being written.

    Attributes:
        modes: float controls that the device has, by name, with their widths, such as ("RoundingModeRTE", 32)
        physical: True if memory is reached by address, False if by storage buffers that descriptors bind
        paired: True if integers of 64 bits are pairs of words (word_pairs.py)
        quirks: defects of the driver
        capabilities: names of the capabilities that are declared
        decorations: words of the decorations
        names: words of the names
        globals: words of types, constants and global variables
        functions: words of each function
        entries: entry points of the module, in the order in which they were added
        interface: global variables that a shader uses, by name
        bound: first id that is not in use
        reals: numbers of the real constants, by id
    """

    modes: tuple[tuple[str, int], ...] = ()
    physical: bool = True
    paired: bool = False
    quirks: Quirks = Quirks()
    capabilities: dict[str, None] = field(default_factory=lambda: {"Shader": None})
    decorations: list[int] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    globals: list[int] = field(default_factory=list)
    functions: list[list[int]] = field(default_factory=list)
    entries: list[EntryPoint] = field(default_factory=list)
    interface: dict[str, int] = field(default_factory=dict)
    bound: int = 1
    _helpers: dict[str, object] = field(default_factory=dict)
    _known: dict[object, int] = field(default_factory=dict)
    reals: dict[int, float] = field(default_factory=dict)
    _floats: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.physical:
            self.require("PhysicalStorageBufferAddresses")
        self.glsl = self.fresh()

    def fresh(self) -> int:
        """Return an id that the module does not use yet."""
        self.bound += 1
        return self.bound - 1

    def require(self, capability: str) -> None:
        """Declare that the module needs a capability of SPIR-V."""
        self.capabilities[capability] = None

    def name(self, id: int, text: str) -> None:
        """Give an id a name for people who read the module."""
        self.names += encode("Name", id, *text_words(text))

    def decorate(self, id: int, *words: int) -> None:
        """Add a decoration, an instruction with further properties, to an id of the SPIR-V module."""
        self.decorations += encode("Decorate", id, *words)

    # -- types ----------------------------------------------------------------------------------------------

    def _declared(self, key: object, name: str, *operands: int) -> int:
        """Return the id of a type with the given key, declaring it the first time."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.fresh()
            self.globals += encode(name, known, *operands)
        return known

    def type(self, t: ir.Type) -> int:
        """Return the id of the SPIR-V type for values of type `t`, declaring the type the first time."""
        if t == ir.I1:
            return self._declared(t, "TypeBool")
        if t == ir.VOID:
            return self._declared(t, "TypeVoid")
        width = t.width if isinstance(t, ir.IntType) else _WIDTHS[t.name]
        if self.paired and isinstance(t, ir.IntType) and width == 64:
            return self._declared("pair", "TypeVector", self.type(ir.IntType(32)), 2)
        if isinstance(t, ir.IntType) or width == 16:
            if width in _INTEGER_CAPABILITIES:
                self.require(_INTEGER_CAPABILITIES[width])
            return self._declared(("int", width), "TypeInt", width, 0)
        if width == 64:
            self.require("Float64")
        self._floats.add(width)
        return self._declared(("float", width), "TypeFloat", width)

    def pointer(self, storage: int, to: int) -> int:
        """Return the id of the type of pointers in a storage class to values of the type with the id `to`."""
        return self._declared(("pointer", storage, to), "TypePointer", storage, to)

    def array(self, t: ir.Type, count: int) -> int:
        """Return the id of the type of arrays with `count` elements of type `t`."""
        element, length = self.type(t), self.constant(ir.IntType(32), count).id
        return self._declared(("array", element, length), "TypeArray", element, length)

    def function_type(self, result: ir.Type, params: tuple[ir.Type, ...]) -> int:
        """Return the id of the type of functions with this result and these parameters."""
        ids = [self.type(result), *map(self.type, params)]
        return self._declared(("function", *ids), "TypeFunction", *ids)

    # -- constants ------------------------------------------------------------------------------------------

    def constant(self, t: ir.Type, number: int | float | bool) -> SpirvValue:
        """Return a constant of type `t` with this value; integers wrap."""
        id_of_type = self.type(t)
        if t == ir.I1:
            truth = bool(number)
            return self._constant(t, int(truth), (t, truth), "ConstantTrue" if truth else "ConstantFalse")
        if isinstance(t, ir.IntType):
            pattern = int(number) & ((1 << t.width) - 1)
            if self.paired and t.width == 64:
                return self._pair(t, pattern)
            return self._constant(t, pattern, ("constant", id_of_type, pattern), "Constant", *_words(pattern, t.width))
        data = struct.pack(_FORMS[t.name], number)
        pattern = int.from_bytes(data, "little")
        key = "constant", id_of_type, pattern
        made = self._constant(t, pattern, key, "Constant", *_words(pattern, _WIDTHS[t.name]))
        self.reals[made.id] = float(number)
        # A real has no `number`, because only integers are folded; `reals` holds it.
        return SpirvValue(t, made.id)

    def _pair(self, t: ir.IntType, pattern: int) -> SpirvValue:
        """Return a 64-bit constant as a vector of two 32-bit words."""
        words = [self.constant(ir.IntType(32), word).id for word in _words(pattern, 64)]
        return self._constant(t, pattern, ("pair", pattern), "ConstantComposite", *words)

    def _constant(self, t: ir.Type, number: int, key: object, name: str, *words: int) -> SpirvValue:
        """Return the constant with the given key, declaring it the first time."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.fresh()
            self.globals += encode(name, self.type(t), known, *words)
        return SpirvValue(t, known, number)

    def null(self, id_of_type: int) -> int:
        """Return the id of the null constant (zero) of a type."""
        return self._of_type(("null", id_of_type), "ConstantNull", id_of_type)

    def _of_type(self, key: object, name: str, id_of_type: int, *words: int) -> int:
        """Return the id of a constant whose type is given by its id; the first call with a key declares it."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.fresh()
            self.globals += encode(name, id_of_type, known, *words)
        return known

    @property
    def two_words(self) -> int:
        """Return the id of the struct type of two words that a widening multiplication returns."""
        word = self.type(ir.IntType(32))
        return self._declared("two words", "TypeStruct", word, word)

    def helper(self, name: str, make: Callable[[], T]) -> T:
        """Return the function `name` of the SPIR-V module; the first call with this name has `make` write it."""
        if name not in self._helpers:
            self._helpers[name] = make()
        return cast(T, self._helpers[name])

    # -- what a shader is given -----------------------------------------------------------------------------

    def built_in(self, name: str, number: int) -> int:
        """Return the id of a built-in input variable of three 32-bit words, such as the number of the thread.

        Args:
            name: name under which the variable is found again
            number: number of the built-in in SPIR-V
        """
        if name not in self.interface:
            word = self.type(ir.IntType(32))
            three = self._declared(("vector", word), "TypeVector", word, 3)
            self.interface[name] = self._variable(op.INPUT, three)
            self.decorate(self.interface[name], op.BUILT_IN, number)
        return self.interface[name]

    @property
    def three_words(self) -> int:
        """Return the id of the vector type of three 32-bit words, which built-in variables have."""
        return self._known["vector", self.type(ir.IntType(32))]

    def push_constant(self) -> int:
        """Return the id of the push constant variable that holds the address of the argument block."""
        if "block" not in self.interface:
            long = self.type(ir.IntType(64))
            struct_id = self._declared("block", "TypeStruct", long)
            self.decorate(struct_id, op.BLOCK)
            self.decorations += encode("MemberDecorate", struct_id, 0, op.OFFSET, 0)
            self.interface["block"] = self._variable(op.PUSH_CONSTANT, struct_id)
        return self.interface["block"]

    def shared(self, name: str, t: ir.Type, count: int) -> int:
        """Return the id of an array that the threads of a workgroup share; the first call with a name declares it."""
        key = f"shared {name}"
        if key not in self.interface:
            self.interface[key] = self._variable(op.WORKGROUP, self.array(t, count))
        return self.interface[key]

    def launch_word(self) -> int:
        """Return the id of the push constant variable with the two 32-bit words that differ by dispatch.

        Only modules without buffer addresses have this variable.
        """
        if "launch" not in self.interface:
            word = self.type(ir.IntType(32))
            struct_id = self._declared("launch", "TypeStruct", word, word)
            self.decorate(struct_id, op.BLOCK)
            for member in range(2):
                self.decorations += encode("MemberDecorate", struct_id, member, op.OFFSET, 4 * member)
            self.interface["launch"] = self._variable(op.PUSH_CONSTANT, struct_id)
        return self.interface["launch"]

    def storage_buffer(self, binding: int, t: ir.Type, size: int) -> int:
        """Return the id of the storage buffer variable that views a binding as an array of type `t`.

        Args:
            binding: number of the binding
            t: type of the elements
            size: bytes of an element
        """
        element = self.type(t)
        name = f"buffer {binding} {element}"
        if name not in self.interface:
            self.interface[name] = made = self._variable(op.STORAGE_BUFFER, self._elements(element, size))
            for words in ((op.DESCRIPTOR_SET, 0), (op.BINDING, binding), (op.ALIASED,)):
                self.decorate(made, *words)
        return self.interface[name]

    def _elements(self, element: int, size: int) -> int:
        """Return the id of a struct type whose only member is a runtime-sized array."""
        key = "elements", element
        if key not in self._known:
            array = self._declared(("runtime array", element), "TypeRuntimeArray", element)
            self.decorate(array, op.ARRAY_STRIDE, size)
            struct_id = self._declared(key, "TypeStruct", array)
            self.decorate(struct_id, op.BLOCK)
            self.decorations += encode("MemberDecorate", struct_id, 0, op.OFFSET, 0)
        return self._known[key]

    def _variable(self, storage: int, to: int) -> int:
        """Declare a global variable of a storage class and return its id."""
        pointer, made = self.pointer(storage, to), self.fresh()
        self.globals += encode("Variable", pointer, made, storage)
        return made

    # -- the whole ------------------------------------------------------------------------------------------

    def words(self) -> list[int]:
        """Return the words of the whole module."""
        # Float controls are declared only for the widths of reals that the module uses.
        modes = [(name, width) for name, width in self.modes if width in self._floats]
        for name, _ in modes:
            self.require(name)
        head: list[int] = []
        for capability in self.capabilities:
            head += encode("Capability", op.CAPABILITIES[capability])
        for extension in dict.fromkeys(op.EXTENSIONS[c] for c in self.capabilities if c in op.EXTENSIONS):
            head += encode("Extension", *text_words(extension))
        head += encode("ExtInstImport", self.glsl, *text_words("GLSL.std.450"))
        head += encode("MemoryModel", op.PHYSICAL_64 if self.physical else op.LOGICAL, op.GLSL_450)
        for entry in self.entries:
            used = self.interface.values()
            head += encode("EntryPoint", op.GL_COMPUTE, entry.id, *text_words(entry.name), *used)
        for entry in self.entries:
            head += encode("ExecutionMode", entry.id, op.EXECUTION_MODES["LocalSize"], entry.local_size, 1, 1)
            for name, width in modes:
                head += encode("ExecutionMode", entry.id, op.EXECUTION_MODES[name], width)
        body = [word for function in self.functions for word in function]
        header = [op.MAGIC, op.VERSION, 0, self.bound, 0]
        return [*header, *head, *self.names, *self.decorations, *self.globals, *body]


def _words(pattern: int, width: int) -> tuple[int, ...]:
    """Return the 32-bit words of a bit pattern, lowest first, for use as a literal."""
    return (pattern & 0xFFFFFFFF, pattern >> 32) if width == 64 else (pattern,)
