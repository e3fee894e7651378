"""Keep the keys of the random numbers of earlier launches, so that gradients replay the draws of these launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compiler.errors import NotDifferentiable
from ..runtime.session import RUNTIME

if TYPE_CHECKING:
    from ..backends.base import Draws
    from .program import Program

_MOST = 65536


class KeptDraws:
    """Store the random keys of the launches of one program, by the arguments of each launch."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[object, Draws] = {}

    def new(self, arguments: tuple[object, ...]) -> Draws:
        """Return the random key of a new forward launch, and store it for the gradient at the same arguments."""
        draws = RUNTIME.draws()
        if len(self._kept) >= _MOST:
            self._kept.pop(next(iter(self._kept)))
        self._kept[arguments] = draws
        return draws

    def last(self, arguments: tuple[object, ...], program: Program) -> Draws:
        """Return the random key of the last forward launch with these arguments.

        Args:
            arguments: The arguments.
            program: The program, for the message.

        Raises:
            NotDifferentiable: The program was not launched with these arguments.
        """
        draws = self._kept.get(arguments)
        if draws is None:
            name = program.kernel.name
            reason = f"kernel {name} draws random numbers, and was not launched with these arguments before"
            raise NotDifferentiable(reason, "launch the kernel with the same arguments before its grad", program.span)
        return draws
