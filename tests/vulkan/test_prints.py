# ruff: noqa: T201 - kernels print
"""`print` on a Vulkan device: at the next wait, in the order of a CPU, whatever the device did first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.backends.codegen.prints import CAPACITY, HEAD
from stackgrad.backends.vulkan.backend import VulkanBackend

Capture = pytest.CaptureFixture[str]


MASKS = {"addresses": (), "descriptors": ("buffer_addresses",), "pairs": ("buffer_addresses", "int64", "subgroups")}


@pytest.fixture(autouse=True, params=MASKS)
def runtime(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[None]:
    """`sg.vulkan` is a device without some features."""
    masked = MASKS[request.param]
    registry.put("vulkan", VulkanBackend(masked) if masked else vulkan)
    yield
    sg.reset()
    registry.put("vulkan", vulkan)


def run(arch: object, *sizes: int) -> None:
    sg.init(arch=arch)
    x = sg.field(sg.f32, 3000)

    @sg.kernel
    def loud(n: sg.i32):
        print("begin", n)
        for i in range(n):
            if i % 3 != 1:
                print("i", i, sg.cast(0.5 * i, sg.f32), i > 4)
                for j in range(i % 4):
                    print(j, end=",")
            x[i] = i
        for i, j in sg.ndrange(2, 3):
            print(f"{i}{j}")

    for n in sizes:
        loud(n)


@pytest.mark.expensive
def test_lines_come_as_on_a_cpu(capsys: Capture) -> None:
    sizes = (2000, 3, 1000)
    run(sg.cpu, *sizes)
    wanted = capsys.readouterr().out
    run(sg.vulkan, *sizes)
    sg.sync()
    assert capsys.readouterr().out == wanted
    sg.sync()
    assert capsys.readouterr().out == ""


@pytest.mark.expensive
def test_what_has_no_room_is_counted(capsys: Capture) -> None:
    sg.init(arch=sg.vulkan)

    @sg.kernel
    def loud(n: sg.i32):
        for i in range(n):
            print(i)

    held, more = CAPACITY // (HEAD + 1), 40_000
    loud(held + more)
    sg.sync()
    out, said = capsys.readouterr()
    lines = list(map(int, out.splitlines()))
    assert len(set(lines)) == held and lines == sorted(lines) and lines[0] >= 0 and lines[-1] < held + more
    assert f"{more} prints of kernels were lost" in said
    loud(2)
    sg.sync()
    assert capsys.readouterr() == ("0\n1\n", "")


def test_what_was_printed_before_an_error(capsys: Capture) -> None:
    sg.init(arch=sg.vulkan, debug=True)

    @sg.kernel
    def fails(n: sg.i32):
        for i in range(n):
            print("at", i)
        for i in range(n):
            assert i < 2, "few"
        for i in range(n):
            print("never", i)

    with pytest.raises(sg.KernelAssertionError, match="few"):
        fails(3)
    assert capsys.readouterr().out == "at 0\nat 1\nat 2\n"
