"""Generate SPIR-V modules: kernels become compute shaders, written word by word."""
