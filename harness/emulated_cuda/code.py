"""Modules of the emulated device: an image is the LLVM text itself; loading compiles it for the host."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from ...backends.llvm.optimise import Refused
from .checks import Places, Untranslatable
from .fibers import Fibers
from .host_module import HostModule
from .translate import Entry, entries, translate

LIMIT = 32_764
"""Bytes of parameters that a launch may have (PTX 8.1 on sm_70 and later)."""

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_BLOCK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_START = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
_RESUME = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

OF_FIBERS = ("fibers.block", "fibers.start", "fibers.resume")
"""What a module with fibers exports beside its entries."""


def image_of(text: str, names: Sequence[str]) -> bytes:
    """What `Module` takes."""
    return "\n".join([f"; entries: {' '.join(names)}", text]).encode()


@dataclass(frozen=True)
class Function:
    """An entry of a loaded module."""

    entry: Entry
    run: Callable[[int, int, int, bool], None]

    def __call__(self, parameters: bytes, blocks: int, width: int, backward: bool) -> bool:
        """Run a grid. False if the entry has written its parameters, which is not for it to do."""
        memory = ctypes.create_string_buffer(parameters, len(parameters) + 16)
        at = -(-ctypes.addressof(memory) // 16) * 16
        ctypes.memmove(at, parameters, len(parameters))
        self.run(at, blocks, width, backward)
        return ctypes.string_at(at, len(parameters)) == parameters


class Module:
    """A loaded image. functions: its entries by name."""

    def __init__(self, image: bytes, places: Places, effort: int, room: Fibers | None = None) -> None:
        """room: for blocks of several threads. Raises Untranslatable, and Refused for what LLVM does not take."""
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
            name: Function(entry, run(self._code.addresses[f"run.{name}"])) for name, entry in known.items()
        }
        self.early = 0
        self.digest = hashlib.sha256(image).hexdigest()

    def _serial(self, address: int) -> Callable[[int, int, int, bool], None]:
        """Runs all threads of a grid one after another."""
        call = _RUN(address)

        def run(buffer: int, blocks: int, width: int, backward: bool) -> None:
            threads = blocks * width
            call(buffer, threads, *((threads - 1, -1) if backward else (0, 1)))

        return run

    def _blocks(self, room: Fibers, address: int) -> Callable[[int, int, int, bool], None]:
        """Runs blocks one after another. early: how many threads of one were over when others met at a barrier."""
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
        raise Refused(f"the linker refuses the emulated module: {error}") from error
