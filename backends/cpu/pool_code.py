"""This module holds the pool's LLVM IR: workers share the iterations of one task with the thread that launches it.

One job is open at a time. Each thread at work on it, the launching thread first, claims chunks from one atomic counter
until there is none. A worker enters a job in two steps: it counts itself in `inside`, then looks if the job is still
`open`. The launching thread, out of chunks, closes the job and waits until `inside` is 0. Both write, then read what
the other wrote, sequentially consistent: either the worker sees the job closed and leaves, or the launching thread sees
the worker and waits. No thread waits for a worker that has not woken up, and a job's description stays while a thread
may read it. How workers sleep, and who gets the lock, stands in pool.py.
"""

from __future__ import annotations

from string import Template

from .pool_platform import SERIAL, SIGNALS, Platform
from .pool_worker import WORKER

MOST_WORKERS = 1024
_FAULTS = (4, 5, 6, 8, 11)
"""Numbers of signals that are never blocked: ILL, TRAP, ABRT, FPE, SEGV; BUS has a number of its own on each system."""


def pool_code(platform: Platform, spin_worker: int = 2000, spin_launcher: int = 500) -> str:
    """Return the LLVM IR of the thread pool for a platform.

    `sg.pool.run(function, block, total, grain, threads, poll) -> status` calls `function(block, first, last, 1, row)`
    for runs of `grain` iterations (the last may be shorter) until 0 .. total are done; rows are below `threads`, and no
    two calls at one time have one row. After each of its own calls the launching thread calls `poll(block)`. The first
    status of either that is not 0 ends the run and is the result.
    """
    if platform.signals == "none":
        return SERIAL
    faults = enumerate((*_FAULTS, platform.bus))
    deletions = "\n".join(f"  %gone.{k} = call i32 @sigdelset(ptr %all, i32 {number})" for k, number in faults)
    body = Template(_POOL + WORKER).substitute(
        pause=platform.pause,
        note=platform.note,
        adopt=platform.adopt,
        set_mask=platform.set_mask,
        spin_worker=spin_worker,
        spin_launcher=spin_launcher,
        most=MOST_WORKERS,
        deletions=deletions,
    )
    return SIGNALS[platform.signals] + body


