"""Derivatives of a function that launches kernels, as arrays: `jvp`, `vjp`, `jacobian`, `hvp`, `hessian`.

    J v    forward mode                           H v    forward over reverse: a tape inside of forward mode, which
    w J    a tape                                        launches the tangents of the gradients of all launches

Directions come in batches: each launch runs once for each, from the same content, and what a tape saves has tangents
along all of them. Invariant: `run` is called once for each batch, always from the same content of all fields and with
the same random numbers; afterwards fields hold what a single call leaves in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ..session import RUNTIME
from ..usage import OptionError, TapeError
from .forward import FwdMode
from .losses import FieldLoss, Term, terms_of
from .seeds import seeds_of, tensor_shape
from .state import State
from .tape import DEFAULT_BUDGET, Tape

Arrays = np.ndarray | list[np.ndarray]
BATCH = 16
"""Directions that run together unless told otherwise: each has a tangent of every field."""


def jvp(outputs: Any, params: Any, run: Callable[[], Any], v: Any) -> Arrays:
    """J v: the derivative of the outputs' final content along `v`, by forward mode.

    outputs, params: a field or ndarray of a real type, or a list. run: launches the kernels. v: as the seed of
    `FwdMode`: of the parameter's shape, the axes of elements last; with an axis in front, a batch of n directions; a
    list, or dict, for a list of parameters. Gives (*shape) or (n, *shape) of each output, in its dtype; a list of them
    for a list. Outputs keep their content on entry. Raises TapeError for what does not fit, and inside a tape or
    `FwdMode`.
    """
    return _like(outputs, _tangents(outputs, params, run, v))


def vjp(outputs: Any, params: Any, run: Callable[[], Any], w: Any, *, budget_bytes: int = DEFAULT_BUDGET) -> Arrays:
    """w J: the derivative of sum(w * outputs) by the parameters' first content, by one tape.

    w: a cotangent of the outputs' shape, a batch of them with an axis in front, a list for a list of outputs. Gives
    (*shape) or (n, *shape) of each parameter; a list of them for a list. Outputs and parameters need needs_grad.
    Outputs keep their content on entry; gradients of all fields are afterwards those of the last cotangent. Raises
    TapeError as `jvp` and `Tape` do.
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
    """The Jacobian: for each output and parameter an array (*output's shape, *parameter's shape).

    A list of outputs gives a list, of lists for a list of parameters. mode: "forward" runs the program once for each
    `batch` elements of the parameters, "reverse" once, with a backward pass for each element of the outputs; "auto"
    takes the fewer passes, and forward where something has no gradient. Raises TapeError as `jvp` and `vjp` do, and
    OptionError for another mode.
    """
    if mode not in ("auto", "forward", "reverse"):
        raise OptionError(f"there is no mode {mode!r}", "one of 'auto', 'forward', 'reverse'")
    ins, outs = _listed(params), _listed(outputs)
    if mode == "reverse" or mode == "auto" and _prefers_reverse(outs, ins):
        chunks = [one for whole in _bases(outs, _size(outs)) for one in _pullbacks(outs, ins, run, whole, budget_bytes)]
        rows = [np.stack(one) for one in zip(*chunks)]  # of each parameter: (elements of all outputs, *shape)
        table = [_split(one, outs) for one in rows]
        blocks = [[table[q][o] for q in range(len(ins))] for o in range(len(outs))]
    else:
        found = [_tangents(outs, ins, run, basis) for basis in _from_one_state(_bases(ins, batch))]
        columns = [np.concatenate(one) for one in zip(*found)]  # of each output: (elements of parameters, *shape)
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
) -> Arrays:
    """H v: the derivative along `v` of the gradient of `loss` by the parameters, forward over reverse.

    loss, weights, seed: as of `Tape`; losses are set to 0 on entry. params: a field or ndarray with needs_grad, of
    scalars, vectors or matrices, or a list. v: of the parameter's shape, or a batch, as for `jvp`. Gives (*shape) or
    (n, *shape) of each parameter, in its dtype; a list of them for a list. Afterwards fields hold their final content
    and `x.grad` the gradient, as a tape leaves them. Functions of `grad_replaced` take part: the tangent is that of the
    gradient that was written for them. At kinks it is that of the branch taken. Raises TapeError for what does not fit,
    and inside a tape or `FwdMode`; NotDifferentiable and Unsupported, located, as gradients and forward mode do.
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
    """The Hessian of `loss`, by `hvp` of the unit vectors, `batch` of them in each run: (*shape, *shape).

    For a list of parameters a list of lists: block [p][q] is (*p's shape, *q's shape). The rest is as for `hvp`.
    """
    ins = _listed(params)
    options = weights, seed, budget_bytes
    found = [_second(loss, ins, run, basis, options) for basis in _from_one_state(_bases(ins, batch))]
    columns = [np.concatenate(one) for one in zip(*found)]
    blocks = [[_moved(b, tensor_shape(p)) for b in _split(one, ins)] for one, p in zip(columns, ins)]
    return _like(params, [_like(params, row) for row in blocks])


# ---- passes -------------------------------------------------------------------------------------------------


def _tangents(outputs: Any, params: Any, run: Callable[[], Any], v: Any) -> list[np.ndarray]:
    _refuse_inside("jvp")
    mode = FwdMode(_listed(outputs), params, v)
    try:
        with mode:
            run()
        return [mode.jacobian(one) for one in _listed(outputs)]
    finally:
        mode.forget()


def _second(loss: Any, params: Any, run: Callable[[], Any], v: Any, options: tuple[Any, ...]) -> list[np.ndarray]:
    _refuse_inside("hvp")
    weights, seed, budget = options
    gradients = _gradients(params)
    mode = FwdMode(gradients, params, v)
    try:
        with mode, Tape(loss, weights=weights, seed=seed, budget_bytes=budget):
            run()
        return [mode.jacobian(one) for one in gradients]
    finally:
        mode.forget()


class _Output(FieldLoss):
    """An output, which keeps its content on entry."""

    def begin(self) -> None:
        for array in self.tensor.arrays:
            array.check_alive()


def _pullbacks(
    outputs: Any, params: Any, run: Callable[[], Any], cotangents: Sequence[np.ndarray], budget: int
) -> Iterator[list[np.ndarray]]:
    """The gradients of all parameters, for one cotangent after the other. One run."""
    _refuse_inside("vjp")
    gradients = _gradients(params)
    passes = [_terms(_listed(outputs), one) for one in zip(*cotangents)]
    tape = Tape(_listed(outputs), seed=[one[0] for one in cotangents], budget_bytes=budget, retain=len(passes) > 1)
    for k, terms in enumerate(passes):
        tape.terms = terms
        if k:
            tape.grad()
        else:
            with tape:
                run()
        yield [np.array(one.to_numpy()) for one in gradients]


def _terms(outputs: list[Any], cotangents: tuple[np.ndarray, ...]) -> list[Term]:
    return [Term(_Output(t.loss.tensor), t.cotangent) for t in terms_of(outputs, None, list(cotangents))]  # type: ignore[attr-defined]


def _from_one_state(batches: Iterator[list[np.ndarray]]) -> Iterator[list[np.ndarray]]:
    """The batches; before all but the first the state is what it was before the first."""
    before = State()
    for k, basis in enumerate(batches):
        if k:
            before.restore()
        yield basis


def _refuse_inside(what: str) -> None:
    if RUNTIME.tapes or RUNTIME.forward is not None:
        where = "in forward mode" if RUNTIME.forward is not None else "inside a tape"
        raise TapeError(f"sg.ad.{what} {where}: it makes a mode of its own", "call it outside")


# ---- shapes -------------------------------------------------------------------------------------------------


def _is_list(given: Any) -> bool:
    return isinstance(given, (list, tuple))


def _listed(given: Any) -> list[Any]:
    return list(given) if _is_list(given) else [given]


def _like(given: Any, found: list[Any]) -> Any:
    return found if _is_list(given) else found[0]


def _gradients(params: Any) -> list[Any]:
    for tensor in _listed(params):
        if not getattr(tensor, "needs_grad", False):
            label = getattr(tensor, "label", type(tensor).__name__)
            raise TapeError(f"the parameter {label} has no gradient", "give fields or ndarrays with needs_grad=True")
    return [tensor.grad for tensor in _listed(params)]


def _size(tensors: list[Any]) -> int:
    return sum(int(np.prod(tensor_shape(t))) for t in tensors)


def _prefers_reverse(outputs: list[Any], params: list[Any]) -> bool:
    return all(getattr(t, "needs_grad", False) for t in (*outputs, *params)) and _size(outputs) < _size(params)


def _bases(tensors: list[Any], batch: int) -> Iterator[list[np.ndarray]]:
    """The unit vectors of all tensors together, in batches: of each tensor an array (n, *shape)."""
    if batch < 1:
        raise OptionError(f"a batch of {batch} directions", "give batch= at least 1")
    total = _size(tensors)
    for first in range(0, total, batch):
        rows = np.eye(min(batch, total - first), total, first)
        yield _split(rows.T, tensors, front=True)


def _split(rows: np.ndarray, tensors: list[Any], front: bool = False) -> list[np.ndarray]:
    """Rows, one for each element of all tensors together, as (*shape, *rest) of each; front: as (rest, *shape).

    In front of a number the axis of a batch alone would look like a single direction, so it has one element then.
    """
    found, at = [], 0
    for tensor in tensors:
        shape = tensor_shape(tensor)
        size = int(np.prod(shape))
        part, at = rows[at : at + size], at + size
        found.append(part.T.reshape(-1, *(shape or (1,))) if front else part.reshape((*shape, *rows.shape[1:])))
    return found


def _moved(block: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(*parameter, *output) as (*output, *parameter); shape: of the output."""
    inner = block.ndim - len(shape)
    return np.moveaxis(block, range(inner, block.ndim), range(len(shape)))
