"""This module reads functions and source lines by address from an object file.

It reads just what LLVM writes for one module on 64-bit ELF: symbols, and the line programs of DWARF 4. Addresses count
from the start of `.text`; code in other sections (functions that are hardly ever run) is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_ELF = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_HEADER = struct.Struct("<IHIBBBbBB")
_FUNCTION = 2


class ObjectFunction(NamedTuple):
    """Represent a function in the `.text` section: name, address and size."""

    name: str
    address: int
    size: int


class AddressLine(NamedTuple):
    """Represent an entry of a line table: the source line of the code from `address` up to the next entry's address.

    `place` is the file and the line, or None for code that belongs to no line.
    """

    address: int
    place: tuple[str, int] | None


class ObjectSection(NamedTuple):
    """Represent a section of an object file: its number, name and bytes, and the number of the section it links to."""

    number: int
    name: str
    data: bytes
    link: int


@dataclass(frozen=True)
class CodeTable:
    """Represent the functions and source lines read from an object file.

    Attributes:
        text: The machine code, that is, the bytes of the section `.text`.
        functions: The functions of `.text`.
        lines: Lines in order of their addresses.
    """

    text: bytes = b""
    functions: tuple[ObjectFunction, ...] = ()
    lines: tuple[AddressLine, ...] = ()


def read_object(image: bytes) -> CodeTable:
    """Return the functions and source lines of an object file, or an empty table if the format is unknown."""
    if not image.startswith(_ELF):
        return CodeTable()
    sections = {section.name: section for section in _sections(image)}
    text, symbols = sections[".text"], sections[".symtab"]
    names = next(s for s in sections.values() if s.number == symbols.link).data
    rows = [_SYMBOL.unpack_from(symbols.data, at) for at in range(0, len(symbols.data), _SYMBOL.size)]
    functions = tuple(
        ObjectFunction(_string(names, name), address, size)
        for name, kind, _, section, address, size in rows
        if kind & 15 == _FUNCTION and section == text.number
    )
    starts = dict(_starts(sections, text, [row[3:5] for row in rows]))
    table = sections.get(".debug_line")
    lines = () if table is None else tuple(sorted(_lines(table.data, starts), key=lambda line: line.address))
    return CodeTable(text.data, functions, lines)


def _sections(image: bytes) -> Iterator[ObjectSection]:
    """Yield the sections of an object file in ELF format."""
    (at,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    rows = [_SECTION.unpack_from(image, at + k * size) for k in range(count)]
    texts = image[rows[names][4] : rows[names][4] + rows[names][5]]
    for number, row in enumerate(rows):
        # Sections of this type (NOBITS) take no place in the file.
        empty = row[1] == 8
        yield ObjectSection(number, _string(texts, row[0]), b"" if empty else image[row[4] : row[4] + row[5]], row[6])


def _string(texts: bytes, at: int) -> str:
    """Return the zero-terminated text that begins at an offset."""
    return texts[at : texts.index(b"\0", at)].decode(errors="replace")


def _starts(
    sections: dict[str, ObjectSection], text: ObjectSection, symbols: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield (offset in the line table, the address that a linker would store there) of each relocation."""
    for name in (".rela.debug_line",):
        data = sections[name].data if name in sections else b""
        for at in range(0, len(data), _RELOCATION.size):
            place, info, addend = _RELOCATION.unpack_from(data, at)
            section, value = symbols[info >> 32]
            if section == text.number:
                yield place, value + addend


# ---- line programs ------------------------------------------------------------------------------------------


@dataclass
class _Cursor:
    """Represent a reading position in bytes that are read from front to back."""

    data: bytes
    at: int

    def byte(self) -> int:
        """Read one byte."""
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """Read an unsigned number in LEB128."""
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def signed(self) -> int:
        """Read a signed number in LEB128, in two's complement."""
        begin = self.at
        found = self.unsigned()
        bits = 7 * (self.at - begin)
        return found - (1 << bits) if found >> (bits - 1) else found

    def string(self) -> str:
        """Read a text that ends with a zero byte."""
        found = _string(self.data, self.at)
        self.at = self.data.index(b"\0", self.at) + 1
        return found


