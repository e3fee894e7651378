"""Fields and ndarrays exchanged with NumPy, JAX and DLPack: copies, shared memory, and what is known of it then."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

MAKERS: dict[str, Callable[[], Any]] = {
    "field": lambda: sg.field(sg.f32, (2, 3)),
    "ndarray": lambda: sg.ndarray(sg.f32, (2, 3)),
    "vectors": lambda: sg.Vector.field(3, sg.f32, 2),
    "vectors SOA": lambda: sg.Vector.field(3, sg.f32, 2, layout=sg.Layout.SOA),
    "matrices": lambda: sg.Matrix.ndarray(2, 3, sg.f32, ()),
}
CONTENT = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=MAKERS)
def x(request: pytest.FixtureRequest) -> Any:
    made = MAKERS[request.param]()
    made.from_numpy(CONTENT)
    return made


def array_of(x: Any) -> Any:
    return x.storage if hasattr(x, "storage") else x


def test_copies(x: Any) -> None:
    for made in (x.to_numpy(), np.asarray(x), np.array(x), x.to_numpy(np.float64), np.asarray(x, np.float64)):
        assert (made == CONTENT).all() and made.flags.writeable
        made[...] = 9
    assert (x.to_numpy() == CONTENT).all() and not array_of(x).exported


def test_shared_memory(x: Any) -> None:
    for share in (np.from_dlpack, lambda x: x.to_numpy(copy=False), lambda x: np.asarray(x, copy=False)):
        shared = share(x)
        assert (shared == CONTENT).all() and array_of(x).exported
        shared[1, 2] = 7
        assert x.to_numpy()[1, 2] == 7
        x.from_numpy(CONTENT)
        assert (shared == CONTENT).all()


def test_versions_of_shared_memory_are_not_trusted(x: Any) -> None:
    array = array_of(x)
    assert array.version == array.version
    before = array.version
    x.to_numpy(copy=False)
    assert len({before, array.version, array.version, array.version}) == 4


def test_jax(x: Any) -> None:
    import jax.numpy as jnp

    made = x.to_jax()
    assert isinstance(made, jnp.ndarray) and (np.asarray(made) == CONTENT).all() and not array_of(x).exported
    x.from_jax(made + 1)
    assert (x.to_numpy() == CONTENT + 1).all() and (np.asarray(made) == CONTENT).all()
    x.from_numpy(jnp.asarray(CONTENT))
    assert (x.to_numpy() == CONTENT).all()
    assert (np.asarray(jnp.from_dlpack(x)) == CONTENT).all()


def test_memory_of_others() -> None:
    given = np.ones((2, 3))
    x = sg.from_dlpack(given, needs_grad=True)
    assert isinstance(x, sg.Ndarray) and x.exported and x.shape == (2, 3) and x.grad.shape == (2, 3)
    given[1, 1] = 5
    assert x[1, 1] == 5.0
    x[0, 0] = 7
    assert given[0, 0] == 7


def test_arrays_that_never_change_are_copied() -> None:
    import jax.numpy as jnp

    given = jnp.ones(3, jnp.float32)
    x = sg.from_dlpack(given)
    x.fill(2)
    assert np.asarray(given).tolist() == [1.0] * 3 and x.dtype == sg.f32


def test_fields_of_one_package_meet() -> None:
    x, y = sg.field(sg.f64, 3), sg.ndarray(sg.f32, 3)
    y.fill(1.5)
    x.copy_from(y)
    x.from_numpy(y)
    assert x.to_numpy().tolist() == [1.5] * 3
    z = sg.from_dlpack(x)
    z[1] = 4
    assert x[1] == 4.0


@pytest.mark.parametrize("arch", ["reference", "cpu"])
def test_gradients_see_what_others_wrote(arch: str) -> None:
    """The trip count of a loop is written through shared memory between launches: its sizes are counted anew."""
    sg.init(arch=arch, default_fp=sg.f64)
    n, x, y = sg.field(sg.i32, 1), sg.field(sg.f64, (), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    trips = n.to_numpy(copy=False)

    @sg.kernel
    def power() -> None:
        for _ in range(1):
            a = 1.0
            for _ in range(n[0]):
                a = a * x[None]
            y[None] = a

    x[None] = 2.0
    for count in (2, 40, 3):
        trips[0] = count
        power()
        x.grad[None], y.grad[None] = 0.0, 1.0
        power.grad()
        assert y[None] == 2.0**count and x.grad[None] == count * 2.0 ** (count - 1)


def test_torch_tensors_are_made_from_copies_or_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torch(ModuleType):
        """As much of torch as is used."""

        device = staticmethod(lambda name: SimpleNamespace(type=str(name).partition(":")[0]))
        from_numpy = staticmethod(lambda array: SimpleNamespace(array=array, to=lambda device: (array, device)))

    monkeypatch.setitem(sys.modules, "torch", Torch("torch"))
    x = sg.field(sg.f32, (2, 3))
    x.to_torch().array[0, 0] = 5
    assert x[0, 0] == 0.0 and not x.exported and x.to_torch("cuda:0")[1] == "cuda:0"
    x.to_torch("cpu", copy=False).array[0, 0] = 5
    assert x[0, 0] == 5.0 and x.exported
    with pytest.raises(ValueError, match="needs a copy"):
        x.to_torch("cuda:0", copy=False)
    assert list(sg.Struct.field({"a": sg.f32}, 2).to_torch()) == ["a"]


def test_torch_is_only_needed_where_it_is_asked_for() -> None:
    class Torch:
        """What a tensor of torch looks like to us."""

        def __init__(self, content: np.ndarray) -> None:
            self.content = content

        def detach(self) -> Torch:
            return Torch(self.content.copy())

        cpu = detach

        def numpy(self) -> np.ndarray:
            return self.content

    x = sg.field(sg.f32, (2, 3))
    x.from_torch(Torch(CONTENT))
    assert (x.to_numpy() == CONTENT).all()


class Elsewhere:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: sg.from_dlpack(Elsewhere()), sg.FieldError, "another device"),
        (lambda: sg.from_dlpack([1, 2]), sg.FieldError, "list does not speak DLPack"),
        (lambda: sg.from_dlpack(CONTENT.T), sg.FieldError, "not C-contiguous"),
        (lambda: sg.from_dlpack(np.zeros(9, np.uint8)[1:].view(np.float64)), sg.FieldError, "not aligned"),
        (lambda: sg.from_dlpack(np.ones(2, ">f4")), sg.FieldError, "no scalar type"),
        (lambda: sg.from_dlpack(np.ones(2, complex)), sg.FieldError, "no scalar type"),
        (
            lambda: sg.from_dlpack(np.ones(2, int), needs_grad=True),
            sg.FieldError,
            "i64 is not supported for ndarrays with a gradient",
        ),
        (lambda: sg.field(sg.f32, 2).to_numpy(np.float64, copy=False), ValueError, "needs a copy"),
        (lambda: sg.field(sg.f32, 2).from_numpy([[1], [2, 3]]), sg.FieldError, "rows of one length"),
        (lambda: sg.field(sg.f32, 2).copy_from([1, 2]), sg.FieldError, "use from_numpy() for arrays"),
    ],
)
def test_mistakes(act: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert words in str(caught.value)


@pytest.mark.parametrize("early", [True, False], ids=["shared before", "shared inside"])
def test_tapes_keep_what_others_can_overwrite(early: bool) -> None:
    x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def square() -> None:
        for i in x:
            loss[None] += x[i] ** 2

    x.fill(3)
    shared = x.to_numpy(copy=False) if early else None
    with sg.ad.Tape(loss):
        square()
        shared = x.to_numpy(copy=False) if shared is None else shared
        shared[1] = 5
        square()
        shared[...] = 100
    assert loss[None] == 27 + 43 and x.grad.to_numpy().tolist() == [12.0, 6.0, 12.0]
    assert shared.tolist() == [100.0] * 3
