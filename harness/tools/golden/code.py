"""This module generates the code of one lowered kernel for every target, the same on whatever machine it runs.

The entries for CPUs generate code for x86-64-v3 (AVX2) and x86-64-v4 (AVX-512), whatever the host is.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from . import adapter as at
from .inputs import error_text

V3 = replace(at.CPU, clock="tsc", fused=True)
V4 = replace(V3, vector_masks=True)
TRIPLE = "x86_64-unknown-linux-gnu"
ARCH = "sm_90"
GROUP, THREADS = 128, 1 << 20
"""Numbers of threads, of a group of a GPU and of a launch, for which host code is generated."""
DEVICE = at.Features(
    float64_add=True, subgroups=True, wide_subgroups=True, lists=True, shared_errors=True, abreast=True
)
"""Large GPUs have this."""
BARE = at.Features(
    float64=False,
    int64=False,
    int64_atomics=False,
    float32_add=False,
    buffer_addresses=False,
    quirks=at.Quirks(
        loop_limit=True, known_zeros=True, known_factors=True, known_trips=True, flushes=True, shallow=True
    ),
)
"""Kernels are compiled for no less than this, with every quirk that shaders go around."""


@dataclass(frozen=True)
class CodeKind:
    """Represent a code generator with the function that turns a lowered kernel into text.

    Attributes:
        name: Name of the generator.
        make: Function from a lowered kernel to its code as text.
        needs: Program or library without which the generator is left out; empty if it needs none.
        heavy: True if the pipeline of LLVM runs, which takes ten times as long as everything else together. A heavy
            generator serves only sections that are heavy too.
    """

    name: str
    make: Callable[[at.Kernel], str]
    needs: str = ""
    heavy: bool = False


@cache
def _machine(name: str) -> llvm.TargetMachine:
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=name, opt=2, reloc="pic", codemodel="small")


def _optimized(text: str, name: str) -> str:
    """Return LLVM IR after optimization for the named machine, by the same LLVM passes as at a launch."""
    at.initialise()
    machine = _machine(name)
    module = at.parse(text, TRIPLE, str(machine.target_data))
    at.optimise(module, machine)
    return str(module)


def _llvm(kernel: at.Kernel, target: at.Target, options: at.Options) -> str:
    return at.generate_llvm(kernel, options, target).text


def _masked(kernel: at.Kernel, target: at.Target, options: at.Options) -> str:
    return at.generate_masked(kernel, options, target).text


def _cuda(kernel: at.Kernel, options: at.Options) -> str:
    made = at.generate_cuda(kernel, options)
    return "\n".join([*(f"; {entry.kind} {entry.task} {entry.name}" for entry in made.entries), made.text])


def _cuda_host(kernel: at.Kernel) -> str:
    made = at.generate_cuda(kernel, PLAIN)
    names = {(entry.kind, entry.task): entry.name for entry in made.entries if entry.name}
    return at.cuda_host_code(kernel, made.layout, names, GROUP).text


def _spirv(kernel: at.Kernel, features: at.Features, options: at.Options) -> str:
    made = at.generate_spirv(kernel, options, features)
    entries = "".join(f"; {name} {task}\n" for name, task in made.entries)
    return f"{entries}; tail {made.tail.hex()}\n{_instructions(made.words)}"


def _instructions(words: Sequence[int]) -> str:
    """Return a SPIR-V module as text, one line of numbers for each instruction."""
    lines, at_word = [" ".join(map(str, words[:5]))], 5
    while at_word < len(words):
        count = words[at_word] >> 16
        lines.append(" ".join(map(str, (words[at_word] & 0xFFFF, *words[at_word + 1 : at_word + count]))))
        at_word += count
    return "\n".join(lines)


def _vulkan_host(kernel: at.Kernel) -> str:
    made = at.generate_spirv(kernel, PLAIN)
    entries, counts = at.needed(made.kernel, made.entries, PLAIN), at.groups_at(made.layout.size, made.tail)
    layout = at.laid_out(made.layout)
    return at.vulkan_host_code(made.kernel, layout, entries, counts, at.SLOTS, THREADS, PLAIN, made.summed).text


PLAIN = at.Options()
SPREAD = at.Options(threads=4, deterministic=True, debug_info=True)
FORCED = at.Options(lanes=8)

GENERATORS = (
    CodeKind("cpu-v3", lambda k: _llvm(k, V3, PLAIN)),
    CodeKind("cpu-v3-masked", lambda k: _masked(k, V3, FORCED)),
    CodeKind("cpu-v4-spread", lambda k: _llvm(k, V4, SPREAD)),
    CodeKind("cpu-v4-masked", lambda k: _masked(k, V4, PLAIN)),
    CodeKind("cpu-debug", lambda k: _llvm(k, V3, at.Options(debug=True))),
    CodeKind("cpu-v3-optimised", lambda k: _optimized(_llvm(k, V3, PLAIN), "x86-64-v3"), heavy=True),
    CodeKind("cpu-v4-masked-optimised", lambda k: _optimized(_masked(k, V4, PLAIN), "x86-64-v4"), heavy=True),
    CodeKind("cuda", lambda k: _cuda(k, PLAIN)),
    CodeKind("cuda-deterministic", lambda k: _cuda(k, at.Options(deterministic=True))),
    CodeKind("cuda-host", _cuda_host),
    CodeKind("ptx", lambda k: at.ptx(k, ARCH), "libdevice", heavy=True),
    CodeKind("spirv", lambda k: _spirv(k, at.Features(), PLAIN)),
    CodeKind("spirv-device", lambda k: _spirv(k, DEVICE, PLAIN)),
    CodeKind("spirv-bare", lambda k: _spirv(k, BARE, PLAIN)),
    CodeKind("vulkan-host", _vulkan_host),
    CodeKind("metal", lambda k: at.metal_program(k, PLAIN).text, at.METAL_TRANSLATOR),
)
"""All generators, each behind those whose code it uses. FORCED makes masked code also where it would not pay."""


def runtime_code() -> dict[str, str]:
    """Return the generated code that does not depend on a kernel, by name: thread pool and trampoline.

    The trampoline depends on the layout of objects in this version of Python, which `tools` names.
    """
    platforms = {
        f"{system}-{machine}": at.platform_of(system, machine)
        for system in ("linux", "darwin", "other")
        for machine in ("x86_64", "aarch64")
    }
    pools = {f"pool-{name}": at.pool_code(platform) for name, platform in platforms.items()}
    return pools | {f"trampoline-{machine}": at.trampoline_text(machine) for machine in ("x86_64", "aarch64")}


@cache
def missing() -> frozenset[str]:
    """Return the names of programs and libraries that code generators need and that are not installed here."""
    here = {"libdevice": at.libdevice_path(), at.METAL_TRANSLATOR: shutil.which(at.METAL_TRANSLATOR)}
    return frozenset(name for name, place in here.items() if place is None)


def tools() -> Iterator[str]:
    """Yield a line for each external tool that influences the generated code, with its version or `absent`."""
    version = ".".join(map(str, llvm.llvm_version_info))
    yield f"Python {sys.version.split()[0]}, NumPy {np.__version__}, LLVM {version}, llvmlite {llvmlite.__version__}"
    yield f"libdevice {_library()}"
    yield f"{at.METAL_TRANSLATOR} {_translator()}"


def _library() -> str:
    path = at.libdevice_path()
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16] if path else "absent"


def _translator() -> str:
    if at.METAL_TRANSLATOR in missing():
        return "absent"
    command = [at.METAL_TRANSLATOR, "--revision"]
    return " ".join(subprocess.run(command, capture_output=True, text=True, check=False).stderr.split()) or "present"


def code_of(kernel: at.Kernel, heavy: bool) -> dict[str, str]:
    """Return the code of a kernel by each fast generator available here or, if `heavy`, by each slow one.

    Args:
        kernel: A kernel as backends get it.
        heavy: True to run the generators that take long, False to run the other generators.

    Returns:
        Texts by the number and name of the generator. If the compiler refuses the kernel, the text is the error.
    """
    return {
        f"{number:02}-{generator.name}": _text(generator, kernel)
        for number, generator in enumerate(GENERATORS)
        if generator.needs not in missing() and generator.heavy is heavy
    }


def _text(generator: CodeKind, kernel: at.Kernel) -> str:
    made: list[str] = []
    return error_text(lambda: made.append(generator.make(kernel))) or made[0]
