"""The LLVM code generator: IR kernels to LLVM IR for CPUs and GPUs. One op table, one emitter per way to branch."""
