"""Test the files for gdb and perf: functions and lines of each module, at the addresses where it was loaded."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.backends.base import Options
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.host import code_map, jit
from stackgrad.backends.host.line_table import CodeTable, read_object
from stackgrad.backends.llvm.module import generate

_HERE = Path(__file__).parent
if str(_HERE) not in sys.path:
    sys.path.append(str(_HERE))

from debug_kernels import Lines  # noqa: E402


@pytest.fixture
def kernel() -> Iterator[Any]:
    sg.init(arch=sg.cpu, debug_info=True, cpu_max_num_threads=1)
    lines = Lines()
    yield lines.steps.lowered().kernel
    sg.reset()


def number_of(comment: str) -> int:
    lines = (_HERE / "debug_kernels.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# line: {comment}"))


def test_functions_and_lines_of_an_object(kernel: Any) -> None:
    image = jit._emitted(generate(kernel, Options(debug_info=True, lanes=0), CpuBackend().target), 2)
    table = read_object(image)
    names = {function.name: function for function in table.functions}
    assert "launch" in names and all(f.size > 0 and f.address + f.size <= len(table.text) for f in table.functions)
    assert [line.address for line in table.lines] == sorted(line.address for line in table.lines)
    assert {line.address for line in table.lines} <= {*range(len(table.text) + 1)}
    found = {line.place for line in table.lines if line.place}
    wanted = {(str(_HERE / "debug_kernels.py"), number_of(name)) for name in ("load", "sine", "store")}
    assert wanted <= found and any(name == str(_HERE / "other_file.py") for name, _ in found)


def test_order_of_lines_follows_the_code(kernel: Any) -> None:
    """Unoptimized, code stands in the order of the program: the load of a task comes before its store."""
    image = jit._emitted(generate(kernel, Options(debug_info=True, lanes=0, effort=0), CpuBackend().target), 0)
    first: dict[int, int] = {}
    for line in read_object(image).lines:
        if line.place and line.place[0].endswith("debug_kernels.py"):
            first.setdefault(line.place[1], line.address)
    assert first[number_of("load")] < first[number_of("sine")]


def test_objects_without_lines_and_other_files(kernel: Any) -> None:
    image = jit._emitted(generate(kernel, Options(), CpuBackend().target), 2)
    table = read_object(image)
    assert table.functions and table.lines == ()
    assert read_object(b"MZ...") == CodeTable() == read_object(b"")


# ---- files --------------------------------------------------------------------------------------------------


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    data = path.read_bytes()
    magic, version, at, _, _, process, _, _ = struct.unpack_from("<IIIIIIQQ", data)
    assert (magic, version, process) == (0x4A695444, 1, os.getpid())
    while at < len(data):
        kind, size, _ = struct.unpack_from("<IIQ", data, at)
        yield kind, data[at + 16 : at + size]
        at += size
    assert at == len(data)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(code_map.VARIABLE, str(tmp_path / "map"))
    return tmp_path / "map"


def test_each_module_is_noted_where_it_lies(kernel: Any, folder: Path) -> None:
    backend = CpuBackend()
    code = jit.NativeCode(generate(kernel, Options(debug_info=True, lanes=0), backend.target))
    (script,) = folder.glob("*.gdb")
    assert script.name == f"{os.getpid()}.gdb"
    command, path, option, section, base = script.read_text().replace('"', "").split()
    assert (command, option, section) == ("add-symbol-file", "-s", ".text")
    table = read_object(Path(path).read_bytes())
    launch = next(function for function in table.functions if function.name == "launch")
    assert int(base, 16) + launch.address == code.address


def test_records_for_perf(kernel: Any, folder: Path) -> None:
    code = jit.NativeCode(generate(kernel, Options(debug_info=True, lanes=0), CpuBackend().target))
    (dump,) = folder.glob("jit-*.dump")
    found = list(records(dump))
    kinds = [kind for kind, _ in found]
    assert kinds.index(2) < kinds.index(0)  # the lines of a function come before its code
    loads = {}
    for kind, body in found:
        if kind == 0:
            _, _, _, address, size, _ = struct.unpack_from("<IIQQQQ", body)
            name, _, machine = body[40:].partition(b"\0")
            loads[name.decode()] = address
            assert len(machine) == size
    assert loads["steps:launch"] == code.address
    lines = next(body for kind, body in found if kind == 2)
    start, count = struct.unpack_from("<QQ", lines)
    assert start in loads.values() and count > 3
    assert str(_HERE / "debug_kernels.py").encode() in lines


def test_nothing_without_the_variable(kernel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(code_map.VARIABLE, raising=False)
    monkeypatch.setattr(code_map, "_open", {})
    jit.NativeCode(generate(kernel, Options(), CpuBackend().target))
    assert code_map._open == {}


def test_a_folder_that_cannot_be_used(kernel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(code_map.VARIABLE, str(tmp_path / "file" / "below"))
    assert jit.NativeCode(generate(kernel, Options(), CpuBackend().target)).address
