"""Define programs whose machine code is cached; tests run them in other processes and in their own."""

from __future__ import annotations

from typing import Any

import stackgrad as sg


class Sums:
    """Represent a program that stores v to y[i] after n[i] steps; a second kernel draws numbers, asserts and prints."""

    def __init__(self, size: int = 5) -> None:
        self.x = x = sg.field(sg.f32, shape=size, needs_grad=True)
        self.y = y = sg.field(sg.f32, shape=size, needs_grad=True)
        self.n = n = sg.field(sg.i32, shape=size)
        for i in range(size):
            x[i], n[i] = 0.25 * i, i

        @sg.kernel
        def grow() -> None:
            for i in range(size):
                v = x[i]
                for _ in range(n[i]):
                    v = sg.sin(v) * v + 1.0
                y[i] = v

        @sg.kernel
        def strict(limit: sg.i32) -> None:
            for _ in range(1):
                print("limit", limit)
                assert limit < 3, "the limit is 3"
                y[limit] = 1.0

        self.grow: Any = grow
        self.strict: Any = strict

    def gradient(self) -> list[float]:
        """Launch the kernel and its gradient."""
        self.x.grad.fill(0.0)
        self.y.grad.fill(1.0)
        self.grow()
        self.grow.grad()
        return [float(v) for v in self.x.grad.to_numpy()]


def main() -> None:
    """Run the program and print its gradient."""
    sg.init(arch=sg.cpu)
    print(Sums().gradient())


if __name__ == "__main__":
    main()
