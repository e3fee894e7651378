"""SPIR-V: kernels as compute shaders, written word by word."""
