"""Modules of the emulated device: an image is the LLVM text itself; loading compiles it for the host."""
from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...backends.llvm.optimise import Refused
from .checks import Places, Untranslatable
from .host_module import HostModule
from .translate import Entry, entries, translate

LIMIT = 32_764
"""Bytes of parameters that a launch may have (PTX 8.1 on sm_70 and later)."""

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def image_of(text: str, names: Sequence[str]) -> bytes:
    """What `Module` takes."""
    return "\n".join([f"; entries: {' '.join(names)}", text]).encode()


@dataclass(frozen=True)
class Function:
    """An entry of a loaded module."""

    entry: Entry
    run: Callable[[int, int, int, int], None]

    def __call__(self, parameters: bytes, threads: int, backward: bool) -> bool:
        """Run a grid. False if the entry has written its parameters, which is not for it to do."""
        memory = ctypes.create_string_buffer(parameters, len(parameters) + 16)
        at = -(-ctypes.addressof(memory) // 16) * 16
        ctypes.memmove(at, parameters, len(parameters))
        first, step = (threads - 1, -1) if backward else (0, 1)
        self.run(at, threads, first, step)
        return ctypes.string_at(at, len(parameters)) == parameters


class Module:
    """A loaded image. functions: its entries by name."""

    def __init__(self, image: bytes, places: Places, effort: int) -> None:
        """Raises Untranslatable, and Refused for what LLVM does not take."""
        first, _, text = image.decode().partition("\n")
        known = entries(text)
        names = first.split(":")[1].split()
        missing = [name for name in names if name not in known]
        if missing:
            raise Untranslatable(f"there is no entry {missing[0]}; there are {', '.join(known) or 'none'}")
        for entry in known.values():
            if entry.bytes > LIMIT:
                raise Untranslatable(f"entry {entry.name} takes {entry.bytes} bytes of parameters, more than {LIMIT}")
        host = translate(text, places)
        self._code = _compiled(host, tuple(known), effort)
        self.functions = {
            name: Function(entry, _RUN(self._code.addresses[f"run.{name}"])) for name, entry in known.items()
        }
        self.digest = hashlib.sha256(image).hexdigest()


@lru_cache(maxsize=256)
def _compiled(text: str, names: tuple[str, ...], effort: int) -> HostModule:
    try:
        return HostModule(text, [f"run.{name}" for name in names], effort)
    except RuntimeError as error:
        raise Refused(f"the linker refuses the emulated module: {error}") from error
