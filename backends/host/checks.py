"""This module writes the trampoline's checks in LLVM IR: checks of an argument, an array, overlapping arrays.

Invariant: what a check reads belongs to the call's arguments or to their owners, and is alive as long as the call. A
check that fails leaves numbers, addresses and extents in the handle's block and nowhere else.
"""

from __future__ import annotations

from ...compiler.ir.extents import NARROW
from .. import words as w
from . import handles as h

RUN_AT, TYPE_AT, FLOAT_AT = 24, 8, 16
"""Offsets in objects of CPython: the address that an `array.array` owns; any object's class; the value of a float."""

NUMPY_DATA, NUMPY_AXES, NUMPY_EXTENTS, NUMPY_DTYPE, NUMPY_FLAGS = 16, 24, 32, 56, 64
"""Offsets in an array of NumPy, whose C interface fixes them."""

FIT = 0x501
"""Flags of NumPy: C-contiguous, aligned, writable."""


def load_text(name: str, base: str, place: int | str, kind: str = "i64") -> str:
    """Return LLVM IR that loads word number `place` from an array of words.

    Args:
        name: Name of the value.
        base: Name of the pointer to the words.
        place: Number of the word.
        kind: LLVM type of the value.
    """
    return f"%{name}.p = getelementptr i64, ptr %{base}, i64 {place}\n  %{name} = load {kind}, ptr %{name}.p"


def byte_at(name: str, base: str, offset: int | str, kind: str = "ptr") -> str:
    """Return LLVM IR that loads a value at a byte offset from a pointer.

    Args:
        name: Name of the value.
        base: Name of the pointer.
        offset: Offset in bytes.
        kind: LLVM type of the value.
    """
    return f"%{name}.p = getelementptr i8, ptr %{base}, i64 {offset}\n  %{name} = load {kind}, ptr %{name}.p"


def store_text(value: str, base: str, place: int, name: str) -> str:
    """Return LLVM IR that stores a value to word number `place` of an array of words.

    Args:
        value: Value to store.
        base: Name of the pointer to the words.
        place: Number of the word.
        name: Prefix of the name of the address.
    """
    return f"%{name}.s = getelementptr i64, ptr %{base}, i64 {place}\n  store i64 {value}, ptr %{name}.s"


PIN_CHECK = f"""
; Whether all names outside of the kernel mean what they did: words of the interpreter, read in order.
define internal i1 @pinned(ptr %handle) nounwind {{
  {load_text("count", "handle", h.PINS)}
  {load_text("pins", "handle", h.PINNED, "ptr")}
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k.after, %one ]
  %k.last = icmp eq i64 %k, %count
  br i1 %k.last, label %done, label %one
one:
  %k.word = mul i64 %k, 2
  %pin = getelementptr i64, ptr %pins, i64 %k.word
  {load_text("place", "pin", 0, "ptr")}
  {load_text("wanted", "pin", 1)}
  {load_text("content", "place", 0)}
  %is.same = icmp eq i64 %content, %wanted
  %k.after = add i64 %k, 1
  br i1 %is.same, label %next, label %done
done:
  %is.pinned = phi i1 [ true, %next ], [ false, %one ]
  ret i1 %is.pinned
}}
"""

