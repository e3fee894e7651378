"""Compute derivatives of a function that launches kernels, as arrays: `jvp`, `vjp`, `jacobian`, `hvp`, `hessian`.

    J v    forward mode                           H v    forward over reverse: a tape inside of forward mode, which
    w J    a tape                                        launches the tangents of the gradients of all launches

Directions come in batches: each launch runs once for each direction, from the same contents, and what a tape saves has
tangents along all of them. Invariant: `run` is called once for each batch, always from the same contents of all fields
and with the same random numbers. Afterwards fields hold what a single call leaves in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from ..runtime.session import RUNTIME
from ..runtime.usage_errors import OptionError, TapeError
from .derivative_tape import DerivativeTape
from .field_snapshot import FieldsSnapshot
from .forward import FwdMode
from .losses import FieldLoss, SeededLoss, terms_of
from .seeds import seeds_of, tensor_shape
from .tape import DEFAULT_BUDGET

T = TypeVar("T")
ArrayOrArrays = np.ndarray | list[np.ndarray]
BATCH = 16
"""Default number of directions that run together; each direction has a tangent of every field."""


# In all functions of derivatives, outputs, parameters and losses are Any: a field, an ndarray or a gradient of one,
# in a tape a torch tensor too, or a list of them. A direction, cotangent or weight is whatever NumPy takes as an
# array, or a list or dict of them. Where the result may be a list of lists, it is Any: callers know by what they gave
# which it is.


def jvp(outputs: Any, params: Any, run: Callable[[], Any], v: Any) -> ArrayOrArrays:
    """Return J v, the derivative of the outputs' final contents along `v`, by forward mode.

    Outputs keep their content on entry.

    Args:
        outputs: A field or ndarray of a real type, or a list of them.
        params: A field or ndarray of a real type, or a list of them.
        run: A function that launches the kernels.
        v: The direction, of the shape of the parameter, with the axes of elements last. With an axis in front it is a
            batch of n directions. For a list of parameters, a list, or a dict by parameter.

    Returns:
        An array (*shape) or (n, *shape) for the output, in its dtype; a list of arrays for a list of outputs.

    Raises:
        TapeError: An argument does not fit, or the call is inside a tape or `FwdMode`.
    """
    return _like(outputs, _tangents(outputs, params, run, v))


def vjp(
    outputs: Any, params: Any, run: Callable[[], Any], w: Any, *, budget_bytes: int = DEFAULT_BUDGET
) -> ArrayOrArrays:
    """Return w J, the derivative of sum(w * outputs) by the parameters' first contents, by one tape.

    Outputs keep their content on entry. Gradients of all fields are afterwards those of the last cotangent.

    Args:
        outputs: A field or ndarray with needs_grad, or a list of them.
        params: A field or ndarray with needs_grad, or a list of them.
        run: A function that launches the kernels.
        w: A cotangent of the shape of the output; a batch of them with an axis in front; a list for a list of outputs.
        budget_bytes: Maximum of saved bytes, as for `Tape`.

    Returns:
        An array (*shape) or (n, *shape) for the parameter; a list of arrays for a list of parameters.

    Raises:
        TapeError: As for `jvp` and `Tape`.
    """
    count, cotangents = seeds_of(_listed(outputs), w, _is_list(outputs))
    found = [np.stack(rows) for rows in zip(*_pullbacks(outputs, params, run, cotangents, budget_bytes))]
    return _like(params, found if count is not None else [one[0] for one in found])


def jacobian(
    outputs: Any,
    params: Any,
    run: Callable[[], Any],
    mode: Literal["auto", "forward", "reverse"] = "auto",
    *,
    batch: int = BATCH,
    budget_bytes: int = DEFAULT_BUDGET,
) -> Any:
    """Return the Jacobian: for each output and parameter an array of shape (*output.shape, *parameter.shape).

    A list of outputs gives a list, of lists for a list of parameters. Raises TapeError as `jvp` and `vjp` do, and
    OptionError for another mode.

    Args:
        outputs: A field or ndarray, or a list of them.
        params: A field or ndarray, or a list of them.
        run: A function that launches the kernels.
        mode: "forward" runs the program once for each `batch` elements of the parameters; "reverse" runs it once, with
            a backward pass for each element of the outputs; "auto" takes the fewer passes, and forward where something
            has no gradient.
        batch: Number of directions that run together.
        budget_bytes: Maximum of saved bytes, as for `Tape`.
    """
    if mode not in ("auto", "forward", "reverse"):
        raise OptionError(f"there is no mode {mode!r}", "one of 'auto', 'forward', 'reverse'")
    ins, outs = _listed(params), _listed(outputs)
    if mode == "reverse" or mode == "auto" and _prefers_reverse(outs, ins):
        chunks = [one for whole in _bases(outs, _size(outs)) for one in _pullbacks(outs, ins, run, whole, budget_bytes)]
        # An item for each parameter: (elements of all outputs, *shape).
        rows = [np.stack(one) for one in zip(*chunks)]
        table = [_split(one, outs) for one in rows]
        blocks = [[table[q][o] for q in range(len(ins))] for o in range(len(outs))]
    else:
        found = [_tangents(outs, ins, run, basis) for basis in _from_one_state(_bases(ins, batch))]
        columns = [np.concatenate(one) for one in zip(*found)]
        # An item of `columns` for each output: (elements of all parameters, *shape).
        blocks = [[_moved(b, tensor_shape(o)) for b in _split(one, ins)] for one, o in zip(columns, outs)]
    return _like(outputs, [_like(params, row) for row in blocks])


def hvp(
    loss: Any,
    params: Any,
    run: Callable[[], Any],
    v: Any,
    *,
    weights: Any = None,
    seed: Any = None,
    budget_bytes: int = DEFAULT_BUDGET,
) -> ArrayOrArrays:
    """Return H v, the derivative along `v` of the gradient of `loss` by the parameters, by forward over reverse.

    Afterwards fields hold their final contents and `x.grad` the gradient, as a tape leaves them. Functions of
    `grad_replaced` take part: their tangent is that of the gradient that was written for them. At kinks the result is
    that of the branch taken.

    Args:
        loss: The loss, as for `Tape`; it is set to 0 on entry.
        params: A field or ndarray with needs_grad, of scalars, vectors or matrices, or a list of them.
        run: A function that launches the kernels.
        v: The direction, or a batch of them, as for `jvp`.
        weights: A weight for each loss, as for `Tape`.
        seed: The cotangent of the loss, as for `Tape`.
        budget_bytes: Maximum of saved bytes, as for `Tape`.

    Returns:
        An array (*shape) or (n, *shape) for the parameter, in its dtype; a list of arrays for a list of parameters.

    Raises:
        TapeError: An argument does not fit, or the call is inside a tape or `FwdMode`.
        NotDifferentiable: A kernel has no such derivative. The error is located.
        Unsupported: A kernel uses what has no such derivative yet. The error is located.
    """
    return _like(params, _second(loss, params, run, v, (weights, seed, budget_bytes)))


def hessian(
    loss: Any,
    params: Any,
    run: Callable[[], Any],
    *,
    weights: Any = None,
    seed: Any = None,
    batch: int = BATCH,
    budget_bytes: int = DEFAULT_BUDGET,
) -> Any:
    """Return the Hessian of `loss`, an array (*shape, *shape), by `hvp` of the unit vectors.

    For a list of parameters the result is a list of lists: block [p][q] is (*p's shape, *q's shape). `batch` is the
    number of unit vectors in each run. The other arguments, and the errors, are those of `hvp`.
    """
    ins = _listed(params)
    options = weights, seed, budget_bytes
    found = [_second(loss, ins, run, basis, options) for basis in _from_one_state(_bases(ins, batch))]
    columns = [np.concatenate(one) for one in zip(*found)]
    blocks = [[_moved(b, tensor_shape(p)) for b in _split(one, ins)] for one, p in zip(columns, ins)]
    return _like(params, [_like(params, row) for row in blocks])


# ---- passes -------------------------------------------------------------------------------------------------


def _tangents(outputs: Any, params: Any, run: Callable[[], Any], v: Any) -> list[np.ndarray]:
    """Return the derivative J v of each output along the direction `v`, computed by forward mode."""
    _refuse_inside("jvp")
    mode = FwdMode(_listed(outputs), params, v)
    try:
        with mode:
            run()
        return [mode.jacobian(one) for one in _listed(outputs)]
    finally:
        mode.forget()


def _second(loss: Any, params: Any, run: Callable[[], Any], v: Any, options: tuple[Any, ...]) -> list[np.ndarray]:
    """Return the derivative along `v` of the gradient of each parameter; `options` are weights, seed and budget."""
    _refuse_inside("hvp")
    weights, seed, budget = options
    gradients = _gradients(params)
    mode = FwdMode(gradients, params, v)
    try:
        with mode, DerivativeTape(loss, weights=weights, seed=seed, budget_bytes=budget):
            run()
        return [mode.jacobian(one) for one in gradients]
    finally:
        mode.forget()


class _Output(FieldLoss):
    """Represent an output of the differentiated function as a loss whose contents a tape does not set to zero."""

    def begin(self) -> None:
        for array in self.tensor.arrays:
            array.check_alive()


def _pullbacks(
    outputs: Any, params: Any, run: Callable[[], Any], cotangents: Sequence[np.ndarray], budget: int
) -> Iterator[list[np.ndarray]]:
    """Yield the gradients of all parameters for each cotangent in turn; `run` is called only once."""
    _refuse_inside("vjp")
    gradients = _gradients(params)
    passes = [_terms(_listed(outputs), one) for one in zip(*cotangents)]
    tape = DerivativeTape(
        _listed(outputs), seed=[one[0] for one in cotangents], budget_bytes=budget, retain=len(passes) > 1
    )
    for k, terms in enumerate(passes):
        tape.terms = terms
        if k:
            tape.grad()
        else:
            with tape:
                run()
        yield [np.array(one.to_numpy()) for one in gradients]


def _terms(outputs: list[Any], cotangents: tuple[np.ndarray, ...]) -> list[SeededLoss]:
    """Return each output as a loss together with its cotangent, from which the reverse sweep starts."""
    return [SeededLoss(_Output(t.loss.tensor), t.cotangent) for t in terms_of(outputs, None, list(cotangents))]  # type: ignore[attr-defined]


def _from_one_state(batches: Iterator[list[np.ndarray]]) -> Iterator[list[np.ndarray]]:
    """Yield the given batches of directions, and restore the contents of all fields before each but the first."""
    before = FieldsSnapshot()
    for k, basis in enumerate(batches):
        if k:
            before.restore()
        yield basis


def _refuse_inside(what: str) -> None:
    """Raise TapeError if a tape or forward mode is active."""
    if RUNTIME.tapes or RUNTIME.forward is not None:
        where = "in forward mode" if RUNTIME.forward is not None else "inside a tape"
        raise TapeError(f"sg.ad.{what} {where}: it makes a mode of its own", "call it outside")


# ---- shapes -------------------------------------------------------------------------------------------------


def _is_list(given: Any) -> bool:
    return isinstance(given, (list, tuple))


def _listed(given: Any) -> list[Any]:
    return list(given) if _is_list(given) else [given]


def _like(given: Any, found: list[T]) -> T | list[T]:
    """Return the list `found` of results if the user's argument `given` was a list, else the only item of `found`."""
    return found if _is_list(given) else found[0]


