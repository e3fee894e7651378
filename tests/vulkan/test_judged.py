"""Vulkan under supervision: modules that `spirv-val` refuses, dispatches without a barrier, and mutants of shaders."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Backend, Draws, Options, Sizes
from stackgrad.backends.spirv import emit
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.cli import CommandError, main
from stackgrad.cli.fuzz import judged_backends
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.executors import JUDGED, backend_by_name
from stackgrad.harness.testing.judged_vulkan import InvalidModule, ReorderedVulkan, validate
from stackgrad.harness.tools.fuzz import raw_stacks
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.mutants import MUTANTS
from stackgrad.harness.tools.strategies import sample_adstacks
from stackgrad.harness.tools.strategies.adstacks import EMPTY, OVERFLOW

SHADERS = [name for name, mutant in MUTANTS.items() if mutant.on == "vulkan"]


@pytest.fixture
def supervised(vulkan: VulkanBackend) -> Backend:
    """The executor of this name."""
    if shutil.which("spirv-val") is None:
        pytest.skip("spirv-val is not installed; cure: apt-get install spirv-tools")
    return backend_by_name(JUDGED)


def launch(backend: Backend, text: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    backend.compile(parse_kernel(text), Options()).run(arrays, {}, Sizes(), Draws())
    return arrays


# ---- modules ------------------------------------------------------------------------------------------------------

DOUBLE = """kernel double(x: f64[1]) { bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
  %3: f64 = load x[%2] %4: f64 = add %3, %3 store x[%2], %4 } }"""


def test_a_module_that_is_no_module_is_refused(supervised: Backend) -> None:
    assert "Invalid SPIR-V" in validate(b"this is no module of shaders....")


def test_every_module_is_judged(supervised: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that forgets to declare a capability is found out, though the driver takes the module."""
    assert launch(supervised, DOUBLE, {"x": np.ones(3)})["x"].tolist() == [2.0] * 3
    words = emit.SpirvModule.words

    def without_float64(self: Any) -> list[int]:
        self.capabilities.pop("Float64")
        return words(self)

    monkeypatch.setattr(emit.SpirvModule, "words", without_float64)
    with pytest.raises(InvalidModule, match="kernel double: spirv-val: .*Float64"):
        launch(supervised, DOUBLE, {"x": np.ones(3)})


# ---- the order of dispatches --------------------------------------------------------------------------------------


class Recorder:
    """Functions that write down what is recorded."""

    class ffi:
        @staticmethod
        def cast(kind: str, thing: int) -> int:
            return thing

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: self.seen.append((name.removeprefix("vkCmd"), *args))


def test_dispatches_between_barriers_come_last_to_first() -> None:
    vk = Recorder()
    under_test: Any = ReorderedVulkan(vk)
    for pipeline, groups in (("a", 1), ("b", 2)):
        under_test.vkCmdBindPipeline(7, "compute", pipeline)
        under_test.vkCmdDispatch(7, groups, 1, 1)
    assert not vk.seen
    under_test.vkCmdPipelineBarrier(7, "all")
    under_test.vkCmdDispatchIndirect(7, "counts", 0)
    under_test.vkCmdDispatch(7, 9, 1, 1)
    under_test.vkCmdPushConstants(7, "block")
    under_test.vkEndCommandBuffer(7)
    assert vk.seen == [
        ("BindPipeline", 7, "compute", "b"),
        ("Dispatch", 7, 2, 1, 1),
        ("BindPipeline", 7, "compute", "a"),
        ("Dispatch", 7, 1, 1, 1),
        ("PipelineBarrier", 7, "all"),
        ("BindPipeline", 7, "compute", "b"),
        ("Dispatch", 7, 9, 1, 1),
        ("BindPipeline", 7, "compute", "b"),
        ("DispatchIndirect", 7, "counts", 0),
        ("PushConstants", 7, "block"),
        ("vkEndCommandBuffer", 7),
    ]


# ---- mutants ------------------------------------------------------------------------------------------------------

