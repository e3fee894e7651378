"""Run reverse mode for whole programs: `Tape` records launches and runs their gradients backward.

Rules. All active tapes record launches and watch writes. Values that the host writes, or a launch that is not recorded,
are constant: the adjoints of the values that they replace become 0, unless the tape has not used these elements before.
A gradient sees the contents right after its launch, even if they were overwritten since, and the primals have their
final values again afterwards. If the body of a tape raises, nothing runs backward. Inside a function of `grad_for`,
gradients see the present contents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..data.fields import Array
from ..launch.copying import launch_copy
from ..launch.ordered_launches import ordered_binding
from ..launch.saved_boxes import BeforeContent
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import TapeError
from .array_claims import ArrayClaim
from .backward_pass import BackwardPass
from .gradients import clear_all_gradients
from .host_reads import HostReads, results, site
from .losses import terms_of
from .overwrites import ConstantLaunch, box_of, replaced_elements
from .tape_replay import TapeReplay
from .tape_state import CustomRecord, LaunchRecord, PendingWrite, StateLog
from .unannounced_writes import shared_boxes
from .validation import Validation

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from ..compiler.sizing.regions import Box
    from ..launch.program import Binding
    from .tape_check import TapeCheck

DEFAULT_BUDGET = 1 << 30
"""Default of the bytes of overwritten state that a tape may save."""


class Tape(TapeReplay):
    """Record launches in a `with` block, at whose end `x.grad` of every field becomes the derivative of `loss`.

        with sg.ad.Tape(loss):
            run()

    A tape inside another one computes its own gradient, which is a constant to the outer tape. The outer tape records
    the same launches; it clears the gradients again before its own backward pass, and must have been made with
    clear_gradients=True. A tape is entered once; `replay()` runs its launches again.

    What the host writes inside the block, as x[i] = 2 and x.fill(0), is constant, and so is what functions and kernels
    of `no_grad` write: `x.grad` is the derivative by the contents that x had when a launch of the block first used it.

    Args:
        loss: A field or ndarray with needs_grad, or a torch tensor that requires a gradient, of one element; or a list
            of them, whose weighted sum is differentiated. Losses are set to 0 on entry.
        clear_gradients: True to set all gradients of fields and ndarrays to 0 on entry; otherwise they accumulate.
            Gradients of torch tensors always accumulate, as those of torch do.
        validation: True to raise ValidationError if memory that gradients depend on is written without notice; see
            `validation.py`.
        grad_check: Fields whose gradient is compared with finite differences after the block; raises GradCheckError.
        weights: A weight for each loss; None for 1.
        seed: An array of the shape of the loss; the gradient is that of sum(seed * loss). With a seed, a loss may have
            any number of elements. For a list of losses, a list of seeds.
        budget_bytes: Maximum of saved bytes: copies of contents that are overwritten inside the block and that a
            gradient reads. `used_bytes` is the number of bytes that were saved.
        retain: True to keep that state after the block, so that `grad()` can run again.
    """

    copy = staticmethod(launch_copy)

    def __init__(  # What is Any takes several kinds of fields and arrays, see functional.py.
        self,
        loss: Any,
        clear_gradients: bool = True,
        validation: bool = False,
        grad_check: Sequence[Any] | None = None,
        *,
        weights: Any = None,
        seed: Any = None,
        budget_bytes: int = DEFAULT_BUDGET,
        retain: bool = False,
    ) -> None:
        self.terms = terms_of(loss, weights, seed)
        self.loss = loss
        self.clear_gradients = clear_gradients
        self.validation = bool(validation)
        self.retain = retain
        self.recording = self.constant = True
        self._checked = list(grad_check) if grad_check is not None else []
        self._checks: TapeCheck | None = None
        self._guard = Validation() if validation else None
        self._log = StateLog(int(budget_bytes), guard=self._guard)
        self._before: dict[str, BeforeContent] = {}
        self._recorded: Binding | None = None
        self._calls: list[Callable[[], Any]] = []
        self._ending: dict[str, list[Box]] = {}
        self._entered = False
        self._done = False
        self._had_inner = False
        self._final: dict[Array, int] = {}
        self._failed: str | None = None
        self._generation = RUNTIME.generation
        self._claims: ArrayClaim
        self._reads: HostReads

    @property
    def budget_bytes(self) -> int:
        """Return the maximum number of bytes of field contents that the tape may save."""
        return self._log.budget

    @budget_bytes.setter
    def budget_bytes(self, size: int) -> None:
        self._log.budget = int(size)

    @property
    def used_bytes(self) -> int:
        """Return the number of bytes of field contents that the tape has saved."""
        return self._log.used

    # -- the block ------------------------------------------------------------------------------------------

    def __enter__(self) -> Tape:
        if self._entered:
            raise TapeError("this tape was entered before", "make a new Tape for each pass, or call tape.replay()")
        if self._checked and RUNTIME.forward is not None:
            raise TapeError("a tape with grad_check cannot be entered in forward mode", "check before")
        for outer in RUNTIME.tapes:
            outer.admit_inner()
        self._entered = True
        self._generation = RUNTIME.generation
        self._checks = self._begin_check()
        self._begin()
        if self._checks is not None:
            self._checks.begin()
        return self

    def _begin(self) -> None:
        """Reserve the losses, set losses and gradients to zero, and begin to record launches."""
        self._failed = None
        self._log.mode = RUNTIME.forward
        self._claims = ArrayClaim("this tape", self.clear_gradients)
        try:
            for term in self.terms:
                self._claims.take(term.loss.arrays)
                term.loss.begin()
            if self.clear_gradients:
                clear_all_gradients()
        except BaseException:
            self._claims.end()
            raise
        losses = (array for term in self.terms for array in term.loss.arrays)
        self._reads = HostReads(self._log, losses, self.validation)
        RUNTIME.tapes = (*RUNTIME.tapes, self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._generation != RUNTIME.generation:
            if kind is None:
                raise TapeError("sg.init() or sg.reset() was called inside the tape", "call it before")
            return
        if not self._claims.is_of_this_thread():
            RUNTIME.abandon(self._claims.own, self)
            self._claims.end()
            reason = "the tape is left in another thread than the one that entered it"
            raise TapeError(reason, "write the `with` block, and all that is launched in it, in one thread")
        self._leave()
        self._finish(kind is None)
        if kind is None:
            self._done = True
            if self._checks is not None:
                self._checks.compare()

    def _finish(self, is_whole: bool) -> None:
        """Run the backward pass after the block, unless the block raised."""
        try:
            if is_whole:
                self._end_block()
                self._run_backward()
        finally:
            self._forget()
            self._claims.end()

    def _leave(self) -> None:
        RUNTIME.tapes = tuple(t for t in RUNTIME.tapes if t is not self)

    def _end_block(self) -> None:
        if self._guard is not None and self._failed is None:
            self._guard.end()
        self._claims.check(self._matters)
        self._end_unseen(dict.fromkeys(self._log.shared))

    def _matters(self, array: Array) -> bool:
        """Return True if a derivative depends on the contents of an array, or on which launch wrote it."""
        return array.needs_grad or self._log.is_read(array)

    def _run_backward(self) -> None:
        if self._failed is not None:
            reason = f"kernel {self._failed} raised inside the tape, and may have written part of what it writes"
            raise TapeError(reason, "let the exception leave the tape's block")
        if self._had_inner:
            clear_all_gradients()
        for term in self.terms:
            term.loss.seed(term.cotangent)
        RUNTIME.tapes = (*RUNTIME.tapes, BackwardPass(self._log))
        try:
            self._log.run_backward()
        finally:
            RUNTIME.tapes = RUNTIME.tapes[:-1]

    def _forget(self) -> None:
        """Record the array versions at the end of a tape made with `retain`; for others, drop the saved contents."""
        if self.retain:
            self._final = {array: array.version for array in self._log.arrays()}
        else:
            self._log = StateLog(self._log.budget, self._log.used)
            self._guard = None

    def _begin_check(self) -> TapeCheck | None:
        if not self._checked:
            return None
        from .tape_check import TapeCheck

        return TapeCheck(self, self._checked)

    # -- what launches and host writes call -----------------------------------------------------------------

    def admit_inner(self) -> None:
        """Permit that another tape is entered inside of this one. Raise TapeError if clear_gradients is False."""
        if not self.clear_gradients:
            raise TapeError(
                "a tape inside a tape with clear_gradients=False would add its gradients to the outer ones",
                "make the outer tape with clear_gradients=True, or take the inner gradient before it",
            )
        self._had_inner = True

    def instead(self, binding: Binding, scalars: Scalars) -> Binding | None:
        """Return a binding to launch in place of this one, which records the order of atomics; None if not needed."""
        if not self._counts:
            return None
        self._log.keep_own(binding)
        return ordered_binding(binding, scalars, None if self.recording else self._ended(binding, scalars))

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Compile the gradient of a launch, and save the contents that the launch will overwrite."""
        self._claims.check(self._matters)
        self._claims.use(binding)
        if self._guard is not None:
            self._guard.before_launch(binding, scalars)
        if self._counts:
            self._end_unseen(shared_boxes(binding, scalars))
        records = self._records
        self._recorded = binding if records and _is_recorded(binding) else None
        differentiated = [binding] if self._recorded else []
        if records and self._checks is not None:
            self._calls += self._checks.before_call()
        if not self.recording and not self.constant:
            self._log.custom_use(found for found in binding.arrays.values() if isinstance(found, Array))
            for array in shared_boxes(binding, scalars):
                self._log.look(array)
        self._ending = self._ends(binding, scalars)
        launch = PendingWrite(binding, binding.write_boxes(scalars))
        for array in binding.written:
            self._log.before_write(array, launch)
        if self._ending:
            differentiated.append(binding.detached(frozenset(self._ending)))
        self._before = self._log.keep(launch, [n for b in differentiated for n in b.prepare_taped().before.values()])

    def _end_unseen(self, places: Mapping[Array, list[Box] | None]) -> None:
        """Set adjoints to zero where outside code has changed exported arrays without notice.

        Args:
            places: The boxes to compare in each array, or None for the whole array.
        """
        for array, boxes in places.items():
            self._log.look(array)
            changed = self._log.shared.changed(array, boxes)
            if changed is not None:
                self._record_host_write(array)
                self._log.unseen_write(array, changed)

    @property
    def _records(self) -> bool:
        """Return True if this tape records gradients of launches now; it does not while an inner tape runs backward."""
        return self.recording and isinstance(RUNTIME.tapes[-1], Tape)

    @property
    def _counts(self) -> bool:
        """Return True if this tape handles launches now: neither a custom gradient nor an inner backward pass runs."""
        return (self.recording or self.constant) and isinstance(RUNTIME.tapes[-1], Tape)

    def _ends(self, binding: Binding, scalars: Scalars) -> dict[str, list[Box]]:
        """Return, by array name, the boxes whose adjoints become zero because a constant launch overwrites them."""
        found = self._ended(binding, scalars) if self._counts else {}
        if found:
            binding.detached(frozenset(found)).prepare_taped()
        return found

    def _ended(self, binding: Binding, scalars: Scalars) -> dict[str, list[Box]]:
        own = binding.program.gradients if self.recording else ()
        names = sorted(binding.program.overwritten().difference(own))
        return replaced_elements(binding, scalars, names, self._log.touched)

    def after_launch(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Record a launch that has ended, so that its gradient can run."""
        if self._guard is not None:
            self._guard.after_launch(binding, scalars)
        if self._counts:
            for array, boxes in shared_boxes(binding, scalars).items():
                self._log.shared.remember(array, boxes)
        if self._records:
            self._calls.append(lambda: binding.again(scalars))
            if self._recorded is binding or _is_recorded(binding):  # Prints may launch others in between.
                self._log.add(self._record(binding, scalars, draws))
        if self._ending:
            ending, self._ending = self._ending, {}
            record = self._record(binding.detached(frozenset(ending)), scalars, draws)
            arrays = {binding.arrays[name]: boxes for name, boxes in ending.items()}
            self._log.add(ConstantLaunch(record, arrays))  # type: ignore[arg-type]

    def launch_failed(self, binding: Binding, scalars: Scalars) -> None:
        """Record that a launch failed; the tape then refuses to compute a gradient."""
        self._ending = {}
        if self._guard is not None:
            self._guard.after_launch(binding, scalars)
        if self._counts and self._failed is None:
            self._failed = binding.program.label

    def _record(self, binding: Binding, scalars: Scalars, draws: Draws) -> LaunchRecord:
        """Return the record of a launch that has ended, with versions or copies of the arrays its gradient reads."""
        backward = binding.prepare_taped()
        backward.verify(scalars, draws)
        shared = {array for array in backward.reads if array.exported}
        names = [n for n, found in backward.arrays.items() if isinstance(found, Array) and found in shared]
        foreign = {}
        taken = dict.fromkeys((*backward.foreign, *names))
        for parameter, name in ({name: name for name in taken} | dict(backward.states)).items():
            foreign[parameter] = self._log.unseen_content(backward, name)
        found = backward.read_boxes(scalars, self._before)
        boxes = {array: own for array, own in found.items() if array not in shared}
        kept = {backward.arrays[name] for name in self._before}
        versions = {array: array.version for array, own in boxes.items() if own or array not in kept}
        return LaunchRecord(binding, scalars, draws, versions, boxes, foreign, self._before, site())

    def before_host_write(self, array: Array, place: Any) -> None:
        """Save the contents that the host will overwrite, and record that their adjoints become zero."""
        self._record_host_write(array)
        if self._guard is not None:
            self._guard.before_host_write(array, place)
        self._log.before_write(array, PendingWrite(None, {}))
        if place is None:
            self._before_export(array)
        elif self._counts:
            box = box_of(place, array.shape)
            self._log.host_write(array, box)
            self._log.shared.announced(array, box)

    def before_host_read(self, array: Array, place: Any) -> bool:
        """Warn, or raise TapeError, if the host is about to read a value with a derivative. Return True if so."""
        if not self.recording and not self.constant:
            return True  # A function with a gradient of its own may read what it wants.
        return self._records and array.needs_grad and self._reads.read(array, place)

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """Warn, or raise TapeError, if the host reads a launch's result with a derivative. Return True if so."""
        if not self.recording and not self.constant:
            return True
        return self._records and self._reads.result(binding)

    def _record_host_write(self, array: Array) -> None:
        if self._checks is not None and self.recording:
            self._checks.host_write(array)

    def _before_export(self, array: Array) -> None:
        """Copy an array that the tape's launches have used, before other code can write to its memory."""
        if array.needs_grad and not array.exported and isinstance(RUNTIME.tapes[-1], Tape) and self._log.touched(array):
            self._log.look(array)

    def before_custom(self) -> None:
        """Detect writes to exported arrays before a function with a custom gradient, or with none, runs."""
        self._end_unseen(dict.fromkeys(self._log.shared))

    def add_custom(self, gradient: Callable[[], Any] | None, again: Callable[[], Any]) -> None:
        """Record a call of a function with a custom gradient, or with None for none; `again` repeats the call."""
        self._calls.append(again)
        if gradient is not None:
            self._log.add(CustomRecord(gradient))
            for array in self._log.shared:
                self._log.shared.remember(array)


def _is_recorded(binding: Binding) -> bool:
    """Return True if the gradient of a launch changes something, or if the kernel's result may have a derivative.

    Raise the error of the gradient if it is refused.
    """
    return bool(binding.program.gradients) and (binding.prepare_taped().has_effect or bool(results(binding)))