def _gradients(params: Any) -> list[Any]:
    """Return the adjoint array of each parameter. Raise TapeError if a parameter has none."""
    for tensor in _listed(params):
        if not getattr(tensor, "needs_grad", False):
            label = getattr(tensor, "label", type(tensor).__name__)
            raise TapeError(f"the parameter {label} has no gradient", "give fields or ndarrays with needs_grad=True")
    return [tensor.grad for tensor in _listed(params)]


def _size(tensors: list[Any]) -> int:
    """Return the total number of elements of all fields or ndarrays."""
    return sum(int(np.prod(tensor_shape(t))) for t in tensors)


def _prefers_reverse(outputs: list[Any], params: list[Any]) -> bool:
    """Return True if reverse mode is cheaper: all tensors have gradients, and outputs are fewer than parameters."""
    return all(getattr(t, "needs_grad", False) for t in (*outputs, *params)) and _size(outputs) < _size(params)


def _bases(tensors: list[Any], batch: int) -> Iterator[list[np.ndarray]]:
    """Yield the unit vectors of the space of all tensors in batches: an array (n, *shape) for each tensor."""
    if batch < 1:
        raise OptionError(f"a batch of {batch} directions", "give batch= at least 1")
    total = _size(tensors)
    for first in range(0, total, batch):
        rows = np.eye(min(batch, total - first), total, first)
        yield _split(rows.T, tensors, front=True)


def _split(rows: np.ndarray, tensors: list[Any], front: bool = False) -> list[np.ndarray]:
    """Split a matrix with one row for each element of all tensors into one array (*shape, *rest) for each tensor.

    If `front` is true, the arrays have the shape (rest, *shape).

    In that case the shape of a number counts as (1,), because an array with no axis but the batch axis would look like
    a single direction.
    """
    found, at = [], 0
    for tensor in tensors:
        shape = tensor_shape(tensor)
        size = int(np.prod(shape))
        part, at = rows[at : at + size], at + size
        found.append(part.T.reshape(-1, *(shape or (1,))) if front else part.reshape((*shape, *rows.shape[1:])))
    return found


def _moved(block: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a block of a Jacobian with the axes of the output moved before those of the parameter."""
    inner = block.ndim - len(shape)
    return np.moveaxis(block, range(inner, block.ndim), range(len(shape)))
