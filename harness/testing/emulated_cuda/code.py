"""This module loads modules of the emulated device, whose images are LLVM code that is compiled for the CPU."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from ....backends.llvm.optimize import InvalidLLVMError
from .checks import CheckPlaces, Untranslatable
from .fibers import Fibers
from .host_module import HostModule
from .translate import EmulatedEntry, entries, translate

LIMIT = 32_764
"""Largest number of bytes of parameters of a launch (PTX 8.1 on sm_70 and later)."""

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_BLOCK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_START = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
_RESUME = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

OF_FIBERS = ("fibers.block", "fibers.start", "fibers.resume")
"""Functions that a module with fibers exports beside its entries."""


def image_of(text: str, names: Sequence[str]) -> bytes:
    """Return an image for `LoadedModule`: LLVM code with the names of its entry points."""
    return "\n".join([f"; entries: {' '.join(names)}", text]).encode()


@dataclass(frozen=True)
class LoadedFunction:
    """A `LoadedFunction` is an entry point of an emulated GPU module, loaded as code of the CPU."""

    entry: EmulatedEntry
    run: Callable[[int, int, int, bool], None]

    def __call__(self, parameters: bytes, blocks: int, width: int, backward: bool) -> bool:
        """Run all threads of a grid. Return False if the entry point has changed its parameters, which CUDA forbids."""
        memory = ctypes.create_string_buffer(parameters, len(parameters) + 16)
        # Parameters passed by value are aligned to 16 bytes.
        at = -(-ctypes.addressof(memory) // 16) * 16
        ctypes.memmove(at, parameters, len(parameters))
        self.run(at, blocks, width, backward)
        return ctypes.string_at(at, len(parameters)) == parameters


class LoadedModule:
    """A `LoadedModule` is a module of the emulated GPU, compiled to machine code of the CPU and loaded.

    Attributes:
        functions: its entries by name.
        early: the most threads of a block that were over when other threads met at a barrier.
        digest: the SHA-256 checksum of the image.
    """

    def __init__(self, image: bytes, places: CheckPlaces, effort: int, room: Fibers | None = None) -> None:
        """Compile an image, the LLVM code of an emulated module, for the CPU and load it.

        Args:
            image: the image of the module, as `image_of` returns it.
            places: where checks find their data.
            effort: the optimization level of LLVM.
            room: memory for blocks of several threads, or None.

        Raises:
            Untranslatable: the text uses an unknown feature.
            InvalidLLVMError: LLVM does not accept the text.
        """
        first, _, text = image.decode().partition("\n")
        known = entries(text)
        names = first.split(":")[1].split()
        missing = [name for name in names if name not in known]
        if missing:
            raise Untranslatable(f"there is no entry {missing[0]}; there are {', '.join(known) or 'none'}")
        for entry in known.values():
            if entry.bytes > LIMIT:
                raise Untranslatable(f"entry {entry.name} takes {entry.bytes} bytes of parameters, more than {LIMIT}")
        host = translate(text, places, room)
        exports = (*(f"run.{name}" for name in known), *(OF_FIBERS if room else ()))
        self._code = _compiled(host, exports, effort)
        run = self._serial if room is None else partial(self._blocks, room)
        self.functions = {
            name: LoadedFunction(entry, run(self._code.addresses[f"run.{name}"])) for name, entry in known.items()
        }
        self.early = 0
        self.digest = hashlib.sha256(image).hexdigest()

    def _serial(self, address: int) -> Callable[[int, int, int, bool], None]:
        """Return a function that runs all threads of a grid one after another, each as a block of its own."""
        call = _RUN(address)

        def run(buffer: int, blocks: int, width: int, backward: bool) -> None:
            threads = blocks * width
            call(buffer, threads, *((threads - 1, -1) if backward else (0, 1)))

        return run

    def _blocks(self, room: Fibers, address: int) -> Callable[[int, int, int, bool], None]:
        """Return a function that runs a grid block by block, with the threads of a block as fibers."""
        types = (_BLOCK, _START, _RESUME)
        block, start, resume = (t(self._code.addresses[name]) for t, name in zip(types, OF_FIBERS))

        def run(buffer: int, blocks: int, width: int, backward: bool) -> None:
            for number in range(blocks - 1, -1, -1) if backward else range(blocks):
                block(number, blocks, width, buffer)
                for thread in range(width):
                    start(thread, address)
                self.early = max(self.early, room.run(resume, width, backward))

        return run


@lru_cache(maxsize=256)
def _compiled(text: str, exports: tuple[str, ...], effort: int) -> HostModule:
    try:
        return HostModule(text, exports, effort)
    except RuntimeError as error:
        raise InvalidLLVMError(f"the linker refuses the emulated module: {error}") from error
