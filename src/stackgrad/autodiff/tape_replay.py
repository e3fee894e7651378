"""Repeat a tape after its block: its backward pass alone, or its launches with the fields' present contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..data.fields import Array
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import TapeError
from .array_claims import ArrayClaim
from .gradients import clear_all_gradients
from .losses import SeededLoss, seed_array
from .tape_state import StateLog
from .validation import Validation


class TapeReplay:
    """Define those methods of `Tape` that run its backward pass or its launches again after the block."""

    terms: list[SeededLoss]
    clear_gradients: bool
    validation: bool
    retain: bool
    _log: StateLog
    _calls: list[Callable[[], Any]]
    _guard: Validation | None
    _claims: ArrayClaim
    _final: dict[Array, int]
    _had_inner: bool
    _done: bool
    _generation: int

    if TYPE_CHECKING:

        def _begin(self) -> None: ...
        def _leave(self) -> None: ...
        def _finish(self, is_whole: bool) -> None: ...
        def _run_backward(self) -> None: ...

    def grad(self, seed: Any = None) -> None:
        """Run the tape's backward pass again, with other cotangents if `seed` is given.

        Gradients are set to 0 before the pass if the tape sets them to 0 on entry.

        Args:
            seed: Another cotangent for a single loss, of its shape or flat; None for the cotangents of the tape.

        Raises:
            TapeError: The tape was made without retain=True, its block has not ended, a field that a gradient reads was
                written since, or the seed does not fit.
        """
        self._check_done("grad")
        if not self.retain:
            raise TapeError("the tape did not keep its state", "make it with Tape(loss, retain=True), or call replay()")
        for array, version in self._final.items():
            if array.version != version:
                raise TapeError(f"{array.label} was written since the tape's block ended", "call tape.replay()")
        if RUNTIME.forward is not None and RUNTIME.forward is not self._log.mode:
            cure = "enter the tape inside of it, or call tape.replay()"
            raise TapeError("the tape recorded its launches outside of this forward mode, without tangents", cure)
        if seed is not None:
            if len(self.terms) != 1:
                raise TapeError("the tape has several losses", "make a tape with seeds for each")
            loss = self.terms[0].loss
            self.terms = [SeededLoss(loss, seed_array(seed, loss.shape, f"the seed of {loss.label}"))]
        self._claims = self._claims.renewed()
        try:
            if self.clear_gradients:
                clear_all_gradients()
            self._run_backward()
        finally:
            self._claims.end()

    def replay(self) -> None:
        """Repeat the block with the present contents of all fields: its launches, then the backward pass.

        Launches of the block and calls of grad_replaced functions are repeated with the arguments they had; writes by
        the host are not. Losses and gradients begin as on entry. Random numbers are new ones.

        Raises:
            TapeError: The block has not ended, or had another tape inside.
        """
        self._check_done("replay")
        if self._had_inner:
            raise TapeError("a tape with another one inside cannot be replayed", "make new tapes for each pass")
        calls, self._calls = self._calls, []
        self._guard = Validation() if self.validation else None
        self._log = StateLog(self._log.budget, guard=self._guard)
        self._begin()
        try:
            for call in calls:
                call()
        except BaseException:
            self._calls = calls
            self._claims.end()
            raise
        finally:
            self._leave()
        self._finish(True)

    def _check_done(self, method: str) -> None:
        """Raise TapeError unless the tape's block has ended and the runtime was not reset."""
        if not self._done:
            raise TapeError(f"tape.{method}() before the tape's block has ended", "call it after the `with` block")
        if self._generation != RUNTIME.generation:
            raise TapeError("the tape is from before the last sg.init() or sg.reset()", "make a new one")

    def launches(self) -> list[Callable[[], Any]]:
        """Return functions that each repeat one recorded launch or call."""
        return list(self._calls)
