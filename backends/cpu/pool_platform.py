"""This module contains the parts of the pool's LLVM IR that differ between systems: spin pause, thread signals.

`ready(s)` makes a signal of 48 words; `post(s)` lets one `await(s)` go on, now or later. A signal is a POSIX semaphore;
or a mutex, a condition (at byte 128) and the number of posts (at byte 256), for systems without unnamed semaphores.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    """Represent the facts about a system that the thread pool's LLVM IR depends on, such as signal numbers.

    Attributes:
        signals: "semaphore" or "condition", or "none" where no threads can be made.
        pause: Instruction of a thread that spins.
        note: Store how the thread rounds and whether it flushes denormals, to @mode.
        adopt: Load how the thread rounds and whether it flushes denormals, from @mode.
        set_mask: Value of SIG_SETMASK.
        bus: Number of SIGBUS.
    """

    signals: str
    pause: str = ""
    note: str = ""
    adopt: str = ""
    set_mask: int = 2
    bus: int = 7


_X86 = (
    "call void @llvm.x86.sse2.pause()",
    "call void @llvm.x86.sse.stmxcsr(ptr @mode)",
    "call void @llvm.x86.sse.ldmxcsr(ptr @mode)",
)
_ARM = (
    "call void @llvm.aarch64.isb(i32 15)",
    "%now = call i64 @llvm.aarch64.get.fpcr()\n  store i64 %now, ptr @mode",
    "%noted = load i64, ptr @mode\n  call void @llvm.aarch64.set.fpcr(i64 %noted)",
)
_INSTRUCTIONS = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


def platform_of(system: str, machine: str) -> Platform:
    """Return the `Platform` of an operating system (`sys.platform`) and a processor (`platform.machine()`)."""
    instructions = _INSTRUCTIONS.get(machine.lower(), ("", "", ""))
    # macOS has no unnamed semaphores.
    if system == "darwin":
        return Platform("condition", *instructions, set_mask=3, bus=10)
    return Platform("semaphore", *instructions) if system.startswith("linux") else Platform("none")


SIGNALS = {
    "semaphore": """
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)
define internal void @ready(ptr %s) nounwind {
  %r = call i32 @sem_init(ptr %s, i32 0, i32 0)
  ret void
}
define internal void @await(ptr %s) nounwind {
entry:
  br label %again
again:                                    ; a signal may end the wait early
  %r = call i32 @sem_wait(ptr %s)
  %early = icmp ne i32 %r, 0
  br i1 %early, label %again, label %done
done:
  ret void
}
define internal void @post(ptr %s) nounwind {
  %r = call i32 @sem_post(ptr %s)
  ret void
}
""",
    "condition": """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
define internal void @ready(ptr %s) nounwind {
  %c = getelementptr i8, ptr %s, i64 128
  %n = getelementptr i8, ptr %s, i64 256
  %r0 = call i32 @pthread_mutex_init(ptr %s, ptr null)
  %r1 = call i32 @pthread_cond_init(ptr %c, ptr null)
  store i64 0, ptr %n
  ret void
}
define internal void @await(ptr %s) nounwind {
entry:
  %c = getelementptr i8, ptr %s, i64 128
  %n = getelementptr i8, ptr %s, i64 256
  %r0 = call i32 @pthread_mutex_lock(ptr %s)
  br label %look
look:
  %posts = load i64, ptr %n
  %none = icmp eq i64 %posts, 0
  br i1 %none, label %wait, label %take
wait:
  %r1 = call i32 @pthread_cond_wait(ptr %c, ptr %s)
  br label %look
take:
  %left = sub i64 %posts, 1
  store i64 %left, ptr %n
  %r2 = call i32 @pthread_mutex_unlock(ptr %s)
  ret void
}
define internal void @post(ptr %s) nounwind {
  %c = getelementptr i8, ptr %s, i64 128
  %n = getelementptr i8, ptr %s, i64 256
  %r0 = call i32 @pthread_mutex_lock(ptr %s)
  %posts = load i64, ptr %n
  %more = add i64 %posts, 1
  store i64 %more, ptr %n
  %r1 = call i32 @pthread_cond_signal(ptr %c)
  %r2 = call i32 @pthread_mutex_unlock(ptr %s)
  ret void
}
""",
}

SERIAL = """
define i32 @sg.pool.run(ptr %f, ptr %block, i64 %total, i64 %grain, i64 %threads, ptr %poll) nounwind {
  %status = call i32 %f(ptr %block, i64 0, i64 %total, i64 1, i64 0)
  ret i32 %status
}
define void @sg.pool.stop() nounwind {
  ret void
}
define void @sg.pool.forget() nounwind {
  ret void
}
define i64 @sg.pool.workers() nounwind {
  ret i64 0
}
define i64 @sg.pool.jobs() nounwind {
  ret i64 0
}
"""
"""Code of the pool where no threads can be made."""