HISTORY = """kernel history(x: f64[1], y: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca a: f64 capacity 2
    %3: f64 = load x[%2] %4: f64 = mul %3, %3
    adstack_push a, %3 adstack_push a, %4 adstack_pop a
    %5: f64 = adstack_load_top a store y[%2], %5 } }"""
TWO_TASKS = """kernel two(x: f64[1], t: f64[1], y: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2] store t[%2], %3 }
  bounds { %4: i32 = const 0 %5: i32 = shape x, 0 } parallel %6: i32 in %4 .. %5 {
    %7: f64 = load t[%6] store y[%6], %7 } }"""
SUM = """kernel sum(x: f64[1], y: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2] %4: i32 = const 0 %5: f64 = atomic add y[%4], %3 } }"""


def is_wrong(backend: Backend, text: str, total: bool = False) -> bool:
    """Whether y is not x, or does not hold the sum of it."""
    x = np.arange(1.0, 101.0)
    arrays = {"x": x, "t": np.zeros(100), "y": np.zeros(100)}
    kernel = parse_kernel(text)
    found = launch(backend, text, {p.name: arrays[p.name] for p in kernel.params})["y"]
    return bool(found[0] != x.sum()) if total else not np.array_equal(found, x)


def is_wrong_on_stacks(backend: Backend, trap: str) -> bool:
    """Whether one of some raw kernels ends otherwise than it must."""
    seeds = [seed for seed in range(1, 90) if sample_adstacks(seed).trap == trap]
    plans = (FuzzPlan((JUDGED,), stacks=seed, effort=0) for seed in seeds)
    return any(found.verdict == "disagree" for plan in plans for found in raw_stacks.compare(plan, {JUDGED: backend}))


WITNESSES: dict[str, Callable[[Backend], bool]] = {
    "shader-slots-overlap": lambda b: is_wrong(b, HISTORY),
    "shader-barrier-missing": lambda b: is_wrong(b, TWO_TASKS),
    "shader-updates-plain": lambda b: is_wrong(b, SUM, total=True),
    "shader-all-elected": lambda b: is_wrong(b, SUM, total=True),
    "shader-empty-top": lambda b: is_wrong_on_stacks(b, EMPTY),
    "shader-report-unclaimed": lambda b: is_wrong_on_stacks(b, OVERFLOW),
}


def test_every_mutant_has_a_witness() -> None:
    assert list(WITNESSES) == SHADERS
    for mutant in map(MUTANTS.__getitem__, SHADERS):
        assert mutant.description.endswith(".") and mutant.rule


@pytest.mark.rotating
@pytest.mark.parametrize("name", SHADERS)
def test_a_mutant_changes_a_result_and_leaves_nothing_behind(supervised: Backend, name: str) -> None:
    with MUTANTS[name].planted():
        assert WITNESSES[name](supervised)
    assert not WITNESSES[name](supervised)


@pytest.mark.expensive
def test_the_fuzzer_finds_a_mutant(supervised: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    """With no more than its name: where its backend runs, that is asked."""
    assert main(["fuzz", "--mutants", "shader-slots-overlap", "--cases", "20", "--seconds", "120", "--seed", "3"]) == 0
    assert "1 of 1 found" in capsys.readouterr().out


# ---- the command --------------------------------------------------------------------------------------------------


def test_the_option_takes_the_place_of_the_backend(supervised: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged_backends(("cpu", "vulkan")) == ("cpu", JUDGED) and judged_backends((JUDGED,)) == (JUDGED,)
    with pytest.raises(CommandError, match="the backend vulkan, which is not among"):
        judged_backends(("cpu",))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CommandError, match="spirv-val is not installed; cure: apt-get install spirv-tools"):
        judged_backends(("vulkan",))


@pytest.fixture
def corpus(tmp_path: Any) -> Iterator[str]:
    """A folder for findings."""
    yield str(tmp_path / "found")


@pytest.mark.expensive
def test_a_run_under_supervision(supervised: Backend, corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fuzz", "--backends", "vulkan", "--spirv-val", "--cases", "4", "--seed", "11", "--corpus", corpus]
    assert main(arguments) == 0
    assert "4 in" in capsys.readouterr().out
