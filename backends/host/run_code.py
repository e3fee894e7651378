"""This module holds the part of the trampoline that runs a launch, after every check has passed."""

from __future__ import annotations

from .. import words as w
from ..llvm.errors import FAILED
from . import handles as h
from .checks import load_text, store_text

RUN = f"""
; Launches, counts, and gives what was written new versions. True if an error was reported: it stands in the block, and
; the handle stays taken until Python has read it.
define internal i1 @run(ptr %root, ptr %runtime, ptr %handle) nounwind {{
  {load_text("code", "handle", h.LAUNCH, "ptr")}
  {load_text("block", "handle", h.BLOCK, "ptr")}
  {load_text("heap", "handle", h.HEAP, "ptr")}
  {load_text("number", "handle", h.NUMBER)}
  {load_text("counters", "handle", h.COUNTERS, "ptr")}
  {load_text("sized", "handle", h.SIZED)}
  {store_text("1", "handle", h.TAKEN, "take")}
  {store_text("%number", "counters", w.LAST, "last")}
  {load_text("launches", "counters", w.LAUNCHES)}
  %launches.more = add i64 %launches, 1
  store i64 %launches.more, ptr %launches.p
  {load_text("hits", "counters", w.CACHE_HITS)}
  %hits.more = add i64 %hits, %sized
  store i64 %hits.more, ptr %hits.p
  %is.lean = icmp eq ptr %heap, null
  br i1 %is.lean, label %go, label %claim
claim:
  {store_text("1", "heap", w.BUSY, "claimed")}
  br label %go
go:
  %begin = call i64 @ticks()
  %status = call i32 %code(ptr %block)
  %end = call i64 @ticks()
  br i1 %is.lean, label %over, label %release
release:
  {store_text("0", "heap", w.BUSY, "released")}
  br label %over
over:
  %is.failed = icmp eq i32 %status, {FAILED}
  %still.taken = zext i1 %is.failed to i64
  {store_text("%still.taken", "handle", h.TAKEN, "leave")}
  %spent = sub i64 %end, %begin
  {load_text("patience", "handle", h.PATIENCE)}
  %is.short = icmp ult i64 %spent, %patience
  br i1 %is.short, label %short, label %long
short:
  {load_text("done", "handle", h.LAUNCHED)}
  %done.more = add i64 %done, 1
  store i64 %done.more, ptr %done.p
  br label %stamps
long:
  ; Nobody waits for the lock in an interpreter of one thread, but Ctrl-C is seen only while Python runs.
  %patience.alone = mul i64 %patience, {h.ALONE}
  %is.rather.short = icmp ult i64 %spent, %patience.alone
  br i1 %is.rather.short, label %look, label %tiring
look:
  {load_text("first.thread", "root", h.FIRST_THREAD, "ptr")}
  {load_text("next.thread", "root", h.NEXT_THREAD, "ptr")}
  {load_text("interpreter", "root", h.INTERPRETER, "ptr")}
  %thread = call ptr %first.thread(ptr %interpreter)
  %second = call ptr %next.thread(ptr %thread)
  %is.alone = icmp eq ptr %second, null
  br i1 %is.alone, label %short, label %tiring
tiring:
  {load_text("valid", "handle", h.VALID)}
  %is.ready = icmp eq i64 %valid, {h.READY}
  %tired = select i1 %is.ready, i64 0, i64 %valid
  store i64 %tired, ptr %valid.p
  br label %stamps
stamps:
  {load_text("count", "handle", h.ARGUMENTS)}
  {load_text("many", "handle", h.ARRAYS)}
  %skip = mul i64 %count, {h.ARGUMENT}
  %start = add i64 %skip, {h.HEAD}
  %arrays = getelementptr i64, ptr %handle, i64 %start
  br label %next
next:
  %m = phi i64 [ 0, %stamps ], [ %m.after, %one ], [ %m.after, %stamp ]
  %m.last = icmp eq i64 %m, %many
  br i1 %m.last, label %done.all, label %one
one:
  %m.word = mul i64 %m, {h.ARRAY}
  %it = getelementptr i64, ptr %arrays, i64 %m.word
  %m.after = add i64 %m, 1
  {load_text("flags", "it", h.E_FLAGS)}
  {load_text("its", "it", h.E_WORDS, "ptr")}
  %written = and i64 %flags, {h.WRITTEN}
  %is.written = icmp ne i64 %written, 0
  br i1 %is.written, label %stamp, label %next
stamp:
  {load_text("version", "runtime", w.STAMP)}
  %version.new = add i64 %version, 2
  store i64 %version.new, ptr %version.p
  {store_text("%version.new", "its", w.VERSION, "stamped")}
  br label %next
done.all:
  br i1 %is.failed, label %report, label %well
report:
  {store_text("%number", "root", h.FAILED_NUMBER, "failed")}
  ret i1 true
well:
  ret i1 false
}}
"""
