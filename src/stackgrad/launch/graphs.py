"""Implement `sg.graph(function)`, which records the launches of a function as a GPU graph and replays them.

A recorded graph launches with the sizes, numbers and addresses of its recording. Its adstacks lie in memory of a stream
of its own, so no other launch replaces that memory. Invariant: the graph is used only while launches from Python would
be exactly the same: the same runtime, the same contents of arrays that decide sizes, the same constants, and no tape
or other watcher. If anything differs, the function runs instead and is recorded anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..backends.words import LAUNCHES, VERSION, WATCHED
from ..compiler.errors import Unsupported
from ..compiler.frontend.functions import DialectGraph
from ..compiler.ir.documented import documented
from ..data.fields import Array
from ..runtime.gpu import device_of_runtime
from ..runtime.guards import hold
from ..runtime.session import RUNTIME, stamp
from .bound import version_source
from .copying import launch_copy
from .program import NOTHING

if TYPE_CHECKING:
    import numpy as np

    from ..backends.base import Draws, Scalars
    from ..backends.launching.launcher import Launcher
    from ..runtime.guards import Guard
    from .program import Binding


class LaunchRecorder:
    """Collect what a recorded GPU graph depends on: the arrays, versions and guards of its launches.

    Attributes:
        deciding: The arrays whose contents decide adstack sizes, with their versions at the time of the recording.
        written: The arrays that the launches write, with their versions before the recording.
        launchers: The launcher of each launch.
        guards: Guards of what the kernels read from Python objects.
        kept: Objects that the recorded launches refer to and that must stay alive.
    """

    copy = staticmethod(launch_copy)

    def __init__(self) -> None:
        self.deciding: dict[Array, int] = {}
        self.written: dict[Array, int] = {}
        self.launchers: list[Launcher] = []
        self.guards: dict[Guard, None] = {}
        self.kept: list[Any] = []

    @contextmanager
    def recorded(
        self, binding: Binding, kind: str, scalars: Scalars, draws: Draws, replaced: Mapping[str, np.ndarray] = NOTHING
    ) -> Iterator[None]:
        """Record the launch that runs inside the `with` block.

        Raises:
            Unsupported: The launch draws random numbers, works on half-precision gradients of another library, needs a
                copy of a gradient, or has sizes that depend on foreign memory or on an array that the graph writes.
        """
        program = binding.program
        if program.has_random:
            reason = f"kernel {program.label} draws random numbers, which would be the same in every launch of a graph"
            raise Unsupported(reason, "launch it outside of the graph")
        backward = binding.prepare_grad() if kind == "reverse" else None
        launcher = program.forward() if backward is None else backward.launcher
        if binding.halves:
            reason = f"kernel {program.label} uses the gradient of a tensor in half precision, which the host rounds"
            raise Unsupported(reason, "launch it outside of the graph")
        if launcher.lowered.states:
            names = ", ".join(sorted(launcher.lowered.states.values()))
            reason = f"the gradient of kernel {program.label} reads a copy of {names}, which the host makes"
            raise Unsupported(reason, "launch it outside of the graph")
        deciding = version_source(program, binding.arrays, launcher)
        if deciding is None:
            reason = f"what decides the sizes of kernel {program.label} is memory of another library"
            raise Unsupported(reason, "give fields or ndarrays")
        for array in deciding:
            if array in self.written:
                reason = f"{array.label}, which decides sizes of kernel {program.label}, is written inside the graph"
                raise Unsupported(reason, "launch what writes it outside of the graph")
            self.deciding[array] = array.version
        for array in binding.written if backward is None else backward.written:
            self.written.setdefault(array, array.words[VERSION])
        yield
        self.launchers.append(launcher)
        self.guards.update(dict.fromkeys(program.guards))
        self.kept += [binding, launcher.compile()]

    @property
    def is_valid(self) -> bool:
        """Return True if the arrays that decide adstack sizes and the Python objects read by kernels are unchanged."""
        return all(array.version == version for array, version in self.deciding.items()) and hold(self.guards)

    def undo(self) -> None:
        """Restore versions and launch counters, which recording a graph changed although nothing ran."""
        for array, version in self.written.items():
            array.words[VERSION] = version
        for launcher in self.launchers:
            launcher.stats.words[LAUNCHES] -= 1

    def launched(self) -> None:
        """Update array versions and launch counters after a replay of the whole graph."""
        for array in self.written:
            array.words[VERSION] = stamp()
        for launcher in self.launchers:
            launcher.stats.words[LAUNCHES] += 1


class RecordedGraph:
    """Represent a function whose launches are recorded as a GPU graph; a call replays the graph.

    The result of a call is None.

    Attributes:
        function: The function.
        recordings: Number of times that the launches were recorded.
        replays: Number of calls that launched the recorded graph.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.recordings = self.replays = 0
        self._device: Any = None
        self._stream = self._graph = 0
        self._generation = -1
        self._recording: LaunchRecorder | None = None
        self._run()

    def __call__(self) -> None:
        """Replay the recorded graph, or run the function and record it again if the recording is outdated."""
        if not self._is_valid():
            self._run()
            return
        assert self._recording is not None
        device, own = self._device, self._device.stream
        # The present stream and that of the graph wait for each other, so that launches keep the program's order.
        if own:
            device.follow(self._stream, own)
        device.driver.launch_graph(self._graph, self._stream)
        if own:
            device.follow(own, self._stream)
        device.launched()
        self.replays += 1
        self._recording.launched()

    def _is_valid(self) -> bool:
        """Return True if a replay of the graph has the same effect as a call of the function."""
        recording = self._recording
        return (
            recording is not None
            and self._generation == RUNTIME.generation
            and not RUNTIME.words[WATCHED]
            and recording.is_valid
        )

    def _run(self) -> None:
        """Run the function; then record its launches, if the device has graphs and no watcher is active."""
        RUNTIME.ensure()
        device = device_of_runtime()
        if device is None or RUNTIME.words[WATCHED]:
            self.function()
            return
        if self._generation != RUNTIME.generation:
            self._open(device)
        self._forget()
        with device.between(self._stream):
            self.function()
            self._record(device)

    def _open(self, device: Any) -> None:
        """Create a separate stream for the graph on a device."""
        self._device, self._generation = device, RUNTIME.generation
        self._stream = device.new_stream()
        weakref.finalize(self, device.drop, lambda stream=self._stream: device.destroy_stream(stream))

    def _record(self, device: Any) -> None:
        """Record the launches of the function as a graph on a device."""
        recording = LaunchRecorder()
        RUNTIME.capture = recording
        try:
            with device.capturing(self._stream) as made:
                self.function()
        finally:
            RUNTIME.capture = None
            recording.undo()
        self._graph, self._recording = made[0], recording
        self.recordings += 1

    def _forget(self) -> None:
        """Destroy the recorded graph, so that the next call records again."""
        if self._recording is not None:
            graph, driver = self._graph, self._device.driver
            self._device.drop(lambda: driver.destroy_graph(graph))
            self._recording = None


_GRAPH = """\
Group launches: `sg.graph(function)` records the launches of a function, so that they are one launch of a GPU.

In kernels, `sg.graph.do_while`, `sg.graph.parallel` and `sg.graph.parallel_context` are accepted."""


@documented(_GRAPH)
class GraphMaker(DialectGraph):
    """Implement `sg.graph`, which turns a function into a recorded graph."""

    def __call__(self, function: Callable[[], Any]) -> RecordedGraph:
        """Run a function that launches kernels, and return an object that repeats them as one GPU graph.

        Only the launches of the function are repeated. The function is called twice now, once to run and once to be
        recorded, and again when sizes have changed. It must not wait for the device.

            step = sg.graph(lambda: (advect(), project()))
            step()

        Args:
            function: A function without arguments.

        Raises:
            Unsupported: A launch cannot be recorded: it draws random numbers, uses arrays of the host, or has sizes
                that the graph itself decides.
        """
        return RecordedGraph(function)


graph = GraphMaker()
"""Record the launches of a function; see `GraphMaker.__call__`."""
