# ruff: noqa: B007 - loops that only count
"""Arrays whose indices, or whose number of elements, are more than i32 holds, and loops of as many iterations.

Memory of the arrays is zero pages of the system, of which a test touches a few. Loops that visit every element are run
on the CPU alone (`test_every_...`); elsewhere loops begin where numbers are large.
"""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad import KernelTypeError
from stackgrad.backends import registry

MANY = 2**31 + 5
ROWS, COLUMNS = 2**16 + 1, 2**15
"""Of a box that has more than 2^31 elements, though no axis has."""


@pytest.fixture(params=["reference", "cpu", pytest.param("vulkan", marks=pytest.mark.rotating)])
def arch(request: pytest.FixtureRequest) -> str:
    """An executor, started."""
    if request.param == "vulkan" and not registry.probe_all()["vulkan"].available:
        pytest.skip("no Vulkan device")
    sg.init(arch=request.param, default_fp=sg.f64)
    return request.param


def long() -> np.ndarray:
    """Its last five elements are 1 to 5."""
    made = np.zeros(MANY, np.int8)
    made[-5:] = range(1, 6)
    return made


def test_every_element_of_an_axis() -> None:
    sg.init(arch=sg.cpu)

    @sg.kernel
    def k(x: sg.types.ndarray(), found: sg.types.ndarray()):
        for i in range(x.shape[0]):
            if i >= 2147483648 - 2:
                found[i - 2147483646] = x[i] + 1

    found = np.zeros(7, np.int64)
    k(long(), found)
    assert found.tolist() == [1, 1, 2, 3, 4, 5, 6]


def test_every_element_of_a_field() -> None:
    sg.init(arch=sg.cpu)

    x, found = sg.field(sg.i8, MANY), sg.field(sg.i64, 7)
    x[MANY - 1] = 7

    @sg.kernel
    def k():
        for i in x:
            if i >= 2147483648 - 2:
                found[i - 2147483646] = x[i] + 1

    k()
    assert found.to_numpy().tolist() == [1, 1, 1, 1, 1, 1, 8]


def test_every_element_of_two_axes() -> None:
    sg.init(arch=sg.cpu)

    @sg.kernel
    def k(x: sg.types.ndarray(), found: sg.types.ndarray()):
        for I in sg.grouped(x):
            if I[0] * x.shape[1] + I[1] >= ROWS * COLUMNS - 3:
                found[I[1] - (x.shape[1] - 3)] = x[I] + I[0]

    x, found = np.zeros((ROWS, COLUMNS), np.int8), np.zeros(3, np.int64)
    x[-1, -3:] = [1, 2, 3]
    k(x, found)
    assert found.tolist() == [ROWS, ROWS + 1, ROWS + 2]


@pytest.mark.usefixtures("arch")
def test_the_last_elements_of_an_axis() -> None:
    @sg.kernel
    def k(x: sg.types.ndarray(), found: sg.types.ndarray()):
        for i in range(x.shape[0] - 5, x.shape[0]):
            found[i - (x.shape[0] - 5)] = x[i] * 10 + (i - 2147483648)

    found = np.zeros(5, np.int64)
    k(long(), found)
    assert found.tolist() == [10, 21, 32, 43, 54]


@pytest.mark.usefixtures("arch")
def test_the_last_elements_of_a_field_in_a_serial_loop() -> None:
    x, total = sg.field(sg.u8, MANY), sg.field(sg.i64, ())
    x[MANY - 1], x[MANY - 3], x[4] = 200, 100, 1

    @sg.kernel
    def k():
        for _ in range(1):
            for i in range(x.shape[0] - 3, x.shape[0]):
                total[None] += x[i]

    k()
    assert total[None] == 300


@pytest.mark.usefixtures("arch")
def test_a_field_of_vectors() -> None:
    """2^30 vectors of 3: no axis is long, the storage has more than 2^31 numbers."""
    x = sg.Vector.field(3, sg.i8, shape=2**30)
    x[2**30 - 1] = [1, 2, 3]
    found = sg.field(sg.i64, 3)

    @sg.kernel
    def k():
        for i in range(x.shape[0] - 1, x.shape[0]):
            for a in sg.static(range(3)):
                found[a] = x[i][a] + i

    k()
    assert found.to_numpy().tolist() == [2**30, 2**30 + 1, 2**30 + 2]


