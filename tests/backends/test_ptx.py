"""Test PTX: kernels of every kind are generated and assembled by ptxas; precise arithmetic is not fused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.code import generate
from stackgrad.backends.cuda.ptx import ptx
from stackgrad.backends.cuda.toolkit import libdevice_path, ptxas_path
from stackgrad.backends.cuda.warp import ROUNDS
from stackgrad.compiler.errors import Unsupported
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.nodes import Op
from stackgrad.compiler.ir.ops import ATOMIC_OPS, OPS, atomic_fits, result_type
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import SCALARS, u1

FORWARD = """kernel sim.step(n: i32, x: f32[1], y: f64[2], b: u1[1]) {
  temp $t: f32
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32, %3: i32 in %0 .. %1, %0 .. %1 {
    local v: f32
    local_array a: f32[4]
    %4: f32 = load x[%2]
    set v, %4
    for %5: i32 in %2 .. %3 {
      %6: f32 = get v
      %7: f32 = sin %6
      %8: f32 = mul %7, %4
      %9: f32 = add %8, %6
      set v, %9
      set_element a[%5], %9
      %10: u1 = cmp_gt %9, %7
      if %10 { return }
    }
    %11: f32 = get_element a[%3]
    %12: f32 = atomic add $t[], %11
    %13: f64 = random
    store y[%2, %3], %13
  }
  serial {
    %20: f32 = load $t[]
    %21: i32 = const 0
    store x[%21], %20
    %22: u1 = load b[%21]
    if %22 { return }
    assert %22, "never"
  }
}"""

ADSTACK = """kernel back(n: i32, x: f32[1] grad, k: i64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    adstack_alloca v: f32 adjoint of v
    adstack_alloca f: u1
    adstack_alloca i: i64 capacity 7
    %3: f32 = load x[%2]
    %4: i32 = const 0
    %5: i32 = arg n
    %6: i64 = load k[%2]
    %7: u1 = cmp_gt %3, %3
    for %8: i32 in %4 .. %5 {
      adstack_push v, %3
      adstack_push f, %7
      adstack_push i, %6
    }
    for %9: i32 in %4 .. %5 descending {
      %10: f32 = adstack_load_top v
      %11: f32 = adstack_load_top_adj v
      adstack_acc_adj v, %10
      %12: f32 = cos %10
      %13: f32 = mul %12, %11
      %14: f32 = atomic add x.grad[%2], %13
      %15: u1 = adstack_load_top f
      %16: i64 = adstack_load_top i
      if %15 { %17: i64 = atomic max k[%2], %16 }
      adstack_pop v
      adstack_pop f
      adstack_pop i
    }
  }
}"""


def assemble(text: str, folder: Path, arch: str = "sm_90") -> None:
    """Assemble PTX by ptxas, and fail with its error message."""
    tool = ptxas_path()
    assert tool, "ptxas is part of the development dependencies: pip install nvidia-cuda-nvcc"
    source = folder / "kernel.ptx"
    source.write_text(text)
    command = [tool, f"-arch={arch}", "-O0", str(source), "-o", str(folder / "kernel.cubin")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, f"{made.stderr}\n{text}"
    assert (folder / "kernel.cubin").stat().st_size > 500


def entries(text: str) -> list[str]:
    return re.findall(r"\.visible \.entry (\w+)", text)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_forward(tmp_path: Path, arch: str, debug: bool) -> None:
    text = ptx(parse_kernel(FORWARD), arch, Options(debug=debug))
    assert entries(text) == ["sim_step_task_0", "sim_step_task_1"]
    assert f".target {arch}" in text
    assemble(text, tmp_path, arch)


def test_adstacks(tmp_path: Path) -> None:
    text = ptx(parse_kernel(ADSTACK))
    assert entries(text) == ["back_task_0"]
    assemble(text, tmp_path)


def test_arguments_stay_parameters() -> None:
    """No thread copies the argument block, or anything else, to local memory: slots are kernel parameters."""
    text = ptx(parse_kernel(ADSTACK.replace("cos", "exp")))
    assert ".local" not in text and "depot" not in text
    passed = generate(parse_kernel(ADSTACK), Options()).layout.passed
    assert f".param .align 8 .b8 back_task_0_param_0[{passed}]" in text


def test_bounds_that_the_task_writes_are_stored_first(tmp_path: Path) -> None:
    kernel = parse_kernel("""kernel grow(k: i32[1]) {
      bounds { %0: i32 = const 0 %1: i32 = load k[%0] } parallel %2: i32 in %0 .. %1 {
        %3: i32 = const 0
        %4: i32 = atomic add k[%3], %2
      }
    }""")
    code = generate(kernel, Options())
    assert [(e.kind, e.name) for e in code.entries] == [
        ("zero", ""),
        ("bounds", "grow_bounds_0"),
        ("task", "grow_task_0"),
    ]
    assert code.layout.state_size == 16 and list(code.layout.boxes) == [0]
    assemble(ptx(kernel), tmp_path)


def test_a_kernel_that_keeps_nothing_clears_nothing() -> None:
    assert generate(parse_kernel(ADSTACK), Options()).layout.state_size == 0
    code = generate(parse_kernel(FORWARD), Options())
    assert [e.kind for e in code.entries] == ["zero", "task", "task"] and code.layout.state_size == 8


def test_later_tasks_do_not_run_behind_a_return(tmp_path: Path) -> None:
    kernel = parse_kernel("""kernel k(x: f32[0]) {
      serial { %0: f32 = load x[] %9: f32 = const 0.5 %1: u1 = cmp_gt %0, %9 if %1 { return } }
      serial { %2: f32 = const 1.0 store x[], %2 }
    }""")
    code = generate(kernel, Options())
    assert code.layout.returned_at == 0 and code.layout.state_size == 8
    text = ptx(kernel)
    assert "st.global.b64" in text
    assemble(text, tmp_path)


def test_large_blocks(tmp_path: Path) -> None:
    """Past 4 KiB of parameters PTX of a late version is needed; past what the hardware takes there is no code."""

    def kernel(scalars: int) -> Kernel:
        params = ", ".join(f"s{k}: f32" for k in range(scalars))
        last = f"%0: f32 = arg s{scalars - 1} store x[], %0"
        return parse_kernel(f"kernel k({params}, x: f32[0]) {{ serial {{ {last} }} }}")

    assemble(ptx(kernel(3000)), tmp_path)
    with pytest.raises(Unsupported, match=r"take 40\d{3} bytes of parameters, and a GPU takes 32764"):
        ptx(kernel(5000))


def test_libdevice_is_linked_and_stripped() -> None:
    """No function stays external, none is kept unused, and no reflection is left to the driver."""
    assert libdevice_path()
    text = ptx(parse_kernel(FORWARD))
    assert ".extern" not in text and "reflect" not in text
    assert re.findall(r"^\.(?:visible )?\.?func .*", text, re.M) and not re.search(r"\.func .*__nv_", text)
    assert "__nv_" not in ptx(parse_kernel("kernel k(x: f32[0]) { serial { %0: f32 = load x[] store x[], %0 } }"))


def test_precise_code_is_not_fused() -> None:
    """What ptxas may contract is spelled without a rounding mode; precise code spells it."""
    kernel = parse_kernel("""kernel k(x: f32[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        %3: f32 = load x[%2]
        %4: f32 = mul %3, %3
        %5: f32 = add %4, %3
        %6: f32 = div %5, %3
        %7: f32 = sqrt %6
        store x[%2], %7
      }
    }""")
    precise = ptx(kernel)
    assert "mul.rn.f32" in precise and "add.rn.f32" in precise and "fma" not in precise
    assert "div.rn.f32" in precise and "sqrt.rn.f32" in precise and ".ftz" not in precise
    assert "fma.rn.f32" in ptx(kernel, options=Options(precise=False))


def every_op() -> Kernel:
    """Return a kernel of one serial task with each operation on each type, and each cast; arrays get the results."""
    lines, next_id = ["%0: i32 = const 0"], 1000
    for number, t in enumerate(SCALARS.values(), 1):
        lines.append(f"%{number}: {t} = load m_{t}[%0]")
    value = {t: number for number, t in enumerate(SCALARS.values(), 1)}
    for op, t in ((op, t) for op in OPS.values() for t in SCALARS.values()):
        types = (u1, t, t) if op.arity == 3 else (t,) * op.arity
        out = result_type(op.name, types)
        if out is not None:
            lines.append(f"%{next_id}: {out} = {op.name} {', '.join(f'%{value[x]}' for x in types)}")
            lines.append(f"store m_{out}[%0], %{next_id}")
            next_id += 1
    for a in SCALARS.values():
        for b in SCALARS.values():
            if a != b:
                lines += [f"%{next_id}: {b} = cast %{value[a]}", f"store m_{b}[%0], %{next_id}"]
                next_id += 1
    return _with_arrays("ops", lines)


def every_atomic() -> Kernel:
    lines, next_id = ["%0: i32 = const 0"], 1000
    for number, t in enumerate(SCALARS.values(), 1):
        lines.append(f"%{number}: {t} = load m_{t}[%0]")
        for op in ATOMIC_OPS:
            if atomic_fits(op, t):
                expected = f" expected %{number}" if op == "cas" else ""
                lines.append(f"%{next_id}: {t} = atomic {op} m_{t}[%0], %{number}{expected}")
                lines.append(f"store m_{t}[%0], %{next_id}")
                next_id += 1
    return _with_arrays("atomics", lines)


def every_print() -> Kernel:
    lines = ["%0: i32 = const 0"]
    for number, t in enumerate(SCALARS.values(), 1):
        lines += [f"%{number}: {t} = load m_{t}[%0]", f'print "{t}: {{}}" %{number}']
    return _with_arrays("prints", lines)


def _with_arrays(name: str, lines: list[str]) -> Kernel:
    params = ", ".join(f"m_{t}: {t}[1]" for t in SCALARS.values())
    return parse_kernel(f"kernel {name}({params}) {{ serial {{ {chr(10).join(lines)} }} }}")


@pytest.mark.parametrize("make", [every_op, every_atomic, every_print])
def test_every_operation(tmp_path: Path, make: object) -> None:
    kernel = make()  # type: ignore[operator]
    if make is every_op:
        assert {s.op for s in kernel.tasks[0].body if isinstance(s, Op)} == set(OPS)
    assemble(ptx(kernel), tmp_path)


GATED = """kernel gated(n: i32, m: i32, act: i32[1], x: f32[1] grad, y: f32[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = arg n } parallel %2: i32 in %0 .. %1 {
    %3: i32 = load act[%2]
    %4: i32 = const 0
    %5: u1 = cmp_gt %3, %4
    if %5 {
      adstack_alloca v: f32
      local w: f32
      %6: f32 = load x[%2]
      set w, %6
      %7: i32 = arg m
      %8: f32 = const 0.95
      for %9: i32 in %4 .. %7 {
        %10: f32 = get w
        adstack_push v, %10
        %11: f32 = sin %10
        %12: f32 = mul %11, %8
        set w, %12
      }
      local a: f32
      %13: f32 = load y.grad[%2]
      set a, %13
      for %14: i32 in %4 .. %7 descending {
        %15: f32 = adstack_load_top v
        adstack_pop v
        %16: f32 = get a
        %17: f32 = cos %15
        %18: f32 = mul %16, %8
        %19: f32 = mul %17, %18
        set a, %19
      }
      %20: f32 = get a
      %21: f32 = atomic add x.grad[%2], %20
    }
  }
}"""


def test_a_gated_task_can_run_over_a_list(tmp_path: Path) -> None:
    code = generate(parse_kernel(GATED), Options())
    assert [e.kind for e in code.entries] == ["zero", "select", "listed", "task"]
    assert code.layout.length_at == {0: 0}
    text = ptx(parse_kernel(GATED), options=Options(bounds=False))
    assert entries(text) == [f"gated_{kind}_0" for kind in ("select", "listed", "task")]
    select = text[text.index("gated_select_0(") : text.index("gated_listed_0(")]
    rounds, once = sum(ROUNDS), len(ROUNDS)
    assert select.count("vote.sync.ballot") == rounds and select.count("bar.sync") == 2 * once + 2
    assert select.count("atom.") == 1, "for a block and chunk"
    assemble(text, tmp_path)


def blocks(text: str, entry: str) -> list[str]:
    """Return the basic blocks of an entry point, as texts."""
    body = text[text.index(f".entry {entry}") :]
    return re.split(r"^\$L\w+:", body[: body.index("\n}")], flags=re.M)


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


ARITHMETIC = r"\b(?:fma|mul|add)(?:\.rn)?\.f32"
DEAR = r"mul\.lo|mad|selp|(max|min)\.[su]|\.local|div|s64 \t%p"


def test_loops_over_adstacks_are_tight() -> None:
    """An access a step, at an address that one addition gives; a few instructions for the sine, no division of any
    kind, no choice by depth: the loops looked at the room and at the depth before, and at the arguments four at a time.
    """
    found = blocks(ptx(parse_kernel(GATED), options=Options(precise=False, bounds=False)), "gated_task_0")
    pushes = [b for b in found if b.count("st.global") and count(ARITHMETIC, b) >= 5 and "ld.global" not in b]
    assert sorted(b.count("st.global") for b in pushes) == [1, 8]  # and what eights leave over
    for push in pushes:
        steps = push.count("st.global")
        assert count(ARITHMETIC, push) <= 7 * steps and count("add.s64", push) <= 1 + steps
    (place,) = (k for k, b in enumerate(found) if b.count("ld.global") == 4)
    reads, computes = found[place : place + 2]
    assert count("add.s64", reads + computes) == 4 and ".global" not in computes
    assert count(r"max\.f32", reads) == 3 and count(r"setp\.\w+\.f32", reads) == 1
    assert count(ARITHMETIC, computes) <= 7 * 4
    assert not count(DEAR, "".join(pushes) + reads + computes)


def test_precise_sums_keep_subnormal_numbers() -> None:
    """The instruction takes them for zeros; that of f64 does not."""
    text = """kernel k(x: T[1], s: T[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        %3: T = load x[%2]
        %5: i32 = const 0
        %4: T = atomic add s[%5], %3
        store x[%2], %4
      }
    }"""
    for t, exact, wanted in (("f32", True, False), ("f32", False, True), ("f64", True, True)):
        code = ptx(parse_kernel(text.replace("T", t)), options=Options(precise=exact))
        assert bool(re.search(r"atom\S*\.add\.f", code)) == wanted
        assert ("cas.b32" in code) != wanted
