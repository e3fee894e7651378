"""The CPU backend: kernels compiled by LLVM for the host, called through one packed argument block."""
