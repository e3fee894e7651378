"""A CUDA driver without a GPU: it runs the LLVM text of kernels on the host (protocol: backends/cuda/driver.py).

Everything of the CUDA backend but NVIDIA's compiler is tested on it: generated code, host code, heap, sizes, errors.
It is stricter than a device where that finds mistakes: `driver.py` says in what.
"""
