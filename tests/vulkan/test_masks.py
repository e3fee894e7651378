"""Every feature that can be masked: a device opened without it runs what the reference runs, or says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from kir_test_support.directives import Check, read_cases, read_check
from kir_test_support.running import memory
from recorded_support import bounded, verdicts
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.vulkan.backend import MASK, VulkanBackend
from stackgrad.backends.vulkan.physical_devices import MASKABLE
from stackgrad.capture import capture
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.errors import DeviceError, Unsupported
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.harness.testing.bounds import run_bounded
from stackgrad.reference.launch import run as interpret

STATEMENTS = Path(__file__).parent.parent / "statements"
TYPES = {"float64": ("f64",), "int8": ("i8", "u8", "u1"), "int16": ("i16", "u16", "f16")}
"""What a device without the feature cannot hold."""


@pytest.fixture(scope="module", params=MASKABLE)
def masked(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    """The device without one feature."""
    made = VulkanBackend((request.param,))
    yield made
    made.reset()


def checks(file: str) -> Iterator[tuple[Kernel, Check]]:
    """Each kernel of a file with what it is run on, in the first of its types."""
    for case in read_cases((STATEMENTS / f"{file}.kir").read_text()):
        if not case.invalid:
            kernel = parse_kernel(case.source(case.types[0]))
            for directive in case.checks:
                if directive.kind == "run" and directive.applies(case.types[0], "vulkan"):
                    yield kernel, read_check(directive)


def test_the_device_is_opened_without_it(masked: VulkanBackend) -> None:
    feature = masked.masked[0]
    assert not getattr(masked.features, feature)


@pytest.mark.rotating
@pytest.mark.parametrize("file", ["atomic", "adstack", "task"])
def test_statements(masked: VulkanBackend, file: str) -> None:
    """As on the reference; what is refused holds a type that the device lacks."""
    if "modes" in masked.masked and not masked.device.card.is_cpu:
        pytest.skip("without float controls NaN and subnormal numbers are as a card likes")
    ran = 0
    for kernel, check in checks(file):
        ours, scalars = memory(kernel, check)
        theirs, draws = {name: array.copy() for name, array in ours.items()}, Draws(*check.draws)
        lowered = prepare_forward(kernel)
        try:
            Launcher(lowered, masked, Options(precise=True)).run(ours, scalars, draws)
        except Unsupported as error:
            lacking = masked.masked[0]
            assert "has no " in str(error) and any(t in print_kernel(lowered.kernel) for t in TYPES.get(lacking, ()))
            continue
        except DeviceError as error:  # one thread does all, which is more than lavapipe lets it
            assert masked.masked[0] in ("int64_atomics", "int64")
            assert masked.features.quirks.loop_limit and "65,535 trips" in str(error)
            continue
        interpret(lowered.kernel, theirs, scalars, draws=draws)
        for name in check.expected:
            np.testing.assert_array_equal(ours[name], theirs[name], f"{kernel.name}: {name}")
        ran += 1
    assert ran > 5


SWEEP = """kernel sweep(x: f32[1] grad, n: i32[1], y: f32[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2] %4: i32 = load n[%2] %5: i32 = const 0 %20: i32 = const 3
    local v: f32 set v, %3
    for %6: i32 in %5 .. %4 {
      %7: f32 = get v %8: f32 = const 0.3 %9: u1 = cmp_gt %7, %8
      if %9 { %10: f32 = mul %7, %8 %11: f32 = exp %10 %12: f32 = sub %11, %7 set v, %12 }
      else { %13: f32 = mul %7, %7 %14: f32 = add %13, %8 set v, %14 }
    }
    %15: f32 = get v %16: i32 = mod %2, %20 %17: f32 = atomic add y[%16], %15 } }"""


@pytest.mark.rotating
@pytest.mark.parametrize("lowering", ["classic", "lean"])
def test_gradients(masked: VulkanBackend, lowering: str) -> None:
    """Of f32, which asks for no feature: histories of a loop, and sums of many threads."""
    lowered = prepare_reverse(parse_kernel(SWEEP), lowering)
    arrays = {
        "x": np.linspace(-1, 1, 3000, dtype=np.float32),
        "x.grad": np.zeros(3000, np.float32),
        "n": (np.arange(3000) % 6).astype(np.int32),
        "y": np.zeros(3, np.float32),
        "y.grad": np.array([1, 2, 3], np.float32),
    }
    known = run_bounded(lowered.kernel, arrays, {}, precise=False)
    launcher = Launcher(lowered, masked, Options())
    if masked.masked == ("int8",) and lowering == "classic":  # it keeps conditions, a byte each
        with pytest.raises(Unsupported, match="has no Int8, .*: u1 = cmp_gt"):
            launcher.run(arrays, {})
        return
    launcher.run(arrays, {})
    assert np.abs(known.arrays["x.grad"]).max() > 1
    assert verdicts(known, arrays)["x.grad"].state == "agree"


def test_programs(masked: VulkanBackend) -> None:
    """Fields and gradients of a user's program."""
    before = registry.get("vulkan")
    registry.put("vulkan", masked)
    try:
        sg.init(arch=sg.vulkan)
        x, y = sg.field(sg.f32, shape=500, needs_grad=True), sg.field(sg.f32, shape=(), needs_grad=True)

        @sg.kernel
        def norm():
            for i in x:
                v = x[i]
                for _ in range(i % 4):
                    v = v * x[i]
                y[None] += v

        x.from_numpy(np.linspace(0.5, 1.5, 500, dtype=np.float32))
        y.grad[None] = 1.0
        with capture() as recorded:
            norm()
            norm.grad()
        power, values = np.arange(500) % 4 + 1, x.to_numpy().astype(np.float64)
        forms = {"y": (values**power).sum().reshape(()), "x.grad": power * values ** (power - 1)}
        for launch, name in zip(recorded.launches, forms):
            known = bounded(launch)
            assert verdicts(known, launch.after)[name].state == "agree"
            assert verdicts(known, forms, twice=True)[name].state == "agree"
    finally:
        registry.put("vulkan", before)
        sg.init(arch=sg.cpu)


