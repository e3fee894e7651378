"""Reverse mode for whole programs: `Tape` records launches and runs their gradients backward.

Rules. The innermost tape records; all active tapes watch writes. A gradient is taken at the state right after its
launch, wherever later writes went, and the primals have their final values again afterwards. If the body of a tape
raises, nothing runs backward. Inside a function of `grad_for`, gradients are taken at the present state.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from .fields import Field
from .session import RUNTIME, Watcher
from .tape_state import CustomRecord, Launch, Record, StateLog
from .usage import TapeError

if TYPE_CHECKING:
    from .backends.base import Draws, Scalars
    from .program import Binding

__all__ = ["DEFAULT_BUDGET", "Tape", "clear_all_gradients", "grad_for", "grad_replaced", "no_grad"]

DEFAULT_BUDGET = 1 << 30
"""Bytes that a tape may keep of overwritten state, unless told otherwise."""

F = TypeVar("F", bound=Callable[..., Any])


class Tape:
    """`with sg.ad.Tape(loss): ...` sets `x.grad` of every field to the derivative of `loss` after the block.

    loss: a real field with needs_grad that is 0-d or has one element; it is set to 0 on entry. clear_gradients: set
    all gradients to 0 on entry; otherwise they accumulate. budget_bytes: most memory for state that is overwritten
    inside the block and read by a gradient; `used_bytes` says how much was needed. A tape inside another one takes
    its own gradient, which the outer one does not see: the outer tape clears the gradients again before its own
    backward pass, and must have been made with clear_gradients=True. A tape is entered once.
    """

    def __init__(self, loss: Field, clear_gradients: bool = True, budget_bytes: int = DEFAULT_BUDGET) -> None:
        _check_loss(loss)
        self.loss = loss
        self.clear_gradients = clear_gradients
        self.recording = True
        self._log = StateLog(int(budget_bytes))
        self._entered = False
        self._had_inner = False
        self._generation = RUNTIME.generation

    @property
    def budget_bytes(self) -> int:
        """Most bytes of saved state; may be set until the tape is left."""
        return self._log.budget

    @budget_bytes.setter
    def budget_bytes(self, size: int) -> None:
        self._log.budget = int(size)

    @property
    def used_bytes(self) -> int:
        """Bytes of state that the tape saved."""
        return self._log.used

    def __enter__(self) -> Tape:
        if self._entered:
            raise TapeError("this tape was entered before", "make a new Tape for each pass")
        self.loss.check_alive()
        for outer in RUNTIME.tapes:
            outer.admit_inner()
        self._entered = True
        self._generation = RUNTIME.generation
        if self.clear_gradients:
            clear_all_gradients()
        self.loss.fill(0)
        RUNTIME.tapes = (*RUNTIME.tapes, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._generation != RUNTIME.generation:
            if kind is None:
                raise TapeError("sg.init() or sg.reset() was called inside the tape", "call it before")
            return
        RUNTIME.tapes = tuple(t for t in RUNTIME.tapes if t is not self)
        if kind is None:
            self._run_backward()
        self._log = StateLog(self._log.budget, self._log.used)

    def _run_backward(self) -> None:
        if self._had_inner:
            clear_all_gradients()
        self.loss.grad.fill(1)
        RUNTIME.tapes = (*RUNTIME.tapes, BackwardPass(self._log))
        try:
            self._log.run_backward()
        finally:
            RUNTIME.tapes = RUNTIME.tapes[:-1]

    # -- what launches and host writes call -----------------------------------------------------------------

    def admit_inner(self) -> None:
        """Another tape is entered inside this one."""
        if not self.clear_gradients:
            raise TapeError(
                "a tape inside a tape with clear_gradients=False would add its gradients to the outer ones",
                "make the outer tape with clear_gradients=True, or take the inner gradient before it",
            )
        self._had_inner = True

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Lower the gradient, so that its errors show here, and save what the launch will destroy."""
        if self is RUNTIME.tapes[-1] and self.recording and binding.program.gradients:
            binding.prepare_grad()
        launch = Launch(binding, binding.write_boxes(scalars))
        for array in binding.written:
            self._log.before_write(array, launch)

    def after_launch(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Record a launch; called on the innermost tape."""
        if not self.recording or not binding.program.gradients:
            return
        backward = binding.prepare_grad()
        foreign = {}
        for name in backward.foreign:
            array = backward.memory[name]
            why = f"the gradient of kernel {binding.program.label} reads it, and it is no field"
            self._log.reserve(array.nbytes, f"array {name!r}", why)
            foreign[name] = array.copy()
        versions = {array: array.version for array in backward.reads}
        self._log.add(Record(binding, scalars, draws, versions, backward.read_boxes(scalars), foreign))

    def before_host_write(self, array: Field) -> None:
        """Save what a write by the host will destroy."""
        self._log.before_write(array, Launch(None, {}))

    def add_custom(self, run: Callable[[], Any]) -> None:
        """Record a call of a function with a gradient of its own."""
        self._log.add(CustomRecord(run))


class BackwardPass:
    """Watches while a tape runs backward: gradient functions write primals, which are put back later."""

    recording = False

    def __init__(self, log: StateLog) -> None:
        self._log = log

    def admit_inner(self) -> None:
        """Refuse: a tape would clear the adjoints under way."""
        raise TapeError(
            "a tape cannot be entered while another one runs backward", "use kernel.grad() in gradient functions"
        )

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Keep the primals that the launch will overwrite."""
        for array in binding.written:
            self._log.disturb(array)

    def after_launch(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Nothing is recorded."""

    def before_host_write(self, array: Field) -> None:
        """Keep the primal that the host will overwrite."""
        self._log.disturb(array)

    def add_custom(self, run: Callable[[], Any]) -> None:
        """Nothing is recorded."""


def _check_loss(loss: object) -> None:
    if loss is None:
        raise TapeError("a tape needs a loss, not None", "give a 0-d field with needs_grad=True")
    if not isinstance(loss, Field):
        raise TapeError(f"the loss is a field, not {type(loss).__name__}", "give a 0-d field with needs_grad=True")
    if not loss.dtype.is_real:
        raise TapeError(f"the loss {loss.label} is of {loss.dtype}, which has no gradient", "use sg.f32 or sg.f64")
    if loss.memory.size != 1:
        raise TapeError(f"the loss {loss.label} has shape {loss.shape}, not one element", "sum it into a 0-d field")
    if not loss.needs_grad:
        raise TapeError(f"the loss {loss.label} has no gradient", "make it with needs_grad=True")


def clear_all_gradients() -> None:
    """Set the gradient of every live field to 0."""
    for field in list(RUNTIME.fields):
        if field.needs_grad:
            field.grad.fill(0)


@contextmanager
def _unrecorded() -> Iterator[Watcher | None]:
    """Launches inside are watched, not recorded; gives the tape that would have recorded."""
    tape = RUNTIME.tapes[-1] if RUNTIME.tapes else None
    if tape is None or not tape.recording:
        yield None
        return
    tape.recording = False
    try:
        yield tape
    finally:
        tape.recording = True


def no_grad(function: F) -> F:
    """Decorator: the launches of this function take no part in gradients; to a tape its results are constants."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _unrecorded():
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def grad_replaced(function: F) -> F:
    """Decorator: a tape records the call as a whole; its gradient is the function given by `grad_for`."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _unrecorded() as tape:
            result = function(*args, **kwargs)
        if tape is not None:
            tape.add_custom(lambda: _custom_gradient(call)(*args, **kwargs))
        return result

    call.gradient = None  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def grad_for(primal: Callable[..., Any]) -> Callable[[F], F]:
    """Decorator: this function, called with the same arguments, is the gradient of `primal`.

    It sees the fields as they are when it runs and may write them, as to rebuild what it needs; the tape puts primals
    back. Raises TapeError unless `primal` is decorated with `grad_replaced`.
    """
    if not hasattr(primal, "gradient"):
        name = getattr(primal, "__name__", primal)
        raise TapeError(
            f"{name} is not decorated with sg.ad.grad_replaced", "decorate it, or drop grad_for: kernels have .grad"
        )

    def attach(function: F) -> F:
        primal.gradient = function
        return function

    return attach


def _custom_gradient(call: Callable[..., Any]) -> Callable[..., Any]:
    gradient: Callable[..., Any] | None = call.gradient  # type: ignore[attr-defined]
    if gradient is None:
        name = getattr(call, "__name__", call)
        raise TapeError(f"{name} is grad_replaced, but has no gradient", f"decorate one with @sg.ad.grad_for({name})")
    return gradient
