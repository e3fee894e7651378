"""This module instruments LLVM code: each access to global memory is checked for its address and for races.

`sg.emulated.check` returns the address, or the address of spare memory if the access lies outside of all allocations;
the first such access of a launch is reported. `sg.emulated.touch` finds races. Threads run one after another in the
emulator, so no update is ever lost; the check must show that one could have been lost. Shadow memory keeps for each
address the last writer and the last reader in this launch. A race is

    a read of what another thread wrote, with or without an atomic, in this launch
    a plain write to what another thread read or updated with an atomic
    an atomic on what another thread wrote or read without one

Two plain writes are no race, because programs let threads store the same number. A barrier orders accesses of one block
(fibers.py). In functions named sg.atomic.* every access counts as an atomic, and sg.fail is not checked. The address of
an access is that of its first byte, because an element is always accessed by one type.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8, "i1": 1}

OUTSIDE_AT, OUTSIDE_BYTES, OUTSIDE_THREAD, EPOCH, RACES, RACE_AT, RACE_THREAD, RACE_OTHER, RACE_KIND, WORDS = range(10)
"""Numbers of the words that a launch fills, and the count of these words.

Of the first access outside they hold the address, the bytes, and the thread + 1 (0 if there was none). Then follow the
number of the launch and the number of races. Of the first race they hold the address, both threads + 1, and 0 for a
read, 1 for a write, 2 for an atomic.
"""

EPOCH_SHIFT = 33
_ATOMIC = 1 << 32
"""Bit of a tag for atomics, or in tags of readers for several readers.

