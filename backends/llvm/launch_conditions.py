"""Whether a launch needs comparisons of indices: conditions on its extents and arguments, computed once a function."""
from __future__ import annotations

from typing import Any

from . import ir
from .index_forms import value_of
from .types import I1, I64, const


def needs_comparisons(e: Any) -> ir.Value:
    """Whether the extents and arguments of this launch leave it open if some index is inside. The builder of `e` stands
    at the head of its function.
    """
    b, found = e.b, const(I1, False)
    for forms in dict.fromkeys(c for conditions in e.checks.launches.values() for c in conditions):
        open_ = const(I1, True)
        for form in forms:
            open_ = b.and_(open_, b.icmp_signed("<", value_of(e, form), const(I64, 0)))
        found = b.or_(found, open_)
    return found