@pytest.mark.usefixtures("arch")
def test_the_last_rows_of_two_axes() -> None:
    @sg.kernel
    def k(x: sg.types.ndarray(), found: sg.types.ndarray()):
        for i, j in sg.ndrange((x.shape[0] - 1, x.shape[0]), (x.shape[1] - 3, x.shape[1])):
            found[j - (x.shape[1] - 3)] = x[i, j] + (i * x.shape[1] + j)

    x, found = np.zeros((ROWS, COLUMNS), np.int8), np.zeros(3, np.int64)
    x[-1, -3:] = [1, 2, 3]
    k(x, found)
    assert found.tolist() == [ROWS * COLUMNS - 2, ROWS * COLUMNS, ROWS * COLUMNS + 2]


@pytest.mark.usefixtures("arch")
def test_a_product_of_extents() -> None:
    """Of a wide array it is no number of 32 bits, whatever its axes are."""

    @sg.kernel
    def k(x: sg.types.ndarray(), found: sg.types.ndarray()):
        n = x.shape[0] * x.shape[1]
        for i in range(n - 2, n):
            found[i - (n - 2)] = i

    found = np.zeros(2, np.int64)
    k(np.zeros((ROWS, COLUMNS), np.int8), found)
    assert found.tolist() == [ROWS * COLUMNS - 2, ROWS * COLUMNS - 1]


@pytest.mark.usefixtures("arch")
def test_one_kernel_for_arrays_of_all_lengths() -> None:
    """Calls like it stand ready in machine code after some: a longer array is not launched as a short one."""

    @sg.kernel
    def k(x: sg.types.ndarray(), found: sg.types.ndarray()):
        for i in range(x.shape[0] - 2, x.shape[0]):
            found[0] += i

    short = np.zeros(9, np.int8)
    empty, flat = np.zeros((2**33, 0), np.int8), np.zeros((3, 0), np.int8)

    @sg.kernel
    def extent(x: sg.types.ndarray(), found: sg.types.ndarray()):
        for i in range(x.shape[0] - 1, x.shape[0]):
            found[0] += i

    for n in range(6):
        found = np.zeros(1, np.int64)
        k(short, found)
        extent(flat, found)
        assert found[0] == 15 + 2
    found[0] = 0
    k(long(), found)
    assert found[0] == 2 * MANY - 3
    found[0] = 0
    extent(empty, found)
    assert found[0] == 2**33 - 1
    found[0] = 0
    k(short, found)
    assert found[0] == 15


@pytest.mark.usefixtures("arch")
def test_a_field_whose_indices_leave_32_bits() -> None:
    """It is short, but begins far away."""
    x = sg.field(sg.i64, 4, offset=2**31 - 2)

    @sg.kernel
    def k():
        for i in x:
            x[i] = i

    k()
    assert x.to_numpy().tolist() == [2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1]


@pytest.mark.expensive
@pytest.mark.usefixtures("arch")
def test_gradient_at_large_indices() -> None:
    wide, x, y = (np.zeros(MANY, np.int8), *(sg.field(sg.f64, 5, needs_grad=True) for _ in range(2)))
    x.from_numpy(np.arange(1.0, 6.0))

    @sg.kernel
    def k(w: sg.types.ndarray()):
        for i in range(w.shape[0] - 5, w.shape[0]):
            p = 1.0
            for j in range(w.shape[0] - 3, w.shape[0]):
                p *= x[i - (w.shape[0] - 5)]
            y[i - (w.shape[0] - 5)] = p

    y.grad.fill(1.0)
    k(wide)
    k.grad(wide)
    np.testing.assert_array_equal(y.to_numpy(), np.arange(1.0, 6.0) ** 3)
    np.testing.assert_array_equal(x.grad.to_numpy(), 3 * np.arange(1.0, 6.0) ** 2)


@pytest.mark.parametrize("bound", [2**31 + 3, -(2**33)])
@pytest.mark.usefixtures("arch")
def test_loops_between_large_numbers(bound: int) -> None:
    found = sg.field(sg.i64, 2)

    @sg.kernel
    def literal():
        for i in range(bound, bound + 4):
            found[0] += i

    @sg.kernel
    def given(begin: sg.i64, end: sg.i64):
        for i in range(begin, end):
            found[1] += i
        for _ in range(1):
            for i in range(end - 1, begin - 1, -1):
                found[1] += i

    literal()
    given(bound, bound + 4)
    assert found.to_numpy().tolist() == [4 * bound + 6, 2 * (4 * bound + 6)]


# ---- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("arch")
def test_a_kernel_as_text_that_reads_a_long_extent_in_32_bits() -> None:
    k = sg.kernel_from_text(
        """
        kernel k(x: i8[1], y: i64[1]) {
          serial {
            %0: i32 = shape x, 0
            %1: i64 = cast %0
            %2: i64 = const 0
            store y[%2], %1
          }
        }
        """
    )
    found = np.zeros(1, np.int64)
    k(x=np.zeros(7, np.int8), y=found)
    with pytest.raises(KernelTypeError, match=f"array x is of {MANY} elements along axis 0.*reads that extent as i32"):
        k(x=long(), y=found)
    assert found[0] == 7


