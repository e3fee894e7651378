"""Vulkan: kernels as compute shaders on any GPU that has buffer addresses, and on lavapipe, which is a CPU."""
