"""This module rewrites a SPIR-V module so that memory accesses are calls, because SPIRV-Cross misplaces loads.

    %p = OpConvertUToPtr %ptr %address
    %v = OpLoad %float %p Aligned 4            →   %v = OpFunctionCall %float %sg_load_f32 %address

Without rewriting, a load is an expression, which SPIRV-Cross writes where the value is used, after stores that follow
the load; atomics through an address are refused or come out as text that no compiler takes, depending on the version. A
call of a function that writes memory stays where it is. The bodies of these functions are placeholders that do write;
translate.py puts the bodies of accesses.py in their place.

The result of a function of the generator goes by way of a variable, for the same reason: SPIRV-Cross writes the call
where its result is used, after stores to variables that its arguments read. A signed remainder is spelled out, because
SPIRV-Cross takes the remainder of its operands' types, which carry no sign. NoContraction goes, because it becomes a
call of `fma(x, y, 0)`, which loses the sign of a zero; translate.py forbids contraction for the whole text. Variables
begin as zero, so none is read before it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...compiler.errors import InternalError
from ..spirv import opcodes as op
from ..spirv.decode import instructions
from ..spirv.module import encode, text_words
from .accesses import ATOMICS, SPLIT, MetalAccess

Instruction = tuple[str, list[int]]


@dataclass
class ModuleNames:
    """Hold the ids of the types, constants and pointers that a SPIR-V module declares.

    Attributes:
        types: ids of scalar types, by name
        type_names: names of scalar types, by id
        pointers: ids of pointer types into memory, by the id of the type to which they point
        pointees: type to which a pointer type points, by id
        own: ids of pointer types to variables of functions, by the id of the type to which they point
        signatures: ids of function types, by result and parameters
        nulls: ids of zeros, by type
        addresses: for each pointer into memory, the type to which it points and the address that was converted
        used: ids that some instruction takes as operands
    """

    types: dict[str, int] = field(default_factory=dict)
    type_names: dict[int, str] = field(default_factory=dict)
    pointers: dict[int, int] = field(default_factory=dict)
    pointees: dict[int, int] = field(default_factory=dict)
    own: dict[int, int] = field(default_factory=dict)
    signatures: dict[tuple[int, ...], int] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    addresses: dict[int, tuple[int, int]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def learn(self, name: str, operands: list[int]) -> None:
        """Record the ids that an instruction declares and the ids that it uses."""
        self.used.update(_taken(name, operands))
        if name in ("TypeInt", "TypeFloat", "TypeVoid"):
            text = {"TypeInt": "u", "TypeFloat": "f", "TypeVoid": "void"}[name] + "".join(map(str, operands[1:2]))
            self.types[text], self.type_names[operands[0]] = operands[0], text
        elif name == "TypePointer":
            self.pointees[operands[0]] = operands[2]
            if operands[1] in (op.PHYSICAL, op.FUNCTION):
                (self.pointers if operands[1] == op.PHYSICAL else self.own)[operands[2]] = operands[0]
        elif name == "TypeFunction":
            self.signatures[tuple(operands[1:])] = operands[0]
        elif name == "ConstantNull":
            self.nulls[operands[0]] = operands[1]
        elif name == "ConvertUToPtr":
            self.addresses[operands[1]] = self.pointees[operands[0]], operands[2]


def _taken(name: str, operands: list[int]) -> list[int]:
    """Return the ids that an instruction reads, or [] for instructions that cannot read the result of an atomic.

    From these ids the rewriter learns which atomics must return the old value.
    """
    if name in ("Store", "BranchConditional", "ReturnValue"):
        return operands[:2]
    if name in ("Load", "CompositeExtract"):
        return operands[2:3]
    if name == "ExtInst":
        return operands[4:]
    return operands[2:] if name in _PLAIN else []


_PLAIN = op.OPCODES.keys() - set(
    """
    Name Extension ExtInstImport MemoryModel EntryPoint ExecutionMode Capability Decorate MemberDecorate TypeInt
    TypeFloat TypeVector Constant Function Variable LoopMerge SelectionMerge Branch Label
    """.split()
)
"""Instructions of which every word behind the result is an id."""


class _ModuleRewriter:
    """Hold the state of a SPIR-V module while it is being rewritten for Metal.

    Attributes:
        found: instructions of the old module
        names: declarations of the old module
        bound: first id that is not in use
        functions: ids of the functions that access memory
        globals: words of types and constants beyond those of the old module
        variables: words of the new variables of the current function
    """

    def __init__(self, words: Sequence[int]) -> None:
        self.found = [*instructions(words)]
        self.names = ModuleNames()
        for name, operands in self.found:
            self.names.learn(name, operands)
        self.bound = words[3]
        self.functions: dict[MetalAccess, int] = {}
        self.globals: list[int] = []
        self.variables: list[int] = []

    def fresh(self) -> int:
        """Return an id that the module does not use yet."""
        self.bound += 1
        return self.bound - 1

    # -- bodies ---------------------------------------------------------------------------------------------

    def bodies(self, found: Sequence[Instruction]) -> list[int]:
        """Return the SPIR-V words of the rewritten functions, with their new variables in the first block."""
        out: list[int] = []
        begin = 0
        for name, operands in found:
            out += self.body(name, operands)
            if name == "Function":
                begin, self.variables = 0, []
            elif name == "Label" and not begin:
                begin = len(out)
            elif name == "FunctionEnd":
                out[begin:begin] = self.variables
        return out

    def body(self, name: str, operands: list[int]) -> list[int]:
        """Return the SPIR-V words that replace one instruction of a function; an access to memory becomes a call."""
        if name == "Variable":
            return encode(name, *operands[:3], self._null(self.names.pointees[operands[0]]))
        if name == "ConvertUToPtr":
            return []
        if name == "SRem":
            return self._remainder(*operands)
        if name == "FunctionCall" and operands[0] != self.names.types["void"]:
            return self._kept(*operands)
        pointer = operands[0] if name == "Store" else operands[2] if name == "Load" or name in ATOMICS else 0
        if pointer not in self.names.addresses:
            return encode(name, *operands)
        pointee, address = self.names.addresses[pointer]
        t = self.names.type_names[pointee]
        if name == "Store":
            return self._call(MetalAccess("store", t), self.names.types["void"], self.fresh(), address, operands[1])
        if name == "Load":
            return self._call(MetalAccess("load", t), operands[0], operands[1], address)
        what, signed = ATOMICS[name]
        access = MetalAccess(what, t, signed and t == "u32")
        if t == "u64" and (what not in SPLIT or operands[1] in self.names.used):
            raise InternalError(f"{name} of 64 bits, whose old value is read", "avoid it in code for Metal")
        return self._call(access, operands[0], operands[1], address, *operands[-access.operands :])

    def _kept(self, t: int, made: int, *call: int) -> list[int]:
        """Return the SPIR-V words of a function call whose result is stored to a variable and loaded again."""
        if t not in self.names.own:
            self.names.own[t] = self.fresh()
            self.globals += encode("TypePointer", self.names.own[t], op.FUNCTION, t)
        variable, result = self.fresh(), self.fresh()
        self.variables += encode("Variable", self.names.own[t], variable, op.FUNCTION, self._null(t))
        called = encode("FunctionCall", t, result, *call) + encode("Store", variable, result)
        return called + encode("Load", t, made, variable)

    def _remainder(self, t: int, made: int, x: int, y: int) -> list[int]:
        """Return the SPIR-V words of instructions that compute the signed remainder x - (x / y) * y."""
        # x - (x/y)·y is what SPIRV-Cross cannot change.
        quotient, product = self.fresh(), self.fresh()
        last = encode("ISub", t, made, x, product)
        return encode("SDiv", t, quotient, x, y) + encode("IMul", t, product, quotient, y) + last

    def _call(self, access: MetalAccess, result: int, made: int, *args: int) -> list[int]:
        """Return the SPIR-V words of a call of the function that does a memory access."""
        if access not in self.functions:
            self.functions[access] = self.fresh()
        return encode("FunctionCall", result, made, self.functions[access], *args)

    def _null(self, t: int) -> int:
        """Return the id of the null constant of a type, which is declared at the first call."""
        if t not in self.names.nulls:
            self.names.nulls[t] = self.fresh()
            self.globals += encode("ConstantNull", t, self.names.nulls[t])
        return self.names.nulls[t]

    # -- placeholders ---------------------------------------------------------------------------------------

    def placeholder(self, access: MetalAccess, made: int) -> list[int]:
        """Return the SPIR-V words of a stub function for a memory access; the translated stub gets another body."""
        names, aligned = self.names, (op.ALIGNED, int(access.type[1:]) // 8)
        t = names.types[access.type]
        result = names.types["void"] if access.what == "store" else t
        params = [names.types["u64"], *[t] * access.operands]
        pointer, given = self.fresh(), [self.fresh() for _ in params]
        out = encode("Function", result, made, 0, self._signature((result, *params)))
        for param, id in zip(params, given):
            out += encode("FunctionParameter", param, id)
        out += encode("Label", self.fresh()) + encode("ConvertUToPtr", names.pointers[t], pointer, given[0])
        value = given[1] if access.operands else self.fresh()
        if not access.operands:
            out += encode("Load", t, value, pointer, *aligned)
        out += encode("Store", pointer, value, *aligned)
        out += encode("Return") if access.what == "store" else encode("ReturnValue", value)
        return out + encode("FunctionEnd")

    def _signature(self, types: tuple[int, ...]) -> int:
        """Return the id of a function type, given the ids of its result and parameters."""
        if types not in self.names.signatures:
            self.names.signatures[types] = self.fresh()
            self.globals += encode("TypeFunction", self.names.signatures[types], *types)
        return self.names.signatures[types]

    # -- the whole ------------------------------------------------------------------------------------------

    def head(self, found: Sequence[Instruction]) -> Iterator[int]:
        """Yield the SPIR-V words of the module before its functions, with names for the added functions."""
        named = False
        for name, operands in found:
            if name == "Name" and not named:
                named = True
                for access, made in self.functions.items():
                    yield from encode("Name", made, *text_words(access.name))
            if name != "Decorate" or operands[1] != op.NO_CONTRACTION:
                yield from encode(name, *operands)


def rewrite(words: Sequence[int]) -> tuple[tuple[int, ...], tuple[MetalAccess, ...]]:
    """Return the words of the rewritten SPIR-V module, and the kinds of memory accesses that its new calls do.

    The words are a module of the generator, with buffer addresses.

    Raises:
        InternalError: for an atomic of 64 bits that Metal does not have
    """
    r = _ModuleRewriter(words)
    start = next((at for at, (name, _) in enumerate(r.found) if name == "Function"), len(r.found))
    body = r.bodies(r.found[start:])
    first = [word for access, made in r.functions.items() for word in r.placeholder(access, made)]
    head = [*r.head(r.found[:start])]
    return (*words[:3], r.bound, 0, *head, *r.globals, *first, *body), tuple(r.functions)
