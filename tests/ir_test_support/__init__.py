"""Kernels for the tests of the IR and of the passes."""
