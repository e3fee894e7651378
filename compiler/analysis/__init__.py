"""This package contains analyses of kernels: affine indices, ranges, index checks, and uniformity over lanes.

An analysis returns facts on which passes and backends rely. It changes no kernel.
"""
