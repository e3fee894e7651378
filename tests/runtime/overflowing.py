"""Run a program whose first gradient overflows because it gets half of the needed slots; the next gradient is right.

The program prints the message of the overflow twice. Its argument is the number of threads.
"""

from __future__ import annotations

import sys

import stackgrad as sg
from stackgrad.backends.cpu import stacks
from stackgrad.backends.words import EPOCH
from stackgrad.runtime.session import RUNTIME

sg.init(arch=sg.cpu, default_fp=sg.f64, cpu_max_num_threads=int(sys.argv[1]))
x, y = (sg.field(sg.f64, 40, needs_grad=True) for _ in range(2))
n = sg.field(sg.i32, ())
n[None] = 20


@sg.kernel
def twenty_sines() -> None:
    for i in x:
        speed = x[i]
        for _ in range(n[None]):
            speed = sg.sin(speed)
        y[i] = speed


def gradient() -> float:
    x.fill(0.5)
    x.grad.fill(0)
    y.grad.fill(1)
    RUNTIME.backend.heap.words[EPOCH] += 1  # type: ignore[attr-defined]
    twenty_sines.grad()
    return float(x.grad[7])


known = stacks.stack_capacity
right = gradient()
for _ in range(2):
    stacks.stack_capacity = lambda stack, sizes: known(stack, sizes) // 2
    try:
        gradient()
    except sg.AdstackOverflow as overflow:
        print(overflow)
    stacks.stack_capacity = known
    assert gradient() == right
