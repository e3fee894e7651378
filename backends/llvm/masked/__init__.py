"""This package emits masked code: a block of iterations runs at once, each as a lane of wide vectors."""

from .generate import eligible, generate_masked, lanes_by_task, lanes_of

__all__ = ["eligible", "generate_masked", "lanes_by_task", "lanes_of"]
