"""Define the names of `quadrants.lang.graph`, which group launches; here they do not change what is executed."""

from __future__ import annotations

from ..compiler.frontend.functions import DialectGraph

do_while = DialectGraph.do_while
parallel = DialectGraph.parallel
parallel_context = DialectGraph.parallel_context

__all__ = ["do_while", "parallel", "parallel_context"]
