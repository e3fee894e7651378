# ruff: noqa: F823, F841 - locals that only hold a mistake
"""One mistake with vectors, matrices or structs in a kernel, one located error with its cure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from frontend_support import Field, integers, real
from mistakes import Mistakes, check_mistake
from stackgrad.compiler.errors import (
    KernelIndexError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    LocatedError,
)
from stackgrad.compiler.frontend.aggregates import MatrixType, StructType
from stackgrad.compiler.ir.types import f64

mistake = Mistakes()

vec3 = MatrixType((3,), f64)
mat2 = MatrixType((2, 2), f64)


@sg.func
def grow(self):
    self.mass += 1.0


Body = StructType("Body", (("pos", vec3), ("mass", f64)), {"grow": grow})


class VectorField:
    """The least that the frontend asks of a field of vectors."""

    is_stackgrad_matrix_field = True
    element, shape, needs_grad, grad, element_first = vec3, (4,), False, None, False
    storage = Field(f64, (4, 3))


x, n, w = real(1.0, 2.0), integers(1, 2), VectorField()
BIG = np.ones((9, 9))
TEXT = np.array(["a", "b"])


@mistake(KernelTypeError, "`+` is given a vector of 3 and a vector of 2", "w[0] + sg.Vector([1.0, 2.0])", "same shape")
def sum_of_other_lengths():
    x[0] = (w[0] + sg.Vector([1.0, 2.0])).x  # here


@mistake(KernelTypeError, "`*` is given a 2×2 matrix and a vector of 2", "m * v", "`@`")
def entrywise_product_of_matrix_and_vector():
    m, v = sg.Matrix([[x[0], 1.0], [0.0, 1.0]]), sg.Vector([1.0, 2.0])
    x[0] = (m * v).sum()  # here


@mistake(
    KernelTypeError, "`@` is given a 2×2 matrix and a vector of 3: 2 columns do not meet 3 rows", "mat2(1.0) @ w[0]"
)
def product_of_other_shapes():
    x[0] = (mat2(1.0) @ w[0]).x  # here


@mistake(
    KernelTypeError, "`@` is given a vector of 3 and a vector of 2", "w[0] @ sg.Vector([1.0, 2.0])", "outer_product"
)
def product_of_vectors():
    x[0] = w[0] @ sg.Vector([1.0, 2.0])  # here


@mistake(KernelTypeError, "`w[0]` holds a vector of 3, not a vector of 2", "w[0] = sg.Vector([1.0, 2.0])")
def store_of_a_shorter_vector():
    w[0] = sg.Vector([1.0, 2.0])  # here


@mistake(KernelTypeError, "`v` holds a vector of 2, not a vector of 3", "v = w[0]", "v[:2]")
def local_of_another_shape():
    v = sg.Vector([1.0, 2.0])
    v = w[0]  # here


@mistake(KernelTypeError, "`v` holds one number of type f64, not a vector of 3", "v = w[0]", "v[0]")
def vector_in_a_number():
    v = x[0]
    v = w[0]  # here


@mistake(KernelTypeError, "`x[0]` holds one number of type f64, not a vector of 3", "x[0] = w[1]")
def vector_in_an_element():
    x[0] = w[1]  # here


@mistake(KernelTypeError, "a vector of 3 is made of 3 numbers or one, not of 2", "vec3(1.0, 2.0)", "3 numbers")
def too_few_entries():
    v = vec3(1.0, 2.0)  # here


@mistake(KernelTypeError, "a vector of 3 is made of 3 numbers or one, not of 4", "vec3(w[0], 2.0)")
def too_many_entries():
    v = vec3(w[0], 2.0)  # here


@mistake(KernelTypeError, "the rows of a matrix differ in length: 1 and 2", "sg.Matrix([[1.0], [2.0, 3.0]])")
def ragged_rows():
    m = sg.Matrix([[1.0], [2.0, 3.0]])  # here


@mistake(KernelTypeError, "`Vector` is given the entries of a 2×2", "sg.Vector([[1.0, 2.0], [3.0, 4.0]])", "Matrix")
def vector_of_rows():
    m = sg.Vector([[1.0, 2.0], [3.0, 4.0]])  # here


@mistake(KernelTypeError, "`Vector` is made of its entries", "sg.Vector(3)", "sg.Vector([a, b, c])")
def vector_of_a_number():
    v = sg.Vector(3)  # here


@mistake(
    KernelTypeError, "the extents of `Vector.zero` are positive integers", "sg.Vector.zero(sg.f64, n[0])", "constants"
)
def extent_of_a_vector():
    v = sg.Vector.zero(sg.f64, n[0])  # here


@mistake(KernelSyntaxError, "a vector of 3 has no entry `.w`", "w[0].w", "`x`, `y`, `z`")
def swizzle_too_far():
    x[0] = w[0].w  # here


@mistake(KernelSyntaxError, "a vector of 3 has no attribute `nrom`", "w[0].nrom", "`norm`")
def misspelled_method():
    x[0] = w[0].nrom()  # here


@mistake(KernelSyntaxError, "a 2×2 matrix has no entry `.x`", "mat2(1.0).x", "M[i, j]")
def swizzle_of_a_matrix():
    x[0] = mat2(1.0).x  # here


@mistake(KernelSyntaxError, "`v.xx` names an entry twice", "v.xx", "once")
def swizzle_written_twice():
    v = w[0]
    v.xx = sg.Vector([1.0, 2.0])  # here


@mistake(KernelIndexError, "the index 3 is outside of a vector of 3", "3", "from 0 to 2")
def index_outside():
    x[0] = w[0][3]  # here


@mistake(KernelIndexError, "the index -1 is outside of a vector of 3; indices do not count from the end", "-1")
def negative_index():
    x[0] = w[0][-1]  # here


@mistake(KernelIndexError, "a vector of 3 has 1 axis, but is indexed with 2", "w[0][1, 2]")
def too_many_indices():
    x[0] = w[0][1, 2]  # here


@mistake(KernelIndexError, "`w` has 1 axis, but is indexed with 2", "w[0, 1]", "[i][k]")
def entry_in_the_index_of_the_field():
    x[0] = w[0, 1]  # here


@mistake(KernelTypeError, "an index is an integer, not f64", "x[0]", "int(")
def real_index_of_a_vector():
    v = w[0]
    x[0] = v[x[0]]  # here


@mistake(KernelTypeError, "the bounds of a slice are integers known at compile time", "n[0]")
def slice_of_launch():
    x[0] = w[0][: n[0]].sum()  # here


@mistake(KernelTypeError, "a condition is one boolean, not a vector of 3", "w[0] > 0", ".all()")
def vector_as_a_condition():
    if w[0] > 0:  # here
        x[0] = 1.0


@mistake(KernelTypeError, "a condition is one boolean, not a 2×2 matrix", "not mat2(1.0)", ".any()")
def matrix_as_a_condition():
    x[0] = 1.0 if not mat2(1.0) else 2.0  # here


@mistake(KernelTypeError, "a number is expected here, not a vector of 3", "w[0]", "v[0]")
def vector_as_a_number():
    for i in range(w[0]):  # here
        x[i] = 0.0


@mistake(KernelTypeError, "a number is expected here, not the struct Body", "b + 1.0", "pos, mass")
def arithmetic_of_structs():
    b = Body(mass=1.0)
    x[0] = (b + 1.0).mass  # here


@mistake(KernelSyntaxError, "the struct Body has no member `mas`", "b.mas", "`mass`")
def misspelled_member():
    b = Body(mass=1.0)
    x[0] = b.mas  # here


@mistake(KernelSyntaxError, "the struct Body does not take `weight`", "1.0", "pos, mass")
def unknown_member():
    b = Body(weight=1.0)  # here


@mistake(KernelTypeError, "the member `pos` holds a vector of 3, not a vector of 2", "Body(pos=[1.0, 2.0])")
def member_of_another_shape():
    b = Body(pos=[1.0, 2.0])  # here


@mistake(KernelTypeError, "`b` holds the struct Body, not a real number", "b = 2.0")
def number_in_a_struct():
    b = Body(mass=1.0)
    b = 2.0  # here


@mistake(
    KernelTypeError, "`add` works on numbers and vectors, not on the struct Body", "sg.atomic_add(b, 1.0)", "parts"
)
def updated_struct():
    b = Body(mass=1.0)
    sg.atomic_add(b, 1.0)  # here


@mistake(
    KernelTypeError, "`determinant` takes a square matrix, not a 1×2 matrix", "sg.Matrix([[1.0, 2.0]]).determinant()"
)
def determinant_of_a_row():
    x[0] = sg.Matrix([[1.0, 2.0]]).determinant()  # here


@mistake(KernelTypeError, "its closed form is known up to 4×4", "sg.Matrix.identity(sg.f64, 5).inverse()", "loop")
def large_inverse():
    x[0] = sg.Matrix.identity(sg.f64, 5).inverse()[0, 0]  # here


@mistake(KernelTypeError, "`cross` takes vectors of 3, not a vector of 4", "a.cross(a)")
def cross_of_four():
    a = sg.Vector([1.0, 2.0, 3.0, 4.0])
    x[0] = a.cross(a).x  # here


@mistake(KernelTypeError, "`dot` takes a vector, not a 2×2 matrix", "w[0].dot(mat2(1.0))")
def dot_with_a_matrix():
    x[0] = w[0].dot(mat2(1.0))  # here


@mistake(
    KernelTypeError,
    "`a if c else b` chooses between a vector of 3 and a vector of 2",
    "w[0] if n[0] > 0 else sg.Vector([1.0, 2.0])",
    "alike",
)
def choice_of_shapes():
    v = w[0] if n[0] > 0 else sg.Vector([1.0, 2.0])  # here


@sg.func
def one_or_the_other(v):
    if v.x > 0:
        return v
    return v.xy  # here


@mistake(KernelTypeError, "`one_or_the_other` returns a vector of 3 or a vector of 2", "return v.xy", "alike")
def results_of_shapes():
    x[0] = one_or_the_other(w[0]).x


@mistake(KernelSyntaxError, "is a value here, and its parts cannot be assigned", "(w[0] + 1.0)[0]", "new local")
def part_of_a_value():
    (w[0] + 1.0)[0] = 2.0  # here


@mistake(
    KernelTypeError, "the NumPy array `BIG` of shape (9, 9) cannot be a constant of the kernel", "BIG @ w[0]", "field"
)
def large_array():
    x[0] = (BIG @ w[0]).x  # here


@mistake(KernelTypeError, "a number is expected here, not the NumPy array `BIG`", "BIG + 1.0", "64 numbers")
def large_array_as_a_number():
    x[0] = BIG + 1.0  # here


@mistake(KernelNameError, "`w` is used before it has a value", "w", "`w[i]` for an element of the field")
def updated_field_of_vectors():
    w += 1.0  # here


@mistake(KernelTypeError, "the field `w` has no gradient", "w.grad", "needs_grad")
def gradient_that_is_not_there():
    w.grad[0] = 0.0  # here


@mistake(KernelTypeError, "what a comprehension runs over has to be", "n", "constant n")
def comprehension_over_a_field():
    v = sg.Vector([x[i] for i in n])  # here


@mistake(KernelTypeError, "`fill` overwrites a vector in memory", "w[0].normalized().fill(1.0)", "local")
def fill_of_a_value():
    w[0].normalized().fill(1.0)  # here


@mistake(KernelTypeError, "`s` holds a sequence of 2, not 3 values", "s = [1.0, 2.0, 3.0]")
def sequence_of_another_length():
    s = [1.0, 2.0]
    s = [1.0, 2.0, 3.0]  # here


@mistake(KernelIndexError, "the index 2 is outside of a sequence of 2", "2", "from 0 to 1")
def index_outside_a_sequence():
    s = [w[0], w[1]]
    x[0] = s[2].x  # here


@mistake(KernelTypeError, "a local holds numbers, vectors, matrices and structs, not the field `x`", "s = [x, w]")
def fields_in_a_local():
    s = [x, w]  # here


@mistake(KernelTypeError, "the NumPy array `BIG` of shape (9, 9) cannot be a constant", "a = BIG", "field")
def large_array_in_a_local():
    a = BIG  # here


@mistake(KernelTypeError, "`w[0].x` is not known at compile time", "w[0].x", "constants")
def static_of_a_vector_in_a_field():
    if sg.static(w[0].x > 0):  # here
        x[0] = 1.0


@mistake(KernelTypeError, "`sum` takes a vector or matrix, not the field `x`", "sum(x)")
def sum_of_a_field():
    x[0] = sum(x)  # here


@pytest.mark.parametrize(("function", "kind", "reason", "at", "cure"), mistake)
def test_mistake(function: Any, kind: type[LocatedError], reason: str, at: str, cure: str) -> None:
    check_mistake(function, kind, reason, at, cure)
