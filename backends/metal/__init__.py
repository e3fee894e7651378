"""Translate kernels to the Metal Shading Language, from the SPIR-V of `backends/spirv`, by SPIRV-Cross."""
