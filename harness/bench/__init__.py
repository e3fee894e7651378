"""Benchmarks that anyone can run: `python -m stackgrad.harness.bench [WORK ...] [--peers quadrants,jax]`.

Every library runs the same kernels in a process of its own; samples are taken in turns, so that all see the same
machine. Figures are medians.
"""
