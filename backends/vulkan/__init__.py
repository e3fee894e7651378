"""Run kernels as compute shaders on any device with Vulkan 1.2; lavapipe, which runs on CPUs, is such a device."""
