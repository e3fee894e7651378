"""This package judges kernels.

Executors, oracles, error bounds, replay, and the pytest plugin that other projects use.
"""
