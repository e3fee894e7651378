"""This module describes atomic functions and other functions of the kernel language that concern elements of arrays."""

from __future__ import annotations

from .entry import Entry


def _atomic(name: str, first: str, value: str, derivative: str = "", note: str = "") -> Entry:
    """Return the manual's entry on an atomic function of two arguments; `note` is a paragraph on its derivative."""
    doc = """

    {atomic}{note}

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: {value}

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes."""
    doc = first + doc.replace("{value}", value).replace("{note}", note and f"\n\n    {note}")
    return Entry(f"atomic_{name}", "x, value, /", doc, derivative and f"d x = {derivative}")


_EXTREME = """\
If several iterations hold the final value, the first one that reached it gets the whole adjoint. The value before the
    call gets it only if no iteration holds it."""

_ENTRIES = (
    _atomic("add", "Add a value to x and return the old value, like `x += value`.", "A number.", "dx + dvalue"),
    _atomic("sub", "Subtract a value from x and return the old value, like `x -= value`.", "A number.", "dx - dvalue"),
    _atomic(
        "mul",
        "Multiply x by a value and return the old value, like `x *= value`.",
        "A number.",
        "value * dx + x * dvalue",
        "If several iterations multiply one element, the gradient needs `sg.ad.Tape`.",
    ),
    _atomic(
        "min",
        "Store the lesser one of x and a value in x, and return the old value.",
        "A number.",
        "dx if x < value else dvalue",
        _EXTREME,
    ),
    _atomic(
        "max",
        "Store the greater one of x and a value in x, and return the old value.",
        "A number.",
        "dx if x > value else dvalue",
        _EXTREME,
    ),
    _atomic("and", "Store the bitwise `x & value` in x and return the old value.", "An integer."),
    _atomic("or", "Store the bitwise `x | value` in x and return the old value.", "An integer."),
    _atomic("xor", "Store the bitwise `x ^ value` in x and return the old value.", "An integer."),
    _atomic(
        "exchange",
        "Store a value in x and return the old value.",
        "A number.",
        "dvalue",
        "If several iterations exchange one element, the gradient needs `sg.ad.Tape`.",
    ),
    Entry(
        "atomic_cas",
        "x, expected, new, /",
        """Store a new value in x if x holds an expected value, and return the old value.

        Values are compared by their bits, so NaN equals itself, and 0.0 differs from -0.0.
        
        {atomic}

        Args:
            x: An element of a field or array, such as `x[i]`, or a local variable.
            expected: The number that x must hold.
            new: The number to store.

        Raises:
            KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
            KernelTypeError: x is no number.""",
        "d x = dnew if x == expected else dx",
    ),
    Entry(
        "volatile_load",
        "x, /",
        """Return the value of an element.

        It is a plain load: iterations run in any order, so no iteration can wait for the store of another one.

        Args:
            x: An element of a field or array, or any other value.""",
        "d volatile_load(x) = dx",
    ),
    Entry(
        "assume_unique",
        "*indices",
        """Return indices, and claim that no two iterations of the parallel loop have the same ones.

        Write `j = sg.assume_unique(p[i])`, or `a, b = sg.assume_unique(p[i], q[i])`, where the pair is different in
        each iteration. The gradient then does not look for iterations that share elements. A false claim makes the
        gradient undefined; `sg.init(debug=True)` finds it at each launch.

        Args:
            *indices: One or more integers.

        Returns:
            The index, or a tuple of the indices if several are given.

        Raises:
            KernelTypeError: In a kernel, an argument is no integer, or none is given.""",
    ),
    Entry(
        "block_local",
        "*args",
        """Accept arrays that a program of the dialect keeps in memory of a GPU block; the call changes no result.

        Args:
            *args: Fields, arrays or views.

        Raises:
            KernelTypeError: In a kernel, an argument is no array.""",
        returns="None",
    ),
    Entry(
        "cache_read_only",
        "*args",
        """Accept arrays that a program of the dialect keeps in a cache for reading; the call changes no result.

        Args:
            *args: Fields, arrays or views.

        Raises:
            KernelTypeError: In a kernel, an argument is no array.""",
        returns="None",
    ),
)

MEMORY = {entry.name: entry for entry in _ENTRIES}
"""Functions on elements of arrays by name."""
