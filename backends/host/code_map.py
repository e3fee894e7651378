"""This module writes maps of kernels' machine code for gdb and perf to the folder named by STACKGRAD_CODE_MAP.

Code that a program makes while it runs is in no file that these tools know. Each module that is loaded leaves
`NAME.N.o`, a line in `PID.gdb` that tells gdb where it lies, and its records in `jit-PID.dump`, which `perf inject
--jit` turns into files that perf reports by function and line. Invariant: without the variable nothing happens.
"""

from __future__ import annotations

import atexit
import mmap
import os
import platform
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from ..forks import free_in_child
from .line_table import CodeTable, read_object

VARIABLE = "STACKGRAD_CODE_MAP"
_MACHINES = {"x86_64": 62, "AMD64": 62, "aarch64": 183, "arm64": 183}
_HEADER = struct.Struct("<IIIIIIQQ")
_RECORD = struct.Struct("<IIQ")
_LOAD = struct.Struct("<IIQQQQ")
_DEBUG = struct.Struct("<QQ")
_ENTRY = struct.Struct("<QII")
_LOADED, _LINES = 0, 2

_LOCK = free_in_child(threading.Lock())
_open: dict[tuple[str, int], CodeMap] = {}


def note(name: str, image: bytes, addresses: dict[str, int]) -> None:
    """Write a loaded module's functions and source lines to files for gdb and perf, if STACKGRAD_CODE_MAP is set.

    The function never raises an exception.

    Args:
        name: Name of the kernel.
        image: Object file of the module.
        addresses: Addresses of what the module exports.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    try:
        with _LOCK:
            key = folder, os.getpid()
            if key not in _open:
                _open[key] = CodeMap(Path(folder))
            _open[key].add(name, image, addresses)
    # Some systems do not let files be mapped as code either.
    except (OSError, ValueError, AttributeError, struct.error):
        return


class CodeMap:
    """Represent the files by which gdb and perf find the machine code of one process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.absolute()
        self._number = 0
        self._dump: BinaryIO = _new(self.folder / f"jit-{os.getpid()}.dump", "x+b")
        atexit.register(self._dump.close)
        machine = _MACHINES.get(platform.machine(), 0)
        # The first number spells "JiTD", as the format of perf's dumps demands.
        self._write(_HEADER.pack(0x4A695444, 1, _HEADER.size, machine, 0, os.getpid(), _now(), 0))
        self._script: IO[str] = _new(self.folder / f"{os.getpid()}.gdb", "x")
        atexit.register(self._script.close)
        # perf finds the file by its being mapped as code.
        self._mark = mmap.mmap(self._dump.fileno(), _HEADER.size, prot=mmap.PROT_READ | mmap.PROT_EXEC)

    def add(self, name: str, image: bytes, addresses: dict[str, int]) -> None:
        """Add a module to the files: its object file, and the addresses of its exported functions."""
        path = self.folder / f"{''.join(c if c.isalnum() or c in '._-' else '_' for c in name)}.{self._number}.o"
        self._number += 1
        with _new(path, "xb") as file:
            file.write(image)
        table = read_object(image)
        known = {function.name: function.address for function in table.functions}
        base = next((address - known[export] for export, address in addresses.items() if export in known), None)
        if base is None:
            return
        self._script.write(f'add-symbol-file "{path}" -s .text {base:#x}\n')
        self._script.flush()
        for record in _records(name, table, base, self._number):
            self._write(record)

    def _write(self, data: bytes) -> None:
        self._dump.write(data)
        self._dump.flush()


def _new(path: Path, mode: str) -> Any:
    """Open a new file that only this user can access, in place of an old one."""
    # gdb runs what the script says, so a file that another user has left must not stay.
    path.unlink(missing_ok=True)
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


def _records(module: str, table: CodeTable, base: int, number: int) -> Iterator[bytes]:
    """Yield the jitdump records of each function of a module: its source lines, then its machine code."""
    for place, function in enumerate(table.functions):
        start, end = function.address, function.address + function.size
        lines = [(line.address, line.place) for line in table.lines if start <= line.address < end and line.place]
        if lines:
            body = b"".join(_ENTRY.pack(base + at, where[1], 0) + where[0].encode() + b"\0" for at, where in lines)
            yield _record(_LINES, _DEBUG.pack(base + start, len(lines)) + body)
        head = _LOAD.pack(
            os.getpid(), threading.get_native_id(), base + start, base + start, function.size, number << 16 | place
        )
        yield _record(_LOADED, head + f"{module}:{function.name}".encode() + b"\0" + table.text[start:end])


def _record(kind: int, body: bytes) -> bytes:
    """Return a record of a jitdump file of perf: its header, then `body`."""
    return _RECORD.pack(kind, _RECORD.size + len(body), _now()) + body


def _now() -> int:
    """Return the time by the clock that `perf record -k mono` uses."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
