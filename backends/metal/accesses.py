"""This module defines each kind of memory access of a kernel as a function in the Metal Shading Language.

Translated code names these functions by what they do and to which type: sg_load_f32, sg_add_u32. All take an address of
64 bits, as the generator's instructions do, so a pointer cast stands in each of them, and nowhere else.

Metal has atomics of 32 bits. A 64-bit sum, and, or, or exclusive or is made of two 32-bit atomics where nobody reads
the old value: each half sees every operand once, and the old lower half tells each sum whether it carries. The maximum
of 64 bits, which devices of family Apple8 have, takes numbers for unsigned; it serves only for the depths of adstacks,
which are never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NAMES = {"u8": "uchar", "u16": "ushort", "u32": "uint", "u64": "ulong", "f32": "float"}
"""Types in the Metal Shading Language, by their names in accesses; integers carry no sign, and a half is a u16."""

_RELAXED = "memory_order_relaxed"


@dataclass(frozen=True)
class MetalAccess:
    """Represent one kind of memory access, such as a load of an f32, and the Metal function that performs it.

    Attributes:
        what: what is done, a key of ACCESSES
        type: type of the element, a key of NAMES
        signed: True if the numbers have signs, which matters for minimum and maximum
    """

    what: str
    type: str
    signed: bool = False

    @property
    def name(self) -> str:
        """Return the name of the Metal function that does the access."""
        return f"sg_{self.what}_{'i' + self.type[1:] if self.signed else self.type}"

    @property
    def operands(self) -> int:
        """Return the number of values that the access function takes in addition to the address."""
        return {"load": 0, "compare_exchange": 2}.get(self.what, 1)

    @property
    def text(self) -> str:
        """Return the source text of the Metal function that does the access."""
        t, body = NAMES[self.type], ACCESSES[self.what](self)
        result = "void" if self.what == "store" else t
        given = ("ulong address", *(f"{t} {name}" for name in ("value", "expected")[: self.operands]))
        lines = "".join(f"    {line}\n" for line in body)
        return f"static inline {result} {self.name}({', '.join(given)})\n{{\n{lines}}}\n"


def _pointer(t: str, address: str = "address") -> str:
    """Return the Metal expression that casts an address to a pointer to a type."""
    return f"reinterpret_cast<device {t}*>({address})"


def _load(access: MetalAccess) -> list[str]:
    """Return the body lines of a Metal function that loads a value."""
    return [f"return *{_pointer(NAMES[access.type])};"]


def _store(access: MetalAccess) -> list[str]:
    """Return the body lines of a Metal function that stores a value."""
    return [f"*{_pointer(NAMES[access.type])} = value;"]


def _fetch(function: str) -> Callable[[MetalAccess], list[str]]:
    """Return a function that writes the Metal body of an atomic update which returns the old value."""

    def write(access: MetalAccess) -> list[str]:
        if access.type == "u64":
            return SPLIT[access.what]
        t = "int" if access.signed else NAMES[access.type]
        value = "as_type<int>(value)" if access.signed else "value"
        found = f"{function}({_pointer(f'atomic_{t}')}, {value}, {_RELAXED})"
        return [f"return as_type<uint>({found});" if access.signed else f"return {found};"]

    return write


def _compare_exchange(access: MetalAccess) -> list[str]:
    """Return the body lines of a Metal function that does a compare-and-swap."""
    # Metal has only the weak form, which may fail although the content is as expected; then it is tried again.
    attempt = f"atomic_compare_exchange_weak_explicit({_pointer('atomic_uint')}, &found, value, {_RELAXED}, {_RELAXED})"
    return ["uint found = expected;", f"while (!{attempt} && found == expected) {{}}", "return found;"]


def _halves(function: str) -> list[str]:
    """Return the body lines of a bit operation on 64 bits that is done by two atomics on 32 bits."""
    return [
        f"{function}({_pointer('atomic_uint')}, uint(value), {_RELAXED});",
        f"{function}({_pointer('atomic_uint', 'address + 4ul')}, uint(value >> 32ul), {_RELAXED});",
        "return 0ul;",
    ]


SPLIT = {
    "add": [
        f"uint low = uint(value), old = atomic_fetch_add_explicit({_pointer('atomic_uint')}, low, {_RELAXED});",
        "uint high = uint(value >> 32ul) + (old + low < old ? 1u : 0u);",
        f"atomic_fetch_add_explicit({_pointer('atomic_uint', 'address + 4ul')}, high, {_RELAXED});",
        "return 0ul;",
    ],
    "and": _halves("atomic_fetch_and_explicit"),
    "or": _halves("atomic_fetch_or_explicit"),
    "xor": _halves("atomic_fetch_xor_explicit"),
    "max": [f"atomic_max_explicit({_pointer('atomic_ulong')}, value, {_RELAXED});", "return 0ul;"],
}
"""The lines of accesses of 64 bits whose old value nobody reads, by what they do."""

ACCESSES: dict[str, Callable[[MetalAccess], list[str]]] = {
    "load": _load,
    "store": _store,
    "compare_exchange": _compare_exchange,
    "exchange": _fetch("atomic_exchange_explicit"),
    "add": _fetch("atomic_fetch_add_explicit"),
    "min": _fetch("atomic_fetch_min_explicit"),
    "max": _fetch("atomic_fetch_max_explicit"),
    "and": _fetch("atomic_fetch_and_explicit"),
    "or": _fetch("atomic_fetch_or_explicit"),
    "xor": _fetch("atomic_fetch_xor_explicit"),
}
"""Writers of the lines of each function, by what it does."""

ATOMICS = {
    "AtomicExchange": ("exchange", False),
    "AtomicCompareExchange": ("compare_exchange", False),
    "AtomicIAdd": ("add", False),
    "AtomicFAddEXT": ("add", False),
    "AtomicSMin": ("min", True),
    "AtomicSMax": ("max", True),
    "AtomicUMin": ("min", False),
    "AtomicUMax": ("max", False),
    "AtomicAnd": ("and", False),
    "AtomicOr": ("or", False),
    "AtomicXor": ("xor", False),
}
"""For each atomic instruction of SPIR-V: what it does, and whether its numbers have signs."""
