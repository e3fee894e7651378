"""Bend articulated arms so that their hands reach given places: rigid links, unit quaternions, inverse kinematics.

Joint k turns everything after it about its own axis a_k by its angle theta_k. Orientation is a unit quaternion
(Hamilton: "On quaternions", 1844; as in Shoemake: "Animating rotation with quaternion curves", 1985), and the chain
is a recurrence over its links:

    q <- q (cos theta_k / 2, a_k sin theta_k / 2),    hand <- hand + q (0, 0, length) q*

Arms differ in their number of joints, so every thread of the kernel has a loop of its own length. The unknowns are all
angles, found by descent along the slope of the squared distance of each hand from its goal (Wang, Chen: "A combined
optimization method for solving the inverse kinematics problem of mechanical manipulators", 1991). A small price on
the angles picks one of the many poses.

    python examples/rigid_chain.py [--arch cpu|reference] [--steps N] [--size small|full] [--import quadrants|taichi]
"""

from collections.abc import Callable
from typing import Any

import common
import numpy as np
import stackgrad as sg

REACH = 1.0
"""The length of each arm, whatever its number of joints."""
PRICE = 1.0e-5
RATE = 0.05
JOINTS = (3, 9)
SMALL = {"arms": 6, "iterations": 40}
CHECK = {"arms": 3, "iterations": 1}
"""What `stackgrad check` runs."""

vec3 = sg.types.vector(3, sg.f64)


@sg.dataclass
class Quaternion:
    """w + i x + j y + k z, with (x, y, z) = v."""

    w: sg.f64
    v: vec3

    @sg.func
    def times(self, other):
        """The product, with which rotations are carried out one after the other, the right one first."""
        return Quaternion(
            w=self.w * other.w - self.v.dot(other.v), v=self.w * other.v + other.w * self.v + self.v.cross(other.v)
        )

    @sg.func
    def rotate(self, u):
        """q u q* of a vector, for a unit quaternion q."""
        half = 2.0 * self.v.cross(u)
        return u + self.w * half + self.v.cross(half)


@sg.func
def turn(axis, angle):
    """The unit quaternion of the rotation about a unit vector."""
    return Quaternion(w=sg.cos(0.5 * angle), v=sg.sin(0.5 * angle) * axis)


@sg.data_oriented
class Arms:
    """joints of arm a are entries first[a] up to first[a + 1] of angle and axis; goal and hand: (arms,)."""

    def __init__(self, joints: np.ndarray) -> None:
        self.arms, total = len(joints), int(joints.sum())
        self.first = sg.field(sg.i32, shape=self.arms + 1)
        self.angle = sg.field(sg.f64, shape=total, needs_grad=True)
        self.axis = sg.Vector.field(3, sg.f64, shape=total)
        self.goal = sg.Vector.field(3, sg.f64, shape=self.arms)
        self.hand = sg.Vector.field(3, sg.f64, shape=self.arms, needs_grad=True)
        self.loss = sg.field(sg.f64, shape=(), needs_grad=True)
        self.first.from_numpy(np.concatenate([[0], np.cumsum(joints)]).astype(np.int32))

    @sg.kernel
    def stretch(self):
        """Forward kinematics: where the hands are."""
        for a in range(self.arms):
            q = Quaternion(w=1.0, v=sg.Vector([0.0, 0.0, 0.0]))
            hand = sg.Vector([0.0, 0.0, 0.0])
            length = REACH / (self.first[a + 1] - self.first[a])
            for k in range(self.first[a], self.first[a + 1]):
                q = q.times(turn(self.axis[k], self.angle[k]))
                hand += q.rotate(sg.Vector([0.0, 0.0, length]))
            self.hand[a] = hand

    @sg.kernel
    def compare(self):
        for a in self.hand:
            self.loss[None] += (self.hand[a] - self.goal[a]).norm_sqr() / self.arms
        for k in self.angle:
            self.loss[None] += PRICE * self.angle[k] ** 2 / self.arms


def build(arms: int) -> tuple[tuple[Any, ...], Callable[[], float]]:
    """The unknowns, one field of all angles, at a first guess; a function that runs the program and its gradient:
    it gives the loss and leaves d loss in `unknown.grad`.
    """
    rng = np.random.default_rng(11)
    joints = rng.integers(*JOINTS, arms, endpoint=True)
    made = Arms(joints)
    axes = np.eye(3)[np.arange(joints.sum()) % 2]  # x and y in turn, across the link
    made.axis.from_numpy(axes)
    made.angle.from_numpy(rng.normal(0.0, 0.1, joints.sum()))
    places = rng.normal(size=(arms, 3))
    places *= rng.uniform(0.5, 0.8, (arms, 1)) * REACH / np.linalg.norm(places, axis=1, keepdims=True)
    made.goal.from_numpy(places)

    def evaluate() -> float:
        with sg.ad.Tape(made.loss):
            made.stretch()
            made.compare()
        return float(made.loss[None])

    return (made.angle,), evaluate


def main(
    arms: int = 256, iterations: int = 100, rate: float = RATE, arch: Any = None, report: bool = True
) -> list[float]:
    """Reach; the mean squared distance from the goals, and the price, before each step."""
    common.start(arch)
    return common.minimize(*build(arms), iterations, rate, report)


if __name__ == "__main__":
    common.command_line(main, SMALL)