A tag consists of the number of a launch, this bit, and the thread + 1.
"""

_ACCESS = re.compile(
    r"^(\s*(?:%[\w.]+ = )?)(load|store|atomicrmw|cmpxchg)\b([^\n]*?)"
    r"ptr addrspace\(1\) (%[\w.]+)(?![\w.]|, ptr)([^\n]*)$"
)
"""Pattern of an access to global memory; a store of an address in a variable of the thread does not match."""
_KINDS = {"load": 0, "store": 1, "atomicrmw": 2, "cmpxchg": 2}
_FUNCTION = re.compile(r"^define [^\n]*?@\"?([\w.$]+)")


class Untranslatable(Exception):
    """Signal that LLVM code uses a feature of NVIDIA GPUs that the emulator does not support."""


@dataclass(frozen=True)
class CheckPlaces:
    """A `CheckPlaces` holds addresses of the tables that checked code reads at each access, and of the error report.

    Attributes:
        table: the address of (low, high) of each allocation in ascending order, and the number of allocations.
        report: the words described above.
        low: the first address of the device.
        bytes: the number of addresses of the device.
        shadow: the address of the shadow memory, 16 bytes for each address; 0 for none.
    """

    table: array[int]
    report: array[int]
    low: int = 0
    bytes: int = 0
    shadow: int = 0

    def word(self, number: int) -> int:
        """Return the address of a 64-bit word of the report that instrumented code writes."""
        return self.report.buffer_info()[0] + 8 * number


def insert_checks(text: str) -> str:
    """Return the LLVM code with a check inserted at every access to global memory."""
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    function = ""
    for number, line in enumerate(text.split("\n")):
        begins = _FUNCTION.match(line)
        function = begins[1] if begins else function
        found = _ACCESS.match(line)
        if found is None:
            yield line
        else:
            yield from _checked(found, number, function)


def _checked(found: re.Match[str], number: int, function: str) -> Iterator[str]:
    head, verb, before, place, after = found.groups()
    size = _bytes_of(after if verb in ("atomicrmw", "cmpxchg") else before, found[0])
    safe = f"%sg.safe.{number}"
    yield f'  {safe} = call ptr addrspace(1) @"sg.emulated.check"(ptr addrspace(1) {place}, i64 {size})'
    kind = 2 if function.startswith("sg.atomic.") else _KINDS[verb]
    if function != "sg.fail" and " atomic " not in before and "volatile" not in before:
        yield f'  call void @"sg.emulated.touch"(ptr addrspace(1) {safe}, i32 {kind})'
    yield f"{head}{verb}{before}ptr addrspace(1) {safe}{after}"


def _bytes_of(what: str, line: str) -> int:
    """Return the number of bytes of a memory access in a line of LLVM code."""
    text = what.replace("volatile", " ").replace("atomic", " ").lstrip(" ,")
    vector = re.match(r"<(\d+) x (\w+)>", text)
    if vector:
        return int(vector[1]) * SIZES[vector[2]]
    first = re.match(r"\w+", text)
    name = first[0] if first else ""
    if name == "ptr":
        return 8
    if name not in SIZES:
        raise Untranslatable(f"access of unknown size: {line.strip()}")
    return SIZES[name]


def checked_text(places: CheckPlaces, identity: str = "") -> str:
    """Return the LLVM code of the two functions that check the address of an access and detect races.

    Args:
        places: where the functions find their data.
        identity: the text of the functions `sg.emulated.apart(other, me)`, true if no barrier orders the accesses of
            two threads, and `sg.emulated.both(other, me)`, the tag for a second reader; empty where threads run one
            after another.
    """
    words = {
        "TABLE": places.table.buffer_info()[0],
        "COUNT": places.table.buffer_info()[0] + 8,
        "REPORT": places.report.buffer_info()[0],
        "THREAD_MASK": _ATOMIC - 1,
        "LOW": places.low,
        "BYTES": places.bytes if places.shadow else 0,
        "SHADOW": places.shadow,
        "EPOCH_SHIFT": EPOCH_SHIFT,
        "ATOMIC": _ATOMIC,
        "IDENTITY": ~_ATOMIC,
        **{
            name: places.word(number)
            for name, number in (
                ("RACES", RACES),
                ("RACE_AT", RACE_AT),
                ("RACE_THREAD", RACE_THREAD),
                ("RACE_OTHER", RACE_OTHER),
                ("RACE_KIND", RACE_KIND),
            )
        },
    }
    return re.sub(r"\b[A-Z_]{3,}\b", lambda m: str(words[m[0]]), _TEXT + (identity or _ALONE))


_ALONE = """
define internal i1 @"sg.emulated.apart"(i64 %other, i64 %me) alwaysinline {
  %differs = icmp ne i64 %other, %me
  ret i1 %differs
}
define internal i64 @"sg.emulated.both"(i64 %other, i64 %me) alwaysinline {
  %several = or i64 %me, ATOMIC
  ret i64 %several
}
"""


_TEXT = """
@"sg.emulated.low" = internal global i64 1
@"sg.emulated.high" = internal global i64 0
@"sg.emulated.tag" = internal global i64 0
@"sg.emulated.spare" = internal global [64 x i8] zeroinitializer, align 64
define internal ptr addrspace(1) @"sg.emulated.check"(ptr addrspace(1) %p, i64 %size) {
  %low = ptrtoint ptr addrspace(1) %p to i64
  %high = add i64 %low, %size
  %known.low = load i64, ptr @"sg.emulated.low"
  %known.high = load i64, ptr @"sg.emulated.high"
  %above = icmp uge i64 %low, %known.low
  %below = icmp ule i64 %high, %known.high
  %inside = and i1 %above, %below
  br i1 %inside, label %fine, label %search
search:
  %table = load ptr, ptr inttoptr (i64 TABLE to ptr)
  %count.at = inttoptr i64 COUNT to ptr
  %count = load i64, ptr %count.at
  br label %halve
halve:
  %begin = phi i64 [ 0, %search ], [ %begin.next, %compare ]
  %end = phi i64 [ %count, %search ], [ %end.next, %compare ]
  %over = icmp uge i64 %begin, %end
  br i1 %over, label %found, label %compare
compare:
  %sum = add i64 %begin, %end
  %middle = lshr i64 %sum, 1
  %middle.word = shl i64 %middle, 1
  %middle.at = getelementptr i64, ptr %table, i64 %middle.word
  %middle.low = load i64, ptr %middle.at
  %left = icmp ugt i64 %middle.low, %low
  %right.begin = add i64 %middle, 1
  %begin.next = select i1 %left, i64 %begin, i64 %right.begin
  %end.next = select i1 %left, i64 %middle, i64 %end
  br label %halve
found:
  %none = icmp eq i64 %begin, 0
  br i1 %none, label %outside, label %candidate
candidate:
  %last = sub i64 %begin, 1
  %last.word = shl i64 %last, 1
  %last.at = getelementptr i64, ptr %table, i64 %last.word
  %last.low = load i64, ptr %last.at
  %high.at = getelementptr i64, ptr %last.at, i64 1
  %last.high = load i64, ptr %high.at
  %within = icmp ule i64 %high, %last.high
  br i1 %within, label %keep, label %outside
keep:
  store i64 %last.low, ptr @"sg.emulated.low"
  store i64 %last.high, ptr @"sg.emulated.high"
  br label %fine
outside:
  %report = inttoptr i64 REPORT to ptr
  %reported.at = getelementptr i64, ptr %report, i64 2
  %reported = load i64, ptr %reported.at
  %first = icmp eq i64 %reported, 0
  br i1 %first, label %enter, label %spare
enter:
  store i64 %low, ptr %report
  %size.at = getelementptr i64, ptr %report, i64 1
  store i64 %size, ptr %size.at
  %tag = load i64, ptr @"sg.emulated.tag"
  %thread.one = and i64 %tag, THREAD_MASK
  store i64 %thread.one, ptr %reported.at
  br label %spare
spare:
  store [64 x i8] zeroinitializer, ptr @"sg.emulated.spare"
  %away = addrspacecast ptr @"sg.emulated.spare" to ptr addrspace(1)
  ret ptr addrspace(1) %away
fine:
  ret ptr addrspace(1) %p
}

