"""Kernels in the Metal Shading Language, translated from the SPIR-V of `backends/spirv` by SPIRV-Cross."""
