"""The masked way to emit a parallel task: a block of iterations at once, each one lane of wide vectors."""

from .generate import eligible, generate_masked, lanes_by_task, lanes_of

__all__ = ["eligible", "generate_masked", "lanes_by_task", "lanes_of"]
