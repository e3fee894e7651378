"""This package emulates a CUDA driver without a GPU: it runs the LLVM text of kernels on the host.

It follows the protocol of backends/cuda/driver.py. Everything in the CUDA backend except NVIDIA's compiler is tested on
it: generated code, host code, heap, sizes, errors. It is stricter than a device where that finds mistakes; `driver.py`
lists where.
"""