ARGUMENT_CHECK = f"""
; Whether an argument is what the entry asks for; puts numbers into the block.
define internal i1 @argument(ptr %root, ptr %entry, ptr %object) nounwind {{
  %overflow = alloca i32
  {load_text("kind", "entry", h.A_KIND)}
  {load_text("is", "entry", h.A_IS, "ptr")}
  {byte_at("class", "object", TYPE_AT)}
  switch i64 %kind, label %refuse [
    i64 {h.OBJECT}, label %object.is
    i64 {h.RUNTIME_ARRAY}, label %class.is
    i64 {h.NUMPY_ARRAY}, label %class.is
    i64 {h.REAL64}, label %real
    i64 {h.REAL32}, label %real
    i64 {h.INTEGER}, label %long
    i64 {h.BOOLEAN}, label %boolean
  ]
object.is:
  %same = icmp eq ptr %object, %is
  ret i1 %same
class.is:
  %alike = icmp eq ptr %class, %is
  ret i1 %alike
real:
  {load_text("float", "root", h.FLOAT, "ptr")}
  %is.float = icmp eq ptr %class, %float
  br i1 %is.float, label %read, label %long
read:
  {byte_at("value", "object", FLOAT_AT, "double")}
  br label %narrow
long:
  {load_text("int", "root", h.INT, "ptr")}
  %is.int = icmp eq ptr %class, %int
  br i1 %is.int, label %count, label %refuse
count:
  {load_text("as_long_long", "root", h.AS_LONG_LONG, "ptr")}
  %number = call i64 %as_long_long(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %small = icmp eq i32 %over, 0
  br i1 %small, label %fits, label %refuse
fits:
  %is.integer = icmp eq i64 %kind, {h.INTEGER}
  br i1 %is.integer, label %range, label %convert
convert:
  %converted = sitofp i64 %number to double
  br label %narrow
range:
  {load_text("low", "entry", h.A_LOW)}
  {load_text("high", "entry", h.A_HIGH)}
  {load_text("mask", "entry", h.A_MASK)}
  %above = icmp sge i64 %number, %low
  %below = icmp sle i64 %number, %high
  %inside = and i1 %above, %below
  %masked = and i64 %number, %mask
  br i1 %inside, label %word, label %refuse
narrow:
  %double = phi double [ %value, %read ], [ %converted, %convert ]
  %wide = bitcast double %double to i64
  %single = fptrunc double %double to float
  %short = bitcast float %single to i32
  %padded = zext i32 %short to i64
  %is.double = icmp eq i64 %kind, {h.REAL64}
  %bits = select i1 %is.double, i64 %wide, i64 %padded
  br label %word
boolean:
  {load_text("true", "root", h.TRUE, "ptr")}
  {load_text("false", "root", h.FALSE, "ptr")}
  %is.true = icmp eq ptr %object, %true
  %is.false = icmp eq ptr %object, %false
  %truth = zext i1 %is.true to i64
  %is.either = or i1 %is.true, %is.false
  br i1 %is.either, label %word, label %refuse
word:
  %new = phi i64 [ %masked, %range ], [ %bits, %narrow ], [ %truth, %boolean ]
  {load_text("slot", "entry", h.A_SLOT, "ptr")}
  {load_text("fixed", "entry", h.A_FIXED)}
  %is.free = icmp eq i64 %fixed, 0
  br i1 %is.free, label %set, label %compare
set:
  store i64 %new, ptr %slot
  ret i1 true
compare:
  %old = load i64, ptr %slot
  %equal = icmp eq i64 %old, %new
  ret i1 %equal
refuse:
  ret i1 false
}}
"""

