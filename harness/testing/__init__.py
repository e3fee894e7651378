"""This package runs kernels on executors and oracles, compares the results, and bounds their rounding errors.

Executors, oracles, error bounds, replay, and the pytest plugin that other projects use.
"""
