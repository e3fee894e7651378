"""This package turns calls of kernels into launches: it matches arguments, traces, compiles and runs.

Its modules handle arguments, specialization, compilation and prepared launches.
"""
