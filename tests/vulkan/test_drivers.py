"""What drivers get wrong, or are told by the validation layer: kernels that went wrong once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.vulkan import device
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.backends.vulkan.device import VulkanDevice
from stackgrad.backends.vulkan.physical_devices import NoVulkanDevice
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import SCALARS
from stackgrad.reference.scalar import NUMPY, cast

LAYER = "VK_LAYER_KHRONOS_validation"


@pytest.mark.parametrize(
    ("wide", "narrow"), [("i64", "i32"), ("u64", "u32"), ("i32", "i8"), ("i32", "i64"), ("u8", "i32"), ("u32", "i64")]
)
def test_comparisons_of_integers_that_were_resized(vulkan: VulkanBackend, wide: str, narrow: str) -> None:
    """Against constants, at the ends of both types: Mesa compares a part of some."""
    t, to = SCALARS[wide], SCALARS[narrow]
    info = np.iinfo(t.dtype)
    some = (0, 1, 5, -1, -5, 127, 128, 256, 2**31, 2**32, 2**33, info.min, info.max)
    x = np.array([v for v in some if info.min <= v <= info.max], t.dtype)
    limits = np.iinfo(to.dtype)
    constants = [c for c in (0, -1, 127, 2**31 - 1, 2**40) if limits.min <= c <= limits.max]
    tests = [(op, c) for op in ("cmp_lt", "cmp_eq", "cmp_ge") for c in constants]
    body = " ".join(
        f"%{10 + 3 * k}: {narrow} = const {c} %{11 + 3 * k}: u1 = {op} %4, %{10 + 3 * k}"
        f" %{12 + 3 * k}: i32 = const {k} store y[%{12 + 3 * k}, %2], %{11 + 3 * k}"
        for k, (op, c) in enumerate(tests)
    )
    kernel = parse_kernel(f"""kernel k(x: {wide}[1], y: u1[2]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
        %3: {wide} = load x[%2] %4: {narrow} = cast %3 {body} }} }}""")
    y = np.zeros((len(tests), len(x)), bool)
    vulkan.compile(kernel, Options()).run({"x": x, "y": y}, {}, Sizes(), Draws())
    for row, (op, c) in zip(y, tests):
        expected = NUMPY[op](cast(x, t, to), np.asarray(c, to.dtype))
        np.testing.assert_array_equal(row, expected, f"{op} {c}")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_large_arguments(vulkan: VulkanBackend, dtype: str) -> None:
    """sin, cos and tan of numbers that polynomials alone cannot reduce, near multiples of pi/2 among them."""
    rng = np.random.default_rng(7)
    t = SCALARS[dtype].dtype
    most = 38 if dtype == "f32" else 307
    near = np.array([k * np.pi / 2 for k in (10**6, 10**7 + 1, 10**15 + 2)])
    x = np.concatenate([10.0 ** rng.uniform(2, most, 300), near, [6381956970095103.0 * 2.0**797 if most > 38 else 1e9]])
    x = np.concatenate([x, -x, [np.inf, -np.inf, np.nan]]).astype(t)
    for op in ("sin", "cos", "tan"):
        kernel = parse_kernel(f"""kernel k(x: {dtype}[1], y: {dtype}[1]) {{
          bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
            %3: {dtype} = load x[%2] %4: {dtype} = {op} %3 store y[%2], %4 }} }}""")
        y = np.zeros_like(x)
        vulkan.compile(kernel, Options()).run({"x": x, "y": y}, {}, Sizes(), Draws())
        assert np.isnan(y[-3:]).all()
        expected = getattr(np, op)(x[:-3].astype(np.longdouble)).astype(t)  # f64 functions are 8 ulps off at the last
        assert (np.abs(y[:-3] - expected) <= 4 * np.spacing(np.abs(expected))).all(), op


PROGRAM = """
import numpy as np
import stackgrad as sg
sg.init(arch=sg.vulkan)
x = sg.field(sg.f32, shape=300, needs_grad=True)
n = sg.field(sg.i32, shape=300)
y = sg.field(sg.f32, shape=(), needs_grad=True)