def test_several_at_once(vulkan: VulkanBackend) -> None:
    """Everything that this test does not need is left out."""
    backend = VulkanBackend(MASKABLE)
    arrays = {"x": np.ones(3000, np.float32), "n": np.zeros(3000, np.int32), "y": np.zeros(3, np.float32)}
    Launcher(prepare_forward(parse_kernel(SWEEP)), backend, Options()).run(arrays, {})
    assert arrays["y"].tolist() == [1000.0] * 3


def test_what_is_no_feature_is_refused(vulkan: VulkanBackend) -> None:
    with pytest.raises(DeviceError, match="there is no feature 'float128' to mask; there are: int8, int16, float64"):
        VulkanBackend(("float128",)).compile(parse_kernel(SWEEP), Options())


# ---- the validation layer -------------------------------------------------------------------------------------------

LAYER = "VK_LAYER_KHRONOS_validation"
PROGRAM = """
from dataclasses import replace
import numpy as np
import stackgrad as sg
from stackgrad.backends import registry
sg.init(arch=sg.vulkan)
x = sg.field(sg.f32, shape=300, needs_grad=True)
n, counted = sg.field(sg.i32, shape=300), sg.field(sg.i64, shape=2)
y = sg.field(sg.f32, shape=(), needs_grad=True)
device = registry.get("vulkan").device
device.card = replace(device.card, reach=1 << 11)

@sg.kernel
def sweep():
    for i in x:
        v = x[i]
        for _ in range(n[i]):
            v = sg.exp(-v) if v > 0.2 else v * 1.01
        y[None] += v
        counted[i % 2] += i

n.from_numpy(np.arange(300, dtype=np.int32) % 5)
for _ in range(2):
    sweep()
    y.grad[None] = 1.0
    sweep.grad()
assert counted.to_numpy().sum() == 300 * 299, counted.to_numpy()
sg.reset()
print("done")
"""


@pytest.mark.rotating
@pytest.mark.parametrize("without", ["buffer_addresses", "int64_atomics,subgroups", "float32_add,float64,modes"])
def test_the_validation_layer_is_silent(vulkan: VulkanBackend, tmp_path: Path, without: str) -> None:
    """A device opened without a feature is not asked for it; windows of descriptors lie in their buffers."""
    if LAYER not in {layer.layerName for layer in vulkan.device.vk.vkEnumerateInstanceLayerProperties()}:
        pytest.skip(f"no {LAYER}; cure: apt-get install vulkan-validationlayers")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "VK_INSTANCE_LAYERS": LAYER, MASK: without}
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and (done.stdout + done.stderr).strip() == "done", done.stdout + done.stderr
