"""The driver's calls against the installed cuda.bindings: every function exists, and what is missing is said."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
from stackgrad.backends.cuda import driver as module
from stackgrad.backends.cuda.driver import CudaDriver, Driver, DriverError, Unavailable

bindings = pytest.importorskip("cuda.bindings.driver", reason="pip install 'stackgrad[cuda]'")


def test_every_function_that_is_called_exists() -> None:
    text = Path(module.__file__).read_text()
    called = set(re.findall(r'"(cu[A-Z]\w+)"', text))
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
    except Unavailable as refused:
        assert "NVIDIA" in refused.reason or "GPU" in refused.reason
        assert refused.cure and "\n" not in str(refused)
    else:
        assert made.multiprocessors > 0


def test_errors_say_code_and_call() -> None:
    error = DriverError(2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory", "cuMemAlloc")
    assert "cuMemAlloc" in str(error) and "(2)" in str(error)
    assert "debug=True" in str(DriverError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal access"))
