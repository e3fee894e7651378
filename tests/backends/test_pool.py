"""Test the thread pool alone: it runs each iteration once, on a row that no other thread uses at the same time."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import psutil
import pytest
from stackgrad.backends.cpu import cores
from stackgrad.backends.cpu.pool_code import pool_code
from stackgrad.backends.cpu.pool_platform import Platform, platform_of
from stackgrad.backends.llvm.compiler_lock import LOCK
from stackgrad.backends.llvm.optimize import initialize, parse

_spec = importlib.util.spec_from_file_location("pool_support", Path(__file__).with_name("pool_support.py"))
assert _spec and _spec.loader
support = sys.modules["pool_support"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
FUNCTION, Notes = support.FUNCTION, support.Notes


@pytest.fixture(scope="module", params=["semaphore", "condition"])
def work(request: pytest.FixtureRequest) -> Any:
    return support.Work(request.param)


@pytest.mark.expensive
def test_each_iteration_once(work: Any) -> None:
    """100 000 launches of three workers and their launching thread, here on as many cores as there are."""
    notes, launches = Notes.of(16), 50_000
    for _ in range(launches):
        assert work.run(notes, 2, 4) == 0
    assert set(notes.counts) == {launches}
    assert (notes.faults, notes.runs, work.pool.workers) == (0, 8 * launches, 3)


def test_a_launch_that_is_told_to_end(work: Any) -> None:
    """The launching thread asks behind each of its runs, and no run is begun after that."""
    notes = Notes.of(1000)
    assert work.run(notes, 10, 1, "ends") == 2
    assert notes.counts.tolist() == [1] * 10 + [0] * 990
    assert work.run(notes, 10, 3, "ends") in (0, 2) and notes.faults == 0, "workers may have run all before it asks"
    assert work.run(notes, 10, 3) == 0


@pytest.mark.parametrize("pause", [0.0, 0.0002, 0.003])
def test_workers_that_sleep_or_are_about_to(work: Any, pause: float) -> None:
    notes, launches = Notes.of(40), 60
    for _ in range(launches):
        work.run(notes, 3, 4)
        time.sleep(pause)
    assert set(notes.counts) == {launches} and notes.faults == 0


@pytest.mark.parametrize("seconds", [0.00001, 0.005])
def test_a_launch_ends_when_its_workers_have_ended(work: Any, seconds: float) -> None:
    """Workers are slower than the launching thread, by less and by more than it is willing to spin."""
    ended: list[int] = []

    @FUNCTION
    def slow(block: int, first: int, last: int, stride: int, row: int) -> int:
        time.sleep(seconds if row else 0.0001)
        ended.append(first)
        return 0

    address = ctypes.cast(slow, ctypes.c_void_p).value or 0
    for _ in range(20):
        assert work.call(address, 30, 2, 4) == 0
        assert sorted(ended) == list(range(0, 30, 2))
        ended.clear()


@pytest.mark.rotating
@pytest.mark.parametrize("total", [1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize("grain", [1, 7, 64, 5000])
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_any_size_and_number_of_threads(work: Any, total: int, grain: int, threads: int) -> None:
    notes = Notes.of(total)
    assert work.run(notes, grain, threads) == 0
    assert set(notes.counts) == {1}
    assert (notes.faults, notes.runs) == (0, -(-total // grain))
    assert not notes.memory[:16].any()


def test_a_launch_takes_no_more_rows_than_threads(work: Any) -> None:
    seen = set()

    @FUNCTION
    def rows(block: int, first: int, last: int, stride: int, row: int) -> int:
        seen.add(row)
        time.sleep(0.001)
        return 0

    address = ctypes.cast(rows, ctypes.c_void_p).value or 0
    for _ in range(5):
        work.call(address, 20, 1, 6)
    assert max(seen) in range(1, 6)
    seen.clear()
    for _ in range(5):
        work.call(address, 20, 1, 2)
    assert seen == {0, 1}


def test_an_error_ends_the_work(work: Any) -> None:
    for iteration in (0, 1, 5000, 9999):
        notes = Notes.of(10_000)
        notes.fail_after(iteration)
        assert work.run(notes, 1, 4) == 2
        assert set(notes.counts) <= {0, 1} and notes.counts[iteration] == 1
        assert notes.runs < 10_000 or iteration > 9000
        assert notes.faults == 0
    assert work.run(Notes.of(10), 1, 4) == 0


def test_launches_at_once_from_several_threads(work: Any) -> None:
    """One has the workers, the others run by themselves."""
    all_notes = [Notes.of(50) for _ in range(4)]

    def launch(notes: Any) -> None:
        for _ in range(2000):
            work.run(notes, 3, 3)

    threads = [threading.Thread(target=launch, args=(notes,)) for notes in all_notes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(set(notes.counts) == {2000} and notes.faults == 0 for notes in all_notes)


def test_a_launch_inside_a_launch_runs_alone(work: Any) -> None:
    inner, jobs = Notes.of(30), work.pool.jobs

    @FUNCTION
    def outer(block: int, first: int, last: int, stride: int, row: int) -> int:
        return work.run(inner, 30, 4)

    assert work.call(ctypes.cast(outer, ctypes.c_void_p).value or 0, 1, 1, 4) == 0
    assert set(inner.counts) == {1} and inner.runs == 1
    assert work.pool.jobs == jobs + 1


def test_without_workers_the_launching_thread_works_alone() -> None:
    work, notes = support.Work("none"), Notes.of(100)
    assert work.run(notes, 3, 4) == 0
    assert (set(notes.counts), notes.runs, work.pool.workers, work.pool.jobs) == ({1}, 1, 0, 0)


def test_a_stopped_pool_runs_on() -> None:
    mine = support.Work("semaphore")
    mine.run(Notes.of(100), 1, 3)
    before = _threads()
    mine.pool.stop()
    assert _threads() == before - 2
    notes = Notes.of(100)
    assert mine.run(notes, 1, 3) == 0
    assert set(notes.counts) == {1}
    mine.pool.stop()


def _threads() -> int:
    """Return the number of threads of this process."""
    return int(psutil.Process().num_threads())


def test_workers_round_as_the_launching_thread_does(work: Any) -> None:
    library, upward = ctypes.CDLL(None), {"x86_64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}[platform.machine()]
    seen: set[tuple[bool, bool]] = set()
    one, little = np.ones(1), np.full(1, 2.0**-60)

    @FUNCTION
    def look(block: int, first: int, last: int, stride: int, row: int) -> int:
        seen.add((bool(np.add(one, little)[0] > 1.0), row > 0))
        time.sleep(0.001)
        return 0

    address = ctypes.cast(look, ctypes.c_void_p).value or 0
    library.fesetround(upward)
    try:
        work.call(address, 20, 1, 4)
    finally:
        library.fesetround(0)
    assert seen == {(True, False), (True, True)}
    seen.clear()
    work.call(address, 20, 1, 4)
    assert seen == {(False, False), (False, True)}


# ---- processes ----------------------------------------------------------------------------------------------


def _python(code: str) -> subprocess.CompletedProcess[str]:
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom pool_support import *\n"
    command = [sys.executable, "-c", head + textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.rotating
@pytest.mark.parametrize("signals", ["semaphore", "condition"])
def test_a_forked_child_makes_workers_of_its_own(signals: str) -> None:
    code = f"""
        import os, sys, time
        work = Work("{signals}")
        for pause in (0, 0.01, 0.1):  # workers that spin, that sleep
            work.run(Notes.of(100), 1, 3)
            time.sleep(pause)
            child = os.fork()
            notes = Notes.of(1000)
            before = work.pool.workers
            for _ in range(100):
                assert work.run(notes, 3, 3) == 0
            assert set(notes.counts) == {{100}} and notes.faults == 0 and work.pool.workers == 2
            if child == 0:
                assert before == 0
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        print("both")
    """
    done = _python(code)
    assert (done.returncode, done.stdout) == (0, "both\n"), done.stderr


@pytest.mark.parametrize("pause", [0, 0.2])
def test_the_interpreter_ends(pause: float) -> None:
    done = _python(f"""
        import time
        work = Work()
        work.run(Notes.of(1000), 1, 4)
        time.sleep({pause})
        print("end")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_the_interpreter_ends_beside_a_launch() -> None:
    """A daemon thread launches for ever: its launches end with the process, which waits for nobody."""
    done = _python("""
        import threading, time
        work = Work()
        def launch():
            notes = Notes.of(100_000)
            while True:
                work.run(notes, 100, 3)
        threading.Thread(target=launch, daemon=True).start()
        time.sleep(0.3)
        print("end")
    """)
    assert done.stdout == "end\n" and done.returncode == 0, done.stderr


