"""This package turns calls of kernels into launches: it matches arguments, traces, compiles and runs.

Arguments, specialization, compilation, prepared launches.
"""
