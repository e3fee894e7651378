"""Run one case of the fuzzer of IR texts: make a text from a seed, and check that every error is a declared one.

A text is parsed and verified. Some of the texts that pass go on: they are printed and read again, go through all passes
with each result verified, are run by the reference, and are compiled for the CPU.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Any

import numpy as np

from ....backends.base import Draws, Options
from ....backends.limits import LOCAL_BYTES
from ....backends.registry import get
from ....compiler.driver import Lowering, prepare_forward, prepare_reverse
from ....compiler.errors import InternalError, StackgradError, VerifyError
from ....compiler.ir.codec import decode, encode
from ....compiler.ir.depth import with_stack_room
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.nodes import LocalArray, StackAlloca
from ....compiler.ir.parser import parse_kernels
from ....compiler.ir.printer import print_kernel
from ....compiler.ir.types import ArrayType
from ....compiler.ir.verify import verify
from ....compiler.ir.walk import walk_kernel
from ....reference.launch import run
from ...testing.launch import is_forward
from ..model import render_ir
from ..strategies import sample, sample_adstacks
from .text_edits import edit_text

POOL = 48
"""Number of programs that texts are made of; they are the same in every run, so a seed always gives the same text."""

_FUEL = 3_000
_EXTENT = 3
_LOWERED, _LAUNCHED, _COMPILED = 2, 3, 200
"""Sampling of the texts that pass.

