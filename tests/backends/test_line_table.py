"""Test the reader of object files against pyelftools: functions, code and the line table."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from elftools.dwarf.lineprogram import LineProgram
from elftools.elf.elffile import ELFFile
from stackgrad.backends.base import Options
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.host import jit
from stackgrad.backends.host.line_table import AddressLine, CodeTable, ObjectFunction, read_object
from stackgrad.backends.llvm.module import generate

_HERE = Path(__file__).parent
if str(_HERE) not in sys.path:
    sys.path.append(str(_HERE))

from debug_kernels import Lines  # noqa: E402


@pytest.fixture(scope="module")
def kernels() -> Iterator[list[Any]]:
    sg.init(arch=sg.cpu, debug_info=True, cpu_max_num_threads=1)
    lines = Lines()
    yield [lines.steps.lowered().kernel, lines.steps.lowered_grad().kernel]
    sg.reset()


def judged(image: bytes) -> CodeTable:
    """Return the contents of an object file as pyelftools reads them, in the form of the project's own reader."""
    elf = ELFFile(io.BytesIO(image))
    names = [section.name for section in elf.iter_sections()]
    text = names.index(".text")
    functions = tuple(
        ObjectFunction(symbol.name, symbol["st_value"], symbol["st_size"])
        for symbol in elf.get_section_by_name(".symtab").iter_symbols()
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] == text
    )
    lines: list[AddressLine] = []
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=True) if elf.has_dwarf_info() else None
    for unit in dwarf.iter_CUs() if dwarf else ():
        lines += _lines(dwarf.line_program_for_CU(unit))
    return CodeTable(elf.get_section(text).data(), functions, tuple(sorted(lines, key=lambda line: line.address)))


def _lines(program: LineProgram) -> Iterator[AddressLine]:
    folders = [b"", *program["include_directory"]]
    files = [folders[f.dir_index] + b"/" + f.name if f.dir_index else f.name for f in program["file_entry"]]
    for state in (entry.state for entry in program.get_entries() if entry.state is not None):
        place = None if state.end_sequence or not state.line else (files[state.file - 1].decode(), state.line)
        yield AddressLine(state.address, place)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(("effort", "lanes"), [(0, 0), (2, 0), (2, 8)])
def test_both_readers_agree(kernels: list[Any], gradient: bool, effort: int, lanes: int) -> None:
    options = Options(debug_info=True, lanes=lanes, effort=effort)
    image = jit._emitted(generate(kernels[gradient], options, CpuBackend().target), effort)
    found, wanted = read_object(image), judged(image)
    assert found.text == wanted.text and found.functions == wanted.functions
    assert len(wanted.lines) > 20 and found.lines == wanted.lines


def test_a_wrong_line_would_be_noticed(kernels: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The two readers are given object files that differ in one advance of a line."""
    image = jit._emitted(generate(kernels[0], Options(debug_info=True, lanes=0), CpuBackend().target), 2)
    elf = ELFFile(io.BytesIO(image))
    section = elf.get_section_by_name(".debug_line")
    advance = image.index(b"\x03", section["sh_offset"] + section["sh_size"] // 2)
    changed = image[:advance] + bytes([image[advance], image[advance + 1] ^ 1]) + image[advance + 2 :]
    assert read_object(changed).lines != judged(image).lines


def test_code_without_lines(kernels: list[Any]) -> None:
    image = jit._emitted(generate(kernels[0], Options(), CpuBackend().target), 2)
    assert read_object(image) == judged(image)
