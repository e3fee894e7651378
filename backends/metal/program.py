"""Make the Metal program of a kernel: the text of each entry point, its number of threads, and its arguments.

The generator is that of Vulkan, with buffer addresses, which Metal 3 has, and without the features that Metal lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...compiler.errors import DeviceError, InternalError
from ...compiler.ir.depth import with_stack_room
from ...compiler.ir.kernels import Kernel
from .. import limits
from ..base import Options
from ..crash import crash_error
from ..metal_limits import find_wide_atomic
from ..spirv.emit import ShaderFeatures
from ..spirv.quirks import Quirks
from ..spirv.shaders import LOCAL_SIZE, Shaders, generate
from .arguments import BlockSlot, EntryArgument, arguments, slots
from .rewrite import rewrite
from .translate import TranslatorMissing, translate

# Compilers of Metal nest at most 256 brackets, so the shaders are kept shallow.
FEATURES = ShaderFeatures(float64=False, quirks=Quirks(flushes=True, shallow=True))
"""Metal 3: integers of 8 to 64 bits, f32, atomic sums of f32, and of 64 bits the atomics of accesses.py."""

_FOREIGN = frozenset({"Float64", "AtomicFloat64AddEXT"})


@dataclass(frozen=True)
class MetalEntry:
    """Represent one entry point of a Metal program: its text, its number of threads, and its arguments.

    Attributes:
        name: name of the function
        task: task whose iterations it runs in parallel; None if it has one thread
        threads: threads of a threadgroup
        arguments: arguments of the function
        text: text in the Metal Shading Language
    """

    name: str
    task: int | None
    threads: int
    arguments: tuple[EntryArgument, ...]
    text: str


@dataclass(frozen=True)
class MetalProgram:
    """Represent the Metal program of a kernel, with all its entry points.

    Attributes:
        shaders: shaders that were translated
        words: the SPIR-V module after rewriting
        entries: entry points in order of dispatch, each of which runs after the one before has ended
        slots: fields of the argument block
    """

    shaders: Shaders
    words: tuple[int, ...]
    entries: tuple[MetalEntry, ...]
    slots: tuple[BlockSlot, ...]

    @property
    def text(self) -> str:
        """Return the source text of all entry points, for people to read."""
        table = "".join(f"//   {s.at:5} {s.bytes:3}  {s.holds}\n" for s in self.slots)
        head = f"// The argument block of {self.shaders.kernel.name}: place and size in bytes, and what it holds."
        return "\n".join([f"{head}\n{table}", *map(_shown, self.entries)])


def _shown(entry: MetalEntry) -> str:
    """Return the source text of an entry point under a comment line, for people to read."""
    given = ", ".join(f"{a.name}: {a.attribute}" for a in entry.arguments)
    return f"// {entry.name}: threadgroups of {entry.threads}; {given}\n\n{entry.text}"


@with_stack_room
def program(kernel: Kernel, options: Options) -> MetalProgram:
    """Return the Metal program of a kernel, which must be of stage tasks, structured or adjoint.

    Raises:
        Unsupported: with statement and line, for what Metal does not have
        TranslatorMissing: without SPIRV-Cross
        InternalError: if SPIRV-Cross does not translate the module
    """
    limits.check(kernel, "metal")
    wide = any(find_wide_atomic(task) is not None for task in kernel.tasks)
    shaders = generate(kernel, options, replace(FEATURES, int64_atomics=not wide))
    words, accesses = rewrite(shaders.words)
    code = b"".join(word.to_bytes(4, "little") for word in words)
    if foreign := _FOREIGN & {*shaders.capabilities}:
        raise InternalError(f"kernel {kernel.name}: code for Metal uses {', '.join(sorted(foreign))}")
    try:
        texts = translate(code, [name for name, _ in shaders.entries], accesses)
    except TranslatorMissing:
        raise
    except DeviceError as error:
        listing = {"module.spv": code}  # `spirv-dis` prints it
        raise crash_error("SPIRV-Cross failed", error, {"kernel": kernel}, listing, options=options) from error
    entries = tuple(
        MetalEntry(name, task, 1 if task is None else LOCAL_SIZE, arguments(texts[name], name), texts[name])
        for name, task in shaders.entries
    )
    return MetalProgram(shaders, words, entries, slots(shaders.kernel, shaders.layout, len(shaders.tail)))
