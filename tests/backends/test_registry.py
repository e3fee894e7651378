"""Test the list of backends and the list of their limits."""

from __future__ import annotations

from typing import NoReturn

import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.cuda import backend as cuda_backend
from stackgrad.backends.cuda.driver import NoCudaDevice
from stackgrad.backends.cuda.ptx import ptx
from stackgrad.backends.limits import LIMITS, LOCAL_BYTES, Limit
from stackgrad.backends.metal.program import program as metal_program
from stackgrad.backends.spirv.shaders import generate
from stackgrad.compiler.errors import DeviceError, StackgradError, Unsupported
from stackgrad.compiler.ir.parser import parse_kernel

GENERATORS = {
    "cpu": lambda kernel: CpuBackend().compile(kernel, Options()),
    "nvptx": ptx,
    "vulkan": lambda kernel: generate(kernel, Options()),
    "metal": lambda kernel: metal_program(kernel, Options()),
}


def test_instances_are_single_and_named() -> None:
    for name in ("reference", "cpu", "cuda"):
        assert registry.get(name) is registry.get(name)
        assert registry.get(name).name == name


def test_unknown_names() -> None:
    with pytest.raises(StackgradError, match="no backend 'gpu'; there are: reference, cpu, cuda"):
        registry.get("gpu")


def test_probes_give_versions_or_reasons() -> None:
    for name, probe in registry.probe_all().items():
        assert probe.version if probe.available else probe.reason and probe.cure, name
    assert registry.probe_all()["cpu"].available


def test_a_backend_that_cannot_be_imported_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry.BACKENDS, "other", registry.Registration("no_such_library.backend", "Backend", "llvm", "other")
    )
    probe = registry.probe_all()["other"]
    assert not probe.available and "no_such_library" in probe.reason and probe.cure == "pip install no_such_library"


def test_cuda_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> NoReturn:
        raise NoCudaDevice("there is no GPU", "buy one")

    monkeypatch.setattr(cuda_backend, "CudaDriver", absent)
    backend = cuda_backend.CudaBackend()
    probe = backend.probe()
    assert (probe.available, probe.reason, probe.cure) == (False, "there is no GPU", "buy one")
    with pytest.raises(DeviceError, match="there is no GPU; cure: buy one"):
        backend.compile(parse_kernel("kernel k() { serial { } }"), Options())
    assert backend.heap_report()["real"] == {"current": 0, "peak": 0}


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.backend}-{limit.name}")
def test_limits_are_strict(limit: Limit) -> None:
    """Each declared hole is refused with its reason and cure; a hole that closes must leave the list."""
    with pytest.raises(Unsupported) as caught:
        GENERATORS[limit.backend](parse_kernel(limit.example))
    assert limit.reason in str(caught.value) and limit.cure in str(caught.value)


def test_local_arrays_up_to_the_limit_work() -> None:
    kernel = parse_kernel(f"kernel k() {{ serial {{ local_array a: u8[{LOCAL_BYTES}] }} }}")
    CpuBackend().compile(kernel, Options())
