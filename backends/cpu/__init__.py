"""The CPU backend compiles kernels with LLVM for the host and calls them through one packed argument block."""
