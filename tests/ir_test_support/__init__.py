"""This package makes kernels for the tests of the IR and of the passes."""