PLACE = f"""
; Puts the address and the extents of an array into the block, unless they stand there already. False, and nothing is
; written, if other extents mean other sizes, or may be those of a wide array, for which kernels are others.
define internal i1 @place(ptr %handle, ptr %entry, i64 %address, ptr %extents, i64 %bytes) nounwind {{
start:
  {load_text("axes", "entry", h.E_AXES)}
  {load_text("slot", "entry", h.E_SLOT, "ptr")}
  {load_text("shape", "entry", h.E_EXTENTS, "ptr")}
  {load_text("flags", "entry", h.E_FLAGS)}
  %old = load i64, ptr %slot
  %is.there = icmp eq i64 %old, %address
  br label %next
next:
  %axis = phi i64 [ 0, %start ], [ %after, %check ]
  %is.last = icmp eq i64 %axis, %axes
  br i1 %is.last, label %alike, label %check
check:
  %given.p = getelementptr i64, ptr %extents, i64 %axis
  %given = load i64, ptr %given.p
  %known.p = getelementptr i64, ptr %shape, i64 %axis
  %known = load i64, ptr %known.p
  %is.equal = icmp eq i64 %given, %known
  %after = add i64 %axis, 1
  br i1 %is.equal, label %next, label %reshaped
reshaped:
  %shaped = and i64 %flags, {h.SHAPED}
  %is.shaped = icmp ne i64 %shaped, 0
  %is.large = icmp uge i64 %bytes, {NARROW}
  %is.other = or i1 %is.shaped, %is.large
  br i1 %is.other, label %refuse, label %measure
measure:
  %m = phi i64 [ 0, %reshaped ], [ %m.after, %measure.one ]
  %m.last = icmp eq i64 %m, %axes
  br i1 %m.last, label %replace, label %measure.one
measure.one:
  %length.p = getelementptr i64, ptr %extents, i64 %m
  %length = load i64, ptr %length.p
  %is.narrow = icmp ult i64 %length, {NARROW}
  %m.after = add i64 %m, 1
  br i1 %is.narrow, label %measure, label %refuse
alike:
  br i1 %is.there, label %done, label %replace
replace:
  {store_text("1", "handle", h.MOVED, "moved")}
  {store_text("%bytes", "entry", h.E_BYTES, "bytes")}
  store i64 %address, ptr %slot
  br label %copy
copy:
  %k = phi i64 [ 0, %replace ], [ %k.after, %copy.one ]
  %k.last = icmp eq i64 %k, %axes
  br i1 %k.last, label %done, label %copy.one
copy.one:
  %from = getelementptr i64, ptr %extents, i64 %k
  %extent = load i64, ptr %from
  %to = getelementptr i64, ptr %shape, i64 %k
  store i64 %extent, ptr %to
  %k.after = add i64 %k, 1
  br label %copy
done:
  ret i1 true
refuse:
  ret i1 false
}}
"""

ARRAY_CHECK = f"""
; Whether an array is what the entry asks for, and its content that for which the sizes are known.
define internal i1 @array(ptr %handle, ptr %entry, ptr %args, i64 %generation) nounwind {{
  {load_text("source", "entry", h.E_SOURCE)}
  {load_text("is", "entry", h.E_IS)}
  {load_text("argument", "entry", h.E_ARGUMENT)}
  {load_text("known", "entry", h.E_WORDS, "ptr")}
  %is.fixed = icmp eq i64 %source, {h.FIXED}
  br i1 %is.fixed, label %look, label %given
given:
  {load_text("object", "args", "%argument", "ptr")}
  %is.numpy = icmp eq i64 %source, {h.OF_NUMPY}
  br i1 %is.numpy, label %numpy, label %own
own:
  {load_text("offset", "entry", h.E_OFFSET)}
  {byte_at("run", "object", "%offset")}
  %has.run = icmp ne ptr %run, null
  br i1 %has.run, label %primal, label %refuse
primal:
  {byte_at("words", "run", RUN_AT)}
  %is.gradient = icmp eq i64 %source, {h.GRADIENT_OF}
  br i1 %is.gradient, label %gradient, label %found
gradient:
  {load_text("beside", "words", w.GRADIENT, "ptr")}
  %has.gradient = icmp ne ptr %beside, null
  br i1 %has.gradient, label %found, label %refuse
found:
  %reached = phi ptr [ %words, %primal ], [ %beside, %gradient ]
  %word.s = getelementptr i64, ptr %entry, i64 {h.E_WORDS}
  store ptr %reached, ptr %word.s
  br label %look
look:
  %it = phi ptr [ %known, %0 ], [ %reached, %found ]
  {load_text("living", "it", w.LIVING)}
  {load_text("sort", "it", w.KIND)}
  %is.living = icmp eq i64 %living, %generation
  %is.any = icmp eq i64 %is, 0
  %is.sort = icmp eq i64 %sort, %is
  %is.kind = or i1 %is.any, %is.sort
  %is.fit = and i1 %is.living, %is.kind
  br i1 %is.fit, label %content, label %refuse
content:
  {load_text("flags", "entry", h.E_FLAGS)}
  %versioned = and i64 %flags, {h.VERSIONED}
  %is.free = icmp eq i64 %versioned, 0
  br i1 %is.free, label %same, label %compare
compare:
  {load_text("version", "it", w.VERSION)}
  {load_text("exported", "it", w.EXPORTED)}
  {load_text("expected", "entry", h.E_VERSION)}
  %is.version = icmp eq i64 %version, %expected
  %is.ours = icmp eq i64 %exported, 0
  %is.same = and i1 %is.version, %is.ours
  br i1 %is.same, label %same, label %refuse
same:
  br i1 %is.fixed, label %accept, label %where
where:
  {load_text("address", "it", w.ADDRESS)}
  {load_text("bytes", "it", w.BYTES)}
  %extents = getelementptr i64, ptr %it, i64 {w.EXTENTS}
  %placed = call i1 @place(ptr %handle, ptr %entry, i64 %address, ptr %extents, i64 %bytes)
  ret i1 %placed
numpy:
  {byte_at("dtype", "object", NUMPY_DTYPE, "i64")}
  {byte_at("rank", "object", NUMPY_AXES, "i32")}
  {byte_at("bits", "object", NUMPY_FLAGS, "i32")}
  {load_text("axes", "entry", h.E_AXES)}
  %fit = and i32 %bits, {FIT}
  %is.dtype = icmp eq i64 %dtype, %is
  %is.contiguous = icmp eq i32 %fit, {FIT}
  %rank64 = sext i32 %rank to i64
  %is.rank = icmp eq i64 %rank64, %axes
  %is.both = and i1 %is.dtype, %is.contiguous
  %is.all = and i1 %is.both, %is.rank
  br i1 %is.all, label %measure, label %refuse
measure:
  {byte_at("data", "object", NUMPY_DATA, "i64")}
  {byte_at("dims", "object", NUMPY_EXTENTS)}
  {load_text("item", "entry", h.E_ITEM)}
  br label %product
product:
  %axis = phi i64 [ 0, %measure ], [ %after, %times ]
  %size = phi i64 [ %item, %measure ], [ %more, %times ]
  %is.last = icmp eq i64 %axis, %axes
  br i1 %is.last, label %put, label %times
times:
  %extent.p = getelementptr i64, ptr %dims, i64 %axis
  %extent = load i64, ptr %extent.p
  %more = mul i64 %size, %extent
  %after = add i64 %axis, 1
  br label %product
put:
  %set = call i1 @place(ptr %handle, ptr %entry, i64 %data, ptr %dims, i64 %size)
  ret i1 %set
accept:
  ret i1 true
refuse:
  ret i1 false
}}
"""

