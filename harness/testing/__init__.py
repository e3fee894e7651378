"""This package runs kernels on executors and oracles, compares the results, and bounds their rounding errors.

It also holds replay and the pytest plugin that other projects use.
"""
