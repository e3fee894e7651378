"""The verifier: every rule has a kernel that breaks it, and the message names it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stackgrad.compiler.errors import Span, VerifyError
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel, Param, Task, Temp
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.stages import STAGES
from stackgrad.compiler.ir.statement import Stmt, Value
from stackgrad.compiler.ir.types import ArrayType, Scalar, f32, i32, u1
from stackgrad.compiler.ir.verify import verify
from table_rows import each_row

HEAD = """\
kernel k(a: f32[1] grad, m: i32[2], flags: u1[1], n: i32) {
  temp $t: f32
  serial {
    %0: i32 = const 0
    %1: f32 = const 1.0
    %2: u1 = const true
    local v: f32
    local go: u1
    local_array w: f32[4]
"""


def body(text: str) -> Kernel:
    """Return a kernel of one serial task with i32 %0, f32 %1, u1 %2, locals v: f32 and go: u1, and an array w."""
    return parse_kernel(HEAD + text + "\n}\n}")


# Each line: statements, a part of the message.
BROKEN = {
    # values
    "unknown scalar": ("%9: i32 = arg z", "there is no scalar parameter z"),
    "scalar of another type": ("%9: f32 = arg n", "the parameter n is i32, but %9 is f32"),
    "array as a scalar": ("%9: f32 = arg a", "there is no scalar parameter a"),
    "axis": ("%9: i32 = shape a, 1", "a has rank 1 and so no axis 1"),
    "extent": ("%9: f32 = shape a, 0", "an extent is i32 or i64, not f32"),
    "extent of nothing": ("%9: i32 = shape z, 0", "there is no array z here; known: $t, a, flags, m"),
    "operands": ("%9: f32 = add %0, %1", "add does not take (i32, f32)"),
    "arity": ("%9: f32 = sin %1, %1", "sin does not take (f32, f32)"),
    "result": ("%9: f32 = cmp_lt %1, %1", "cmp_lt of (f32, f32) gives u1, but %9 is f32"),
    "select": ("%9: f32 = select %0, %1, %1", "select does not take (i32, f32, f32)"),
    "width": ("%9: f64 = bit_cast %1", "f32 and f64 differ in width"),
    # memory
    "unknown array": ("%9: f32 = load z[%0]", "there is no array z"),
    "rank": ("%9: i32 = load m[%0]", "m has rank 2, but 1 indices are given"),
    "real index": ("%9: f32 = load a[%1]", "an index is an integer, but %1 is f32"),
    "boolean index": ("store a[%2], %1", "an index is an integer, but %2 is u1"),
    "loaded type": ("%9: f64 = load a[%0]", "an element of a is f32, but %9 is f64"),
    "stored type": ("store a[%0], %0", "an element of a is f32, but %0 is i32"),
    "temporary": ("store $t[%0], %1", "$t has rank 0, but 1 indices are given"),
    "atomic": ("%9: f32 = atomic sub a[%0], %1", "there is no atomic sub"),
    "atomic of bits": ("%9: f32 = atomic bit_and a[%0], %1", "there is no atomic bit_and of f32"),
    "atomic of booleans": ("%9: u1 = atomic add flags[%0], %2", "there is no atomic add of u1"),
    "atomic cas of booleans": ("%9: u1 = atomic cas flags[%0], %2 expected %2", "there is no atomic cas of u1"),
    "atomic cas alone": ("%9: f32 = atomic cas a[%0], %1", "atomic cas, and no other, has an expected value"),
    "atomic add expecting": ("%9: f32 = atomic add a[%0], %1 expected %1", "atomic cas, and no other"),
    "expected type": ("%9: f32 = atomic cas a[%0], %1 expected %0", "an element of a is f32, but %0 is i32"),
    "atomic operand": ("%9: f32 = atomic add a[%0], %0", "an element of a is f32, but %0 is i32"),
    "atomic result": ("%9: i32 = atomic add a[%0], %1", "an element of a is f32, but %9 is i32"),
    # locals
    "undeclared": ("set z, %1", "the local z is not declared before"),
    "used before": ("%9: f32 = get z\nlocal z: f32", "the local z is not declared before"),
    "twice": ("if %2 {\n local x: f32\n} else {\n local x: i32\n}", "x is declared twice in the kernel"),
    "scope of a local": ("if %2 {\n local x: f32\n}\nset x, %1", "the local x is not visible here"),
    "set type": ("set v, %0", "the local v is f32, but %0 is i32"),
    "get type": ("%9: i32 = get v", "the local v is f32, but %9 is i32"),
    "array as a local": ("%9: f32 = get w", "w is no local, but declared by: local_array w: f32[4]"),
    "local as an array": ("set_element v[%0], %1", "v is no local array, but declared by: local v: f32"),
    "element type": ("%9: i32 = get_element w[%0]", "an element of w is f32, but %9 is i32"),
    "element set": ("set_element w[%0], %0", "an element of w is f32, but %0 is i32"),
    "element index": ("set_element w[%1], %1", "an index is an integer, but %1 is f32"),
    "empty array": ("local_array z: f32[0]", "the local array z has no elements"),
    # control
    "condition": ("if %0 {\n}", "a condition is u1, but %0 is i32"),
    "assert": ('assert %1, "m"', "a condition is u1, but %1 is f32"),
    "arm": ("if %2 {\n %9: i32 = const 1\n}\nstore m[%9, %9], %0", "%9 is not visible here"),
    "other arm": ("if %2 {\n %9: i32 = const 1\n} else {\nstore m[%9, %9], %0\n}", "%9 is not visible here"),
    "loop body": ("for %8: i32 in %0 .. %0 {\n %9: i32 = const 1\n}\nstore m[%9, %9], %0", "%9 is not visible here"),
    "loop index": ("for %9: i32 in %0 .. %0 {\n}\nstore m[%9, %9], %0", "%9 is not visible here"),
    "index type": ("for %9: f32 in %1 .. %1 {\n}", "the index of a range is an integer, but %9 is f32"),
    "bounds type": ("for %9: i64 in %0 .. %0 {\n}", "the begin of the range is i64, but %0 is i32"),
    "step": ("for %9: i32 in %0 .. %0 step 0 {\n}", "the step of a range is not 0"),
    "stop type": ("for %9: i32 in %0 .. %0 until v {\n}", "the stop of a loop is a u1 local, but v is f32"),
    "stop": ("for %9: i32 in %0 .. %0 until z {\n}", "the local z is not declared before"),
    "stop inside": ("for %9: i32 in %0 .. %0 until z {\nlocal z: u1\n}", "the local z is not declared before"),
    "trips": ("for %9: i32 in %0 .. %0 trips %8: f32 {\n}", "a trip count is i32 or i64, not f32"),
    "while trips": ("while {\n} test %2 trips %9: u32 {\n}", "a trip count is i32 or i64, not u32"),
    "test": ("while {\n} test %0 {\n}", "the test of a while is u1, but %0 is i32"),
    "while stop": ("while {\n} test %2 until v {\n}", "the stop of a loop is a u1 local, but v is f32"),
    "condition in the body": (
        "while {\n %9: u1 = const true\n} test %9 {\nstore flags[%0], %9\n}",
        "%9 is not visible here",
    ),
    "condition behind": (
        "while {\n %9: u1 = const true\n} test %9 {\n}\nstore flags[%0], %9",
        "%9 is not visible here",
    ),
    "break": ("break 1", "break 1 in 0 enclosing frames"),
    "break depth": ("scope {\n break 2\n}", "break 2 in 1 enclosing frames"),
    "if is no frame": ("if %2 {\n break 1\n}", "break 1 in 0 enclosing frames"),
    "depth 0": ("scope {\n break 0\n}", "break 0 in 1 enclosing frames"),
    "continue": ("scope {\n continue 1\n}", "continue 1 aims at a scope, not at a loop"),
    "out of a condition": ("while {\n break 1\n} test %2 {\n}", "break 1 leaves the condition of a while"),
    "far out of a condition": (
        "scope {\nwhile {\n scope {\n break 3\n}\n} test %2 {\n}\n}",
        "break 3 leaves the condition of a while",
    ),
    "print": ('print "{} {}" %0', "the template has 2 places for 1 arguments"),
}


@each_row("name", BROKEN)
def test_broken_rules(name: str) -> None:
    text, message = BROKEN[name]
    with pytest.raises(VerifyError) as caught:
        verify(body(text), "tasks")
    assert message in str(caught.value)


STACKS = {
    "capacity": ("adstack_alloca s: f32 capacity -1", "the adstack s has a negative capacity"),
    "adjoint of integers": ("adstack_alloca s: i32 adjoint", "an adstack of i32 has no adjoints"),
    "undeclared": ("adstack_pop s", "the adstack s is not declared before"),
    "local": ("adstack_pop v", "v is no adstack, but declared by: local v: f32"),
    "scope": ("if %2 {\nadstack_alloca s: f32\n}\nadstack_pop s", "the adstack s is not visible here"),
    "twice": ("adstack_alloca s: f32\nadstack_alloca s: f32", "s is declared twice in the kernel"),
    "push": ("adstack_alloca s: f32\nadstack_push s, %0", "a slot of s is f32, but %0 is i32"),
    "top": ("adstack_alloca s: f32\n%9: i32 = adstack_load_top s", "a slot of s is f32, but %9 is i32"),
    "primal only": (
        "adstack_alloca s: f32\n%9: f32 = adstack_load_top_adj s",
        "the adstack s is declared without adjoints",
    ),
    "accumulate": ("adstack_alloca s: f32\nadstack_acc_adj s, %1", "the adstack s is declared without adjoints"),
    "accumulated": ("adstack_alloca s: f32 adjoint\nadstack_acc_adj s, %0", "an adjoint of s is f32, but %0 is i32"),
    "adjoint of no parameter": ("%9: i32 = load m.grad[%0, %0]", "there is no array m.grad"),
}


@pytest.mark.parametrize("name", STACKS)
def test_broken_stack_rules(name: str) -> None:
    text, message = STACKS[name]
    with pytest.raises(VerifyError) as caught:
        verify(body(text), "adjoint")
    assert message in str(caught.value)


# ---- what the text form cannot say ---------------------------------------------------------------------------

X, I = Value(0, f32), Value(1, i32)


def kernel_of(*stmts: Stmt) -> Kernel:
    return Kernel("k", (Param("a", ArrayType(f32, 0)),), (Task(stmts),))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (kernel_of(n.Const(X, 1.0), n.Const(X, 2.0)), "%0 is defined twice"),
        (kernel_of(n.If(Value(3, u1), (n.Const(X, 1.0),))), "%3 is used before it is defined"),
        (kernel_of(n.Store("a", (), X), n.Const(X, 1.0)), "%0 is used before it is defined"),
        (kernel_of(n.Const(X, 1.0), n.Op(I, "neg", (Value(0, i32),))), "%0 is defined as f32 and used as i32"),
        (kernel_of(n.Const(X, 1)), "the constant 1 is no f32; its normal form is 1.0"),
        (kernel_of(n.Const(I, 1 << 31)), "its normal form is -2147483648"),
        (kernel_of(n.Const(I, True)), "the constant True is no i32"),
        (kernel_of(n.Const(X, 0.1)), "the constant 0.1 is no f32"),
        (kernel_of(n.Const(I, 1), n.Op(Value(2, i32), "plus", (I, I))), "there is no operation plus"),
        (Kernel("k", (Param("a", f32), Param("a", i32)), ()), "the name a is given twice"),
        (Kernel("k", (Param("a", f32),), (), (Temp("a", i32),)), "the name a is given twice"),
        (Kernel("k", (Param("a", ArrayType(i32, 1, grad=True)),), ()), "a holds i32: it has no adjoint"),
        (Kernel("k", (), (Task((), (), (n.Const(I, 1),)),)), "a serial task has no bounds"),
        (Kernel("k", (), (Task((), (Value(2, i32),), (n.Const(I, 1),), (I,), ()),)), "one begin and one end"),
    ],
)
def test_broken_nodes(kernel: Kernel, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(kernel, "tasks")
    assert message in str(caught.value)


# ---- tasks --------------------------------------------------------------------------------------------------

PARALLEL = """\
kernel k(a: f32[1]) {{
  bounds {{
    %0: i32 = const 0
    %1: i32 = shape a, 0
    {bounds}
  }} parallel %2: {index} in %0 .. %1 {{
    {body}
  }}
}}
"""


def parallel(bounds: str = "", index: str = "i32", body: str = "") -> Kernel:
    return parse_kernel(PARALLEL.format(bounds=bounds, index=index, body=body))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (parallel(index="f32"), "the index of a range is an integer, but %2 is f32"),
        (parallel(index="i64"), "the begin of the range is i64, but %0 is i32"),
        (parallel(body="%9: i32 = neg %0"), "%0 is not visible here"),
        (parallel(bounds="return"), "Return may not appear in bounds"),
        (parallel(bounds="%9: f32 = random"), "Random may not appear in bounds"),
        (parallel(bounds="%9: f32 = const 0.0\nstore a[%0], %9"), "Store may not appear in bounds"),
    ],
)
def test_broken_parallel_tasks(kernel: Kernel, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(kernel, "tasks")
    assert message in str(caught.value)


CROSSING = parse_kernel(
    """
kernel k(a: f32[1], n: i32) {
  serial {
    local v: f32
    %0: i32 = arg n
    if %9 {
      return
    }
  }
  bounds {
    %1: i32 = const 0
  } parallel %2: i32 in %1 .. %0 {
    %3: f32 = get v
    store a[%2], %3
  }
}
""".replace("    if %9", "    %9: u1 = const false\n    if %9")
)


def test_values_and_locals_cross_tasks_at_stage_source_alone() -> None:
    verify(CROSSING, "source")
    with pytest.raises(VerifyError, match="task 1: %0 is not visible here"):
        verify(CROSSING, "tasks")


def test_nothing_crosses_from_a_parallel_task() -> None:
    tasks = (parallel(body="%9: i32 = const 1").tasks[0], Task((n.Op(Value(10, i32), "neg", (Value(9, i32),)),)))
    kernel = replace(parallel(), tasks=tasks)
    with pytest.raises(VerifyError, match="task 1: %9 is not visible here"):
        verify(kernel, "source")


# ---- stages -------------------------------------------------------------------------------------------------

EXAMPLES = {
    "Scope": "scope {\n}",
    "Break": "scope {\nbreak 1\n}",
    "Continue": "for %9: i32 in %0 .. %0 {\ncontinue 1\n}",
    "Return": "return",
    "StackAlloca": "adstack_alloca s: f32",
    "For": "for %9: i32 in %0 .. %0 until go trips %8: i64 {\n}",
    "While": "while {\n%9: u1 = get go\n} test %9 until go trips %8: i32 {\n}",
    "Random": "%9: f32 = random",
    "x.grad": "%9: f32 = load a.grad[%0]",
}
LEGAL = {
    "source": {"Scope", "Break", "Continue", "Return", "For", "While", "Random"},
    "tasks": {"Scope", "Break", "Continue", "Return", "For", "While", "Random"},
    "structured": {"For", "While", "Random"},
    "adjoint": {"For", "While", "Random", "StackAlloca", "x.grad"},
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("example", EXAMPLES)
def test_legality(stage: str, example: str) -> None:
    kernel = body(EXAMPLES[example])
    if example in LEGAL[stage]:
        verify(kernel, stage)
    else:
        with pytest.raises(VerifyError, match="may not appear at this stage|there is no array a.grad"):
            verify(kernel, stage)


def test_an_adjoint_array_may_be_a_parameter_of_its_own() -> None:
    verify(parse_kernel("kernel k(a: f32[0], a.grad: f32[0]) {\nserial {\n%0: f32 = load a.grad[]\n}\n}"), "tasks")


# ---- messages -----------------------------------------------------------------------------------------------


def located(dtype: Scalar) -> Kernel:
    span = Span("model.py", 7, 4, 13, "    y = x + 1")
    stmt = n.Set("v", Value(0, dtype), loc=1)
    made = kernel_of(n.Local("v", f32), n.Const(Value(0, dtype), dtype(1)), stmt)  # type: ignore[arg-type]
    return replace(made, locations=(None, span))


def test_a_message_names_kernel_stage_task_statement_and_place() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(located(i32), "tasks")
    assert str(caught.value) == (
        "kernel k, stage tasks, task 0: the local v is f32, but %0 is i32\n"
        "    set v, %0\n"
        "    model.py:7:5\n"
        "        y = x + 1\n"
        "        ^^^^^^^^^"
    )
    verify(located(f32), "tasks")


def test_a_message_shows_the_head_of_a_block_alone() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(body("if %0 {\n" + "store a[%0], %1\n" * 50 + "}"), "tasks")
    head, place, *_ = str(caught.value).splitlines()[1:]
    assert head == "    if %0 { ... }" and place.startswith("    <kernel given as IR text>:")


def test_the_statement_after_a_block_is_named_right() -> None:
    loop = n.For(Value(2, i32), I, I, (n.Local("v", f32),), trips=I)
    with pytest.raises(VerifyError) as caught:
        verify(kernel_of(n.Const(X, 1.0), n.Const(I, 1), loop), "tasks")
    assert "%1 is defined twice\n    for %2" in str(caught.value)
