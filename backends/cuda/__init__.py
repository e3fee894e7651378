"""The CUDA backend: PTX from the LLVM generator."""
