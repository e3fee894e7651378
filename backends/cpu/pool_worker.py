"""This module contains the LLVM IR that a worker thread of the pool runs.

The text is a part of the template of `pool_code`, which defines the globals that the text uses.
"""

from __future__ import annotations

WORKER = """
; Claim chunks until there is none, or one failed.
define internal void @work(i64 %row) nounwind {
entry:
  %f = load ptr, ptr @job
  %block = load ptr, ptr getelementptr (%Job, ptr @job, i32 0, i32 1)
  %total = load i64, ptr getelementptr (%Job, ptr @job, i32 0, i32 2)
  %grain = load i64, ptr getelementptr (%Job, ptr @job, i32 0, i32 3)
  br label %claim
claim:
  %first = atomicrmw add ptr @next, i64 %grain seq_cst
  %some = icmp ult i64 %first, %total
  br i1 %some, label %run, label %done
run:
  %end = add i64 %first, %grain
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %total)
  %got = call i32 %f(ptr %block, i64 %first, i64 %last, i64 1, i64 %row)
  %well = icmp eq i32 %got, 0
  br i1 %well, label %ask, label %fail
ask:                                      ; the launching thread alone
  %launches = icmp eq i64 %row, 0
  br i1 %launches, label %poll, label %claim
poll:
  %asked = load ptr, ptr getelementptr (%Job, ptr @job, i32 0, i32 5)
  %told = call i32 %asked(ptr %block)
  %goes.on = icmp eq i32 %told, 0
  br i1 %goes.on, label %claim, label %fail
fail:
  %why = phi i32 [%got, %run], [%told, %poll]
  store atomic i32 %why, ptr @status monotonic, align 4
  store atomic i64 %total, ptr @next seq_cst, align 8
  br label %done
done:
  ret void
}

define internal ptr @worker(ptr %unused) nounwind {
entry:
  br label %idle
idle:
  %last = phi i64 [-1, %entry], [%seen, %left]
  br label %watch
watch:
  %spins = phi i64 [0, %idle], [%more, %pause]
  %e0 = load atomic i64, ptr @epoch seq_cst, align 8
  %new0 = icmp ne i64 %e0, %last
  br i1 %new0, label %enter, label %pause
pause:
  $pause
  %more = add i64 %spins, 1
  %patient = icmp ult i64 %more, $spin_worker
  br i1 %patient, label %watch, label %sleep
sleep:
  %before = atomicrmw add ptr @sleepers, i64 1 seq_cst
  %e1 = load atomic i64, ptr @epoch seq_cst, align 8
  %new1 = icmp ne i64 %e1, %last
  br i1 %new1, label %cancel, label %wait
cancel:
  %asleep = load atomic i64, ptr @sleepers seq_cst, align 8
  %taken = icmp eq i64 %asleep, 0
  br i1 %taken, label %wait, label %withdraw
withdraw:
  %fewer = sub i64 %asleep, 1
  %swap = cmpxchg ptr @sleepers, i64 %asleep, i64 %fewer seq_cst seq_cst
  %withdrawn = extractvalue { i64, i1 } %swap, 1
  br i1 %withdrawn, label %enter, label %cancel
wait:
  call void @await(ptr @work.signal)
  %e2 = load atomic i64, ptr @epoch seq_cst, align 8
  br label %enter
enter:
  %seen = phi i64 [%e0, %watch], [%e1, %withdraw], [%e2, %wait]
  %ending = load atomic i64, ptr @quit seq_cst, align 8
  %ends = icmp ne i64 %ending, 0
  br i1 %ends, label %end, label %register
register:
  %in0 = atomicrmw add ptr @inside, i64 1 seq_cst
  %opened = load atomic i64, ptr @open seq_cst, align 8
  %is.open = icmp ne i64 %opened, 0
  br i1 %is.open, label %take.row, label %leave
take.row:
  %row = atomicrmw add ptr @rows, i64 1 seq_cst
  %threads = load i64, ptr getelementptr (%Job, ptr @job, i32 0, i32 4)
  %fits = icmp ult i64 %row, %threads
  br i1 %fits, label %join, label %leave
join:
  $adopt
  call void @work(i64 %row)
  br label %leave
leave:
  %in1 = atomicrmw sub ptr @inside, i64 1 seq_cst
  %last.out = icmp eq i64 %in1, 1
  br i1 %last.out, label %tell, label %left
tell:
  %awaited = load atomic i64, ptr @waiting seq_cst, align 8
  %is.awaited = icmp ne i64 %awaited, 0
  br i1 %is.awaited, label %claim.post, label %left
claim.post:
  %mine = atomicrmw xchg ptr @waiting, i64 0 seq_cst
  %is.mine = icmp eq i64 %mine, 1
  br i1 %is.mine, label %wake, label %left
wake:
  call void @post(ptr @done.signal)
  br label %left
left:
  br label %idle
end:
  ret ptr null
}
"""
