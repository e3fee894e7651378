"""This module builds LLVM IR as text: classes for types, values, blocks, functions and modules.

An instruction exists only as its line of text; later code needs only its type and its name. Compilation is thus one
pass of string formatting, and LLVM's parser and verifier judge the whole. The builder (builder.py) appends lines; a
block keeps its phi instructions and its terminator apart, since both may be added late.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence


class Type:
    """Represent an LLVM type by its text; two types are equal if their texts are equal.

    Attributes:
        text: The type in LLVM IR.
        name: The part of an intrinsic's name that stands for the type.
    """

    __slots__ = ("name", "text")

    def __init__(self, text: str, name: str | None = None) -> None:
        self.text = text
        self.name = text if name is None else name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


class IntType(Type):
    """Represent an integer type of `width` bits."""

    __slots__ = ("width",)

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width


class VectorType(Type):
    """Represent a vector type with `count` lanes of a scalar type."""

    __slots__ = ("count", "element")

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"<{count} x {element.text}>", f"v{count}{element.name}")
        self.element = element
        self.count = count


I1 = IntType(1)
HALF, FLOAT, DOUBLE = Type("half", "f16"), Type("float", "f32"), Type("double", "f64")
VOID = Type("void")
PTR = Type("ptr")


class LLVMValue:
    """Represent an operand of an LLVM instruction by its type and its text.

    Attributes:
        type: Type of the operand.
        ref: Name of the operand, or its number if it is constant.
    """

    __slots__ = ("ref", "type")

    def __init__(self, type: Type, ref: str) -> None:
        self.type = type
        self.ref = ref

    def __str__(self) -> str:
        return f"{self.type.text} {self.ref}"


class Constant(LLVMValue):
    """Represent a number of a scalar type, or a vector that has this number in every lane.

    Attributes:
        constant: The number if the type is a scalar integer, else None.
    """

    __slots__ = ("constant",)

    def __init__(self, type: Type, number: float | int) -> None:
        self.constant: int | None = None
        if isinstance(type, IntType):
            self.constant = _wrapped(int(number), type.width)
            super().__init__(type, str(self.constant))
        elif isinstance(type, VectorType):
            super().__init__(type, f"splat ({Constant(type.element, number)})")
        else:
            super().__init__(type, _real(type, float(number)))


def _wrapped(number: int, width: int) -> int:
    """Return the number modulo 2^width as a signed number; an i1 is 0 or 1."""
    # LLVM's text form takes numbers of either sign, but not more bits than the type has.
    bits = number & ((1 << width) - 1)
    return bits - (1 << width) if width > 1 and bits >> (width - 1) else bits


def _real(type: Type, number: float) -> str:
    """Return a real number as the hexadecimal text that LLVM IR uses for it."""
    # A half has a form of its own. The bits of a float are those of the double with the same value.
    if type is HALF:
        return f"0xH{struct.unpack('>H', struct.pack('>e', number))[0]:04X}"
    if type is FLOAT:
        number = struct.unpack(">f", struct.pack(">f", number))[0]
    return f"0x{struct.unpack('>Q', struct.pack('>d', number))[0]:X}"


class Phi(LLVMValue):
    """Represent a phi: a value that depends on the edge through which its block is entered."""

    __slots__ = ("incoming",)

    def __init__(self, type: Type, ref: str) -> None:
        super().__init__(type, ref)
        self.incoming: list[str] = []

    def add_incoming(self, value: LLVMValue, block: BasicBlock) -> None:
        """Add an incoming edge to the phi: it has the value `value` if control comes from `block`."""
        self.incoming.append(f"[{value.ref}, {block.ref}]")

    def line(self) -> str:
        """Return the phi instruction as a line of text."""
        return f"  {self.ref} = phi {self.type.text} {', '.join(self.incoming)}"


class BasicBlock:
    """Represent a basic block under construction: phis, instructions, terminator.

    Attributes:
        function: Function that the block belongs to.
        name: Label of the block.
        ref: The label as branches write it.
        phis: Phi instructions at the head of the block.
        lines: The other instructions, in order.
        known: Values of instructions without effects, by the text of the instruction.
        terminator: The line that leaves the block; None while the block is open.
    """

    __slots__ = ("function", "known", "lines", "name", "phis", "ref", "terminator")

    def __init__(self, function: LLVMFunction, name: str) -> None:
        self.function = function
        self.name = name
        self.ref = f"%{name}"
        self.phis: list[Phi] = []
        self.lines: list[str] = []
        self.known: dict[str, LLVMValue] = {}
        self.terminator: str | None = None

    @property
    def is_terminated(self) -> bool:
        """Return True if the block has its terminator."""
        return self.terminator is not None

    def text(self) -> str:
        """Return the lines of the block under its label."""
        lines = [f"{self.name}:", *[phi.line() for phi in self.phis], *self.lines]
        if self.terminator is not None:
            lines.append(self.terminator)
        return "\n".join(lines)


class LLVMFunction(LLVMValue):
    """Represent a function, which is a declaration while it has no blocks.

    Attributes:
        result: Type of the result.
        head: Linkage or calling convention.
        attributes: Attributes of the function in LLVM IR.
        args: The parameters as values.
        blocks: Basic blocks in order; the first one is the entry.
        named: The largest number that a name in the function has.
        scope: Reference to the function's debug information.
        mark: Text that ends each line appended from here on; see debug_lines.py.
    """

    __slots__ = ("args", "attributes", "blocks", "head", "mark", "named", "result", "scope")

    def __init__(
        self,
        module: LLVMModule,
        name: str,
        result: Type,
        params: Sequence[Type],
        attributes: Sequence[str] = (),
        head: str = "",
    ) -> None:
        super().__init__(PTR, f'@"{name}"')
        self.result = result
        self.head = head
        self.attributes = attributes
        self.args = [LLVMValue(t, f"%a{place}") for place, t in enumerate(params)]
        self.blocks: list[BasicBlock] = []
        self.named = 0
        self.scope = self.mark = ""
        module.functions[name] = self

    def fresh(self) -> int:
        """Return a number that no name in the function contains yet."""
        self.named += 1
        return self.named

    def append_basic_block(self, name: str) -> BasicBlock:
        """Append a new block at the end of the function; its name is made unique."""
        self.blocks.append(BasicBlock(self, f"{name}.{self.fresh()}"))
        return self.blocks[-1]

    def text(self) -> str:
        """Return the declaration or definition of the function."""
        params = ", ".join([arg.type.text for arg in self.args] if not self.blocks else map(str, self.args))
        signature = f"{self.result.text} {self.ref}({params}) {' '.join(self.attributes)}"
        if not self.blocks:
            return f"declare {signature}\n"
        body = "\n".join([block.text() for block in self.blocks])
        return f"define {self.head} {signature}{self.scope} {{\n{body}\n}}\n"


class Lines:
    """Emit debug information for the functions of a module; this base class emits none (see debug_lines.py)."""

    def enter(self, function: LLVMFunction, task: int | None) -> None:
        """Start debug information for the function of a task, or of the whole kernel if `task` is None."""

    def at(self, function: LLVMFunction, loc: int) -> None:
        """Set the source location of all instructions appended to the function from now on; 0 means none."""

    def text(self) -> str:
        """Return the text that is appended to the module, such as debug metadata; this base class returns ""."""
        return ""


UNLIKELY = "!prof !0"
"""This metadata marks a conditional branch that practically always goes to its second target."""


_FIRST_LOOP = 1 << 20
"""Number of the first metadata node of a loop; it lies above the numbers that lines take."""


class LLVMModule:
    """Represent an LLVM module: its functions by name, and the definitions of its variables as text."""

    def __init__(self) -> None:
        self.functions: dict[str, LLVMFunction] = {}
        self.variables: list[str] = []
        self.loops: list[str] = []
        self.lines = Lines()

    def unrolled(self, count: int) -> str:
        """Return metadata for the backward branch of one loop that makes the optimizer unroll it `count` times."""
        own = _FIRST_LOOP + 2 * len(self.loops)
        self.loops.append(
            f'!{own} = distinct !{{!{own}, !{own + 1}}}\n!{own + 1} = !{{!"llvm.loop.unroll.count", i32 {count}}}\n'
        )
        return f"!llvm.loop !{own}"

    def variable(self, name: str, t: Type) -> LLVMValue:
        """Define a new global variable, initialized to 0, and return its address."""
        self.variables.append(f'@"{name}" = internal global {t.text} 0\n')
        return LLVMValue(PTR, f'@"{name}"')

    def shared(self, name: str, t: Type, count: int) -> LLVMValue:
        """Return the address of a variable that the threads of a GPU block share, defined once for each name."""
        line = f'@"{name}" = internal addrspace(3) global [{count} x {t.text}] undef\n'
        if line not in self.variables:
            self.variables.append(line)
        return LLVMValue(Type("ptr addrspace(3)"), f'@"{name}"')

    def __str__(self) -> str:
        weights = '!0 = !{!"branch_weights", i32 1, i32 1048576}\n'
        functions = [function.text() for function in self.functions.values()]
        return "\n".join([*self.variables, *functions, weights + "".join(self.loops) + self.lines.text()])