define internal void @"sg.emulated.touch"(ptr addrspace(1) %p, i32 %kind) {
  %a = ptrtoint ptr addrspace(1) %p to i64
  %off = sub i64 %a, LOW
  %ours = icmp ult i64 %off, BYTES
  br i1 %ours, label %look, label %done
look:
  %me = load i64, ptr @"sg.emulated.tag"
  %epoch = lshr i64 %me, EPOCH_SHIFT
  %scaled = shl i64 %off, 4
  %slot.word = add i64 %scaled, SHADOW
  %slot = inttoptr i64 %slot.word to ptr
  %reader.at = getelementptr i64, ptr %slot, i64 1
  %w = load i64, ptr %slot
  %r = load i64, ptr %reader.at
  %w.epoch = lshr i64 %w, EPOCH_SHIFT
  %w.now = icmp eq i64 %w.epoch, %epoch
  %w.who = and i64 %w, IDENTITY
  %w.other = call i1 @"sg.emulated.apart"(i64 %w.who, i64 %me)
  %w.foreign = and i1 %w.now, %w.other
  %w.flag = and i64 %w, ATOMIC
  %w.atomic = icmp ne i64 %w.flag, 0
  %w.plain = xor i1 %w.atomic, true
  %r.epoch = lshr i64 %r, EPOCH_SHIFT
  %r.now = icmp eq i64 %r.epoch, %epoch
  %r.differs = call i1 @"sg.emulated.apart"(i64 %r, i64 %me)
  %r.foreign = and i1 %r.now, %r.differs
  %is.load = icmp eq i32 %kind, 0
  %is.store = icmp eq i32 %kind, 1
  %against = select i1 %is.store, i1 %w.atomic, i1 %w.plain
  %mixed = and i1 %w.foreign, %against
  %update.race = or i1 %mixed, %r.foreign
  %race = select i1 %is.load, i1 %w.foreign, i1 %update.race
  %several = or i64 %me, ATOMIC
  %r.both = call i64 @"sg.emulated.both"(i64 %r, i64 %me)
  %r.next = select i1 %r.foreign, i64 %r.both, i64 %me
  %w.next = select i1 %is.store, i64 %me, i64 %several
  br i1 %is.load, label %read, label %write
read:
  store i64 %r.next, ptr %reader.at
  br label %judge
write:
  store i64 %w.next, ptr %slot
  br label %judge
judge:
  br i1 %race, label %report, label %done
report:
  %races.at = inttoptr i64 RACES to ptr
  %races = load i64, ptr %races.at
  %races.more = add i64 %races, 1
  store i64 %races.more, ptr %races.at
  %first = icmp eq i64 %races, 0
  br i1 %first, label %enter, label %done
enter:
  %place.at = inttoptr i64 RACE_AT to ptr
  store i64 %a, ptr %place.at
  %thread.at = inttoptr i64 RACE_THREAD to ptr
  %thread = and i64 %me, THREAD_MASK
  store i64 %thread, ptr %thread.at
  %other.at = inttoptr i64 RACE_OTHER to ptr
  %other.tag = select i1 %w.foreign, i64 %w, i64 %r
  %other = and i64 %other.tag, THREAD_MASK
  store i64 %other, ptr %other.at
  %kind.at = inttoptr i64 RACE_KIND to ptr
  %kind.wide = zext i32 %kind to i64
  store i64 %kind.wide, ptr %kind.at
  br label %done
done:
  ret void
}
"""