DISTINCT = f"""
; Whether no two arrays of the handle share memory.
define internal i1 @distinct(ptr %arrays, i64 %count) nounwind {{
entry:
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i.after, %inner ]
  %i.last = icmp uge i64 %i, %count
  br i1 %i.last, label %accept, label %first
first:
  %i.word = mul i64 %i, {h.ARRAY}
  %a = getelementptr i64, ptr %arrays, i64 %i.word
  {load_text("a.slot", "a", h.E_SLOT, "ptr")}
  {load_text("a.bytes", "a", h.E_BYTES)}
  %a.begin = load i64, ptr %a.slot
  %a.end = add i64 %a.begin, %a.bytes
  %i.after = add i64 %i, 1
  br label %inner
inner:
  %j = phi i64 [ %i.after, %first ], [ %j.after, %second ]
  %j.last = icmp uge i64 %j, %count
  br i1 %j.last, label %outer, label %second
second:
  %j.word = mul i64 %j, {h.ARRAY}
  %b = getelementptr i64, ptr %arrays, i64 %j.word
  {load_text("b.slot", "b", h.E_SLOT, "ptr")}
  {load_text("b.bytes", "b", h.E_BYTES)}
  %b.begin = load i64, ptr %b.slot
  %b.end = add i64 %b.begin, %b.bytes
  %j.after = add i64 %j, 1
  %starts = icmp ult i64 %a.begin, %b.end
  %ends = icmp ult i64 %b.begin, %a.end
  %a.some = icmp ne i64 %a.bytes, 0
  %b.some = icmp ne i64 %b.bytes, 0
  %meet = and i1 %starts, %ends
  %some = and i1 %a.some, %b.some
  %overlap = and i1 %meet, %some
  br i1 %overlap, label %refuse, label %inner
accept:
  ret i1 true
refuse:
  ret i1 false
}}
"""
