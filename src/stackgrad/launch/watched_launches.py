"""Launch kernels while a tape, forward mode or a capture must see the launches of some thread.

Invariant: every watcher of the launching thread has agreed to a launch before it runs, and threads that take
derivatives are told of what the launch of another thread writes.
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
    """Launch a kernel under the watchers of this thread; without watchers, only announce the launch to other threads.

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
    """Return the result of a launch to the host, after telling the watchers of this thread."""
    if RUNTIME.words[WATCHED] and not binding.program.constant:
        own = RUNTIME.threads.own
        for seen in (*reversed(own.tapes), own.forward):
            if seen is not None and seen.before_result(binding, scalars):
                break
    return reader.read(binding.arrays)


def _launch_constant(binding: Binding, scalars: Scalars) -> None:
    """Launch a kernel of `no_grad`: nobody records it, and a tape that runs its launches again runs it too."""
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
    """Notify the threads that take derivatives of the arrays that the launch is about to write."""
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