@sg.kernel
def sweep():
    for i in x:
        v = x[i]
        for _ in range(n[i]):
            v = sg.sin(v) if v > 0.2 else v * 1.01
        y[None] += v

n.from_numpy(np.arange(300, dtype=np.int32) % 5)
for _ in range(2):
    sweep()
    y.grad[None] = 1.0
    sweep.grad()
sg.reset()
print("done")
"""


@pytest.mark.expensive
def test_the_validation_layer_is_silent(vulkan: VulkanBackend, tmp_path: Path) -> None:
    device = VulkanDevice()
    if LAYER not in {layer.layerName for layer in device.vk.vkEnumerateInstanceLayerProperties()}:
        pytest.skip(f"no {LAYER}; cure: apt-get install vulkan-validationlayers")
    wrong = (
        "from stackgrad.backends.vulkan.device import VulkanDevice\nd = VulkanDevice()\n"
        "try: d.vk.vkCreateBuffer(d.handle, d.vk.VkBufferCreateInfo(size=0, usage=32, sharingMode=0), None)\n"
        "except Exception: pass\nprint('done')"
    )
    said = [_said(program, tmp_path / "program.py") for program in (wrong, PROGRAM)]
    assert "VUID" in said[0], "the layer says nothing of what is wrong"
    assert said[1].strip() == "done"


def _said(program: str, path: Path) -> str:
    path.write_text(program)
    environment = {**os.environ, "VK_INSTANCE_LAYERS": LAYER}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


UNCAUGHT = """
import numpy as np
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.compiler.ir.parser import parse_kernel
kernel = parse_kernel('''kernel k() { serial { adstack_alloca s: f32 capacity 1
  %0: f32 = const 1.0 adstack_push s, %0 adstack_push s, %0 } }''')
registry.get("vulkan").compile(kernel, Options()).run({}, {}, Sizes(), Draws())
registry.get("vulkan").sync()
"""


def test_a_process_ends_after_an_error_that_nobody_catches(vulkan: VulkanBackend) -> None:
    done = subprocess.run([sys.executable, "-c", UNCAUGHT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "AdstackOverflow" in done.stderr


FORKED = """
import os
import numpy as np
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.compiler.errors import DeviceError
from stackgrad.compiler.ir.parser import parse_kernel
kernel = parse_kernel('kernel k(x: f32[1]) { serial { %0: i32 = const 0 %1: f32 = const 2.0 store x[%0], %1 } }')
x = np.zeros(1, np.float32)
made = registry.get("vulkan").compile(kernel, Options())
made.run({"x": x}, {}, Sizes(), Draws())
is_cpu = registry.get("vulkan").device.card.is_cpu
child = os.fork()
if child == 0:
    x[0] = 0
    try:
        made.run({"x": x}, {}, Sizes(), Draws())
        os._exit(1)
    except DeviceError as error:
        assert "forked" in str(error)
    try:
        registry.get("vulkan").compile(kernel, Options()).run({"x": x}, {}, Sizes(), Draws())
    except DeviceError as error:
        os._exit(3 if is_cpu else 0 if "spawn" in str(error) else 4)
    os._exit(0 if x[0] == 2 else 2)
assert os.waitpid(child, 0)[1] == 0 and x[0] == 2
"""


def test_a_card_is_not_opened_behind_a_fork(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver would wait for ever, or open nothing."""
    monkeypatch.setattr(device, "_OPENED", [os.getpid() - 1])
    with pytest.raises(NoVulkanDevice, match=r"has opened a card; cure: start processes by `spawn`"):
        device.VulkanDevice()
    monkeypatch.setattr(device, "_OPENED", [os.getpid() - 1, os.getpid()])
    device.VulkanDevice()._close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_opens_a_device_of_its_own(vulkan: VulkanBackend) -> None:
    """What it has inherited says that it cannot run, and does not wait for ever. A card is not opened again."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
