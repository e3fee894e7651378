"""The CUDA backend runs kernels on NVIDIA GPUs, as PTX that the LLVM generator makes."""
