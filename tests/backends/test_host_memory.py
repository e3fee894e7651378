"""Test the reading of free memory of the machine and of control groups, from files as Linux provides them."""

from __future__ import annotations

from pathlib import Path

import pytest
from stackgrad.backends import host_memory
from stackgrad.backends.host_memory import UNLIMITED, address_limit, available_memory, map_pages

KIB = 1024


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a simulated machine with 900 KiB of memory and 100 KiB of swap left, without groups."""
    monkeypatch.setattr(host_memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(host_memory, "GROUPS", tmp_path / "groups")
    write(tmp_path, "proc/meminfo", "MemTotal: 5000 kB\nMemAvailable: 900 kB\nSwapFree:  100 kB\nHugePages_Total: 0\n")
    return tmp_path


def write(root: Path, place: str, text: str) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_groups_the_machine_decides(machine: Path) -> None:
    assert available_memory() == (1000 * KIB, "this machine has")


def test_groups_of_the_second_version(machine: Path) -> None:
    """The tightest of the group and those around it; cached files count as free."""
    write(machine, "proc/self/cgroup", "0::/user/job\n")
    write(machine, "groups/user/job/memory.max", "max\n")
    assert available_memory()[0] == 1000 * KIB
    write(machine, "groups/user/memory.max", "5000\n")
    write(machine, "groups/user/memory.current", "3000\n")
    assert available_memory() == (2000, "the process's control group has")
    write(machine, "groups/user/memory.stat", "anon 9\ninactive_file 500\n")
    assert available_memory()[0] == 2500
    write(machine, "groups/user/job/memory.max", "100\n")
    write(machine, "groups/user/job/memory.current", "400\n")
    assert available_memory()[0] == 0


def test_groups_of_the_first_version(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "4:cpu,cpuacct:/a\n3:memory:/a\n")
    write(machine, "groups/memory/a/memory.limit_in_bytes", f"{(1 << 63) - 4096}\n")
    assert available_memory()[0] == 1000 * KIB
    write(machine, "groups/memory/memory.limit_in_bytes", "7000\n")
    write(machine, "groups/memory/memory.usage_in_bytes", "1000\n")
    assert available_memory() == (6000, "the process's control group has")


def test_what_cannot_be_read_sets_no_limit(machine: Path) -> None:
    (machine / "proc/meminfo").write_text("garbled\n")
    write(machine, "proc/self/cgroup", "0::/x\nnonsense\n")
    write(machine, "groups/x/memory.max", "plenty\n")
    assert available_memory()[0] > 100 << 20, "all memory that there is"


def test_pages_are_private_and_zero() -> None:
    memory = map_pages(8192)
    assert memory[:] == b"\0" * 8192
    with pytest.raises((OSError, OverflowError)):
        map_pages(UNLIMITED)
    assert address_limit() > 0
