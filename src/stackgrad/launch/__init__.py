"""This package leads from a call of a kernel to its launch.

Arguments, specialization, compilation, prepared launches.
"""
