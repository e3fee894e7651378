"""Bend articulated arms so that their hands reach given places: inverse kinematics with unit quaternions.

Joint k turns everything after it about its own axis a_k by its angle theta_k. Orientation is a unit quaternion
(Hamilton: "On quaternions", 1844; as in Shoemake: "Animating rotation with quaternion curves", 1985), and the chain
is a recurrence over its links:

    q <- q (cos theta_k / 2, a_k sin theta_k / 2),    hand <- hand + q (0, 0, length) q*

Arms differ in their number of joints, so every thread of the kernel has a loop of its own length. The unknowns are all
angles, found by gradient descent on the squared distance of each hand from its goal (Wang, Chen: "A combined
optimization method for solving the inverse kinematics problem of mechanical manipulators", 1991). A small penalty on
the angles selects one of the many poses.

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
    """Represent the quaternion w + i x + j y + k z, with (x, y, z) = v."""

    w: sg.f64
    v: vec3

    @sg.func
    def times(self, other):
        """Return the product of two quaternions; it represents the rotation `other`, followed by this one."""
        return Quaternion(
            w=self.w * other.w - self.v.dot(other.v), v=self.w * other.v + other.w * self.v + self.v.cross(other.v)
        )

    @sg.func
    def rotate(self, u):
        """Return the vector u rotated by this unit quaternion q: q u q*."""
        half = 2.0 * self.v.cross(u)
        return u + self.w * half + self.v.cross(half)


@sg.func
def turn(axis, angle):
    """Return the unit quaternion of the rotation about a unit vector by an angle."""
    return Quaternion(w=sg.cos(0.5 * angle), v=sg.sin(0.5 * angle) * axis)


@sg.data_oriented
class Arms:
    """Hold the arms: the joints of arm a are the entries first[a] to first[a + 1] - 1 of `angle` and `axis`.

    `goal` and `hand` have the shape (arms,).
    """

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
        """Compute the positions of the hands from the angles (forward kinematics)."""
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
    """Return the unknown angles, one field, at a first guess, and a function that evaluates them.

    The function computes the loss and its gradient, stores the gradient to `grad` of the angles, and returns the loss.
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
    """Optimize the angles. Return the mean squared distance from the goals plus the penalty, before each step."""
    common.start(arch)
    return common.minimize(*build(arms), iterations, rate, report)


if __name__ == "__main__":
    common.command_line(main, SMALL)
