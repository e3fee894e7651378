"""Compute derivatives of whole programs in forward mode: `FwdMode` launches tangent kernels for all kernels.

Invariant: while the mode is active, `x.dual` of a field is the derivative of its contents along the seeds. A field
carries a tangent if it has needs_grad or needs_dual, or is a parameter or loss of the mode: derivatives end where those
of reverse mode do. Gradients that are launched inside have tangents too, `x.grad.dual`: the second derivative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.ir.types import ArrayType
from ..data.fields import Array, MatrixArray
from ..launch.copying import launch_copy
from ..launch.program import no_arrays
from ..runtime.session import RUNTIME, stamp
from ..runtime.usage_errors import TapeError
from .array_claims import ArrayClaim
from .gradients import SNodeGradType, clear_all_gradients
from .host_reads import TangentReads
from .overwrites import box_of, intersect_box_lists
from .seeds import seeds_of, tensor_shape
from .unannounced_writes import ExpectedContents, common_indices, shared_boxes

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from ..backends.launching.launcher import Launcher
    from ..compiler.sizing.regions import Box
    from ..launch.directions import BoundGradient
    from ..launch.program import Binding, Replaced

GRAD, DUAL = ".grad", ".dual"


class FwdMode:
    """Compute J v, the derivative of `loss` along `seed`, in a `with` block; afterwards `loss.dual` holds J v.

        with sg.ad.FwdMode(loss, x, seed=v):
            run()

    A gradient, x.grad, may be a loss: with a tape inside, `x.grad.dual` is H v, as `sg.ad.hvp` returns it. What the
    host or a function or kernel of `no_grad` writes inside is constant and has no tangent, as it has no adjoint on a
    tape. An element that no launch has used before is an input, and keeps its tangent. On exit the duals of
    parameters are 0 again; duals that fields did not have before, losses and parameters apart, are dropped.

    Args:
        loss: A field or ndarray, or a list of them.
        param: The input to differentiate by: a field or ndarray of a real type, or a list of them.
        seed: The direction, an array of the shape of `param` or flat, or a list of one for each parameter; None for 1
            if the parameter has one element. With an axis in front, (n, *shape), it is a batch of n directions:
            `jacobian(loss)` is (n, *loss.shape), and `loss.dual` has the first.
        clear_gradients: True to set all duals to 0 on entry; otherwise they are initial tangents too.
    """

    copy = staticmethod(launch_copy)

    # What is Any takes several kinds of fields and arrays, see functional.py; a place is whatever NumPy takes as an
    # index.
    def __init__(self, loss: Any, param: Any, seed: Any = None, clear_gradients: bool = True) -> None:
        self.losses = _tensors(loss, "loss")
        self.params = _tensors(param, "parameter")
        self.count, self._seeds = seeds_of(self.params, seed, isinstance(param, (list, tuple)))
        self.clear_gradients = clear_gradients
        self._roots: set[Array] = set()
        self._duals: dict[Array, list[np.ndarray]] = {}
        self._foreign: dict[tuple[int, tuple[int, ...]], tuple[np.ndarray, list[np.ndarray]]] = {}
        self._lent: list[Array] = []
        self._touched: dict[Array, dict[tuple[tuple[int, int], ...], Box]] = {}
        self._shared = ExpectedContents()
        self._generation = -1
        self.constant = False
        self._claims: ArrayClaim
        self._reads = TangentReads()

    @property
    def batched(self) -> bool:
        """Return True if each seed is a batch: an array whose first axis numbers the directions."""
        return self.count is not None

    def __enter__(self) -> FwdMode:
        if RUNTIME.forward is not None:
            raise TapeError("forward mode is on already", "give one sg.ad.FwdMode several parameters")
        if self._generation == RUNTIME.generation:
            raise TapeError("this FwdMode was entered before", "make a new one for each pass")
        for tensor in (*self.losses, *self.params):
            tensor.check_alive()
        self._generation = RUNTIME.generation
        self._claims = ArrayClaim("this forward mode", self.clear_gradients)
        try:
            self._begin()
        except BaseException:
            self._claims.end()
            raise
        RUNTIME.forward = self
        return self

    def _begin(self) -> None:
        """Clear all duals, allocate tangents for the losses and parameters, and set the seeds."""
        self._roots = {array for tensor in (*self.losses, *self.params) for array in tensor.arrays}
        if self.clear_gradients:
            clear_all_gradients(SNodeGradType.DUAL)
        for array in self._roots:
            self._memory(array)
        for tensor, seed in zip(self.params, self._seeds):
            self._set_seed(tensor, seed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._generation != RUNTIME.generation:
            if kind is None:
                raise TapeError("sg.init() or sg.reset() was called in forward mode", "call it before")
            return
        if not self._claims.is_of_this_thread():
            RUNTIME.abandon(self._claims.own, self)
            self._claims.end()
            reason = "forward mode is left in another thread than the one that entered it"
            raise TapeError(reason, "write the `with` block, and all that is launched in it, in one thread")
        RUNTIME.forward = None
        try:
            self._end()
            if kind is None:
                self._claims.check(self._duals.__contains__)
        finally:
            self._claims.end()

    def _end(self) -> None:
        """End forward mode: store derivatives in the duals of losses, set those of parameters to 0, drop others."""
        self._end_unseen(dict.fromkeys(self._shared))
        losses = {array for tensor in self.losses for array in tensor.arrays}
        for array in self._roots - losses:
            array.dual.fill(0)
        for array in losses:
            array.dual.write(..., self._duals[array][0])
        for array in self._lent:
            if array not in self._roots:
                array._dual = None
        self._foreign.clear()
        self._touched.clear()
        self._shared.clear()

    def forget(self) -> None:
        """Remove all tangents that this mode allocated, also those of losses and parameters."""
        for array in self._lent:
            array._dual = None

    # -- results --------------------------------------------------------------------------------------------

    def jacobian(self, loss: Any = None) -> np.ndarray:
        """Return the derivatives of a loss along all directions; None means the only loss.

        The shape is (*shape), or (n, *shape) for n directions, with the axes of elements of vectors and matrices last.
        A loss that was not given to this `FwdMode` raises TapeError.
        """
        tensor = self.losses[0] if loss is None and len(self.losses) == 1 else loss
        if not any(tensor is one for one in self.losses):
            raise TapeError(f"{getattr(tensor, 'label', tensor)} is no loss of this mode", "give one of its losses")
        (array,) = tensor.arrays
        if RUNTIME.forward is self:
            self._end_unseen(dict.fromkeys(self._shared))
        RUNTIME.settle()
        found = np.stack([_outer(tensor, memory) for memory in self._duals[array]])
        return found if self.batched else found[0]

    # -- launches -------------------------------------------------------------------------------------------

    def run(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Launch the tangent kernel of a kernel once for each direction, each time from the same contents."""
        shared = shared_boxes(binding, scalars, self._carries)
        self._end_unseen(shared)
        try:
            self._run(binding, scalars, draws)
        finally:
            for array, boxes in shared.items():
                self._shared.remember(array, boxes)

    def _run(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        duals = self._of(binding)
        self._touch(binding, scalars)
        self._reads.wrote(binding)
        if not duals:
            binding.run(scalars, draws)
            return
        launcher = binding.program.tangent(frozenset(duals), self._constants(binding, duals))
        self._each_direction(launcher, binding.memory, duals, binding.written, scalars, draws, no_arrays)

    def run_gradient(
        self, binding: Binding, backward: BoundGradient, scalars: Scalars, draws: Draws, replaced: Replaced
    ) -> None:
        """Launch the tangent kernel of a grad kernel once for each direction, from the same adjoints.

        `replaced` returns, for a direction, the arrays that the launch uses in place of the bound ones.
        """
        program, duals, is_taped = binding.program, self._of(binding), backward is binding.taped
        own = {name + GRAD for name in program.gradients}
        named = self._constants(binding, duals)
        # What the kernel read of a gradient may be constant; the adjoint in it is not.
        constants = (named - own) | {copy for copy, name in backward.states.items() if name in named}
        for name in program.gradients:
            adjoint = binding.lookup(name + GRAD)
            if isinstance(adjoint, Array):
                duals[name + GRAD] = self._of_gradient(adjoint)
            else:
                duals[name + GRAD] = self.tangents_beside(adjoint)
        launcher = program.second(frozenset(duals), constants, is_taped)
        given = replaced if is_taped else partial(backward.states_along, duals)
        self._each_direction(launcher, backward.memory, duals, backward.written, scalars, draws, given)

    def _each_direction(
        self,
        launcher: Launcher,
        memory: Mapping[str, np.ndarray],
        duals: Mapping[str, list[np.ndarray]],
        fields: Iterable[Array],
        scalars: Scalars,
        draws: Draws,
        replaced: Replaced,
    ) -> None:
        """Launch a tangent kernel once for each direction, and restore overwritten contents before each launch."""
        written = sorted(launcher.lowered.writes & memory.keys()) if self.batched else []
        if written:
            RUNTIME.settle()
        before = {name: memory[name].copy() for name in written}
        try:
            for k in range(self.count or 1):
                if written and k:
                    RUNTIME.settle()
                    for name in written:
                        memory[name][...] = before[name]
                tangents = {name + DUAL: found[k] for name, found in duals.items()}
                launcher.run({**memory, **tangents, **replaced(k)}, scalars, draws)
        finally:
            for array in fields:
                array.version = stamp()
                if array in self._duals and array._dual is not None:
                    array._dual.version = stamp()

    def _of(self, binding: Binding) -> dict[str, list[np.ndarray]]:
        """Return the tangents of each array of a launch, one per direction; arrays without tangents are left out."""
        found = {}
        for param in binding.program.kernel.params:
            if isinstance(param.type, ArrayType) and param.type.dtype.is_real:
                array = binding.lookup(param.name)
                if not isinstance(array, Array):
                    if param.name.endswith(GRAD) or param.name + GRAD in binding.arrays:
                        found[param.name] = self.tangents_beside(array)
                elif array.is_grad:
                    if array in self._duals or param.name in binding.program.forward_side().writes:
                        found[param.name] = self._of_gradient(array)
                elif self._carries(array):
                    found[param.name] = self._memory(array)
        return found

    def _carries(self, array: Array) -> bool:
        """Return True if an array gets tangents: a loss, a parameter, or a real array with a gradient or tangent."""
        return array.dtype.is_real and (array.needs_grad or array.needs_dual or array in self._roots)

    def tangents(self, array: Array) -> list[np.ndarray]:
        """Return the tangents of a field, one for each direction, or an empty list if it has none.

        A gradient carries tangents only if a launch has given it some.
        """
        return self._memory(array) if array in self._duals or self._carries(array) else []

    def _of_gradient(self, array: Array) -> list[np.ndarray]:
        """Return the tangents of an adjoint array, and record its use, so that a later host write sets them to 0."""
        self._touched.setdefault(array, {})[()] = tuple(slice(0, extent) for extent in array.shape)
        return self._memory(array)

    def _constants(self, binding: Binding, names: Iterable[str]) -> frozenset[str]:
        """Return the arrays that a launch reads as constants: all under `no_grad`, else those without needs_grad."""
        declared = set(binding.program.gradients)
        arrays = {name: binding.arrays[name] for name in names}
        own = {name for name, array in arrays.items() if isinstance(array, Array) and array.needs_grad}
        return frozenset(arrays if self.constant else own - declared)

    def _touch(self, binding: Binding, scalars: Scalars) -> None:
        """Record which boxes of which arrays a launch reads or writes."""
        self._claims.meet(binding)
        for array, boxes in binding.touched_boxes(scalars).items():
            known = self._touched.setdefault(array, {})
            known.update({tuple((s.start, s.stop) for s in box): box for box in boxes})

    def before_host_read(self, array: Array, place: Any) -> bool:
        """Warn if the host is about to read elements whose tangent is not 0. Return True if there was a warning."""
        duals = None if self.constant else self._duals.get(array)
        return duals is not None and self._reads.read(array, duals, place)

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """Warn if the host reads a launch's result whose tangent is not 0. Return True if there was a warning."""
        return not self.constant and self._reads.result(binding, scalars, self._of(binding))

    def before_host_write(self, array: Array, place: Any) -> None:
        """Set the tangents of the elements that the host overwrites to 0.

        An element that no launch has used yet is an input, and keeps its tangent.
        """
        duals, known = self._duals.get(array), self._touched.get(array)
        if duals is None or known is None or array._dual is None:
            return
        if place is None:  # The array is exported: others can write it from now on.
            if not array.is_grad and not array.exported:
                self._shared.remember(array)
            return
        box = box_of(place, array.shape)
        self._shared.announced(array, box)
        RUNTIME.settle()
        for common_box in intersect_box_lists([box], known.values()):
            for memory in duals:
                memory[common_box] = 0
        array._dual.version = stamp()

    def _end_unseen(self, places: Mapping[Array, list[Box] | None]) -> None:
        """Set the tangents to 0 where outside code has changed exported arrays without notice.

        Args:
            places: The boxes to compare in each array, or None for the whole array.
        """
        for array, boxes in places.items():
            RUNTIME.settle()
            changed = self._shared.changed(array, boxes)
            found = common_indices(changed, self._touched.get(array, {}).values()) if changed is not None else None
            if found is not None and array in self._duals and array._dual is not None:
                for memory in self._duals[array]:
                    memory[found] = 0
                array._dual.version = stamp()

    # -- memory ---------------------------------------------------------------------------------------------

    def _memory(self, array: Array) -> list[np.ndarray]:
        """Return the tangents of an array, one per direction; allocate them if there are none."""
        found = self._duals.get(array)
        if found is None:
            self._claims.take([array])
            if array._dual is None or not array._dual.is_placed:
                lend_dual(array)
                self._lent.append(array)
            first = array._dual.memory  # type: ignore[union-attr]
            found = [first] if not self.batched else [first.copy() for _ in range(self.count or 1)]
            self._duals[array] = found
        return found

    def tangents_beside(self, memory: np.ndarray) -> list[np.ndarray]:
        """Return the tangents of another library's array, found by address and shape; new tangents are zero."""
        key = memory.__array_interface__["data"][0], memory.shape
        if key not in self._foreign:
            self._foreign[key] = memory, [np.zeros_like(memory) for _ in range(self.count or 1)]
        return self._foreign[key][1]

    def _set_seed(self, tensor: Any, seed: np.ndarray) -> None:
        """Set the tangents of a parameter to the seeds, one for each direction."""
        (array,) = tensor.arrays
        dtype = array.dtype.dtype
        RUNTIME.settle()
        for memory, direction in zip(self._duals[array], seed):
            _outer(tensor, memory)[...] = direction.reshape(tensor_shape(tensor)).astype(dtype)
        array.dual.version = stamp()


def lend_dual(array: Array) -> None:
    """Allocate a tangent array for forward mode, which later removes it; `needs_dual` of the array stays the same."""
    dual = array.companion("dual")
    dual._companion = None
    dual.allocate(array.shape)


def _outer(tensor: Any, memory: np.ndarray) -> np.ndarray:
    """Return a view of an array's memory in which the axes of vector and matrix entries come last."""
    if isinstance(tensor, MatrixArray) and tensor.element_first:
        count = len(tensor.element.shape)
        return np.moveaxis(memory, range(count), range(-count, 0))
    return memory


def _tensors(given: Any, what: str) -> list[Any]:
    """Return losses or parameters as a list. Raise TapeError if one is not a field or ndarray of reals."""
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    if not found:
        raise TapeError(f"forward mode needs a {what}, and the list is empty", "give a field or ndarray")
    for tensor in found:
        if not isinstance(tensor, (Array, MatrixArray)):
            cure = "give a field or ndarray" + (", or its members" if hasattr(tensor, "arrays") else "")
            raise TapeError(f"the {what} is a field, not {type(tensor).__name__}", cure)
        if not tensor.dtype.is_real:
            reason = f"the {what} {tensor.label} is of {tensor.dtype}, which has no tangent"
            raise TapeError(reason, "use sg.f32 or sg.f64")
    if len({id(tensor) for tensor in found}) < len(found):
        raise TapeError(f"a {what} is given twice", "give each once")
    return found
