"""This package contains benchmarks: `python -m stackgrad.harness.tools.bench [WORK ...] [--peers quadrants,jax]`.

Every library runs the same kernels in its own process. Samples are taken in turns, so that all libraries see the same
state of the machine. Figures are medians.
"""
