"""Define the names of `quadrants.lang.graph`, which group launches into GPU graphs there and have no effect here."""

from __future__ import annotations

from ..compiler.frontend.functions import DialectGraph

do_while = DialectGraph.do_while
parallel = DialectGraph.parallel
parallel_context = DialectGraph.parallel_context

__all__ = ["do_while", "parallel", "parallel_context"]
