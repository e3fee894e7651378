"""The LLVM code generator turns IR kernels into LLVM IR for CPUs and GPUs.

It has one table of operations, and one emitter for each way to branch (branching code and masked code).
"""
