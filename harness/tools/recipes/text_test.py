"""Write the text test of a new operation: a kernel, and cases that fail until the expected results are filled in."""

from __future__ import annotations

from ....compiler.ir.ops import OpInfo
from ....compiler.ir.types import SCALARS, Scalar
from .steps import UNWRITTEN

OPERANDS = ("x", "z")
"""Names of the arrays that the operands come from."""


def kir_path(name: str) -> str:
    """Return the path of the text test of an operation, from the root of the checkout."""
    return f"tests/ops/{name}.kir"


def kir_text(name: str, model: OpInfo) -> str:
    """Return the contents of the text test (.kir file) of a new operation.

    Args:
        name: name of the new operation.
        model: the existing operation on which it is modeled.
    """
    types = _types(model)
    result = model.types((types[0],) * model.arity)
    smooth = model.kind in ("smooth", "kinked")
    output = "T" if result == types[0] else str(result)
    parts = [
        f"// {name}: {UNWRITTEN} say what happens in edge cases, as in OPS.",
        f"\n// types: {' '.join(t.name for t in types)}",
        _kernel(name, model.arity, output, smooth and types[0].is_real),
        f"\n// {UNWRITTEN} write the right results in place of these, then add edge values: zeros, infinities, NaN,",
        "// the largest and the least numbers of each type.",
        f"// run: {_arrays(model, types[0])} -> y=[{_wrong(result or types[0])}]",
    ]
    if smooth and types[0].is_real:
        parts += ["", *_adjoints(model, types[0])]
    if model.traps:
        parts += [f"\n// {UNWRITTEN} add a trap line and a release line for the operands that trap."]
    return "\n".join(parts) + "\n"


def _types(model: OpInfo) -> list[Scalar]:
    """Return the types on which the test runs the operation: its real types, else its integers, else all."""
    taken = [t for t in SCALARS.values() if model.types((t,) * model.arity) is not None]
    return [t for t in taken if t.is_real] or [t for t in taken if t.is_int] or taken


def _kernel(name: str, arity: int, output: str, with_gradient: bool) -> str:
    """Return the text of a kernel that applies the operation to each element."""
    grad = " grad" if with_gradient else ""
    arrays = OPERANDS[:arity]
    parameters = ", ".join([*(f"{array}: T[1]{grad}" for array in arrays), f"y: {output}[1]{grad}"])
    loads = [f"    %{3 + k}: T = load {array}[%2]" for k, array in enumerate(arrays)]
    operands = ", ".join(f"%{3 + k}" for k in range(arity))
    return "\n".join(
        [
            f"kernel {name}({parameters}) {{",
            "  bounds {",
            "    %0: i32 = const 0",
            "    %1: i32 = shape x, 0",
            "  } parallel %2: i32 in %0 .. %1 {",
            *loads,
            f"    %{3 + arity}: {output} = {name} {operands}",
            f"    store y[%2], %{3 + arity}",
            "  }",
            "}",
        ]
    )


def _number(dtype: Scalar, value: int) -> str:
    """Return a number as text for a .kir file, such as `2.0` for reals, and `value` modulo 2 for booleans."""
    return f"{value}.0" if dtype.is_real else str(value % 2 if dtype.is_bool else value)


def _arrays(model: OpInfo, dtype: Scalar) -> str:
    """Return the arrays of a test case as .kir text, such as `a=[1.0], b=[2.0]`: one element for each operand."""
    given = (f"{array}=[{_number(dtype, 1 + k)}]" for k, array in enumerate(OPERANDS[: model.arity]))
    return ", ".join(given)


def _wrong(dtype: Scalar) -> str:
    """Return the text of a result that is surely wrong: NaN, or a number that no simple operation returns."""
    return "nan" if dtype.is_real else "0" if dtype.is_bool else "113"


def _adjoints(model: OpInfo, dtype: Scalar) -> list[str]:
    """Return the comment lines of a .kir test case for adjoints, with NaN in place of each expected adjoint."""
    expected = ", ".join(f"{array}.grad=[nan]" for array in OPERANDS[: model.arity])
    return [
        f"// {UNWRITTEN} write the right adjoints in place of these, then add singular points.",
        f"// grad[f32 f64]: {_arrays(model, dtype)}, seed y=[1.0] -> {expected}",
    ]