@dataclass
class _LineProgram:
    """Interpret one DWARF line program: its header and the registers of its state machine.

    Attributes:
        code: Position of the next opcode.
        end: Position after the last byte of the program.
        step: Bytes of the shortest instruction.
        base: Least line advance of a special opcode.
        span: Number of line advances of special opcodes.
        lengths: Number of arguments of each standard opcode.
        files: Names of the source files.
        address: Register with the address in `.text`.
        file: Register with the number of the file, counted from 1.
        line: Register with the line.
        known: The address lies in `.text`.
        found: Lines so far.
    """

    code: _Cursor
    end: int
    step: int
    base: int
    span: int
    lengths: list[int]
    files: list[str]
    address: int = 0
    file: int = 1
    line: int = 1
    known: bool = False
    found: list[AddressLine] = field(default_factory=list)

    def emit(self) -> None:
        """Append the registers' present address, file and line to the line table that the program produces."""
        if self.known:
            name = self.files[self.file - 1] if 0 < self.file <= len(self.files) else ""
            self.found.append(AddressLine(self.address, (name, self.line) if self.line and name else None))

    def finish(self) -> None:
        """End a sequence of addresses, and set the registers to their first values."""
        if self.known:
            self.found.append(AddressLine(self.address, None))
        self.address, self.file, self.line, self.known = 0, 1, 1, False


def _lines(data: bytes, starts: dict[int, int]) -> Iterator[AddressLine]:
    """Yield the lines of all line programs of DWARF 4."""
    at = 0
    while at < len(data):
        length, version, header, step, _, _, base, span, first = _HEADER.unpack_from(data, at)
        end = at + 4 + length
        if version == 4:
            cursor = _Cursor(data, at + _HEADER.size)
            lengths = [cursor.byte() for _ in range(first - 1)]
            program = _LineProgram(_Cursor(data, at + 10 + header), end, step, base, span, lengths, _files(cursor))
            yield from _run(program, starts)
        at = end


def _files(cursor: _Cursor) -> list[str]:
    """Read the tables of folders and files; return the names of the files."""
    folders = [""]
    while folder := cursor.string():
        folders.append(folder)
    files = []
    while name := cursor.string():
        place = folders[cursor.unsigned()]
        cursor.unsigned(), cursor.unsigned()
        files.append(f"{place}/{name}" if place else name)
    return files


def _run(p: _LineProgram, starts: dict[int, int]) -> list[AddressLine]:
    """Run a DWARF line program and return the source line of each range of addresses."""
    while p.code.at < p.end:
        opcode = p.code.byte()
        if opcode > len(p.lengths):
            # A special opcode advances address and line together.
            advance, line = divmod(opcode - len(p.lengths) - 1, p.span)
            p.address += advance * p.step
            p.line += p.base + line
            p.emit()
        elif opcode == 0:
            _extended(p, starts)
        else:
            _standard(p, opcode)
    return p.found


def _extended(p: _LineProgram, starts: dict[int, int]) -> None:
    """Execute one extended opcode of a DWARF line program."""
    size = p.code.unsigned()
    begin = p.code.at
    opcode = p.code.byte()
    # The opcodes are DW_LNE_end_sequence and DW_LNE_set_address; others are skipped by their size.
    if opcode == 1:
        p.finish()
    elif opcode == 2:
        p.known = p.code.at in starts
        p.address = starts.get(p.code.at, 0)
    p.code.at = begin + size


def _standard(p: _LineProgram, opcode: int) -> None:
    """Execute one standard opcode of a DWARF line program."""
    if opcode == 1:
        p.emit()
    elif opcode == 2:
        p.address += p.code.unsigned() * p.step
    elif opcode == 3:
        p.line += p.code.signed()
    elif opcode == 4:
        p.file = p.code.unsigned()
    elif opcode == 8:
        # DW_LNS_const_add_pc advances the address as the special opcode 255 does.
        p.address += (255 - len(p.lengths) - 1) // p.span * p.step
    elif opcode == 9:
        # DW_LNS_fixed_advance_pc has an argument of 16 bits.
        p.address += int.from_bytes(p.code.data[p.code.at : p.code.at + 2], "little")
        p.code.at += 2
    else:
        # Other opcodes do not matter; their arguments are skipped.
        for _ in range(p.lengths[opcode - 1]):
            p.code.unsigned()
