"""This module describes functions of the kernel language for compile time, loops and launches, and log levels."""

from __future__ import annotations

from .entry import Entry

_WITH = """
Inside a kernel it stands after `with`, without arguments and without `as`. Here the blocks run one after another, which
is one of the allowed orders, so the `with` changes no result.

Returns:
    A context manager.

Raises:
    KernelSyntaxError: In a kernel, the call stands elsewhere, or has arguments."""


def _context(name: str, first: str) -> Entry:
    """Return the manual's entry on a context manager that permits work to run concurrently."""
    return Entry(name, "", f"{first}\n{_WITH}", returns="AbstractContextManager[None]")


def _level(name: str, rank: str) -> Entry:
    """Return the manual's entry on a constant that names a level of the log."""
    doc = f"""Name {rank} level of the log, for `sg.init(log_level=sg.{name})`.

The runtime keeps no log; the level is accepted for programs of the dialect."""
    return Entry(name, None, doc, returns="str")


_ENTRIES = (
    Entry(
        "static",
        "value, /, *values",
        """Return the value of an expression that is evaluated once, when the kernel is compiled.

        The expression is plain Python on the objects that its names mean: numbers, lists, fields, functions. In
        `for i in sg.static(range(3))` the loop is unrolled; in `if sg.static(flag)` only the chosen branch is compiled.
        What it reads is looked at before each launch: if it has changed, the kernel is compiled again. Outside kernels
        the value is returned as it is.

        Args:
            value: The expression.
            *values: More expressions; the result is then a tuple.

        Raises:
            KernelTypeError: In a kernel, the expression reads an element of a field or a value that only the launch
                knows.""",
    ),
    Entry(
        "static_assert",
        "condition, message: str = 'static assertion failed'",
        """Refuse to compile the kernel if a condition does not hold.

        The condition is evaluated like that of `sg.static`, once, when the kernel is compiled.

        Args:
            condition: An expression whose value is known at compile time.
            message: The text of the error.

        Raises:
            KernelSyntaxError: In a kernel, the condition does not hold.
            AssertionError: Outside kernels, the condition does not hold.""",
        returns="None",
    ),
    Entry(
        "static_print",
        "*values",
        """Print values once, when the kernel is compiled.

        Args:
            *values: Expressions whose values are known at compile time, as for `sg.static`.""",
        returns="None",
    ),
    Entry(
        "ndrange",
        "*spans, axes=None",
        """Return a box of indices for a loop: `for i, j in sg.ndrange(n, (1, m)):`.

        The outermost loop of a kernel over a box is parallel. One name in place of several, as in `for I in ...`,
        stands for the vector of all indices. Outside kernels, points are visited in row-major order.

        Args:
            *spans: For each axis an extent n, which means 0 to n - 1, or a pair (begin, end) with an exclusive end.
            axes: The number of the axis of each nested loop, outermost first; None for the order of the spans.

        Raises:
            KernelSyntaxError: In a kernel, the call stands elsewhere than after `in` of a loop, or without an axis.
            KernelTypeError: `axes` is no order of the axes; in a kernel, an axis is neither an extent nor a pair.""",
        returns="Iterator[Any]",
    ),
    Entry(
        "grouped",
        "domain, /",
        """Return a domain whose indices are one vector: `for I in sg.grouped(x):` with `x[I]` as the element.

        Args:
            domain: A field, an array, or `sg.ndrange(...)`.

        Raises:
            KernelSyntaxError: In a kernel, the call stands elsewhere than after `in` of a loop.
            KernelTypeError: In a kernel, the domain is a range with a step.""",
        returns="Iterator[Any]",
    ),
    Entry(
        "loop_config",
        "**options",
        """Set options of the next loop of the kernel.

        `sg.loop_config(serialize=True)` makes an outermost loop run its iterations one after another, in order. A
        gradient keeps the values of all trips of a serial loop; with `sg.loop_config(checkpoint=k)` it keeps the state
        of every k-th trip, and makes those of k trips at a time again, for less memory and more time. `block_dim` is
        the number of iterations of a block, 1 to 1024, in a loop that uses functions of `sg.simt`; 128 if it is not
        given. The other options are hints of the dialect and change no result. Outside kernels the call does nothing.

        Args:
            **options: serialize, checkpoint, parallelize, block_dim, block_dim_adaptive, bit_vectorize, name; their
                values are known at compile time.

        Raises:
            KernelSyntaxError: In a kernel, an option is unknown, or is given without its name.
            KernelTypeError: In a kernel, `checkpoint` is no integer of at least 2.""",
        returns="None",
    ),
    Entry(
        "loop_unique",
        "val, covers=None",
        """Return an index, which a program of the dialect claims to be different in each iteration.

        Nothing is assumed because of it. The claim that speeds up gradients is `sg.assume_unique`.

        Args:
            val: The index.
            covers: Accepted without effect.""",
        "d loop_unique(val) = dval",
    ),
    Entry(
        "assume_in_range",
        "val, base, low, high",
        """Return a number, and promise that base + low <= val < base + high.

        Under `sg.init(debug=True)` the promise is asserted; otherwise nothing is assumed because of it.

        Args:
            val: The number.
            base: The number that the limits are relative to.
            low: The lower limit, included.
            high: The upper limit, excluded.

        Raises:
            KernelAssertionError: Under debug, the number is not in its range.""",
        "d assume_in_range(val, base, low, high) = dval",
    ),
    _context("stream_parallel", "Mark a block of loops that may run at the same time as blocks beside it."),
    _context("graph_parallel", "Mark a block of a graph that may run at the same time as blocks beside it."),
    _context("graph_parallel_context", "Mark a block whose parts a graph may run at the same time."),
    Entry(
        "graph_do_while",
        "flag, /",
        """Repeat the body of `while sg.graph.do_while(flag):` in a kernel until the flag is 0.

        The body runs at least once. Its loops are serial.

        Args:
            flag: A 0-d integer field, or a number.

        Raises:
            KernelSyntaxError: The call stands elsewhere than after `while` in a kernel, or has other arguments.""",
        returns="bool",
    ),
    Entry(
        "simt",
        None,
        """Hold the functions on blocks of iterations: shared arrays, barriers, and subgroups of 32 lanes.

        `sg.simt.block`, `sg.simt.subgroup`, `sg.simt.grid` and `sg.simt.warp` have the names of the dialect. All work
        in the body of a parallel loop, whose blocks have `sg.loop_config(block_dim=...)` iterations.""",
    ),
    _level("TRACE", "the most detailed"),
    _level("DEBUG", "the second most detailed"),
    _level("INFO", "the ordinary"),
    _level("WARN", "the warning"),
    _level("ERROR", "the error"),
    _level("CRITICAL", "the least detailed"),
)

CONTROL = {entry.name: entry for entry in _ENTRIES}
"""Functions on compile time, loops and launches, and levels of the log, by name."""
