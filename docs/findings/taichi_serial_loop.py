"""taichi: a wrong gradient: a serial loop at the top, an element stored and read, an index in arithmetic.

Found and made small by `stackgrad fuzz --peers`, with taichi 1.7.4. RIGHT is what
the interpreter of stackgrad and dual numbers and JAX give alike; the script compares it with central differences
of the forward pass of taichi itself.

Run it with Python that has taichi and NumPy. Exit status: 0 the gradient of taichi is right, 1 it is wrong,
2 RIGHT does not agree with central differences of the forward pass of taichi, 3 taichi raised an exception.
"""
import sys
from importlib.metadata import version

import numpy as np
import taichi as ti

ti.init(arch=ti.cpu, default_fp=ti.f64, offline_cache=False, log_level=ti.ERROR, ad_stack_size=256)

y = ti.field(ti.f64, shape=(4,), needs_grad=True)


@ti.kernel
def k():
    ti.loop_config(serialize=True)
    for i0 in range(2):
        y[i0 + 1] = y[i0]


PACKAGE = "taichi"
ARRAYS = {"y": y}
KINDS = {"y": "float64"}
# Content before the launch; d loss / d content after it; d loss / d content before it.
BEFORE = {"y": [0.0, 0.0, 0.0, 0.0]}
SEEDS = {"y": [0.0, 0.0, 1.0, 0.0]}
RIGHT = {"y": [1.0, 0.0, 0.0, 0.0]}


def launch():
    k()


def launch_backward():
    k.grad()


def fill(before):
    for name, array in ARRAYS.items():
        array.from_numpy(np.array(before[name], KINDS[name]))


def numbers(array):
    return np.array(array.to_numpy(), float)


def loss(before):
    fill(before)
    launch()
    return sum((np.array(seed) * numbers(ARRAYS[name])).sum() for name, seed in SEEDS.items())


def differences(name, step=1e-5):
    """Of the forward pass alone: (loss(v + step) - loss(v - step)) / 2 step for each number v of the array."""
    found = np.zeros(np.shape(BEFORE[name]))
    for at in np.ndindex(found.shape):
        ends = []
        for h in (step, -step):
            moved = {n: np.array(v, KINDS[n]) for n, v in BEFORE.items()}
            moved[name][at] += h
            ends.append(loss(moved))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    return found


def gradient():
    """What the package says: forward, seeds, backward."""
    fill(BEFORE)
    launch()
    for name in RIGHT:
        seed = np.broadcast_to(SEEDS.get(name, 0.0), np.shape(BEFORE[name]))
        ARRAYS[name].grad.from_numpy(np.array(seed, KINDS[name]))
    launch_backward()
    return {name: numbers(ARRAYS[name].grad) for name in RIGHT}


def close(found, right):
    return np.allclose(found, right, rtol=1e-5, atol=1e-7)


print(PACKAGE, version(PACKAGE))
measured = {name: differences(name) for name in RIGHT}
try:
    found = gradient()
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(3)
status = 0
for name, right in RIGHT.items():
    agrees = close(found[name], right)
    status = max(status, 0 if agrees else 1)
    print(f"d loss / d {name}: right {right}, {PACKAGE} {found[name].tolist()}: {'right' if agrees else 'WRONG'}")
    print(f"    central differences: {measured[name].tolist()}")
if not all(close(measured[name], RIGHT[name]) for name in RIGHT):
    print("RIGHT is not what central differences give")
    sys.exit(2)
print("wrong" if status else "right")
sys.exit(status)
