"""Draw atomics whose old value is used, and atomic exchanges with results that no order of iterations changes.

Old values are used only of elements that no other iteration touches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....compiler.ir.types import Scalar
from ..model import nodes as m
from ..model.nodes import Expr, Number
from .expressions import Expressions
from .functions import add, mul

KINDS = ("add", "exchange", "cas", "exchange", "add", "sub", "cas", "mul")
"""Atomics on reals whose old value is used."""


def _exchanged(element: m.Element) -> m.AtomicCall:
    return m.AtomicCall("exchange", element, Number(3))


def _swapped(element: m.Element) -> m.AtomicCall:
    return m.AtomicCall("cas", element, Number(7), Number(2))


FIXED: Mapping[str, Callable[[m.Element], m.AtomicCall]] = {"exchange": _exchanged, "cas": _swapped}
"""Updates that leave the same content however often and in whatever order iterations make them."""


class Atomics(Expressions):
    """Draw atomic calls whose returned old value is used in an expression."""

    def old_value(self, element: m.Element, dtype: Scalar) -> Expr:
        """Return an atomic call on a real element as an expression, in some cases wrapped in a bounded function."""
        e, _ = self.bounded(self.real(1))
        kind = self.draw.choice(KINDS)
        # A product is drawn with factors away from 0.
        if kind == "mul":
            e = add(Number(1.25), mul(Number(0.5), e))
        expected = self._expected(element) if kind == "cas" else None
        old = m.AtomicCall(kind, element, e, expected)
        return self.bounded((old, dtype))[0] if self.draw.boolean() else old

    def _expected(self, element: m.Element) -> Expr:
        """Return the expected operand of a compare-and-swap: the element's current value, or a random literal."""
        return element if self.draw.boolean(0.6) else self.literal()

    def old_integer(self, element: m.Element, new: Expr) -> m.AtomicCall:
        """Return an atomic call on an integer element, as an expression with the old value.

        A compare-and-swap exchanges the element if it is 1, or in any case.
        """
        kind = self.draw.choice(("add", "exchange", "cas"))
        if kind == "add":
            return m.AtomicCall("add", element, Number(1))
        return m.AtomicCall(kind, element, new, self.draw.choice((element, Number(1))) if kind == "cas" else None)