# ---- what it stands on --------------------------------------------------------------------------------------


def test_platforms() -> None:
    assert platform_of("linux", "x86_64").signals == "semaphore"
    assert "isb" in platform_of("linux", "aarch64").pause
    mac, linux = platform_of("darwin", "arm64"), platform_of("linux", "aarch64")
    assert mac == replace(linux, signals="condition", set_mask=3, bus=10)
    assert platform_of("linux", "riscv64") == Platform("semaphore")
    assert platform_of("win32", "AMD64") == Platform("none")
    assert "pthread" not in pool_code(Platform("none"))


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_the_code_for_other_machines(system: str) -> None:
    text = pool_code(platform_of(system, "arm64"))
    initialize()
    with LOCK:
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(features="+lse")
        code = target.emit_assembly(parse(text, "aarch64-unknown-linux-gnu", str(target.target_data)))
    assert all(word in code for word in ("isb", "ldaddal", "msr\tFPCR", "pthread_create"))
    assert ("sem_post" in code) == (system == "linux")


def test_cores_are_those_of_the_process_within_its_quota(tmp_path: Path) -> None:
    assert 1 <= cores.available() <= (os.cpu_count() or 1)
    groups, mount = tmp_path / "cgroup", tmp_path / "mount"
    (mount / "a" / "b").mkdir(parents=True)
    (mount / "cpu" / "c").mkdir(parents=True)
    groups.write_text("0::/a/b\n4:cpu,cpuacct:/c\n5:memory:/d\n")
    (mount / "a" / "cpu.max").write_text("150000 100000\n")
    (mount / "a" / "b" / "cpu.max").write_text("max 100000\n")
    (mount / "cpu" / "c" / "cpu.cfs_quota_us").write_text("400000\n")
    (mount / "cpu" / "c" / "cpu.cfs_period_us").write_text("100000\n")
    (mount / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    (mount / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert sorted(cores.quotas(groups, mount)) == [2, 4]
    assert list(cores.quotas(tmp_path / "nowhere", mount)) == []