One in _LOWERED goes through the passes; of those, one in _LAUNCHED is run by the reference and one in _COMPILED is
compiled for the CPU.
"""

_MOST_BYTES = 1 << 22


@dataclass(frozen=True)
class TextVerdict:
    """Represent the verdict on an IR text: whether the verifier accepts it, and an undeclared error, if any.

    Attributes:
        passed: True if the verifier accepts the text.
        problem: An error that stackgrad does not declare, or empty.
    """

    passed: bool
    problem: str = ""


@cache
def base_texts() -> tuple[str, ...]:
    """Return the valid IR texts of which random edits make the texts of test cases.

    They are the kernel EVERYTHING, drawn kernels with their grad kernels, and drawn kernels of adstack statements. The
    longest quarter is left out.
    """
    found = [EVERYTHING]
    for seed in range(POOL):
        kernel = render_ir(sample(seed))
        found.append(print_kernel(kernel))
        try:
            found.append(print_kernel(prepare_reverse(kernel).kernel))
        except StackgradError:
            continue
    found += [print_kernel(sample_adstacks(seed).kernel) for seed in range(POOL // 4)]
    return tuple(sorted(found, key=len)[: len(found) * 3 // 4])


def text_of(seed: int) -> str:
    """Return the IR text of the test case with this seed: a valid text after random edits, which may be invalid."""
    rng = random.Random(f"ir text {seed}")
    texts = base_texts()
    return edit_text(rng, rng.choice(texts), texts)


def judge(seed: int) -> TextVerdict:
    """Return the verdict on the IR text that is made from the seed."""
    return judge_text(text_of(seed), random.Random(f"how far {seed}"))


def judge_text(text: str, rng: random.Random) -> TextVerdict:
    """Return the verdict on an IR text, after random compiler steps that `rng` chooses."""
    passed = False
    try:
        kernels = parse_kernels(text)
        for kernel in kernels:
            verify(kernel, "source" if is_forward(kernel) else "adjoint")
        passed = bool(kernels)
    except InternalError as error:
        return TextVerdict(passed, described("reading", error))
    except StackgradError:
        return TextVerdict(passed)
    except Exception as error:
        return TextVerdict(passed, described("reading", error))
    return TextVerdict(passed, next((p for kernel in kernels for p in _beyond(kernel, rng) if p), ""))


def described(what: str, error: BaseException) -> str:
    """Return a line on an unexpected error: its class, its message, and the line of code that raised it."""
    frame, last = error.__traceback__, ""
    while frame is not None:
        last = f"{frame.tb_frame.f_globals.get('__name__', '?')}:{frame.tb_lineno}"
        frame = frame.tb_next
    return f"{what}: {type(error).__name__} at {last}: {error}"[:400]


def _beyond(kernel: Kernel, rng: random.Random) -> list[str]:
    """Return the undeclared errors, as texts, of randomly chosen compiler steps on a kernel; "" for no error."""
    forward = is_forward(kernel)
    found = [_step("printing", lambda: _same(kernel))]
    if rng.randrange(_LOWERED):
        return found
    lowered = _ResultRecorder(lambda: prepare_forward(kernel, check=True))
    found.append(_step("passes", lowered))
    if forward:
        found.append(_step("reverse", lambda: prepare_reverse(kernel, check=True)))
    if lowered.found is None:
        return found
    made = lowered.found.kernel
    if rng.randrange(_LAUNCHED) == 0 and not _is_large(made):
        found.append(_step("reference", lambda: _launch(made, rng)))
    if rng.randrange(_COMPILED) == 0:
        found.append(_step("cpu", lambda: get("cpu").compile(made, Options(debug=False, precise=True))))
    return found


class _ResultRecorder:
    """Call the function `make` as a compiler step, and keep its result for the next steps.

    The attribute `found` has the result, or None if the function raised an error.
    """

    def __init__(self, make: Callable[[], Lowering]) -> None:
        self.make = make
        self.found: Lowering | None = None

    def __call__(self) -> None:
        self.found = self.make()


def _step(what: str, run_step: Callable[[], Any]) -> str:
    """Return the undeclared error that a compiler step raises, as text, or "" if it raises none."""
    try:
        run_step()
    except (InternalError, VerifyError) as error:
        return described(what, error)
    except StackgradError:
        return ""
    except Exception as error:
        return described(what, error)
    return ""


@with_stack_room
def _same(kernel: Kernel) -> None:
    """Raise InternalError if the kernel differs after printing and reading, or after encoding and decoding."""
    text = print_kernel(kernel)
    if parse_kernels(text) != [kernel] or decode(encode(kernel, kernel.locations), kernel.locations) != kernel:
        raise InternalError(f"not the same after printing: {text}")


def _is_large(kernel: Kernel) -> bool:
    """Return True if the reference would need much memory for a kernel."""
    size: int = sum(_EXTENT**p.type.ndim for p in kernel.params if isinstance(p.type, ArrayType))
    for stmt in walk_kernel(kernel):
        if isinstance(stmt, LocalArray):
            size += stmt.size * stmt.dtype.size * (_MOST_BYTES // LOCAL_BYTES)
        elif isinstance(stmt, StackAlloca):
            size += (stmt.capacity or 0) * 64
    return size > _MOST_BYTES


def _launch(kernel: Kernel, rng: random.Random) -> None:
    """Launch a kernel of a text case on the reference, with small arrays of small integers."""
    fill = np.random.default_rng(rng.randrange(1 << 30))
    arrays: dict[str, np.ndarray] = {}
    for p in kernel.params:
        if isinstance(p.type, ArrayType):
            shape = (_EXTENT,) * p.type.ndim
            arrays[p.name] = fill.integers(0, 3, shape).astype(p.type.dtype.dtype)
            if p.type.grad:
                arrays.setdefault(f"{p.name}.grad", np.ones(shape, p.type.dtype.dtype))
    scalars = {p.name: p.type.dtype.type(2).item() for p in kernel.params if not isinstance(p.type, ArrayType)}
    with redirect_stdout(StringIO()):
        run(kernel, arrays, scalars, draws=Draws(), fuel=_FUEL)


EVERYTHING = """\
kernel everything(x: f32[2] grad, k: i64[1], b: u1[1], n: i32, e: f64) {
  temp $t: f64
  serial {
    %0: f64 = const -0.0
    store $t[], %0
    %1: f64 = const nan
    print "some {} and {:.3f}" %1, %0
    %2: u1 = const true
    assert %2, "what"
    %3: i32 = arg n
    %20: i32 = random
    %21: f32 = bit_cast %20
  }
  bounds {
    %4: i32 = const 0
    %5: i32 = shape x, 1
  } parallel %6: i32, %7: i32 in %4 .. %5, %4 .. %5 {
    local stop: u1
    local v: f32
    local_array w: f32[3]
    %8: f32 = load x[%6, %7]
    %17: i32 = const 0
    set_element w[%17], %8
    for %9: i32 in %7 .. %17 step -2 descending until stop trips %10: i32 {
      %11: f32 = get v
      %12: f32 = mul %11, %8
      set v, %12
      %13: u1 = cmp_lt %12, %8
      if %13 {
        set stop, %13
        continue 1
      } else {
        scope {
          break 2
        }
      }
    }
    while {
      %14: f32 = get v
      %15: u1 = cmp_gt %14, %8
    } test %15 trips %16: i32 {
      %18: f32 = get_element w[%17]
      set v, %18
      break 1
    }
    %19: f32 = atomic cas x[%6, %7], %8 expected %8
    return
  }
}
"""
