"""Launch kernels while any watcher, such as a tape or capture, is active, and notify the watchers.

Invariant: every watcher of the launching thread is notified before a launch runs, and may prevent it by an exception;
threads that compute derivatives are notified of the arrays that a launch of another thread writes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..backends.words import WATCHED
from ..runtime.session import RUNTIME
from .constant_launches import without_recording, without_tangents

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from .program import Binding
    from .results import ResultReader


def launch_watched(binding: Binding, scalars: Scalars) -> bool:
    """Launch a kernel and notify this thread's tapes and other watchers. Return False if there are none.

    Args:
        binding: The kernel with the memory that it runs on.
        scalars: The scalar arguments by name.

    Returns:
        True if the kernel was launched, False if the caller must launch it.
    """
    own = RUNTIME.threads.own
    if not own.tapes and own.forward is None and RUNTIME.capture is None:
        _announce(binding)
        return False
    if binding.program.constant:
        _launch_constant(binding, scalars)
    else:
        _launch_seen(binding, scalars)
    return True


def result_of(reader: ResultReader, binding: Binding, scalars: Scalars) -> Any:
    """Return the result of a launch, after notifying the tapes and the forward mode of this thread of the read."""
    if RUNTIME.words[WATCHED] and not binding.program.constant:
        own = RUNTIME.threads.own
        for seen in (*reversed(own.tapes), own.forward):
            if seen is not None and seen.before_result(binding, scalars):
                break
    return reader.read(binding.arrays)


def _launch_constant(binding: Binding, scalars: Scalars) -> None:
    """Launch a `no_grad` kernel without recording its gradient; a replay of the tape launches the kernel again."""
    with without_recording(True) as tapes, without_tangents():
        _launch_seen(binding, scalars)
    for tape in tapes:
        tape.add_custom(None, partial(binding.again, scalars))


def _launch_seen(binding: Binding, scalars: Scalars) -> None:
    tapes = RUNTIME.tapes
    instead = next((found for t in tapes if (found := t.instead(binding, scalars)) is not None), None)
    if instead is not None:
        instead.launch(scalars)
        return
    for tape in tapes:
        tape.before_launch(binding, scalars)
    _announce(binding)
    draws = binding.draws_forward(scalars)
    try:
        _run_captured(binding, scalars, draws)
    except BaseException:
        for tape in tapes:
            tape.launch_failed(binding, scalars)
        raise
    for tape in tapes:
        tape.after_launch(binding, scalars, draws)


def _announce(binding: Binding) -> None:
    """Notify the threads that differentiate an array which this launch is about to write."""
    RUNTIME.threads.wrote(binding.written, f"a launch of kernel {binding.program.label}")


def _run_captured(binding: Binding, scalars: Scalars, draws: Draws) -> None:
    """Run the kernel, and record the launch if a capture is active."""
    if RUNTIME.capture is None:
        _run_in_mode(binding, scalars, draws)
    else:
        with RUNTIME.capture.recorded(binding, "forward", scalars, draws):
            _run_in_mode(binding, scalars, draws)


def _run_in_mode(binding: Binding, scalars: Scalars, draws: Draws) -> None:
    """Run the kernel, with tangents if this thread is in forward mode."""
    mode = RUNTIME.forward
    if mode is None:
        binding.run(scalars, draws)
    else:
        mode.run(binding, scalars, draws)