@pytest.mark.usefixtures("arch")
def test_a_view_that_ends_behind_the_last_number_of_32_bits() -> None:
    @sg.kernel
    def k(v: sg.BufferView, found: sg.types.ndarray()):
        for i in range(v.shape[0]):
            found[0] += v[i]

    x = sg.ndarray(sg.i8, MANY)
    found = np.zeros(1, np.int64)
    k(sg.BufferView(x, 5, 7), found)
    with pytest.raises(KernelTypeError, match=f"a view of 6 elements from {MANY - 6} on is given.*2147483648"):
        k(sg.BufferView(x, MANY - 6, 6), found)


# ---- products -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("arch")
def test_a_product_that_leaves_32_bits_is_no_bound() -> None:
    """50,000 times 50,000 is below 0 in i32: a loop of so many iterations would run none."""
    x, count = sg.field(sg.f32, 50000), sg.field(sg.i32, ())

    @sg.kernel
    def of_extents():
        for i in range(x.shape[0] * x.shape[0]):
            count[None] += 1

    @sg.kernel
    def of_a_local(y: sg.types.ndarray(), n: sg.i32):
        many = n * y.shape[0]
        for i in range(many):
            count[None] += 1

    y = np.zeros(50000, np.float32)
    with pytest.raises(KernelTypeError, match="bound of this loop is 2500000000, and -1794967296 in i32") as got:
        of_extents()
    assert "range(x.shape[0] * x.shape[0])" in str(got.value)
    for n in range(1, 7):
        of_a_local(y[:n], 2)
    assert count[None] == 2 * 21
    with pytest.raises(KernelTypeError, match="bound of this loop is 2500000000"):
        of_a_local(y, 50000)


@pytest.mark.usefixtures("arch")
def test_products_of_arguments() -> None:
    """Calls like it stand ready in machine code, but with other numbers they are looked at."""
    count = sg.field(sg.i32, ())

    @sg.kernel
    def of_numbers(n: sg.i32, m: sg.i32):
        for i in range(3, n * m - 2):
            count[None] += 1

    @sg.kernel
    def inside(n: sg.i32):
        for i in range(1):
            for j in range(n * n):
                count[None] += 1

    for n in range(1, 7):
        count[None] = 0
        of_numbers(n, 3)
        inside(n)
        assert count[None] == max(3 * n - 5, 0) + n * n
    for launch in (lambda: of_numbers(50000, 50000), lambda: inside(50000)):
        with pytest.raises(KernelTypeError, match="bound of this loop is (2500000000|2499999998)"):
            launch()
    count[None] = 0
    of_numbers(2, 4)
    assert count[None] == 3


@pytest.mark.usefixtures("arch")
def test_a_product_behind_a_condition_may_wrap() -> None:
    count = sg.field(sg.i32, ())

    @sg.kernel
    def guarded(n: sg.i32):
        for i in range(1):
            if n < 1000:
                for j in range(n * n):
                    count[None] += 1

    guarded(50000)
    guarded(5)
    assert count[None] == 25


@pytest.mark.usefixtures("arch")
def test_a_product_that_leaves_32_bits_is_no_bound_of_a_gradient() -> None:
    x, y = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))

    @sg.kernel
    def k(n: sg.i32):
        for i in x:
            v = x[i]
            for _ in range(n * n):
                v *= x[i]
            y[i] = v

    with pytest.raises(KernelTypeError, match="bound of this loop is 2500000000"):
        k.grad(50000)
    x.fill(2.0)
    y.grad.fill(1.0)
    k.grad(1)
    assert x.grad.to_numpy().tolist() == [4.0] * 3


@pytest.mark.expensive
@pytest.mark.optimized
def test_a_while_of_more_rounds_than_32_bits_count() -> None:
    """It saves nothing for a round, so its gradient is the loop the other way round, as often."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    x, y = (sg.field(sg.f64, 1, needs_grad=True) for _ in range(2))

    @sg.kernel
    def k(many: sg.i64):
        for i in x:
            total = 0.0
            n = sg.i64(0)
            while n < many:
                total += x[i]
                n += 1
            y[i] = total

    x.fill(1.0)
    y.grad.fill(1.0)
    k.grad(2**31 + 2**20)
    assert x.grad[0] == 2**31 + 2**20