_POOL = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.usub.sat.i64(i64, i64)
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.aarch64.isb(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

%Job = type { ptr, ptr, i64, i64, i64, ptr }   ; function, block, total, grain, threads, poll
@lock = internal global i64 0, align 128
@job = internal global %Job zeroinitializer, align 128
@status = internal global i32 0
@mode = internal global i64 0             ; how the launching thread computes
@epoch = internal global i64 0, align 128
@open = internal global i64 0
@next = internal global i64 0, align 128
@inside = internal global i64 0, align 128
@rows = internal global i64 0
@sleepers = internal global i64 0, align 128
@waiting = internal global i64 0, align 128
@work.signal = internal global [48 x i64] zeroinitializer, align 128
@done.signal = internal global [48 x i64] zeroinitializer, align 128
@made = internal global i64 0, align 128  ; workers
@full = internal global i64 0             ; no more threads are to be made
@quit = internal global i64 0
@ids = internal global [$most x ptr] zeroinitializer, align 128

; Have at least so many workers, if the system gives them. Under the lock.
define internal void @grow(i64 %wanted) nounwind {
entry:
  %attr = alloca [64 x i64], align 16
  %all = alloca [64 x i64], align 16
  %old = alloca [64 x i64], align 16
  %full = load i64, ptr @full
  %open = icmp eq i64 %full, 0
  br i1 %open, label %first, label %done
first:
  %have = load i64, ptr @made
  %none = icmp eq i64 %have, 0
  br i1 %none, label %ready, label %begin
ready:
  call void @ready(ptr @work.signal)
  call void @ready(ptr @done.signal)
  br label %begin
begin:                                    ; signals are for the program's threads
  %r0 = call i32 @sigfillset(ptr %all)
$deletions
  %r1 = call i32 @pthread_sigmask(i32 $set_mask, ptr %all, ptr %old)
  %r2 = call i32 @pthread_attr_init(ptr %attr)
  %r3 = call i32 @pthread_attr_setstacksize(ptr %attr, i64 8388608)
  %goal = call i64 @llvm.umin.i64(i64 %wanted, i64 $most)
  br label %next
next:
  %k = phi i64 [%have, %begin], [%k1, %made]
  %enough = icmp uge i64 %k, %goal
  br i1 %enough, label %restore, label %make
make:
  %id = getelementptr ptr, ptr @ids, i64 %k
  %r4 = call i32 @pthread_create(ptr %id, ptr %attr, ptr @worker, ptr null)
  %refused = icmp ne i32 %r4, 0
  br i1 %refused, label %refuse, label %made
made:
  %k1 = add i64 %k, 1
  br label %next
refuse:
  store i64 1, ptr @full
  br label %restore
restore:
  store i64 %k, ptr @made
  %r5 = call i32 @pthread_attr_destroy(ptr %attr)
  %r6 = call i32 @pthread_sigmask(i32 $set_mask, ptr %old, ptr null)
  br label %done
done:
  ret void
}

; Wake sleepers, if there are any, until so many workers are awake.
define internal void @rouse(i64 %wanted) nounwind {
entry:
  %made = load i64, ptr @made
  br label %look
look:
  %asleep = load atomic i64, ptr @sleepers seq_cst, align 8
  %awake = sub i64 %made, %asleep
  %missing = call i64 @llvm.usub.sat.i64(i64 %wanted, i64 %awake)
  %count = call i64 @llvm.umin.i64(i64 %asleep, i64 %missing)
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %take
take:
  %left = sub i64 %asleep, %count
  %swap = cmpxchg ptr @sleepers, i64 %asleep, i64 %left seq_cst seq_cst
  %taken = extractvalue { i64, i1 } %swap, 1
  br i1 %taken, label %posts, label %look
posts:
  %k = phi i64 [%count, %take], [%k1, %posts]
  call void @post(ptr @work.signal)
  %k1 = sub i64 %k, 1
  %over = icmp eq i64 %k1, 0
  br i1 %over, label %done, label %posts
done:
  ret void
}

; Wait until no worker is inside a job that is closed.
define internal void @drain() nounwind {
entry:
  br label %watch
watch:
  %spins = phi i64 [0, %entry], [0, %woken], [%more, %pause]
  %in0 = load atomic i64, ptr @inside seq_cst, align 8
  %out0 = icmp eq i64 %in0, 0
  br i1 %out0, label %done, label %pause
pause:
  $pause
  %more = add i64 %spins, 1
  %patient = icmp ult i64 %more, $spin_launcher
  br i1 %patient, label %watch, label %sleep
sleep:
  store atomic i64 1, ptr @waiting seq_cst, align 8
  %in1 = load atomic i64, ptr @inside seq_cst, align 8
  %out1 = icmp eq i64 %in1, 0
  br i1 %out1, label %cancel, label %wait
cancel:
  %mine = atomicrmw xchg ptr @waiting, i64 0 seq_cst
  %is.mine = icmp eq i64 %mine, 1
  br i1 %is.mine, label %done, label %wait
wait:
  call void @await(ptr @done.signal)
  br label %woken
woken:
  br label %watch
done:
  ret void
}

define i32 @sg.pool.run(ptr %f, ptr %block, i64 %total, i64 %grain, i64 %threads, ptr %poll) nounwind {
entry:
  %try = cmpxchg ptr @lock, i64 0, i64 1 seq_cst seq_cst
  %got = extractvalue { i64, i1 } %try, 1
  br i1 %got, label %staff, label %alone
alone:
  %from = phi i64 [0, %entry], [%to, %part]
  %left = icmp ult i64 %from, %total
  br i1 %left, label %part, label %ended
part:
  %next = add i64 %from, %grain
  %to = call i64 @llvm.umin.i64(i64 %next, i64 %total)
  %own = call i32 %f(ptr %block, i64 %from, i64 %to, i64 1, i64 0)
  %says = call i32 %poll(ptr %block)
  %worse = or i32 %own, %says
  %well = icmp eq i32 %worse, 0
  br i1 %well, label %alone, label %ended
ended:
  %last = phi i32 [0, %alone], [%worse, %part]
  ret i32 %last
staff:
  %helpers = sub i64 %threads, 1
  %made = load i64, ptr @made
  %few = icmp ult i64 %made, %helpers
  br i1 %few, label %hire, label %begin
hire:
  call void @grow(i64 %helpers)
  br label %begin
begin:
  store ptr %f, ptr @job
  store ptr %block, ptr getelementptr (%Job, ptr @job, i32 0, i32 1)
  store i64 %total, ptr getelementptr (%Job, ptr @job, i32 0, i32 2)
  store i64 %grain, ptr getelementptr (%Job, ptr @job, i32 0, i32 3)
  store i64 %threads, ptr getelementptr (%Job, ptr @job, i32 0, i32 4)
  store ptr %poll, ptr getelementptr (%Job, ptr @job, i32 0, i32 5)
  store i32 0, ptr @status
  $note
  store atomic i64 1, ptr @rows monotonic, align 8
  store atomic i64 0, ptr @next monotonic, align 8
  store atomic i64 1, ptr @open seq_cst, align 8
  %e = atomicrmw add ptr @epoch, i64 1 seq_cst
  %whole = sub i64 %total, 1
  %others = udiv i64 %whole, %grain       ; chunks beside the launching thread's first
  %wanted = call i64 @llvm.umin.i64(i64 %others, i64 %helpers)
  call void @rouse(i64 %wanted)
  call void @work(i64 0)
  store atomic i64 0, ptr @open seq_cst, align 8
  call void @drain()
  %status = load atomic i32, ptr @status monotonic, align 4
  store atomic i64 0, ptr @lock release, align 8
  ret i32 %status
}

define void @sg.pool.stop() nounwind {
entry:
  %try = cmpxchg ptr @lock, i64 0, i64 1 seq_cst seq_cst
  %got = extractvalue { i64, i1 } %try, 1
  br i1 %got, label %end, label %done     ; a launch goes on: its thread will be gone with the process
end:                                      ; the lock is kept, so that later launches run on their threads
  %n = load i64, ptr @made
  store atomic i64 1, ptr @quit seq_cst, align 8
  %e = atomicrmw add ptr @epoch, i64 1 seq_cst
  call void @rouse(i64 %n)              ; those that are awake see the new epoch
  br label %next
next:
  %k = phi i64 [0, %end], [%k1, %join]
  %all = icmp eq i64 %k, %n
  br i1 %all, label %done, label %join
join:
  %at = getelementptr ptr, ptr @ids, i64 %k
  %id = load ptr, ptr %at
  %r = call i32 @pthread_join(ptr %id, ptr null)
  %k1 = add i64 %k, 1
  br label %next
done:
  ret void
}

define void @sg.pool.forget() nounwind {
  store i64 0, ptr @lock
  store i64 0, ptr @open
  store i64 0, ptr @inside
  store i64 0, ptr @sleepers
  store i64 0, ptr @waiting
  store i64 0, ptr @made
  store i64 0, ptr @full
  store i64 0, ptr @quit
  ret void
}

define i64 @sg.pool.workers() nounwind {
  %n = load i64, ptr @made
  ret i64 %n
}

define i64 @sg.pool.jobs() nounwind {
  %n = load atomic i64, ptr @epoch monotonic, align 8
  ret i64 %n
}
"""
