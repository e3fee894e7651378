"""The driver's calls against the installed cuda.bindings: every function exists, and what is missing is said."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest
from stackgrad.backends.cuda import nvidia as module
from stackgrad.backends.cuda.driver import Driver, DriverError, KernelCall, LaunchGraph, NoCudaDevice
from stackgrad.backends.cuda.driver_table import ADDRESSES
from stackgrad.backends.cuda.graph_replay import NODE_PARAMETERS
from stackgrad.backends.cuda.nvidia import CudaDriver
from stackgrad.harness.testing.emulated_cuda.native import KernelNode

bindings = pytest.importorskip("cuda.bindings.driver", reason="pip install 'stackgrad[cuda]'")


def test_every_function_that_is_called_exists() -> None:
    text = Path(module.__file__).read_text()
    called = set(re.findall(r'"(cu[A-Z]\w+)"', text)) | set(ADDRESSES.values())
    assert len(called) > 25
    assert [name for name in called if not hasattr(bindings, name)] == []
    for width in (8, 16, 32):
        assert hasattr(bindings, f"cuMemsetD{width}Async")


def test_the_driver_has_all_that_the_protocol_names() -> None:
    wanted = {name for name in vars(Driver) if not name.startswith("_")} - {"card", "stream", "entry_points"}
    assert [name for name in wanted if not hasattr(CudaDriver, name)] == []


def test_without_a_gpu_the_refusal_has_reason_and_cure() -> None:
    try:
        made = CudaDriver()
    except NoCudaDevice as refused:
        assert "NVIDIA" in refused.reason or "GPU" in refused.reason
        assert refused.cure and "\n" not in str(refused)
    else:
        assert made.multiprocessors > 0


def test_errors_say_code_and_call() -> None:
    error = DriverError(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory", "cuMemAlloc")
    assert "cuMemAlloc" in str(error) and "(2)" in str(error)
    assert "debug=True" in str(DriverError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal access"))


def test_nodes_of_graphs_are_laid_out_as_native_code_writes_them() -> None:
    """Native code sets nodes by words (backends/cuda/graph_replay.py), emulated drivers read them by `KernelNode`."""
    made = bindings.CUDA_KERNEL_NODE_PARAMS()
    made.func, made.kernelParams = bindings.CUfunction(0x1234), 0x5678
    made.gridDimX, made.gridDimY, made.gridDimZ = 7, 2, 3
    made.blockDimX, made.blockDimY, made.blockDimZ = 32, 4, 5
    found = KernelNode.from_address(made.getPtr())
    assert ctypes.sizeof(KernelNode) == NODE_PARAMETERS
    assert (found.function, found.given, found.shared) == (0x1234, 0x5678, 0)
    assert ([*found.grid], [*found.block]) == ([7, 2, 3], [32, 4, 5])


def test_graphs_of_launches_are_built_one_behind_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []

    def call(self: CudaDriver, name: str, *given: Any) -> Any:
        asked.append((name, given))
        return 100 + len(asked)

    monkeypatch.setattr(CudaDriver, "_call", call)
    driver = object.__new__(CudaDriver)
    driver._cuda, driver._context = bindings, bindings.CUcontext(0)
    made = driver.instantiate((0x40, 24), [KernelCall(9, 3, 128), KernelCall(11, 1, 1)], 0x700)
    names = [name for name, _ in asked]
    assert names == [
        "cuCtxSetCurrent",
        "cuGraphCreate",
        "cuGraphAddMemsetNode",
        "cuGraphAddKernelNode",
        "cuGraphAddKernelNode",
        "cuGraphInstantiate",
    ]
    assert made == LaunchGraph(102, 106, (104, 105))
    memset, first, second = (given for name, given in asked if name.startswith("cuGraphAdd"))
    assert (int(memset[3].dst), memset[3].width, memset[3].elementSize, memset[3].height) == (0x40, 24, 1, 1)
    assert (first[1:3], second[1:3]) == (([103], 1), ([104], 1))
    assert [(int(p.func), p.gridDimX, p.blockDimX) for p in (first[3], second[3])] == [(9, 3, 128), (11, 1, 1)]
    driver.discard(made)
    assert [given for name, given in asked[-2:]] == [(106,), (102,)]
