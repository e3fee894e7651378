"""This package answers questions about kernels.

Where values lie, what is affine, which indices are inside. It changes none.
"""
