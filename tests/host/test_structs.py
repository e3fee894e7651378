"""Struct types, struct values and struct fields at the host."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

vec2 = sg.types.vector(2, float)
Body = sg.types.struct(pos=vec2, mass=float, id=sg.i32)
Pair = sg.types.struct(a=Body, b=Body)


@sg.dataclass
class Ball:
    """A ball."""

    center: vec2  # type: ignore[valid-type]
    radius: sg.f64  # type: ignore[valid-type]

    @sg.func
    def area(self):  # type: ignore[no-untyped-def]
        return 3.0 * self.radius * self.radius

    def moved(self, by):  # type: ignore[no-untyped-def]
        return Ball(self.center + by, self.radius)


def test_values_from_names_order_and_mappings() -> None:
    for made in (Body(pos=[1, 2], mass=3, id=4), Body([1, 2], 3, 4), Body({"pos": [1, 2], "mass": 3, "id": 4})):
        assert made.to_dict() == {"pos": [1.0, 2.0], "mass": 3.0, "id": 4}
    assert Body(mass=2).to_dict() == {"pos": [0.0, 0.0], "mass": 2.0, "id": 0}
    assert made.pos.dtype == sg.f64 and made.keys == ["pos", "mass", "id"] and len(made) == 3


def test_members_are_held_by_value() -> None:
    given = sg.Vector([1.0, 2.0])
    body = Body(pos=given)
    given[0] = 9
    body.pos.y = 5
    assert body.pos.entries == [1.0, 5.0] and given.entries == [9.0, 2.0]
    body.pos = [7, 8]
    body["mass"] = 3
    assert body.pos.entries == [7.0, 8.0] and body["mass"] == 3.0


def test_structs_without_a_type() -> None:
    made = sg.Struct(pos=[1.0, 2.0], n=3, inner={"k": 1.5})
    assert isinstance(made.pos, sg.Vector) and made.inner.k == 1.5 and made == sg.Struct(made.to_dict())
    made.inner.k = 2
    assert made.to_dict()["inner"] == {"k": 2.0}


def test_dataclasses_have_methods() -> None:
    ball = Ball(center=[1, 2], radius=2.0)
    assert ball.area() == 12.0 and ball.moved(sg.Vector([1.0, 1.0])).center.entries == [2.0, 3.0]
    assert Ball.__name__ == "Ball" and Ball.__doc__ == "A ball." and repr(ball).startswith("Ball(center=")
    assert Ball.stackgrad_type.name == "Ball"
    field = Ball.field(shape=2)
    field[1] = ball
    assert field[1].area() == 12.0


def test_methods_given_by_name() -> None:
    kind = sg.types.struct(r=float, __struct_methods={"double": lambda self: self.r * 2})
    assert kind(r=3).double() == 6.0
    assert sg.Struct.field({"r": float}, 2, methods={"triple": lambda self: self.r * 3})[0].triple() == 0.0


def test_fields_of_structs() -> None:
    s = Body.field(shape=(2, 3), needs_grad=True, name="s")
    s[1, 2].pos = [1, 2]
    s[1, 2].pos.y = 5
    s[1, 2].mass = 4
    s[0, 0] = Body([1, 1], 2, 3)
    s[0, 1] = {"mass": 6}
    assert s.pos[1, 2].entries == [1.0, 5.0] and s.mass[1, 2] == 4.0 and s[0, 0].id == 3 and s[0, 1].mass == 6.0
    assert s.shape == s.pos.shape == (2, 3) and s.get_member_field("mass") is s.mass and s.keys == ["pos", "mass", "id"]
    assert list(s.grad.members) == ["pos", "mass"] and s.grad.pos is s.pos.grad and s.grad is s.grad
    assert s[1, 2].to_dict() == {"pos": [1.0, 5.0], "mass": 4.0, "id": 0}


def test_elements_show_the_present() -> None:
    s = Body.field(shape=2)
    element = s[1]
    s.mass[1] = 7
    assert element.mass == 7.0 and element["mass"] == 7.0
    copied = Body(element)
    s.mass[1] = 8
    assert copied.mass == 7.0


def test_copies_share_nothing() -> None:
    s = Pair.field(shape=1)
    for given in (Pair(a={"id": 3}), s[0]):
        for other in (copy.deepcopy(given), copy.copy(given), pickle.loads(pickle.dumps(given))):
            other.a.pos.x = 9
            other.b.mass = 4
            assert given.a.pos.x == 0.0 and given.b.mass == 0.0 and other.a.id == given.a.id


def test_annotations_of_the_place_where_the_class_is() -> None:
    vec = sg.types.vector(4, sg.f32)

    @sg.dataclass
    class Local:
        v: vec
        n: int

    assert Local().v.entries == [0.0] * 4
    with pytest.raises(sg.StructError, match="the annotation 'missing' of Bad: name 'missing' is not defined"):

        @sg.dataclass
        class Bad:
            v: missing  # type: ignore[name-defined]  # noqa: F821


def test_nested_fields() -> None:
    p = Pair.field(shape=2)
    p[1].a.pos = [1, 2]
    p[0] = {"b": {"id": 3}}
    assert p.a.pos[1].entries == [1.0, 2.0] and p[0].b.id == 3 and len(p.arrays) == 6


def test_content_as_arrays() -> None:
    s, t = Body.field(shape=3), Body.field(shape=3)
    s.from_numpy({"pos": np.ones((3, 2)), "id": np.arange(3)})
    t.copy_from(s)
    found = t.to_numpy()
    assert found["pos"].tolist() == [[1.0, 1.0]] * 3 and found["id"].tolist() == [0, 1, 2]
    t.fill(Body(mass=2))
    assert t.mass.to_numpy().tolist() == [2.0] * 3 and not t.pos.to_numpy().any()
    t.fill(1)
    assert t.id[2] == 1 and t.pos[0].entries == [1.0, 1.0]


def test_layout_of_members() -> None:
    s = sg.Struct.field({"pos": vec2, "m": sg.f32}, shape=4, layout=sg.Layout.SOA)
    assert s.pos.storage.shape == (2, 4) and s.layout == sg.Layout.SOA


def test_members_take_the_defaults_of_the_time() -> None:
    sg.init(arch=sg.reference, default_fp=sg.f32)
    assert Body.field(shape=1).mass.dtype == sg.f32 and Body(mass=0.1).mass == np.float32(0.1)
    assert Body.stackgrad_type.members[1] == ("mass", float)


def body() -> Any:
    return Body.field(shape=2, name="s")


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda: Body(mas=1), sg.StructError, "no member 'mas'\n    cure: did you mean mass?"),
        (lambda: Body(1, 2, 3, 4), sg.StructError, "members: pos, mass, id"),
        (lambda: Body([1, 2], pos=[1, 2]), sg.StructError, "members: pos, mass, id"),
        (lambda: Body(pos=[1, 2, 3]), sg.StructError, "'pos' is a vector of 2"),
        (lambda: Body(mass=[1, 2]), sg.StructError, "'mass' is one number"),
        (lambda: Body().mas, AttributeError, "did you mean mass?"),
        (lambda: setattr(Body(), "mas", 1), sg.StructError, "did you mean mass?"),
        (lambda: Body()["x"], sg.StructError, "no member 'x'"),
        (lambda: body().mas, AttributeError, "did you mean mass?"),
        (lambda: body()[0].mas, AttributeError, "did you mean mass?"),
        (lambda: body()[2].mass, sg.OutOfBounds, "index 2 of axis 0 is outside field 's'"),
        (lambda: body()[2], sg.OutOfBounds, "index 2 of axis 0"),
        (lambda: body().__setitem__(0, {"x": 1}), sg.StructError, "no member 'x'"),
        (lambda: body().__setitem__(0, 5), sg.StructError, "give pos, mass, id by name"),
        (lambda: body().grad, sg.GradientError, "make it with needs_grad=True"),
        (lambda: body().from_numpy({"x": 1}), sg.FieldError, "has no member 'x'"),
        (lambda: body().copy_from(Pair.field(shape=2)), sg.FieldError, "the same members"),
        (lambda: sg.types.struct().field(shape=1), sg.FieldError, "without members"),
        (lambda: sg.types.struct(items=sg.f32), sg.StructError, "cannot be called 'items'"),
        (lambda: sg.types.struct(a="text"), sg.StructError, "the member 'a': 'text' is not a scalar type"),
        (lambda: sg.Struct(a="text"), sg.StructError, "'a' cannot be 'text'"),
    ],
)
def test_mistakes(act: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert words in str(caught.value)


def test_fields_copy_without_gradients() -> None:
    s = Pair.field(shape=2, needs_grad=True)
    s[1].a.mass = 3
    s.grad.a.mass.fill(1)
    for other in (copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        other[1].b.mass = 4
        assert other[1].a.mass == 3.0 and s[1].b.mass == 0.0 and not other.needs_grad
        with pytest.raises(sg.GradientError):
            other.grad  # noqa: B018
