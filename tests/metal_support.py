"""Check the texts of Metal programs, and list the kernels that a source kernel is launched as."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from stackgrad.backends.metal.program import MetalProgram
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.errors import NotDifferentiable, Unsupported
from stackgrad.compiler.ir.kernels import Kernel

Make = Callable[[str], MetalProgram]

_DECLARED = re.compile(r"^ +(?!return)(?:thread |device )?[a-z]\w*(?:<[^;=]*>)?\*? \w+(?:\[\w+\])?;$", re.MULTILINE)
"""A local variable without a first value. Members of structs are declared so, too."""
_STRUCTS = re.compile(r"^struct \w+\n\{\n.*?^\};\n", re.MULTILINE | re.DOTALL)
_FOREIGN = re.compile(r"\bdouble\b|\bspvF(?:Mul|Add|Sub)\b|\d\.\d+lf\b")
_CAST = re.compile(r"reinterpret_cast<device [\w ]+\*>")


def complaints(made: MetalProgram) -> Iterator[str]:
    """Return a list of mistakes in the texts of a program."""
    for entry in made.entries:
        text = _STRUCTS.sub("", entry.text)
        yield from (f"{entry.name}: no first value: {found.strip()}" for found in _DECLARED.findall(text))
        yield from (f"{entry.name}: {found}" for found in _FOREIGN.findall(text))
        accesses = re.findall(r"^static inline \w+ (sg_\w+)\(.*\)\n\{\n(?:    .*\n)+\}\n", text, re.MULTILINE)
        for name in {*re.findall(r"\b(sg_(?:load|store)_\w+)\(", text)} - {*accesses}:
            yield f"{entry.name}: {name} is not defined"
        for body in re.findall(r"^kernel void .*\n\{\n(.*?)^\}\n", text, re.MULTILINE | re.DOTALL):
            yield from (f"{entry.name}: {found}" for found in _CAST.findall(body))


def variants(kernel: Kernel) -> Iterator[Kernel]:
    """Return the kernels launched for a source kernel: itself, its gradient, and its counting kernel."""
    yield prepare_forward(kernel).kernel
    try:
        lowered = prepare_reverse(kernel)
    except (NotDifferentiable, Unsupported):
        return
    yield lowered.kernel
    if lowered.counting is not None:
        yield lowered.counting
    if lowered.marking is not None:
        yield lowered.marking.kernel
