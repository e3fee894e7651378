"""Signals between threads in LLVM IR: `ready(s)` makes one, `post(s)` lets one `await(s)`, now or later, go on.

A signal is 48 words. Both forms count posts; one is a POSIX semaphore, the other a mutex, a condition (at byte 128) and the
number of posts (at byte 256), for systems without unnamed semaphores.
"""
from __future__ import annotations

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
