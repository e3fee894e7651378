"""This package contains analyses of kernels: affine indices, ranges, index checks, and uniformity over lanes.

Where values lie, what is affine, which indices are inside. It changes none.
"""
