"""This package emits a parallel task as masked code: a block of iterations at once, each a lane of wide vectors."""

from .generate import eligible, generate_masked, lanes_by_task, lanes_of

__all__ = ["eligible", "generate_masked", "lanes_by_task", "lanes_of"]
